//! The locks of a group: which are asked for together, and what answers mean for each.
//!
//! One request for each broker and moment, whatever made it necessary: what is due, and with the first lock that is
//! renewed all others of its broker. Answers are matched by the value of topic, broker name and queue id; names that
//! were not asked for mean nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::ids::{BrokerName, MessageQueue};
use crate::status::LockStatus;
use crate::time::Instant;

use super::lock::{Change, Errand, Lock};

/// Queues named by one request, at most.
const BATCH_MAX: usize = 4096;

/// A request to a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) serial: u64,
    pub(super) broker: BrokerName,
    pub(super) errand: Errand,
    pub(super) queues: BTreeSet<MessageQueue>,
}

/// One that is under way.
#[derive(Clone, Debug)]
struct Sent {
    at: Instant,
    queues: BTreeSet<MessageQueue>,
}

#[derive(Clone, Debug, Default)]
pub(in crate::consumer::group) struct Locks {
    locks: BTreeMap<MessageQueue, Lock>,
    sent: BTreeMap<u64, Sent>,
    serials: u64,
    /// Whether somebody has wished that what is due is sent.
    pub(super) is_wished: bool,
}

impl Locks {
    pub(super) fn want(&mut self, queue: &MessageQueue, now: Instant) {
        if let Some(lock) = self.locks.get_mut(queue) {
            lock.want();
        } else {
            self.locks.insert(queue.clone(), Lock::wanted(now));
        }
    }

    pub(super) fn give_back(&mut self, queue: &MessageQueue, now: Instant) {
        if self.locks.get_mut(queue).is_some_and(|lock| !lock.give_back(now)) {
            self.locks.remove(queue);
        }
    }

    /// It is neither wanted nor unlocked: the broker forgets it when nobody renews it.
    pub(super) fn abandon(&mut self, queue: &MessageQueue) {
        self.locks.remove(queue);
    }

    /// Whether nothing of it is ours to use any more.
    pub(super) fn are_given_back(&self) -> bool {
        self.locks.values().all(Lock::is_given_back)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Until when the lock on a queue may be used.
    pub(in crate::consumer::group) fn lease(&self, queue: &MessageQueue) -> Option<Instant> {
        self.locks.get(queue)?.usable()
    }

    pub(in crate::consumer::group) fn status(
        &self,
        queue: &MessageQueue,
        now: Instant,
    ) -> Option<LockStatus> {
        Some(self.locks.get(queue)?.status(now))
    }

    /// When something is to be done, if no answer comes.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.locks.values().filter_map(Lock::next_at).min()
    }

    /// A broker may have forgotten its locks.
    pub(super) fn hasten(&mut self, broker: &BrokerName, now: Instant) {
        for (_, lock) in self.locks.iter_mut().filter(|(queue, _)| &queue.broker == broker) {
            lock.hasten(now);
        }
    }

    /// The connection to some brokers is gone.
    pub(super) fn doubt(&mut self, now: Instant, concerned: impl Fn(&BrokerName) -> bool) {
        for (_, lock) in self
            .locks
            .iter_mut()
            .filter(|(queue, _)| concerned(&queue.broker))
        {
            lock.doubt(now);
        }
    }

    /// The queues whose lease has ended.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<MessageQueue> {
        let ended = self.locks.iter_mut().filter_map(|(queue, lock)| {
            let is_over = lock.expire(now);
            is_over.then(|| queue.clone())
        });
        ended.collect()
    }

    /// What is to be sent now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Batch> {
        let due = self.locks.iter().filter(|(_, lock)| lock.is_due(now));
        let renewing = due.filter(|(_, lock)| lock.is_renewable());
        let renewing: BTreeSet<BrokerName> = renewing.map(|(queue, _)| queue.broker.clone()).collect();
        let mut batches: BTreeMap<(BrokerName, bool), BTreeSet<MessageQueue>> = BTreeMap::new();
        for (queue, lock) in &mut self.locks {
            let is_renewed = lock.is_renewable() && renewing.contains(&queue.broker);
            if lock.is_due(now) || is_renewed {
                let is_unlock = lock.ask(now) == Errand::Unlock;
                let batch = batches.entry((queue.broker.clone(), is_unlock));
                batch.or_default().insert(queue.clone());
            }
        }
        let mut due = Vec::new();
        for ((broker, is_unlock), mut queues) in batches {
            while !queues.is_empty() {
                let rest = queues.iter().nth(BATCH_MAX).cloned();
                let rest = rest.map_or_else(BTreeSet::new, |first| queues.split_off(&first));
                let errand = if is_unlock { Errand::Unlock } else { Errand::Lock };
                due.push(self.send(now, broker.clone(), errand, queues));
                queues = rest;
            }
        }
        due
    }

    fn send(
        &mut self,
        now: Instant,
        broker: BrokerName,
        errand: Errand,
        queues: BTreeSet<MessageQueue>,
    ) -> Batch {
        let serial = self.serials;
        self.serials += 1;
        let sent = Sent {
            at: now,
            queues: queues.clone(),
        };
        self.sent.insert(serial, sent);
        Batch {
            serial,
            broker,
            errand,
            queues,
        }
    }

    /// The broker has named the locks that are ours.
    pub(super) fn locked(
        &mut self,
        serial: u64,
        now: Instant,
        ours: &BTreeSet<MessageQueue>,
    ) -> Vec<(MessageQueue, Change)> {
        let Some(at) = self.sent.get(&serial).map(|sent| sent.at) else {
            return Vec::new();
        };
        self.ended(serial, |queue, lock| lock.answered(now, at, ours.contains(queue)))
    }

    /// The broker has unlocked.
    pub(super) fn unlocked(&mut self, serial: u64, now: Instant) {
        self.ended(serial, |_, lock| lock.unlocked(now));
    }

    /// A request has failed. Returns the queues it named.
    pub(super) fn failed(&mut self, serial: u64, now: Instant) -> BTreeSet<MessageQueue> {
        let named = self.sent.get(&serial).map(|sent| sent.queues.clone());
        self.ended(serial, |_, lock| lock.failed(now));
        named.unwrap_or_default()
    }

    /// Takes a request out of the table and tells each lock of it.
    fn ended(
        &mut self,
        serial: u64,
        mut tell: impl FnMut(&MessageQueue, &mut Lock) -> Change,
    ) -> Vec<(MessageQueue, Change)> {
        let mut changes = Vec::new();
        for queue in self
            .sent
            .remove(&serial)
            .map(|sent| sent.queues)
            .unwrap_or_default()
        {
            let Some(lock) = self.locks.get_mut(&queue) else {
                continue;
            };
            match tell(&queue, lock) {
                Change::Nothing => {}
                Change::Gone => {
                    self.locks.remove(&queue);
                }
                change @ (Change::Lost | Change::Refused { .. }) => changes.push((queue, change)),
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::QueueId;

    const fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn queue(broker: &str, id: i32) -> MessageQueue {
        MessageQueue {
            topic: "T".into(),
            broker: broker.into(),
            id: QueueId(id),
        }
    }

    /// What is sent, as broker, errand and queue ids.
    fn due(locks: &mut Locks, at: u64) -> Vec<(u64, alloc::string::String, Errand, Vec<i32>)> {
        let batches = locks.due(ms(at)).into_iter();
        let ids = |batch: &Batch| batch.queues.iter().map(|queue| queue.id.0).collect();
        let batches = batches.map(|batch| {
            let ids = ids(&batch);
            (batch.serial, batch.broker.as_str().into(), batch.errand, ids)
        });
        batches.collect()
    }

    fn set(queues: &[(&str, i32)]) -> BTreeSet<MessageQueue> {
        queues.iter().map(|(broker, id)| queue(broker, *id)).collect()
    }

    #[test]
    fn one_request_for_each_broker_names_all_that_is_due() {
        let mut locks = Locks::default();
        for (broker, id) in [("a", 0), ("a", 1), ("b", 0)] {
            locks.want(&queue(broker, id), ms(0));
        }
        let sent = due(&mut locks, 0);
        assert_eq!(
            sent,
            [
                (0, "a".into(), Errand::Lock, alloc::vec![0, 1]),
                (1, "b".into(), Errand::Lock, alloc::vec![0])
            ]
        );
        assert!(due(&mut locks, 1).is_empty(), "nothing is asked for twice");
    }

    #[test]
    fn with_the_first_lock_all_others_of_its_broker_are_renewed() {
        let mut locks = Locks::default();
        for (at, broker, id) in [(0, "a", 0), (5_000, "a", 1), (6_000, "b", 0)] {
            locks.want(&queue(broker, id), ms(at));
            let [(serial, ..)] = due(&mut locks, at)[..] else {
                panic!("one request")
            };
            locks.locked(serial, ms(at), &set(&[("a", 0), ("a", 1), ("b", 0)]));
        }
        // One that is refused waits for its own time.
        locks.want(&queue("a", 2), ms(19_950));
        let [(serial, ..)] = due(&mut locks, 19_950)[..] else {
            panic!("one request")
        };
        locks.locked(serial, ms(19_951), &BTreeSet::new());
        assert_eq!(locks.next_at(), Some(ms(20_000)));
        let sent = due(&mut locks, 20_000);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].3, [0, 1]);
    }

    #[test]
    fn names_nobody_asked_for_mean_nothing() {
        let mut locks = Locks::default();
        locks.want(&queue("a", 0), ms(0));
        locks.want(&queue("a", 1), ms(0));
        let [(serial, ..)] = due(&mut locks, 0)[..] else {
            panic!("one request")
        };
        let changes = locks.locked(serial, ms(1), &set(&[("a", 0), ("a", 7), ("zz", 1)]));
        assert_eq!(changes, [(queue("a", 1), Change::Refused { since: ms(1) })]);
        assert_eq!(locks.lease(&queue("a", 0)), Some(ms(30_000)));
        assert_eq!(locks.lease(&queue("a", 7)), None);
        assert!(
            locks.locked(serial, ms(2), &set(&[("a", 1)])).is_empty(),
            "answered once"
        );
        assert_eq!(locks.lease(&queue("a", 1)), None);
    }

    #[test]
    fn a_request_names_a_limited_number_of_queues() {
        let mut locks = Locks::default();
        let many = i32::try_from(BATCH_MAX).expect("small") + 1;
        for id in 0..many {
            locks.want(&queue("a", id), ms(0));
        }
        let sizes: Vec<usize> = locks.due(ms(0)).iter().map(|batch| batch.queues.len()).collect();
        assert_eq!(sizes, [BATCH_MAX, 1]);
    }

    #[test]
    fn what_was_given_back_leaves_nothing_behind() {
        let mut locks = Locks::default();
        locks.want(&queue("a", 0), ms(0));
        locks.give_back(&queue("a", 0), ms(0));
        assert!(locks.is_empty(), "it was never asked for");
        locks.want(&queue("a", 0), ms(0));
        let [(serial, ..)] = due(&mut locks, 0)[..] else {
            panic!("one request")
        };
        locks.locked(serial, ms(1), &set(&[("a", 0)]));
        locks.give_back(&queue("a", 0), ms(5));
        let [(serial, _, Errand::Unlock, _)] = due(&mut locks, 5)[..] else {
            panic!("one request")
        };
        locks.unlocked(serial, ms(6));
        assert!(locks.is_empty() && locks.sent.is_empty() && locks.next_at().is_none());
    }
}
