//! When the share is computed again, and from which answers.
//!
//! One round at a time: every broker that speaks for a topic of the group is asked once for the
//! members, answers of an earlier round are nobody's. What comes in between makes the next round
//! come soon. A round lasts until the application has told the shares that it computes itself.
//!
//! Notifications are debounced. When the last one of a broker changed nothing, the next one of the
//! same broker is taken at the earliest a second later: a link that flaps makes it announce for ever.
//! Other brokers are heard all the same: each announces a change when it has learned of it, and what
//! the first one announces the broker that we ask may not know yet.
//= rocketmq: RebalanceService.run type=differs
//  reason: reacts to a change within the debounce instead of within a second.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use crate::consumer::cx::{Cx, GroupTimer, TimerKey};
use crate::ids::{BrokerName, ClientId, GroupKey, PeerAddr, Topic};
use crate::time::Instant;

/// At most one round a second for notifications of one broker that change nothing.
const USELESS_NOTIFICATION_GAP: Duration = Duration::from_secs(1);

/// Why a round is wanted, the most urgent reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// We learned something ourselves: a route, an acknowledged heartbeat.
    Learned,
    /// A broker said that the members have changed.
    Notified,
    /// The last round was not complete.
    Retry,
}

/// A topic whose share the application computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deciding {
    pub(crate) topic: Topic,
    /// Whether another member may still hold what is ours by now.
    pub(crate) others: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Rebalance {
    group: GroupKey,
    round: u64,
    /// Brokers whose answer is awaited, and the topics they speak for.
    awaited: BTreeMap<BrokerName, Vec<Topic>>,
    /// Topics whose share the application computes, by the serial of the question.
    deciding: BTreeMap<u64, Deciding>,
    serials: u64,
    again: Option<Why>,
    complete: bool,
    /// Brokers that have announced a change since the last round began.
    announced: BTreeSet<PeerAddr>,
    /// When the round began that followed a broker's notification and changed nothing.
    useless: BTreeMap<PeerAddr, Instant>,
    members: Vec<ClientId>,
}

impl Rebalance {
    pub(crate) const fn new(group: GroupKey) -> Self {
        Self {
            group,
            round: 0,
            awaited: BTreeMap::new(),
            deciding: BTreeMap::new(),
            serials: 0,
            again: None,
            complete: true,
            announced: BTreeSet::new(),
            useless: BTreeMap::new(),
            members: Vec::new(),
        }
    }

    /// A broker has announced a change.
    pub(crate) fn notified(&mut self, cx: &mut Cx<'_>, broker: PeerAddr, debounce: Duration) {
        self.announced.insert(broker);
        self.wanted(cx, Why::Notified, debounce);
    }

    /// When the first of the brokers that have announced a change is to be heard.
    fn heard_from(&self) -> Instant {
        let earliest = self.announced.iter().map(|broker| {
            self.useless
                .get(broker)
                .map_or(Instant::ZERO, |last| *last + USELESS_NOTIFICATION_GAP)
        });
        earliest.min().unwrap_or(Instant::ZERO)
    }

    /// A round is wanted; it comes as soon as the rules allow.
    pub(crate) fn wanted(&mut self, cx: &mut Cx<'_>, why: Why, debounce: Duration) {
        if self.is_running() {
            self.again = Some(self.again.map_or(why, |earlier| earlier.min(why)));
            return;
        }
        let at = match why {
            Why::Notified => self.heard_from().max(cx.now + debounce),
            Why::Learned => cx.now,
            Why::Retry => cx.now + Duration::from_secs(1),
        };
        cx.timers.set_no_later(self.timer(), at);
    }

    /// A round begins: these brokers are asked. Returns its number.
    pub(crate) fn begin(&mut self, now: Instant, asked: BTreeMap<BrokerName, Vec<Topic>>) -> u64 {
        self.round += 1;
        self.awaited = asked;
        self.complete = true;
        self.again = None;
        self.useless
            .retain(|_, last| *last + USELESS_NOTIFICATION_GAP > now);
        let announced = core::mem::take(&mut self.announced);
        self.useless
            .extend(announced.into_iter().map(|broker| (broker, now)));
        self.round
    }

    /// Whether a round is running.
    pub(crate) fn is_running(&self) -> bool {
        !self.awaited.is_empty() || !self.deciding.is_empty()
    }

    /// The application is asked for the share of a topic, until a deadline. Returns the question's serial.
    pub(crate) fn ask(&mut self, cx: &mut Cx<'_>, deciding: Deciding, timeout: Duration) -> u64 {
        self.serials += 1;
        self.deciding.insert(self.serials, deciding);
        cx.timers.set_no_later(
            TimerKey::Group(self.group, GroupTimer::Allocate),
            cx.now + timeout,
        );
        self.serials
    }

    /// Takes a question that the application has answered; `None` when nobody waits for it.
    pub(crate) fn decided(&mut self, cx: &mut Cx<'_>, serial: u64) -> Option<Deciding> {
        let deciding = self.deciding.remove(&serial)?;
        if self.deciding.is_empty() {
            cx.timers
                .cancel(TimerKey::Group(self.group, GroupTimer::Allocate));
        }
        Some(deciding)
    }

    /// The deadline: takes what the application has not answered.
    pub(crate) fn undecided(&mut self) -> Vec<Deciding> {
        core::mem::take(&mut self.deciding).into_values().collect()
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

    pub(crate) fn changed_something(&mut self) {
        self.useless.clear();
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
        self.deciding.clear();
        self.announced.clear();
        self.again = None;
        cx.timers
            .cancel(TimerKey::Group(self.group, GroupTimer::Allocate));
        cx.timers.cancel(self.timer());
    }

    const fn timer(&self) -> TimerKey {
        TimerKey::Group(self.group, GroupTimer::Rebalance)
    }
}

#[cfg(test)]
mod tests;
