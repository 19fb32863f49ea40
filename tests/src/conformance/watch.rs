use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long a case may take altogether.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a case on a thread of its own, so that one which does not end is told of all the same: cases wait by the
/// timers of the runtime that they examine.
///
/// # Panics
/// As the case does, or when it does not end.
pub fn watch(case: &str, run: impl FnOnce() + Send + 'static) {
    let (ends, ended) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let _ends_with_this = ends;
        run();
    });
    if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
        panic!("{case} does not end within {LIMIT:?}");
    }
    if let Err(panic) = thread.join() {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_case_panics_with_comes_through() {
        watch("well", || {});
        let failed = std::panic::catch_unwind(|| watch("bad", || resume_unwind(Box::new(7))));
        assert_eq!(failed.unwrap_err().downcast_ref(), Some(&7));
    }
}
