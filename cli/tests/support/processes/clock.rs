//! The one place of these helpers that reads a clock.

use std::thread;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The monotonic clock.
#[allow(clippy::disallowed_methods, reason = "these tests measure real processes")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Looks until `is_met` says so, and says how long after `since` that was.
///
/// # Panics
/// When it is not met `limit` after `since`; the message is what `otherwise` tells then.
pub(crate) fn wait_until(
    since: Instant,
    limit: Duration,
    mut is_met: impl FnMut() -> bool,
    otherwise: impl FnOnce() -> String,
) -> Duration {
    loop {
        if is_met() {
            return now().duration_since(since);
        }
        if now().duration_since(since) > limit {
            panic!("not within {limit:?}: {}", otherwise());
        }
        thread::sleep(LOOK);
    }
}
