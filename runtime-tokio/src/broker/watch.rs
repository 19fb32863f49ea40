use rocketmq_consumer_core::broker::BrokerState;
use rocketmq_consumer_core::broker::observation::Observation;
use tokio::sync::mpsc;

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
        self.from.recv().await
    }
}

/// The way from the machine to whoever observes. What that one does not take waits in the machine, which
/// counts what it has no room for.
#[derive(Debug)]
pub(super) struct Watch {
    to: mpsc::Sender<Observation>,
    /// Taken from the machine, and there was no room for it.
    next: Option<Observation>,
}

impl Watch {
    /// A watch for somebody who takes things one at a time.
    pub(super) fn new() -> (Self, Observations) {
        let (to, from) = mpsc::channel(1);
        (Self { to, next: None }, Observations { from })
    }

    /// Passes on what there is room for. False when nobody observes any more.
    pub(super) fn pass_on(&mut self, machine: &mut BrokerState) -> bool {
        while let Some(next) = self.next.take().or_else(|| machine.poll_observation()) {
            match self.to.try_send(next) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(next)) => {
                    self.next = Some(next);
                    return true;
                }
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
            }
        }
        true
    }

    /// Waits until there is room for what waits; for ever if nothing does.
    pub(super) async fn room(watch: Option<&Self>) {
        match watch.filter(|watch| watch.next.is_some()) {
            // Whether there is room or nobody any more: both is for `pass_on` to find out.
            Some(watch) => drop(watch.to.reserve().await),
            None => std::future::pending().await,
        }
    }
}
