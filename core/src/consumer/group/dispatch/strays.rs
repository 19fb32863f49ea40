//! Handlers whose messages belong to an ownership that has ended.
//!
//! What they answer counts for nothing any more, but they still hold a permit. So their deadline holds on: the
//! token is cancelled, and after the grace the future is dropped. Otherwise one that hangs would keep its permit
//! for ever, and a group with as many of them as permits would deliver nothing.

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::time::Instant;

/// Where such a handler is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Within its deadline.
    Running,
    /// Its token was cancelled.
    Cancelled,
}

/// One message with such a handler: its run, and its position in the batch.
pub(crate) type Place = (u64, u32);

/// By the time at which something is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strays {
    due: BTreeMap<(Instant, Place), Stage>,
}

impl Strays {
    pub(crate) fn add(&mut self, at: Instant, place: Place, stage: Stage) {
        self.due.insert((at, place), stage);
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Takes what is due. One that ended meanwhile is still among them: its run knows.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(Place, Stage)> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        let (_, place) = *entry.key();
        Some((place, entry.remove()))
    }

    /// One asks for more time. Without effect once its token was cancelled.
    pub(crate) fn extend(&mut self, now: Instant, place: Place, by: Duration) -> bool {
        let of =
            |((_, other), stage): (&(Instant, Place), &Stage)| *other == place && *stage == Stage::Running;
        let Some(key) = self.due.iter().find(|entry| of(*entry)).map(|(key, _)| *key) else {
            return false;
        };
        self.due.remove(&key);
        self.add(now + by, place, Stage::Running);
        true
    }

    /// Those whose token was cancelled and that have not ended, as far as `is_open` knows.
    pub(crate) fn past_deadline(&self, is_open: impl Fn(Place) -> bool) -> u32 {
        let cancelled = self.due.iter().filter(|(_, stage)| **stage == Stage::Cancelled);
        let open = cancelled.filter(|((_, place), _)| is_open(*place)).count();
        u32::try_from(open).unwrap_or(u32::MAX)
    }

    pub(crate) fn clear(&mut self) {
        self.due.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn the_earliest_is_due_first_and_more_time_moves_it() {
        let mut strays = Strays::default();
        strays.add(at(10), (1, 0), Stage::Running);
        strays.add(at(20), (1, 1), Stage::Cancelled);
        assert!(strays.extend(at(5), (1, 0), Duration::from_millis(25)));
        assert!(
            !strays.extend(at(5), (1, 1), Duration::from_millis(25)),
            "cancelled"
        );
        assert!(
            !strays.extend(at(5), (9, 9), Duration::from_millis(25)),
            "unknown"
        );
        assert_eq!((strays.next_at(), strays.take_due(at(19))), (Some(at(20)), None));
        assert_eq!(strays.past_deadline(|_| true), 1);
        assert_eq!(strays.past_deadline(|_| false), 0);
        assert_eq!(strays.take_due(at(30)), Some(((1, 1), Stage::Cancelled)));
        assert_eq!(strays.take_due(at(30)), Some(((1, 0), Stage::Running)));
        assert_eq!((strays.take_due(at(30)), strays.next_at()), (None, None));
    }
}
