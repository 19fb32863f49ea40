//! Time as the machine sees it: a monotonic [`Instant`] that the driver supplies with every event,
//! and [`WallTime`], Unix milliseconds, which appears in wire fields and nowhere else.
//!
//! There is deliberately no conversion from `std::time::Instant`: a driver keeps its origin and
//! subtracts, so that every instant can be written into a recording and made up in a test.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since the origin the driver chose when it created the machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instant(u64);

impl Instant {
    /// The driver's origin.
    pub const ZERO: Self = Self(0);

    /// An instant `micros` microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// An instant `millis` milliseconds after the origin.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// The first instant at or after this one that is a multiple of `grid`; what is due within one step of it is due
    /// together. A grid of zero changes nothing.
    #[must_use]
    pub(crate) fn rounded_up(self, grid: Duration) -> Self {
        let grid = u64::try_from(grid.as_micros()).unwrap_or(u64::MAX).max(1);
        Self(self.0.div_ceil(grid).saturating_mul(grid))
    }

    /// How long ago `earlier` was; zero when it lies in the future.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the end of time: a deadline that cannot be represented never fires.
    fn add(self, rhs: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(rhs.as_micros()).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at the origin.
    fn sub(self, rhs: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(u64::try_from(rhs.as_micros()).unwrap_or(u64::MAX)),
        )
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}ms", self.0 / 1_000, self.0 % 1_000)
    }
}

/// Unix time in milliseconds. Only wire fields use it (`subVersion`, born and store times).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WallTime(i64);

impl WallTime {
    /// A wall time from Unix milliseconds.
    #[must_use]
    pub const fn from_unix_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Unix milliseconds.
    #[must_use]
    pub const fn as_unix_millis(self) -> i64 {
        self.0
    }

    /// This much later; saturates.
    #[must_use]
    pub const fn plus(self, later: Duration) -> Self {
        let millis = later.as_millis();
        let millis = if millis > i64::MAX as u128 {
            i64::MAX
        } else {
            millis as i64
        };
        Self(self.0.saturating_add(millis))
    }

    /// This much earlier; saturates.
    #[must_use]
    pub const fn minus(self, earlier: Duration) -> Self {
        let millis = earlier.as_millis();
        let millis = if millis > i64::MAX as u128 {
            i64::MAX
        } else {
            millis as i64
        };
        Self(self.0.saturating_sub(millis))
    }
}

impl Add<Duration> for WallTime {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(rhs.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let end = Instant::from_micros(u64::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(Instant::from_millis(1) - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::ZERO.saturating_since(end), Duration::ZERO);
        assert_eq!(
            end.saturating_since(Instant::ZERO),
            Duration::from_micros(u64::MAX)
        );
    }

    #[test]
    fn rounding_up_gathers_what_is_due_within_one_step() {
        let grid = Duration::from_millis(20);
        for (micros, rounded) in [
            (0, 0),
            (1, 20_000),
            (20_000, 20_000),
            (20_001, 40_000),
            (u64::MAX, u64::MAX),
        ] {
            let rounded_up = Instant::from_micros(micros).rounded_up(grid);
            assert_eq!(rounded_up, Instant::from_micros(rounded), "{micros}");
        }
        let odd = Instant::from_micros(7);
        assert_eq!(odd.rounded_up(Duration::ZERO), odd);
    }

    #[test]
    fn units_are_microseconds_inside_and_milliseconds_on_the_wire() {
        assert_eq!(Instant::from_millis(7).as_micros(), 7_000);
        assert_eq!(Instant::from_micros(7_999).as_millis(), 7);
        let wall = WallTime::from_unix_millis(1_700_000_000_000) + Duration::from_secs(2);
        assert_eq!(wall.as_unix_millis(), 1_700_000_002_000);
        assert_eq!(
            wall.minus(Duration::from_millis(1)).as_unix_millis(),
            1_700_000_001_999
        );
        assert_eq!(
            wall.minus(Duration::MAX).as_unix_millis(),
            wall.as_unix_millis() - i64::MAX
        );
    }
}
