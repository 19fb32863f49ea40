//! Listening in order: one message of a queue at a time, under a lock that its broker keeps.
//!
//! ```text
//!  add: lock ─► offset ─► 500 ms ─► offset again ─► pull ⟲ ─► backlog ─► listener ─► done: the next one
//!                                                                 ▲          └ failed: 1 s ─┐
//!                                                                 └─────────────────────────┘
//!  lock all (20 s): what the answer lacks is not locked; nothing is given to a listener without a lock of 30 s
//!  give back: commit ─► the listener lets go within 500 ms ─► commit, gone, unlock (one-way)
//!                   └─► it does not: dropped, but in the table until a later round tries again, at last by force
//! ```
//!
//! The weaknesses are Java's: an unlock that nobody acknowledges, queues that are stuck when they come back before
//! they were gone, and at the end an unlock before the last commit.
//= rocketmq: ConsumeMessageOrderlyService, RebalancePushImpl.removeUnnecessaryMessageQueue, RebalanceImpl.lockAll

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::ids::{BrokerName, MessageQueue, QueueOffset};
use rocketmq_consumer_core::message::Batch;
use rocketmq_consumer_core::wire::frame::Frame;
use rocketmq_consumer_core::wire::request::decode_answer;
use rocketmq_consumer_core::wire::request::locks::{LockRequest, QueueLocks, UnlockRequest};

use super::ground::Timer;
use super::links::Patience;
use super::process_queue::ProcessQueue;
use super::{JavaMember, JavaOutput, Purpose};

pub(super) const FIRST_LOCK_ALL: Duration = Duration::from_secs(1);
/// `lockInterval`, `lockMaxLiveTime`, and the time a lock request may take.
const LOCK_ALL: Duration = Duration::from_secs(20);
const LOCK_LASTS: Duration = Duration::from_secs(30);
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How soon the lock is tried for that a listener misses; and when the listener looks again, by what came of it.
const LOCK_SOON: Duration = Duration::from_millis(100);
const LISTEN_SOON: Duration = Duration::from_millis(10);
const LISTEN_LATER: Duration = Duration::from_secs(3);
/// How long a listener has to let go of a queue, and after how long without renewal the queue is taken from it.
const REMOVAL: Duration = Duration::from_millis(500);
const BY_FORCE: Duration = Duration::from_secs(20);
/// What a pause is brought to.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(30));

/// Listeners that have something.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    /// What they have: ownership and offset, by the token it was handed over with.
    tokens: BTreeMap<u64, (u64, MessageQueue, i64)>,
    /// Queues that a listener has something of, whatever became of the ownership it came from.
    busy: BTreeSet<MessageQueue>,
    /// Ownerships that wait for a thread.
    waiting: VecDeque<u64>,
    next_token: u64,
    /// All locks were given back for good.
    stopped: bool,
}

impl Ordered {
    /// Listeners are interrupted; their results are nobody's.
    pub(super) fn stop(&mut self) {
        self.tokens.clear();
        self.waiting.clear();
        self.stopped = true;
    }
}

impl JavaMember {
    fn ordered_queue(&mut self, epoch: u64) -> Option<&mut ProcessQueue> {
        let queue = self.queues.get_mut(self.by_epoch.get(&epoch)?)?;
        (!queue.dropped).then_some(queue)
    }

    // ---- locks ----------------------------------------------------------------------------------

    fn ask_lock(&mut self, broker: &BrokerName, queues: BTreeSet<MessageQueue>, purpose: Purpose) -> bool {
        let Some(master) = self.directory.master(broker).cloned() else {
            return false;
        };
        let request = LockRequest(self.locks(queues));
        let patience = Patience::Sync(LOCK_TIMEOUT);
        self.links
            .ask(&mut self.ground, &master, &request, patience, purpose);
        true
    }

    fn locks(&self, queues: BTreeSet<MessageQueue>) -> QueueLocks {
        QueueLocks {
            client_id: self.config.client_id.clone(),
            group: self.config.group.clone(),
            queues,
            only_this_broker: false,
        }
    }

    /// Whether a request was written whose answer goes on with the round.
    pub(super) fn ask_lock_to_add(&mut self, queue: MessageQueue) -> bool {
        let (broker, queues) = (queue.broker.clone(), BTreeSet::from([queue.clone()]));
        self.ask_lock(&broker, queues, Purpose::LockToAdd(queue))
    }

    /// What is refused is left for a later round.
    pub(super) fn on_locked_to_add(&mut self, queue: MessageQueue, answer: Option<&Frame>) {
        let is_mine = locked(answer).is_some_and(|locked| locked.contains(&queue));
        if !(is_mine && self.ask_stored(queue)) {
            self.next_step();
        }
    }

    pub(super) fn lock_all(&mut self) {
        self.ground.arm(LOCK_ALL, Timer::LockAll);
        let mut of_brokers: BTreeMap<BrokerName, (BTreeSet<MessageQueue>, Vec<u64>)> = BTreeMap::new();
        for queue in self.queues.values().filter(|queue| !queue.dropped) {
            let (queues, epochs) = of_brokers.entry(queue.name.broker.clone()).or_default();
            queues.insert(queue.name.clone());
            epochs.push(queue.epoch);
        }
        for (broker, (queues, epochs)) in of_brokers {
            self.ask_lock(&broker, queues, Purpose::LockAll(epochs));
        }
    }

    pub(super) fn on_locked_all(&mut self, epochs: &[u64], answer: Option<&Frame>) {
        let Some(locked) = locked(answer) else {
            return;
        };
        let now = self.ground.now;
        for epoch in epochs {
            if let Some(queue) = self.ordered_queue(*epoch) {
                queue.lock.held = locked.contains(&queue.name);
                if queue.lock.held {
                    queue.lock.since = now;
                }
            }
        }
    }

    pub(super) fn lock_again(&mut self, epoch: u64) {
        let Some(name) = self.ordered_queue(epoch).map(|queue| queue.name.clone()) else {
            return;
        };
        let (broker, queues) = (name.broker.clone(), BTreeSet::from([name]));
        if !self.ask_lock(&broker, queues, Purpose::LockAgain(epoch)) {
            self.ground.arm(LISTEN_LATER, Timer::Listen(epoch));
        }
    }

    pub(super) fn on_locked_again(&mut self, epoch: u64, answer: Option<&Frame>) {
        let now = self.ground.now;
        let Some(queue) = self.ordered_queue(epoch) else {
            return;
        };
        let is_mine = locked(answer).is_some_and(|locked| locked.contains(&queue.name));
        if is_mine {
            (queue.lock.held, queue.lock.since) = (true, now);
        }
        let soon = if is_mine { LISTEN_SOON } else { LISTEN_LATER };
        self.ground.arm(soon, Timer::Listen(epoch));
    }

    /// All locks are given back.
    pub(super) fn unlock_all(&mut self) {
        let mut of_brokers: BTreeMap<BrokerName, BTreeSet<MessageQueue>> = BTreeMap::new();
        for name in self.queues.keys() {
            of_brokers
                .entry(name.broker.clone())
                .or_default()
                .insert(name.clone());
        }
        for (broker, queues) in of_brokers {
            let Some(master) = self.directory.master(&broker).cloned() else {
                continue;
            };
            let request = UnlockRequest(self.locks(queues));
            let patience = Patience::Sync(LOCK_TIMEOUT);
            self.links
                .ask(&mut self.ground, &master, &request, patience, Purpose::Unlock);
        }
        self.ordered.busy.clear();
    }

    // ---- listening ------------------------------------------------------------------------------

    pub(super) fn put_in_order(&mut self, epoch: u64, batch: &Arc<Batch>) {
        let Some(queue) = self.ordered_queue(epoch) else {
            return;
        };
        for message in batch.messages() {
            queue.backlog.insert(message.queue_offset().0, (message, 0));
        }
        if !queue.backlog.is_empty() && !std::mem::replace(&mut queue.consuming, true) {
            self.listen(epoch);
        }
    }

    /// Gives the lowest message of a queue to a listener, if it may have it now.
    pub(super) fn listen(&mut self, epoch: u64) {
        let (now, threads) = (self.ground.now, self.config.threads);
        let Some(queue) = self.ordered_queue(epoch) else {
            return;
        };
        if !queue.lock.held || now.saturating_since(queue.lock.since) > LOCK_LASTS {
            self.ground.arm(LOCK_SOON, Timer::LockAgain(epoch));
            return;
        }
        let Some((offset, (message, attempt))) = queue.backlog.first_key_value() else {
            queue.consuming = false;
            return;
        };
        let (name, offset) = (queue.name.clone(), *offset);
        let (message, attempt) = (message.clone(), *attempt);
        let ordered = &mut self.ordered;
        if ordered.busy.contains(&name) || ordered.tokens.len() >= threads {
            ordered.waiting.push_back(epoch);
            return;
        }
        let token = ordered.next_token;
        ordered.next_token += 1;
        ordered.busy.insert(name.clone());
        ordered.tokens.insert(token, (epoch, name, offset));
        self.ground.out.push_back(JavaOutput::Deliver {
            token,
            message,
            attempt,
        });
    }

    /// A listener has returned. What it says of a queue that was given back counts for nothing.
    pub(super) fn on_listened(&mut self, token: u64, ok: bool) {
        let Some((epoch, name, offset)) = self.ordered.tokens.remove(&token) else {
            return;
        };
        self.ordered.busy.remove(&name);
        let pause = self.config.suspend.clamp(PAUSES.0, PAUSES.1);
        if let Some(queue) = self.ordered_queue(epoch) {
            if ok {
                queue.backlog.remove(&offset);
                queue.commit(QueueOffset(offset));
                self.ordered.waiting.push_front(epoch);
            } else {
                if let Some((_, attempt)) = queue.backlog.get_mut(&offset) {
                    *attempt += 1;
                }
                self.ground.arm(pause, Timer::Listen(epoch));
            }
        } else if self.queues.get(&name).is_some_and(|queue| queue.removing) {
            self.remove(&name);
        }
        // Each looks once: who cannot go on yet waits again.
        for _ in 0..self.ordered.waiting.len() {
            if let Some(next) = self.ordered.waiting.pop_front() {
                self.listen(next);
            }
        }
    }

    // ---- giving back ----------------------------------------------------------------------------

    /// Gives a queue back. Whether it is gone: a listener that has something of it keeps it, for now.
    pub(super) fn release_in_order(&mut self, name: &MessageQueue) -> bool {
        self.persist(name);
        let now = self.ground.now;
        let is_busy = self.ordered.busy.contains(name);
        let Some(queue) = self.queues.get_mut(name) else {
            return false;
        };
        let by_force =
            std::mem::replace(&mut queue.dropped, true) && now.saturating_since(queue.lock.since) > BY_FORCE;
        if !is_busy || by_force {
            self.remove(name);
            return true;
        }
        if !std::mem::replace(&mut queue.removing, true) {
            let epoch = queue.epoch;
            self.ground.arm(REMOVAL, Timer::Removal(epoch));
        }
        false
    }

    pub(super) fn give_up_removal(&mut self, epoch: u64) {
        let name = self.by_epoch.get(&epoch);
        if let Some(queue) = name.and_then(|name| self.queues.get_mut(name)) {
            queue.removing = false;
        }
    }

    /// A queue that is gone is unlocked, unless a listener has something of it or everything was unlocked before.
    pub(super) fn after_removal(&mut self, queue: &ProcessQueue) {
        if self.ordered.stopped || (self.ordered.busy.contains(&queue.name) && !queue.dropped) {
            return;
        }
        let Some(master) = self.directory.master(&queue.name.broker).cloned() else {
            return;
        };
        let request = UnlockRequest(self.locks(BTreeSet::from([queue.name.clone()])));
        self.links.tell(&mut self.ground, &master, &request);
    }
}

/// The queues that an answer has locked; `None` when it is none.
fn locked(answer: Option<&Frame>) -> Option<BTreeSet<MessageQueue>> {
    let answer = answer.and_then(|frame| decode_answer::<LockRequest>(frame).ok());
    answer.map(|answer| answer.locked)
}
