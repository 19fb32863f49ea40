use std::pin::Pin;
use std::task::{Context, Poll};

use rocketmq_consumer_core::time::Instant;

use crate::runtime::Runtime;

/// The one timer of a driver, in one allocation.
///
/// It may fire early, never late: a deadline that moves away keeps the earlier timer, because moving
/// it with every pull would cost more than one idle turn now and then.
pub(crate) struct Timer<R: Runtime> {
    sleep: Option<Pin<Box<R::Sleep>>>,
    armed: Option<Instant>,
}

impl<R: Runtime> Timer<R> {
    pub(crate) const fn new() -> Self {
        Self {
            sleep: None,
            armed: None,
        }
    }

    /// Wakes the task at `at` at the latest; ready when it had to be woken already.
    pub(crate) fn poll_until(&mut self, runtime: &R, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if self.armed.is_none_or(|armed| armed > at) {
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().set(runtime.sleep_until(at)),
                None => self.sleep = Some(Box::pin(runtime.sleep_until(at))),
            }
            self.armed = Some(at);
        }
        let fired = self
            .sleep
            .as_mut()
            .is_none_or(|sleep| sleep.as_mut().poll(cx).is_ready());
        if fired {
            self.armed = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}
