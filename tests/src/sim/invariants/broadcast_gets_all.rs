//! In a group that broadcasts every member handles every message, keeps its offsets itself, and tells no broker.
//!
//! Source: behaviour of the Java client, "BROADCASTING, per topic" and "Local file"; P33, P50 and P51; W10. A member begins
//! exactly where its last life was kept, so that over a restart nothing below comes again and nothing is skipped; in
//! one life nothing it was done with comes again. What it wants kept passes nothing that a handler has. At rest every
//! member has handled everything, failures among it, and has kept that.
//!
//! Legal all the same: to read again what a broker, an operator or the application has moved the queue back to, and after damage what
//! the backup does not know.

use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::config::MessageModel;
use rocketmq_consumer_core::event::{AppEvent, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::request::pull::PullStatus;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{
    Answer, Ask, BrokerDeed, Deed, GroupNo, Kind, Life, MemberId, QueueNo, Seen, Sight, Sights, What,
};

/// What one member has, over all its lives.
#[derive(Debug, Default)]
struct Member {
    /// Messages it has handled, by their number.
    handled: Vec<bool>,
    /// What its store is known to have.
    kept: BTreeMap<QueueNo, QueueOffset>,
}

/// One of its lives.
#[derive(Debug)]
struct Reader {
    member: MemberId,
    group: GroupNo,
    queues: BTreeMap<QueueNo, Reading>,
}

/// One queue in one life.
#[derive(Debug, Default)]
struct Reading {
    /// Where it has to begin: where it was kept.
    begins: Option<QueueOffset>,
    /// Handlers have these.
    open: BTreeSet<QueueOffset>,
    /// It is done with these.
    done: BTreeSet<QueueOffset>,
}

impl Reading {
    /// It is kept up to the first message that a handler has: what was done behind that comes again.
    fn give_up(&mut self) {
        if let Some(first) = self.open.pop_first() {
            self.done.split_off(&first);
        }
        self.open.clear();
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct BroadcastGetsAll {
    messages: u32,
    members: BTreeMap<MemberId, Member>,
    readers: BTreeMap<Life, Reader>,
    pulls: Requests<QueueNo>,
}

impl BroadcastGetsAll {
    fn begun(&mut self, life: Life, member: MemberId, group: GroupNo) {
        let kept = &mut self.members.entry(member).or_default().kept;
        kept.clear();
        let queues = BTreeMap::new();
        self.readers.insert(
            life,
            Reader {
                member,
                group,
                queues,
            },
        );
    }

    fn reading(&mut self, life: Life, queue: QueueNo) -> Option<&mut Reading> {
        let reader = self.readers.get_mut(&life)?;
        Some(reader.queues.entry(queue).or_default())
    }

    fn kept(&mut self, life: Life, queue: QueueNo, offset: QueueOffset) {
        let member = self.readers.get(&life).map(|reader| reader.member);
        if let Some(member) = member.and_then(|member| self.members.get_mut(&member)) {
            member.kept.insert(queue, offset);
        }
    }

    fn settled(&mut self, life: Life, queue: QueueNo, offset: QueueOffset, origin: Option<u32>) {
        if let Some(reading) = self.reading(life, queue) {
            // What comes late, for an ownership that has ended, counts for nothing.
            if reading.open.remove(&offset) {
                reading.done.insert(offset);
            }
        }
        let member = self.readers.get(&life).map(|reader| reader.member);
        let member = member.and_then(|member| self.members.get_mut(&member));
        if let (Some(member), Some(origin)) = (member, origin) {
            let index = origin as usize;
            if member.handled.len() <= index {
                member.handled.resize(index + 1, false);
            }
            member.handled[index] = true;
        }
    }

    /// What is wrong with something a member does, if anything is.
    fn judge(&mut self, life: Life, deed: &Deed<'_>, view: &dyn View) -> Option<String> {
        match *deed {
            Deed::Assigned { queue, from, .. } => {
                let reading = self.reading(life, queue)?;
                let begins = reading.begins.take().filter(|begins| *begins != from)?;
                Some(format!(
                    "begins {} at {from}, kept was {begins}",
                    view.queue(queue)
                ))
            }
            Deed::Delivered {
                queue, batch, range, ..
            } => {
                let reading = self.reading(life, queue)?;
                let entries = (range.start..range.end).filter_map(|position| batch.entry(position));
                for offset in entries.map(|entry| entry.queue_offset()) {
                    if reading.done.contains(&offset) {
                        return Some(format!("delivers {offset} of {} again", view.queue(queue)));
                    }
                    reading.open.insert(offset);
                }
                None
            }
            Deed::Keeping { queue, offset } => {
                let reading = self.reading(life, queue)?;
                let first = reading.open.first().filter(|first| **first < offset)?;
                let name = view.queue(queue);
                Some(format!("keeps {offset} of {name}, a handler has {first}"))
            }
            Deed::Asked { ask, .. } => {
                let carries = matches!(ask, Ask::Pull { commit: Some(_), .. });
                let tells = matches!(
                    ask,
                    Ask::Commit { .. }
                        | Ask::SendBack { .. }
                        | Ask::Copy { .. }
                        | Ask::Members { .. }
                        | Ask::Lock { .. }
                        | Ask::QueryOffset { .. }
                );
                (carries || tells).then(|| format!("asks {ask:?}, but it broadcasts"))
            }
            _ => None,
        }
    }

    fn note(&mut self, life: Life, deed: &Deed<'_>, view: &dyn View) {
        match *deed {
            Deed::Found { queue, offset } => {
                if let Some(reading) = self.reading(life, queue) {
                    reading.begins = Some(offset);
                }
                self.kept(life, queue, offset);
            }
            Deed::Kept { queue, offset } => self.kept(life, queue, offset),
            Deed::Abandoned { queue, offset, .. } => {
                self.settled(life, queue, offset, view.origin(queue, offset));
            }
            Deed::Revoked { queue, .. } => {
                if let Some(reading) = self.reading(life, queue) {
                    reading.give_up();
                }
            }
            Deed::Settled {
                queue,
                offset,
                verdict,
                ..
            } => {
                if verdict == Verdict::NotStarted {
                    if let Some(reading) = self.reading(life, queue) {
                        reading.open.remove(&offset);
                    }
                } else {
                    self.settled(life, queue, offset, view.origin(queue, offset));
                }
            }
            Deed::Asked {
                conn,
                opaque,
                ask: Ask::Pull { queue, .. },
                ..
            } => {
                self.pulls.asked(life, conn, opaque, queue);
            }
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                let queue = self.pulls.answered(life, conn, opaque);
                let moved = matches!(
                    answer,
                    Answer::Pulled {
                        status: PullStatus::OffsetMoved,
                        ..
                    }
                );
                if let Some(queue) = queue.filter(|_| moved)
                    && let Some(reading) = self.reading(life, queue)
                {
                    *reading = Reading::default();
                }
            }
            Deed::Wished(AppEvent::Seek { queue, .. }) => {
                let queues = self
                    .readers
                    .get_mut(&life)
                    .into_iter()
                    .flat_map(|of| &mut of.queues);
                for (_, reading) in queues.filter(|(no, _)| *view.queue(**no) == **queue) {
                    *reading = Reading::default();
                }
            }
            Deed::Killed | Deed::Closed => _ = self.readers.remove(&life),
            _ => {}
        }
    }

    fn check(&self, reader: &Reader, view: &dyn View) -> Result<(), String> {
        let Some(member) = self.members.get(&reader.member) else {
            return Ok(());
        };
        let is_open = |origin: &u32| member.handled.get(*origin as usize) != Some(&true);
        let mut wanted = (0..self.messages).filter(|origin| view.wants(reader.group, *origin));
        if let Some(origin) = wanted.find(is_open) {
            return Err(format!("has never handled message {origin}"));
        }
        for queue in view.queues_of(reader.group) {
            let (max, kept) = (view.max_offset(queue), member.kept.get(&queue));
            let name = view.queue(queue);
            let is_retry = name.topic.as_str().starts_with('%');
            if max > QueueOffset(0) && kept != Some(&max) && !is_retry {
                return Err(format!(
                    "is at rest in {name} with {kept:?} kept, its end is {max}"
                ));
            }
        }
        Ok(())
    }
}

impl Invariant for BroadcastGetsAll {
    fn name(&self) -> &'static str {
        "broadcast_gets_all"
    }

    fn looks_at(&self) -> Sights {
        requests::ENDS.and(Sights::ASKED).and(Sights::of(&[
            Sight::Begun,
            Sight::Wished,
            Sight::AnsweredPull,
            Sight::Shelf,
            Sight::Assigned,
            Sight::Revoked,
            Sight::Delivered,
            Sight::Abandoned,
            Sight::Settled,
            Sight::BrokerStored,
        ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let (life, deed) = match seen.what {
            What::Member { life, deed } => (life, deed),
            What::Broker(BrokerDeed::Stored { origin, .. }) => {
                self.messages = self.messages.max(origin + 1);
                return Ok(());
            }
            What::Broker(_) | What::Fault(_) => return Ok(()),
        };
        if let Deed::Begun {
            kind: Kind::Ours,
            member,
            group,
        } = deed
            && *view.config(life).model() == MessageModel::Broadcasting
        {
            self.begun(life, member, group);
        }
        if self.readers.is_empty() || !self.readers.contains_key(&life) {
            return Ok(());
        }
        self.pulls.see(life, &deed, |_| {});
        if let Some(words) = self.judge(life, &deed, view) {
            return Err(Broken(format!("{life:?} {words}")));
        }
        self.note(life, &deed, view);
        Ok(())
    }

    fn at_rest(&mut self, _: Instant, view: &dyn View) -> Result<(), Broken> {
        for life in view.alive() {
            if let Some(reader) = self.readers.get(life) {
                self.check(reader, view)
                    .map_err(|words| Broken(format!("{life:?} {words}")))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, Mover, QUEUE, retry, run_id};
    use super::*;

    /// Two messages are there, and the member has none of them.
    fn bench() -> Bench<BroadcastGetsAll> {
        let mut bench = Bench::new(BroadcastGetsAll::default());
        bench.world.config.set_model(MessageModel::Broadcasting);
        bench.world.max = QueueOffset(2);
        bench.ours();
        for origin in 0..2 {
            let (queue, offset) = (QUEUE, QueueOffset(origin.into()));
            bench.broker(BrokerDeed::Stored {
                queue,
                offset,
                origin,
            });
        }
        bench
    }

    fn kept(bench: &mut Bench<BroadcastGetsAll>, offset: i64) -> &mut Bench<BroadcastGetsAll> {
        let (queue, offset) = (QUEUE, QueueOffset(offset));
        bench
            .deed(Deed::Keeping { queue, offset })
            .deed(Deed::Kept { queue, offset })
    }

    fn found(offset: i64) -> Bench<BroadcastGetsAll> {
        let mut bench = bench();
        let (queue, offset) = (QUEUE, QueueOffset(offset));
        bench.deed(Deed::Found { queue, offset });
        bench
    }

    #[test]
    fn at_rest_everything_is_handled_and_kept() {
        let mut all = bench();
        all.assign(1, 0).deliver(1, 0..2).done(1, 0).settle(1, 1, retry());
        kept(&mut all, 2).rest().legal();
        let mut one = bench();
        one.assign(1, 0).deliver(1, 0..2).done(1, 0);
        one.rest().breaks("never handled message 1");
        let mut not_kept = bench();
        not_kept.assign(1, 0).deliver(1, 0..2).done(1, 0).done(1, 1);
        kept(&mut not_kept, 1).rest().breaks("its end is 2");
    }

    #[test]
    fn a_life_begins_where_the_last_one_was_kept() {
        found(1).assign(1, 1).legal();
        found(1).assign(1, 0).breaks("kept was 1");
        found(1).assign(1, 2).breaks("kept was 1");
        let mut again = found(1);
        again.assign(1, 1).revoke(1).assign(2, 2).legal();
    }

    #[test]
    fn nothing_comes_again_in_one_life_unless_it_was_moved_back() {
        let mut twice = bench();
        twice.assign(1, 0).deliver(1, 0..1).settle(1, 0, retry());
        twice.deliver(2, 0..1).breaks("again");
        let mut unbegun = bench();
        unbegun
            .assign(1, 0)
            .deliver(1, 0..1)
            .settle(1, 0, Verdict::NotStarted);
        unbegun.deliver(2, 0..1).legal();
        let mut lost = bench();
        lost.assign(1, 0)
            .deliver(1, 0..1)
            .revoke(1)
            .done(1, 0)
            .assign(2, 0);
        lost.deliver(2, 0..1).legal();
        let mut behind = bench();
        behind
            .assign(1, 0)
            .deliver(1, 0..2)
            .done(1, 1)
            .revoke(1)
            .assign(2, 0);
        behind.deliver(2, 0..2).legal();
        let mut before = bench();
        before
            .assign(1, 0)
            .deliver(1, 0..2)
            .done(1, 0)
            .revoke(1)
            .assign(2, 0);
        before.deliver(2, 0..1).breaks("again");
        let mut moved = bench();
        moved.assign(1, 0).deliver(1, 0..1).done(1, 0).pull(1, None);
        moved
            .moved(0, (0, 2), Mover::Reset)
            .assign(2, 0)
            .deliver(2, 0..1)
            .legal();
    }

    #[test]
    fn what_is_kept_passes_nothing_that_a_handler_has() {
        let mut bench = bench();
        bench.assign(1, 0).deliver(1, 0..2).done(1, 1);
        let (queue, offset) = (QUEUE, QueueOffset(1));
        bench
            .deed(Deed::Keeping { queue, offset })
            .breaks("a handler has 0");
    }

    #[test]
    fn what_is_given_up_is_done() {
        let mut bench = bench();
        bench.assign(1, 0).deliver(1, 0..2).done(1, 1);
        let (queue, offset, run) = (QUEUE, QueueOffset(0), run_id(1));
        bench.deed(Deed::Abandoned { queue, offset, run });
        kept(&mut bench, 2).rest().legal();
    }

    #[test]
    fn no_broker_is_told() {
        bench().pull(0, None).legal();
        bench().pull(0, Some(1)).breaks("broadcasts");
        bench().commit(1).breaks("broadcasts");
        bench().send_back(1).breaks("broadcasts");
        bench().query().breaks("broadcasts");
        let mut shares = Bench::new(BroadcastGetsAll::default());
        shares.ours().commit(1).legal();
    }
}
