use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_channel::mpsc;
use futures_core::Stream as _;
use rocketmq_consumer_core::broker::BrokerState;
use rocketmq_consumer_core::broker::observation::Observation;

/// What a cluster does, as it does it; made by
/// [`EmbeddedBroker::observe`](super::EmbeddedBroker::observe).
#[derive(Debug)]
pub struct Observations {
    from: mpsc::Receiver<Observation>,
}

impl Observations {
    /// The next thing; `None` after the cluster's end, or when somebody else has begun to observe. Nothing is
    /// lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Observation> {
        poll_fn(|cx| Pin::new(&mut self.from).poll_next(cx)).await
    }
}

/// The way from the machine to whoever observes. What that one does not take waits in the machine, which
/// counts what it has no room for.
#[derive(Debug)]
pub(super) struct Watch(mpsc::Sender<Observation>);

impl Watch {
    /// A watch for somebody who takes things one at a time.
    pub(super) fn new() -> (Self, Observations) {
        // Each sender has a place of its own.
        let (to, from) = mpsc::channel(0);
        (Self(to), Observations { from })
    }

    /// Passes on what there is room for, and lets the task be woken when there is more. False when nobody observes
    /// any more.
    pub(super) fn pass_on(&mut self, machine: &mut BrokerState, cx: &mut Context<'_>) -> bool {
        loop {
            match self.0.poll_ready(cx) {
                Poll::Pending => return true,
                Poll::Ready(Err(_)) => return false,
                Poll::Ready(Ok(())) => {}
            }
            let Some(next) = machine.poll_observation() else {
                return true;
            };
            if self.0.start_send(next).is_err() {
                return false;
            }
        }
    }
}
