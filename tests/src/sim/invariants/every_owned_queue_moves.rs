//! An owned queue has a pull at the broker, a timer, or a named reason.
//!
//! Source: P1 and P6; design "The machine": liveness is an invariant. A queue whose pull was lost between two
//! stools stands still for ever, and nobody notices. So what a member says of itself is compared with what was
//! seen: a queue that it calls pulled has a pull that was written and not answered, not older than its deadline;
//! one that it calls held has a reason; and a member that runs always wants to be woken at some time, or has asked its
//! store.
//!
//! A slave is enough to move: a queue is not held for the link to its broker while another replica of the broker
//! knows the member. Its heartbeats may be lost for [`SPOILT`], so that is how long it may take here; the tests of
//! the failover demand a few seconds.
//!
//! A snapshot of a whole machine costs more than a step, so it is taken at every 64th wake-up of a member and
//! when the world is at rest. A queue that stands still does so at the next look as well.
//!
//! Legal all the same: a queue that is given back, or that belongs to a member that leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::status::{
    GroupPhase, GroupStatus, HoldReason, LinkStatus, QueueState, QueueStatus, Status,
};
use rocketmq_consumer_core::time::Instant;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Ask, Deed, Life, QueueNo, Seen, Sight, Sights, What};

/// A member is looked at every so many wake-ups.
const EVERY: u32 = 64;
/// A deadline is handled at the next wake-up, which may be a little late.
const TOLERANCE: Duration = Duration::from_secs(1);

/// The longest that a rule of a drawn world spoils heartbeats, and what it takes to get over it.
const SPOILT: Duration = Duration::from_secs(50);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EveryOwnedQueueMoves {
    pulls: Requests<(QueueNo, Instant)>,
    wake_ups: BTreeMap<Life, u32>,
    /// Questions that stores have not answered.
    stores: BTreeMap<Life, u32>,
}

impl EveryOwnedQueueMoves {
    fn look(&self, life: Life, view: &dyn View) -> Result<(), Broken> {
        let Some(status) = view.status(life) else {
            return Ok(());
        };
        let running = |group: &&GroupStatus| group.phase == GroupPhase::Running;
        let queues = status
            .groups
            .iter()
            .filter(running)
            .flat_map(|group| &group.queues);
        for queue in queues {
            if has_other_reader(&status, queue, view) {
                return Err(Broken(format!(
                    "{life:?}: {} waits for a link although another replica knows the member: {queue:?}",
                    queue.queue
                )));
            }
            let moves = match queue.state {
                QueueState::Pulling => self.has_pull(life, queue, view),
                QueueState::Held | QueueState::Acquiring => queue.hold.is_some(),
                QueueState::Revoking => true,
                _ => false,
            };
            if !moves {
                return Err(Broken(format!(
                    "{life:?}: {} stands still: {queue:?}",
                    queue.queue
                )));
            }
        }
        Ok(())
    }

    fn has_pull(&self, life: Life, queue: &QueueStatus, view: &dyn View) -> bool {
        let deadline = *view.config(life).pull_deadline() + TOLERANCE;
        let woken_at = view.tenures().alive(life).map(|alive| alive.woken_at);
        let is_out = |at: Instant| woken_at.is_none_or(|woken| woken < at + deadline);
        let mut pulls = self.pulls.of_life(life);
        pulls.any(|(of, at)| view.queue(*of) == &queue.queue && is_out(*at))
    }
}

/// Whether a queue waits for the link to its broker, and has for long, although one of the broker's replicas knows
/// us.
fn has_other_reader(status: &Status, queue: &QueueStatus, view: &dyn View) -> bool {
    let waits = matches!(
        queue.hold,
        Some(HoldReason::LinkDown | HoldReason::NoBrokerAddress)
    );
    let knows_us = |link: &LinkStatus| {
        link.heartbeat_acknowledged && view.broker_at(&link.addr) == Some(&queue.queue.broker)
    };
    waits && status.at >= queue.since + SPOILT && status.links.iter().any(knows_us)
}

impl Invariant for EveryOwnedQueueMoves {
    fn name(&self) -> &'static str {
        "every_owned_queue_moves"
    }

    fn looks_at(&self) -> Sights {
        let others = [
            Sight::AskedPull,
            Sight::AnsweredPull,
            Sight::Store,
            Sight::StepEnd,
        ];
        requests::ENDS.and(Sights::of(&others))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        self.pulls.see(life, &deed, |_| {});
        match deed {
            Deed::Asked {
                conn,
                opaque,
                ask: Ask::Pull { queue, .. },
                ..
            } => {
                self.pulls.asked(life, conn, opaque, (queue, seen.at));
            }
            Deed::Answered { conn, opaque, .. } => {
                self.pulls.answered(life, conn, opaque);
            }
            Deed::StepEnd { wake_at, .. } => {
                let Some(alive) = view.tenures().alive(life).filter(|alive| alive.is_ours()) else {
                    return Ok(());
                };
                if alive.leaving.is_some() {
                    return Ok(());
                }
                let waits_for_store = self.stores.get(&life).is_some_and(|asked| *asked > 0);
                if wake_at.is_none() && !waits_for_store {
                    return Err(Broken(format!("{life:?} waits for nothing")));
                }
                if alive.is_wakeup && alive.late_now < TOLERANCE {
                    let wake_ups = self.wake_ups.entry(life).or_default();
                    *wake_ups += 1;
                    if wake_ups.is_multiple_of(EVERY) {
                        return self.look(life, view);
                    }
                }
            }
            Deed::StoreAsked => *self.stores.entry(life).or_default() += 1,
            Deed::StoreAnswered => {
                let asked = self.stores.entry(life).or_default();
                *asked = asked.saturating_sub(1);
            }
            Deed::Killed | Deed::Closed => {
                self.stores.remove(&life);
                self.wake_ups.remove(&life);
            }
            _ => {}
        }
        Ok(())
    }

    fn at_rest(&mut self, _: Instant, view: &dyn View) -> Result<(), Broken> {
        view.alive().iter().try_for_each(|life| self.look(*life, view))
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, status};
    use super::*;

    /// A member that says this of its queue.
    fn bench(state: QueueState, hold: Option<HoldReason>) -> Bench<EveryOwnedQueueMoves> {
        let mut bench = Bench::new(EveryOwnedQueueMoves::default());
        let mut status = status(&bench.world);
        (status.groups[0].queues[0].state, status.groups[0].queues[0].hold) = (state, hold);
        bench.world.status = Some(status);
        bench.ours().assign(1, 100);
        bench
    }

    #[test]
    fn a_queue_that_is_called_pulled_has_a_pull_at_the_broker() {
        bench(QueueState::Pulling, None).pull(100, None).rest().legal();
        bench(QueueState::Pulling, None).rest().breaks("stands still");
        bench(QueueState::Pulling, None)
            .pull(100, None)
            .found(100..101)
            .rest()
            .breaks("stands still");
        bench(QueueState::Pulling, None)
            .pull(100, None)
            .disconnected()
            .rest()
            .breaks("stands still");
        bench(QueueState::Pulling, None)
            .pull(100, None)
            .at(24_001)
            .woken()
            .rest()
            .breaks("stands still");
    }

    #[test]
    fn a_queue_that_is_held_has_a_reason() {
        bench(QueueState::Held, None).rest().breaks("stands still");
        bench(QueueState::Held, Some(HoldReason::CountFull))
            .rest()
            .legal();
        bench(QueueState::Revoking, None).rest().legal();
    }

    #[test]
    fn a_queue_does_not_wait_for_a_link_while_another_replica_knows_the_member() {
        for (reason, secs, known, breaks) in [
            (HoldReason::LinkDown, 50, true, true),
            (HoldReason::NoBrokerAddress, 50, true, true),
            (HoldReason::LinkDown, 49, true, false),
            (HoldReason::LinkDown, 50, false, false),
            (HoldReason::CountFull, 50, true, false),
        ] {
            let mut bench = bench(QueueState::Held, Some(reason));
            let status = bench.world.status.as_mut().expect("it was given");
            status.at = Instant::from_millis(secs * 1000);
            status.links[0].heartbeat_acknowledged = known;
            if breaks {
                bench.rest().breaks("another replica");
            } else {
                bench.rest().legal();
            }
        }
    }

    #[test]
    fn it_is_looked_at_every_64th_wake_up() {
        let mut bench = bench(QueueState::Held, None);
        for n in 1..64 {
            bench.at(n).woken().step_end(Some(n + 1)).legal();
        }
        bench.at(64).woken().step_end(Some(65)).breaks("stands still");
    }

    #[test]
    fn a_member_that_runs_wants_to_be_woken() {
        bench(QueueState::Pulling, None)
            .step_end(None)
            .breaks("waits for nothing");
        bench(QueueState::Pulling, None).leave(0).step_end(None).legal();
    }
}
