//! A queue is given back: what is finished is committed at once, what handlers finish within the grace once more,
//! and then nothing goes out for it.
//!
//! ```text
//!   Owned ──► Grace ──ended, or the grace has──► Rechecking ──► LastCommit ──► gone
//!     │                                                             ▲
//!     └── no handler runs, no pull carries less ────────────────────┘
//! ```
//!
//! The second commit waits for the broker's word that nobody else has moved the offset meanwhile; where the group
//! keeps the offset itself nobody else can have.

use core::mem;
use core::time::Duration;

use crate::config::GroupConfig;
use crate::consumer::cx::{Cx, QueueAsk, QueueTimer, Replica, TimerKey};
use crate::ids::{ConsumerGroup, QueueOffset};
use crate::time::Instant;

use super::acquiring::Acquire;
use super::{Queue, Stage};

/// How far giving back has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revoke {
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
    /// Messages are consumed in order: the handler may take its time, and what is committed then must be safe before
    /// the queue is unlocked. See [`orderly`](super::orderly).
    InOrder {
        /// Whether they have ended.
        closing: bool,
        /// Before that it is not committed again: it has just failed.
        rests_until: Option<Instant>,
    },
}

impl Queue {
    /// The share is lost. Commits at once; a grace follows when handlers run, or a pull carries less.
    pub(crate) fn revoke(&mut self, cx: &mut Cx<'_>, config: &GroupConfig, timeout: Duration) {
        for timer in [QueueTimer::Acquire, QueueTimer::Delivery] {
            cx.timers.cancel(self.timer(timer));
        }
        if self.order.is_some() {
            return self.revoke_in_order(cx, config, timeout);
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
        self.become_revoked(revoke);
        if let Some(grace) = grace {
            cx.timers.set(self.timer(QueueTimer::Grace), grace);
        }
    }

    pub(super) fn become_revoked(&mut self, revoke: Revoke) {
        let old = mem::replace(&mut self.stage, Stage::Acquiring(Acquire::AskingStart));
        if let Stage::Owned(tenure) = old {
            self.stage = Stage::Revoking(tenure, revoke);
        }
    }

    /// The handlers have ended. What a pull carries may still be on its way; and as long as the first
    /// commit is, the broker may answer with what it had before, so its acknowledgement comes here again.
    pub(crate) fn end_grace_early(&mut self, cx: &mut Cx<'_>, group: &ConsumerGroup, timeout: Duration) {
        if self.order.is_some() {
            return self.close_in_order(cx, group, timeout);
        }
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
        if self.order.is_some() {
            return self.close_in_order(cx, group, timeout);
        }
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
        if self.is_kept_here {
            *revoke = Revoke::LastCommit;
            return self.commit(cx, group, timeout);
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

    /// Whether it is being given back.
    pub(crate) const fn is_revoking(&self) -> bool {
        matches!(self.stage, Stage::Revoking(..))
    }

    /// Whether handlers of a queue that is given back may still finish with effect.
    pub(crate) const fn is_in_grace(&self) -> bool {
        matches!(
            self.stage,
            Stage::Revoking(_, Revoke::Grace { .. } | Revoke::InOrder { .. })
        )
    }

    /// Whether it is still ours to say where the next owner begins: as long as handlers may finish with effect, or could
    /// if some ran. Only a last commit may be under way then, and be stored after an operator's reset.
    pub(crate) fn may_begin_elsewhere(&self, now: Instant, grace: Duration) -> bool {
        self.is_in_grace() || (self.is_revoking() && now < self.since + grace)
    }

    /// Whether nothing is awaited any more.
    pub(crate) fn is_gone(&self) -> bool {
        match &self.stage {
            // Where it ends is kept by the group: the next one need not wait until that is stored.
            Stage::Revoking(tenure, Revoke::LastCommit) => {
                self.is_kept_here || !tenure.progress.is_in_flight()
            }
            Stage::Revoking(tenure, Revoke::InOrder { closing: true, .. }) => {
                tenure.progress.is_safe(tenure.window.lowest_unfinished())
            }
            Stage::Acquiring(_) | Stage::Owned(_) | Stage::Revoking(..) => false,
        }
    }
}
