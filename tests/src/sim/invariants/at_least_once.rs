//! Every message that a group wants is handled with success at least once, or lies among its dead letters; and
//! its progress is stored.
//!
//! Source: P51 and P60, demanded when the world has come to rest after everything was mended. A message is known
//! by its first copy: whether it is handled from the retry topic makes no difference. Progress has come to the
//! end of every queue, or the next start would deliver again what is long done.
//!
//! Legal all the same: handling a message twice. A group that does not start at the earliest message may pass
//! over what was stored before it began, and is only held to its progress; one whose members subscribe
//! differently to neither. What a group that broadcasts owes is another rule's business.

use rocketmq_consumer_core::config::{MessageModel, StartAt};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::time::Instant;
use std::collections::BTreeMap;

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{BrokerDeed, Deed, GroupNo, Seen, Sight, Sights, What, is_success};

/// Messages that a report of a violation names.
const NAMED: usize = 5;

/// What a group has finished.
#[derive(Debug, Default)]
struct Group {
    finished: Vec<bool>,
    starts_late: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct AtLeastOnce {
    messages: u32,
    groups: BTreeMap<GroupNo, Group>,
}

impl AtLeastOnce {
    fn finish(&mut self, group: GroupNo, origin: u32) {
        let finished = &mut self.groups.entry(group).or_default().finished;
        let index = origin as usize;
        if finished.len() <= index {
            finished.resize(index + 1, false);
        }
        finished[index] = true;
    }
}

impl Invariant for AtLeastOnce {
    fn name(&self) -> &'static str {
        "at_least_once"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[Sight::Begun, Sight::Settled, Sight::BrokerStored])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        match seen.what {
            What::Member {
                life,
                deed: Deed::Begun { group, .. },
            } => {
                let config = view.config(life);
                if *config.model() == MessageModel::Broadcasting {
                    return Ok(());
                }
                let late = *config.start_at() != StartAt::Earliest;
                self.groups.entry(group).or_default().starts_late |= late;
            }
            What::Member {
                deed:
                    Deed::Settled {
                        group,
                        queue,
                        offset,
                        verdict,
                        ..
                    },
                ..
            } if is_success(verdict) => {
                if let Some(origin) = view
                    .origin(queue, offset)
                    .filter(|_| self.groups.contains_key(&group))
                {
                    self.finish(group, origin);
                }
            }
            What::Broker(BrokerDeed::Stored { queue, origin, .. }) => {
                self.messages = self.messages.max(origin + 1);
                if let Some(dead_of) = view.queue(queue).topic.as_str().strip_prefix("%DLQ%") {
                    let groups: Vec<GroupNo> = self.groups.keys().copied().collect();
                    let group = groups
                        .into_iter()
                        .find(|group| view.group(*group).as_str() == dead_of);
                    if let Some(group) = group {
                        self.finish(group, origin);
                    }
                }
            }
            What::Member { .. } | What::Broker(_) | What::Fault(_) => {}
        }
        Ok(())
    }

    fn at_rest(&mut self, _: Instant, view: &dyn View) -> Result<(), Broken> {
        if view.allowances().different_subscriptions {
            return Ok(());
        }
        for (no, group) in &self.groups {
            let is_open = |origin: &u32| !group.finished.get(*origin as usize).copied().unwrap_or(false);
            let open = (0..self.messages).filter(|origin| is_open(origin) && view.wants(*no, *origin));
            let open: Vec<u32> = open.filter(|_| !group.starts_late).take(NAMED).collect();
            if !open.is_empty() {
                let name = view.group(*no);
                return Err(Broken(format!(
                    "{name} has never finished messages {open:?} (at most {NAMED} named)"
                )));
            }
            for queue in view.queues_of(*no) {
                let committed = view.committed(*no, queue).unwrap_or(QueueOffset(0));
                let max = view.max_offset(queue);
                if committed != max {
                    let (name, queue) = (view.group(*no), view.queue(queue));
                    return Err(Broken(format!(
                        "{name} is at rest in {queue} at {committed}, its end is {max}"
                    )));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, QUEUE, retry};
    use super::*;
    use crate::sim::seen::QueueNo;

    fn stored(queue: QueueNo, origin: u32) -> BrokerDeed {
        BrokerDeed::Stored {
            queue,
            offset: QueueOffset(origin.into()),
            origin,
        }
    }

    fn bench() -> Bench<AtLeastOnce> {
        let mut bench = Bench::new(AtLeastOnce::default());
        bench.world.config.set_start_at(StartAt::Earliest);
        bench.world.max = QueueOffset(2);
        bench.world.committed = Some(QueueOffset(2));
        bench
            .ours()
            .broker(stored(QUEUE, 0))
            .broker(stored(QUEUE, 1))
            .done(1, 0);
        bench
    }

    #[test]
    fn every_message_is_finished_at_least_once() {
        bench().rest().breaks("[1]");
        bench().done(1, 1).done(2, 1).rest().legal();
        bench().settle(1, 1, retry()).rest().breaks("[1]");
    }

    #[test]
    fn a_dead_letter_is_finished() {
        bench().broker(stored(QueueNo(1), 1)).rest().legal();
    }

    #[test]
    fn progress_has_come_to_the_end() {
        for (committed, legal) in [(Some(2), true), (Some(1), false), (None, false)] {
            let mut bench = bench();
            bench.world.committed = committed.map(QueueOffset);
            bench.done(1, 1).rest();
            if legal {
                bench.legal();
            } else {
                bench.breaks("its end is 2");
            }
        }
    }

    #[test]
    fn a_group_that_starts_late_may_pass_over_what_was_there() {
        let mut bench = bench();
        bench.world.config.set_start_at(StartAt::Latest);
        bench.ours().rest().legal();
    }
}
