//! The Java-like member keeps Java's timing; a model that does not would test us against nobody.
//!
//! Source: behaviour of the Java client, "Per timer or delay", and P7: the first pull of a queue comes no earlier
//! than 500 ms after it was added; a pull that was refused is repeated after 1 s, after a flow control answer (215)
//! after 20 ms; pulls may be held for 15 s; 0 is never carried; commits are one-way.
//!
//! Legal all the same: being late.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::ids::{Epoch, QueueOffset};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::ResponseCode;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Answer, Ask, Deed, Life, QueueNo, Seen, Sight, Sights, What};
use crate::sim::tenures::Alive;

const FIRST_PULL: Duration = Duration::from_millis(500);
const AFTER_ERROR: Duration = Duration::from_secs(1);
const AFTER_FLOW_CONTROL: Duration = Duration::from_millis(20);
const HOLD: Duration = Duration::from_secs(15);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct JavaTiming {
    pulls: Requests<(QueueNo, Epoch)>,
    /// The newest ownership, and when its next pull may come.
    earliest: BTreeMap<(Life, QueueNo), (Epoch, Instant)>,
}

impl JavaTiming {
    fn pull(&self, at: Instant, life: Life, ask: Ask, view: &dyn View) -> Result<(), Broken> {
        let Ask::Pull {
            queue, commit, hold, ..
        } = ask
        else {
            return Ok(());
        };
        let name = view.queue(queue);
        if let Some((_, earliest)) = self
            .earliest
            .get(&(life, queue))
            .filter(|(_, earliest)| at < *earliest)
        {
            return Err(Broken(format!(
                "{life:?} (Java) pulls {name} at {at:?}, before {earliest:?}"
            )));
        }
        if hold != HOLD || commit == Some(QueueOffset(0)) {
            return Err(Broken(format!("{life:?} (Java) pulls {name} with {ask:?}")));
        }
        Ok(())
    }
}

impl Invariant for JavaTiming {
    fn name(&self) -> &'static str {
        "java_timing"
    }

    fn looks_at(&self) -> Sights {
        requests::ENDS.and(Sights::of(&[
            Sight::Assigned,
            Sight::AskedPull,
            Sight::AskedCommit,
            Sight::AnsweredPull,
        ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        if view.tenures().alive(life).is_none_or(Alive::is_ours) {
            return Ok(());
        }
        self.pulls.see(life, &deed, |_| {});
        match deed {
            Deed::Assigned { queue, epoch, .. } => {
                self.earliest.insert((life, queue), (epoch, seen.at + FIRST_PULL));
            }
            Deed::Asked {
                conn,
                opaque,
                ask,
                oneway,
                ..
            } => match ask {
                Ask::Pull { queue, .. } => {
                    self.pull(seen.at, life, ask, view)?;
                    if let Some((epoch, _)) = self.earliest.get(&(life, queue)) {
                        self.pulls.asked(life, conn, opaque, (queue, *epoch));
                    }
                }
                Ask::Commit { queue, .. } if !oneway => {
                    let queue = view.queue(queue);
                    return Err(Broken(format!("{life:?} (Java) waits for its commit of {queue}")));
                }
                _ => {}
            },
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                // What an earlier ownership is told holds the present one up in no way.
                if let Some((queue, epoch)) = self.pulls.answered(life, conn, opaque)
                    && let Answer::Refused(code) = answer
                    && let Some(next) = self.earliest.get_mut(&(life, queue))
                    && next.0 == epoch
                {
                    let pause = if code == ResponseCode::FLOW_CONTROL {
                        AFTER_FLOW_CONTROL
                    } else {
                        AFTER_ERROR
                    };
                    next.1 = seen.at + pause;
                }
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

    fn bench() -> Bench<JavaTiming> {
        let mut bench = Bench::new(JavaTiming::default());
        bench.java().at(1_000).assign(1, 100);
        bench
    }

    #[test]
    fn the_first_pull_comes_half_a_second_after_the_queue_was_added() {
        bench().at(1_499).pull(100, None).breaks("before");
        bench().at(1_500).pull(100, None).legal();
        let mut ours = Bench::new(JavaTiming::default());
        ours.ours().assign(1, 100).pull(100, Some(0)).commit(1).legal();
    }

    #[test]
    fn a_refused_pull_has_its_pause() {
        for (code, pause) in [
            (ResponseCode::FLOW_CONTROL, 20),
            (ResponseCode::SYSTEM_ERROR, 1_000),
        ] {
            let refused = || {
                let mut bench = bench();
                bench.at(2_000).pull(100, None).answer_last(Answer::Refused(code));
                bench
            };
            refused().at(2_000 + pause - 1).pull(100, None).breaks("before");
            refused().at(2_000 + pause).pull(100, None).legal();
        }
    }

    #[test]
    fn what_an_earlier_ownership_is_told_does_not_hold_up_the_present_one() {
        let mut bench = bench();
        bench.at(2_000).pull(100, None).at(2_100).assign(2, 100);
        bench
            .at(2_500)
            .answer_last(Answer::Refused(ResponseCode::SYSTEM_ERROR));
        bench.at(2_600).pull(100, None).legal();
    }

    #[test]
    fn zero_is_never_carried_and_commits_are_one_way() {
        bench().at(2_000).pull(100, Some(0)).breaks("pulls");
        bench().commit(101).breaks("waits for its commit");
    }
}
