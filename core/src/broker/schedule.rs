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

    /// Takes a stored message that is due at `due`.
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
