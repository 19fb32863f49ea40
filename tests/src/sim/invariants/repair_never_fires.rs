//! Java's repair is not needed: no owned queue goes 120 s without an attempt to pull it, unless it is held for a
//! named reason.
//!
//! Source: behaviour of the Java client, "Updating the table": a queue without an attempt for 120 s is dropped and
//! taken again. Here nothing repairs a queue that was forgotten, because none can be; a queue for which the
//! repair would fire is a bug.
//!
//! Legal all the same: a queue that is full, or whose broker is away, for as long as that lasts; and any pause of
//! a process that was stopped itself. Java-like members have the repair.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::ids::MessageQueue;
use rocketmq_consumer_core::status::QueueState;
use rocketmq_consumer_core::time::Instant;

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Ask, Deed, Life, Seen, Sight, Sights, What};
use crate::sim::tenures::{Accounts, Tenure};

/// `pullMaxIdleTime`.
const IDLE: Duration = Duration::from_secs(120);
/// How often a member is looked at, and how late it may be in what it does.
const EVERY: Duration = Duration::from_secs(10);
const TOLERANCE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RepairNeverFires {
    /// When each was last pulled.
    pulled: Accounts<Option<Instant>>,
    looked: BTreeMap<Life, Instant>,
}

impl RepairNeverFires {
    fn last(&self, tenure: &Tenure) -> Instant {
        self.pulled.of(tenure).unwrap_or(tenure.since)
    }

    fn look(&self, at: Instant, life: Life, view: &dyn View) -> Result<(), Broken> {
        let lasting = view.tenures().of_life(life).iter();
        let lasting = lasting.filter(|tenure| tenure.revoked_at.is_none());
        for tenure in lasting.filter(|tenure| at.saturating_since(self.last(tenure)) > IDLE) {
            let name = view.queue(tenure.queue);
            if !is_held(life, name, view) {
                return Err(Broken(format!(
                    "{life:?} owns {name} and has not pulled it since {:?}",
                    self.last(tenure)
                )));
            }
        }
        Ok(())
    }
}

fn is_held(life: Life, name: &MessageQueue, view: &dyn View) -> bool {
    let Some(status) = view.status(life) else {
        return true;
    };
    let mut queues = status.groups.iter().flat_map(|group| &group.queues);
    queues.any(|queue| &queue.queue == name && queue.state == QueueState::Held && queue.hold.is_some())
}

impl Invariant for RepairNeverFires {
    fn name(&self) -> &'static str {
        "repair_never_fires"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[Sight::AskedPull, Sight::StepEnd, Sight::Over])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        match deed {
            Deed::Asked {
                ask: Ask::Pull { queue, .. },
                ..
            } => {
                if let Some(tenure) = view.tenures().newest(life, queue) {
                    *self.pulled.of_mut(tenure) = Some(seen.at);
                }
            }
            Deed::StepEnd { .. } => {
                let Some(alive) = view.tenures().alive(life).filter(|alive| alive.is_ours()) else {
                    return Ok(());
                };
                let looked = self.looked.entry(life).or_insert(seen.at);
                let is_time = seen.at >= *looked + EVERY && alive.is_wakeup;
                if is_time && alive.leaving.is_none() && alive.late_now < TOLERANCE {
                    *looked = seen.at;
                    return self.look(seen.at, life, view);
                }
            }
            Deed::Killed | Deed::Closed => {
                self.looked.remove(&life);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::status::HoldReason;

    use super::super::bench::{Bench, status};
    use super::*;

    fn bench(state: QueueState, hold: Option<HoldReason>) -> Bench<RepairNeverFires> {
        let mut bench = Bench::new(RepairNeverFires::default());
        let mut status = status(&bench.world);
        (status.groups[0].queues[0].state, status.groups[0].queues[0].hold) = (state, hold);
        bench.world.status = Some(status);
        bench.ours().assign(1, 100).step_end(Some(1_000));
        bench.at(1_000).woken().pull(100, None).step_end(Some(121_001));
        bench
    }

    #[test]
    fn a_queue_that_is_not_pulled_for_two_minutes_has_a_reason() {
        bench(QueueState::Pulling, None)
            .at(121_001)
            .woken()
            .step_end(Some(200_000))
            .breaks("not pulled");
        bench(QueueState::Held, Some(HoldReason::CountFull))
            .at(121_001)
            .woken()
            .step_end(Some(200_000))
            .legal();
        let mut pulled = bench(QueueState::Pulling, None);
        pulled
            .at(100_000)
            .pull(100, None)
            .at(121_001)
            .woken()
            .step_end(Some(200_000))
            .legal();
    }

    #[test]
    fn a_process_that_was_stopped_is_given_time() {
        bench(QueueState::Pulling, None)
            .at(130_000)
            .woken()
            .step_end(Some(200_000))
            .legal();
    }
}
