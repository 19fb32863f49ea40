use std::ops::Range;
use std::time::Duration;

/// Where all chance of a world comes from: SplitMix64, so that a seed means the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for one concern: what is drawn here does not move what is drawn there.
    pub(crate) const fn branch(&mut self) -> Self {
        Self(self.word())
    }

    pub(crate) const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from a range; the start of an empty one.
    pub(crate) fn number(&mut self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start).max(1);
        range.start + self.word() % width
    }

    /// As [`Dice::number`], for indexes and counts.
    pub(crate) fn index(&mut self, range: Range<usize>) -> usize {
        let (start, end) = (range.start as u64, range.end as u64);
        usize::try_from(self.number(start..end)).unwrap_or(range.start)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.number(0..100) < percent
    }

    /// A time from a range, to the microsecond.
    pub(crate) fn time(&mut self, range: Range<Duration>) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2);
        Duration::from_micros(self.number(micros(range.start)..micros(range.end)))
    }

    /// One of several.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(0..from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_every_time_and_ranges_hold() {
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            [(); 100].map(|()| dice.number(3..9))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(1).iter().all(|number| (3..9).contains(number)));
        assert!((3..9).all(|number| draw(1).contains(&number)));
        assert_eq!(Dice::new(1).number(5..5), 5);
    }

    #[test]
    fn a_branch_is_not_moved_by_what_its_origin_draws_later() {
        let (mut one, mut other) = (Dice::new(7), Dice::new(7));
        let (mut left, mut right) = (one.branch(), other.branch());
        other.word();
        assert_eq!(left.word(), right.word());
        assert_ne!(one.word(), other.word());
    }
}
