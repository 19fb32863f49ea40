use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use rocketmq_consumer_core::action::NetAction;
use rocketmq_consumer_core::time::{Instant, WallTime};

use super::JavaOutput;

/// What a timer is for. Ties fire in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// An attempt to connect has lasted long enough.
    Dial(u32),
    /// A request has waited long enough.
    Request(i32),
    /// Routes of all topics.
    Routes,
    /// Heartbeats to all brokers.
    Heartbeat,
    /// Offsets of all queues.
    Persist,
    /// The next rebalance.
    Rebalance,
    /// The pull of an ownership.
    Pull(u64),
    /// A failed message is given to the handler again.
    Again(u64),
    /// All queue locks are renewed.
    LockAll,
    /// The lock of an ownership is tried for again.
    LockAgain(u64),
    /// The listener of an ownership goes on.
    Listen(u64),
    /// A listener has not let go of a queue that is given back.
    Removal(u64),
}

/// What every step stands on: time, timers, and the way out.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) now: Instant,
    /// Where the wall clock stood at which instant.
    pub(super) clock: (Instant, WallTime),
    timers: BTreeSet<(Instant, Timer)>,
    pub(super) out: VecDeque<JavaOutput>,
}

impl Ground {
    pub(super) const fn new(now: Instant, wall: WallTime) -> Self {
        Self {
            now,
            clock: (now, wall),
            timers: BTreeSet::new(),
            out: VecDeque::new(),
        }
    }

    pub(super) fn net(&mut self, action: NetAction) {
        self.out.push_back(JavaOutput::Net(action));
    }

    pub(super) fn wall(&self) -> WallTime {
        let (at, wall) = self.clock;
        wall.plus(self.now.saturating_since(at))
    }

    /// Arms a timer and returns when it fires, by which it can be disarmed.
    pub(super) fn arm(&mut self, after: Duration, timer: Timer) -> Instant {
        let at = self.now + after;
        self.timers.insert((at, timer));
        at
    }

    pub(super) fn disarm(&mut self, at: Instant, timer: Timer) {
        self.timers.remove(&(at, timer));
    }

    pub(super) fn pop_due(&mut self) -> Option<Timer> {
        if self.timers.first()?.0 > self.now {
            return None;
        }
        self.timers.pop_first().map(|(_, timer)| timer)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn clear_timers(&mut self) {
        self.timers.clear();
    }

    /// From now on nothing is begun; what is under way still ends.
    pub(super) fn clear_timers_but_links(&mut self) {
        self.timers
            .retain(|(_, timer)| matches!(timer, Timer::Dial(_) | Timer::Request(_)));
    }
}
