//! When a world has come to rest each queue belongs to exactly one member of each group.
//!
//! Source: P20, P26 and P60. This is liveness and not safety: members compute their shares alone, from lists that
//! they were given at different times, so two of them may own a queue for a while, or none.
//!
//! Legal all the same, even at rest: two owners when two processes use one client id, since neither can know
//! which of two places is its own; anything when members of a group subscribe differently, since the broker keeps
//! the newest subscription only. In a group that broadcasts all members own everything.

use rocketmq_consumer_core::config::MessageModel;
use rocketmq_consumer_core::time::Instant;
use std::collections::BTreeSet;

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{GroupNo, Life, QueueNo, Seen, Sights};

/// See the module.
#[derive(Debug)]
pub(super) struct SingleOwner;

impl SingleOwner {
    fn owners(of: GroupNo, queue: QueueNo, view: &dyn View) -> Vec<Life> {
        let alive = view.alive().iter().copied();
        let members = alive.filter(|life| group(*life, view) == Some(of));
        members
            .filter(|life| view.tenures().newest(*life, queue).is_some())
            .collect()
    }
}

/// The group of a member that does not leave.
fn group(life: Life, view: &dyn View) -> Option<GroupNo> {
    let alive = view.tenures().alive(life);
    alive
        .filter(|alive| alive.leaving.is_none())
        .map(|alive| alive.group)
}

impl Invariant for SingleOwner {
    fn name(&self) -> &'static str {
        "single_owner"
    }

    fn looks_at(&self) -> Sights {
        Sights::NONE
    }

    fn see(&mut self, _: &Seen<'_>, _: &dyn View) -> Result<(), Broken> {
        Ok(())
    }

    fn at_rest(&mut self, _: Instant, view: &dyn View) -> Result<(), Broken> {
        let allowances = view.allowances();
        if allowances.different_subscriptions {
            return Ok(());
        }
        let alive = view.alive().iter();
        let sharing = alive.filter(|life| *view.config(**life).model() == MessageModel::Clustering);
        let groups: BTreeSet<GroupNo> = sharing.filter_map(|life| group(*life, view)).collect();
        for group in groups {
            for queue in view.queues_of(group) {
                let owners = Self::owners(group, queue, view);
                let is_right = owners.len() == 1 || (owners.len() > 1 && allowances.equal_client_ids);
                if !is_right {
                    let (queue, group) = (view.queue(queue), view.group(group));
                    return Err(Broken(format!("{queue} belongs to {owners:?} of {group}")));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use super::*;

    fn bench() -> Bench<SingleOwner> {
        let mut bench = Bench::new(SingleOwner);
        bench.world.alive = vec![Life(0), Life(1)];
        bench.ours().as_life(1).java();
        bench
    }

    #[test]
    fn at_rest_a_queue_has_one_owner() {
        bench().rest().breaks("belongs to []");
        bench().assign(1, 100).rest().legal();
        bench()
            .assign(1, 100)
            .as_life(0)
            .assign(1, 100)
            .rest()
            .breaks("belongs to [Life(0), Life(1)]");
        bench()
            .assign(1, 100)
            .as_life(0)
            .assign(1, 100)
            .revoke(1)
            .rest()
            .legal();
    }

    #[test]
    fn equal_ids_may_own_twice_but_not_nothing() {
        let equal = || {
            let mut bench = bench();
            bench.world.allowances.equal_client_ids = true;
            bench
        };
        equal().assign(1, 100).as_life(0).assign(1, 100).rest().legal();
        equal().rest().breaks("belongs to []");
        let mut different = bench();
        different.world.allowances.different_subscriptions = true;
        different.rest().legal();
    }
}
