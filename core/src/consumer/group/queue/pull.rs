//! The long poll of one queue: at most one pull of an ownership is outstanding.
//!
//! ```text
//!              ask                      answered
//!  Ready ─────────────► InFlight ───────────────────► Ready
//!    │ gate closed         │ failed, refused
//!    ▼                     ▼
//!  Held(reason)         Paused(reason, until)      any ── stop ──► Stopped
//!    └── gate open ─► Ready └── timer ──► Ready
//! ```
//!
//! There is one way from `Ready` to `InFlight`, and it passes the gate; a timer that ends a pause
//! passes it too.
//= rocketmq: DefaultMQPushConsumerImpl.pullMessage type=differs
//  reason: held queues resume when what held them ends, not after 50 ms; no pull at equality.

use core::time::Duration;

use crate::consumer::cx::{Cx, QueueTimer, TimerKey};
use crate::ids::{GroupKey, QueueKey, QueueOffset};
use crate::status::HoldReason;
use crate::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullState {
    /// The gate has not been asked yet.
    Ready,
    /// At the broker.
    InFlight { serial: u64 },
    /// Nothing to do until what holds it ends.
    Held(HoldReason),
    /// A timer is armed.
    Paused(HoldReason),
    /// Never again in this epoch.
    Stopped,
}

#[derive(Clone, Debug)]
pub(crate) struct PullLoop {
    key: TimerKey,
    state: PullState,
    since: Instant,
    serial: u64,
    /// Failures in a row.
    failures: u32,
    /// Answers in a row that brought nothing and moved nothing although they should have.
    standstills: u32,
    /// The replica the last answer suggested.
    suggested: i64,
    max_offset: Option<QueueOffset>,
}

impl PullLoop {
    pub(crate) const fn new(group: GroupKey, queue: QueueKey, now: Instant) -> Self {
        Self {
            key: TimerKey::Queue(group, queue, QueueTimer::Pull),
            state: PullState::Ready,
            since: now,
            serial: 0,
            failures: 0,
            standstills: 0,
            suggested: 0,
            max_offset: None,
        }
    }

    pub(crate) const fn state(&self) -> PullState {
        self.state
    }

    pub(crate) const fn since(&self) -> Instant {
        self.since
    }

    pub(crate) const fn suggested(&self) -> i64 {
        self.suggested
    }

    pub(crate) const fn max_offset(&self) -> Option<QueueOffset> {
        self.max_offset
    }

    /// Whether the gate should be asked now.
    pub(crate) const fn may_ask(&self) -> bool {
        matches!(self.state, PullState::Ready | PullState::Held(_))
    }

    /// The gate is open: a pull goes out under the serial this returns.
    pub(crate) fn ask(&mut self, now: Instant) -> u64 {
        debug_assert!(self.may_ask(), "every way to a pull passes the gate");
        self.serial += 1;
        self.set(PullState::InFlight { serial: self.serial }, now);
        self.serial
    }

    /// The gate is closed. True when the reason is new.
    pub(crate) fn hold(&mut self, reason: HoldReason, now: Instant) -> bool {
        let new = self.state != PullState::Held(reason);
        if new {
            self.set(PullState::Held(reason), now);
        }
        new
    }

    /// Takes the answer of a serial; false when it is not the one that is waited for.
    pub(crate) fn answered(&mut self, serial: u64, now: Instant) -> bool {
        let expected = self.state == PullState::InFlight { serial };
        if expected {
            self.set(PullState::Ready, now);
        }
        expected
    }

    /// An answer was good.
    pub(crate) const fn worked(&mut self, suggested: Option<i64>, max_offset: Option<QueueOffset>) {
        self.failures = 0;
        if let Some(suggested) = suggested {
            self.suggested = suggested;
        }
        if max_offset.is_some() {
            self.max_offset = max_offset;
        }
    }

    /// The answer moved the queue on, or legitimately had nothing.
    pub(crate) const fn moved(&mut self) {
        self.standstills = 0;
    }

    /// The answer should have moved the queue and did not; returns how often in a row.
    pub(crate) const fn stood_still(&mut self) -> u32 {
        self.standstills = self.standstills.saturating_add(1);
        self.standstills
    }

    /// Pauses after a failure; `base` doubles up to `most` while failures of a permanent kind follow
    /// each other.
    pub(crate) fn back_off(&mut self, cx: &mut Cx<'_>, base: Duration, most: Duration, permanent: bool) {
        let doublings = if permanent { self.failures.min(16) } else { 0 };
        self.failures = self.failures.saturating_add(1);
        self.pause(
            cx,
            base.saturating_mul(1 << doublings).min(most),
            HoldReason::BackingOff,
        );
    }

    pub(crate) fn pause(&mut self, cx: &mut Cx<'_>, pause: Duration, reason: HoldReason) {
        self.set(PullState::Paused(reason), cx.now);
        cx.timers.set(self.key.clone(), cx.now + pause);
    }

    /// The pause is over.
    pub(crate) fn on_timer(&mut self, now: Instant) {
        if let PullState::Paused(_) = self.state {
            self.set(PullState::Ready, now);
        }
    }

    /// A broker that was away is back: no reason to sit out the pause its absence caused.
    pub(crate) fn cut_pause(&mut self, cx: &mut Cx<'_>) {
        if self.state == PullState::Paused(HoldReason::BackingOff) {
            cx.timers.cancel(self.key.clone());
            self.set(PullState::Ready, cx.now);
        }
    }

    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>) {
        cx.timers.cancel(self.key.clone());
        self.set(PullState::Stopped, cx.now);
    }

    const fn set(&mut self, state: PullState, now: Instant) {
        self.state = state;
        self.since = now;
    }
}
