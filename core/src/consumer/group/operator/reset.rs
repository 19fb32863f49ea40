//! An operator moves the group within a topic, and the broker leaves it to the members (220).
//!
//! It is the same as when the broker has stored the new offset and tells of it with a pull (21): the ownership ends,
//! and another one begins there. Results of handlers that run, and the answer of a pull that is out, belong to an
//! ownership that has ended. The new one commits at once and pulls at once; nothing has to be waited for.
//!
//! A queue that is not ours is its owner's business, who was told the same; one that is being given back as well:
//! what it commits last asks first whether somebody has moved the offset.
//= rocketmq: RebalanceImpl, MQClientInstance.resetOffset type=differs
//  reason: ownerships are fenced by their epoch, not by a pause of 10 s in which nothing else can be asked.

use crate::consumer::cx::Cx;
use crate::consumer::peers::Peers;
use crate::consumer::reply::Refused;
use crate::ids::{QueueKey, QueueOffset, Topic};
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
        for (name, to) in offsets.iter().filter(|(name, _)| &name.topic == topic) {
            if let Some(key) = self.by_name.get(name).copied() {
                self.reset_queue(cx, peers, key, *to);
            }
        }
        self.deliver(cx);
        Ok(())
    }

    /// One whose start is not known yet begins here: the broker has not stored it, so nobody else would say so.
    fn reset_queue(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey, to: QueueOffset) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        if queue.is_acquiring() {
            // Who has the lock was told the same, and commits it before it is ours.
            if !queue.may_consume(cx.now) {
                return;
            }
            queue.stop_asking(cx);
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
