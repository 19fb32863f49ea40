//! An operator moves the group within a topic, and the broker leaves it to the members (220).
//!
//! It is the same as when the broker has stored the new offset and tells of it with a pull (21): the ownership ends,
//! and another one begins there. Results of handlers that run, and the answer of a pull that is out, belong to an
//! ownership that has ended. The new one commits at once and pulls at once; nothing has to be waited for.
//!
//! A queue that is not ours is its owner's business, who was told the same; one that is being given back as well:
//! what it commits last asks first whether somebody has moved the offset. But there are two in which nothing is
//! delivered any more, and still nobody else has a say: one that is given back in order, before it is unlocked, and any
//! of a group that leaves, before it has told so. There the new offset is what is committed last.
//!
//! A broker that resets by itself tells whoever pulls next, and only once. So the answer of the pull that was out when a
//! queue began to be given back counts as long as the queue is in its grace.
//= rocketmq: RebalanceImpl, MQClientInstance.resetOffset type=differs
//  reason: ownerships are fenced by their epoch, not by a pause of 10 s in which nothing else can be asked.

use alloc::collections::BTreeMap;

use crate::consumer::cx::Cx;
use crate::consumer::peers::Peers;
use crate::consumer::reply::Refused;
use crate::ids::{MessageQueue, QueueKey, QueueOffset, Topic};
use crate::status::GroupPhase;
use crate::wire::request::operator::OffsetTable;
use crate::wire::request::pull::{PullAnswer, PullStatus};

use super::super::Group;
use super::super::queue::Queue;
use super::super::queue::moved::Claim;

impl Group {
    /// Continue at these offsets. Queues of other topics are passed over.
    ///
    /// # Errors
    /// When the group has left: what it has committed last is stored.
    pub(crate) fn on_reset(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        topic: &Topic,
        offsets: &OffsetTable,
    ) -> Result<(), Refused> {
        if self.is_past_its_say() {
            return Err(Refused::leaving());
        }
        let given_back = self.given_back();
        for (name, to) in offsets.iter().filter(|(name, _)| &name.topic == topic) {
            let owned = self.by_name.get(name).copied();
            // In order the lock is ours until the last commit; else a successor here begins at the new offset at once.
            let is_in_order = self.config.is_orderly();
            if let Some(key) = given_back.get(name).filter(|_| is_in_order || owned.is_none()) {
                self.reset_at_parting(cx, *key, Claim::reset(self.next_of(*key, *to), *to));
            } else if let Some(key) = owned.filter(|_| self.phase == GroupPhase::Running) {
                self.reset_queue(cx, peers, key, name, *to);
            } else if let Some(key) = owned {
                self.reset_at_parting(cx, key, Claim::reset(self.next_of(key, *to), *to));
            }
        }
        self.deliver(cx);
        Ok(())
    }

    /// Whether what was committed last is stored and everybody is being told: the queues are others' from now on.
    fn is_past_its_say(&self) -> bool {
        matches!(self.phase, GroupPhase::Leaving | GroupPhase::Stopped) || self.has_given_locks_back()
    }

    /// The ownerships of queues that are being given back. Under their locks they are ours until they are unlocked, else
    /// as long as the grace lasts.
    fn given_back(&self) -> BTreeMap<MessageQueue, QueueKey> {
        let queues = self.queues.iter();
        let given_back = queues.filter(|(_, queue)| queue.is_in_grace());
        given_back.map(|(key, queue)| (queue.name.clone(), key)).collect()
    }

    /// The offset that an ownership would ask for next.
    fn next_of(&self, key: QueueKey, otherwise: QueueOffset) -> QueueOffset {
        let tenure = self.queues.get(key).and_then(Queue::tenure);
        tenure.map_or(otherwise, |tenure| tenure.window.next_offset())
    }

    /// The pull is answered that was out when nothing was to be fetched any more. What it brings is the next owner's;
    /// that an operator has moved the offset is told to nobody else.
    pub(in super::super) fn on_parting_answer(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        answer: &PullAnswer,
    ) {
        let Some(tenure) = self.queues.get(key).and_then(Queue::tenure) else {
            return;
        };
        let claim = Claim::of(tenure.window.next_offset(), answer);
        if answer.status == PullStatus::OffsetMoved && tenure.asked_master && claim.is_reset() {
            self.reset_at_parting(cx, key, claim);
        }
    }

    /// Of a queue of which nothing is delivered any more, if it is still ours to say where the next owner begins.
    fn reset_at_parting(&mut self, cx: &mut Cx<'_>, key: QueueKey, claim: Claim) {
        let Some(queue) = self.queues.get(key) else { return };
        if queue.is_owned() {
            self.reset_leaving(cx, key, claim);
        } else if queue.may_begin_elsewhere(cx.now, self.config.revoke_grace) {
            self.reset_given_back(cx, key, claim);
        }
    }

    /// Whoever is next has not been told, or waits for the lock, and begins at what is stored: so it is ours to commit the
    /// new offset. The ownership ends, and one that begins there is given back in its place.
    fn reset_given_back(&mut self, cx: &mut Cx<'_>, key: QueueKey, claim: Claim) {
        let Some(queue) = self.queues.get(key) else { return };
        let (name, to) = (queue.name.clone(), claim.to);
        // Its lock goes to the successor, as that of any queue that begins elsewhere.
        let next = self.by_name.insert(name.clone(), key);
        if let Some(key) = self.begin_elsewhere(cx, key, claim, None) {
            self.begin_tenure(cx, key, to, None);
            self.by_name.remove(&name);
            self.revoke(cx, key);
        }
        if let Some(next) = next {
            self.by_name.insert(name, next);
        }
    }

    /// The group leaves. The ownership ends, and one that begins there and fetches nothing takes its place.
    fn reset_leaving(&mut self, cx: &mut Cx<'_>, key: QueueKey, claim: Claim) {
        if self.is_past_its_say() {
            return;
        }
        let to = claim.to;
        let Some(key) = self.begin_elsewhere(cx, key, claim, None) else {
            return;
        };
        self.begin_tenure(cx, key, to, None);
        if let Some(queue) = self.queues.get_mut(key) {
            if let Some(tenure) = queue.tenure_mut() {
                tenure.pull.stop(cx);
            }
            queue.commit_if_due(cx, &self.name, self.offset_timeout);
        }
        self.check_drained(cx);
    }

    /// One whose start is not known yet begins here: the broker has not stored it, so nobody else would say so.
    fn reset_queue(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        name: &MessageQueue,
        to: QueueOffset,
    ) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        if queue.is_acquiring() {
            // Who has the lock was told the same, and commits it before it is ours.
            if !queue.may_consume(cx.now) {
                return;
            }
            queue.stop_asking(cx);
            // It would keep where it has come to, and nobody would ask whether it may.
            if self.broadcasts() {
                self.end_former(cx, name);
            }
            return self.own(cx, peers, key, to, None);
        }
        let claim = Claim::reset(self.next_of(key, to), to);
        let Some(key) = self.begin_elsewhere(cx, key, claim, None) else {
            return;
        };
        if let Some(moved) = self.queues.get_mut(key).and_then(|queue| queue.moved.as_mut()) {
            // Not a broker that moves us round in circles: an operator may move us as often as he likes.
            moved.again = false;
        }
        self.own(cx, peers, key, to, None);
    }
}
