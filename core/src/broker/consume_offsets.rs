//! How far groups are on one broker, and what a crash makes of that.
//!
//! A commit overwrites whatever was there: no range, no direction and no queue is checked, as on a real
//! broker. Offsets reach the disk at ticks of the flush interval; a crash takes a group back to what it had
//! at the last tick. Removals count as flushed at once.
//= rocketmq: ConsumerOffsetManager.commitOffset

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::ids::{ConsumerGroup, QueueId, QueueOffset, Topic};
use crate::time::Instant;

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It is stored.
    Stored,
    /// A reset is pending for this queue; the commit is answered with success and forgotten.
    ResetPending,
    /// The broker remembers as many queues as it may; this one is new and was not stored.
    Full,
}

/// A queue as a broker knows it.
pub(crate) type QueueRef<'a> = (&'a Topic, QueueId);

/// The offsets of all groups on one broker.
#[derive(Clone, Debug)]
pub(crate) struct ConsumeOffsets {
    groups: BTreeMap<ConsumerGroup, OfGroup>,
    flush_interval: Duration,
    len: usize,
    len_max: usize,
}

type OfGroup = BTreeMap<Topic, BTreeMap<QueueId, Position>>;

/// What is known of one group in one queue.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    committed: Option<QueueOffset>,
    /// When it was committed.
    at: Instant,
    /// What was committed at the last tick before that.
    flushed: Option<QueueOffset>,
    /// Where the last pull was told to go on (`pullOffsetTable`).
    pulled: Option<QueueOffset>,
    /// A reset that the next pull will be told of.
    reset: Option<QueueOffset>,
}

impl ConsumeOffsets {
    /// No offsets. At most `len_max` queues are remembered, counted once for each group.
    pub(crate) const fn new(flush_interval: Duration, len_max: usize) -> Self {
        Self {
            groups: BTreeMap::new(),
            flush_interval,
            len: 0,
            len_max,
        }
    }

    /// What a group says for itself (`UPDATE_CONSUMER_OFFSET`): swallowed while a reset is pending.
    pub(crate) fn update(
        &mut self,
        now: Instant,
        group: &ConsumerGroup,
        queue: QueueRef<'_>,
        offset: QueueOffset,
    ) -> Commit {
        if self.pending_reset(group, queue).is_some() {
            return Commit::ResetPending;
        }
        self.commit(now, group, queue, offset)
    }

    /// Stores an offset whatever was there, a pending reset or not: the commit that rides on a pull.
    pub(crate) fn commit(
        &mut self,
        now: Instant,
        group: &ConsumerGroup,
        queue: QueueRef<'_>,
        offset: QueueOffset,
    ) -> Commit {
        let tick = self.tick(now);
        let interval = self.flush_interval;
        let Some(position) = self.position_mut(group, queue) else {
            return Commit::Full;
        };
        if tick_of(position.at, interval) < tick {
            position.flushed = position.committed;
        }
        position.committed = Some(offset);
        position.at = now;
        Commit::Stored
    }

    /// What the group has stored. A negative value, which a commit may well leave, is none.
    pub(crate) fn stored(&self, group: &ConsumerGroup, queue: QueueRef<'_>) -> Option<QueueOffset> {
        let committed = self.position(group, queue)?.committed?;
        (committed.0 >= 0).then_some(committed)
    }

    /// What a query is answered: a pending reset, or what is stored.
    pub(crate) fn query(&self, group: &ConsumerGroup, queue: QueueRef<'_>) -> Option<QueueOffset> {
        self.pending_reset(group, queue)
            .or_else(|| self.stored(group, queue))
    }

    /// Notes where a pull was told to go on.
    pub(crate) fn pulled(&mut self, group: &ConsumerGroup, queue: QueueRef<'_>, next: QueueOffset) -> Commit {
        match self.position_mut(group, queue) {
            Some(position) => {
                position.pulled = Some(next);
                Commit::Stored
            }
            None => Commit::Full,
        }
    }

    /// Where the group's pulls are; what it has stored if it has not pulled since the broker started.
    pub(crate) fn pull_offset(&self, group: &ConsumerGroup, queue: QueueRef<'_>) -> Option<QueueOffset> {
        let position = self.position(group, queue)?;
        position.pulled.or_else(|| self.stored(group, queue))
    }

    /// Stores an offset from outside and marks it: it overrides queries and swallows updates until the
    /// next pull is told of it.
    pub(crate) fn reset(
        &mut self,
        now: Instant,
        group: &ConsumerGroup,
        queue: QueueRef<'_>,
        offset: QueueOffset,
    ) -> Commit {
        let done = self.commit(now, group, queue, offset);
        if let (Commit::Stored, Some(position)) = (done, self.position_mut(group, queue)) {
            position.reset = Some(offset);
        }
        done
    }

    /// Takes the mark of a reset, so that one pull is told of it.
    pub(crate) fn take_reset(
        &mut self,
        group: &ConsumerGroup,
        (topic, queue): QueueRef<'_>,
    ) -> Option<QueueOffset> {
        let queues = self.groups.get_mut(group)?.get_mut(topic)?;
        queues.get_mut(&queue)?.reset.take()
    }

    fn pending_reset(&self, group: &ConsumerGroup, queue: QueueRef<'_>) -> Option<QueueOffset> {
        self.position(group, queue)?.reset
    }

    /// The topics in which a group has stored something.
    pub(crate) fn topics_of(&self, group: &ConsumerGroup) -> impl Iterator<Item = &Topic> {
        let topics = self.groups.get(group).into_iter().flatten();
        topics
            .filter(|(_, queues)| has_stored(queues))
            .map(|(topic, _)| topic)
    }

    /// The groups that have stored something in a topic.
    pub(crate) fn groups_of(&self, topic: &Topic) -> impl Iterator<Item = &ConsumerGroup> {
        let groups = self.groups.iter();
        groups.filter_map(move |(group, topics)| {
            topics
                .get(topic)
                .filter(|queues| has_stored(queues))
                .map(|_| group)
        })
    }

    /// Forgets all that groups have in a topic.
    pub(crate) fn remove_topic(&mut self, topic: &Topic) {
        for topics in self.groups.values_mut() {
            self.len -= topics.remove(topic).map_or(0, |queues| queues.len());
        }
        self.groups.retain(|_, topics| !topics.is_empty());
    }

    /// Forgets a group.
    pub(crate) fn remove_group(&mut self, group: &ConsumerGroup) {
        let removed = self.groups.remove(group).into_iter().flatten();
        self.len -= removed.map(|(_, queues)| queues.len()).sum::<usize>();
    }

    /// The process ended in order: everything is on disk, and what is only in memory is gone.
    pub(crate) fn stop(&mut self) {
        self.keep(|position| position.committed);
    }

    /// The process died: what was committed after the last tick is gone too.
    pub(crate) fn crash(&mut self, now: Instant) {
        let (tick, interval) = (self.tick(now), self.flush_interval);
        self.keep(|position| {
            if tick_of(position.at, interval) < tick {
                position.committed
            } else {
                position.flushed
            }
        });
    }

    /// Keeps of each position this offset only.
    fn keep(&mut self, on_disk: impl Fn(&Position) -> Option<QueueOffset>) {
        self.len = 0;
        for queues in self.groups.values_mut().flat_map(BTreeMap::values_mut) {
            queues.retain(|_, position| {
                let kept = on_disk(position);
                *position = Position {
                    committed: kept,
                    at: position.at,
                    flushed: kept,
                    ..Position::default()
                };
                kept.is_some()
            });
            self.len += queues.len();
        }
        for topics in self.groups.values_mut() {
            topics.retain(|_, queues| !queues.is_empty());
        }
        self.groups.retain(|_, topics| !topics.is_empty());
    }

    fn tick(&self, now: Instant) -> u64 {
        tick_of(now, self.flush_interval)
    }

    fn position(&self, group: &ConsumerGroup, (topic, queue): QueueRef<'_>) -> Option<&Position> {
        self.groups.get(group)?.get(topic)?.get(&queue)
    }

    /// The position, made if there is room for it.
    fn position_mut(&mut self, group: &ConsumerGroup, (topic, queue): QueueRef<'_>) -> Option<&mut Position> {
        if self.position(group, (topic, queue)).is_none() {
            if self.len >= self.len_max {
                return None;
            }
            self.len += 1;
        }
        // Names are cloned only where they are new.
        if !self.groups.contains_key(group) {
            self.groups.insert(group.clone(), BTreeMap::new());
        }
        let topics = self.groups.get_mut(group)?;
        if !topics.contains_key(topic) {
            topics.insert(topic.clone(), BTreeMap::new());
        }
        Some(topics.get_mut(topic)?.entry(queue).or_default())
    }
}

/// How many flushes there were until then.
fn tick_of(at: Instant, interval: Duration) -> u64 {
    let interval = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
    // Without an interval each microsecond flushes.
    at.as_micros() / interval.max(1)
}

fn has_stored(queues: &BTreeMap<QueueId, Position>) -> bool {
    queues.values().any(|position| position.committed.is_some())
}
