//! Everything of one assigned queue, from the moment it is ours to the moment it is not.
//!
//! ```text
//!            alone                       known                    share lost
//!  Acquiring ──────► asks stored offset ───────► Owned ─────────────────────► Revoking ──► gone
//!      │ others       │ none stored       ▲        │ offset moved: gone, and     │ handlers may
//!      └─ waits ──────┴─► asks start ─────┘        │ a new ownership begins      │ still finish
//! ```
//!
//! One value of [`Queue`] is one ownership: it has an epoch that never comes again, and whatever
//! arrives for an earlier one finds nothing under its key.
//= rocketmq: RebalanceImpl.updateProcessQueueTableInRebalance type=differs
//  reason: acquiring waits for the former owner instead of pulling 500 ms late; revoking lets running
//  handlers finish and commits what they did.

pub(crate) mod harvest;
pub(crate) mod moved;
pub(crate) mod progress;
pub(crate) mod pull;
pub(crate) mod window;

use crate::action::CallError;
use crate::config::GroupConfig;
use core::time::Duration;

use crate::consumer::cx::{Cx, Destination, Purpose, QuestionBody, QueueAsk, QueueTimer, Replica, TimerKey};
use crate::consumer::peers::Chosen;
use crate::ids::{ConsumerGroup, Epoch, GroupKey, MessageQueue, QueueKey, QueueOffset};
use crate::status::{HoldReason, LastError, QueueState, QueueStatus};
use crate::time::{Instant, WallTime};
use crate::wire::code::ResponseCode;
use crate::wire::request::offsets::{CommitOffsetRequest, QueryOffsetRequest, QueueRef};
use crate::wire::request::pull::PullRequest;
use crate::wire::request::route::MASTER_ID;

pub(crate) use moved::Moved;

use moved::Seen;
use progress::Progress;
use pull::{PullLoop, PullState};
use window::{SlotState, Window};

/// How the status names a pull that failed.
pub(crate) const PULL: &str = "pull";

/// One ownership of a message queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) key: QueueKey,
    pub(crate) group: GroupKey,
    pub(crate) name: MessageQueue,
    pub(crate) epoch: Epoch,
    /// Whether this is the group's own retry topic.
    pub(crate) is_retry: bool,
    /// Whether the dispatcher has it in its round.
    pub(crate) listed: bool,
    /// Whether the route does not name it any more: nobody can own it anew.
    pub(crate) missing: bool,
    /// Why it begins elsewhere than the ownership before came to, if it does.
    pub(crate) moved: Option<Moved>,
    stage: Stage,
    since: Instant,
    last_error: Option<LastError>,
}

#[derive(Clone, Debug)]
enum Stage {
    Acquiring(Acquire),
    Owned(Tenure),
    Revoking(Tenure, Revoke),
}

/// How far the search for the start has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acquire {
    /// A timer is armed, or the broker's readiness is awaited.
    Waiting(HoldReason),
    /// Asked the master, or else a slave: what that one says is checked with the master before anything is
    /// committed, and that it has nothing is not believed.
    AskingStored {
        of_master: bool,
    },
    AskingStart,
}

/// What an owned queue has.
#[derive(Clone, Debug)]
pub(crate) struct Tenure {
    pub(crate) window: Window,
    pub(crate) pull: PullLoop,
    pub(crate) progress: Progress,
    /// Whether the pull that is out, or was last, went to the master.
    pub(crate) asked_master: bool,
    /// Whether a pull was answered with what the queue has.
    pub(crate) was_served: bool,
    pub(crate) seen: Seen,
}

/// How far giving back has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Revoke {
    /// Handlers run, or a pull is out that carries a lower offset; the grace is armed. `first` was
    /// committed at once.
    Grace {
        first: QueueOffset,
        carried: Option<QueueOffset>,
    },
    /// Asked whether the broker still has `first`, or what the pull carried.
    Rechecking {
        first: QueueOffset,
        carried: Option<QueueOffset>,
    },
    /// Only the last commit is awaited.
    LastCommit,
}

/// What a queue needs to know of the world to pull.
pub(crate) struct Gate<'a> {
    pub(crate) config: &'a GroupConfig,
    /// Which replica is read from, and whether it can be now.
    pub(crate) replica: Chosen,
    /// Whether the group's buffer has room for another answer.
    pub(crate) buffer_room: bool,
    pub(crate) draining: bool,
    pub(crate) sub_version: WallTime,
}

impl Queue {
    pub(crate) const fn new(
        key: QueueKey,
        group: GroupKey,
        name: MessageQueue,
        epoch: Epoch,
        is_retry: bool,
        now: Instant,
    ) -> Self {
        let stage = Stage::Acquiring(Acquire::Waiting(HoldReason::AskingOffset));
        Self {
            key,
            group,
            name,
            epoch,
            is_retry,
            listed: false,
            missing: false,
            moved: None,
            stage,
            since: now,
            last_error: None,
        }
    }

    /// A request about it has failed. Decides nothing; operators see it.
    pub(crate) fn went_wrong(&mut self, now: Instant, request: &'static str, error: &CallError) {
        self.last_error = Some(LastError::new(now, request, error));
    }

    // ---- acquiring ------------------------------------------------------------------------------

    /// Another member may still hold the queue: give it time to let go.
    pub(crate) fn wait_for_former_owner(&mut self, cx: &mut Cx<'_>, config: &GroupConfig) {
        self.enter(
            Stage::Acquiring(Acquire::Waiting(HoldReason::TakeoverDelay)),
            cx.now,
        );
        cx.timers
            .set(self.timer(QueueTimer::Acquire), cx.now + config.takeover_delay);
    }

    /// Asks for the stored offset, or waits until its broker can be asked.
    pub(crate) fn ask_stored(
        &mut self,
        cx: &mut Cx<'_>,
        config: &GroupConfig,
        replica: Chosen,
        timeout: Duration,
    ) {
        if let Err(reason) = replica.ready {
            self.enter(Stage::Acquiring(Acquire::Waiting(reason)), cx.now);
            return;
        }
        let of_master = replica.is_master();
        self.enter(Stage::Acquiring(Acquire::AskingStored { of_master }), cx.now);
        let zero_if_none = config.latest_like_java;
        let body = self.stored_offset_question(&config.group, zero_if_none);
        self.ask(cx, replica.replica(), body, timeout, QueueAsk::StoredOffset);
    }

    /// Asks the master for the stored offset, because a slave has none.
    pub(crate) fn ask_master(&mut self, cx: &mut Cx<'_>, config: &GroupConfig, timeout: Duration) {
        let master = Chosen {
            id: Some(MASTER_ID),
            ready: Ok(()),
        };
        self.ask_stored(cx, config, master, timeout);
    }

    /// Whether it is a slave that was asked for the stored offset.
    pub(crate) const fn hears_of_slave(&self) -> bool {
        matches!(
            self.stage,
            Stage::Acquiring(Acquire::AskingStored { of_master: false })
        )
    }

    /// Nothing is stored: asks where to start.
    pub(crate) fn ask_start(&mut self, cx: &mut Cx<'_>, body: QuestionBody, timeout: Duration) {
        self.enter(Stage::Acquiring(Acquire::AskingStart), cx.now);
        self.ask(cx, Replica::Master, body, timeout, QueueAsk::StartOffset);
    }

    /// The question failed; it is asked again after a pause. "Unknown" is not a position.
    pub(crate) fn acquire_later(&mut self, cx: &mut Cx<'_>, pause: Duration) {
        self.enter(Stage::Acquiring(Acquire::Waiting(HoldReason::BackingOff)), cx.now);
        cx.timers.set(self.timer(QueueTimer::Acquire), cx.now + pause);
    }

    /// Whether it waits for its broker to become ready. One whose question failed waits for its pause instead: a
    /// broker that hangs up on the question would be asked again with each new connection.
    pub(crate) const fn waits_for_broker(&self) -> bool {
        matches!(
            self.stage,
            Stage::Acquiring(Acquire::Waiting(
                HoldReason::NoBrokerAddress
                    | HoldReason::LinkDown
                    | HoldReason::HeartbeatPending
                    | HoldReason::AskingOffset
            ))
        )
    }

    pub(crate) const fn is_asking(&self, ask: QueueAsk) -> bool {
        match (&self.stage, ask) {
            (Stage::Acquiring(Acquire::AskingStored { .. }), QueueAsk::StoredOffset)
            | (Stage::Acquiring(Acquire::AskingStart), QueueAsk::StartOffset)
            | (Stage::Revoking(_, Revoke::Rechecking { .. }), QueueAsk::Recheck) => true,
            (Stage::Acquiring(_) | Stage::Owned(_) | Stage::Revoking(..), _) => false,
        }
    }

    /// The start is known: the queue can be pulled. `stored` is what the broker has; what it has stored after
    /// `new_since` is new to us, as an earlier ownership knew.
    pub(crate) fn own(
        &mut self,
        cx: &mut Cx<'_>,
        start: QueueOffset,
        stored: Option<QueueOffset>,
        new_since: Option<WallTime>,
    ) {
        cx.timers.cancel(self.timer(QueueTimer::Acquire));
        let mut progress = Progress::new(stored, cx.now);
        if self.hears_of_slave() {
            progress.doubt();
        }
        let tenure = Tenure {
            window: Window::new(start),
            pull: PullLoop::new(self.group, self.key, cx.now),
            progress,
            asked_master: false,
            was_served: false,
            seen: Seen::after(new_since),
        };
        self.enter(Stage::Owned(tenure), cx.now);
    }

    // ---- owned ----------------------------------------------------------------------------------

    pub(crate) const fn is_owned(&self) -> bool {
        matches!(self.stage, Stage::Owned(_))
    }

    pub(crate) const fn is_acquiring(&self) -> bool {
        matches!(self.stage, Stage::Acquiring(_))
    }

    /// Window, pull loop and progress, once the start is known.
    pub(crate) const fn tenure(&self) -> Option<&Tenure> {
        match &self.stage {
            Stage::Acquiring(_) => None,
            Stage::Owned(tenure) | Stage::Revoking(tenure, _) => Some(tenure),
        }
    }

    pub(crate) const fn tenure_mut(&mut self) -> Option<&mut Tenure> {
        match &mut self.stage {
            Stage::Acquiring(_) => None,
            Stage::Owned(tenure) | Stage::Revoking(tenure, _) => Some(tenure),
        }
    }

    /// The one way to a pull. Returns the reason when it is held for a new one.
    pub(crate) fn pull(&mut self, cx: &mut Cx<'_>, gate: &Gate<'_>) -> Option<HoldReason> {
        let Stage::Owned(tenure) = &mut self.stage else {
            return None;
        };
        if !tenure.pull.may_ask() {
            return None;
        }
        if let Err(reason) = gate.check(&tenure.window) {
            return tenure.pull.hold(reason, cx.now).then_some(reason);
        }
        let serial = tenure.pull.ask(gate.replica.id, cx.now);
        tenure.asked_master = gate.replica.is_master();
        let finished = tenure.window.lowest_unfinished();
        // A slave would not store it; only what is finished is worth storing.
        let may_store = gate.replica.is_master() && tenure.progress.may_store(finished);
        let commit = (finished.0 > 0 && may_store).then_some(finished);
        if let Some(offset) = commit {
            tenure.progress.carry(offset, serial, cx.now);
        }
        let question = PullRequest {
            group: gate.config.group.clone(),
            topic: self.name.topic.clone(),
            queue: self.name.id,
            offset: tenure.window.next_offset(),
            max_messages: i32::try_from(gate.config.pull_batch).unwrap_or(i32::MAX),
            max_bytes: None,
            commit,
            suspend: Some(gate.config.pull_hold),
            sub_version: gate.sub_version,
            filter: None,
            lite: false,
            broker: Some(self.name.broker.clone()),
        };
        let replica = gate.replica.replica();
        let timeout = gate.config.pull_deadline;
        self.ask(
            cx,
            replica,
            QuestionBody::Pull(question),
            timeout,
            QueueAsk::Pull { serial },
        );
        None
    }

    /// Commits what is finished, if that is due.
    pub(crate) fn commit_if_due(&mut self, cx: &mut Cx<'_>, group: &ConsumerGroup, timeout: Duration) {
        if let Some(tenure) = self.tenure()
            && tenure.progress.is_due(tenure.window.lowest_unfinished(), cx.now)
        {
            self.commit(cx, group, timeout);
        }
    }

    fn commit(&mut self, cx: &mut Cx<'_>, group: &ConsumerGroup, timeout: Duration) {
        let Some(tenure) = self.tenure_mut() else { return };
        let offset = tenure.window.lowest_unfinished();
        if tenure.progress.is_below_floor(offset) {
            return;
        }
        tenure.progress.sent(offset, cx.now);
        if tenure.progress.is_in_doubt() {
            let body = self.stored_offset_question(group, false);
            return self.ask(cx, Replica::Master, body, timeout, QueueAsk::Verify);
        }
        let body = QuestionBody::Commit(CommitOffsetRequest {
            group: group.clone(),
            queue: self.reference(),
            offset,
        });
        self.ask(cx, Replica::Master, body, timeout, QueueAsk::Commit(offset));
    }

    // ---- revoking -------------------------------------------------------------------------------

    /// The share is lost. Commits at once; true when nothing else is awaited than that.
    pub(crate) fn revoke(&mut self, cx: &mut Cx<'_>, config: &GroupConfig, timeout: Duration) {
        for timer in [QueueTimer::Acquire, QueueTimer::Delivery] {
            cx.timers.cancel(self.timer(timer));
        }
        let Stage::Owned(tenure) = &mut self.stage else {
            return;
        };
        tenure.pull.stop(cx);
        let first = tenure.window.lowest_unfinished();
        let busy = tenure.window.out() + tenure.window.failing() > 0;
        let carried = tenure.progress.overtaking(first, cx.now);
        let until = tenure.progress.carried_until(first, cx.now);
        self.commit(cx, &config.group, timeout);
        self.since = cx.now;
        let grace = busy.then(|| cx.now + config.revoke_grace).max(until);
        let revoke = if grace.is_some() {
            Revoke::Grace { first, carried }
        } else {
            Revoke::LastCommit
        };
        let old = core::mem::replace(&mut self.stage, Stage::Acquiring(Acquire::AskingStart));
        if let Stage::Owned(tenure) = old {
            self.stage = Stage::Revoking(tenure, revoke);
        }
        if let Some(grace) = grace {
            cx.timers.set(self.timer(QueueTimer::Grace), grace);
        }
    }

    /// The handlers have ended. What a pull carries may still be on its way; and as long as the first
    /// commit is, the broker may answer with what it had before, so its acknowledgement comes here again.
    pub(crate) fn end_grace_early(&mut self, cx: &mut Cx<'_>, group: &ConsumerGroup, timeout: Duration) {
        let Stage::Revoking(tenure, Revoke::Grace { .. }) = &self.stage else {
            return;
        };
        if tenure.progress.is_in_flight() {
            return;
        }
        let value = tenure.window.lowest_unfinished();
        match tenure.progress.carried_until(value, cx.now) {
            Some(until) => cx.timers.set(self.timer(QueueTimer::Grace), until),
            None => self.end_grace(cx, group, timeout),
        }
    }

    /// The handlers have ended, or their grace has: what rose meanwhile is committed, if nobody else
    /// has moved the offset; and what was committed is committed again, if a pull has overtaken it.
    pub(crate) fn end_grace(&mut self, cx: &mut Cx<'_>, group: &ConsumerGroup, timeout: Duration) {
        let Stage::Revoking(tenure, revoke) = &mut self.stage else {
            return;
        };
        let Revoke::Grace { first, carried } = *revoke else {
            return;
        };
        cx.timers
            .cancel(TimerKey::Queue(self.group, self.key, QueueTimer::Grace));
        if tenure.window.lowest_unfinished() <= first && carried.is_none() {
            *revoke = Revoke::LastCommit;
            return;
        }
        *revoke = Revoke::Rechecking { first, carried };
        let body = self.stored_offset_question(group, false);
        self.ask(cx, Replica::Master, body, timeout, QueueAsk::Recheck);
    }

    /// The broker told what it has.
    pub(crate) fn rechecked(
        &mut self,
        cx: &mut Cx<'_>,
        group: &ConsumerGroup,
        stored: Option<QueueOffset>,
        timeout: Duration,
    ) {
        let Stage::Revoking(tenure, revoke) = &mut self.stage else {
            return;
        };
        let Revoke::Rechecking { first, carried } = *revoke else {
            return;
        };
        *revoke = Revoke::LastCommit;
        let has_risen = tenure.window.lowest_unfinished() > first;
        let is_overtaken = carried.is_some() && stored == carried;
        if is_overtaken || (has_risen && stored == Some(first)) {
            self.commit(cx, group, timeout);
        }
    }

    /// Whether handlers of a queue that is given back may still finish with effect.
    pub(crate) const fn is_in_grace(&self) -> bool {
        matches!(self.stage, Stage::Revoking(_, Revoke::Grace { .. }))
    }

    /// Whether nothing is awaited any more.
    pub(crate) const fn is_gone(&self) -> bool {
        match &self.stage {
            Stage::Revoking(tenure, Revoke::LastCommit) => !tenure.progress.is_in_flight(),
            Stage::Acquiring(_) | Stage::Owned(_) | Stage::Revoking(..) => false,
        }
    }

    /// Forgets its timers.
    pub(crate) fn disarm(&self, cx: &mut Cx<'_>) {
        for timer in [
            QueueTimer::Acquire,
            QueueTimer::Pull,
            QueueTimer::Delivery,
            QueueTimer::Grace,
        ] {
            cx.timers.cancel(self.timer(timer));
        }
    }

    // ---- shared ---------------------------------------------------------------------------------

    pub(crate) const fn timer(&self, timer: QueueTimer) -> TimerKey {
        TimerKey::Queue(self.group, self.key, timer)
    }

    /// The queue as offset requests name it.
    pub(crate) fn reference(&self) -> QueueRef {
        QueueRef {
            topic: self.name.topic.clone(),
            queue: self.name.id,
            broker: Some(self.name.broker.clone()),
        }
    }

    fn stored_offset_question(&self, group: &ConsumerGroup, zero_if_none: bool) -> QuestionBody {
        QuestionBody::StoredOffset(QueryOffsetRequest {
            group: group.clone(),
            queue: self.reference(),
            set_zero_if_not_found: (!zero_if_none).then_some(false),
        })
    }

    fn enter(&mut self, stage: Stage, now: Instant) {
        self.stage = stage;
        self.since = now;
    }

    fn ask(&self, cx: &mut Cx<'_>, replica: Replica, body: QuestionBody, timeout: Duration, ask: QueueAsk) {
        let purpose = Purpose::Queue {
            group: self.group,
            queue: self.key,
            ask,
        };
        cx.ask(
            Destination::Broker(self.name.broker.clone(), replica),
            body,
            timeout,
            purpose,
        );
    }

    /// What the queue itself knows; `reads_from` and `stalled_since` are the group's to add.
    pub(crate) fn status(&self) -> QueueStatus {
        let tenure = self.tenure();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (state, hold, since) = self.state_and_hold();
        QueueStatus {
            queue: self.name.clone(),
            epoch: self.epoch,
            state,
            hold,
            since,
            next_offset: tenure.map(|t| t.window.next_offset()),
            lowest_unfinished: tenure.map(|t| t.window.lowest_unfinished()),
            committed: tenure.and_then(|t| t.progress.acknowledged()),
            max_offset: tenure.and_then(|t| t.pull.max_offset()),
            unfinished: tenure.map_or(0, |t| t.window.unfinished()),
            bytes: tenure.map_or(0, |t| t.window.bytes()),
            delivered: tenure.map_or(0, |t| count(t.window.out())),
            retrying: tenure.map_or(0, |t| count(t.window.failing())),
            held_record: tenure.and_then(|t| t.window.held()),
            reads_from: None,
            stalled_since: None,
            last_error: self.last_error.clone(),
        }
    }

    fn state_and_hold(&self) -> (QueueState, Option<HoldReason>, Instant) {
        let tenure = match &self.stage {
            Stage::Acquiring(acquire) => return (QueueState::Acquiring, Some(acquire.reason()), self.since),
            Stage::Revoking(..) => return (QueueState::Revoking, None, self.since),
            Stage::Owned(tenure) => tenure,
        };
        let since = tenure.pull.since();
        match tenure.pull.state() {
            PullState::InFlight { .. } | PullState::Ready => (QueueState::Pulling, None, since),
            PullState::Held(reason) | PullState::Paused(reason) => {
                (QueueState::Held, Some(self.true_reason(tenure, reason)), since)
            }
            PullState::Stopped => (QueueState::Held, Some(HoldReason::Draining), self.since),
        }
    }

    /// The cause behind a reason: a window that is full behind a record that cannot be passed, and a pause
    /// after a refusal that will come again.
    fn true_reason(&self, tenure: &Tenure, reason: HoldReason) -> HoldReason {
        let is_full = matches!(
            reason,
            HoldReason::CountFull | HoldReason::BytesFull | HoldReason::SpanFull | HoldReason::BufferFull
        );
        if is_full && tenure.window.front() == Some(SlotState::Held) {
            return HoldReason::Undecodable;
        }
        let is_refused = |error: &LastError| {
            let code = error.code.filter(|_| error.request == PULL);
            code.is_some_and(|code| code != ResponseCode::SYSTEM_BUSY.0) && error.at >= tenure.pull.since()
        };
        if reason == HoldReason::BackingOff && self.last_error.as_ref().is_some_and(is_refused) {
            return HoldReason::Refused;
        }
        reason
    }
}

impl Acquire {
    const fn reason(self) -> HoldReason {
        match self {
            Self::Waiting(reason) => reason,
            Self::AskingStored { .. } => HoldReason::AskingOffset,
            Self::AskingStart => HoldReason::AskingStart,
        }
    }
}

impl Gate<'_> {
    /// Every reason not to pull, in the order an operator would want to hear them.
    fn check(&self, window: &Window) -> Result<(), HoldReason> {
        if self.draining {
            return Err(HoldReason::Draining);
        }
        self.replica.ready?;
        if window.unfinished() >= self.config.queue_count_max {
            return Err(HoldReason::CountFull);
        }
        if window.bytes() >= self.config.queue_bytes_max {
            return Err(HoldReason::BytesFull);
        }
        if window.span() > u64::from(self.config.queue_span_max) {
            return Err(HoldReason::SpanFull);
        }
        // An empty window may always take one answer, or a queue could starve behind its neighbours.
        if !self.buffer_room && window.unfinished() > 0 {
            return Err(HoldReason::BufferFull);
        }
        Ok(())
    }
}
