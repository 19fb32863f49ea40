//! Handing out what the queues hold, and what becomes of it.
//!
//! Every message a handler was given is settled exactly once: finished, sent back and acknowledged,
//! or delivered again here. What is reported for an ownership that has ended changes nothing.
//= rocketmq: ConsumeMessageConcurrentlyService.processConsumeResult type=differs
//  reason: one deadline per delivery instead of a sweep; failed messages are sent back asynchronously.

use alloc::string::String;
use core::time::Duration;

use crate::action::AppAction;
use crate::config::UndecodablePolicy;
use crate::consumer::cx::{Cx, QueueTimer};
use crate::consumer::peers::Peers;
use crate::event::{Report, RunRange, Verdict};
use crate::ids::{ConsumeId, QueueKey};
use crate::message::{DelayLevel, OrderlyOutcome, Outcome};
use crate::notice::NoticeKind;
use crate::status::{GroupPhase, HoldReason};
use crate::time::Instant;
use crate::wire::request::send_back::Delay;

use super::Group;
use super::dispatch::Reported;
use super::flow::Turn;
use super::queue::window::{Freed, SlotState, Window};
use super::queue::{Queue, Tenure};

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
        if self.flow.paused(&queue.name).is_some() {
            return;
        }
        let has_ready = if queue.order.is_some() {
            queue.has_next_in_order() && (queue.is_by_key() || !self.dispatch.has_runs(key))
        } else {
            queue.tenure_mut().is_some_and(|tenure| tenure.window.has_ready())
        };
        if has_ready {
            queue.listed = true;
            self.dispatch.enlist(key);
        }
    }

    /// Hands out runs while permits are free and rates allow it.
    pub(super) fn deliver(&mut self, cx: &mut Cx<'_>) {
        if self.phase != GroupPhase::Running {
            return;
        }
        self.begin_directs(cx);
        self.flow.begin();
        while let Some(key) = self.dispatch.next_turn() {
            let Some(queue) = self.queues.get_mut(key).filter(|queue| queue.is_owned()) else {
                continue;
            };
            if queue.order.is_some() && !(queue.has_next_in_order() && queue.may_consume(cx.now)) {
                queue.listed = false;
                continue;
            }
            let most = match self.flow.turn(cx.now, &queue.name, self.dispatch.waiting()) {
                Turn::Take(most) => most,
                Turn::Pass => {
                    queue.listed = false;
                    continue;
                }
                Turn::StepAside => {
                    self.flow.step_aside(key);
                    continue;
                }
                Turn::Wait => {
                    self.dispatch.keep_turn(key);
                    break;
                }
            };
            let room = self.dispatch.room().min(most);
            let deadline = cx.now + self.config.delivery_deadline;
            queue.listed = false;
            let most = if queue.order.is_some() {
                room.min(self.dispatch.handler_batch())
            } else {
                room
            };
            let timer = queue.timer(QueueTimer::Delivery);
            let Some(run) = queue.tenure_mut().and_then(|tenure| {
                let run = tenure.window.take_run(most, deadline)?;
                tenure.last_run = Some(cx.now);
                Some(run)
            }) else {
                continue;
            };
            self.flow.spend(cx.now, &queue.name, run.range.len());
            let booked = self.dispatch.book(cx.now, key, run.first_seq, run.range);
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
        self.arm_flow_timer(cx);
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
        if self.directs.is_one(run) {
            return self.on_direct_consumed(cx, run, range, report);
        }
        let handed_at = self.dispatch.handed_at(run);
        let (fresh, ignored) = self.dispatch.reported(run, range);
        cx.counters.late_reports += ignored;
        let Some(key) = fresh.first().map(|reported| reported.queue) else {
            return;
        };
        self.check_number(cx, key, range, report);
        self.note_tempo(cx.now, key, handed_at, report, &fresh);
        for reported in fresh {
            let verdict = report.of(reported.index).unwrap_or_else(|| self.failed());
            self.settle(cx, peers, reported, verdict);
        }
        self.after_settling(cx, peers, key);
        self.predecessor_may_have_ended(cx, key);
    }

    /// A handler that does not say what became of a message has failed with it.
    pub(super) fn failed(&self) -> Verdict {
        if self.config.is_orderly() {
            Verdict::Ordered(OrderlyOutcome::Suspend)
        } else {
            Verdict::Handled(Outcome::Retry)
        }
    }

    /// How long handlers took, and how many of them failed.
    fn note_tempo(
        &mut self,
        now: Instant,
        key: QueueKey,
        handed_at: Option<Instant>,
        report: &Report,
        fresh: &[Reported],
    ) {
        let Some(queue) = self.queues.get(key) else { return };
        let (done, failed) = match report {
            Report::All(Verdict::NotStarted) => (0, 0),
            Report::All(verdict) if verdict.is_done() => (fresh.len(), 0),
            Report::All(_) => (0, fresh.len()),
            Report::Each(_) => {
                let done = |one: &&Reported| report.of(one.index).is_some_and(|verdict| verdict.is_done());
                let done = fresh.iter().filter(done).count();
                (done, fresh.len() - done)
            }
        };
        if done + failed > 0 {
            let took = handed_at.map_or(Duration::ZERO, |at| now.saturating_since(at));
            let counts = (done as u64, failed as u64);
            self.tempos.handled(now, &queue.name.topic, took, counts);
        }
    }

    /// A handler that gives another number of outcomes than it got messages does not do what it means to.
    fn check_number(&self, cx: &mut Cx<'_>, key: QueueKey, range: RunRange, report: &Report) {
        if let Report::Each(each) = report
            && each.len() != range.len() as usize
            && let Some(queue) = self.queues.get(key)
        {
            let kind = NoticeKind::WrongOutcomes {
                queue: queue.name.clone(),
                messages: range.len(),
                outcomes: u32::try_from(each.len()).unwrap_or(u32::MAX),
            };
            cx.notice(&self.name, kind);
        }
    }

    /// Room may have appeared, permits are free, a drain or a grace may be over.
    pub(super) fn after_settling(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey) {
        self.send_back_put_off(cx, key);
        self.stall_may_end(cx, key);
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
        let is_idle = |t: &Tenure| t.window.out() + t.window.failing() == 0;
        if queue.follows().is_none() && queue.tenure().is_some_and(is_idle) {
            queue.end_grace_early(cx, &self.name, self.offset_timeout);
            self.bury_if_gone(cx, key);
        }
    }

    fn settle(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, reported: Reported, verdict: Verdict) {
        let Reported {
            queue: key, seq, run, ..
        } = reported;
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
        let is_out = |state| {
            matches!(
                state,
                SlotState::Out { .. } | SlotState::Cancelled { .. } | SlotState::Abandoned
            )
        };
        let tenure = tenure.filter(|t| !left && t.window.state(seq).is_some_and(is_out));
        // One that is with a newer handler is that one's: who was given up and ends at last has no say.
        let is_newest =
            |window: &Window| window.attempt(seq) == 0 || !self.dispatch.is_out_since(run, key, seq);
        let Some(tenure) = tenure.filter(|tenure| is_newest(&tenure.window)) else {
            cx.counters.late_reports += 1;
            return;
        };
        if self.config.is_orderly() {
            return self.settle_in_order(cx, peers, key, seq, verdict);
        }
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
            Verdict::Ordered(outcome) => {
                self.tell_other_kind(cx, key, seq, verdict);
                self.settle(cx, peers, reported, Verdict::Handled(outcome.unordered()));
            }
            Verdict::NotStarted => tenure.window.ready_again(seq, false),
            Verdict::Undecodable | Verdict::Unsupported => self.cannot_open(cx, peers, key, seq, verdict),
        }
    }

    /// A lane could not open a body.
    pub(super) fn cannot_open(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        seq: u64,
        verdict: Verdict,
    ) {
        let (policy, reason) = if verdict == Verdict::Unsupported {
            // What a newer build could read must not be thrown away by this one.
            let reason = "the body is packed in a way this build cannot open";
            (UndecodablePolicy::Hold, reason)
        } else {
            (self.undecodable_policy(), "the body is damaged or too large")
        };
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
            UndecodablePolicy::DeadLetter if self.config.is_orderly() => {
                self.bury_in_order(cx, peers, key, seq);
                "sent to the dead letters"
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

    pub(super) const fn freed(&mut self, freed: Freed) {
        self.finished += freed.settled as u64;
        self.buffer_bytes = self.buffer_bytes.saturating_sub(freed.buffer_bytes);
    }
}
