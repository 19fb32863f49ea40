//! Nothing is handed to the application for an ownership that is being given back or has ended, and nothing
//! once the member was asked to leave.
//!
//! Source: P2 (the goal, which Java misses) and P54; design "Living beside Java members", 1 and 5.
//!
//! Legal all the same: a message that somebody else delivered, or delivers at the same time. Members compute
//! their shares alone, so two of them may own one queue for a moment and both deliver.

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Deed, Seen, Sight, Sights, What};

/// See the module.
#[derive(Debug)]
pub(super) struct NoDeliveryAfterEpochEnded;

impl Invariant for NoDeliveryAfterEpochEnded {
    fn name(&self) -> &'static str {
        "no_delivery_after_epoch_ended"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[Sight::Delivered])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        if let Deed::Delivered { queue, run, .. } = deed {
            let name = view.queue(queue);
            let alive = view.tenures().alive(life);
            if alive.is_some_and(|alive| alive.leaving.is_some()) {
                return Err(Broken(format!("{life:?} leaves and delivers {run:?} of {name}")));
            }
            if view.tenures().newest(life, queue).is_none() {
                return Err(Broken(format!(
                    "{life:?} delivers {run:?} of {name}, which it does not own"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::event::{AppEvent, FlowScope};

    use super::super::bench::Bench;
    use super::*;

    #[test]
    fn only_an_ownership_that_lasts_delivers() {
        let bench = || {
            let mut bench = Bench::new(NoDeliveryAfterEpochEnded);
            bench.ours().assign(1, 100).deliver(1, 100..101).legal();
            bench
        };
        let mut given_back = bench();
        given_back.withdraw(1).deliver(2, 101..102).breaks("does not own");
        let mut paused = bench();
        let (group, scope) = ("G".into(), FlowScope::Group);
        paused
            .step_end(None)
            .deed(Deed::Wished(&AppEvent::Pause { group, scope }));
        paused.withdraw(1).step_end(None).deliver(2, 101..102).legal();
        let mut gone = bench();
        gone.revoke(1).deliver(2, 101..102).breaks("does not own");
        let mut again = bench();
        again.revoke(1).assign(2, 101).deliver(2, 101..102).legal();
        let mut leaves = bench();
        leaves.leave(10_000).deliver(2, 101..102).breaks("leaves");
    }
}
