//! The application wants to go on from another place in a queue: the ownership ends, and another one of the same
//! queue begins there.
//!
//! The new place is committed at once and until it is acknowledged, so that a crash does not undo it. A commit of
//! the old ownership that is still on its way may be stored after that; the repeats that follow every new ownership
//! (5, 10 and 30 s later) win over it, as they do over another member's.
//!
//! Where the place is to be found first and the broker does not tell, it is asked again; what is stored is not asked
//! for. Should the queue be lost meanwhile, the next owner begins at what is stored.
//= rocketmq: DefaultLitePullConsumerImpl.seek type=differs
//  reason: the ownership is fenced by its epoch; bounds are not asked beforehand, they are the broker's to judge.

use alloc::string::ToString as _;

use crate::action::RefusalReason;
use crate::consumer::cx::Cx;
use crate::consumer::peers::Peers;
use crate::event::SeekTo;
use crate::ids::{MessageQueue, QueueKey};
use crate::status::GroupPhase;

use super::Group;
use super::left::Left;
use super::queue::Queue;
use super::queue::moved::Find;

impl Group {
    /// Goes on from another place in a queue that is ours.
    ///
    /// # Errors
    /// The queue is not ours, or its start is not known yet; the offset is negative; the group leaves.
    pub(crate) fn seek(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        name: &MessageQueue,
        to: SeekTo,
    ) -> Result<(), RefusalReason> {
        if self.phase != GroupPhase::Running {
            return Err(RefusalReason::ShuttingDown);
        }
        if matches!(to, SeekTo::Offset(offset) if offset.0 < 0) {
            return Err(RefusalReason::BadConfig(
                "offset",
                "must not be negative".to_string(),
            ));
        }
        // A queue on its way to another place may be sent to yet another one. One that another member may still
        // hold may not: that member's last commit would win.
        let may_seek = |key: &QueueKey| {
            let queue = self.queues.get(*key);
            queue.is_some_and(|queue| queue.is_owned() || queue.sought.is_some())
        };
        let Some(key) = self.by_name.get(name).copied().filter(may_seek) else {
            return Err(RefusalReason::NotOwned(name.clone()));
        };
        let key = self.leave_for_another_place(cx, key, name);
        let find = match to {
            SeekTo::Offset(offset) => {
                self.own(cx, peers, key, offset, None);
                return Ok(());
            }
            SeekTo::Earliest => Find::Min,
            SeekTo::Latest => Find::Max,
            SeekTo::Time(time) => Find::Since(time),
        };
        if let Some(queue) = self.queues.get_mut(key) {
            queue.sought = Some(find);
        }
        self.find_start(cx, key, find);
        Ok(())
    }

    /// Ends an ownership and begins another one of the same queue.
    fn leave_for_another_place(&mut self, cx: &mut Cx<'_>, key: QueueKey, name: &MessageQueue) -> QueueKey {
        let Some(tenure) = self.queues.get(key).and_then(Queue::tenure) else {
            // On its way to another place: nothing of it was told, and where it was left is remembered.
            if let Some(queue) = self.queues.remove(key) {
                queue.disarm(cx);
            }
            return self.insert_queue(cx, name.clone());
        };
        let left = Left {
            finished: tenure.window.lowest_unfinished(),
            // What is behind the new place was asked for, whether it is new or not.
            new_since: None,
            missing: false,
            back_at: None,
        };
        self.begin_anew(cx, key, name.clone(), left)
    }
}
