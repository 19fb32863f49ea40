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

use super::tenures::Tenures;
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{GroupNo, Life, QueueNo, Seen, What};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SingleOwner {
    tenures: Tenures<()>,
}

impl SingleOwner {
    fn owners(&mut self, group: GroupNo, queue: QueueNo, view: &dyn View) -> Vec<Life> {
        let alive = view.alive().iter().copied();
        let members: Vec<Life> = alive.filter(|life| self.group(*life) == Some(group)).collect();
        members
            .into_iter()
            .filter(|life| self.tenures.newest(*life, queue).is_some())
            .collect()
    }

    fn group(&self, life: Life) -> Option<GroupNo> {
        let alive = self.tenures.alive(life).filter(|alive| alive.leaving.is_none())?;
        Some(alive.group)
    }
}

impl Invariant for SingleOwner {
    fn name(&self) -> &'static str {
        "single_owner"
    }

    fn see(&mut self, seen: &Seen<'_>, _: &dyn View) -> Result<(), Broken> {
        if let What::Member { life, deed } = seen.what {
            self.tenures.see(seen.at, life, &deed);
        }
        Ok(())
    }

    fn at_rest(&mut self, _: Instant, view: &dyn View) -> Result<(), Broken> {
        let allowances = view.allowances();
        if allowances.different_subscriptions {
            return Ok(());
        }
        let alive = view.alive().iter();
        let sharing = alive.filter(|life| *view.config(**life).model() == MessageModel::Clustering);
        let groups: BTreeSet<GroupNo> = sharing.filter_map(|life| self.group(*life)).collect();
        for group in groups {
            for queue in view.queues_of(group) {
                let owners = self.owners(group, queue, view);
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
        let mut bench = Bench::new(SingleOwner::default());
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
