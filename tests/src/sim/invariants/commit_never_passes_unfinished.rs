//! A commit never passes a message that a handler has or had and that is not finished.
//!
//! Source: P15 and P51 of the behaviour of the Java client; style "Invariants". What is committed is what the
//! next owner never sees, so the offset of every commit, and of every pull that carries one, lies at or below
//! the lowest message of its ownership that was handed out and is neither done nor taken back by the broker.
//! What was fetched and not handed out is the business of the reference model.
//!
//! Legal all the same: a commit that stays below (a member that died would redeliver, no more), and two
//! ownerships of one queue at a time, each with its own account: a commit is only wrong if it is wrong for all.

use std::collections::BTreeSet;

use rocketmq_consumer_core::ids::QueueOffset;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Answer, Ask, BrokerDeed, Deed, Life, QueueNo, Seen, Sight, Sights, What, is_success};
use crate::sim::tenures::Accounts;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CommitNeverPassesUnfinished {
    /// What handlers have or had of each ownership, and what is not finished.
    open: Accounts<BTreeSet<QueueOffset>>,
    /// Copies that were asked for, by the message they are of.
    copies: Requests<u32>,
}

impl CommitNeverPassesUnfinished {
    fn commit(&self, life: Life, queue: QueueNo, offset: QueueOffset, view: &dyn View) -> Result<(), Broken> {
        let tenures = view.tenures().of(life, queue);
        let passed = |tenure| {
            let first = self.open.of(tenure).first().copied();
            first.filter(|first| *first < offset)
        };
        if tenures.is_empty() || tenures.iter().any(|tenure| passed(tenure).is_none()) {
            return Ok(());
        }
        let open: Vec<_> = tenures.iter().filter_map(passed).collect();
        let queue = view.queue(queue);
        Err(Broken(format!(
            "{life:?} commits {queue} at {offset}, unfinished: {open:?}"
        )))
    }
}

impl CommitNeverPassesUnfinished {
    /// A copy of a message is stored: wherever this member has it, it is finished.
    fn copied(&mut self, life: Life, origin: u32, view: &dyn View) {
        for tenure in view.tenures().of_life(life) {
            let open = self.open.of_mut(tenure);
            open.retain(|offset| view.origin(tenure.queue, *offset) != Some(origin));
        }
    }
}

impl Invariant for CommitNeverPassesUnfinished {
    fn name(&self) -> &'static str {
        "commit_never_passes_unfinished"
    }

    fn looks_at(&self) -> Sights {
        requests::ENDS.and(Sights::of(&[
            Sight::AskedPull,
            Sight::AskedCommit,
            Sight::AskedAgain,
            Sight::AnsweredAgain,
            Sight::Delivered,
            Sight::Settled,
            Sight::BrokerSentBack,
        ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let (life, deed) = match seen.what {
            What::Member { life, deed } => (life, deed),
            What::Broker(BrokerDeed::SentBack { queue, offset, .. }) => {
                for life in view.alive() {
                    for tenure in view.tenures().of(*life, queue) {
                        self.open.of_mut(tenure).remove(&offset);
                    }
                }
                return Ok(());
            }
            What::Broker(_) | What::Fault(_) => return Ok(()),
        };
        self.copies.see(life, &deed, |_| {});
        match deed {
            Deed::Delivered {
                queue, batch, range, ..
            } => {
                if let Some(tenure) = view.tenures().newest(life, queue) {
                    let entries = &batch.entries()[range.start as usize..range.end as usize];
                    let offsets = entries.iter().map(|entry| entry.queue_offset());
                    self.open.of_mut(tenure).extend(offsets);
                }
                Ok(())
            }
            Deed::Settled {
                run, offset, verdict, ..
            } if is_success(verdict) => {
                if let Some(tenure) = view.tenures().of_run(life, run) {
                    self.open.of_mut(tenure).remove(&offset);
                }
                Ok(())
            }
            Deed::Asked {
                conn,
                opaque,
                ask: Ask::Copy { origin, .. },
                ..
            } => {
                self.copies.asked(life, conn, opaque, origin);
                Ok(())
            }
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                let copied = self.copies.answered(life, conn, opaque);
                if let (Some(origin), Answer::Done) = (copied, answer) {
                    self.copied(life, origin, view);
                }
                Ok(())
            }
            Deed::Asked {
                ask: Ask::Commit { queue, offset, .. },
                ..
            }
            | Deed::Asked {
                ask:
                    Ask::Pull {
                        queue,
                        commit: Some(offset),
                        ..
                    },
                ..
            } if view.tenures().is_ours(life) => self.commit(life, queue, offset, view),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, retry};
    use super::*;

    #[test]
    fn a_commit_above_a_message_that_a_handler_has_is_seen() {
        let mut bench = Bench::new(CommitNeverPassesUnfinished::default());
        bench.ours().assign(1, 100).deliver(1, 100..103);
        bench.done(1, 100);
        bench.commit(101).legal();
        bench.done(1, 102);
        bench.commit(101).legal();
        bench.commit(103).breaks("unfinished");
    }

    #[test]
    fn a_failed_message_holds_the_offset_until_the_broker_has_it() {
        for accepted in [true, false] {
            let mut bench = Bench::new(CommitNeverPassesUnfinished::default());
            bench.ours().assign(1, 100).deliver(1, 100..101);
            bench.settle(1, 100, retry());
            if accepted {
                bench.sent_back(100).commit(101).legal();
            } else {
                bench.commit(101).breaks("unfinished");
            }
        }
    }
}
