//! A lock is given back when no handler has anything of its queue any more, and all that was finished is committed.
//!
//! Source: design "Living beside Java members", 4; W16 and W35. Whoever locks the queue next asks for the offset and
//! delivers: what a handler still runs with would be delivered beside it, and what is not committed again. So the last
//! commit is acknowledged before the unlock is written.
//!
//! Legal all the same: to give a lock back without a commit that a broker keeps from us, which did not answer, refused,
//! or is not there; and one that was lost already.

use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::ids::{ConsumeId, QueueOffset};
use rocketmq_consumer_core::time::Instant;

use super::leases::Leases;
use super::obstacles::Obstacles;
use super::orderly::Orderly;
use super::requests::Requests;
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Answer, Ask, Deed, Life, QueueNo, Seen, Sight, Sights, What, is_success};

/// One queue of one member.
#[derive(Debug, Default)]
struct Hold {
    /// Runs that handlers have, and how many messages of each are not settled.
    out: BTreeMap<ConsumeId, u32>,
    /// Those of earlier ownerships: what becomes of their messages is nothing of this one.
    former: BTreeSet<ConsumeId>,
    /// Everything below was finished in the ownership that lasts.
    finished: Option<QueueOffset>,
    /// What a broker has acknowledged.
    acknowledged: Option<QueueOffset>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct UnlockAfterCommitAndHandlers {
    orderly: Orderly,
    obstacles: Obstacles,
    leases: Leases,
    holds: BTreeMap<(Life, QueueNo), Hold>,
    commits: Requests<(QueueNo, QueueOffset)>,
}

impl UnlockAfterCommitAndHandlers {
    fn hold(&mut self, life: Life, queue: QueueNo) -> &mut Hold {
        self.holds.entry((life, queue)).or_default()
    }

    fn acknowledged(&mut self, life: Life, (queue, offset): (QueueNo, QueueOffset)) {
        let hold = self.hold(life, queue);
        hold.acknowledged = hold.acknowledged.max(Some(offset));
    }

    fn unlocks(&mut self, at: Instant, life: Life, queue: QueueNo, view: &dyn View) -> Result<(), Broken> {
        let met = self.obstacles.met(at, life);
        let is_lost = self.leases.is_lost(life, queue);
        let hold = self.hold(life, queue);
        let name = view.queue(queue);
        if let Some(run) = hold.out.keys().next() {
            return Err(Broken(format!(
                "{life:?} unlocks {name} while a handler has {run:?}"
            )));
        }
        if hold.acknowledged < hold.finished && !met && !is_lost {
            return Err(Broken(format!(
                "{life:?} unlocks {name} with {:?} acknowledged, finished is {:?}",
                hold.acknowledged, hold.finished
            )));
        }
        Ok(())
    }

    fn asked(&mut self, life: Life, deed: &Deed<'_>) {
        let Deed::Asked {
            conn, opaque, ask, ..
        } = *deed
        else {
            return;
        };
        let commit = match ask {
            Ask::Commit { queue, offset, .. } => Some((queue, offset)),
            Ask::Pull { queue, commit, .. } => commit.map(|offset| (queue, offset)),
            _ => None,
        };
        if let Some(commit) = commit {
            self.commits.asked(life, conn, opaque, commit);
        }
    }
}

impl Invariant for UnlockAfterCommitAndHandlers {
    fn name(&self) -> &'static str {
        "unlock_after_commit_and_handlers"
    }

    fn looks_at(&self) -> Sights {
        Orderly::LIVES
            .and(Obstacles::SIGHTS)
            .and(Leases::SIGHTS)
            .and(Sights::of(&[
                Sight::Disconnected,
                Sight::AskedPull,
                Sight::AskedCommit,
                Sight::AnsweredPull,
                Sight::AnsweredCommit,
                Sight::Unlocking,
                Sight::Delivered,
                Sight::Settled,
            ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        if !self.orderly.see(life, &deed, view) {
            return Ok(());
        }
        self.obstacles.see(seen.at, life, &deed);
        self.leases.see(seen.at, life, &deed);
        self.commits.see(life, &deed, |_| {});
        match deed {
            Deed::Assigned { queue, .. } => {
                let hold = self.hold(life, queue);
                (hold.finished, hold.acknowledged) = (None, None);
                hold.former = hold.out.keys().copied().collect();
            }
            Deed::Delivered {
                queue, run, range, ..
            } => {
                self.hold(life, queue).out.insert(run, range.len());
            }
            Deed::Settled {
                queue,
                run,
                offset,
                verdict,
                ..
            } => {
                let hold = self.hold(life, queue);
                if is_success(verdict) && !hold.former.contains(&run) {
                    hold.finished = hold.finished.max(Some(QueueOffset(offset.0 + 1)));
                }
                if let Some(left) = hold.out.get_mut(&run) {
                    *left = left.saturating_sub(1);
                    hold.out.retain(|_, left| *left > 0);
                }
            }
            Deed::Unlocking { queue, .. } => return self.unlocks(seen.at, life, queue, view),
            Deed::Asked { .. } => self.asked(life, &deed),
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                let commit = self.commits.answered(life, conn, opaque);
                if let (Some(commit), Answer::Done | Answer::Pulled { .. }) = (commit, answer) {
                    self.acknowledged(life, commit);
                }
            }
            Deed::Killed | Deed::Closed => self.holds.retain(|(of, _), _| *of != life),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::config::ConsumeMode;
    use rocketmq_consumer_core::message::OrderlyOutcome::{Commit, Suspend};

    use super::super::bench::Bench;
    use super::*;

    /// One that has its lock and delivers message 100.
    fn bench() -> Bench<UnlockAfterCommitAndHandlers> {
        let mut bench = Bench::new(UnlockAfterCommitAndHandlers::default());
        bench.world.config.set_mode(ConsumeMode::Orderly);
        bench.at(100_000).ours().locking().locked(true, 100_000);
        bench.assign(1, 100).deliver(1, 100..101).legal();
        bench
    }

    #[test]
    fn not_while_a_handler_has_something() {
        bench().unlocking().breaks("while a handler has");
        bench().ordered(1, 100, Suspend).unlocking().legal();
    }

    #[test]
    fn not_before_what_was_finished_is_acknowledged() {
        bench().ordered(1, 100, Commit).unlocking().breaks("finished is");
        let mut written = bench();
        written.ordered(1, 100, Commit).commit(101);
        written.unlocking().breaks("finished is");
        let mut acknowledged = bench();
        acknowledged
            .ordered(1, 100, Commit)
            .commit(101)
            .answer_last(Answer::Done);
        acknowledged.unlocking().legal();
        let mut carried = bench();
        carried
            .ordered(1, 100, Commit)
            .pull(101, Some(101))
            .found(101..102);
        carried.unlocking().legal();
        let mut less = bench();
        less.ordered(1, 100, Commit).commit(100).answer_last(Answer::Done);
        less.unlocking().breaks("finished is");
    }

    #[test]
    fn a_broker_that_is_not_there_keeps_nobody() {
        let mut gone = bench();
        gone.ordered(1, 100, Commit).commit(101).disconnected();
        gone.at(114_999).unlocking().legal();
        let mut long_ago = bench();
        long_ago.disconnected().at(115_000).ordered(1, 100, Commit);
        long_ago.unlocking().breaks("finished is");
        let mut lost = bench();
        lost.ordered(1, 100, Commit)
            .locked(false, 100_000)
            .unlocking()
            .legal();
        let mut late = bench();
        late.ordered(1, 100, Commit).at(121_000).locked(true, 120_000);
        late.at(130_000).revoke(1).unlocking().legal();
        for (at, legal) in [(129_000, true), (128_999, false)] {
            let mut bench = bench();
            bench.ordered(1, 100, Commit).at(at).revoke(1).unlocking();
            if legal {
                bench.legal();
            } else {
                bench.breaks("finished is");
            }
        }
    }

    #[test]
    fn each_ownership_is_asked_for_its_own() {
        let mut next = bench();
        next.ordered(1, 100, Commit)
            .revoke(1)
            .assign(2, 101)
            .unlocking()
            .legal();
    }
}
