//! What a group may know of the brokers: where they are, whether they know us, and which replica is read.
//!
//! | there is | read is |
//! |---|---|
//! | a slave that was suggested, or the one behind it, and it knows us | that slave |
//! | a master that is not away | the master, also while it does not know us yet |
//! | a slave that knows us | the first of them |
//! | none of these | the master, else the first slave: as soon as it knows us |
//!
//! A suggestion is advice: who follows one that leads nowhere stands still.
//= rocketmq: MQClientInstance.findBrokerAddressInSubscribe type=differs
//  reason: a master that cannot be reached is done without, and a replica that does not know us is no choice.

use crate::consumer::cx::Replica;
use crate::consumer::heartbeat::Heartbeats;
use crate::consumer::routes::Routes;
use crate::ids::{BrokerName, PeerAddr, Topic};
use crate::status::HoldReason;
use crate::wire::request::route::MASTER_ID;

/// A view, for the time of one call.
#[derive(Clone, Copy)]
pub(crate) struct Peers<'a> {
    pub(crate) routes: &'a Routes,
    pub(crate) beats: &'a Heartbeats,
}

/// The replica of a broker that is asked for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Its id, if the broker has any replica.
    pub(crate) id: Option<i64>,
    /// Whether it can be asked now.
    pub(crate) ready: Result<(), HoldReason>,
}

impl Chosen {
    /// Whether what it says of offsets can be trusted, and it stores those that it is told.
    pub(crate) fn is_master(self) -> bool {
        self.id == Some(MASTER_ID)
    }

    /// The destination. Nobody is behind it if there is no replica.
    pub(crate) fn replica(self) -> Replica {
        self.id.map_or(Replica::Master, Replica::Exactly)
    }
}

impl<'a> Peers<'a> {
    pub(crate) const fn of(routes: &'a Routes, beats: &'a Heartbeats) -> Self {
        Self { routes, beats }
    }

    /// The replica to read from, one that knows at least `revision` of us; `suggested` is what the last answer
    /// wished.
    pub(crate) fn reader(&self, broker: &BrokerName, suggested: i64, revision: u64) -> Chosen {
        let Some(replicas) = self.routes.replicas(broker).filter(|ids| !ids.is_empty()) else {
            let ready = Err(HoldReason::NoBrokerAddress);
            return Chosen { id: None, ready };
        };
        let ready = |addr: &PeerAddr| self.beats.readiness(addr, revision);
        let knows_us = |id: &i64| replicas.get(id).is_some_and(|addr| ready(addr).is_ok());
        let wanted = [suggested, suggested.saturating_add(1)];
        let by_suggestion = wanted
            .into_iter()
            .find(|id| suggested > MASTER_ID && knows_us(id));
        let master = replicas
            .get(&MASTER_ID)
            .filter(|addr| !self.beats.is_away(addr))
            .map(|_| MASTER_ID);
        let any = || {
            replicas
                .keys()
                .find(|id| **id != MASTER_ID && knows_us(id))
                .copied()
        };
        let waiting = || replicas.keys().next().copied();
        let id = by_suggestion.or(master).or_else(any).or_else(waiting);
        let ready = id
            .and_then(|id| replicas.get(&id))
            .map_or(Err(HoldReason::NoBrokerAddress), ready);
        Chosen { id, ready }
    }

    /// The replica that is asked what needs no particular one and not our newest subscriptions.
    pub(crate) fn listener(&self, broker: &BrokerName) -> Chosen {
        self.reader(broker, MASTER_ID, 0)
    }

    /// Whether the master of a broker is there and knows us: only masters write.
    pub(crate) fn has_master(&self, broker: &BrokerName) -> bool {
        let master = self.routes.replicas(broker).and_then(|ids| ids.get(&MASTER_ID));
        master.is_some_and(|addr| self.beats.readiness(addr, 0).is_ok())
    }

    /// The broker that is asked for the members when it comes to this topic: the first by name that
    /// knows the group, which was named first at `revision`, on the connection that stands. Members of ours
    /// so ask the same one.
    pub(crate) fn speaker(&self, topic: &Topic, revision: u64) -> Option<BrokerName> {
        let knows_us = |broker: &&BrokerName| self.reader(broker, MASTER_ID, revision).ready.is_ok();
        self.routes.brokers_of(topic).find(knows_us).cloned()
    }
}

#[cfg(test)]
mod tests;
