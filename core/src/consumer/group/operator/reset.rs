//! An operator moves the group within a topic, and the broker leaves it to the members (220).
//!
//! It is the same as when the broker has stored the new offset and tells of it with a pull (21): the ownership ends,
//! and another one begins there. Results of handlers that run, and the answer of a pull that is out, belong to an
//! ownership that has ended. The new one commits at once and pulls at once; nothing has to be waited for.
//!
//! A queue that is not ours is its owner's business, who was told the same; one that is being given back as well:
//! what it commits last asks first whether somebody has moved the offset. In order it is not: nobody else may say
//! anything of it before it is unlocked, so what it commits last is the new offset.
//= rocketmq: RebalanceImpl, MQClientInstance.resetOffset type=differs
//  reason: ownerships are fenced by their epoch, not by a pause of 10 s in which nothing else can be asked.

use alloc::collections::BTreeMap;

use crate::consumer::cx::Cx;
use crate::consumer::peers::Peers;
use crate::consumer::reply::Refused;
use crate::ids::{MessageQueue, QueueKey, QueueOffset, Topic};
use crate::status::GroupPhase;
use crate::wire::request::operator::OffsetTable;

use super::super::Group;
use super::super::queue::moved::Claim;

impl Group {
    /// Continue at these offsets. Queues of other topics are passed over.
    ///
    /// # Errors
    /// When the group is leaving: its last commits are under way.
    pub(crate) fn on_reset(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        topic: &Topic,
        offsets: &OffsetTable,
    ) -> Result<(), Refused> {
        if self.phase != GroupPhase::Running {
            return Err(Refused::leaving());
        }
        let given_back = self.given_back_in_order();
        for (name, to) in offsets.iter().filter(|(name, _)| &name.topic == topic) {
            if let Some(key) = given_back.get(name) {
                self.reset_given_back(cx, *key, *to);
            } else if let Some(key) = self.by_name.get(name).copied() {
                self.reset_queue(cx, peers, key, name, *to);
            }
        }
        self.deliver(cx);
        Ok(())
    }

    /// The ownerships of queues that are being given back under their locks. They are ours until they are unlocked.
    fn given_back_in_order(&self) -> BTreeMap<MessageQueue, QueueKey> {
        let queues = self.queues.iter();
        let given_back = queues.filter(|(_, queue)| queue.order.is_some() && queue.is_revoking());
        given_back.map(|(key, queue)| (queue.name.clone(), key)).collect()
    }

    /// Whoever is next waits for the lock, passes over what it is told, and begins at what is stored: so it is ours to
    /// commit the new offset. The ownership ends, and one that begins there is given back in its place.
    fn reset_given_back(&mut self, cx: &mut Cx<'_>, key: QueueKey, to: QueueOffset) {
        let Some(queue) = self.queues.get(key) else { return };
        let name = queue.name.clone();
        let asked = queue.tenure().map_or(to, |tenure| tenure.window.next_offset());
        // Its lock goes to the successor, as that of any queue that begins elsewhere.
        let next = self.by_name.insert(name.clone(), key);
        if let Some(key) = self.begin_elsewhere(cx, key, Claim::reset(asked, to), None) {
            self.begin_tenure(cx, key, to, None);
            self.by_name.remove(&name);
            self.revoke(cx, key);
        }
        if let Some(next) = next {
            self.by_name.insert(name, next);
        }
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
        let asked = queue.tenure().map_or(to, |tenure| tenure.window.next_offset());
        let Some(key) = self.begin_elsewhere(cx, key, Claim::reset(asked, to), None) else {
            return;
        };
        if let Some(moved) = self.queues.get_mut(key).and_then(|queue| queue.moved.as_mut()) {
            // Not a broker that moves us round in circles: an operator may move us as often as he likes.
            moved.again = false;
        }
        self.own(cx, peers, key, to, None);
    }
}
