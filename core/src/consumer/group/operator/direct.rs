//! An operator hands in one message (309): the handler is run for it once, and the operator told what came of it. It
//! belongs to no queue, so no offset moves, nothing is sent back, and whatever became of it before is not touched.
//!
//! ```text
//!           a permit is free              reported
//!  Waiting ──────────────────► Running ─────────────────► answered, gone
//!     │ deadline: answered 207    │ deadline: answered 207
//!     ▼                           ▼
//!    gone                     Cancelled ──grace──► Abandoned ──reported──► gone
//! ```
//!
//! A run of its own, that takes a permit as every run does: who set the concurrency to one relies on it. The deadline
//! counts from the question on, because the operator's broker waits 10 s and then says that nobody has answered.
//= rocketmq: DefaultMQPushConsumerImpl.consumeMessageDirectly type=differs
//  reason: Java runs the listener on the thread that reads from brokers, beside all limits; a listener that hangs
//  takes it along.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;

use smallvec::smallvec;

use crate::action::AppAction;
use crate::consumer::cx::{Cx, GroupTimer, Wish};
use crate::consumer::reply::{Asker, Refused, Reply};
use crate::event::{Report, RunRange, Verdict};
use crate::ids::{ConsumeId, MessageQueue, QueueOffset};
use crate::message::{Batch, OrderlyOutcome, Outcome};
use crate::notice::NoticeKind;
use crate::status::GroupPhase;
use crate::time::Instant;
use crate::wire::code::ResponseCode;
use crate::wire::request::operator::{ConsumeDirectlyAnswer, ConsumeDirectlyRequest, DirectResult};
use crate::wire::stored::{Record, Scanned, Scanner};

use super::super::Group;

/// Messages that operators have handed in and whose handlers have not ended.
#[derive(Clone, Debug, Default)]
pub(in crate::consumer::group) struct Directs {
    waiting: VecDeque<Direct>,
    /// With a handler, by run.
    out: BTreeMap<u64, Direct>,
}

#[derive(Clone, Debug)]
struct Direct {
    batch: Arc<Batch>,
    /// Who waits, until the answer has been given.
    asker: Option<Asker>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting { until: Instant },
    Running { since: Instant, until: Instant },
    Cancelled { until: Instant },
    Abandoned,
}

impl Stage {
    const fn due_at(self) -> Option<Instant> {
        match self {
            Self::Waiting { until } | Self::Running { until, .. } | Self::Cancelled { until } => Some(until),
            Self::Abandoned => None,
        }
    }
}

impl Directs {
    fn len(&self) -> usize {
        self.waiting.len() + self.out.len()
    }

    /// Those that have a handler.
    pub(in crate::consumer::group) fn out(&self) -> usize {
        self.out.len()
    }

    /// Whether a run is one of these.
    pub(in crate::consumer::group) fn is_one(&self, run: u64) -> bool {
        self.out.contains_key(&run)
    }

    fn next_due(&self) -> Option<Instant> {
        let all = self.waiting.iter().chain(self.out.values());
        all.filter_map(|direct| direct.stage.due_at()).min()
    }
}

/// A message is the only one of its batch.
const WHOLE: RunRange = RunRange { start: 0, end: 1 };

impl Group {
    /// An operator wants a message consumed; the answer follows.
    ///
    /// # Errors
    /// When it cannot be read, when there are too many already, or when the group is leaving.
    pub(crate) fn on_consume_directly(
        &mut self,
        cx: &mut Cx<'_>,
        asker: Asker,
        request: ConsumeDirectlyRequest,
    ) -> Result<(), Refused> {
        if self.phase != GroupPhase::Running {
            return Err(Refused::leaving());
        }
        let most = self.config.consume_directly_max;
        if self.directs.len() >= most as usize {
            let why = format!("{most} messages are being consumed directly already, no more are allowed");
            return Err(Refused::new(ResponseCode::SYSTEM_BUSY, why));
        }
        let batch = self.batch_of(request)?;
        let until = cx.now + self.config.consume_directly_deadline;
        self.directs.waiting.push_back(Direct {
            batch: Arc::new(batch),
            asker: Some(asker),
            stage: Stage::Waiting { until },
        });
        self.begin_directs(cx);
        self.arm_directs_timer(cx);
        Ok(())
    }

    /// The message as a batch of one.
    fn batch_of(&self, request: ConsumeDirectlyRequest) -> Result<Batch, Refused> {
        let unreadable = |why: String| Refused::failed(format!("the message cannot be read: {why}"));
        let mut scanner = Scanner::new(&request.message);
        let entry = match scanner.next() {
            Some(Scanned::Message(entry)) => entry,
            Some(Scanned::Undecodable(bad)) => return Err(unreadable(bad.reason.to_string())),
            Some(Scanned::Broken { reason, .. }) => return Err(unreadable(reason.to_string())),
            None => return Err(unreadable("there is none".into())),
        };
        if scanner.next().is_some() {
            return Err(unreadable("there is something behind it".into()));
        }
        if entry.is_inner_batch() {
            return Err(unreadable("it is a batch of several".into()));
        }
        let record = Record::new(&request.message, entry);
        let queue = MessageQueue {
            topic: record.topic().into(),
            broker: request.broker.unwrap_or_else(|| "".into()),
            id: record.queue_id(),
        };
        let (is_retry, offset) = (queue.topic == self.retry_topic, record.queue_offset());
        let behind = QueueOffset(offset.0.saturating_add(1));
        Ok(Batch::new(
            queue,
            is_retry,
            request.message,
            smallvec![entry],
            offset,
            behind,
        ))
    }

    /// Hands out those that wait while permits are free; before what the queues hold, since somebody waits.
    pub(in crate::consumer::group) fn begin_directs(&mut self, cx: &mut Cx<'_>) {
        while !self.directs.waiting.is_empty()
            && let Some(run) = self.dispatch.book_single()
            && let Some(mut direct) = self.directs.waiting.pop_front()
        {
            if let Stage::Waiting { until } = direct.stage {
                direct.stage = Stage::Running { since: cx.now, until };
            }
            cx.tell(AppAction::Consume {
                id: ConsumeId { group: self.key, run },
                batch: Arc::clone(&direct.batch),
                range: WHOLE,
                attempt: 0,
            });
            self.directs.out.insert(run, direct);
        }
    }

    /// A handler of such a message has ended.
    pub(in crate::consumer::group) fn on_direct_consumed(
        &mut self,
        cx: &mut Cx<'_>,
        run: u64,
        range: RunRange,
        report: &Report,
    ) {
        let direct = self
            .directs
            .out
            .remove(&run)
            .filter(|_| range.start == 0 && range.end > 0);
        let Some(direct) = direct else {
            cx.counters.late_reports += 1;
            return;
        };
        self.dispatch.end_single();
        let verdict = report.of(0).unwrap_or_else(|| self.failed());
        let since = match direct.stage {
            Stage::Running { since, .. } => since,
            Stage::Waiting { .. } | Stage::Cancelled { .. } | Stage::Abandoned => cx.now,
        };
        if verdict == Verdict::NotStarted {
            self.refuse_direct(cx, direct, Refused::leaving());
        } else {
            self.answer_direct(cx, direct, since, verdict);
        }
        self.arm_directs_timer(cx);
        self.deliver(cx);
        self.check_drained(cx);
    }

    fn answer_direct(&self, cx: &mut Cx<'_>, direct: Direct, since: Instant, verdict: Verdict) {
        let Some(asker) = direct.asker else { return };
        let (result, remark) = result_of(verdict);
        let took = cx.now.saturating_since(since);
        self.tell_direct(cx, &direct.batch, result.name());
        let answer = ConsumeDirectlyAnswer {
            order: self.config.is_orderly(),
            auto_commit: true,
            result: Some(result),
            remark,
            spent_millis: i64::try_from(took.as_millis()).unwrap_or(i64::MAX),
        };
        let reply = Reply::Directly(Box::new(answer));
        cx.wishes.push_back(Wish::Reply(asker, reply));
    }

    fn refuse_direct(&self, cx: &mut Cx<'_>, direct: Direct, refused: Refused) {
        let Some(asker) = direct.asker else { return };
        self.tell_direct(cx, &direct.batch, "no answer in time");
        cx.wishes.push_back(Wish::Reply(asker, Reply::Refused(refused)));
    }

    fn tell_direct(&self, cx: &mut Cx<'_>, batch: &Batch, result: &'static str) {
        let Some(record) = batch.record(0) else { return };
        let kind = NoticeKind::ConsumedDirectly {
            queue: batch.queue().clone(),
            offset: record.queue_offset(),
            message_id: record.msg_id().into_owned(),
            result,
        };
        cx.notice(&self.name, kind);
    }

    /// Deadlines have passed.
    pub(in crate::consumer::group) fn on_directs_timer(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_due = |direct: &Direct| direct.stage.due_at().is_some_and(|at| at <= now);
        let (late, waiting): (VecDeque<Direct>, _) = core::mem::take(&mut self.directs.waiting)
            .into_iter()
            .partition(is_due);
        self.directs.waiting = waiting;
        for direct in late {
            let refused = self.too_late("no handler was free");
            self.refuse_direct(cx, direct, refused);
        }
        let due = self.directs.out.iter().filter(|(_, direct)| is_due(direct));
        let due: alloc::vec::Vec<u64> = due.map(|(run, _)| *run).collect();
        for run in due {
            self.on_direct_due(cx, run);
        }
        self.arm_directs_timer(cx);
    }

    fn on_direct_due(&mut self, cx: &mut Cx<'_>, run: u64) {
        let refused = self.too_late("the handler has not ended");
        let grace = self.config.cancel_grace;
        let Some(direct) = self.directs.out.get_mut(&run) else {
            return;
        };
        let id = ConsumeId { group: self.key, run };
        if matches!(direct.stage, Stage::Cancelled { .. }) {
            direct.stage = Stage::Abandoned;
            return cx.tell(AppAction::Abandon { id, position: 0 });
        }
        direct.stage = Stage::Cancelled {
            until: cx.now + grace,
        };
        let answered = Direct {
            asker: direct.asker.take(),
            ..direct.clone()
        };
        cx.tell(AppAction::Cancel { id, position: 0 });
        self.refuse_direct(cx, answered, refused);
    }

    /// What a broker says that has waited too long.
    fn too_late(&self, what: &str) -> Refused {
        let after = self.config.consume_directly_deadline;
        Refused::new(
            ResponseCode::CONSUME_MSG_TIMEOUT,
            format!("{what} within {after:?}"),
        )
    }

    /// The group begins to leave: those that nobody has begun are given back, as of every run.
    pub(in crate::consumer::group) fn withdraw_directs(&mut self, cx: &mut Cx<'_>) {
        for direct in core::mem::take(&mut self.directs.waiting) {
            self.refuse_direct(cx, direct, Refused::leaving());
        }
        for run in self.directs.out.keys().copied() {
            cx.tell(AppAction::Withdraw {
                id: ConsumeId { group: self.key, run },
            });
        }
        self.arm_directs_timer(cx);
    }

    /// The drain is over: nobody waits for handlers any more.
    pub(in crate::consumer::group) fn end_directs(&mut self, cx: &mut Cx<'_>) {
        for direct in core::mem::take(&mut self.directs.out).into_values() {
            self.refuse_direct(cx, direct, Refused::leaving());
        }
        self.arm_directs_timer(cx);
    }

    fn arm_directs_timer(&self, cx: &mut Cx<'_>) {
        cx.timers
            .arm(self.timer(GroupTimer::Directs), self.directs.next_due());
    }
}

/// What Java calls it, and what else there is to say.
fn result_of(verdict: Verdict) -> (DirectResult, Option<String>) {
    let (result, remark) = match verdict {
        Verdict::Handled(Outcome::Done) | Verdict::Ordered(OrderlyOutcome::Commit) => {
            (DirectResult::Success, None)
        }
        Verdict::Handled(Outcome::Retry) | Verdict::Ordered(OrderlyOutcome::Suspend) => {
            (DirectResult::Later, None)
        }
        Verdict::Handled(Outcome::RetryAfter(after))
        | Verdict::Ordered(OrderlyOutcome::SuspendFor(after)) => (
            DirectResult::Later,
            Some(format!("to come again after {after:?}")),
        ),
        Verdict::Handled(Outcome::DeadLetter) | Verdict::Ordered(OrderlyOutcome::DeadLetter) => {
            let remark = "for the dead letters, where it would go had it been pulled";
            (DirectResult::Later, Some(remark.into()))
        }
        Verdict::Undecodable => {
            let remark = "the body is damaged or too large, no handler has seen it";
            (DirectResult::ThrowException, Some(remark.into()))
        }
        Verdict::Unsupported => {
            let remark = "the body is packed in a way this build cannot open";
            (DirectResult::ThrowException, Some(remark.into()))
        }
        Verdict::NotStarted => (
            DirectResult::ThrowException,
            Some("no handler has begun it".into()),
        ),
    };
    (result, remark)
}
