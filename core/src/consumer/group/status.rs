//! What operators see of a group.

use alloc::vec::Vec;

use crate::consumer::peers::Peers;
use crate::ids::QueueKey;
use crate::status::{GroupStatus, HoldReason, QueueStatus, ReplicaStatus};
use crate::time::Instant;

use super::Group;
use super::queue::Queue;
use super::shelf::Shelf;

impl Group {
    pub(crate) fn status(&self, peers: Peers<'_>, now: Instant) -> GroupStatus {
        let is_open = |(run, position)| self.dispatch.find(run, position).is_some();
        let strays = self.strays.past_deadline(is_open);
        let past = |(_, queue): (QueueKey, &Queue)| queue.tenure().map_or(0, |t| t.window.past_deadline());
        let queues = self.queues.iter();
        let queues: Vec<_> = queues
            .map(|(key, queue)| self.queue_status(peers, now, key, queue))
            .collect();
        GroupStatus {
            group: self.name.clone(),
            phase: self.phase,
            members: self.rebalance.members().to_vec(),
            permits: self.dispatch.permits(),
            past_deadline: self.queues.iter().map(past).sum::<u32>() + strays,
            buffer_bytes: self.buffer_bytes,
            subscriptions: self.subscription_status(),
            finished: self.finished,
            retried: self.retries,
            dropped: self.dropped,
            store: self.shelf.as_ref().map(Shelf::status),
            retrying: u32::try_from(self.send_backs.len()).unwrap_or(u32::MAX),
            oldest_delivery: self.dispatch.oldest(),
            lag: queues.iter().filter_map(QueueStatus::lag).sum(),
            flow: self.flow_status(),
            queues,
        }
    }

    fn queue_status(&self, peers: Peers<'_>, now: Instant, key: QueueKey, queue: &Queue) -> QueueStatus {
        let asked = queue.tenure().and_then(|tenure| tenure.pull.replica());
        let reads_from = asked.and_then(|id| {
            let addr = peers.routes.replicas(&queue.name.broker)?.get(&id)?.clone();
            Some(ReplicaStatus { id, addr })
        });
        let status = queue.status();
        // A pull that was out when it was paused says nothing of why the next one will not follow.
        let paused = self.flow.paused(&queue.name).filter(|_| queue.is_owned());
        QueueStatus {
            reads_from,
            stalled_since: self.stalls.since(key),
            lock: self
                .locks
                .as_ref()
                .and_then(|locks| locks.status(&queue.name, now)),
            hold: paused.map(HoldReason::Paused).or(status.hold),
            ..status
        }
    }
}
