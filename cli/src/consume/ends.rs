use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rocketmq_consumer_core::ids::MessageQueue;
use rocketmq_consumer_core::status::QueueStatus;
use tokio::sync::Notify;

/// Where each queue ended when this consumer got it: for `-e`.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    ends: Mutex<BTreeMap<MessageQueue, i64>>,
    changed: Notify,
}

impl Ends {
    /// Notes the end of a queue. The first one stands: a queue that comes back has the end it had.
    pub(crate) fn set(&self, queue: MessageQueue, end: i64) {
        self.lock().entry(queue).or_insert(end);
        self.changed.notify_waiters();
    }

    /// The end of a queue, as soon as it is known: the first offset that does not belong to the run.
    pub(crate) async fn of(&self, queue: &MessageQueue) -> i64 {
        loop {
            // Created before the look, so that a change between the two is not missed.
            let changed = self.changed.notified();
            if let Some(&end) = self.lock().get(queue) {
                return end;
            }
            changed.await;
        }
    }

    /// Whether all of these queues have been consumed up to their ends.
    pub(crate) fn reached_by(&self, queues: &[QueueStatus]) -> bool {
        let ends = self.lock();
        queues.iter().all(|status| {
            let position = status.lowest_unfinished.or(status.next_offset);
            match (ends.get(&status.queue), position) {
                (Some(&end), Some(position)) => position.0 >= end,
                (None, _) | (_, None) => false,
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<MessageQueue, i64>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::{Epoch, QueueOffset};
    use rocketmq_consumer_core::status::QueueState;
    use rocketmq_consumer_core::time::Instant;

    use super::*;
    use crate::testing::queue;

    fn status(next: Option<i64>, unfinished: Option<i64>) -> QueueStatus {
        QueueStatus {
            queue: queue(),
            epoch: Epoch(1),
            state: QueueState::Pulling,
            hold: None,
            since: Instant::ZERO,
            next_offset: next.map(QueueOffset),
            lowest_unfinished: unfinished.map(QueueOffset),
            committed: None,
            max_offset: None,
            unfinished: 0,
            bytes: 0,
            delivered: 0,
            retrying: 0,
            attempt: 0,
            suspended_until: None,
            lock: None,
            held_record: None,
            reads_from: None,
            stalled_since: None,
            last_error: None,
        }
    }

    #[test]
    fn an_end_is_reached_when_nothing_below_it_is_unfinished() {
        let ends = Ends::default();
        assert!(!ends.reached_by(&[status(Some(9), None)]), "not known yet");
        ends.set(queue(), 7);
        ends.set(queue(), 9);
        let table = [
            (None, None, false),
            (Some(6), None, false),
            (Some(9), Some(6), false),
            (Some(9), Some(7), true),
            (Some(7), None, true),
        ];
        for (next, unfinished, reached) in table {
            assert_eq!(ends.reached_by(&[status(next, unfinished)]), reached);
        }
        assert!(ends.reached_by(&[]));
    }

    #[tokio::test]
    async fn who_asks_early_waits() {
        let ends = Ends::default();
        let queue = queue();
        let (end, ()) = tokio::join!(ends.of(&queue), async { ends.set(queue.clone(), 3) });
        assert_eq!(end, 3);
    }
}
