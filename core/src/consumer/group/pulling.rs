//! Feeding the queues: every way to a pull, and what its answer means.
//!
//! | answer | what follows |
//! |---|---|
//! | found | into the window, delivered, next pull |
//! | not found, nothing matched | the range grows, next pull |
//! | offset moved | see [`moved`](super::moved): believed or not, and then another ownership begins |
//! | anything else | see [`refusals`](super::refusals) |
//= rocketmq: DefaultMQPushConsumerImpl.pullMessage type=differs
//  reason: permanent errors back off; an answer never changes the offset unless it says so.

use alloc::format;
use core::time::Duration;

use crate::action::CallError;
use crate::config::UndecodablePolicy;
use crate::consumer::cx::{Cx, Wish};
use crate::consumer::peers::Peers;
use crate::ids::{MessageQueue, QueueKey, QueueOffset};
use crate::notice::NoticeKind;
use crate::status::{GroupPhase, HoldReason};
use crate::wire::request::pull::{PullAnswer, PullStatus};
use crate::wire::request::send_back::Delay;

use super::Group;
use super::queue::harvest::{self, Harvest, Obstacle, Piece, Unreadable};
use super::queue::pull::PullState;
use super::queue::window::SlotState;
use super::queue::{Gate, Queue, QueueLimits};

/// How often an answer that cannot be read is asked for again before the queue is held.
const DOUBTS: u32 = 3;

impl Group {
    /// Pulls if everything allows it; every way to a pull comes along here.
    pub(super) fn pump(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let Some(tenure) = queue.tenure().filter(|tenure| tenure.pull.may_ask()) else {
            return;
        };
        let Some(subscribed) = self.subscriptions.get(&queue.name.topic) else {
            return;
        };
        let replica = peers.reader(&queue.name.broker, tenure.pull.suggested(), self.revision);
        let gate = Gate {
            config: &self.config,
            replica,
            buffer_room: self.buffer_bytes < self.config.buffer_bytes_max,
            draining: self.phase != GroupPhase::Running,
            locked: queue.may_consume(cx.now),
            paused: self.flow.paused(&queue.name),
            limits: QueueLimits::of(
                &self.config,
                self.shares.get(&queue.name.topic).copied().unwrap_or(1),
            ),
            sub_version: subscribed.version,
        };
        let Some(reason) = queue.pull(cx, &gate) else {
            return;
        };
        self.buffer_was_full |= reason == HoldReason::BufferFull;
        if !matches!(
            reason,
            HoldReason::HeartbeatPending | HoldReason::Draining | HoldReason::Paused(_)
        ) {
            let kind = NoticeKind::Held {
                queue: queue.name.clone(),
                reason,
            };
            cx.notice(&self.name, kind);
        }
    }

    /// What was freed may let queues pull that were held for it.
    pub(super) fn pump_held(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, wanted: HoldReason) {
        for key in self.queues.keys() {
            let state = self
                .queues
                .get(key)
                .and_then(Queue::tenure)
                .map(|tenure| tenure.pull.state());
            if state == Some(PullState::Held(wanted)) {
                self.pump(cx, peers, key);
            }
        }
    }

    /// The answer of a pull, or why there is none.
    pub(crate) fn on_pull(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        serial: u64,
        answer: Result<PullAnswer, CallError>,
    ) {
        if answer.is_ok() {
            self.on_carried_stored(cx, key, serial);
        }
        let tenure = self.queues.get_mut(key).and_then(Queue::tenure_mut);
        if !tenure.is_some_and(|tenure| tenure.pull.answered(serial, cx.now)) {
            cx.counters.stale_answers += 1;
            if let Ok(answer) = answer {
                self.on_parting_answer(cx, key, &answer);
            }
            return;
        }
        match answer {
            Ok(answer) => self.on_pull_answer(cx, peers, key, answer),
            Err(error) => self.on_pull_error(cx, key, &error),
        }
        self.pump(cx, peers, key);
    }

    /// A broker that answers a pull has stored the offset it carried, also when the answer itself is
    /// nobody's any more. Last commits wait for that.
    fn on_carried_stored(&mut self, cx: &mut Cx<'_>, key: QueueKey, serial: u64) {
        let Some(tenure) = self.queues.get_mut(key).and_then(Queue::tenure_mut) else {
            return;
        };
        tenure.progress.carried_stored(serial);
        self.end_grace_if_idle(cx, key);
        self.check_last_commits(cx);
    }

    fn on_pull_answer(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey, answer: PullAnswer) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let broker = queue.name.broker.clone();
        let Some(tenure) = queue.tenure_mut() else { return };
        let asked = tenure.window.next_offset();
        let next = answer.next_begin_offset;
        tenure.pull.suggest(answer.suggest_broker_id);
        if answer.status == PullStatus::OffsetMoved {
            return self.on_offset_moved(cx, peers, key, asked, &answer);
        }
        // A slave that is behind us says so in this way. Only its master could bring us back.
        let is_behind = answer.status == PullStatus::RetryImmediately && !tenure.asked_master;
        if next < asked && !is_behind {
            let why = CallError::Malformed(format!("asked from {asked}, answered up to {next}"));
            return self.on_pull_error(cx, key, &why);
        }
        tenure.pull.worked(answer.max_offset);
        tenure.was_served = true;
        if tenure.asked_master && answer.max_offset.is_some_and(|max| next >= max) {
            tenure.seen.everything(cx.wall);
        }
        match answer.status {
            PullStatus::Found => self.on_found(cx, key, asked, answer),
            PullStatus::RetryImmediately if next <= asked => {
                if tenure.pull.is_sent_back_to_master() {
                    cx.wishes.push_back(Wish::BackToMaster(broker));
                }
                // "At once" without an offset to go on with would be a busy loop.
                let standstills = tenure.pull.stood_still();
                let pause = self
                    .config
                    .flow_control_pause
                    .saturating_mul(1 << standstills.min(10));
                tenure
                    .pull
                    .pause(cx, pause.min(self.config.pull_retry), HoldReason::BackingOff);
            }
            PullStatus::NotFound | PullStatus::RetryImmediately | PullStatus::OffsetMoved => {
                tenure.pull.moved();
                tenure.window.advance_to(next);
            }
        }
    }

    fn on_found(&mut self, cx: &mut Cx<'_>, key: QueueKey, asked: QueueOffset, answer: PullAnswer) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let Some(subscribed) = self.subscriptions.get(&queue.name.topic) else {
            return;
        };
        let name = queue.name.clone();
        let harvest = harvest::harvest(
            &name,
            queue.is_retry,
            &subscribed.subscription,
            harvest::Limits::new(&self.config),
            harvest::Answer {
                asked,
                next: answer.next_begin_offset,
                min: answer.min_offset.unwrap_or(asked),
                max: answer.max_offset.unwrap_or(answer.next_begin_offset),
                body: answer.messages,
            },
        );
        if let (Some(batch), Some(tenure)) = (&harvest.batch, queue.tenure_mut())
            && let Some(last) = batch.record(batch.len().saturating_sub(1) as u32)
        {
            tenure.seen.message(last.store_at());
        }
        if let Some(tenure) = queue.tenure() {
            let took = tenure
                .pull
                .asked_at()
                .map_or(Duration::ZERO, |at| cx.now.saturating_since(at));
            let messages = harvest.batch.as_ref().map_or(0, |batch| batch.len());
            self.tempos.pulled(cx.now, &name.topic, took, messages);
        }
        for piece in &harvest.pieces {
            match (piece, &harvest.batch) {
                (&Piece::Run { first, len }, Some(batch)) => {
                    let Some(tenure) = self.queues.get_mut(key).and_then(Queue::tenure_mut) else {
                        return;
                    };
                    let entries = &batch.entries()[first as usize..(first + len) as usize];
                    let messages = entries
                        .iter()
                        .map(|entry| (entry.queue_offset(), entry.body_len()));
                    let share = batch.memory() as u64 * u64::from(len) / batch.len().max(1) as u64;
                    tenure.window.put(batch, first, messages, share);
                    self.buffer_bytes += share;
                }
                (Piece::Unreadable(bad), _) => self.put_unreadable(cx, key, bad.clone()),
                (Piece::Run { .. }, None) => debug_assert!(false, "a run has a batch"),
            }
        }
        self.finish_harvest(cx, key, &name, asked, &harvest);
        self.enlist(key);
        self.deliver(cx);
    }

    fn finish_harvest(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        name: &MessageQueue,
        asked: QueueOffset,
        harvest: &Harvest,
    ) {
        let Some(tenure) = self.queues.get_mut(key).and_then(Queue::tenure_mut) else {
            return;
        };
        tenure.window.advance_to(harvest.next);
        if let Some(first) = harvest.outside {
            cx.notice(
                &self.name,
                NoticeKind::OutsideOfAsked {
                    queue: name.clone(),
                    asked,
                    first,
                },
            );
        }
        match &harvest.obstacle {
            Some(obstacle) => {
                let times = tenure.pull.stood_still();
                let (pause, reason, fate) = if times < DOUBTS {
                    (self.config.pull_retry, HoldReason::BackingOff, "pulled again")
                } else {
                    (self.config.pull_retry_max, HoldReason::Undecodable, "held")
                };
                tenure.pull.pause(cx, pause, reason);
                self.tell_obstacle(cx, name, harvest.next, obstacle, fate);
            }
            // "Found" that finds nothing and moves nothing would be asked for again at full speed.
            None if harvest.next == asked => {
                tenure.pull.stood_still();
                tenure
                    .pull
                    .pause(cx, self.config.pull_retry, HoldReason::BackingOff);
            }
            None => tenure.pull.moved(),
        }
    }

    fn tell_obstacle(
        &self,
        cx: &mut Cx<'_>,
        name: &MessageQueue,
        at: QueueOffset,
        obstacle: &Obstacle,
        fate: &'static str,
    ) {
        let kind = NoticeKind::Undecodable {
            queue: name.clone(),
            offset: Some(at),
            physical_offset: None,
            reason: format!("{obstacle}"),
            record: None,
            fate,
        };
        cx.notice(&self.name, kind);
    }

    /// A record that cannot be read, in its place among those that can.
    fn put_unreadable(&mut self, cx: &mut Cx<'_>, key: QueueKey, bad: Unreadable) {
        let known_policy = self.undecodable_policy();
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let name = queue.name.clone();
        let Some(tenure) = queue.tenure_mut() else { return };
        // Another format than the known ones: a newer build may read it.
        let policy = if bad.reason.is_of_a_later_format() {
            UndecodablePolicy::Hold
        } else {
            known_policy
        };
        let fate = match policy {
            UndecodablePolicy::Skip => "skipped",
            // There is nothing to deliver: not even its parts can be told apart.
            UndecodablePolicy::Hold | UndecodablePolicy::Deliver => {
                tenure
                    .window
                    .put_unreadable(bad.offset, bad.len(), SlotState::Held);
                "held"
            }
            UndecodablePolicy::DeadLetter => {
                let seq = tenure
                    .window
                    .put_unreadable(bad.offset, bad.len(), SlotState::Failing);
                let back = self
                    .send_backs
                    .start(key, seq, bad.physical_offset, None, Delay::DeadLetter);
                self.ask_send_back(cx, back);
                "sent to the dead letters"
            }
        };
        let kind = NoticeKind::Undecodable {
            queue: name,
            offset: Some(bad.offset),
            physical_offset: Some(bad.physical_offset),
            reason: format!("{}", bad.reason),
            record: Some(bad.record),
            fate,
        };
        cx.notice(&self.name, kind);
    }
}
