//! The clocks of this process. Everything else is told the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Counts from the start of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    start_unix_ms: i64,
}

impl Clock {
    /// Starts counting; called first thing in `main`.
    #[expect(
        clippy::disallowed_methods,
        reason = "the process itself drives its clocks; the protocol never sees them"
    )]
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            start: Instant::now(),
            start_unix_ms: i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX),
        }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Unix time in milliseconds. A wall clock that is set while we run changes nothing here, so the
    /// times of events stay in order.
    pub(crate) fn unix_ms(&self) -> i64 {
        let elapsed = i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.start_unix_ms.saturating_add(elapsed)
    }
}
