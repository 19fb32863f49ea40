use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Where a machine's randomness starts. Everything it ever draws follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(pub u64);

/// SplitMix64: one word of state, good enough for jitter and nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: Seed) -> Self {
        Self(seed.0)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `base` moved by at most `percent` per cent up or down, so that members that failed together do
    /// not come back together.
    pub(crate) fn jitter(&mut self, base: Duration, percent: u32) -> Duration {
        let spread = base * percent / 100;
        let width = u64::try_from(spread.as_micros())
            .unwrap_or(u64::MAX / 4)
            .saturating_mul(2);
        if width == 0 {
            return base;
        }
        base - spread + Duration::from_micros(self.next() % (width + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_its_share_and_follows_from_the_seed() {
        let base = Duration::from_millis(1000);
        let draw = |seed| {
            let mut rng = Rng::new(Seed(seed));
            [(); 200].map(|()| rng.jitter(base, 20))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|d| (800..=1200).contains(&d.as_millis())));
    }

    #[test]
    fn nothing_to_spread_is_left_as_it_is() {
        assert_eq!(Rng::new(Seed(1)).jitter(Duration::ZERO, 20), Duration::ZERO);
    }
}
