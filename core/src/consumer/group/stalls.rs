//! Queues that stand still although there is something in them.
//!
//! ```text
//!  nothing waits, or it moves ──► watched since ──stalled_after──► told ──stalled_after──► told again
//!            ▲                                                       │
//!            └────────────────────── moves: told ───────────────────┘
//! ```
//!
//! One timer for the whole group looks four times within `stalled_after`, so a stall is told at the end of
//! that time or up to a quarter of it later. It decides nothing.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::time::Duration;

use crate::consumer::cx::{Cx, GroupTimer};
use crate::ids::{QueueKey, QueueOffset};
use crate::notice::{NoticeKind, StallReason};
use crate::status::{GroupPhase, HoldReason};
use crate::time::Instant;

use super::Group;
use super::queue::Queue;
use super::queue::pull::PullState;
use super::queue::window::SlotState;

/// How often the timer looks within the time after which a stall is told.
const LOOKS: u32 = 4;

/// What was seen of a queue with something in it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// `None` while its start is unknown.
    lowest: Option<QueueOffset>,
    since: Instant,
    /// When it was told last.
    told: Option<Instant>,
}

/// The queues that may be about to stall, and those that have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls {
    seen: BTreeMap<QueueKey, Seen>,
}

impl Stalls {
    /// Since when a queue has stood still, if that was told.
    pub(super) fn since(&self, key: QueueKey) -> Option<Instant> {
        let seen = self.seen.get(&key)?;
        seen.told.map(|_| seen.since)
    }

    /// A queue is seen; true when it is to be told that it stands still.
    fn look(
        &mut self,
        now: Instant,
        key: QueueKey,
        lowest: Option<QueueOffset>,
        after: Duration,
    ) -> Option<Instant> {
        let new = Seen {
            lowest,
            since: now,
            told: None,
        };
        let seen = self.seen.entry(key).or_insert(new);
        if seen.lowest != lowest {
            *seen = new;
        }
        let from = seen.told.unwrap_or(seen.since);
        if now.saturating_since(from) < after {
            return None;
        }
        seen.told = Some(now);
        Some(seen.since)
    }

    /// A queue stands still because it was asked to: that time does not count. One that was told of stays told of,
    /// since nobody has seen it move.
    fn rest(&mut self, now: Instant, key: QueueKey) {
        if let Entry::Occupied(mut entry) = self.seen.entry(key) {
            if entry.get().told.is_some() {
                entry.get_mut().told = Some(now);
            } else {
                entry.remove();
            }
        }
    }

    /// Forgets a queue that moves or has nothing; tells for how long it had stood still, if that was told.
    fn moves(&mut self, now: Instant, key: QueueKey) -> Option<Duration> {
        let seen = self.seen.remove(&key)?;
        seen.told.map(|_| now.saturating_since(seen.since))
    }
}

impl Group {
    pub(super) fn arm_stalls_timer(&self, cx: &mut Cx<'_>) {
        let pause = self.config.stalled_after / LOOKS;
        cx.timers.set(self.timer(GroupTimer::Stalls), cx.now + pause);
    }

    pub(super) fn on_stalls_timer(&mut self, cx: &mut Cx<'_>) {
        if self.phase != GroupPhase::Running {
            return;
        }
        for key in self.queues.keys() {
            self.look_for_stall(cx, key);
        }
        let queues = &self.queues;
        self.stalls.seen.retain(|key, _| queues.get(*key).is_some());
        self.arm_stalls_timer(cx);
    }

    fn look_for_stall(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        let Some(queue) = self.queues.get(key) else { return };
        if !has_something(queue) {
            return self.tell_moves(cx, key);
        }
        if self.is_at_rest(queue) {
            return self.stalls.rest(cx.now, key);
        }
        let lowest = queue.tenure().map(|tenure| tenure.window.lowest_unfinished());
        if self
            .stalls
            .seen
            .get(&key)
            .is_some_and(|seen| seen.lowest != lowest)
        {
            self.tell_moves(cx, key);
        }
        let after = self.config.stalled_after;
        let Some(since) = self.stalls.look(cx.now, key, lowest, after) else {
            return;
        };
        let Some(queue) = self.queues.get(key) else { return };
        let kind = NoticeKind::QueueStalled {
            queue: queue.name.clone(),
            reason: self.stall_reason(key, queue),
            since,
            lowest_unfinished: lowest,
            max_offset: queue.tenure().and_then(|tenure| tenure.pull.max_offset()),
        };
        cx.notice(&self.name, kind);
    }

    /// Something of the queue was settled. Without a stall that was told this is one look-up.
    pub(super) fn stall_may_end(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        let Some(seen) = self.stalls.seen.get(&key).filter(|seen| seen.told.is_some()) else {
            return;
        };
        let tenure = self.queues.get(key).and_then(Queue::tenure);
        if tenure.is_some_and(|tenure| Some(tenure.window.lowest_unfinished()) != seen.lowest) {
            self.tell_moves(cx, key);
        }
    }

    fn tell_moves(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        if let Some(after) = self.stalls.moves(cx.now, key)
            && let Some(queue) = self.queues.get(key)
        {
            let kind = NoticeKind::QueueMoves {
                queue: queue.name.clone(),
                lowest_unfinished: queue.tenure().map(|tenure| tenure.window.lowest_unfinished()),
                after,
            };
            cx.notice(&self.name, kind);
        }
    }

    /// What the lowest unfinished message waits for; without one, what the queue does.
    fn stall_reason(&self, key: QueueKey, queue: &Queue) -> StallReason {
        let Some(tenure) = queue.tenure() else {
            return StallReason::Held(queue.status().hold.unwrap_or(HoldReason::AskingOffset));
        };
        match tenure.window.front() {
            Some(SlotState::Out { .. } | SlotState::Cancelled { .. } | SlotState::Abandoned) => {
                StallReason::Handlers {
                    running: u32::try_from(tenure.window.out()).unwrap_or(u32::MAX),
                    oldest: self.dispatch.oldest_of(key),
                }
            }
            Some(SlotState::Failing) => StallReason::Retrying {
                messages: u32::try_from(tenure.window.failing()).unwrap_or(u32::MAX),
            },
            Some(SlotState::Held) => StallReason::Held(HoldReason::Undecodable),
            Some(SlotState::Ready) if queue.suspended_until().is_some() => {
                StallReason::Held(HoldReason::Suspended)
            }
            Some(SlotState::Ready | SlotState::Done) => StallReason::NoPermit {
                running: self.dispatch.permits().1,
                oldest: self.dispatch.oldest(),
            },
            None => match tenure.pull.state() {
                PullState::InFlight { .. } | PullState::Ready => StallReason::Unanswered,
                PullState::Held(_) | PullState::Paused(_) | PullState::Stopped => {
                    StallReason::Held(queue.status().hold.unwrap_or(HoldReason::Draining))
                }
            },
        }
    }
}

/// Whether a queue is ours and has, as far as is known, messages that are not finished. One whose start cannot
/// be found may have some.
fn has_something(queue: &Queue) -> bool {
    if !queue.is_owned() {
        return queue.is_acquiring();
    }
    queue.tenure().is_some_and(|tenure| {
        let behind = |max: QueueOffset| max > tenure.window.lowest_unfinished();
        tenure.window.unfinished() > 0 || tenure.pull.max_offset().is_some_and(behind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: QueueKey = QueueKey {
        slot: 0,
        generation: 1,
    };
    const AFTER: Duration = Duration::from_secs(60);

    const fn at(secs: u64) -> Instant {
        Instant::from_millis(secs * 1000)
    }

    #[test]
    fn a_stall_is_told_after_its_time_and_once_each_further_time() {
        let mut stalls = Stalls::default();
        let lowest = Some(QueueOffset(5));
        let told: alloc::vec::Vec<u64> = (0..=13)
            .map(|look| look * 15)
            .filter(|now| stalls.look(at(*now), KEY, lowest, AFTER).is_some())
            .collect();
        assert_eq!(told, [60, 120, 180]);
        assert_eq!(stalls.since(KEY), Some(at(0)));
        assert_eq!(stalls.moves(at(200), KEY), Some(Duration::from_secs(200)));
        assert_eq!((stalls.since(KEY), stalls.moves(at(201), KEY)), (None, None));
    }

    #[test]
    fn time_at_rest_is_no_stall_and_ends_none() {
        let mut stalls = Stalls::default();
        let lowest = Some(QueueOffset(5));
        let look = |stalls: &mut Stalls, secs| stalls.look(at(secs), KEY, lowest, AFTER);
        assert_eq!(look(&mut stalls, 0), None);
        for secs in 1..10_000 {
            stalls.rest(at(secs), KEY);
        }
        assert_eq!(look(&mut stalls, 10_000), None, "time counts from here");
        assert_eq!(look(&mut stalls, 10_060), Some(at(10_000)));
        stalls.rest(at(20_000), KEY);
        assert_eq!(stalls.since(KEY), Some(at(10_000)), "it has not moved");
        assert_eq!(look(&mut stalls, 20_059), None);
        assert_eq!(look(&mut stalls, 20_060), Some(at(10_000)), "told again");
    }

    #[test]
    fn a_queue_that_moves_is_never_told_of() {
        let mut stalls = Stalls::default();
        for look in 0..20 {
            let lowest = Some(QueueOffset(i64::try_from(look).expect("small") / 3));
            assert_eq!(stalls.look(at(look * 15), KEY, lowest, AFTER), None);
        }
        assert_eq!(stalls.moves(at(400), KEY), None, "it was not told");
    }
}
