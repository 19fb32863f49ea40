//! The way out: stop delivering, let handlers finish, commit, tell the brokers.
//!
//! ```text
//!  Running ─drain─► Draining ─handlers ended, or time is up─► Committing ─acknowledged─► Leaving ─► Stopped
//! ```
//!
//! Nothing is committed before the handlers have ended, and nobody is told that we leave before the
//! offsets are safe: the next owner of a queue asks for them at once.
//= rocketmq: DefaultMQPushConsumerImpl.shutdown type=differs
//  reason: drains before it commits, commits with acknowledgement before it unregisters.

use core::time::Duration;

use crate::action::AppAction;
use crate::consumer::cx::{Cx, GroupTimer, QueueTimer, Wish};
use crate::ids::{ConsumeId, QueueKey};
use crate::status::GroupPhase;

use super::Group;
use super::queue::Queue;

/// Pause before a last commit that failed is sent again.
const LAST_COMMIT_RETRY: Duration = Duration::from_millis(500);

impl Group {
    /// Begins to leave. Doing so twice changes nothing.
    pub(crate) fn drain(&mut self, cx: &mut Cx<'_>, drain: Duration) {
        if self.phase != GroupPhase::Running {
            return;
        }
        self.phase = GroupPhase::Draining;
        self.rebalance.stop(cx);
        cx.timers.cancel(self.timer(GroupTimer::Flow));
        self.forget_filters(cx);
        for key in self.queues.keys() {
            let Some(queue) = self.queues.get_mut(key) else {
                continue;
            };
            if queue.is_acquiring() {
                let name = queue.name.clone();
                self.by_name.remove(&name);
                self.give_up(cx, key);
            } else if let Some(tenure) = queue.tenure_mut() {
                tenure.pull.stop(cx);
            }
        }
        for run in self.dispatch.runs() {
            cx.tell(AppAction::Withdraw {
                id: ConsumeId { group: self.key, run },
            });
        }
        self.withdraw_directs(cx);
        self.call_off_local_retries(cx);
        cx.timers.set(self.timer(GroupTimer::Phase), cx.now + drain);
        self.check_drained(cx);
    }

    /// Whether the handlers have ended.
    pub(super) fn check_drained(&mut self, cx: &mut Cx<'_>) {
        if self.phase == GroupPhase::Draining && self.busy() == 0 {
            self.commit_last(cx);
        }
    }

    fn busy(&self) -> u64 {
        let open = |queue: &Queue| queue.tenure().map_or(0, |t| t.window.out() + t.window.failing());
        // In order the queue cannot be unlocked before its successor knows that they have ended.
        let before = |queue: &Queue| {
            let are_over = |before| !self.dispatch.has_runs(before);
            usize::from(queue.follows().is_some_and(are_over))
        };
        let of_queues: u64 = self
            .queues
            .iter()
            .map(|(_, queue)| (open(queue) + before(queue)) as u64)
            .sum();
        // Handlers of ownerships that have ended are waited for as well, by a reset that came just now, say: what they
        // answer counts for nothing, but they were begun.
        let astray = self.dispatch.astray(|key| self.queues.get(key).is_some());
        of_queues + astray + self.directs.out() as u64
    }

    fn commit_last(&mut self, cx: &mut Cx<'_>) {
        self.phase = GroupPhase::Committing;
        cx.timers.cancel(self.timer(GroupTimer::Commit));
        cx.timers.cancel(self.timer(GroupTimer::Strays));
        cx.timers.cancel(self.timer(GroupTimer::Stalls));
        self.strays.clear();
        self.end_directs(cx);
        cx.timers
            .set(self.timer(GroupTimer::Phase), cx.now + self.offset_timeout);
        self.save_last(cx);
        for key in self.queues.keys() {
            if let Some(queue) = self.queues.get_mut(key) {
                cx.timers.cancel(queue.timer(QueueTimer::Delivery));
                queue.end_grace_early(cx, &self.name, self.offset_timeout);
            }
            self.bury_if_gone(cx, key);
        }
        self.check_last_commits(cx);
    }

    /// Whether every offset is safe. A commit that was under way when the last handlers ended is
    /// followed by one more, and so is one that a pull may have overtaken. Queues that are being given back see to their last commit themselves.
    pub(super) fn check_last_commits(&mut self, cx: &mut Cx<'_>) {
        if self.phase != GroupPhase::Committing {
            return;
        }
        let is_safe = |queue: &Queue| {
            queue.is_owned()
                && queue
                    .tenure()
                    .is_none_or(|t| t.progress.is_safe(t.window.lowest_unfinished()))
        };
        let waiting: alloc::vec::Vec<QueueKey> = self
            .queues
            .iter()
            .filter(|(_, queue)| !is_safe(queue))
            .map(|(key, _)| key)
            .collect();
        if waiting.is_empty() && self.is_stored() {
            if self.give_locks_back(cx) {
                self.leave(cx);
            }
            return;
        }
        for key in waiting {
            let Some(queue) = self.queues.get_mut(key).filter(|queue| queue.is_owned()) else {
                continue;
            };
            queue.commit_if_due(cx, &self.name, self.offset_timeout);
            let until = queue
                .tenure()
                .and_then(|t| t.progress.carried_until(t.window.lowest_unfinished(), cx.now));
            if let Some(until) = until {
                cx.timers.set_no_later(self.timer(GroupTimer::Commit), until);
            }
        }
    }

    /// A last commit has failed. It is sent again after a pause: where there is no way to the broker
    /// it fails at once, and to send it again within the same event would never end.
    pub(super) fn last_commit_failed(&self, cx: &mut Cx<'_>) {
        if self.phase == GroupPhase::Committing {
            cx.timers
                .set_no_later(self.timer(GroupTimer::Commit), cx.now + LAST_COMMIT_RETRY);
        }
    }

    fn leave(&mut self, cx: &mut Cx<'_>) {
        self.phase = GroupPhase::Leaving;
        cx.timers.cancel(self.timer(GroupTimer::Commit));
        cx.timers.cancel(self.timer(GroupTimer::Save));
        cx.timers
            .set(self.timer(GroupTimer::Phase), cx.now + self.request_timeout);
        cx.wishes.push_back(Wish::Leave(self.key));
    }

    /// Every broker that knew us has been told, or cannot be.
    pub(crate) fn on_everybody_told(&mut self, cx: &mut Cx<'_>) {
        if self.phase == GroupPhase::Leaving {
            self.stop(cx);
        }
    }

    /// A phase has lasted as long as it may.
    pub(super) fn on_phase_timer(&mut self, cx: &mut Cx<'_>) {
        match self.phase {
            GroupPhase::Draining => {
                self.report.timed_out = true;
                self.report.abandoned = self.busy();
                self.commit_last(cx);
            }
            GroupPhase::Committing => {
                self.give_locks_back(cx);
                self.leave(cx);
            }
            GroupPhase::Leaving => self.stop(cx),
            GroupPhase::Running | GroupPhase::Stopped => {}
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.phase = GroupPhase::Stopped;
        cx.timers.cancel(self.timer(GroupTimer::Phase));
        cx.timers.cancel(self.timer(GroupTimer::Locks));
        self.report.finished = self.finished;
        self.report.dropped = self.dropped;
        for key in self.queues.keys() {
            if let Some(queue) = self.queues.get(key) {
                let committed = queue.tenure().and_then(|tenure| tenure.progress.acknowledged());
                self.report.committed.push((queue.name.clone(), committed));
            }
            self.bury(cx, key);
        }
        self.report.committed.sort();
        cx.wishes.push_back(Wish::Stopped(self.key));
    }

    /// What the way out achieved.
    pub(crate) const fn report(&self) -> &crate::action::ShutdownReport {
        &self.report
    }
}
