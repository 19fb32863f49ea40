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

mod acquiring;
mod gate;
pub(crate) mod harvest;
pub(crate) mod moved;
pub(crate) mod orderly;
pub(crate) mod progress;
pub(crate) mod pull;
mod revoking;
mod status;
pub(crate) mod window;

use core::time::Duration;

use crate::action::CallError;
use crate::consumer::cx::{
    Cx, Destination, Purpose, QuestionBody, QueueAsk, QueueTimer, Replica, TimerKey, Wish,
};
use crate::ids::{ConsumerGroup, Epoch, GroupKey, MessageQueue, QueueKey};
use crate::status::{HoldReason, LastError};
use crate::time::Instant;
use crate::wire::request::offsets::{CommitOffsetRequest, QueryOffsetRequest, QueueRef};
use crate::wire::request::pull::PullRequest;

pub(crate) use gate::{Gate, QueueLimits};
pub(crate) use moved::Moved;

use acquiring::Acquire;
use moved::{Find, Seen};
pub(crate) use orderly::InOrder;
use progress::Progress;
use pull::PullLoop;
use revoking::Revoke;
use window::Window;

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
    /// Whether its offset is kept by the group, and not by its broker.
    pub(crate) is_kept_here: bool,
    /// Whether the dispatcher has it in its round.
    pub(crate) listed: bool,
    /// Whether the route does not name it any more: nobody can own it anew.
    pub(crate) missing: bool,
    /// Why it begins elsewhere than the ownership before came to, if it does.
    pub(crate) moved: Option<Moved>,
    /// What it has if its messages are consumed in order.
    pub(crate) order: Option<InOrder>,
    /// What its broker is asked for its start, if the application wants it to begin there.
    pub(crate) sought: Option<Find>,
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
    /// When a run of it was handed out last.
    pub(crate) last_run: Option<Instant>,
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
            is_kept_here: false,
            listed: false,
            missing: false,
            moved: None,
            order: None,
            sought: None,
            stage,
            since: now,
            last_error: None,
        }
    }

    /// A request about it has failed. Decides nothing; operators see it.
    pub(crate) fn went_wrong(&mut self, now: Instant, request: &'static str, error: &CallError) {
        self.last_error = Some(LastError::new(now, request, error));
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
        // A slave would not store it; only what is finished is worth storing. In order nothing may be stored late:
        // the next owner begins at what is stored when the queue is unlocked.
        let may_store =
            gate.replica.is_master() && self.order.is_none() && tenure.progress.may_store(finished);
        let commit = (finished.0 > 0 && may_store).then_some(finished);
        if let Some(offset) = commit {
            tenure.progress.carry(offset, serial, cx.now);
        }
        let question = PullRequest {
            group: gate.config.group.clone(),
            topic: self.name.topic.clone(),
            queue: self.name.id,
            offset: tenure.window.next_offset(),
            max_messages: i32::try_from(gate.limits.batch).unwrap_or(i32::MAX),
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
        // Without its lock the queue may be another member's.
        if !self.may_consume(cx.now) {
            return;
        }
        let (key, is_kept_here) = (self.key, self.is_kept_here);
        let (group_key, Some(tenure)) = (self.group, self.tenure_mut()) else {
            return;
        };
        let offset = tenure.window.lowest_unfinished();
        if tenure.progress.is_below_floor(offset) {
            return;
        }
        tenure.progress.sent(offset, cx.now);
        if is_kept_here {
            return cx.wishes.push_back(Wish::Keep(group_key, key, offset));
        }
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

    // ---- shared ---------------------------------------------------------------------------------

    pub(crate) const fn is_asking(&self, ask: QueueAsk) -> bool {
        match (&self.stage, ask) {
            (Stage::Acquiring(Acquire::AskingStored { .. }), QueueAsk::StoredOffset)
            | (Stage::Acquiring(Acquire::AskingStart), QueueAsk::StartOffset)
            | (Stage::Revoking(_, Revoke::Rechecking { .. }), QueueAsk::Recheck) => true,
            (Stage::Acquiring(_) | Stage::Owned(_) | Stage::Revoking(..), _) => false,
        }
    }

    /// Forgets its timers.
    pub(crate) fn disarm(&self, cx: &mut Cx<'_>) {
        for timer in [
            QueueTimer::Acquire,
            QueueTimer::Pull,
            QueueTimer::Delivery,
            QueueTimer::Grace,
            QueueTimer::Suspend,
        ] {
            cx.timers.cancel(self.timer(timer));
        }
    }

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
}
