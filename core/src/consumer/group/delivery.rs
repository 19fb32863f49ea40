//! Handing out what the queues hold, and what becomes of it.
//!
//! Every message a handler was given is settled exactly once: finished, sent back and acknowledged,
//! or delivered again here. What is reported for an ownership that has ended changes nothing.
//= rocketmq: ConsumeMessageConcurrentlyService.processConsumeResult type=differs
//  reason: one deadline per delivery instead of a sweep; failed messages are sent back asynchronously.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use crate::action::{AppAction, CallError};
use crate::config::UndecodablePolicy;
use crate::consumer::cx::{Cx, Destination, GroupTimer, Purpose, QuestionBody, QueueTimer, Replica};
use crate::consumer::peers::Peers;
use crate::event::{Report, RunRange, Verdict};
use crate::ids::{ConsumeId, PhysicalOffset, QueueKey, Topic};
use crate::message::{DelayLevel, Message, Outcome};
use crate::notice::NoticeKind;
use crate::status::{GroupPhase, HoldReason};
use crate::wire::request::send_back::{Delay, SendBackRequest};

use super::Group;
use super::dispatch::Reported;
use super::dispatch::send_back::{AfterFailure, Due};
use super::dispatch::strays::Stage;
use super::queue::Queue;
use super::queue::window::{Freed, SlotState};

impl Group {
    /// The queue has something ready: it joins the round, if it has not.
    pub(super) fn enlist(&mut self, key: QueueKey) {
        let Some(queue) = self
            .queues
            .get_mut(key)
            .filter(|queue| queue.is_owned() && !queue.listed)
        else {
            return;
        };
        if queue.tenure_mut().is_some_and(|tenure| tenure.window.has_ready()) {
            queue.listed = true;
            self.dispatch.enlist(key);
        }
    }

    /// Hands out runs while permits are free.
    pub(super) fn deliver(&mut self, cx: &mut Cx<'_>) {
        if self.phase != GroupPhase::Running {
            return;
        }
        while let Some(key) = self.dispatch.next_turn() {
            let room = self.dispatch.room();
            let deadline = cx.now + self.config.delivery_deadline;
            let Some(queue) = self.queues.get_mut(key).filter(|queue| queue.is_owned()) else {
                continue;
            };
            queue.listed = false;
            let timer = queue.timer(QueueTimer::Delivery);
            let Some(run) = queue
                .tenure_mut()
                .and_then(|tenure| tenure.window.take_run(room, deadline))
            else {
                continue;
            };
            let booked = self.dispatch.book(key, run.first_seq, run.range);
            cx.timers.set_no_later(timer, deadline);
            cx.tell(AppAction::Consume {
                id: ConsumeId {
                    group: self.key,
                    run: booked,
                },
                batch: run.batch,
                range: run.range,
                attempt: run.attempt,
            });
            self.enlist(key);
        }
    }

    /// The application reports on a run or a part of it.
    pub(crate) fn on_consumed(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        run: u64,
        range: RunRange,
        report: &Report,
    ) {
        let (fresh, ignored) = self.dispatch.reported(run, range);
        cx.counters.late_reports += ignored;
        let Some(key) = fresh.first().map(|reported| reported.queue) else {
            return;
        };
        for reported in fresh {
            let verdict = match report {
                Report::All(verdict) => *verdict,
                // Fewer verdicts than messages: what was not judged was not handled.
                Report::Each(each) => each
                    .get(reported.index as usize)
                    .copied()
                    .unwrap_or(Verdict::NotStarted),
            };
            self.settle(cx, reported, verdict);
        }
        self.after_settling(cx, peers, key);
    }

    /// Room may have appeared, permits are free, a drain or a grace may be over.
    fn after_settling(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey) {
        self.pump(cx, peers, key);
        self.use_room(cx, peers);
        self.enlist(key);
        self.deliver(cx);
        self.end_grace_if_idle(cx, key);
        self.check_drained(cx);
    }

    /// Queues that were held for want of buffer may pull, if there is some again.
    pub(crate) fn use_room(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        if self.buffer_was_full && self.buffer_bytes < self.config.buffer_bytes_max {
            self.buffer_was_full = false;
            self.pump_held(cx, peers, HoldReason::BufferFull);
        }
    }

    /// The last handler of a queue that is given back has ended: no need to wait for the grace.
    pub(super) fn end_grace_if_idle(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        let Some(queue) = self.queues.get_mut(key).filter(|queue| queue.is_in_grace()) else {
            return;
        };
        if queue
            .tenure()
            .is_some_and(|t| t.window.out() + t.window.failing() == 0)
        {
            queue.end_grace_early(cx, &self.name, self.offset_timeout);
            self.bury_if_gone(cx, key);
        }
    }

    fn settle(&mut self, cx: &mut Cx<'_>, reported: Reported, verdict: Verdict) {
        let Reported { queue: key, seq, .. } = reported;
        let may_settle = |queue: &&mut Queue| queue.is_owned() || queue.is_in_grace();
        let tenure = self
            .queues
            .get_mut(key)
            .filter(may_settle)
            .and_then(Queue::tenure_mut);
        let left = matches!(
            self.phase,
            GroupPhase::Committing | GroupPhase::Leaving | GroupPhase::Stopped
        );
        // A message that was abandoned has its fate already; its handler came too late.
        let is_out = |state| matches!(state, SlotState::Out { .. } | SlotState::Cancelled { .. });
        let Some(tenure) = tenure.filter(|t| !left && t.window.state(seq).is_some_and(is_out)) else {
            cx.counters.late_reports += 1;
            return;
        };
        match verdict {
            Verdict::Handled(Outcome::Done) => {
                let freed = tenure.window.finish(seq);
                self.freed(freed);
            }
            Verdict::Handled(Outcome::Retry) => self.send_back(cx, key, seq, Delay::Broker),
            Verdict::Handled(Outcome::RetryAfter(after)) => {
                let level = DelayLevel::nearest(after).number();
                self.send_back(cx, key, seq, Delay::Level(u16::from(level)));
            }
            Verdict::Handled(Outcome::DeadLetter) => self.send_back(cx, key, seq, Delay::DeadLetter),
            Verdict::NotStarted => tenure.window.ready_again(seq, false),
            Verdict::Undecodable => self.cannot_open(
                cx,
                key,
                seq,
                self.config.undecodable,
                "the body is damaged or too large",
            ),
            // What a newer build could read must not be thrown away by this one.
            Verdict::Unsupported => {
                let reason = "the body is packed in a way this build cannot open";
                self.cannot_open(cx, key, seq, UndecodablePolicy::Hold, reason);
            }
        }
    }

    /// A lane could not open a body.
    fn cannot_open(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        seq: u64,
        policy: UndecodablePolicy,
        reason: &'static str,
    ) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let name = queue.name.clone();
        let Some(tenure) = queue.tenure_mut() else { return };
        let offset = tenure.window.offset(seq);
        let fate = match policy {
            UndecodablePolicy::Skip => {
                let freed = tenure.window.finish(seq);
                self.freed(freed);
                "skipped"
            }
            UndecodablePolicy::DeadLetter => {
                self.send_back(cx, key, seq, Delay::DeadLetter);
                "sent to the dead letters"
            }
            UndecodablePolicy::Hold | UndecodablePolicy::Deliver => {
                tenure.window.set_state(seq, SlotState::Held);
                "held"
            }
        };
        let reason = String::from(reason);
        let kind = NoticeKind::Undecodable {
            queue: name,
            offset,
            physical_offset: None,
            reason,
            record: None,
            fate,
        };
        cx.notice(&self.name, kind);
    }

    const fn freed(&mut self, freed: Freed) {
        self.finished += freed.settled as u64;
        self.buffer_bytes = self.buffer_bytes.saturating_sub(freed.buffer_bytes);
    }

    // ---- sending back ---------------------------------------------------------------------------

    fn send_back(&mut self, cx: &mut Cx<'_>, key: QueueKey, seq: u64, delay: Delay) {
        let Some(tenure) = self.queues.get_mut(key).and_then(Queue::tenure_mut) else {
            return;
        };
        let Some((batch, position)) = tenure.window.message(seq) else {
            return;
        };
        let Some(message) = Message::new(Arc::clone(batch), position) else {
            return;
        };
        let about = (message.msg_id().into_owned(), Topic::from(&*message.topic()));
        let physical_offset: PhysicalOffset = message.physical_offset();
        tenure.window.set_state(seq, SlotState::Failing);
        let back = self
            .send_backs
            .start(key, seq, physical_offset, Some(about), delay);
        self.ask_send_back(cx, back);
    }

    pub(super) fn ask_send_back(&mut self, cx: &mut Cx<'_>, id: u64) {
        let Some(back) = self.send_backs.get(id) else {
            return;
        };
        // Past its grace a queue may only wait for its last commit any more: its messages are the next owner's.
        let may_send = |queue: &&Queue| queue.is_owned() || queue.is_in_grace();
        let Some(queue) = self.queues.get(back.queue).filter(may_send) else {
            return;
        };
        let broker = queue.name.broker.clone();
        let (message_id, topic) = back.about.clone().unzip();
        // Brokers count dead letters by this topic and fail without it, so one that cannot be read has the
        // topic of its queue.
        let topic = topic.unwrap_or_else(|| queue.name.topic.clone());
        let body = QuestionBody::SendBack(SendBackRequest {
            group: self.name.clone(),
            offset: back.physical_offset,
            delay: back.delay,
            message_id,
            topic: Some(topic),
            unit_mode: Some(false),
            max_reconsume_times: Some(i32::try_from(self.config.max_reconsume).unwrap_or(i32::MAX)),
            broker: Some(broker.clone()),
        });
        let purpose = Purpose::SendBack {
            group: self.key,
            back: id,
        };
        // Only the broker that stores the message can find it, and only its master writes.
        cx.ask(
            Destination::Broker(broker, Replica::Master),
            body,
            self.offset_timeout,
            purpose,
        );
    }

    /// The broker has taken a message back, or not.
    pub(crate) fn on_send_back(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        id: u64,
        answer: Result<(), CallError>,
    ) {
        let error = match answer {
            Ok(()) => {
                let Some(back) = self.send_backs.acknowledged(id) else {
                    cx.counters.stale_answers += 1;
                    return;
                };
                if let Some(tenure) = self.queues.get_mut(back.queue).and_then(Queue::tenure_mut) {
                    let freed = tenure.window.finish(back.seq);
                    self.freed(freed);
                }
                return self.after_settling(cx, peers, back.queue);
            }
            Err(error) => error,
        };
        let Some(after) = self.send_backs.failed(id) else {
            cx.counters.stale_answers += 1;
            return;
        };
        let (AfterFailure::AskAgainIn(pause) | AfterFailure::DeliverAgainIn(pause)) = after;
        cx.timers
            .set(self.timer(GroupTimer::SendBack(id)), cx.now + pause);
        if let Some(back) = self.send_backs.get(id)
            && let Some(queue) = self.queues.get(back.queue)
            && let Some(offset) = queue.tenure().and_then(|tenure| tenure.window.offset(back.seq))
        {
            let why = format!("{error}");
            let kind = NoticeKind::SendBackFailed {
                queue: queue.name.clone(),
                offset,
                why,
            };
            cx.notice(&self.name, kind);
        }
    }

    pub(super) fn on_send_back_timer(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, id: u64) {
        match self.send_backs.due(id) {
            Some(Due::AskAgain(_)) => self.ask_send_back(cx, id),
            Some(Due::DeliverAgain(back)) => {
                let Some(tenure) = self.queues.get_mut(back.queue).and_then(Queue::tenure_mut) else {
                    return;
                };
                if tenure.window.message(back.seq).is_some() {
                    tenure.window.ready_again(back.seq, true);
                    self.after_settling(cx, peers, back.queue);
                } else {
                    // A record that cannot be read cannot be delivered either: keep trying to bury it.
                    let again = self.send_backs.start(
                        back.queue,
                        back.seq,
                        back.physical_offset,
                        back.about,
                        back.delay,
                    );
                    self.ask_send_back(cx, again);
                }
            }
            None => {}
        }
    }

    // ---- deadlines ------------------------------------------------------------------------------

    /// A handler asks for more time. Without effect while the queue is being given back and once the group
    /// is past its drain: a message whose report will not count is not to be waited for.
    pub(crate) fn on_extend(&mut self, cx: &mut Cx<'_>, run: u64, position: u32, by: Duration) {
        let Some((key, seq)) = self.dispatch.find(run, position) else {
            cx.counters.late_reports += 1;
            return;
        };
        let has_deadlines = matches!(self.phase, GroupPhase::Running | GroupPhase::Draining);
        if self.strays.extend(cx.now, (run, position), by) {
            return self.arm_strays_timer(cx);
        }
        let queue = self
            .queues
            .get_mut(key)
            .filter(|queue| has_deadlines && queue.is_owned());
        let Some(tenure) = queue.and_then(Queue::tenure_mut) else {
            return;
        };
        if matches!(tenure.window.state(seq), Some(SlotState::Out { .. })) {
            tenure.window.set_state(
                seq,
                SlotState::Out {
                    deadline: cx.now + by,
                },
            );
            self.arm_delivery_timer(cx, key);
        }
    }

    /// A lane found that a body is not what its checksum says.
    pub(crate) fn on_crc_mismatch(&mut self, cx: &mut Cx<'_>, run: u64, position: u32) {
        let Some((key, seq)) = self.dispatch.find(run, position) else {
            cx.counters.late_reports += 1;
            return;
        };
        if let Some(queue) = self.queues.get(key)
            && let Some(offset) = queue.tenure().and_then(|tenure| tenure.window.offset(seq))
        {
            cx.notice(
                &self.name,
                NoticeKind::CrcMismatch {
                    queue: queue.name.clone(),
                    offset,
                },
            );
        }
    }

    /// Deliveries have passed their deadline, or their grace.
    pub(super) fn on_delivery_timer(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey) {
        let overdue = self
            .queues
            .get(key)
            .and_then(Queue::tenure)
            .map(|tenure| tenure.window.overdue(cx.now));
        for seq in overdue.unwrap_or_default() {
            let Some((run, position)) = self.dispatch.locate(key, seq) else {
                continue;
            };
            let id = ConsumeId { group: self.key, run };
            let Some(queue) = self.queues.get_mut(key) else {
                return;
            };
            let name = queue.name.clone();
            let Some(tenure) = queue.tenure_mut() else { return };
            match (tenure.window.state(seq), tenure.window.offset(seq)) {
                (Some(SlotState::Out { .. }), Some(offset)) => {
                    let until = cx.now + self.config.cancel_grace;
                    tenure.window.set_state(seq, SlotState::Cancelled { until });
                    cx.tell(AppAction::Cancel { id, position });
                    let after = self.config.delivery_deadline;
                    cx.notice(
                        &self.name,
                        NoticeKind::DeliveryDeadline {
                            queue: name,
                            offset,
                            after,
                        },
                    );
                }
                (Some(SlotState::Cancelled { .. }), _) => {
                    cx.tell(AppAction::Abandon { id, position });
                    self.send_back(cx, key, seq, Delay::Broker);
                }
                _ => {}
            }
        }
        self.arm_delivery_timer(cx, key);
        self.pump(cx, peers, key);
    }

    /// An ownership has ended: the deadlines of handlers that still run for it hold on, see [`Strays`].
    ///
    /// [`Strays`]: super::dispatch::strays::Strays
    pub(super) fn stray(&mut self, cx: &mut Cx<'_>, key: QueueKey, queue: &Queue) {
        if !matches!(self.phase, GroupPhase::Running | GroupPhase::Draining) {
            return;
        }
        for (run, position, seq) in self.dispatch.out_of(key) {
            let state = queue.tenure().and_then(|tenure| tenure.window.state(seq));
            match state {
                Some(SlotState::Out { deadline }) => {
                    self.strays.add(deadline, (run, position), Stage::Running);
                }
                Some(SlotState::Cancelled { until }) => {
                    self.strays.add(until, (run, position), Stage::Cancelled);
                }
                // Abandoned already: its report is under way.
                Some(SlotState::Ready | SlotState::Failing | SlotState::Held | SlotState::Done) | None => {}
            }
        }
        self.arm_strays_timer(cx);
    }

    pub(super) fn on_strays_timer(&mut self, cx: &mut Cx<'_>) {
        while let Some(((run, position), stage)) = self.strays.take_due(cx.now) {
            if self.dispatch.find(run, position).is_none() {
                continue;
            }
            let id = ConsumeId { group: self.key, run };
            match stage {
                Stage::Running => {
                    let until = cx.now + self.config.cancel_grace;
                    self.strays.add(until, (run, position), Stage::Cancelled);
                    cx.tell(AppAction::Cancel { id, position });
                }
                Stage::Cancelled => cx.tell(AppAction::Abandon { id, position }),
            }
        }
        self.arm_strays_timer(cx);
    }

    fn arm_strays_timer(&self, cx: &mut Cx<'_>) {
        match self.strays.next_at() {
            Some(at) => cx.timers.set(self.timer(GroupTimer::Strays), at),
            None => cx.timers.cancel(self.timer(GroupTimer::Strays)),
        }
    }

    fn arm_delivery_timer(&self, cx: &mut Cx<'_>, key: QueueKey) {
        let Some(queue) = self.queues.get(key) else { return };
        let timer = queue.timer(QueueTimer::Delivery);
        match queue.tenure().and_then(|tenure| tenure.window.next_due()) {
            Some(at) => cx.timers.set(timer, at),
            None => cx.timers.cancel(timer),
        }
    }
}
