//! Which member may consume which queue in order. In memory only: a restart frees all locks.
//!
//! Neither group, topic nor broker name is checked; a lock of a queue that does not exist is granted, as
//! on a real broker.
//= rocketmq: RebalanceLockManager.tryLockBatch

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ids::{ClientId, ConsumerGroup, MessageQueue};
use crate::time::Instant;

/// The queue locks of one broker.
#[derive(Clone, Debug)]
pub(crate) struct QueueLocks {
    groups: BTreeMap<ConsumerGroup, BTreeMap<MessageQueue, Lock>>,
    expiry: Duration,
    len: usize,
    len_max: usize,
}

/// Who holds a queue, and since when for sure.
#[derive(Clone, Debug)]
struct Lock {
    owner: ClientId,
    renewed: Instant,
}

impl Lock {
    /// At the very end of its time a lock still holds.
    fn is_expired(&self, now: Instant, expiry: Duration) -> bool {
        now.saturating_since(self.renewed) > expiry
    }
}

impl QueueLocks {
    /// No locks. They expire when they were not renewed for longer than `expiry`; at most `len_max` are
    /// kept.
    pub(crate) const fn new(expiry: Duration, len_max: usize) -> Self {
        Self {
            groups: BTreeMap::new(),
            expiry,
            len: 0,
            len_max,
        }
    }

    /// Locks or renews what is free, expired or the client's own. Returns the queues that are the client's
    /// now, in the order they were asked for; what another holds, or has no room, is left out.
    pub(crate) fn try_lock(
        &mut self,
        now: Instant,
        group: &ConsumerGroup,
        client: &ClientId,
        queues: &[MessageQueue],
    ) -> Vec<MessageQueue> {
        let granted = queues
            .iter()
            .filter(|queue| self.try_one(now, group, client, queue));
        granted.cloned().collect()
    }

    fn try_one(
        &mut self,
        now: Instant,
        group: &ConsumerGroup,
        client: &ClientId,
        queue: &MessageQueue,
    ) -> bool {
        let lock = Lock {
            owner: client.clone(),
            renewed: now,
        };
        let expiry = self.expiry;
        if let Some(held) = self.groups.get_mut(group).and_then(|locks| locks.get_mut(queue)) {
            let granted = held.owner == *client || held.is_expired(now, expiry);
            if granted {
                *held = lock;
            }
            return granted;
        }
        if self.len >= self.len_max {
            return false;
        }
        self.len += 1;
        let locks = self.groups.entry(group.clone()).or_default();
        locks.insert(queue.clone(), lock);
        true
    }

    /// Frees what the client holds of these.
    pub(crate) fn unlock(&mut self, group: &ConsumerGroup, client: &ClientId, queues: &[MessageQueue]) {
        let Some(locks) = self.groups.get_mut(group) else {
            return;
        };
        for queue in queues {
            if locks.get(queue).is_some_and(|lock| lock.owner == *client) {
                locks.remove(queue);
                self.len -= 1;
            }
        }
        if locks.is_empty() {
            self.groups.remove(group);
        }
    }

    /// Who holds a queue.
    pub(crate) fn owner(
        &self,
        now: Instant,
        group: &ConsumerGroup,
        queue: &MessageQueue,
    ) -> Option<&ClientId> {
        let lock = self.groups.get(group)?.get(queue)?;
        (!lock.is_expired(now, self.expiry)).then_some(&lock.owner)
    }

    /// Whether any queue of a group is locked: an orderly group then, whose overdue messages become dead
    /// letters when they are sent to the retry topic.
    //= rocketmq: RebalanceLockManager.isLockAllExpired
    pub(crate) fn is_any_held(&self, now: Instant, group: &ConsumerGroup) -> bool {
        let mut locks = self.groups.get(group).into_iter().flat_map(BTreeMap::values);
        locks.any(|lock| !lock.is_expired(now, self.expiry))
    }

    /// Lets all locks expire: what a restart does, or a clock that jumps.
    pub(crate) fn expire_all(&mut self) {
        self.groups.clear();
        self.len = 0;
    }
}
