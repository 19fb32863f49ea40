//! No wake-up without progress, and nothing is asked for over and over.
//!
//! Source: style "The machine": after a wake-up at `t` the next one lies behind `t`, and what the parts wish of each
//! other comes to an end within the event; P9 for the pace of pulls that fail. Per virtual second a member may be
//! woken in vain, ask the same of a queue, ask other things and dial a node only so often.
//!
//! Legal all the same: as many pulls as there are messages to fetch, since each asks for another offset; and a
//! Java-like member that looks at a full cache every 50 ms, dials without any pause, and asks a slave again at once that
//! sends it back to a master it has not heard of.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::time::Instant;

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Ask, Deed, Life, NodeNo, QueueNo, Seen, Sight, Sights, What};

/// Wake-ups a second that have no effect, and more for each queue: 20 looks at a full cache, 2 heartbeats of one
/// step to the next, timers of requests that were answered.
const IN_VAIN: u32 = 100;
const IN_VAIN_PER_QUEUE: u32 = 50;
/// Pulls of one queue a second that ask for the same offset: 50 while the broker asks for less.
const SAME_PULLS: u32 = 60;
/// Other requests a second, and more for each queue.
const REQUESTS: u32 = 200;
const REQUESTS_PER_QUEUE: u32 = 50;
/// Dials of one node a second: the first pauses are 100, 200, 400 and 800 ms, less a fifth.
const DIALS: u32 = 15;

/// How often something happened in the second that began then.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    since: Instant,
    count: u32,
}

impl Rate {
    fn more(&mut self, at: Instant) -> u32 {
        if at >= self.since + Duration::from_secs(1) {
            *self = Self { since: at, count: 0 };
        }
        self.count += 1;
        self.count
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NoBusyLoop {
    in_vain: BTreeMap<Life, Rate>,
    requests: BTreeMap<Life, Rate>,
    pulls: BTreeMap<(Life, QueueNo), (QueueOffset, Rate)>,
    dials: BTreeMap<(Life, NodeNo), Rate>,
}

fn queues(life: Life, view: &dyn View) -> u32 {
    u32::try_from(view.tenures().of_life(life).len()).unwrap_or(u32::MAX)
}

impl NoBusyLoop {
    fn step_end(
        &mut self,
        at: Instant,
        life: Life,
        (actions, wake_at): (u32, Option<Instant>),
        view: &dyn View,
    ) -> Result<(), Broken> {
        if view.tenures().alive(life).is_none_or(|alive| !alive.is_wakeup) {
            return Ok(());
        }
        if wake_at.is_some_and(|wake_at| wake_at <= at) {
            return Err(Broken(format!(
                "{life:?} was woken at {at:?} and wants to be woken at {wake_at:?}"
            )));
        }
        // A Java-like member that asks a slave over and over wakes for each answer.
        if actions > 0 || !view.tenures().is_ours(life) {
            return Ok(());
        }
        let count = self.in_vain.entry(life).or_default().more(at);
        if count > IN_VAIN && count > IN_VAIN + IN_VAIN_PER_QUEUE * queues(life, view) {
            return Err(Broken(format!(
                "{life:?} was woken {count} times within a second and did nothing"
            )));
        }
        Ok(())
    }

    fn asked(&mut self, at: Instant, life: Life, ask: Ask, view: &dyn View) -> Result<(), Broken> {
        match ask {
            Ask::Pull { queue, offset, .. } => {
                let (last, rate) = self
                    .pulls
                    .entry((life, queue))
                    .or_insert((offset, Rate::default()));
                if *last != offset {
                    (*last, *rate) = (offset, Rate::default());
                }
                let count = rate.more(at);
                if count > SAME_PULLS {
                    let queue = view.queue(queue);
                    return Err(Broken(format!(
                        "{life:?} pulls {queue} from {offset} for the {count}th time in a second"
                    )));
                }
            }
            // As many as there are failures.
            Ask::SendBack { .. } | Ask::Copy { .. } => {}
            Ask::Commit { .. }
            | Ask::QueryOffset { .. }
            | Ask::Members { .. }
            | Ask::Lock { .. }
            | Ask::Unlock { .. }
            | Ask::Heartbeat
            | Ask::Unregister { .. }
            | Ask::Other(_) => {
                let count = self.requests.entry(life).or_default().more(at);
                if count > REQUESTS && count > REQUESTS + REQUESTS_PER_QUEUE * queues(life, view) {
                    return Err(Broken(format!(
                        "{life:?} asks for the {count}th time in a second: {ask:?}"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Invariant for NoBusyLoop {
    fn name(&self) -> &'static str {
        "no_busy_loop"
    }

    fn looks_at(&self) -> Sights {
        let others = [Sight::StepEnd, Sight::Dialled, Sight::Over];
        Sights::ASKED.and(Sights::of(&others))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        match deed {
            Deed::StepEnd { actions, wake_at } => self.step_end(seen.at, life, (actions, wake_at), view),
            // Sent back to a master that it has not heard of yet, Java's client asks the slave again at once.
            Deed::Asked {
                node,
                ask: Ask::Pull { .. },
                ..
            } if !view.tenures().is_ours(life) && view.replica(node).is_some_and(|id| id != 0) => Ok(()),
            Deed::Asked { ask, .. } => self.asked(seen.at, life, ask, view),
            Deed::Dialled { node, .. } if view.tenures().is_ours(life) => {
                let count = self.dials.entry((life, node)).or_default().more(seen.at);
                if count > DIALS {
                    return Err(Broken(format!(
                        "{life:?} dials {node:?} for the {count}th time in a second"
                    )));
                }
                Ok(())
            }
            Deed::Killed | Deed::Closed => {
                self.in_vain.remove(&life);
                self.requests.remove(&life);
                self.pulls.retain(|(of, _), _| *of != life);
                self.dials.retain(|(of, _), _| *of != life);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn at_rest(&mut self, _: Instant, view: &dyn View) -> Result<(), Broken> {
        for life in view.alive() {
            let unsettled = view
                .status(*life)
                .map_or(0, |status| status.counters.unsettled_events);
            if unsettled > 0 {
                return Err(Broken(format!(
                    "{life:?} did not come to an end with {unsettled} events"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::ConnId;

    use super::super::bench::{Bench, status};
    use super::*;

    fn bench() -> Bench<NoBusyLoop> {
        let mut bench = Bench::new(NoBusyLoop::default());
        bench.ours().assign(1, 100);
        bench
    }

    #[test]
    fn after_a_wake_up_the_next_one_lies_behind_it() {
        bench()
            .at(5)
            .woken()
            .step_end(Some(5))
            .breaks("wants to be woken");
        bench().at(5).woken().step_end(Some(6)).legal();
        bench().at(5).step_end(Some(5)).legal();
    }

    #[test]
    fn wake_ups_in_vain_are_counted_by_the_second() {
        let woken = |times: u64, every: u64| {
            let mut bench = bench();
            for n in 1..times {
                bench
                    .at(n * every)
                    .woken()
                    .step_end_after(0, Some(n * every + 1))
                    .legal();
            }
            bench.at(times * every).woken();
            bench
        };
        woken(151, 1).step_end_after(0, Some(999)).breaks("did nothing");
        woken(151, 1).step_end_after(1, Some(999)).legal();
        woken(151, 10).step_end_after(0, Some(9_999)).legal();
    }

    #[test]
    fn the_same_is_not_asked_over_and_over() {
        let pulled = |moves: bool| {
            let mut bench = bench();
            for n in 0..60 {
                bench.pull(100 + i64::from(moves) * n, None).legal();
            }
            bench
        };
        pulled(false).pull(100, None).breaks("61th time");
        pulled(false).at(1_000).pull(100, None).legal();
        pulled(true).pull(160, None).legal();
        let mut beats = bench();
        for _ in 0..250 {
            beats.heartbeat().legal();
        }
        beats.heartbeat().breaks("251th time");
    }

    #[test]
    fn every_event_comes_to_an_end() {
        for (unsettled, legal) in [(0, true), (1, false)] {
            let mut bench = bench();
            let mut status = status(&bench.world);
            status.counters.unsettled_events = unsettled;
            bench.world.status = Some(status);
            bench.rest();
            if legal {
                bench.legal();
            } else {
                bench.breaks("did not come to an end");
            }
        }
    }

    #[test]
    fn a_node_is_not_dialled_without_a_pause() {
        let mut bench = bench();
        let dial = |n| Deed::Dialled {
            conn: ConnId {
                slot: 0,
                generation: n,
            },
            node: NodeNo(1),
        };
        for n in 0..15 {
            bench.deed(dial(n)).legal();
        }
        bench.deed(dial(15)).breaks("dials");
    }
}
