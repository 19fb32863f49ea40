//! What an ownership has lost it neither commits nor sends back, and a lost queue is not pulled.
//!
//! Source: P2 and P40; design "Living beside Java members", 1. When its share is lost a queue commits at once.
//! Handlers may finish for the revoke grace; then the stored offset is asked for once, and one second commit may
//! follow, in the very step that brings the answer. After that, and after the ownership has ended, nothing: the
//! next owner has taken over half a second after the first commit, and brokers overwrite blindly.
//!
//! What is consumed in order is committed as long as its handler takes: the queue is its own until it is unlocked.
//!
//! Legal all the same: that second commit however late its answer comes (it is only sent when the broker still
//! shows our own first value); a request that was decided in time and waited for its link, written in the step
//! that connects it; being as late as the process itself was stopped; and everything a Java-like member does.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::ids::{PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::time::Instant;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Answer, Ask, Deed, Life, NodeNo, QueueNo, Seen, Sight, Sights, What};
use crate::sim::tenures::Accounts;

/// How much longer than the grace the last question may take: what a pull carries may be under way for 200 ms,
/// and a timer may be a little late.
const CARRIED: Duration = Duration::from_millis(200);
const TOLERANCE: Duration = Duration::from_millis(100);

/// Messages of an ownership that may be sent back, by their place in the log.
type Delivered = BTreeMap<PhysicalOffset, QueueOffset>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NoCommitAfterStaleEpoch {
    delivered: Accounts<Delivered>,
    /// Messages whose ownership has ended before they were finished.
    ended: BTreeMap<(Life, PhysicalOffset), QueueNo>,
    queries: Requests<(QueueNo, Instant)>,
    /// Questions for offsets that were answered in the step that runs: whose, of which queue, and when the process
    /// meant to ask.
    rechecked: Vec<(Life, QueueNo, Instant)>,
}

impl NoCommitAfterStaleEpoch {
    fn commit(&self, at: Instant, life: Life, queue: QueueNo, view: &dyn View) -> Result<(), &'static str> {
        let grace = (*view.config(life).revoke_grace()).max(CARRIED) + TOLERANCE;
        let mut rechecked = self.rechecked.iter();
        let rechecked = rechecked.find(|(whose, of, _)| (*whose, *of) == (life, queue));
        let tenures = view.tenures().of(life, queue);
        if tenures.is_empty() {
            return Err("does not own");
        }
        if view.config(life).is_orderly() {
            return Ok(());
        }
        let may = tenures.iter().any(|tenure| match (tenure.revoked_at, rechecked) {
            (None, _) => true,
            (Some(revoked), Some((.., asked))) => *asked <= revoked + grace,
            (Some(revoked), None) => revoked == at,
        });
        if may { Ok(()) } else { Err("has given back") }
    }

    fn send_back(
        &self,
        at: Instant,
        life: Life,
        (node, physical): (NodeNo, PhysicalOffset),
        view: &dyn View,
    ) -> Result<(), &'static str> {
        let grace = *view.config(life).revoke_grace() + TOLERANCE + late(life, view);
        let tenures = view.tenures();
        let at_home = tenures
            .of_life(life)
            .iter()
            .filter(|tenure| tenures.is_home(node, tenure.queue, view));
        let mut holders = at_home
            .filter(|tenure| self.delivered.of(tenure).contains_key(&physical))
            .peekable();
        if holders.peek().is_none() {
            // Records that cannot be read are never delivered: nobody knows them here.
            return if self.ended.contains_key(&(life, physical)) {
                Err("does not own")
            } else {
                Ok(())
            };
        }
        if holders.any(|tenure| tenure.revoked_at.is_none_or(|revoked| at <= revoked + grace)) {
            Ok(())
        } else {
            Err("has given back")
        }
    }
}

impl NoCommitAfterStaleEpoch {
    fn copy(&self, at: Instant, life: Life, origin: u32, view: &dyn View) -> Result<(), &'static str> {
        let grace = *view.config(life).revoke_grace() + TOLERANCE + late(life, view);
        let mut holders = view.tenures().of_life(life).iter().filter(|tenure| {
            let mut offsets = self.delivered.of(tenure).values();
            offsets.any(|offset| view.origin(tenure.queue, *offset) == Some(origin))
        });
        if holders.any(|tenure| tenure.revoked_at.is_none_or(|revoked| at <= revoked + grace)) {
            Ok(())
        } else {
            Err("does not own")
        }
    }
}

/// How late the process is in the step that runs.
fn late(life: Life, view: &dyn View) -> Duration {
    let alive = view.tenures().alive(life);
    alive.map_or(Duration::ZERO, |alive| alive.late_now)
}

impl Invariant for NoCommitAfterStaleEpoch {
    fn name(&self) -> &'static str {
        "no_commit_after_stale_epoch"
    }

    fn looks_at(&self) -> Sights {
        requests::ENDS.and(Sights::of(&[
            Sight::AskedPull,
            Sight::AskedCommit,
            Sight::AskedOffset,
            Sight::AskedAgain,
            Sight::AnsweredOffset,
            Sight::Delivered,
            Sight::Revoked,
            Sight::StepEnd,
        ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        self.queries.see(life, &deed, |_| {});
        match deed {
            Deed::StepEnd { .. } => self.rechecked.clear(),
            Deed::Revoked { queue, epoch, .. } => {
                let ended = view.tenures().of_epoch(life, queue, epoch).into_iter();
                let unfinished = ended.flat_map(|tenure| self.delivered.of(tenure).keys());
                self.ended
                    .extend(unfinished.map(|physical| ((life, *physical), queue)));
            }
            Deed::Delivered {
                queue, batch, range, ..
            } => {
                if let Some(tenure) = view.tenures().newest(life, queue) {
                    let delivered = self.delivered.of_mut(tenure);
                    for position in range.start..range.end {
                        let Some(record) = batch.record(position) else {
                            continue;
                        };
                        let physical = record.physical_offset();
                        self.ended.remove(&(life, physical));
                        delivered.insert(physical, record.queue_offset());
                    }
                }
            }
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                let query = self.queries.answered(life, conn, opaque);
                if let (Some((queue, asked)), Answer::Offset(_)) = (query, answer) {
                    self.rechecked.push((life, queue, asked));
                }
            }
            Deed::Asked {
                conn,
                node,
                opaque,
                ask,
                ..
            } if view.tenures().is_ours(life) => {
                let is_late = view.tenures().may_have_waited(life, conn);
                let (what, queue, judged) = match ask {
                    Ask::QueryOffset { queue, .. } => {
                        // Nobody sees since when it has waited for its link.
                        let meant = if is_late {
                            Instant::ZERO
                        } else {
                            seen.at - late(life, view)
                        };
                        self.queries.asked(life, conn, opaque, (queue, meant));
                        return Ok(());
                    }
                    Ask::Commit { queue, .. } => {
                        ("commits", Some(queue), self.commit(seen.at, life, queue, view))
                    }
                    Ask::Pull { queue, .. } => {
                        let owned = view.tenures().newest(life, queue).is_some();
                        (
                            "pulls",
                            Some(queue),
                            if owned { Ok(()) } else { Err("does not own") },
                        )
                    }
                    Ask::SendBack { physical, .. } => (
                        "sends back",
                        None,
                        self.send_back(seen.at, life, (node, physical), view),
                    ),
                    Ask::Copy { origin, .. } => {
                        ("produces a copy", None, self.copy(seen.at, life, origin, view))
                    }
                    _ => return Ok(()),
                };
                if let Err(why) = judged
                    && !is_late
                {
                    let queue =
                        queue.map_or_else(|| "a message".into(), |queue| view.queue(queue).to_string());
                    return Err(Broken(format!(
                        "{life:?} {what} {queue}, which it {why}: {ask:?}"
                    )));
                }
            }
            Deed::Killed | Deed::Closed => self.ended.retain(|(of, _), _| *of != life),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, retry};
    use super::*;

    fn bench() -> Bench<NoCommitAfterStaleEpoch> {
        let mut bench = Bench::new(NoCommitAfterStaleEpoch::default());
        bench.ours().assign(1, 100).deliver(1, 100..103).step_end(None);
        bench.at(1_000).withdraw(1).commit(100).step_end(None).legal();
        bench
    }

    #[test]
    fn a_commit_600_ms_after_the_queue_was_given_back_is_seen() {
        bench().at(1_600).woken().commit(101).breaks("has given back");
        bench()
            .at(1_100)
            .settle(1, 100, retry())
            .commit(101)
            .breaks("has given back");
    }

    #[test]
    fn the_second_commit_comes_with_the_answer_to_a_question_in_time() {
        for (asked, in_time) in [(1_250, true), (1_600, false)] {
            let mut bench = bench();
            bench.at(asked).woken().query().step_end(None);
            bench.at(3_000).stored(Some(100)).commit(101);
            if in_time {
                bench.legal();
            } else {
                bench.breaks("has given back");
            }
        }
    }

    #[test]
    fn nothing_is_said_for_an_ownership_that_has_ended() {
        let ended = || {
            let mut bench = bench();
            bench.revoke(1).step_end(None).at(1_100);
            bench
        };
        ended().commit(101).breaks("does not own");
        ended().pull(103, None).breaks("does not own");
        ended().send_back(101).breaks("does not own");
        ended().assign(2, 100).commit(101).legal();
        ended().assign(2, 100).deliver(2, 101..102).send_back(101).legal();
    }

    #[test]
    fn a_handler_that_fails_within_the_grace_may_still_send_back() {
        bench().at(1_250).settle(1, 101, retry()).send_back(101).legal();
        bench()
            .at(1_600)
            .settle(1, 101, retry())
            .send_back(101)
            .breaks("has given back");
        bench().at(1_600).send_back(777).legal();
    }

    #[test]
    fn what_waited_for_its_link_is_written_when_it_stands() {
        bench().at(3_000).connected().commit(100).legal();
    }

    #[test]
    fn a_process_that_was_stopped_is_as_late_as_that() {
        let stopped = |wake_at| {
            let mut bench = Bench::new(NoCommitAfterStaleEpoch::default());
            bench.ours().assign(1, 100).deliver(1, 100..103);
            bench.at(1_000).withdraw(1).commit(100).step_end(Some(wake_at));
            bench.at(9_000).woken().query().step_end(None);
            bench
        };
        stopped(1_250).stored(Some(100)).commit(101).legal();
        stopped(8_990)
            .stored(Some(100))
            .commit(101)
            .breaks("has given back");
    }

    #[test]
    fn a_java_like_member_may() {
        let mut bench = Bench::new(NoCommitAfterStaleEpoch::default());
        bench.java().assign(1, 100).deliver(1, 100..103).revoke(1);
        bench.at(2_000).commit(101).send_back(100).legal();
    }
}
