//! Timers of a process that has no runtime: one thread waits for the first of them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

/// Ends when its time has come; without a time, never.
pub(crate) struct Sleep {
    at: Option<Instant>,
    /// Tells it from others of the same time.
    number: u64,
}

impl Sleep {
    pub(crate) fn until(at: Option<Instant>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self {
            at,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else {
            return Poll::Pending;
        };
        let timers = Timers::of_this_process();
        // Under the lock, or the thread could look between the clock and the entry.
        let mut waiting = timers.lock();
        if at <= now() {
            return Poll::Ready(());
        }
        waiting.insert((at, self.number), cx.waker().clone());
        timers.changed.notify_one();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            Timers::of_this_process().lock().remove(&(at, self.number));
        }
    }
}

#[derive(Default)]
struct Timers {
    waiting: Mutex<BTreeMap<(Instant, u64), Waker>>,
    changed: Condvar,
}

impl Timers {
    fn of_this_process() -> &'static Self {
        static TIMERS: OnceLock<&'static Timers> = OnceLock::new();
        TIMERS.get_or_init(|| {
            let timers: &Self = Box::leak(Box::default());
            thread::spawn(|| timers.work());
            timers
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Instant, u64), Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut waiting = self.lock();
        loop {
            let now = now();
            let later = waiting.split_off(&(now, u64::MAX));
            let due = std::mem::replace(&mut *waiting, later);
            if !due.is_empty() {
                // Who is woken may come here for the next timer.
                drop(waiting);
                due.into_values().for_each(Waker::wake);
                waiting = self.lock();
                continue;
            }
            waiting = match waiting.keys().next() {
                Some((first, _)) => {
                    let left = first.saturating_duration_since(now);
                    let woken = self.changed.wait_timeout(waiting, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "these are the consumer's timers")]
fn now() -> Instant {
    Instant::now()
}
