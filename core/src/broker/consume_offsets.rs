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

    /// What a group has stored, by topic and queue.
    pub(crate) fn of_group(
        &self,
        group: &ConsumerGroup,
    ) -> impl Iterator<Item = (QueueRef<'_>, QueueOffset)> + use<'_> {
        let topics = self.groups.get(group).into_iter().flatten();
        topics.flat_map(|(topic, queues)| {
            let committed = queues.iter().filter_map(|(id, at)| Some((*id, at.committed?)));
            committed.map(move |(id, offset)| ((topic, id), offset))
        })
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

    /// Every offset falls by this much, but not below 0: older ones are on the disk.
    pub(crate) fn rewind(&mut self, by: u64) {
        let by = i64::try_from(by).unwrap_or(i64::MAX);
        self.keep(|position| {
            let committed = position.committed?.0;
            Some(QueueOffset(committed.saturating_sub(by).max(committed.min(0))))
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

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const FLUSH: Duration = Duration::from_secs(5);

    const fn secs(secs: u64) -> Instant {
        Instant::from_millis(secs * 1_000)
    }

    /// Offsets under test, and one group and queue.
    struct Bench {
        offsets: ConsumeOffsets,
        group: ConsumerGroup,
        topic: Topic,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                offsets: ConsumeOffsets::new(FLUSH, 10),
                group: "g".into(),
                topic: "T".into(),
            }
        }

        fn update(&mut self, at: u64, offset: i64) -> Commit {
            let queue = (&self.topic, QueueId(0));
            self.offsets
                .update(secs(at), &self.group, queue, QueueOffset(offset))
        }

        fn commit(&mut self, at: u64, offset: i64) -> Commit {
            let queue = (&self.topic, QueueId(0));
            self.offsets
                .commit(secs(at), &self.group, queue, QueueOffset(offset))
        }

        fn reset(&mut self, at: u64, offset: i64) -> Commit {
            let queue = (&self.topic, QueueId(0));
            self.offsets
                .reset(secs(at), &self.group, queue, QueueOffset(offset))
        }

        fn take_reset(&mut self) -> Option<i64> {
            let queue = (&self.topic, QueueId(0));
            self.offsets.take_reset(&self.group, queue).map(|offset| offset.0)
        }

        /// What a query is answered.
        fn query(&self) -> Option<i64> {
            let queue = (&self.topic, QueueId(0));
            self.offsets.query(&self.group, queue).map(|offset| offset.0)
        }

        fn pull_offset(&self) -> Option<i64> {
            let queue = (&self.topic, QueueId(0));
            self.offsets
                .pull_offset(&self.group, queue)
                .map(|offset| offset.0)
        }
    }

    #[test]
    fn a_commit_overwrites_whatever_was_there() {
        let mut bench = Bench::new();
        assert_eq!(bench.query(), None);
        for (offset, stored) in [
            (5, Some(5)),
            (1_000, Some(1_000)),
            (3, Some(3)),
            (-1, None),
            (0, Some(0)),
        ] {
            assert_eq!(bench.update(1, offset), Commit::Stored);
            assert_eq!(bench.query(), stored);
        }
    }

    #[test]
    fn a_pending_reset_overrides_queries_and_swallows_updates_until_one_pull_took_it() {
        let mut bench = Bench::new();
        bench.update(1, 50);
        assert_eq!(bench.reset(2, 7), Commit::Stored);
        assert_eq!(bench.update(3, 60), Commit::ResetPending);
        assert_eq!(bench.query(), Some(7));
        // The commit on a pull is not asked: it writes over the value, and the mark stays.
        assert_eq!(bench.commit(3, 61), Commit::Stored);
        assert_eq!(bench.query(), Some(7));
        assert_eq!((bench.take_reset(), bench.take_reset()), (Some(7), None));
        assert_eq!(bench.query(), Some(61));
        assert_eq!((bench.update(4, 62), bench.query()), (Commit::Stored, Some(62)));
    }

    #[test]
    fn a_crash_forgets_what_came_after_the_last_tick() {
        for (commits, crash, left) in [
            ([(1, 10)].as_slice(), 4, None),
            (&[(1, 10)], 5, Some(10)),
            (&[(4, 10), (5, 20)], 9, Some(10)),
            (&[(4, 10), (5, 20), (9, 30)], 9, Some(10)),
            (&[(4, 10), (5, 20), (9, 30)], 10, Some(30)),
            (&[(4, 10), (11, 20), (12, 5)], 14, Some(10)),
            (&[(4, 10), (11, 20), (12, 5)], 15, Some(5)),
        ] {
            let mut bench = Bench::new();
            for (at, offset) in commits {
                bench.commit(*at, *offset);
            }
            bench.offsets.crash(secs(crash));
            assert_eq!(bench.query(), left, "{commits:?} {crash}");
            bench.offsets.crash(secs(crash));
            assert_eq!(bench.query(), left, "what survived one crash survives the next");
        }
    }

    #[test]
    fn a_crash_forgets_marks_and_keeps_the_offset_that_was_reset_to() {
        let mut bench = Bench::new();
        bench.reset(1, 7);
        bench.offsets.crash(secs(6));
        assert_eq!((bench.query(), bench.take_reset()), (Some(7), None));
    }

    #[test]
    fn an_orderly_end_forgets_only_what_is_in_memory() {
        let mut bench = Bench::new();
        bench.reset(6, 7);
        let queue = (&bench.topic, QueueId(0));
        bench.offsets.pulled(&bench.group, queue, QueueOffset(90));
        bench.offsets.stop();
        assert_eq!(
            (bench.query(), bench.pull_offset(), bench.take_reset()),
            (Some(7), Some(7), None)
        );
        bench.commit(7, 8);
        bench.offsets.crash(secs(8));
        assert_eq!(bench.query(), Some(7), "it was on disk before the next tick");
    }

    #[test]
    fn older_offsets_are_lower_and_no_less_than_0() {
        for (stored, by, left) in [
            (7, 3, Some(4)),
            (7, 8, Some(0)),
            (7, u64::MAX, Some(0)),
            (-1, 3, None),
        ] {
            let mut offsets = Bench::new();
            offsets.update(1, stored);
            offsets.offsets.rewind(by);
            assert_eq!(offsets.query(), left, "{stored} - {by}");
        }
        let mut offsets = Bench::new();
        offsets.reset(1, 7);
        offsets.offsets.rewind(2);
        assert_eq!((offsets.query(), offsets.take_reset()), (Some(5), None));
    }

    #[test]
    fn a_pull_leaves_its_own_trace() {
        let mut bench = Bench::new();
        bench.commit(1, 5);
        assert_eq!(bench.pull_offset(), Some(5));
        let queue = (&bench.topic, QueueId(0));
        assert_eq!(
            bench.offsets.pulled(&bench.group, queue, QueueOffset(9)),
            Commit::Stored
        );
        assert_eq!((bench.pull_offset(), bench.query()), (Some(9), Some(5)));
    }

    #[test]
    fn groups_and_topics_are_listed_and_forgotten() {
        let mut offsets = ConsumeOffsets::new(FLUSH, 10);
        let (g, h): (ConsumerGroup, ConsumerGroup) = ("g".into(), "h".into());
        let (t, u, v): (Topic, Topic, Topic) = ("T".into(), "U".into(), "V".into());
        for (group, topic, queue) in [(&g, &u, 1), (&g, &t, 0), (&g, &u, 0), (&h, &u, 77)] {
            offsets.commit(secs(1), group, (topic, QueueId(queue)), QueueOffset(9));
        }
        offsets.pulled(&g, (&v, QueueId(0)), QueueOffset(1));
        let of_group: Vec<_> = offsets
            .of_group(&g)
            .map(|(queue, offset)| (queue, offset.0))
            .collect();
        assert_eq!(
            of_group,
            [
                ((&t, QueueId(0)), 9),
                ((&u, QueueId(0)), 9),
                ((&u, QueueId(1)), 9)
            ]
        );
        assert_eq!(
            offsets.topics_of(&g).collect::<Vec<_>>(),
            [&t, &u],
            "a pull alone is no progress"
        );
        assert_eq!(offsets.groups_of(&u).collect::<Vec<_>>(), [&g, &h]);
        offsets.remove_topic(&u);
        assert_eq!(offsets.topics_of(&g).collect::<Vec<_>>(), [&t]);
        assert_eq!(offsets.of_group(&h).count(), 0);
        offsets.remove_group(&g);
        assert_eq!((offsets.of_group(&g).count(), offsets.len), (0, 0));
    }

    #[test]
    fn queues_have_a_limit_and_what_is_forgotten_makes_room() {
        let mut bench = Bench::new();
        let commit = |bench: &mut Bench, queue| {
            let queue = (&bench.topic, QueueId(queue));
            bench.offsets.update(secs(1), &bench.group, queue, QueueOffset(1))
        };
        for queue in 0..10 {
            assert_eq!(commit(&mut bench, queue), Commit::Stored);
        }
        assert_eq!(
            (commit(&mut bench, 10), commit(&mut bench, 3)),
            (Commit::Full, Commit::Stored)
        );
        let queue = (&bench.topic, QueueId(11));
        assert_eq!(
            bench.offsets.pulled(&bench.group, queue, QueueOffset(1)),
            Commit::Full
        );
        assert_eq!(
            bench.offsets.reset(secs(1), &bench.group, queue, QueueOffset(1)),
            Commit::Full
        );
        assert_eq!(bench.offsets.query(&bench.group, queue), None);
        bench.offsets.remove_topic(&bench.topic.clone());
        assert_eq!(commit(&mut bench, 10), Commit::Stored);
    }

    proptest! {
        /// The disk as it is: written whole at every tick, read back at every crash.
        #[test]
        fn offsets_are_what_a_disk_written_at_every_tick_would_give_back(
            steps in prop::collection::vec((0..8_u8, 0..3_i32, 0..100_i64, 0..2_500_u64), 1..60),
        ) {
            let mut bench = Bench::new();
            let (mut now, mut memory, mut disk) = (0, BTreeMap::new(), BTreeMap::new());
            for (step, queue, offset, later) in steps {
                if (now + later) / 5_000 > now / 5_000 {
                    disk = memory.clone();
                }
                now += later;
                let at = Instant::from_millis(now);
                match step {
                    0 => {
                        bench.offsets.crash(at);
                        memory = disk.clone();
                    }
                    1 => {
                        bench.offsets.stop();
                        disk = memory.clone();
                    }
                    _ => {
                        bench.offsets.commit(at, &bench.group, (&bench.topic, QueueId(queue)), QueueOffset(offset));
                        memory.insert(queue, offset);
                    }
                }
                let found = bench.offsets.of_group(&bench.group).map(|((_, id), offset)| (id.0, offset.0));
                prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), memory.clone());
                prop_assert_eq!(bench.offsets.len, memory.len());
            }
        }
    }
}
