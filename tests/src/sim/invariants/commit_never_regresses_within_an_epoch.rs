//! Within one ownership the offset that is sent to be stored never falls.
//!
//! Source: P16 of the behaviour of the Java client (concurrent consumption); style "Invariants". Brokers
//! overwrite blindly, so a lower value, by a commit or by a pull that carries one, would undo progress.
//!
//! Legal all the same: a lower value in a *new* ownership. The broker forgot or was told to go back, another
//! member was less far, or the broker moved the offset (code 21), which ends an ownership and begins another;
//! a Java-like member still commits the moved offset under the old one.

use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::wire::request::pull::PullStatus;

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Answer, Ask, Deed, Life, QueueNo, Seen, Sight, Sights, What};
use crate::sim::tenures::Accounts;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CommitNeverRegresses {
    /// The highest offset sent in each.
    highest: Accounts<Option<QueueOffset>>,
    /// Whose offset was moved in the step that runs.
    moved: Option<Life>,
}

impl CommitNeverRegresses {
    fn commit(
        &mut self,
        life: Life,
        queue: QueueNo,
        offset: QueueOffset,
        view: &dyn View,
    ) -> Result<(), Broken> {
        if self.moved == Some(life) && !view.tenures().is_ours(life) {
            return Ok(());
        }
        let tenures = view.tenures().of(life, queue);
        let mut senders = tenures
            .iter()
            .filter(|tenure| *self.highest.of(tenure) <= Some(offset));
        match (senders.next(), senders.next()) {
            (Some(sender), None) => {
                *self.highest.of_mut(sender) = Some(offset);
                return Ok(());
            }
            // One is being given back while its queue is owned again: which of them has sent it is not to be seen.
            (Some(_), Some(_)) => return Ok(()),
            (None, _) => {}
        }
        match tenures.last() {
            Some(last) => Err(Broken(format!(
                "{life:?} commits {} at {offset} after {:?}, both in {:?}",
                view.queue(queue),
                self.highest.of(last),
                last.epoch
            ))),
            None => Ok(()),
        }
    }
}

impl Invariant for CommitNeverRegresses {
    fn name(&self) -> &'static str {
        "commit_never_regresses_within_an_epoch"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[
            Sight::AskedPull,
            Sight::AskedCommit,
            Sight::AnsweredPull,
            Sight::StepEnd,
        ])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        match deed {
            Deed::Answered {
                answer:
                    Answer::Pulled {
                        status: PullStatus::OffsetMoved,
                        ..
                    },
                ..
            } => self.moved = Some(life),
            Deed::StepEnd { .. } => self.moved = None,
            Deed::Asked {
                ask: Ask::Commit { queue, offset, .. },
                ..
            }
            | Deed::Asked {
                ask:
                    Ask::Pull {
                        queue,
                        commit: Some(offset),
                        ..
                    },
                ..
            } => return self.commit(life, queue, offset, view),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use super::*;

    #[test]
    fn a_lower_commit_is_seen_whether_it_is_carried_or_not() {
        for carried in [true, false] {
            let mut bench = Bench::new(CommitNeverRegresses::default());
            bench.ours().assign(1, 100);
            bench.commit(105).legal();
            bench.pull(110, Some(106)).legal();
            bench.commit(106).legal();
            if carried {
                bench.pull(110, Some(105)).breaks("after");
            } else {
                bench.commit(105).breaks("after");
            }
        }
    }

    #[test]
    fn a_new_ownership_may_begin_lower() {
        let mut bench = Bench::new(CommitNeverRegresses::default());
        bench.ours().assign(1, 100);
        bench.commit(105).legal();
        bench.revoke(1).assign(2, 50);
        bench.commit(51).legal();
        bench.commit(50).breaks("after");
    }

    #[test]
    fn an_old_ownership_that_waits_for_its_last_commit_is_measured_by_its_own() {
        let mut bench = Bench::new(CommitNeverRegresses::default());
        bench.ours().assign(1, 100);
        bench.commit(105).legal();
        bench.assign(2, 50);
        bench.commit(60).legal();
        bench.commit(106).legal();
        bench.commit(40).breaks("after");
    }
}
