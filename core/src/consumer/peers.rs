//! What a group may know of the brokers: where they are and whether they know us.

use crate::consumer::cx::Replica;
use crate::consumer::heartbeat::Heartbeats;
use crate::consumer::routes::Routes;
use crate::ids::{BrokerName, Topic};
use crate::status::HoldReason;
use crate::wire::request::route::MASTER_ID;

/// A view, for the time of one call.
#[derive(Clone, Copy)]
pub(crate) struct Peers<'a> {
    pub(crate) routes: &'a Routes,
    pub(crate) beats: &'a Heartbeats,
}

impl<'a> Peers<'a> {
    pub(crate) const fn of(routes: &'a Routes, beats: &'a Heartbeats) -> Self {
        Self { routes, beats }
    }

    /// Whether a replica that knows at least `revision` of us can be asked, and whether it is the
    /// master.
    pub(crate) fn readiness(
        &self,
        broker: &BrokerName,
        replica: Replica,
        revision: u64,
    ) -> (Result<(), HoldReason>, bool) {
        match self.routes.address(broker, replica) {
            Some((id, addr)) => (self.beats.readiness(addr, revision), id == MASTER_ID),
            None => (Err(HoldReason::NoBrokerAddress), false),
        }
    }

    /// The broker that is asked for the members when it comes to this topic: the first by name that
    /// knows the group, which was named first at `revision`, on the connection that stands. Members of ours
    /// so ask the same one.
    pub(crate) fn speaker(&self, topic: &Topic, revision: u64) -> Option<BrokerName> {
        let knows_us = |broker: &&BrokerName| {
            let (ready, _) = self.readiness(broker, Replica::MasterElseSlave, revision);
            ready.is_ok()
        };
        self.routes.brokers_of(topic).find(knows_us).cloned()
    }
}
