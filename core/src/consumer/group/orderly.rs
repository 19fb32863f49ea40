//! Messages in order: what an outcome means for the queue it came from.
//!
//! | outcome | what follows |
//! |---|---|
//! | committed | settled; its successor is next |
//! | suspended, less often than the limit | ready again at the head after a pause, and nothing behind it before |
//! | suspended once too often, dead letter | a copy is buried; settled when that is acknowledged |
//! | not started | ready again |
//!
//! A run is reported as a whole or in parts. What was behind a message that failed is delivered again behind it,
//! whatever its own outcome says, unless it was settled before.
//!
//! Where only messages of one key keep their order, "the head" is that of the key, and a run is one message.
//!
//! On the way out nothing is suspended or buried: what is not finished is the next owner's.
//= rocketmq: ConsumeMessageOrderlyService.processConsumeResult type=differs
//  reason: an outcome for each message; only the one that failed is buried; nothing is settled before its copy is stored.

use alloc::vec::Vec;
use core::time::Duration;

use crate::config::SUSPEND_TIME;
use crate::consumer::cx::Cx;
use crate::consumer::peers::Peers;
use crate::event::Verdict;
use crate::ids::{MessageQueue, QueueKey};
use crate::message::{OrderlyOutcome, Outcome};
use crate::notice::NoticeKind;
use crate::status::GroupPhase;

use super::Group;
use super::queue::window::SlotState;
use super::queue::{InOrder, Queue};

impl Group {
    /// What a new ownership of a queue has for its order.
    pub(super) fn order_of(&self, name: &MessageQueue) -> Option<InOrder> {
        if !self.config.is_orderly() {
            return None;
        }
        let Some(locks) = &self.locks else {
            return Some(InOrder::without_lock(self.config.order));
        };
        Some(InOrder::leased(self.config.order, locks.lease(name)))
    }

    pub(super) fn settle_in_order(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        seq: u64,
        verdict: Verdict,
    ) {
        let Some(tenure) = self.queues.get_mut(key).and_then(Queue::tenure_mut) else {
            return;
        };
        if verdict == Verdict::NotStarted {
            return tenure.window.ready_again(seq, false);
        }
        if tenure.window.is_behind_ready(seq) {
            return tenure.window.ready_again(seq, true);
        }
        // Whoever is dropped has no say in how it is told.
        let was_dropped = tenure.window.state(seq) == Some(SlotState::Abandoned);
        if matches!(verdict, Verdict::Handled(_)) && !was_dropped {
            self.tell_other_kind(cx, key, seq, verdict);
        }
        match verdict {
            Verdict::Ordered(OrderlyOutcome::Commit) | Verdict::Handled(Outcome::Done) => {
                self.commit_in_order(key, seq);
            }
            Verdict::Ordered(OrderlyOutcome::Suspend) | Verdict::Handled(Outcome::Retry) => {
                self.suspend(cx, peers, key, seq, self.config.suspend_time);
            }
            Verdict::Ordered(OrderlyOutcome::SuspendFor(pause))
            | Verdict::Handled(Outcome::RetryAfter(pause)) => {
                self.suspend(cx, peers, key, seq, pause);
            }
            Verdict::Ordered(OrderlyOutcome::DeadLetter) | Verdict::Handled(Outcome::DeadLetter) => {
                self.bury_in_order(cx, peers, key, seq);
            }
            Verdict::Undecodable | Verdict::Unsupported => self.cannot_open(cx, peers, key, seq, verdict),
            Verdict::NotStarted => {}
        }
    }

    fn commit_in_order(&mut self, key: QueueKey, seq: u64) {
        if let Some(tenure) = self.queues.get_mut(key).and_then(Queue::tenure_mut) {
            let freed = tenure.window.finish(seq);
            self.freed(freed);
        }
    }

    fn suspend(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey, seq: u64, pause: Duration) {
        if self.tries(key, seq) >= self.config.max_reconsume() {
            return self.bury_in_order(cx, peers, key, seq);
        }
        let stays = self.phase == GroupPhase::Running;
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        if let Some(tenure) = queue.tenure_mut() {
            tenure.window.ready_again(seq, true);
        }
        if stays && queue.is_owned() {
            queue.suspend(cx, seq, pause.clamp(*SUSPEND_TIME.start(), *SUSPEND_TIME.end()));
        }
    }

    /// How often a message was tried before this time: sent back, or delivered again here.
    fn tries(&self, key: QueueKey, seq: u64) -> u32 {
        let before = self
            .message(key, seq)
            .map_or(0, |message| message.reconsume_times());
        let tenure = self.queues.get(key).and_then(Queue::tenure);
        before.saturating_add(tenure.map_or(0, |tenure| tenure.window.attempt(seq)))
    }

    /// A message goes to the dead letters. It holds its queue until that is acknowledged.
    pub(super) fn bury_in_order(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey, seq: u64) {
        let stays = self.phase == GroupPhase::Running;
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let stays = stays && queue.is_owned();
        let Some(tenure) = queue.tenure_mut() else { return };
        if !stays {
            return tenure.window.ready_again(seq, false);
        }
        tenure.window.set_state(seq, SlotState::Failing);
        self.produce_dead(cx, peers, key, seq);
    }

    /// The rest after a failure is over.
    pub(super) fn on_suspend_timer(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.suspension_is_over(cx);
        }
        self.enlist(key);
        self.deliver(cx);
    }

    /// A handler speaks of another way to consume than the group's.
    pub(super) fn tell_other_kind(&mut self, cx: &mut Cx<'_>, key: QueueKey, seq: u64, said: Verdict) {
        if self.told_other_kind {
            return;
        }
        if let Some(queue) = self.queues.get(key)
            && let Some(offset) = queue.tenure().and_then(|tenure| tenure.window.offset(seq))
        {
            self.told_other_kind = true;
            let queue = queue.name.clone();
            cx.notice(&self.name, NoticeKind::OutcomeOfOtherKind { queue, offset, said });
        }
    }

    // ---- one ownership after another ----------------------------------------------------------------

    /// An ownership ends. Whoever has the queue next, now or later, is behind its handlers.
    pub(super) fn leave_running(&mut self, key: QueueKey, queue: &Queue) {
        if !self.config.is_orderly() {
            return;
        }
        let is_running = self.dispatch.has_runs(key).then_some(key);
        let Some(before) = is_running.or_else(|| queue.follows()) else {
            return;
        };
        self.running_on.insert(queue.name.clone(), before);
        if let Some(heir) = self.by_name.get(&queue.name).copied().filter(|heir| *heir != key) {
            self.follow(heir, before);
        }
    }

    /// A new ownership delivers nothing before the handlers of an earlier one have ended.
    pub(super) fn follow_whoever_runs(&mut self, key: QueueKey, name: &MessageQueue) {
        if let Some(before) = self.running_on.get(name).copied() {
            self.follow(key, before);
        }
    }

    fn follow(&mut self, key: QueueKey, before: QueueKey) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.follow(Some(before));
        }
    }

    /// Something of an ownership was reported: its successor may be free to go.
    pub(super) fn predecessor_may_have_ended(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        if self.running_on.is_empty() || self.dispatch.has_runs(key) {
            return;
        }
        self.running_on.retain(|_, before| *before != key);
        let follows = |(_, queue): &(QueueKey, &Queue)| queue.follows() == Some(key);
        let successors: Vec<QueueKey> = self.queues.iter().filter(follows).map(|(key, _)| key).collect();
        if successors.is_empty() {
            return;
        }
        for successor in &successors {
            if let Some(queue) = self.queues.get_mut(*successor) {
                queue.follow(None);
            }
            self.enlist(*successor);
        }
        self.deliver(cx);
        for successor in successors {
            self.end_grace_if_idle(cx, successor);
        }
        self.check_drained(cx);
    }
}
