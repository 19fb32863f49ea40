//! Waiting, by the timers of the runtime that is examined.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use rocketmq_consumer::Runtime;

/// How long anything may take that must happen. Never met by what works; machines may be slow.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// How often is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(5);

/// Waits for a future, but not longer than this.
pub(super) async fn at_most<R: Runtime, F: Future>(
    runtime: &R,
    limit: Duration,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut timer = pin!(runtime.sleep_until(runtime.now() + limit));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Waits for what must end.
pub(super) async fn ends<R: Runtime, F: Future>(runtime: &R, what: &str, future: F) -> F::Output {
    let output = at_most(runtime, LIMIT, future).await;
    output.unwrap_or_else(|| panic!("{what}: not within {LIMIT:?}"))
}

/// Waits until something is so.
pub(super) async fn until<R: Runtime>(runtime: &R, what: &str, mut is_so: impl FnMut() -> bool) {
    ends(runtime, what, async {
        while !is_so() {
            pause(runtime, LOOK).await;
        }
    })
    .await;
}

/// Waits for a time.
pub(super) async fn pause<R: Runtime>(runtime: &R, time: Duration) {
    runtime.sleep_until(runtime.now() + time).await;
}
