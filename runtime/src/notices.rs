use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use futures_core::Stream;
use rocketmq_consumer_core::notice::{Notice, NoticeKind};

use crate::sync::lock;

/// Notices that a listener may be behind, and that a late listener hears afterwards.
const KEPT: usize = 256;

/// What an operator should see, as it happens: a stream that ends with the consumer.
///
/// Notices inform and decide nothing, so nobody waits for a slow listener: it loses the oldest ones, and
/// [`Self::missed`] counts them. A new listener first hears the latest 256 that came before it.
pub struct Notices {
    listener: Arc<Listener>,
}

struct Listener {
    queue: Mutex<Queue>,
    waker: AtomicWaker,
}

#[derive(Clone, Default)]
struct Queue {
    notices: VecDeque<Notice>,
    missed: u64,
    ended: bool,
}

impl Queue {
    fn push(&mut self, notice: Notice) {
        if self.notices.len() == KEPT {
            self.notices.pop_front();
            self.missed += 1;
        }
        self.notices.push_back(notice);
    }
}

impl Notices {
    /// How many notices this listener has lost because it was too slow.
    #[must_use]
    pub fn missed(&self) -> u64 {
        lock(&self.listener.queue).missed
    }

    /// The next notice; `None` when the consumer has ended.
    pub async fn next(&mut self) -> Option<Notice> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Notice>> {
        self.listener.waker.register(cx.waker());
        let mut queue = lock(&self.listener.queue);
        match queue.notices.pop_front() {
            Some(notice) => Poll::Ready(Some(notice)),
            None if queue.ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Stream for Notices {
    type Item = Notice;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        self.poll(cx)
    }
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notices")
            .field("missed", &self.missed())
            .finish_non_exhaustive()
    }
}

/// Hands notices of one group or client to everyone who listens.
#[derive(Default)]
pub(crate) struct NoticeHub {
    state: Mutex<Hub>,
}

#[derive(Default)]
struct Hub {
    latest: Queue,
    listeners: Vec<Weak<Listener>>,
}

impl NoticeHub {
    pub(crate) fn listen(&self) -> Notices {
        let mut hub = lock(&self.state);
        let queue = Queue {
            missed: 0,
            ..hub.latest.clone()
        };
        let listener = Arc::new(Listener {
            queue: Mutex::new(queue),
            waker: AtomicWaker::new(),
        });
        hub.listeners.push(Arc::downgrade(&listener));
        Notices { listener }
    }

    pub(crate) fn publish(&self, notice: &Notice) {
        self.tell(|queue| queue.push(notice.clone()));
    }

    /// Nothing comes any more.
    pub(crate) fn end(&self) {
        self.tell(|queue| queue.ended = true);
    }

    fn tell(&self, change: impl Fn(&mut Queue)) {
        let mut hub = lock(&self.state);
        change(&mut hub.latest);
        hub.listeners.retain(|listener| {
            let Some(listener) = listener.upgrade() else {
                return false;
            };
            change(&mut lock(&listener.queue));
            listener.waker.wake();
            true
        });
    }
}

/// Writes a notice into the log: what asks for an operator's attention as a warning.
pub(crate) fn log(notice: &Notice) {
    let group = notice.group.as_ref().map(tracing::field::display);
    let (repeated, kind) = (notice.repeated, &notice.kind);
    match kind {
        NoticeKind::Committed { .. } | NoticeKind::Retry { .. } | NoticeKind::UnexpectedRequest { .. } => {
            tracing::debug!(target: "rocketmq", group, repeated, ?kind);
        }
        NoticeKind::Ready
        | NoticeKind::Assigned { .. }
        | NoticeKind::Revoked { .. }
        | NoticeKind::Held { .. }
        | NoticeKind::OffsetReset { .. }
        | NoticeKind::ConsumedDirectly { .. }
        | NoticeKind::StartDecidedByBroker { .. }
        | NoticeKind::QueueMoves { .. }
        | NoticeKind::SubscriptionChanged { .. }
        | NoticeKind::LinkUp { .. } => tracing::info!(target: "rocketmq", group, repeated, ?kind),
        NoticeKind::NameServerUnreachable { .. }
        | NoticeKind::TopicUnknown { .. }
        | NoticeKind::TopicHasNoQueues { .. }
        | NoticeKind::LinkDown { .. }
        | NoticeKind::PeerMisbehaved { .. }
        | NoticeKind::RequestRefused { .. }
        | NoticeKind::OwnIdRepeated { .. }
        | NoticeKind::NotInMemberList { .. }
        | NoticeKind::SubscriptionReplaced { .. }
        | NoticeKind::FilterRefused { .. }
        | NoticeKind::Undecodable { .. }
        | NoticeKind::CrcMismatch { .. }
        | NoticeKind::OutsideOfAsked { .. }
        | NoticeKind::OffsetIllegal { .. }
        | NoticeKind::ProgressFellBack { .. }
        | NoticeKind::DeliveryDeadline { .. }
        | NoticeKind::SendBackFailed { .. }
        | NoticeKind::QueueStalled { .. }
        | NoticeKind::WrongOutcomes { .. }
        | NoticeKind::OutcomeOfOtherKind { .. }
        | NoticeKind::LockLost { .. }
        | NoticeKind::LockRefused { .. }
        | NoticeKind::Dropped { .. }
        | NoticeKind::BackupUsed { .. }
        | NoticeKind::StartedOver { .. }
        | NoticeKind::SaveFailed { .. }
        | NoticeKind::CommitFailed { .. }
        | NoticeKind::RequestNotServed { .. }
        | NoticeKind::ClockWentBack { .. }
        // What a later version adds is more likely to matter than not.
        | _ => tracing::warn!(target: "rocketmq", group, repeated, ?kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{notice, now_or_never};

    #[test]
    fn a_slow_listener_loses_the_oldest_and_knows_how_many() {
        let hub = NoticeHub::default();
        let mut slow = hub.listen();
        for at in 0..KEPT as u64 + 3 {
            hub.publish(&notice(at));
        }
        assert_eq!(slow.missed(), 3);
        assert_eq!(now_or_never(slow.next()), Some(Some(notice(3))));
    }

    #[test]
    fn a_late_listener_hears_what_came_before_and_the_end() {
        let hub = NoticeHub::default();
        hub.publish(&notice(1));
        let mut late = hub.listen();
        hub.publish(&notice(2));
        assert_eq!(now_or_never(late.next()), Some(Some(notice(1))));
        assert_eq!(now_or_never(late.next()), Some(Some(notice(2))));
        assert_eq!(now_or_never(late.next()), None, "it waits");
        hub.end();
        assert_eq!(now_or_never(late.next()), Some(None));
        assert_eq!(now_or_never(hub.listen().next()), Some(Some(notice(1))));
    }
}
