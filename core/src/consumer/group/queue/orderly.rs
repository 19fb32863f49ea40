//! What a queue has that is consumed in order: its lease, what it rests for, and whom it must not overtake.
//!
//! At most one run is out at a time, from the lowest unfinished message on. What fails is ready again at the head and
//! nothing behind it is delivered before; other queues go on. So whatever was delivered and is not finished lies at the
//! front of the window, and the lowest unfinished message tells the whole state:
//!
//! ```text
//!  Ready ──run──► Out ──committed──► the next one
//!    ▲             │ suspended: rests
//!    └─────────────┴── failed once too often: Failing until its copy is stored
//! ```
//!
//! By [`OrderBy::Key`] that holds for each key by itself: one message of a key is out at a time, what fails makes its key
//! rest and no other, and the window's lanes know who is next. The lock and all that hangs on it are the queue's.
//!
//! A queue that is given back waits for its handlers, however long that takes, then for its commit; only then is it
//! unlocked. No pull carries an offset: a broker may store that later than a commit that was sent after it.
//!
//! ```text
//!   Owned ──► InOrder: handlers end ──► commits until that is safe ──► gone, and unlocked
//! ```

use core::time::Duration;

use crate::config::{GroupConfig, OrderBy};
use crate::consumer::cx::{Cx, QueueTimer};
use crate::ids::{ConsumerGroup, QueueKey};
use crate::status::HoldReason;
use crate::time::Instant;

use super::acquiring::Acquire;
use super::revoking::Revoke;
use super::{Queue, Stage};

/// Pause before a last commit that failed is sent again.
const LAST_COMMIT_RETRY: Duration = Duration::from_millis(500);

/// What an ownership has that is consumed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InOrder {
    /// Which messages must not overtake each other.
    pub(super) by: OrderBy,
    /// Until when the broker's lock is ours.
    lease: Option<Instant>,
    /// Whether other members may have had it.
    beside_others: bool,
    /// An earlier ownership whose handlers still run.
    follows: Option<QueueKey>,
    /// The whole queue rests; keys rest in the window.
    suspended_until: Option<Instant>,
}

impl InOrder {
    /// Every member has every queue: there is nobody to lock out.
    pub(crate) const fn without_lock(by: OrderBy) -> Self {
        Self::leased(by, Some(Instant::from_micros(u64::MAX)))
    }

    /// The lock comes first; it may be ours already.
    pub(crate) const fn leased(by: OrderBy, lease: Option<Instant>) -> Self {
        Self {
            by,
            lease,
            beside_others: false,
            follows: None,
            suspended_until: None,
        }
    }
}

impl Queue {
    // ---- the lock -------------------------------------------------------------------------------

    /// Its lock is asked for before anything else.
    pub(crate) fn begin_with_lock(&mut self, now: Instant, beside_others: bool) {
        if let Some(order) = &mut self.order {
            order.beside_others = beside_others;
        }
        let waits = Stage::Acquiring(Acquire::Waiting(HoldReason::WaitsForLock));
        self.enter(waits, now);
    }

    pub(crate) const fn waits_for_lock(&self) -> bool {
        matches!(
            self.stage,
            Stage::Acquiring(Acquire::Waiting(HoldReason::WaitsForLock))
        )
    }

    pub(crate) const fn learn_lease(&mut self, lease: Option<Instant>) {
        if let Some(order) = &mut self.order {
            order.lease = lease;
        }
    }

    /// Whether it may be pulled, delivered and committed: always, unless it needs a lock.
    pub(crate) fn may_consume(&self, now: Instant) -> bool {
        self.order
            .is_none_or(|order| order.lease.is_some_and(|until| now < until))
    }

    pub(crate) fn is_beside_others(&self) -> bool {
        self.order.is_some_and(|order| order.beside_others)
    }

    // ---- handlers of earlier ownerships -----------------------------------------------------------

    /// Nothing is delivered before the handlers of an earlier ownership have ended.
    pub(crate) const fn follow(&mut self, before: Option<QueueKey>) {
        if let Some(order) = &mut self.order {
            order.follows = before;
        }
    }

    pub(crate) fn follows(&self) -> Option<QueueKey> {
        self.order.and_then(|order| order.follows)
    }

    // ---- one run after another --------------------------------------------------------------------

    /// Whether keys are side by side: then runs are, of one message each.
    pub(crate) fn is_by_key(&self) -> bool {
        self.order.is_some_and(|order| order.by == OrderBy::Key)
    }

    /// Whether its next run may begin, provided that the lock is ours and, unless keys are side by side, none is out.
    pub(crate) fn has_next_in_order(&self) -> bool {
        let is_free = self
            .order
            .is_some_and(|order| order.follows.is_none() && order.suspended_until.is_none());
        is_free
            && self
                .tenure()
                .is_some_and(|tenure| tenure.window.has_next_in_order())
    }

    /// A message has failed and is ready again: nothing is delivered for a while, or nothing of its key.
    pub(crate) fn suspend(&mut self, cx: &mut Cx<'_>, seq: u64, pause: Duration) {
        let timer = self.timer(QueueTimer::Suspend);
        let until = cx.now + pause;
        let is_by_key = self.is_by_key();
        if is_by_key && let Some(tenure) = self.tenure_mut() {
            tenure.window.rest(seq, until);
            cx.timers.set_no_later(timer, until);
        } else if let Some(order) = &mut self.order {
            order.suspended_until = Some(until);
            cx.timers.set(timer, until);
        }
    }

    /// Some rest is over.
    pub(crate) fn suspension_is_over(&mut self, cx: &mut Cx<'_>) {
        let timer = self.timer(QueueTimer::Suspend);
        if let Some(order) = &mut self.order {
            order.suspended_until = None;
        }
        if let Some(next) = self.tenure_mut().and_then(|tenure| tenure.window.wake(cx.now)) {
            cx.timers.set(timer, next);
        }
    }

    /// Nothing rests any more.
    fn end_suspension(&mut self) {
        if let Some(order) = &mut self.order {
            order.suspended_until = None;
        }
        if let Some(tenure) = self.tenure_mut() {
            tenure.window.wake_all();
        }
    }

    /// Until when the lowest unfinished message waits after a failure.
    pub(crate) fn suspended_until(&self) -> Option<Instant> {
        let whole = self.order?.suspended_until;
        whole.or_else(|| self.tenure()?.window.front_rests_until())
    }

    // ---- given back -------------------------------------------------------------------------------

    /// The share is lost. A handler that runs may go on for a while, then its token is cancelled.
    pub(super) fn revoke_in_order(&mut self, cx: &mut Cx<'_>, config: &GroupConfig, timeout: Duration) {
        cx.timers.cancel(self.timer(QueueTimer::Suspend));
        self.end_suspension();
        let Stage::Owned(tenure) = &mut self.stage else {
            return;
        };
        tenure.pull.stop(cx);
        tenure.window.shorten(cx.now + config.orderly_revoke_max);
        let due = tenure.window.next_due();
        // A process that dies while it waits for its handler loses nothing that is finished.
        self.commit_if_due(cx, &config.group, timeout);
        self.since = cx.now;
        self.become_revoked(Revoke::InOrder {
            closing: false,
            rests_until: None,
        });
        if let Some(at) = due {
            cx.timers.set(self.timer(QueueTimer::Delivery), at);
        }
    }

    /// The handlers have ended: commits until nothing of ours can change what is stored any more.
    pub(super) fn close_in_order(&mut self, cx: &mut Cx<'_>, group: &ConsumerGroup, timeout: Duration) {
        let timer = self.timer(QueueTimer::Grace);
        let Stage::Revoking(tenure, Revoke::InOrder { closing, rests_until }) = &mut self.stage else {
            return;
        };
        *closing = true;
        let value = tenure.window.lowest_unfinished();
        if tenure.progress.is_safe(value) {
            return cx.timers.cancel(timer);
        }
        if tenure.progress.is_in_flight() {
            return;
        }
        match rests_until.filter(|until| cx.now < *until) {
            Some(until) => cx.timers.set(timer, until),
            None => self.commit_if_due(cx, group, timeout),
        }
    }

    /// A commit has failed. The last one is sent again after a pause: where there is no way to the broker it fails at
    /// once.
    pub(crate) fn rest_before_last_commit(&mut self, now: Instant) {
        if let Stage::Revoking(_, Revoke::InOrder { rests_until, .. }) = &mut self.stage {
            *rests_until = Some(now + LAST_COMMIT_RETRY);
        }
    }
}
