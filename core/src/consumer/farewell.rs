//! How a group takes its leave: every broker that may know it is told, then it is forgotten.
//!
//! The connections may go on for the other groups of the client, and a membership hangs on its connection. A
//! broker has other threads for heartbeats than for farewells: a heartbeat that names the group and is still
//! under way can make it a member again after its farewell, and its queues would be read by nobody until the
//! broker misses its heartbeats, two minutes later. So a farewell waits for the heartbeat that is under way,
//! and what nobody has confirmed is said again after the next heartbeat that was answered.
//!
//! ```text
//!  leave ─ a heartbeat is under way ─► AfterBeat ─ it has ended ─┐
//!    └──── none is ──────────────────────────────────────────────┴─► Asked ─ confirmed, or the link broke ─► over
//!                                    Again ◄─ not answered, refused ───┘▲
//!                                      └──── a heartbeat was answered ──┘
//! ```
//!
//! A start of the same group ends whatever is left of its former farewell.
//= rocketmq: MQClientInstance.unregisterClient type=differs
//  reason: acknowledged, after the heartbeat under way, and again where nobody confirmed it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::cx::{Destination, Purpose, Question, QuestionBody};
use super::{ConsumerState, Life};
use crate::action::{AppAction, CallError};
use crate::ids::{ConsumerGroup, GroupKey, PeerAddr, Topic};
use crate::wire::request::heartbeat::UnregisterRequest;

/// Farewells that may be owed because brokers take us for members of groups that are not here: nobody can
/// make us remember more.
const STRANGE_MAX: usize = 256;

/// What is left of a farewell to one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A heartbeat that may name the group is under way.
    AfterBeat,
    /// Said, and not confirmed yet.
    Asked,
    /// Said, and not confirmed in time.
    Again,
}

/// Who has not been told yet, or has not confirmed it, that a group has left.
#[derive(Clone, Debug, Default)]
pub(super) struct Farewells {
    owed: BTreeMap<(PeerAddr, ConsumerGroup), Step>,
}

impl Farewells {
    /// A group begins: it wants to be a member again.
    pub(super) fn revoke(&mut self, group: &ConsumerGroup) {
        self.owed.retain(|(_, of), _| of != group);
    }

    /// Whether the group still waits for somebody.
    fn waits(&self, group: &ConsumerGroup) -> bool {
        let mut left = self.owed.iter().filter(|((_, of), _)| of == group);
        left.any(|(_, step)| *step != Step::Again)
    }

    /// A heartbeat to this broker has ended: whose farewell it is time for.
    fn due(&mut self, addr: &PeerAddr) -> Vec<ConsumerGroup> {
        let to_say = |step: &Step| matches!(step, Step::AfterBeat | Step::Again);
        let of_addr = self
            .owed
            .iter_mut()
            .filter(|((of, _), step)| of == addr && to_say(step));
        let due = of_addr.map(|((_, group), step)| {
            *step = Step::Asked;
            group.clone()
        });
        due.collect()
    }

    /// The connection is gone, and every membership with it. Whom that concerns.
    fn link_lost(&mut self, addr: &PeerAddr) -> Vec<ConsumerGroup> {
        let of_addr = self.owed.keys().filter(|(of, _)| of == addr);
        let groups: Vec<ConsumerGroup> = of_addr.map(|(_, group)| group.clone()).collect();
        self.owed.retain(|(of, _), _| of != addr);
        groups
    }
}

impl ConsumerState {
    pub(super) fn say_farewell(&mut self, key: GroupKey) {
        let Some(name) = self.groups.get(key).map(|group| group.name().clone()) else {
            return;
        };
        for (addr, under_way) in self.beats.told() {
            // When the whole client leaves, its connections are closed after this, which says the same.
            if under_way && self.life == Life::Running {
                self.farewells.owed.insert((addr, name.clone()), Step::AfterBeat);
            } else if self.beats.is_acknowledged(&addr) {
                self.bid_farewell(addr, name.clone());
            }
        }
        self.check_told(&name);
    }

    fn bid_farewell(&mut self, addr: PeerAddr, group: ConsumerGroup) {
        let body = QuestionBody::Unregister(UnregisterRequest {
            client_id: self.config.client_id.clone(),
            consumer_group: Some(group.clone()),
            producer_group: None,
        });
        self.farewells
            .owed
            .insert((addr.clone(), group.clone()), Step::Asked);
        self.ask(Question {
            to: Destination::Address(addr.clone()),
            body,
            timeout: self.config.request_timeout,
            purpose: Purpose::Unregister { addr, group },
        });
    }

    /// A broker has answered a farewell, or will not.
    pub(super) fn on_farewell(
        &mut self,
        addr: PeerAddr,
        group: ConsumerGroup,
        result: Result<(), CallError>,
    ) {
        let name = group.clone();
        let key = (addr, group);
        match result {
            // A membership ends with its connection.
            Ok(()) | Err(CallError::Closed | CallError::Connect(_) | CallError::NoRoute) => {
                self.farewells.owed.remove(&key);
            }
            Err(
                CallError::Timeout
                | CallError::Broker { .. }
                | CallError::Overloaded
                | CallError::Malformed(_),
            ) => {
                if let Some(step) = self.farewells.owed.get_mut(&key) {
                    *step = Step::Again;
                }
            }
        }
        self.check_told(&name);
    }

    /// A heartbeat has ended; `lost` when its connection is gone.
    pub(super) fn on_beat_ended(&mut self, addr: &PeerAddr, lost: bool) {
        if lost {
            return self.on_link_lost(addr);
        }
        for group in self.farewells.due(addr) {
            self.bid_farewell(addr.clone(), group);
        }
    }

    /// Who is not connected is a member of nothing.
    pub(super) fn on_link_lost(&mut self, addr: &PeerAddr) {
        for group in self.farewells.link_lost(addr) {
            self.check_told(&group);
        }
    }

    /// A broker takes us for a member of a group that is not here: a heartbeat of a former life was late.
    pub(super) fn on_taken_for_member(&mut self, addr: PeerAddr, group: ConsumerGroup) {
        let owed = &mut self.farewells.owed;
        let is_owed = owed.contains_key(&(addr.clone(), group.clone()));
        if self.life == Life::Running && !is_owed && owed.len() < STRANGE_MAX {
            self.bid_farewell(addr, group);
        }
    }

    fn check_told(&mut self, group: &ConsumerGroup) {
        if self.farewells.waits(group) {
            return;
        }
        let key = self.by_name.get(group).copied();
        let mut cx = self.ground.cx();
        if let Some(group) = key.and_then(|key| self.groups.get_mut(key)) {
            group.on_everybody_told(&mut cx);
        }
    }

    pub(super) fn stopped(&mut self, key: GroupKey) {
        let Some(group) = self.groups.remove(key) else {
            return;
        };
        self.by_name.remove(group.name());
        let report = Box::new(group.report().clone());
        self.ground.out.push(AppAction::GroupStopped {
            group: group.name().clone(),
            report,
        });
        let used = self.used_topics();
        let mut cx = self.ground.cx();
        self.routes.keep_only(&mut cx, &used);
        if !used.is_empty() {
            self.beats.subscriptions_changed(&mut cx, true);
        } else {
            self.beats.stop(&mut cx);
        }
        self.use_addresses();
        self.close_if_empty();
    }

    /// The topics whose routes are needed.
    pub(super) fn used_topics(&self) -> BTreeSet<Topic> {
        let topics = self.groups.iter().flat_map(|(_, group)| group.topics());
        topics.cloned().collect()
    }
}

#[cfg(test)]
mod tests;
