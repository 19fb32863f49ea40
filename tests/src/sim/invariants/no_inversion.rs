//! What is consumed in order is consumed in order, whoever consumes it.
//!
//! Source: P41; issue "Modes": no offset is delivered below one that was finished elsewhere after the lock moved. In
//! one member at most one run of a queue is with a handler, whatever becomes of its ownership; in one ownership a
//! message comes after all that were delivered before it are done, and one that was suspended before its successors.
//! Across members: what one of ours had finished when it gave the lock back is never delivered again.
//!
//! Legal all the same: what a member finished that died, that lost its lock, or that a broker kept from committing, comes again; so does
//! everything behind an operator's reset, and what a broker has forgotten. A broker that forgets its locks may give
//! one away while its holder still counts on it. A Java-like member commits without asking whether it arrived, and its
//! commit, or one that its pull carried, may come late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::{ConsumeId, QueueOffset};
use rocketmq_consumer_core::time::Instant;

use super::leases::Leases;
use super::obstacles::Obstacles;
use super::orderly::Orderly;
use super::requests::Requests;
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{
    Answer, Ask, BrokerDeed, Deed, GroupNo, Life, MemberId, QueueNo, Seen, Sight, Sights, Upheaval, What,
    is_success,
};

/// How long a lock may be believed in that a broker has forgotten.
const BELIEF: Duration = Duration::from_secs(60);

/// One queue in the hands of one member.
#[derive(Debug, Default)]
struct Hand {
    /// The run that a handler has, and how many messages of it are not settled.
    out: Option<(ConsumeId, u32)>,
    /// Delivered in the ownership that lasts, and not done.
    open: BTreeSet<QueueOffset>,
    /// The next after the highest that was done in it.
    done: Option<QueueOffset>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NoInversion {
    orderly: Orderly,
    obstacles: Obstacles,
    leases: Leases,
    members: BTreeMap<Life, MemberId>,
    hands: BTreeMap<(Life, QueueNo), Hand>,
    copies: Requests<u32>,
    /// What a member had finished when it wrote that it gives a lock back.
    given: BTreeMap<(MemberId, GroupNo, QueueNo), QueueOffset>,
    /// Below this everything was finished before the lock was given back.
    frontiers: BTreeMap<(GroupNo, QueueNo), QueueOffset>,
    /// Queues that were reset and that nobody has taken up since.
    resets: BTreeSet<(GroupNo, QueueNo)>,
    /// Until then two may believe in one lock.
    doubtful_until: Instant,
}

impl NoInversion {
    fn delivered(
        &mut self,
        life: Life,
        (group, queue): (GroupNo, QueueNo),
        (run, offsets): (ConsumeId, &BTreeSet<QueueOffset>),
        view: &dyn View,
    ) -> Result<(), Broken> {
        let frontier = self.frontiers.get(&(group, queue)).copied();
        let hand = self.hands.entry((life, queue)).or_default();
        let Some(first) = offsets.first().copied() else {
            return Ok(());
        };
        let why = if let Some((other, _)) = hand.out {
            format!("while a handler has {other:?}")
        } else if hand.open.first().is_some_and(|open| first > *open) {
            format!("before {:?} are done", hand.open)
        } else if hand.done.is_some_and(|done| first < done) {
            format!("although everything below {:?} is done", hand.done)
        } else if frontier.is_some_and(|frontier| first < frontier) {
            format!("although everything below {frontier:?} was finished when the lock was given back")
        } else {
            hand.out = Some((run, u32::try_from(offsets.len()).unwrap_or(u32::MAX)));
            hand.open.extend(offsets);
            return Ok(());
        };
        let queue = view.queue(queue);
        Err(Broken(format!("{life:?} delivers {first} of {queue} {why}")))
    }

    fn settled(&mut self, life: Life, queue: QueueNo, run: ConsumeId, offset: QueueOffset, is_done: bool) {
        let hand = self.hands.entry((life, queue)).or_default();
        if let Some((of, left)) = &mut hand.out
            && *of == run
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                hand.out = None;
            }
        }
        if is_done && hand.open.remove(&offset) {
            hand.done = hand.done.max(Some(QueueOffset(offset.0 + 1)));
        }
    }

    /// A copy of a message is stored: wherever this member has it, it is done.
    fn copied(&mut self, life: Life, origin: u32, view: &dyn View) {
        let hands = self
            .hands
            .range_mut((life, QueueNo(0))..=(life, QueueNo(u32::MAX)));
        for ((_, queue), hand) in hands {
            let is_it = |offset: &QueueOffset| view.origin(*queue, *offset) == Some(origin);
            hand.open.retain(|offset| !is_it(offset));
        }
    }

    fn asked(&mut self, at: Instant, life: Life, deed: &Deed<'_>) {
        match *deed {
            Deed::Asked {
                conn,
                opaque,
                ask: Ask::Copy { origin, .. },
                ..
            } => {
                self.copies.asked(life, conn, opaque, origin);
            }
            Deed::Unlocking { group, queue }
                if !self.obstacles.met(at, life) && !self.leases.is_lost(life, queue) =>
            {
                let done = self.hands.get(&(life, queue)).and_then(|hand| hand.done);
                if let (Some(done), Some(member)) = (done, self.members.get(&life)) {
                    self.given.insert((*member, group, queue), done);
                }
            }
            _ => {}
        }
    }

    fn of_broker(&mut self, at: Instant, deed: BrokerDeed, view: &dyn View) {
        let is_odd = view.allowances().equal_client_ids || at < self.doubtful_until;
        match deed {
            BrokerDeed::Unlocked {
                group,
                queue,
                member: Some(member),
            } => {
                let key = (group, queue);
                let is_odd = is_odd || self.resets.contains(&key);
                if let Some(done) = self.given.remove(&(member, group, queue)).filter(|_| !is_odd) {
                    // One of ours ends with what it finished; what a Java-like one sent before may be stored after.
                    let is_overtaken =
                        view.allowances().java_members && view.committed(group, queue) < Some(done);
                    if !is_overtaken {
                        let frontier = self.frontiers.entry(key).or_insert(done);
                        *frontier = done.max(*frontier);
                    }
                }
            }
            BrokerDeed::Committed { group, queue, offset } => {
                let key = (group, queue);
                if let Some(frontier) = self.frontiers.get_mut(&key)
                    && view.allowances().java_members
                {
                    *frontier = offset.min(*frontier);
                }
            }
            BrokerDeed::Reset { group, queue, .. } => {
                self.frontiers.remove(&(group, queue));
                self.resets.insert((group, queue));
                self.given
                    .retain(|(_, of, which), _| (*of, *which) != (group, queue));
            }
            BrokerDeed::SentBack { queue, offset, .. } => {
                let hands = self.hands.iter_mut().filter(|((_, of), _)| *of == queue);
                hands.for_each(|(_, hand)| _ = hand.open.remove(&offset));
            }
            _ => {}
        }
    }

    fn of_member(&mut self, at: Instant, life: Life, deed: &Deed<'_>, view: &dyn View) -> Result<(), Broken> {
        self.obstacles.see(at, life, deed);
        self.leases.see(at, life, deed);
        self.copies.see(life, deed, |_| {});
        match *deed {
            Deed::Begun { member, .. } => {
                self.members.insert(life, member);
            }
            Deed::Assigned { group, queue, .. } => {
                self.resets.remove(&(group, queue));
                let hand = self.hands.entry((life, queue)).or_default();
                hand.open.clear();
                hand.done = None;
            }
            Deed::Delivered {
                group,
                queue,
                run,
                batch,
                range,
                ..
            } => {
                let entries = (range.start..range.end).filter_map(|position| batch.entry(position));
                let offsets: BTreeSet<QueueOffset> = entries.map(|entry| entry.queue_offset()).collect();
                return self.delivered(life, (group, queue), (run, &offsets), view);
            }
            Deed::Settled {
                queue,
                run,
                offset,
                verdict,
                ..
            } => self.settled(life, queue, run, offset, is_success(verdict)),
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                let copied = self.copies.answered(life, conn, opaque);
                if let (Some(origin), Answer::Done) = (copied, answer) {
                    self.copied(life, origin, view);
                }
            }
            Deed::Asked { .. } | Deed::Unlocking { .. } => self.asked(at, life, deed),
            // Somebody wants to have it again.
            Deed::Wished(AppEvent::Seek { .. }) => self.frontiers.clear(),
            Deed::Killed | Deed::Closed => self.hands.retain(|(of, _), _| *of != life),
            _ => {}
        }
        Ok(())
    }
}

impl Invariant for NoInversion {
    fn name(&self) -> &'static str {
        "no_inversion"
    }

    fn looks_at(&self) -> Sights {
        Orderly::LIVES
            .and(Obstacles::SIGHTS)
            .and(Leases::SIGHTS)
            .and(Sights::of(&[
                Sight::Disconnected,
                Sight::AskedAgain,
                Sight::AnsweredAgain,
                Sight::Unlocking,
                Sight::Delivered,
                Sight::Settled,
                Sight::Wished,
                Sight::BrokerSentBack,
                Sight::BrokerCommitted,
                Sight::BrokerReset,
                Sight::BrokerLock,
                Sight::Fault,
            ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        match seen.what {
            What::Member { life, deed } => {
                if self.orderly.see(life, &deed, view) {
                    return self.of_member(seen.at, life, &deed, view);
                }
            }
            What::Broker(deed) => {
                if !self.members.is_empty() {
                    self.of_broker(seen.at, deed, view);
                }
            }
            What::Fault(
                Upheaval::LocksLost
                | Upheaval::NodeDied(_)
                | Upheaval::NodeStopped(_)
                | Upheaval::NodeStarted(_),
            ) => {
                self.frontiers.clear();
                self.given.clear();
                self.doubtful_until = seen.at + BELIEF;
            }
            What::Fault(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::config::ConsumeMode;
    use rocketmq_consumer_core::event::Verdict;
    use rocketmq_consumer_core::message::OrderlyOutcome::{Commit, Suspend};

    use super::super::bench::{Bench, QUEUE};
    use super::*;

    /// Two members, of which the first owns the queue.
    fn bench() -> Bench<NoInversion> {
        let mut bench = Bench::new(NoInversion::default());
        bench.world.config.set_mode(ConsumeMode::Orderly);
        bench.at(100_000).ours().as_life(1).ours().as_life(0);
        bench.locked(true, 100_000).assign(1, 100).legal();
        bench
    }

    #[test]
    fn one_run_at_a_time_is_with_a_handler() {
        bench()
            .deliver(1, 100..101)
            .deliver(2, 101..102)
            .breaks("while a handler has");
        let mut anew = bench();
        anew.deliver(1, 100..101).revoke(1).assign(2, 100);
        anew.deliver(2, 100..101).breaks("while a handler has");
        let mut ended = bench();
        ended.deliver(1, 100..102).ordered(1, 100, Commit);
        ended.ordered(1, 101, Commit).deliver(2, 102..103).legal();
    }

    #[test]
    fn a_suspended_message_comes_before_its_successors() {
        let mut bench = bench();
        bench
            .deliver(1, 100..101)
            .ordered(1, 100, Suspend)
            .deliver_again(2, 100..101, 1);
        bench.ordered(2, 100, Suspend).legal();
        bench.deliver(3, 101..102).breaks("are done");
        let mut withdrawn = self::bench();
        withdrawn.deliver(1, 100..101).settle(1, 100, Verdict::NotStarted);
        withdrawn.deliver(2, 101..102).breaks("are done");
    }

    #[test]
    fn what_is_done_does_not_come_again_in_one_ownership() {
        let mut bench = bench();
        bench
            .deliver(1, 100..102)
            .ordered(1, 100, Commit)
            .ordered(1, 101, Suspend);
        bench.deliver(2, 100..101).breaks("is done");
        let mut moved = self::bench();
        moved
            .deliver(1, 100..101)
            .ordered(1, 100, Commit)
            .revoke(1)
            .assign(2, 90);
        moved.deliver(2, 90..91).legal();
    }

    #[test]
    fn a_message_whose_copy_is_stored_is_done_and_so_is_one_that_is_buried() {
        let mut copied = bench();
        copied.deliver(1, 100..101).ordered(1, 100, Suspend).copy(100);
        copied.answer_last(Answer::Done).deliver(2, 101..102).legal();
        let mut buried = bench();
        buried
            .deliver(1, 100..101)
            .ordered(1, 100, Suspend)
            .sent_back(100);
        buried.deliver(2, 101..102).legal();
    }

    /// The first member has finished 100 and given the lock back.
    fn handed_over() -> Bench<NoInversion> {
        let mut bench = bench();
        bench.deliver(1, 100..101).ordered(1, 100, Commit).unlocking();
        bench
    }

    #[test]
    fn what_was_finished_when_the_lock_moved_is_not_delivered_elsewhere() {
        let mut low = handed_over();
        low.unlocked()
            .as_life(1)
            .assign(1, 100)
            .deliver(1, 100..101)
            .breaks("given back");
        handed_over()
            .unlocked()
            .as_life(1)
            .assign(1, 101)
            .deliver(1, 101..102)
            .legal();
        let mut of_another_group = handed_over();
        let (group, member) = (GroupNo(1), Some(MemberId(0)));
        of_another_group.broker(BrokerDeed::Unlocked {
            group,
            queue: QUEUE,
            member,
        });
        of_another_group
            .as_life(1)
            .assign(1, 100)
            .deliver(1, 100..101)
            .legal();
        let mut expired = handed_over();
        expired.as_life(1).assign(1, 100).deliver(1, 100..101).legal();
    }

    #[test]
    fn what_brokers_lost_or_an_operator_wants_comes_again() {
        let again = |bench: &mut Bench<NoInversion>| {
            bench.as_life(1).assign(1, 100).deliver(1, 100..101).legal();
        };
        let mut kept = bench();
        kept.deliver(1, 100..101)
            .disconnected()
            .ordered(1, 100, Commit)
            .unlocking();
        again(kept.unlocked());
        again(handed_over().unlocked().upheaval(Upheaval::LocksLost));
        again(handed_over().upheaval(Upheaval::LocksLost).unlocked());
        let mut lost = bench();
        lost.deliver(1, 100..101).ordered(1, 100, Commit);
        again(lost.at(130_000).revoke(1).unlocking().unlocked());
        let (group, queue, offset) = (GroupNo(0), QUEUE, QueueOffset(100));
        let reset = BrokerDeed::Reset { group, queue, offset };
        again(handed_over().unlocked().broker(reset));
        again(handed_over().broker(reset).unlocking().unlocked());
        let mut overtaken = handed_over();
        overtaken.world.committed = Some(QueueOffset(100));
        overtaken.world.allowances.java_members = true;
        again(overtaken.unlocked());
        let late = BrokerDeed::Committed { group, queue, offset };
        let mut java = handed_over();
        java.world.allowances.java_members = true;
        again(java.unlocked().broker(late));
        let mut ours = handed_over();
        ours.unlocked().broker(late).as_life(1).assign(1, 100);
        ours.deliver(1, 100..101).breaks("given back");
    }
}
