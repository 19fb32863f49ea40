//! One ownership has one pull at the broker at a time, and its pulls never go back.
//!
//! Source: P1 and P3; design "Living beside Java members", 8: never two pulls of one ownership whose ranges may
//! overlap. A pull has ended when it was answered, when its link was lost, or when its deadline has passed and
//! the machine was woken since.
//!
//! Legal all the same: the pull of an *earlier* ownership still hanging at the broker. Its answer is nobody's,
//! and nobody waits for it. And a Java-like member that goes back because a slave that is behind says so.

use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::time::Instant;
use std::time::Duration;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Ask, Deed, Seen, Sight, Sights, What};
use crate::sim::tenures::{Accounts, Tenure};

/// Java's sweep finds a pull a second after its 30 s are over.
const JAVA_DEADLINE: Duration = Duration::from_secs(31);

/// What a rule knows of the pulls of an ownership.
#[derive(Debug, Default)]
struct Pulls {
    /// The one that is out: its serial, and when it is given up.
    out: Option<(u64, Instant)>,
    serial: u64,
    asked: Option<QueueOffset>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct OnePullPerEpoch {
    pulls: Accounts<Pulls>,
    requests: Requests<Pull>,
}

/// A pull that was written: for which ownership, and its serial there.
type Pull = (Tenure, u64);

impl OnePullPerEpoch {
    fn ended(pulls: &mut Accounts<Pulls>, (tenure, serial): Pull) {
        let pulls = pulls.of_mut(&tenure);
        pulls.out.take_if(|(out, _)| *out == serial);
    }
}

impl Invariant for OnePullPerEpoch {
    fn name(&self) -> &'static str {
        "one_pull_per_epoch"
    }

    fn looks_at(&self) -> Sights {
        requests::ENDS.and(Sights::of(&[Sight::AskedPull, Sight::AnsweredPull]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        let pulls = &mut self.pulls;
        self.requests.see(life, &deed, |pull| Self::ended(pulls, pull));
        match deed {
            Deed::Answered { conn, opaque, .. } => {
                if let Some(pull) = self.requests.answered(life, conn, opaque) {
                    Self::ended(pulls, pull);
                }
            }
            Deed::Asked {
                conn,
                opaque,
                ask: Ask::Pull { queue, offset, .. },
                ..
            } => {
                let tenures = view.tenures();
                let Some(alive) = tenures.alive(life) else {
                    return Ok(());
                };
                let deadline = if alive.is_ours() {
                    *view.config(life).pull_deadline()
                } else {
                    JAVA_DEADLINE
                };
                let Some(tenure) = tenures.newest(life, queue) else {
                    return Ok(());
                };
                let pulls = pulls.of_mut(tenure);
                let name = view.queue(queue);
                if let Some((_, until)) = pulls.out.filter(|(_, until)| alive.woken_at < *until) {
                    return Err(Broken(format!(
                        "{life:?} pulls {name} from {offset} while a pull from {:?} of the same ownership is out, \
                         until {until:?}",
                        pulls.asked
                    )));
                }
                let before = pulls.asked.filter(|before| alive.is_ours() && offset < *before);
                if let Some(before) = before {
                    return Err(Broken(format!(
                        "{life:?} pulls {name} from {offset} after {before}"
                    )));
                }
                pulls.serial += 1;
                let until = if tenures.may_have_waited(life, conn) {
                    seen.at
                } else {
                    seen.at + deadline
                };
                pulls.out = Some((pulls.serial, until));
                pulls.asked = Some(offset);
                let pull = (*tenure, pulls.serial);
                self.requests.asked(life, conn, opaque, pull);
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

    fn bench() -> Bench<OnePullPerEpoch> {
        let mut bench = Bench::new(OnePullPerEpoch::default());
        bench.ours().assign(1, 100);
        bench.pull(100, None).legal();
        bench
    }

    #[test]
    fn a_second_pull_while_one_is_out_is_seen() {
        bench().pull(100, None).breaks("is out");
        bench().at(22_999).woken().pull(100, None).breaks("is out");
    }

    #[test]
    fn a_pull_ends_by_its_answer_its_deadline_or_its_link() {
        bench().found(100..103).pull(103, None).legal();
        bench().at(23_000).woken().pull(100, None).legal();
        bench().disconnected().pull(100, None).legal();
        bench().revoke(1).assign(2, 100).pull(100, None).legal();
    }

    #[test]
    fn a_pull_that_goes_back_is_seen() {
        let mut bench = bench();
        bench.found(100..103).pull(103, None).legal();
        bench.found(103..104).pull(103, None).legal();
        bench.found(103..104).pull(100, None).breaks("after");
    }

    #[test]
    fn an_answer_to_the_pull_of_an_earlier_ownership_ends_nothing() {
        let mut bench = bench();
        bench.revoke(1).assign(2, 100);
        bench.pull(100, None).legal();
        bench.answer_pull(0, 100..103).pull(103, None).breaks("is out");
    }
}
