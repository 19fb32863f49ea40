//! When the share is computed again, and from which answers.
//!
//! One round at a time: every broker that speaks for a topic of the group is asked once for the
//! members, answers of an earlier round are nobody's. What comes in between makes the next round
//! come soon.
//!
//! Notifications are debounced. When the last one changed nothing, the next is taken at the earliest
//! a second later: brokers announce the same change once each, and a link that flaps makes them
//! announce for ever.
//= rocketmq: RebalanceService.run type=differs
//  reason: reacts to a change within the debounce instead of within a second.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::consumer::cx::{Cx, GroupTimer, TimerKey};
use crate::ids::{BrokerName, ClientId, GroupKey, Topic};
use crate::time::Instant;

/// At most one round a second for notifications that change nothing.
const USELESS_NOTIFICATION_GAP: Duration = Duration::from_secs(1);

/// Why a round is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A broker said that the members have changed.
    Notified,
    /// We learned something ourselves: a route, an acknowledged heartbeat.
    Learned,
    /// The last round was not complete.
    Retry,
}

#[derive(Clone, Debug)]
pub(crate) struct Rebalance {
    group: GroupKey,
    round: u64,
    /// Brokers whose answer is awaited, and the topics they speak for.
    awaited: BTreeMap<BrokerName, Vec<Topic>>,
    again: Option<Why>,
    complete: bool,
    notified_at: Option<Instant>,
    last_notification_useless: bool,
    members: Vec<ClientId>,
}

impl Rebalance {
    pub(crate) const fn new(group: GroupKey) -> Self {
        Self {
            group,
            round: 0,
            awaited: BTreeMap::new(),
            again: None,
            complete: true,
            notified_at: None,
            last_notification_useless: false,
            members: Vec::new(),
        }
    }

    /// A round is wanted; it comes as soon as the rules allow.
    pub(crate) fn wanted(&mut self, cx: &mut Cx<'_>, why: Why, debounce: Duration) {
        if !self.awaited.is_empty() {
            self.again = Some(why);
            return;
        }
        let at = match why {
            Why::Notified => {
                let earliest = match self.notified_at {
                    Some(last) if self.last_notification_useless => last + USELESS_NOTIFICATION_GAP,
                    Some(_) | None => cx.now,
                };
                earliest.max(cx.now + debounce)
            }
            Why::Learned => cx.now,
            Why::Retry => cx.now + Duration::from_secs(1),
        };
        if why == Why::Notified && cx.timers.deadline(self.timer()).is_none_or(|armed| at < armed) {
            self.notified_at = Some(at);
        }
        cx.timers.set_no_later(self.timer(), at);
    }

    /// A round begins: these brokers are asked. Returns its number.
    pub(crate) fn begin(&mut self, asked: BTreeMap<BrokerName, Vec<Topic>>) -> u64 {
        self.round += 1;
        self.awaited = asked;
        self.complete = true;
        self.again = None;
        self.last_notification_useless = true;
        self.round
    }

    /// Whether a round is running.
    pub(crate) fn is_running(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Takes the answer of a broker: the topics it decides; `None` when nobody waits for it.
    pub(crate) fn answered(&mut self, round: u64, broker: &BrokerName) -> Option<Vec<Topic>> {
        if round != self.round {
            return None;
        }
        self.awaited.remove(broker)
    }

    pub(crate) const fn incomplete(&mut self) {
        self.complete = false;
    }

    pub(crate) const fn changed_something(&mut self) {
        self.last_notification_useless = false;
    }

    pub(crate) fn learn_members(&mut self, members: &[ClientId]) {
        self.members = members.to_vec();
    }

    pub(crate) fn members(&self) -> &[ClientId] {
        &self.members
    }

    /// After each answer: when the round is over, the next one is armed.
    pub(crate) fn settle(&mut self, cx: &mut Cx<'_>, debounce: Duration, interval: Duration) {
        if self.is_running() {
            return;
        }
        match self.again.take() {
            Some(why) => self.wanted(cx, why, debounce),
            None if !self.complete => self.wanted(cx, Why::Retry, debounce),
            None => {}
        }
        cx.timers.set_no_later(self.timer(), cx.now + interval);
    }

    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>) {
        self.round += 1;
        self.awaited.clear();
        self.again = None;
        cx.timers.cancel(self.timer());
    }

    const fn timer(&self) -> TimerKey {
        TimerKey::Group(self.group, GroupTimer::Rebalance)
    }
}
