//! A member that is asked to leave waits for its handlers, but not for long.
//!
//! Source: P54; cases OF-10 and SD-01; design "Living beside Java members", 5. Nobody is told that it leaves, and
//! nothing is closed, before its handlers have ended or the time for draining is over; and after that the last
//! commits (5 s) and the farewell (3 s) come to an end whatever the brokers do.
//!
//! Legal all the same: handlers that were begun for a queue which was given back meanwhile do not count; a process
//! that is stopped is as late as that. A Java-like member interrupts its handlers, as Java does with its defaults.

use std::time::Duration;

use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::time::Instant;
use std::collections::BTreeSet;

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Ask, Deed, Life, Seen, Sight, Sights, What};
use crate::sim::tenures::{Accounts, Alive};

/// Last commits and farewell, and a little.
const FAREWELL: Duration = Duration::from_secs(5 + 3 + 1);
/// Phases of the way out, each with a timer that may be late.
const PHASES: u32 = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ShutdownEndsInTime {
    /// What handlers have of each ownership.
    open: Accounts<BTreeSet<QueueOffset>>,
    leaving: BTreeSet<Life>,
}

impl ShutdownEndsInTime {
    /// It says goodbye: have its handlers had their time?
    fn goodbye(&self, at: Instant, life: Life, view: &dyn View) -> Result<(), Broken> {
        let leaving = view.tenures().alive(life).and_then(|alive| alive.leaving);
        let Some((_, until)) = leaving.filter(|(_, until)| at < *until) else {
            return Ok(());
        };
        let tenures = view.tenures().of_life(life).iter();
        let mut lasting = tenures.filter(|tenure| tenure.revoked_at.is_none());
        match lasting.find(|tenure| !self.open.of(tenure).is_empty()) {
            Some(tenure) => Err(Broken(format!(
                "{life:?} says goodbye at {at:?} although handlers have {:?} of {} and may take until {until:?}",
                self.open.of(tenure),
                view.queue(tenure.queue)
            ))),
            None => Ok(()),
        }
    }

    fn overdue(at: Instant, life: Life, alive: &Alive) -> Result<(), Broken> {
        let Some((asked, until)) = alive.leaving else {
            return Ok(());
        };
        if at > until + FAREWELL + alive.late * PHASES {
            return Err(Broken(format!(
                "{life:?} was asked to leave at {asked:?} and has not left at {at:?}"
            )));
        }
        Ok(())
    }
}

impl Invariant for ShutdownEndsInTime {
    fn name(&self) -> &'static str {
        "shutdown_ends_in_time"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[
            Sight::AskedToLeave,
            Sight::AskedElse,
            Sight::Left,
            Sight::Delivered,
            Sight::Settled,
            Sight::StepEnd,
            Sight::Over,
        ])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        let is_ours = view.tenures().is_ours(life);
        match deed {
            Deed::AskedToLeave { .. } => {
                self.leaving.insert(life);
            }
            Deed::Killed | Deed::Closed => {
                self.leaving.remove(&life);
            }
            Deed::Delivered {
                queue, batch, range, ..
            } if is_ours => {
                if let Some(tenure) = view.tenures().newest(life, queue) {
                    let entries = &batch.entries()[range.start as usize..range.end as usize];
                    let offsets = entries.iter().map(|entry| entry.queue_offset());
                    self.open.of_mut(tenure).extend(offsets);
                }
            }
            Deed::Settled { run, offset, .. } => {
                if let Some(tenure) = view.tenures().of_run(life, run) {
                    self.open.of_mut(tenure).remove(&offset);
                }
            }
            Deed::Asked {
                ask: Ask::Unregister { .. },
                ..
            }
            | Deed::Left(_)
                if is_ours =>
            {
                return self.goodbye(seen.at, life, view);
            }
            Deed::StepEnd { .. } => {
                let alive = view.tenures().alive(life).filter(|alive| alive.is_wakeup);
                return alive.map_or(Ok(()), |alive| Self::overdue(seen.at, life, alive));
            }
            _ => {}
        }
        Ok(())
    }

    fn at_end(&mut self, now: Instant, _: &dyn View) -> Result<(), Broken> {
        match self.leaving.first() {
            Some(life) => Err(Broken(format!(
                "{life:?} was asked to leave and never has, at {now:?}"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use super::*;

    fn bench() -> Bench<ShutdownEndsInTime> {
        let mut bench = Bench::new(ShutdownEndsInTime::default());
        bench
            .ours()
            .assign(1, 100)
            .deliver(1, 100..102)
            .step_end(Some(1_000));
        bench.at(1_000).leave(10_000);
        bench
    }

    #[test]
    fn nobody_says_goodbye_while_handlers_have_time_left() {
        bench().unregister().breaks("goodbye");
        bench().left().breaks("goodbye");
        bench().done(1, 100).done(1, 101).unregister().legal();
        bench().at(11_000).unregister().legal();
        bench().revoke(1).unregister().legal();
    }

    #[test]
    fn the_way_out_ends() {
        bench()
            .step_end(Some(20_001))
            .at(20_001)
            .woken()
            .step_end(None)
            .breaks("has not left");
        bench()
            .step_end(Some(20_000))
            .at(20_000)
            .woken()
            .step_end(None)
            .legal();
        bench().deed(Deed::Closed).end().legal();
        bench().end().breaks("never has");
    }

    #[test]
    fn a_process_that_was_stopped_may_be_as_late() {
        bench()
            .step_end(Some(11_000))
            .at(25_000)
            .woken()
            .step_end(None)
            .legal();
    }
}
