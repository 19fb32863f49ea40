use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::talk::{Level, Talk};

/// How often the line is written anew.
const PERIOD: Duration = Duration::from_millis(200);

/// Erases the line the cursor is in, and goes to its beginning.
const ERASE: &str = "\r\u{1b}[K";

/// One line that counts, on standard error if somebody looks at it.
pub(super) struct Progress {
    total: u64,
    clock: Clock,
    begun: Duration,
    /// `None` when nobody looks.
    counted: Option<Mutex<Counted>>,
}

struct Counted {
    done: u64,
    shown_at: Duration,
}

impl Progress {
    /// Counts up to `total`.
    pub(super) fn new(total: u64, clock: Clock, talk: Talk) -> Self {
        let begun = clock.elapsed();
        // Lines of every world would tear it to pieces.
        let is_seen = talk.says(Level::Info) && !talk.says(Level::Debug) && io::stderr().is_terminal();
        let counted = is_seen.then_some(Mutex::new(Counted {
            done: 0,
            shown_at: begun,
        }));
        Self {
            total,
            clock,
            begun,
            counted,
        }
    }

    /// One more is done.
    pub(super) fn step(&self) {
        let Some(counted) = &self.counted else { return };
        let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.done += 1;
        let now = self.clock.elapsed();
        if now >= counted.shown_at + PERIOD {
            counted.shown_at = now;
            show(&format!(
                "{ERASE}{}",
                line(counted.done, self.total, now - self.begun)
            ));
        }
    }

    /// Leaves the line to whatever is said next.
    pub(super) fn finish(&self) {
        if self.counted.is_some() {
            show(ERASE);
        }
    }
}

fn line(done: u64, total: u64, time: Duration) -> String {
    let speed = done as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE);
    format!("{done} of {total} seeds, {speed:.0} seeds/s")
}

/// Whoever closed standard error does not want to see it.
fn show(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_speed_so_far() {
        assert_eq!(
            line(50, 200, Duration::from_millis(250)),
            "50 of 200 seeds, 200 seeds/s"
        );
    }
}
