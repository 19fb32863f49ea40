use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_io::Timer;

/// A timer without the moment it tells, which nobody here asks for.
#[derive(Debug)]
pub struct Sleep(Timer);

impl Sleep {
    pub(crate) const fn new(timer: Timer) -> Self {
        Self(timer)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}
