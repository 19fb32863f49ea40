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

    /// Drops what has expired, so that it takes no room. Nobody can tell the difference.
    pub(crate) fn forget_expired(&mut self, now: Instant) {
        let expiry = self.expiry;
        self.len = 0;
        self.groups.retain(|_, locks| {
            locks.retain(|_, lock| !lock.is_expired(now, expiry));
            self.len += locks.len();
            !locks.is_empty()
        });
    }

    /// Lets all locks expire: what a restart does, or a clock that jumps.
    pub(crate) fn expire_all(&mut self) {
        self.groups.clear();
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::QueueId;

    const EXPIRY: Duration = Duration::from_secs(60);

    const fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn queue(id: i32) -> MessageQueue {
        MessageQueue {
            topic: "T".into(),
            broker: "a".into(),
            id: QueueId(id),
        }
    }

    /// Locks under test, of one group.
    struct Bench {
        locks: QueueLocks,
        group: ConsumerGroup,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                locks: QueueLocks::new(EXPIRY, 4),
                group: "g".into(),
            }
        }

        /// The numbers of the queues that were granted.
        fn lock(&mut self, at: u64, client: &str, queues: &[i32]) -> Vec<i32> {
            let queues: Vec<_> = queues.iter().map(|id| queue(*id)).collect();
            let granted = self.locks.try_lock(ms(at), &self.group, &client.into(), &queues);
            granted.into_iter().map(|queue| queue.id.0).collect()
        }

        fn unlock(&mut self, client: &str, queues: &[i32]) {
            let queues: Vec<_> = queues.iter().map(|id| queue(*id)).collect();
            self.locks.unlock(&self.group, &client.into(), &queues);
        }

        fn owner(&self, at: u64, id: i32) -> Option<&str> {
            self.locks
                .owner(ms(at), &self.group, &queue(id))
                .map(ClientId::as_str)
        }
    }

    #[test]
    fn what_is_free_or_ones_own_is_granted() {
        let mut bench = Bench::new();
        assert_eq!(bench.lock(0, "a", &[2, 0]), [2, 0]);
        assert_eq!(bench.lock(0, "b", &[0, 1]), [1]);
        assert_eq!(bench.lock(0, "a", &[0, 1]), [0]);
        assert_eq!(
            (bench.owner(0, 0), bench.owner(0, 1), bench.owner(0, 3)),
            (Some("a"), Some("b"), None)
        );
        let mut other = queue(0);
        other.broker = "zz".into();
        let granted = bench
            .locks
            .try_lock(ms(0), &bench.group, &"b".into(), &[other.clone()]);
        assert_eq!(granted, [other], "another broker's name is another queue");
        let granted = bench.locks.try_lock(ms(0), &"h".into(), &"b".into(), &[queue(0)]);
        assert!(granted.is_empty(), "no room is left");
    }

    #[test]
    fn a_lock_holds_to_the_end_of_its_time_and_is_renewed_by_locking() {
        for (renewed, tried, granted) in [(0, 60_000, false), (0, 60_001, true), (30_000, 60_001, false)] {
            let mut bench = Bench::new();
            bench.lock(0, "a", &[0]);
            bench.lock(renewed, "a", &[0]);
            assert_eq!(bench.owner(tried, 0), (!granted).then_some("a"));
            assert_eq!(bench.locks.is_any_held(ms(tried), &bench.group), !granted);
            assert_eq!(
                bench.lock(tried, "b", &[0]).is_empty(),
                !granted,
                "{renewed} {tried}"
            );
        }
        let mut bench = Bench::new();
        bench.lock(0, "a", &[0]);
        assert_eq!(
            bench.lock(90_000, "a", &[0]),
            [0],
            "an expired lock is granted to its owner again"
        );
    }

    #[test]
    fn only_the_owner_unlocks() {
        let mut bench = Bench::new();
        bench.lock(0, "a", &[0, 1]);
        bench.unlock("b", &[0, 1]);
        assert!(bench.lock(0, "b", &[0, 1]).is_empty());
        bench.unlock("a", &[1, 3]);
        assert_eq!(bench.lock(0, "b", &[0, 1]), [1]);
        bench.unlock("a", &[0]);
        bench.unlock("b", &[1]);
        assert!(bench.locks.groups.is_empty(), "nothing is left behind");
    }

    #[test]
    fn locks_have_a_limit_and_expired_ones_make_room() {
        let mut bench = Bench::new();
        assert_eq!(bench.lock(0, "a", &[0, 1, 2, 3, 4]), [0, 1, 2, 3]);
        assert_eq!(bench.lock(50_000, "a", &[4, 3]), [3]);
        bench.locks.forget_expired(ms(60_001));
        assert_eq!(bench.lock(60_001, "a", &[4, 5, 6, 7]), [4, 5, 6]);
        assert_eq!(
            (bench.owner(60_001, 3), bench.owner(60_001, 2)),
            (Some("a"), None)
        );
        bench.locks.expire_all();
        assert!(!bench.locks.is_any_held(ms(60_001), &bench.group));
        assert_eq!(bench.lock(60_001, "c", &[3, 4, 5, 6]), [3, 4, 5, 6]);
    }

    proptest! {
        #[test]
        fn a_queue_has_one_owner_at_a_time(
            steps in prop::collection::vec((0..6_u8, 0..3_usize, 0..4_i32, 0..40_000_u64), 1..60),
        ) {
            let mut bench = Bench::new();
            let mut now = 0;
            // Who locked a queue last, and when.
            let mut last: BTreeMap<i32, (usize, u64)> = BTreeMap::new();
            for (step, client, id, later) in steps {
                now += later;
                let name = ["a", "b", "c"][client];
                let held = last.get(&id).filter(|(_, at)| now - at <= 60_000).map(|(client, _)| *client);
                match step {
                    0 => {
                        bench.unlock(name, &[id]);
                        if last.get(&id).is_some_and(|(owner, _)| *owner == client) {
                            last.remove(&id);
                        }
                    }
                    1 => bench.locks.forget_expired(ms(now)),
                    _ => {
                        let free = held.is_none_or(|owner| owner == client);
                        prop_assert_eq!(bench.lock(now, name, &[id]).is_empty(), !free);
                        if free {
                            last.insert(id, (client, now));
                        }
                    }
                }
                for id in 0..4 {
                    let held = last.get(&id).filter(|(_, at)| now - at <= 60_000);
                    prop_assert_eq!(bench.owner(now, id), held.map(|(client, _)| ["a", "b", "c"][*client]));
                }
                let entries = bench.locks.groups.values().map(BTreeMap::len).sum::<usize>();
                prop_assert_eq!(bench.locks.len, entries);
            }
        }
    }
}
