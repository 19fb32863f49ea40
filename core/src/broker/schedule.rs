//! Messages that wait for their time: which one is due when.
//!
//! A scheduled message lies in the store, in the queue of its level, and this is the index over them. The
//! scheduler looks every tick, so a message is delivered at the first tick at or after its due time. The
//! store survives a crash and so does its index; what became due while the process was down is delivered
//! when it runs again.
//!
//! Not modelled: that a real broker delivers again what it delivered within the last seconds before a crash.
//= rocketmq: ScheduleMessageService.DeliverDelayedMessageTimerTask

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::ids::PhysicalOffset;
use crate::time::Instant;

/// The scheduled messages of one broker.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    waiting: BTreeMap<Due, PhysicalOffset>,
    tick: Duration,
    count: u64,
    len_max: usize,
}

/// When a message is delivered: by tick, then level by level, then in the order they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Instant,
    level: i32,
    number: u64,
}

/// The schedule has as many messages as it may; the message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleFull;

impl Schedule {
    /// An empty schedule that is looked at every `tick`; at most `len_max` messages wait at once.
    pub(crate) const fn new(tick: Duration, len_max: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            tick,
            count: 0,
            len_max,
        }
    }

    /// Whether another message has room. Ask before storing one.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < self.len_max
    }

    /// Takes a message that lies in the store and is due at `due`. If the store drops it before that,
    /// nothing is found at its place any more.
    ///
    /// # Errors
    ///
    /// [`ScheduleFull`].
    pub(crate) fn add(
        &mut self,
        level: i32,
        due: Instant,
        stored: PhysicalOffset,
    ) -> Result<(), ScheduleFull> {
        if !self.has_room() {
            return Err(ScheduleFull);
        }
        let due = Due {
            at: self.tick_at_or_after(due),
            level,
            number: self.count,
        };
        self.count += 1;
        self.waiting.insert(due, stored);
        Ok(())
    }

    /// When the next message is delivered.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(due, _)| due.at)
    }

    /// Takes the next message whose time has come.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<PhysicalOffset> {
        if self.next_due()? > now {
            return None;
        }
        self.waiting.pop_first().map(|(_, stored)| stored)
    }

    /// How many messages wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Ticks are counted from the origin of time.
    fn tick_at_or_after(&self, due: Instant) -> Instant {
        let tick = u64::try_from(self.tick.as_micros()).unwrap_or(u64::MAX).max(1);
        let due = due.as_micros();
        Instant::from_micros(due.checked_next_multiple_of(tick).unwrap_or(due))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    const fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_message_is_delivered_at_the_tick_after_its_time() {
        for (due, tick) in [(0, 0), (1, 100), (99, 100), (100, 100), (101, 200)] {
            let mut schedule = Schedule::new(TICK, 10);
            assert_eq!(schedule.add(1, ms(due), PhysicalOffset(1)), Ok(()));
            assert_eq!(schedule.next_due(), Some(ms(tick)), "{due}");
            if tick > 0 {
                assert_eq!(schedule.pop_due(ms(tick) - Duration::from_micros(1)), None);
            }
            assert_eq!(schedule.pop_due(ms(tick)), Some(PhysicalOffset(1)));
            assert_eq!(
                (schedule.pop_due(ms(tick)), schedule.next_due(), schedule.len()),
                (None, None, 0)
            );
        }
        let mut schedule = Schedule::new(TICK, 10);
        let end = Instant::from_micros(u64::MAX);
        assert_eq!(schedule.add(1, end, PhysicalOffset(1)), Ok(()));
        assert_eq!(
            schedule.next_due(),
            Some(end),
            "the end of time is no tick and needs none"
        );
    }

    #[test]
    fn one_tick_delivers_level_by_level_in_the_order_of_arrival() {
        let mut schedule = Schedule::new(TICK, 10);
        for (number, due, stored) in [(2, 110, 1), (1, 150, 2), (1, 120, 3), (2, 90, 4)] {
            schedule
                .add(number, ms(due), PhysicalOffset(stored))
                .expect("there is room");
        }
        let order: Vec<i64> = core::iter::from_fn(|| schedule.pop_due(ms(500)))
            .map(|stored| stored.0)
            .collect();
        assert_eq!(order, [4, 2, 3, 1]);
    }

    #[test]
    fn a_schedule_has_a_limit() {
        let mut schedule = Schedule::new(TICK, 1);
        assert!(schedule.has_room());
        assert_eq!(schedule.add(1, ms(0), PhysicalOffset(1)), Ok(()));
        assert!(!schedule.has_room());
        assert_eq!(schedule.add(1, ms(0), PhysicalOffset(2)), Err(ScheduleFull));
        assert_eq!(
            (schedule.pop_due(ms(0)), schedule.has_room()),
            (Some(PhysicalOffset(1)), true)
        );
    }

    proptest! {
        #[test]
        fn everything_is_delivered_once_and_within_a_tick(
            steps in prop::collection::vec((1..19_i32, 0..5_000_u64, 0..300_u64), 1..60),
        ) {
            let mut schedule = Schedule::new(TICK, 100);
            let (mut now, mut waiting) = (0, BTreeMap::new());
            let last = [(1, 0, 10_000)];
            for (stored, (number, delay, later)) in (0..).zip(steps.into_iter().chain(last)) {
                schedule.add(number, ms(now + delay), PhysicalOffset(stored)).expect("there is room");
                waiting.insert(stored, now + delay);
                now += later;
                // Time goes on from one due time to the next, as a machine's timers do.
                while let Some(due) = schedule.next_due().filter(|due| *due <= ms(now)) {
                    while let Some(stored) = schedule.pop_due(due) {
                        let wanted = waiting.remove(&stored.0).expect("it is delivered once");
                        prop_assert!(due >= ms(wanted) && due < ms(wanted) + TICK);
                    }
                }
                prop_assert_eq!(schedule.len(), waiting.len());
            }
            prop_assert!(waiting.is_empty());
        }
    }
}
