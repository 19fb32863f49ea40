//! The one place of this module that reads clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock.
#[allow(
    clippy::disallowed_methods,
    reason = "the launcher waits for real processes; it is a driver, not a machine"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Unix time in milliseconds, for wire fields.
#[allow(clippy::disallowed_methods, reason = "a message carries the time it was born")]
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A moment after which waiting ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self(now() + limit)
    }

    pub(crate) fn is_over(self) -> bool {
        now() >= self.0
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(now())
    }
}
