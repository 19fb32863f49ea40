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
use crate::wire::request::route::MASTER_ID;

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
    /// How often in a row a master called the offset illegal and was not believed.
    doubts: u32,
    /// The replica the last answer suggested.
    suggested: i64,
    /// The replica that was asked last.
    replica: Option<i64>,
    max_offset: Option<QueueOffset>,
    asked_at: Option<Instant>,
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
            doubts: 0,
            suggested: MASTER_ID,
            replica: None,
            max_offset: None,
            asked_at: None,
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

    /// Any answer may say which replica is to be asked next; one that does not leaves it as it is.
    pub(crate) const fn suggest(&mut self, replica: Option<i64>) {
        if let Some(replica) = replica {
            self.suggested = replica;
        }
    }

    /// The replica that was asked last.
    pub(crate) const fn replica(&self) -> Option<i64> {
        self.replica
    }

    /// Whether a slave was asked last and says that its master is to be asked next.
    pub(crate) fn is_sent_back_to_master(&self) -> bool {
        self.suggested == MASTER_ID && self.replica.is_some_and(|id| id != MASTER_ID)
    }

    /// When it asked last.
    pub(crate) const fn asked_at(&self) -> Option<Instant> {
        self.asked_at
    }

    pub(crate) const fn max_offset(&self) -> Option<QueueOffset> {
        self.max_offset
    }

    /// Whether the gate should be asked now.
    pub(crate) const fn may_ask(&self) -> bool {
        matches!(self.state, PullState::Ready | PullState::Held(_))
    }

    /// The gate is open: a pull goes out to a replica under the serial this returns.
    pub(crate) fn ask(&mut self, replica: Option<i64>, now: Instant) -> u64 {
        debug_assert!(self.may_ask(), "every way to a pull passes the gate");
        self.replica = replica;
        self.asked_at = Some(now);
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
    pub(crate) const fn worked(&mut self, max_offset: Option<QueueOffset>) {
        self.failures = 0;
        self.doubts = 0;
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

    /// A master has called the offset illegal and is not believed yet.
    pub(crate) const fn doubt(&mut self) {
        self.doubts = self.doubts.saturating_add(1);
    }

    /// How often that was, with no good answer in between.
    pub(crate) const fn doubts(&self) -> u32 {
        self.doubts
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
        if let PullState::Paused(HoldReason::BackingOff | HoldReason::OffsetDoubted) = self.state {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::bench::Bench;
    use crate::status::HoldReason as Why;

    const GROUP: GroupKey = GroupKey {
        slot: 0,
        generation: 1,
    };
    const QUEUE: QueueKey = QueueKey {
        slot: 3,
        generation: 1,
    };
    const TIMER: TimerKey = TimerKey::Queue(GROUP, QUEUE, QueueTimer::Pull);
    const BASE: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(30);

    const fn ready() -> PullLoop {
        PullLoop::new(GROUP, QUEUE, Instant::ZERO)
    }

    /// One loop in each state.
    fn each_state(bench: &mut Bench) -> [(PullLoop, PullState); 5] {
        let (mut asked, mut held, mut paused, mut stopped) = (ready(), ready(), ready(), ready());
        asked.ask(Some(0), Instant::ZERO);
        held.hold(Why::CountFull, Instant::ZERO);
        paused.back_off(&mut bench.at(0), BASE, MOST, false);
        stopped.stop(&mut bench.at(0));
        [
            (ready(), PullState::Ready),
            (asked, PullState::InFlight { serial: 1 }),
            (held, PullState::Held(Why::CountFull)),
            (paused, PullState::Paused(Why::BackingOff)),
            (stopped, PullState::Stopped),
        ]
    }

    #[test]
    fn only_a_ready_or_held_loop_asks_so_two_pulls_never_overlap() {
        for (pull, state) in each_state(&mut Bench::new()) {
            let may = matches!(state, PullState::Ready | PullState::Held(_));
            assert_eq!((pull.state(), pull.may_ask()), (state, may));
        }
    }

    #[test]
    fn an_answer_counts_for_the_serial_that_is_out_and_once() {
        for (mut pull, state) in each_state(&mut Bench::new()) {
            let out = state == PullState::InFlight { serial: 1 };
            let at = Instant::from_millis(5);
            assert!(
                !pull.answered(2, at) && pull.state() == state,
                "{state:?}: a serial never given"
            );
            assert_eq!(pull.answered(1, at), out, "{state:?}");
            assert_eq!(pull.state(), if out { PullState::Ready } else { state });
            assert!(!pull.answered(1, at), "{state:?}: twice");
        }
        let mut pull = ready();
        assert_eq!(pull.ask(Some(0), Instant::ZERO), 1);
        assert!(pull.answered(1, Instant::ZERO));
        assert_eq!(pull.ask(Some(0), Instant::ZERO), 2, "serials do not come back");
    }

    #[test]
    fn a_timer_ends_a_pause_and_nothing_else() {
        for (mut pull, state) in each_state(&mut Bench::new()) {
            pull.on_timer(Instant::from_millis(5));
            let paused = matches!(state, PullState::Paused(_));
            assert_eq!(pull.state(), if paused { PullState::Ready } else { state });
        }
    }

    #[test]
    fn permanent_failures_double_the_pause_and_passing_ones_do_not() {
        for (permanent, pauses) in [
            (true, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]),
            (false, [1_000; 7]),
        ] {
            let (mut pull, mut bench) = (ready(), Bench::new());
            for pause in pauses {
                pull.back_off(&mut bench.at(100), BASE, MOST, permanent);
                assert_eq!(bench.armed(TIMER), Some(100 + pause));
                pull.on_timer(Instant::ZERO);
            }
            pull.worked(None);
            pull.back_off(&mut bench.at(100), BASE, MOST, true);
            assert_eq!(bench.armed(TIMER), Some(1_100), "a good answer ends the row");
        }
    }

    #[test]
    fn a_reason_is_new_once_and_keeps_its_beginning() {
        let mut pull = ready();
        let at = Instant::from_millis;
        assert!(pull.hold(Why::CountFull, at(1)));
        assert!(!pull.hold(Why::CountFull, at(2)));
        assert_eq!(pull.since(), at(1));
        assert!(pull.hold(Why::SpanFull, at(3)));
        assert_eq!(
            (pull.state(), pull.since()),
            (PullState::Held(Why::SpanFull), at(3))
        );
    }

    #[test]
    fn a_broker_that_is_back_ends_the_pause_its_absence_caused() {
        for (reason, state, armed) in [
            (Why::BackingOff, PullState::Ready, None),
            (Why::OffsetDoubted, PullState::Ready, None),
            (
                Why::FlowControlled,
                PullState::Paused(Why::FlowControlled),
                Some(20),
            ),
            (Why::Undecodable, PullState::Paused(Why::Undecodable), Some(20)),
        ] {
            let (mut pull, mut bench) = (ready(), Bench::new());
            pull.pause(&mut bench.at(0), Duration::from_millis(20), reason);
            pull.cut_pause(&mut bench.at(5));
            assert_eq!((pull.state(), bench.armed(TIMER)), (state, armed), "{reason:?}");
        }
    }

    #[test]
    fn a_stopped_loop_stays_stopped() {
        let (mut pull, mut bench) = (ready(), Bench::new());
        pull.back_off(&mut bench.at(0), BASE, MOST, true);
        pull.stop(&mut bench.at(1));
        pull.on_timer(Instant::from_millis(1_000));
        pull.cut_pause(&mut bench.at(1_000));
        assert_eq!((pull.state(), bench.armed(TIMER)), (PullState::Stopped, None));
    }

    #[test]
    fn an_answer_without_a_suggestion_keeps_the_replica() {
        let mut pull = ready();
        for (suggested, max, want) in [
            (Some(1), Some(QueueOffset(9)), (1, Some(QueueOffset(9)))),
            (None, None, (1, Some(QueueOffset(9)))),
            (Some(0), None, (0, Some(QueueOffset(9)))),
        ] {
            pull.suggest(suggested);
            pull.worked(max);
            assert_eq!((pull.suggested(), pull.max_offset()), want);
        }
    }

    #[test]
    fn doubts_are_their_own_and_end_with_a_good_answer() {
        let mut pull = ready();
        pull.stood_still();
        assert_eq!(pull.doubts(), 0);
        pull.doubt();
        pull.doubt();
        pull.moved();
        assert_eq!((pull.doubts(), pull.stood_still()), (2, 1));
        pull.worked(None);
        assert_eq!((pull.doubts(), pull.stood_still()), (0, 2));
    }

    #[test]
    fn standstills_are_counted_in_a_row() {
        let mut pull = ready();
        assert_eq!((pull.stood_still(), pull.stood_still()), (1, 2));
        pull.moved();
        assert_eq!(pull.stood_still(), 1);
    }
}
