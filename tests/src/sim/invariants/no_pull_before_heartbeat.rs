//! A member of ours pulls on a connection only after a heartbeat was acknowledged on it.
//!
//! Source: P53; design "Living beside Java members", 7. A broker ties membership and subscription to the
//! connection they came on; a pull that is faster finds neither and is refused, again and again. Every way to a
//! pull passes the same gate, also the timers that end a pause after an error: one that does not is seen here,
//! because a link that broke meanwhile has not been introduced again.
//!
//! Legal all the same: a Java-like member's pull, which comes half a second after the queue was added, whatever
//! became of the heartbeat.

use std::collections::BTreeSet;

use rocketmq_consumer_core::ids::ConnId;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Answer, Ask, Deed, Life, Seen, Sight, Sights, What};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NoPullBeforeHeartbeat {
    heartbeats: Requests<()>,
    introduced: BTreeSet<(Life, ConnId)>,
}

impl Invariant for NoPullBeforeHeartbeat {
    fn name(&self) -> &'static str {
        "no_pull_before_heartbeat"
    }

    fn looks_at(&self) -> Sights {
        requests::ENDS.and(Sights::of(&[
            Sight::AskedPull,
            Sight::AskedElse,
            Sight::AnsweredElse,
        ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        self.heartbeats.see(life, &deed, |()| {});
        match deed {
            Deed::Killed | Deed::Closed => {
                self.introduced.retain(|(of, _)| *of != life);
            }
            Deed::Disconnected { conn, .. } => {
                self.introduced.remove(&(life, conn));
            }
            Deed::Asked {
                conn,
                opaque,
                ask: Ask::Heartbeat,
                ..
            } => {
                self.heartbeats.asked(life, conn, opaque, ());
            }
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                let is_heartbeat = self.heartbeats.answered(life, conn, opaque).is_some();
                if is_heartbeat && matches!(answer, Answer::Done) {
                    self.introduced.insert((life, conn));
                }
            }
            Deed::Asked {
                conn,
                ask: Ask::Pull { queue, offset, .. },
                ..
            } if view.tenures().is_ours(life) && !self.introduced.contains(&(life, conn)) => {
                let queue = view.queue(queue);
                return Err(Broken(format!(
                    "{life:?} pulls {queue} from {offset} on {conn:?}, where no heartbeat was acknowledged"
                )));
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

    #[test]
    fn a_pull_waits_for_the_heartbeat_of_its_connection() {
        let mut bench = Bench::new(NoPullBeforeHeartbeat::default());
        bench.ours().assign(1, 100);
        bench.heartbeat();
        bench.answer_last(Answer::Done).pull(100, None).legal();
        bench.disconnected().pull(100, None).breaks("no heartbeat");
    }

    #[test]
    fn a_heartbeat_that_is_not_acknowledged_introduces_nobody() {
        let mut bench = Bench::new(NoPullBeforeHeartbeat::default());
        bench.ours().assign(1, 100);
        bench.heartbeat();
        bench.pull(100, None).breaks("no heartbeat");
        let mut bench = Bench::new(NoPullBeforeHeartbeat::default());
        bench.java().assign(1, 100).pull(100, None).legal();
    }
}
