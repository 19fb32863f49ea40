//! Tokens that come at a rate: one for each message that is handed out.
//!
//! Counted in millionths of a token, so that a microsecond brings `per_second` of them: nothing is rounded, however
//! often somebody looks.

use core::time::Duration;

use crate::rate::Rate;
use crate::time::Instant;

/// A token, in the units that are counted.
const TOKEN: u64 = 1_000_000;

/// Tokens are waited for in heaps of what so much of a second brings: nobody is woken for each message of a fast
/// rate.
const HEAPS_PER_SECOND: u32 = 1_000;

#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// Millionths of a token, at `at`.
    level: u64,
    at: Instant,
}

impl Bucket {
    /// A bucket after a rest: the whole burst is there.
    pub(super) fn full(rate: Rate, now: Instant) -> Self {
        Self {
            rate,
            level: capacity(rate),
            at: now,
        }
    }

    pub(super) const fn rate(&self) -> Rate {
        self.rate
    }

    /// Another rate from now on. What was saved is kept as far as the new burst goes, so that changing the rate
    /// again and again brings nothing.
    pub(super) fn change(&mut self, rate: Rate, now: Instant) {
        self.level = self.level_at(now).min(capacity(rate));
        self.at = now;
        self.rate = rate;
    }

    /// Whole tokens that are there.
    pub(super) fn tokens(&self, now: Instant) -> u32 {
        u32::try_from(self.level_at(now) / TOKEN).unwrap_or(u32::MAX)
    }

    /// Takes tokens that are there.
    pub(super) fn take(&mut self, tokens: u32, now: Instant) {
        debug_assert!(tokens <= self.tokens(now), "more is handed out than there is");
        self.level = self.level_at(now).saturating_sub(u64::from(tokens) * TOKEN);
        self.at = now;
    }

    /// When there will be tokens enough to be worth a wake-up; after `now` while there is not a whole one.
    pub(super) fn ready_at(&self, now: Instant) -> Instant {
        let heap = (self.rate.messages_per_second() / HEAPS_PER_SECOND).clamp(1, self.rate.burst().max(1));
        let missing = (u64::from(heap) * TOKEN).saturating_sub(self.level_at(now));
        now + Duration::from_micros(missing.div_ceil(self.speed()))
    }

    fn level_at(&self, now: Instant) -> u64 {
        let micros = now.as_micros().saturating_sub(self.at.as_micros());
        let brought = micros.saturating_mul(self.speed());
        self.level.saturating_add(brought).min(capacity(self.rate))
    }

    /// Millionths of a token in a microsecond.
    fn speed(&self) -> u64 {
        u64::from(self.rate.messages_per_second()).max(1)
    }
}

fn capacity(rate: Rate) -> u64 {
    u64::from(rate.burst()) * TOKEN
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const fn us(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn tokens_come_one_by_one_up_to_the_burst() {
        let rate = Rate::per_second(10).with_burst(3);
        let mut bucket = Bucket::full(rate, us(0));
        assert_eq!(bucket.tokens(us(0)), 3);
        bucket.take(3, us(0));
        for (micros, tokens) in [
            (0, 0),
            (99_999, 0),
            (100_000, 1),
            (199_999, 1),
            (300_000, 3),
            (u64::MAX, 3),
        ] {
            assert_eq!(bucket.tokens(us(micros)), tokens, "{micros}");
        }
        bucket.take(1, us(150_000));
        assert_eq!(bucket.tokens(us(199_999)), 0);
        assert_eq!(bucket.tokens(us(200_000)), 1, "half a token was kept");
    }

    #[test]
    fn a_fast_rate_wakes_once_a_millisecond_and_a_slow_one_for_each_message() {
        for (per_second, burst, micros) in [
            (1, 1, 1_000_000),
            (3, 1, 333_334),
            (999, 99, 1_002),
            (10_000, 1_000, 1_000),
            (1_000_000, 100_000, 1_000),
            (10_000, 1, 100),
        ] {
            let rate = Rate::per_second(per_second).with_burst(burst);
            let mut bucket = Bucket::full(rate, us(0));
            bucket.take(burst, us(7));
            // A full bucket gained nothing in seven microseconds.
            assert_eq!(bucket.ready_at(us(7)), us(7 + micros), "{per_second}");
            assert!(bucket.tokens(bucket.ready_at(us(7))) >= 1, "{per_second}");
        }
    }

    #[test]
    fn another_rate_gives_nothing_away_and_takes_effect_at_once() {
        let mut bucket = Bucket::full(Rate::per_second(1).with_burst(1), us(0));
        bucket.take(1, us(0));
        for _ in 0..100 {
            bucket.change(Rate::per_second(1_000).with_burst(50), us(0));
            bucket.change(Rate::per_second(1).with_burst(1), us(0));
        }
        assert_eq!(bucket.tokens(us(0)), 0);
        bucket.change(Rate::per_second(1_000).with_burst(50), us(0));
        assert_eq!(bucket.tokens(us(10_000)), 10);
        bucket.change(Rate::per_second(1_000).with_burst(4), us(10_000));
        assert_eq!(bucket.tokens(us(10_000)), 4, "no more than the new burst");
    }

    proptest! {
        /// Whoever takes what there is, whenever, gets at most rate · t + burst, between any two moments; and
        /// whoever waits until he is told to gets one at least.
        #[test]
        fn never_more_than_the_rate_allows_and_never_nothing(
            per_second in 1_u32..2_000_000,
            burst in 1_u32..100_000,
            steps in proptest::collection::vec((0_u64..3_000_000, 1_u32..200_000, any::<bool>()), 1..60),
        ) {
            let rate = Rate::per_second(per_second).with_burst(burst);
            let mut bucket = Bucket::full(rate, us(0));
            let mut now = us(0);
            let mut taken = Vec::new();
            for (wait, wanted, patient) in steps {
                let before = bucket.tokens(now);
                now = if patient { bucket.ready_at(now) } else { us(now.as_micros() + wait) };
                let there = bucket.tokens(now);
                prop_assert!(there >= before.min(burst));
                prop_assert!(!patient || there >= 1, "a wake-up in vain");
                let takes = wanted.min(there);
                bucket.take(takes, now);
                taken.push((now.as_micros(), u128::from(takes)));
            }
            for first in 0..taken.len() {
                let mut sum = 0;
                for (at, takes) in &taken[first..] {
                    sum += takes;
                    let time = u128::from(at - taken[first].0);
                    let most = u128::from(burst) * 1_000_000 + time * u128::from(per_second);
                    prop_assert!(sum * 1_000_000 <= most, "{sum} within {time} µs");
                }
            }
        }
    }
}
