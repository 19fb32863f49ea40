//! After an operator's reset nothing is committed beyond what was fetched anew.
//!
//! Source: OF-20; P49. A member learns of a reset by the answer to a pull, or by the broker's own word (220). From then
//! on what it commits is the new place, and rises with what later answers brought: what was with handlers before the
//! reset counts for nothing.
//!
//! Legal all the same: commits below; and everything after the queue was given back and taken again. A broker tells a
//! reset once, and it is lost when the pull that hears of it is one that was given up, or of an ownership that has
//! ended, and so it is when it comes later than a queue or a member may take to be given back.

use std::collections::BTreeMap;

use rocketmq_consumer_core::ids::{Epoch, QueueOffset};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::request::pull::PullStatus;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Answer, Ask, BrokerDeed, Deed, Life, QueueNo, Seen, Sight, Sights, What};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ResetIsObeyed {
    pulls: Requests<Pull>,
    /// The newest ownership of each queue, while it lasts.
    owned: BTreeMap<(Life, QueueNo), Epoch>,
    resets: BTreeMap<(Life, QueueNo), Reset>,
    asked: u64,
    /// Whether anything was ever reset: before that no pull can hear of it.
    has_resets: bool,
}

/// A pull that was written.
#[derive(Clone, Copy, Debug)]
struct Pull {
    queue: QueueNo,
    /// For which ownership.
    epoch: Option<Epoch>,
    /// Counts all pulls.
    number: u64,
    /// When the member gives it up.
    until: Instant,
}

/// A queue since it was reset.
#[derive(Debug)]
struct Reset {
    /// How far it may be committed.
    ceiling: QueueOffset,
    /// The number of pulls before.
    since: u64,
    /// The ownership that came of it.
    epoch: Option<Epoch>,
}

impl ResetIsObeyed {
    fn answered(&mut self, at: Instant, life: Life, pull: Pull, answer: &Answer<'_>) {
        let Answer::Pulled {
            status, next, reset, ..
        } = *answer
        else {
            return;
        };
        let Pull {
            queue,
            epoch,
            number,
            until,
        } = pull;
        let owned = self.owned.get(&(life, queue)).copied();
        let is_current = at < until && owned.is_some() && owned == epoch;
        if status == PullStatus::OffsetMoved && reset && is_current {
            let reset = Reset {
                ceiling: next,
                since: self.asked,
                epoch: None,
            };
            self.resets.insert((life, queue), reset);
        } else if let Some(reset) = self.resets.get_mut(&(life, queue))
            && number > reset.since
        {
            reset.ceiling = next.max(reset.ceiling);
        }
    }

    fn commit(&self, life: Life, queue: QueueNo, offset: QueueOffset, view: &dyn View) -> Result<(), Broken> {
        match self.resets.get(&(life, queue)) {
            Some(Reset { ceiling, .. }) if offset > *ceiling => Err(Broken(format!(
                "{life:?} commits {} at {offset}, since its reset it has come to {ceiling}",
                view.queue(queue)
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

impl Invariant for ResetIsObeyed {
    fn name(&self) -> &'static str {
        "reset_is_obeyed"
    }

    fn looks_at(&self) -> Sights {
        requests::ENDS.and(Sights::of(&[
            Sight::AskedPull,
            Sight::AskedCommit,
            Sight::AnsweredPull,
            Sight::Assigned,
            Sight::Revoked,
            Sight::AskedToLeave,
            Sight::BrokerReset,
        ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let (life, deed) = match seen.what {
            What::Member { life, deed } => (life, deed),
            What::Broker(BrokerDeed::Reset { .. }) => {
                self.has_resets = true;
                return Ok(());
            }
            What::Broker(_) | What::Fault(_) => return Ok(()),
        };
        if self.has_resets {
            self.pulls.see(life, &deed, |_| {});
        } else if !matches!(
            deed,
            Deed::Assigned { .. } | Deed::Revoked { .. } | Deed::Killed | Deed::Closed
        ) {
            return Ok(());
        }
        match deed {
            Deed::Asked {
                conn, opaque, ask, ..
            } => match ask {
                Ask::Pull { queue, commit, .. } => {
                    if let Some(offset) = commit {
                        self.commit(life, queue, offset, view)?;
                    }
                    self.asked += 1;
                    let pull = Pull {
                        queue,
                        epoch: self.owned.get(&(life, queue)).copied(),
                        number: self.asked,
                        until: seen.at + *view.config(life).pull_deadline(),
                    };
                    self.pulls.asked(life, conn, opaque, pull);
                }
                Ask::Commit { queue, offset, .. } => return self.commit(life, queue, offset, view),
                _ => {}
            },
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                if let Some(pull) = self.pulls.answered(life, conn, opaque) {
                    self.answered(seen.at, life, pull, &answer);
                }
            }
            Deed::Assigned {
                queue, epoch, from, ..
            } => {
                let key = (life, queue);
                self.owned.insert(key, epoch);
                let is_elsewhere = |reset: &mut Reset| reset.epoch.is_none() && reset.ceiling != from;
                if let Some(reset) = self.resets.get_mut(&key) {
                    // It was lost with its share before it was taken up, and others have gone on since.
                    if is_elsewhere(reset) {
                        self.resets.remove(&key);
                    } else {
                        reset.epoch.get_or_insert(epoch);
                    }
                }
            }
            // It may have become another member's meanwhile, who went on from the new place.
            Deed::Revoked { queue, epoch, .. } => {
                let key = (life, queue);
                if self.owned.get(&key) == Some(&epoch) {
                    self.owned.remove(&key);
                }
                if self
                    .resets
                    .get(&key)
                    .is_some_and(|reset| reset.epoch == Some(epoch))
                {
                    self.resets.remove(&key);
                }
            }
            Deed::Killed | Deed::Closed => {
                self.owned.retain(|(of, _), _| *of != life);
                self.resets.retain(|(of, _), _| *of != life);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, Mover, QUEUE};
    use super::*;
    use crate::sim::seen::GroupNo;

    /// A world in which something was reset.
    fn reset() -> Bench<ResetIsObeyed> {
        let mut bench = Bench::new(ResetIsObeyed::default());
        bench.broker(BrokerDeed::Reset {
            group: GroupNo(0),
            queue: QUEUE,
            offset: QueueOffset(300),
        });
        bench
    }

    /// One that has fetched 900 to 931 and is sent back to 300.
    fn bench() -> Bench<ResetIsObeyed> {
        let mut bench = reset();
        bench.ours().assign(1, 900).pull(900, None).found(900..932);
        bench
            .pull(932, Some(905))
            .moved(300, (0, 1_000), Mover::Reset)
            .legal();
        bench
    }

    #[test]
    fn what_handlers_had_before_is_not_committed() {
        bench().commit(300).legal();
        bench().commit(906).breaks("come to 300");
        bench().pull(300, Some(906)).breaks("come to 300");
    }

    #[test]
    fn nor_is_it_by_a_member_that_leaves() {
        let mut leaves = reset();
        leaves.ours().assign(1, 900).pull(900, None).leave(5_000);
        leaves
            .moved(300, (0, 1_000), Mover::Reset)
            .commit(901)
            .breaks("come to 300");
    }

    #[test]
    fn what_is_fetched_anew_may_be() {
        let mut anew = bench();
        anew.assign(2, 300)
            .pull(300, None)
            .found(300..310)
            .commit(310)
            .legal();
        anew.commit(311).breaks("come to 310");
        let mut late = reset();
        late.ours().assign(1, 900).pull(900, None).pull(900, None);
        late.moved(300, (0, 1_000), Mover::Reset).answer_pull(0, 900..932);
        late.commit(932).breaks("come to 300");
    }

    #[test]
    fn a_move_that_no_operator_wanted_is_none() {
        let mut bench = reset();
        bench
            .ours()
            .assign(1, 900)
            .pull(900, None)
            .moved(300, (0, 1_000), Mover::Master);
        bench.commit(900).legal();
        let mut gone = self::bench();
        gone.revoke(1).assign(2, 300).commit(300).legal();
        gone.revoke(2).assign(3, 1_000).commit(1_000).legal();
        let mut stale = reset();
        stale
            .ours()
            .assign(1, 900)
            .pull(900, None)
            .revoke(1)
            .assign(2, 900);
        stale.moved(300, (0, 1_000), Mover::Reset).commit(901).legal();
        let mut late = reset();
        late.at(0).ours().assign(1, 900).pull(900, None).at(23_000);
        late.moved(300, (0, 1_000), Mover::Reset).commit(901).legal();
        let mut lost = self::bench();
        lost.revoke(1).assign(2, 1_000).commit(1_000).legal();
        let mut old = self::bench();
        old.revoke(1).assign(2, 300).commit(906).breaks("come to 300");
    }
}
