use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// One of the delays a broker knows: it redelivers a message not after any time but after one of
/// 18. A broker whose `messageDelayLevel` was changed waits as its own table says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct DelayLevel(u8);

/// The default delays in seconds: `1s 5s 10s 30s 1m 2m … 10m 20m 30m 1h 2h`.
const SECONDS: [u64; 18] = [
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200,
];

impl DelayLevel {
    /// The shortest delay, one second.
    pub const MIN: Self = Self(1);
    /// The longest delay, two hours.
    pub const MAX: Self = Self(18);

    /// The level of a number from 1 to 18. (On the wire 0 leaves the choice to the broker and −1 asks
    /// for a dead letter; neither is a level.)
    #[must_use]
    pub const fn new(level: u8) -> Option<Self> {
        if level >= Self::MIN.0 && level <= Self::MAX.0 {
            Some(Self(level))
        } else {
            None
        }
    }

    /// The level whose delay is nearest to `delay`. Of two that are equally near it is the longer one:
    /// a message that comes too early is tried for nothing.
    #[must_use]
    pub fn nearest(delay: Duration) -> Self {
        // One level higher for each midpoint between neighbours that is reached.
        let mut level = Self::MIN;
        while level < Self::MAX {
            let longer = Self(level.0 + 1);
            if delay < (level.delay() + longer.delay()) / 2 {
                break;
            }
            level = longer;
        }
        level
    }

    /// The number on the wire, 1 to 18.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// How long a broker with the default table waits.
    #[must_use]
    pub const fn delay(self) -> Duration {
        Duration::from_secs(SECONDS[self.0 as usize - 1])
    }
}

impl From<DelayLevel> for u8 {
    fn from(level: DelayLevel) -> Self {
        level.0
    }
}

impl TryFrom<u8> for DelayLevel {
    type Error = NoSuchLevel;

    fn try_from(level: u8) -> Result<Self, NoSuchLevel> {
        Self::new(level).ok_or(NoSuchLevel(level))
    }
}

/// A number that is no [`DelayLevel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("delay levels go from 1 to 18, {0} is none")]
pub struct NoSuchLevel(pub u8);

impl fmt::Debug for DelayLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.0, self.delay())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_level_is_taken_and_the_longer_of_two() {
        let table = [
            (0, 1),
            (1_000, 1),
            (2_999, 1),
            (3_000, 2),
            (5_000, 2),
            (7_499, 2),
            (19_999, 3),
            (20_000, 4),
            (60_000, 5),
            (600_000, 14),
            (899_999, 14),
            (900_000, 15),
            (5_399_999, 17),
            (5_400_000, 18),
            (7_200_000, 18),
            (u64::MAX, 18),
        ];
        for (millis, level) in table {
            assert_eq!(
                DelayLevel::nearest(Duration::from_millis(millis)).number(),
                level,
                "{millis} ms"
            );
        }
        assert_eq!(DelayLevel::nearest(Duration::MAX), DelayLevel::MAX);
    }

    #[test]
    fn every_delay_is_its_own_nearest() {
        for level in (1..=18).filter_map(DelayLevel::new) {
            assert_eq!(DelayLevel::nearest(level.delay()), level);
        }
        assert_eq!(DelayLevel::new(0), None);
        assert_eq!(DelayLevel::try_from(19), Err(NoSuchLevel(19)));
    }
}
