//! What a member holds is bounded, and nothing is left of what is over.
//!
//! Source: style, rule 8; P4. Messages with handlers stay within the permits; a step does not want more than a
//! bounded number of things done; and when a world has come to rest, no message, no byte of an answer and no permit
//! without a handler is held any more, and few more requests wait than there are queues.
//!
//! Legal all the same: what a Java-like member holds, whose pool has an unbounded queue; and the permit of a handler
//! that still has a message which another member has finished long ago, with that message and what is behind it.

use std::collections::BTreeMap;

use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::status::{GroupStatus, Status};
use rocketmq_consumer_core::time::Instant;

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Deed, Life, Seen, Sight, Sights, What};

/// Things one step may want done: the revocation of everything, or the answer to a frame full of messages.
const ACTIONS: u32 = 4_096;
/// Requests that may wait beside one pull for each queue: routes, members, heartbeats.
const REQUESTS: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct BoundedMemory {
    /// Where the application has changed how many handlers may run.
    permits: BTreeMap<Life, u32>,
}

impl BoundedMemory {
    fn at_rest_of(life: Life, status: &Status, view: &dyn View) -> Result<(), Broken> {
        let open = view.tenures().open(life);
        let holds = |group: &GroupStatus| {
            let permits = group.permits.1.saturating_sub(open);
            if open > 0 {
                return (0, 0, permits);
            }
            let unfinished: u32 = group.queues.iter().map(|queue| queue.unfinished).sum();
            (unfinished, group.buffer_bytes, permits)
        };
        for group in &status.groups {
            if holds(group) != (0, 0, 0) {
                return Err(Broken(format!(
                    "{life:?} is at rest and holds (messages, bytes, permits) {:?} in {}",
                    holds(group),
                    group.group
                )));
            }
        }
        let queues: usize = status.groups.iter().map(|group| group.queues.len()).sum();
        let requests: usize = status.links.iter().map(|link| link.requests).sum();
        if requests > queues + REQUESTS {
            return Err(Broken(format!(
                "{life:?} is at rest with {requests} requests for {queues} queues"
            )));
        }
        Ok(())
    }
}

impl Invariant for BoundedMemory {
    fn name(&self) -> &'static str {
        "bounded_memory"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[Sight::Delivered, Sight::Wished, Sight::StepEnd, Sight::Over])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        match deed {
            Deed::Delivered { .. } if view.tenures().is_ours(life) => {
                let config = view.config(life);
                let permits = self.permits.get(&life).unwrap_or(config.concurrency());
                let most = permits.saturating_mul(*config.handler_batch());
                let open = view.tenures().open(life);
                if open > most {
                    return Err(Broken(format!(
                        "{life:?} has {open} messages with handlers, {most} permitted"
                    )));
                }
            }
            Deed::Wished(AppEvent::Concurrency { permits, .. }) => {
                self.permits.insert(life, *permits);
            }
            Deed::Killed | Deed::Closed => _ = self.permits.remove(&life),
            Deed::StepEnd { actions, .. } if actions > ACTIONS => {
                return Err(Broken(format!(
                    "{life:?} wants {actions} things done in one step"
                )));
            }
            _ => {}
        }
        Ok(())
    }

    fn at_rest(&mut self, _: Instant, view: &dyn View) -> Result<(), Broken> {
        // Members of one id share queues: one may have finished for good what a handler of the other still holds.
        if view.allowances().equal_client_ids {
            return Ok(());
        }
        for life in view.alive() {
            if let Some(status) = view.status(*life) {
                Self::at_rest_of(*life, &status, view)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, status};
    use super::*;

    #[test]
    fn permits_can_be_changed() {
        for (permits, legal) in [(4, true), (2, false)] {
            let mut bench = Bench::new(BoundedMemory::default());
            bench.world.config.set_concurrency(3);
            let group = "G".into();
            bench.ours().assign(1, 100);
            bench.deed(Deed::Wished(&AppEvent::Concurrency { group, permits }));
            bench.deliver(1, 100..102).deliver(2, 102..104);
            if legal {
                bench.legal();
            } else {
                bench.breaks("2 permitted");
            }
        }
    }

    #[test]
    fn messages_with_handlers_stay_within_the_permits() {
        let mut bench = Bench::new(BoundedMemory::default());
        bench.world.config.set_concurrency(2).set_handler_batch(2);
        bench
            .ours()
            .assign(1, 100)
            .deliver(1, 100..103)
            .deliver(2, 103..104)
            .legal();
        bench.done(1, 100).deliver(3, 104..105).legal();
        bench.deliver(4, 105..106).breaks("5 messages");
    }

    #[test]
    fn a_step_wants_a_bounded_number_of_things() {
        let mut bench = Bench::new(BoundedMemory::default());
        bench.ours().step_end_after(4_096, None).legal();
        bench.step_end_after(4_097, None).breaks("4097 things");
    }

    #[test]
    fn a_handler_that_has_not_ended_keeps_its_permit_and_its_message() {
        let mut bench = Bench::new(BoundedMemory::default());
        let mut status = status(&bench.world);
        status.groups[0].permits.1 = 1;
        status.groups[0].queues[0].unfinished = 1;
        status.groups[0].buffer_bytes = 299;
        bench.world.status = Some(status);
        bench
            .ours()
            .assign(1, 100)
            .deliver(1, 100..101)
            .revoke(1)
            .rest()
            .legal();
        bench.done(1, 100).rest().breaks("at rest");
    }

    #[test]
    fn at_rest_nothing_is_held() {
        type Change = fn(&mut Status);
        let changes: [(Change, bool); 5] = [
            (|_| {}, true),
            (|status| status.groups[0].queues[0].unfinished = 1, false),
            (|status| status.groups[0].buffer_bytes = 1, false),
            (|status| status.groups[0].permits.1 = 1, false),
            (|status| status.links[0].requests = 34, false),
        ];
        for (change, legal) in changes {
            let mut bench = Bench::new(BoundedMemory::default());
            let mut status = status(&bench.world);
            change(&mut status);
            bench.world.status = Some(status);
            bench.ours().rest();
            if legal {
                bench.legal();
            } else {
                bench.breaks("at rest");
            }
        }
    }
}
