//! Queues that are consumed in order: nothing is pulled, delivered or committed without the broker's lock.
//!
//! The lock comes first and the offset after it: who had the queue before commits and then unlocks. What is granted is
//! put to use in the same step; what is lost ends the ownership at once, and another one begins to ask for the lock.
//! A queue that is given back keeps its lock until its last handler has ended and its last commit is acknowledged.
//!
//! ```text
//!  acquired ──► WaitsForLock ──granted──► asks stored offset ──► owned ──share lost──► Revoking ──► unlocked
//!                    ▲                                             │ lock lost
//!                    └──────────────── another ownership ──────────┘
//! ```
//= rocketmq: RebalanceImpl.lockAll, ConsumeMessageOrderlyService.tryLockLaterAndReconsume type=differs
//  reason: one batch for each broker, asked again within a second; the lease counts from the request; unlocking is
//  acknowledged and comes after the last commit.

mod lock;
mod table;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use crate::action::CallError;
use crate::consumer::cx::{Cx, Destination, GroupTimer, Purpose, QuestionBody, Replica, Wish};
use crate::consumer::peers::Peers;
use crate::ids::{BrokerName, MessageQueue, PeerAddr, QueueKey};
use crate::notice::{LockLoss, NoticeKind};
use crate::status::GroupPhase;
use crate::wire::request::locks::{LockAnswer, LockRequest, QueueLocks, UnlockRequest};

use super::Group;
use super::queue::Queue;
pub(super) use lock::LEASE;
use lock::{Change, Errand};
pub(super) use table::Locks;

/// How long a broker may take to lock or unlock.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How long a queue rests that was locked beside other members. Ours have committed with acknowledgement before they
/// unlock; a Java member does both one-way, and a broker has other threads for commits than for locks.
const LATE_COMMIT: Duration = Duration::from_millis(100);

/// A refusal that lasts longer than a queue takes to change hands is told.
const REFUSED: Duration = Duration::from_secs(1);

impl Group {
    /// A queue has become ours: its lock is asked for, with all others of this event.
    pub(super) fn want_lock(&mut self, cx: &mut Cx<'_>, name: &MessageQueue) {
        if let Some(locks) = &mut self.locks {
            locks.want(name, cx.now);
        }
        self.wish_locks(cx);
    }

    /// What is due is sent, and what is granted put to use, within this event.
    fn wish_locks(&mut self, cx: &mut Cx<'_>) {
        if let Some(locks) = self.locks.as_mut().filter(|locks| !locks.is_wished) {
            locks.is_wished = true;
            cx.wishes.push_back(Wish::Locks(self.key));
        }
    }

    /// Sends what is due, and begins with queues whose lock is there.
    pub(crate) fn use_locks(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        let Some(locks) = &mut self.locks else { return };
        locks.is_wished = false;
        if self.phase == GroupPhase::Stopped {
            return;
        }
        for table::Batch {
            serial,
            broker,
            errand,
            queues,
        } in locks.due(cx.now)
        {
            let names = QueueLocks {
                client_id: self.client_id.clone(),
                group: self.name.clone(),
                queues,
                only_this_broker: false,
            };
            let group = self.key;
            let (body, purpose) = match errand {
                Errand::Lock => (
                    QuestionBody::Lock(LockRequest(names)),
                    Purpose::Lock { group, serial },
                ),
                Errand::Unlock => (
                    QuestionBody::Unlock(UnlockRequest(names)),
                    Purpose::Unlock { group, serial },
                ),
            };
            cx.ask(
                Destination::Broker(broker, Replica::Master),
                body,
                TIMEOUT,
                purpose,
            );
        }
        self.arm_locks_timer(cx);
        self.begin_locked(cx, peers);
    }

    fn arm_locks_timer(&self, cx: &mut Cx<'_>) {
        let next = self.locks.as_ref().and_then(Locks::next_at);
        cx.timers.arm(self.timer(GroupTimer::Locks), next);
    }

    pub(super) fn on_locks_timer(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        let ended = self.locks.as_mut().map(|locks| locks.expire(cx.now));
        for name in ended.unwrap_or_default() {
            self.lock_lost(cx, &name, LockLoss::Expired);
        }
        self.check_drained(cx);
        self.check_last_commits(cx);
        self.use_locks(cx, peers);
    }

    /// A broker that was away is back. It may have lost its locks.
    pub(super) fn hasten_locks(&mut self, cx: &mut Cx<'_>, broker: &BrokerName) {
        if let Some(locks) = &mut self.locks {
            locks.hasten(broker, cx.now);
            self.wish_locks(cx);
        }
    }

    /// The connection to a broker is gone, and perhaps its locks with it: nothing is done under them before they are
    /// granted again.
    pub(crate) fn on_link_down(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, addr: &PeerAddr) {
        let Some(locks) = &mut self.locks else { return };
        locks.doubt(cx.now, |broker| {
            peers.routes.address(broker, Replica::Master) == Some(addr)
        });
        self.learn_leases();
        self.wish_locks(cx);
    }

    /// The broker named the locks that are ours, or failed to.
    pub(crate) fn on_locked(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        serial: u64,
        answer: Result<LockAnswer, CallError>,
    ) {
        let Some(locks) = &mut self.locks else { return };
        match answer {
            Ok(LockAnswer { locked }) => {
                for (name, change) in locks.locked(serial, cx.now, &locked) {
                    match change {
                        Change::Lost => self.lock_lost(cx, &name, LockLoss::Refused),
                        Change::Refused { since } if cx.now.saturating_since(since) >= REFUSED => {
                            cx.notice(&self.name, NoticeKind::LockRefused { queue: name, since });
                        }
                        Change::Refused { .. } | Change::Gone | Change::Nothing => {}
                    }
                }
            }
            Err(error) => self.locks_failed(cx, serial, "lock queues", &error),
        }
        self.after_locks(cx, peers);
    }

    /// The broker has unlocked what was given back, or not.
    pub(crate) fn on_unlocked(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        serial: u64,
        answer: Result<(), CallError>,
    ) {
        let Some(locks) = &mut self.locks else { return };
        match answer {
            Ok(()) => locks.unlocked(serial, cx.now),
            Err(error) => self.locks_failed(cx, serial, "unlock queues", &error),
        }
        self.after_locks(cx, peers);
    }

    fn after_locks(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        self.use_locks(cx, peers);
        self.check_drained(cx);
        self.check_last_commits(cx);
    }

    fn locks_failed(&mut self, cx: &mut Cx<'_>, serial: u64, request: &'static str, error: &CallError) {
        let named = self.locks.as_mut().map(|locks| locks.failed(serial, cx.now));
        let named = named.unwrap_or_default();
        for (_, queue) in self
            .queues
            .iter_mut()
            .filter(|(_, queue)| named.contains(&queue.name))
        {
            queue.went_wrong(cx.now, request, error);
        }
        if let (Some(queue), CallError::Broker { code, remark }) = (named.first(), error) {
            self.refused(cx, &queue.broker, request, *code, remark);
        }
    }

    /// Every ownership knows the lease of its queue, so that nothing is looked up on the way of a message.
    fn learn_leases(&mut self) {
        let Some(locks) = &self.locks else { return };
        for (_, queue) in self.queues.iter_mut() {
            let lease = locks.lease(&queue.name);
            queue.learn_lease(lease);
        }
    }

    /// Queues that could do nothing for a while without their lock go on.
    fn go_on_locked(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        let now = cx.now;
        let could = |queue: &Queue| queue.may_consume(now);
        let waiting = self.queues.iter().filter(|(_, queue)| !could(queue));
        let waiting: Vec<QueueKey> = waiting.map(|(key, _)| key).collect();
        self.learn_leases();
        for key in waiting {
            if self.queues.get(key).is_some_and(could) {
                self.pump(cx, peers, key);
                self.enlist(key);
                self.end_grace_if_idle(cx, key);
            }
        }
        self.deliver(cx);
    }

    /// Queues that wait for their lock and have it begin, unless an earlier ownership still has something to do.
    fn begin_locked(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        self.go_on_locked(cx, peers);
        let waits = |queue: &Queue| queue.waits_for_lock() && queue.may_consume(cx.now);
        let waiting: Vec<QueueKey> = self
            .queues
            .iter()
            .filter(|(_, queue)| waits(queue))
            .map(|(key, _)| key)
            .collect();
        if waiting.is_empty() {
            return;
        }
        let revoking = self.queues.iter().filter(|(_, queue)| queue.is_revoking());
        let revoking: BTreeSet<MessageQueue> = revoking.map(|(_, queue)| queue.name.clone()).collect();
        let rest = LATE_COMMIT.min(self.config.takeover_delay);
        for key in waiting {
            let Some(queue) = self.queues.get_mut(key) else {
                continue;
            };
            if revoking.contains(&queue.name) {
                continue;
            }
            if queue.is_beside_others() && !rest.is_zero() {
                queue.wait_for_former_owner(cx, rest);
            } else {
                self.ask_stored(cx, peers, key);
            }
        }
    }

    /// Another member has the lock, or may have it. What we have of the queue ends without another word to its
    /// broker; handlers that run belong to an ownership that has ended.
    fn lock_lost(&mut self, cx: &mut Cx<'_>, name: &MessageQueue, why: LockLoss) {
        let of_name = self.queues.iter().filter(|(_, queue)| &queue.name == name);
        let of_name: Vec<QueueKey> = of_name.map(|(key, _)| key).collect();
        let mut had_it = false;
        for key in of_name {
            let Some(queue) = self.queues.get_mut(key) else {
                continue;
            };
            queue.learn_lease(None);
            if queue.waits_for_lock() {
                continue;
            }
            had_it = true;
            // Handlers have half a minute before the lock can be another member's.
            if let Some(tenure) = queue.tenure_mut() {
                tenure.window.shorten(cx.now);
            }
            let is_current = self.by_name.get(name) == Some(&key);
            if is_current {
                self.leave_queue(key);
            }
            self.withdraw(cx, key);
            if is_current && self.phase == GroupPhase::Running {
                self.replace(cx, key);
            } else {
                if is_current {
                    self.by_name.remove(name);
                }
                self.bury(cx, key);
            }
        }
        if had_it {
            let queue = name.clone();
            cx.notice(&self.name, NoticeKind::LockLost { queue, why });
        }
    }

    /// Ends an ownership and begins another one that waits for the lock. Its handlers come first.
    fn replace(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        let Some(name) = self.queues.get(key).map(|queue| queue.name.clone()) else {
            return;
        };
        self.bury(cx, key);
        let key = self.insert_queue(cx, name.clone());
        if let Some(queue) = self.queues.get_mut(key) {
            queue.begin_with_lock(cx.now, true);
        }
        self.want_lock(cx, &name);
    }

    /// An ownership that was never put to use ends.
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        if let Some(queue) = self.queues.remove(key) {
            queue.disarm(cx);
            self.leave_running(key, &queue);
            self.give_lock_back(cx, key, &queue);
        }
    }

    /// An ownership has ended: its lock goes to its successor here, or back to the broker. While a handler runs it is
    /// neither renewed nor given to others before it is forgotten.
    pub(super) fn give_lock_back(&mut self, cx: &mut Cx<'_>, key: QueueKey, queue: &Queue) {
        let Some(locks) = &mut self.locks else { return };
        let has_heir = self.by_name.contains_key(&queue.name)
            || self.queues.iter().any(|(_, other)| other.name == queue.name);
        if !has_heir {
            if self.dispatch.has_runs(key) || queue.follows().is_some() {
                locks.abandon(&queue.name);
            } else {
                locks.give_back(&queue.name, cx.now);
            }
        }
        self.wish_locks(cx);
    }

    /// Whether the group leaves and what it has committed last is stored: its queues are others' from now on.
    pub(super) fn has_given_locks_back(&self) -> bool {
        self.phase == GroupPhase::Committing && self.locks.as_ref().is_some_and(Locks::are_given_back)
    }

    /// The group leaves, and its offsets are safe. True once every lock is back.
    pub(super) fn give_locks_back(&mut self, cx: &mut Cx<'_>) -> bool {
        for key in self.queues.keys() {
            let (Some(queue), Some(locks)) = (self.queues.get_mut(key), &mut self.locks) else {
                continue;
            };
            queue.learn_lease(None);
            if self.dispatch.has_runs(key) || queue.follows().is_some() {
                locks.abandon(&queue.name);
            } else {
                locks.give_back(&queue.name, cx.now);
            }
        }
        self.wish_locks(cx);
        self.locks.as_ref().is_none_or(Locks::is_empty)
    }
}
