//! A slave is read and nothing else: it is told no offset, neither alone nor with a pull.
//!
//! Source: P10 and P49; behaviour of slaves in protocol 4.1. A slave takes a commit, says that it is stored, and
//! forgets it with the next table that its master sends; who believes it goes on from an offset that nobody has.
//! So offsets wait for the master.
//!
//! Legal all the same: whatever a Java-like member does, which commits to any replica when the master is away.

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Ask, Deed, Seen, Sight, Sights, What};

/// See the module.
#[derive(Debug)]
pub(super) struct NoCommitReachesASlave;

impl Invariant for NoCommitReachesASlave {
    fn name(&self) -> &'static str {
        "no_commit_reaches_a_slave"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[Sight::AskedPull, Sight::AskedCommit])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        match deed {
            Deed::Asked {
                node,
                ask:
                    Ask::Commit { queue, offset, .. }
                    | Ask::Pull {
                        queue,
                        commit: Some(offset),
                        ..
                    },
                ..
            } if view.tenures().is_ours(life) && view.replica(node).is_some_and(|id| id != 0) => {
                let queue = view.queue(queue);
                return Err(Broken(format!(
                    "{life:?} tells a slave of {queue} that it is at {offset}"
                )));
            }
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
    fn a_slave_is_told_nothing() {
        for (replica, breaks) in [(0, false), (1, true), (2, true)] {
            let bench = || {
                let mut bench = Bench::new(NoCommitReachesASlave);
                bench.world.replica = replica;
                bench.ours().assign(1, 100);
                bench
            };
            let (mut with_pull, mut alone, mut nothing) = (bench(), bench(), bench());
            nothing.pull(100, None).legal();
            if breaks {
                with_pull.pull(100, Some(100)).breaks("tells a slave");
                alone.commit(100).breaks("tells a slave");
            } else {
                with_pull.pull(100, Some(100)).legal();
                alone.commit(100).legal();
            }
        }
    }

    #[test]
    fn java_members_do_as_they_do() {
        let mut bench = Bench::new(NoCommitReachesASlave);
        bench.world.replica = 1;
        bench.java().assign(1, 100);
        bench.commit(100).legal();
    }
}
