use std::future::{Future, poll_fn};
use std::task::{Context, Poll};
use std::time::Duration;

use rocketmq_consumer::Runtime;

use super::time;

/// Most polls that are tried: no future of the face has more points at which it waits.
const POLLS_MAX: usize = 200;

/// Time enough for whatever a future that is not polled any more has begun.
const LATE: Duration = Duration::from_millis(10);

/// Where a future is given up.
///
/// It is at one of its await points whenever a poll of it returns, so giving it up after 0, 1, 2 … polls until it
/// completes visits all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    polls: usize,
    /// Dropped only when what it waits for may have come, and nobody has looked.
    late: bool,
}

impl Point {
    /// After so many polls.
    pub(super) const fn at_once(polls: usize) -> Self {
        Self { polls, late: false }
    }

    /// After so many polls, and a moment.
    pub(super) const fn late(polls: usize) -> Self {
        Self { polls, late: true }
    }

    /// Polls a future up to here and drops it; `None` if it has not completed by then.
    pub(super) async fn give_up<R: Runtime, F: Future>(self, runtime: &R, future: F) -> Option<F::Output> {
        let mut future = Box::pin(future);
        let mut left = self.polls;
        let output = poll_fn(|cx: &mut Context<'_>| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            match future.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                // The last one: it is given up now, not at the next wake-up, which may never come.
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        if output.is_none() && self.late {
            time::pause(runtime, LATE).await;
        }
        output
    }
}

/// Makes a future again and again, and gives it up at one point after the other, until it completes. Returns what it
/// completed with, and after how many polls.
pub(super) async fn at_every_point<T>(
    what: &str,
    mut attempt: impl AsyncFnMut(Point) -> Option<T>,
) -> (T, usize) {
    for polls in 0..POLLS_MAX {
        for point in [Point::late(polls), Point::at_once(polls)] {
            if let Some(output) = attempt(point).await {
                return (output, polls);
            }
        }
    }
    panic!("{what} does not complete within {POLLS_MAX} polls");
}
