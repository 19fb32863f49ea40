//! What is different for a group that broadcasts: every queue is ours, nobody else has a say, and nobody else is told.
//!
//! | clustering | broadcasting |
//! |---|---|
//! | a share of the queues, by the members | every readable queue of every topic |
//! | begins where the broker has stored, after a pause beside others | begins where the [`shelf`](super::shelf) says, at once |
//! | commits go to the broker, with pulls too | offsets go to the store |
//! | a failed message is sent back | a failed message is told and dropped |
//! | the retry topic is read | there is none |
//= rocketmq: RebalanceImpl.rebalanceByTopic (BROADCASTING) type=differs
//  reason: a queue that is away for a while goes on where it was left; a failure is counted and told.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::{MessageModel, UndecodablePolicy};
use crate::consumer::cx::{Cx, GroupTimer, Wish};
use crate::consumer::peers::Peers;
use crate::ids::{MessageQueue, QueueKey, QueueOffset, Topic};
use crate::notice::NoticeKind;
use crate::status::GroupPhase;

use super::Group;
use super::acquiring::{Stored, start_question};
use super::left::Beginning;
use super::queue::Queue;
use super::shelf::{Kept, Saved, Shelf};

/// Pause before a save that failed is tried again when the group wants to leave.
const LAST_SAVE_RETRY: Duration = Duration::from_millis(500);

/// Nobody makes up a 0 here.
const OWN_WORD: i32 = i32::MAX;

impl Group {
    pub(super) fn broadcasts(&self) -> bool {
        self.config.model == MessageModel::Broadcasting
    }

    /// What was stored when the group began. No queue begins without it.
    pub(crate) fn keep_offsets(&mut self, kept: Kept) {
        self.shelf = Some(Shelf::new(kept));
    }

    // ---- whose a queue is -------------------------------------------------------------------------

    /// Takes every readable queue of every topic whose route is known.
    pub(super) fn take_all_queues(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        let topics: Vec<Topic> = self.wanted_topics().cloned().collect();
        for topic in topics {
            // Unknown is not empty: what we have of it we keep.
            if let Some(queues) = peers.routes.queues(&topic) {
                self.apply_share(cx, peers, &topic, queues.to_vec(), false);
            }
        }
        self.tell_if_ready(cx, peers);
    }

    /// Whether every queue that the routes name is ours.
    pub(super) fn has_all_queues(&self, peers: Peers<'_>) -> bool {
        let has = |queue: &MessageQueue| self.by_name.contains_key(queue);
        self.wanted_topics().all(|topic| {
            peers
                .routes
                .queues(topic)
                .is_some_and(|queues| queues.iter().all(has))
        })
    }

    // ---- where it begins --------------------------------------------------------------------------

    /// A queue begins where it was left, by this process or an earlier one; else its broker is asked where to
    /// start, as soon as it can be.
    pub(super) fn begin_where_left(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey) {
        let Some(queue) = self.queues.get_mut(key).filter(|queue| queue.is_acquiring()) else {
            return;
        };
        let position = self.shelf.as_ref().and_then(|shelf| shelf.position(&queue.name));
        if let Some(position) = position {
            let stored = Stored {
                offset: Some(position),
                version: OWN_WORD,
            };
            return self.begin_at(cx, peers, key, stored, Beginning::Stored(position));
        }
        match peers.listener(&queue.name.broker).ready {
            Ok(()) => {
                let body = start_question(queue, self.config.start_at);
                queue.ask_start(cx, body, self.offset_timeout);
            }
            Err(reason) => queue.wait_for_broker(reason, cx.now),
        }
    }

    // ---- how far it has come ----------------------------------------------------------------------

    /// An ownership has come to `offset`.
    pub(crate) fn keep(&mut self, cx: &mut Cx<'_>, key: QueueKey, offset: QueueOffset) {
        let Some(queue) = self.queues.get(key) else { return };
        self.put(cx, key, queue.name.clone(), offset);
    }

    /// An ownership has ended: the next one begins where it has come to, whether that is stored by then or not.
    pub(super) fn keep_end(&mut self, cx: &mut Cx<'_>, key: QueueKey, queue: &Queue) {
        let (Some(shelf), Some(tenure)) = (&self.shelf, queue.tenure()) else {
            return;
        };
        let is_over = matches!(self.phase, GroupPhase::Leaving | GroupPhase::Stopped);
        let end = tenure.window.lowest_unfinished();
        if !is_over && shelf.position(&queue.name) != Some(end) {
            self.put(cx, key, queue.name.clone(), end);
        }
    }

    fn put(&mut self, cx: &mut Cx<'_>, key: QueueKey, queue: MessageQueue, offset: QueueOffset) {
        if self
            .shelf
            .as_mut()
            .is_some_and(|shelf| shelf.put(key, queue, offset))
        {
            // Behind what others put within the same event: one save for all of them.
            cx.wishes.push_back(Wish::Save(self.key));
        }
    }

    /// Somebody else has said where a queue goes on: what its former ownership comes to counts for nothing.
    pub(super) fn end_former(&mut self, cx: &mut Cx<'_>, name: &MessageQueue) {
        let former = self.queues.iter();
        let former = former.filter(|(_, queue)| queue.is_revoking() && &queue.name == name);
        let former: Vec<QueueKey> = former.map(|(key, _)| key).collect();
        for key in former {
            self.withdraw(cx, key);
            self.bury(cx, key);
        }
    }

    /// Something is to be stored, unless a save is out or has failed just now. `seq` would name the next one.
    pub(crate) fn save(&mut self, cx: &mut Cx<'_>, seq: u64) {
        if let Some(action) = self.shelf.as_mut().and_then(|shelf| shelf.save(seq)) {
            cx.out.push(action);
        }
    }

    /// The pause after a failed save is over. What is stored now is how far the queues have come by now.
    pub(super) fn on_save_timer(&mut self, cx: &mut Cx<'_>) {
        if let Some(shelf) = &mut self.shelf {
            shelf.end_rest();
            self.put_newest(cx);
            cx.wishes.push_back(Wish::Save(self.key));
        }
    }

    /// Of queues that wait for a save that has failed: it will carry this as well, and its answer is about this.
    fn put_newest(&mut self, cx: &mut Cx<'_>) {
        for key in self.queues.keys() {
            let Some(queue) = self.queues.get(key).filter(|queue| queue.is_owned()) else {
                continue;
            };
            if let Some(tenure) = queue.tenure().filter(|tenure| tenure.progress.is_in_flight()) {
                let (name, newest) = (queue.name.clone(), tenure.window.lowest_unfinished());
                self.put(cx, key, name, newest);
            }
        }
    }

    /// The store has answered a save.
    pub(crate) fn on_saved(&mut self, cx: &mut Cx<'_>, seq: u64, error: Option<Box<str>>) {
        let Some(shelf) = &mut self.shelf else {
            cx.counters.stale_answers += 1;
            return;
        };
        match shelf.saved(seq, error.clone()) {
            Saved::Stale => cx.counters.stale_answers += 1,
            Saved::Safe(puts) => {
                // What was put meanwhile.
                cx.wishes.push_back(Wish::Save(self.key));
                for (key, offset) in puts {
                    // One that has ended meanwhile waits for nothing.
                    if self.queues.get(key).is_some() {
                        self.on_committed(cx, key, offset, Ok(()));
                    }
                }
                self.check_last_commits(cx);
            }
            Saved::Failed(pause) => {
                let kind = NoticeKind::SaveFailed {
                    place: shelf.place().into(),
                    why: error.as_deref().unwrap_or_default().into(),
                };
                let is_leaving = self.phase != GroupPhase::Running;
                let pause = if is_leaving { LAST_SAVE_RETRY } else { pause };
                cx.timers.set(self.timer(GroupTimer::Save), cx.now + pause);
                cx.notice(&self.name, kind);
            }
        }
    }

    /// The group is past its drain: what waits for a pause is stored now, and afterwards every half second.
    pub(super) fn save_last(&mut self, cx: &mut Cx<'_>) {
        if self.shelf.as_ref().is_some_and(Shelf::is_resting) {
            self.on_save_timer(cx);
        }
    }

    /// Whether the store has everything that it is to have.
    pub(super) fn is_stored(&self) -> bool {
        self.shelf.as_ref().is_none_or(Shelf::is_idle)
    }

    // ---- what becomes of a failure ----------------------------------------------------------------

    /// A message has failed. Nobody takes it back: it would come to every member again.
    pub(super) fn drop_failed(&mut self, cx: &mut Cx<'_>, key: QueueKey, seq: u64) {
        let message_id = self
            .message(key, seq)
            .map(|message| message.msg_id().into_owned());
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let name = queue.name.clone();
        let Some(tenure) = queue.tenure_mut() else { return };
        let offset = tenure.window.offset(seq);
        let freed = tenure.window.finish(seq);
        self.freed(freed);
        self.dropped += 1;
        if let Some(offset) = offset {
            let kind = NoticeKind::Dropped {
                queue: name,
                offset,
                message_id,
            };
            cx.notice(&self.name, kind);
        }
    }

    /// What to do with a message that cannot be read: there are no dead letters of a group that broadcasts.
    pub(super) fn undecodable_policy(&self) -> UndecodablePolicy {
        match self.config.undecodable {
            UndecodablePolicy::DeadLetter if self.broadcasts() => UndecodablePolicy::Skip,
            policy @ (UndecodablePolicy::DeadLetter
            | UndecodablePolicy::Deliver
            | UndecodablePolicy::Hold
            | UndecodablePolicy::Skip) => policy,
        }
    }

    /// Something of a queue was settled by a deadline, not by a report.
    pub(super) fn after_deadline(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey) {
        if self.broadcasts() {
            self.after_settling(cx, peers, key);
        } else {
            self.pump(cx, peers, key);
        }
    }

    /// Whether an ownership keeps its offset here.
    pub(super) const fn keeps_offsets(&self) -> bool {
        self.shelf.is_some()
    }
}
