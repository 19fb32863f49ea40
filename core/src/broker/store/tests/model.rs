//! The store against a list of everything that was ever put.

use proptest::prelude::*;

use super::*;

/// One record, as the list has it.
#[derive(Clone, Debug)]
struct Listed {
    queue: usize,
    offset: i64,
    physical: i64,
    at: u64,
    tag: &'static str,
    size: usize,
}

/// A list of what is there and of each queue its bounds; every question is a walk over the list.
#[derive(Debug, Default)]
struct Model {
    list: Vec<Listed>,
    min: [i64; QUEUES],
    next: [i64; QUEUES],
    physical: i64,
}

/// Two topics of two queues each.
const QUEUES: usize = 4;
const BYTES_MAX: usize = 2_500;
const TOPICS: [&str; 2] = ["T", "U"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Put {
        queue: usize,
        tag: &'static str,
        body: usize,
        later: u64,
    },
    Expire {
        queue: usize,
        min: i64,
    },
    Recreate {
        topic: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let tag = prop::sample::select(&["", "a", "b"][..]);
    prop_oneof![
        12 => (0..QUEUES, tag, 0..300_usize, 0..3_u64)
            .prop_map(|(queue, tag, body, later)| Step::Put { queue, tag, body, later }),
        2 => (0..QUEUES, -1..12_i64).prop_map(|(queue, min)| Step::Expire { queue, min }),
        1 => (0..TOPICS.len()).prop_map(|topic| Step::Recreate { topic }),
    ]
}

impl Model {
    fn put(&mut self, queue: usize, tag: &'static str, size: usize, at: u64) {
        let (offset, physical) = (self.next[queue], self.physical);
        self.list.push(Listed {
            queue,
            offset,
            physical,
            at,
            tag,
            size,
        });
        self.next[queue] += 1;
        self.physical += size as i64;
        while self.list.iter().map(|one| one.size).sum::<usize>() > BYTES_MAX && self.list.len() > 1 {
            let gone = self.list.remove(0);
            self.min[gone.queue] = gone.offset + 1;
        }
    }

    fn expire(&mut self, queue: usize, min: i64) {
        self.list.retain(|one| one.queue != queue || one.offset >= min);
        self.min[queue] = min.clamp(self.min[queue], self.next[queue]);
    }

    fn recreate(&mut self, topic: usize) {
        for queue in [2 * topic, 2 * topic + 1] {
            self.list.retain(|one| one.queue != queue);
            (self.min[queue], self.next[queue]) = (0, 0);
        }
    }

    /// What is seen of a queue at a time.
    fn seen(&self, queue: usize, time: u64) -> Vec<&Listed> {
        let of_queue = self.list.iter().filter(|one| one.queue == queue);
        of_queue.filter(|one| one.at <= time).collect()
    }

    /// Offsets of the records, where to go on, and how it ended.
    fn read(
        &self,
        queue: usize,
        time: u64,
        offset: i64,
        limits: ReadLimits,
        tag: Option<&str>,
    ) -> (Vec<i64>, i64, ReadStatus) {
        let seen = self.seen(queue, time);
        let (min, max) = (self.min[queue], self.min[queue] + seen.len() as i64);
        let ended = |status, next| (Vec::new(), next, status);
        match offset {
            _ if max == 0 => return ended(ReadStatus::NoMessageInQueue, 0),
            offset if offset < min => return ended(ReadStatus::OffsetTooSmall, min),
            offset if offset == max => return ended(ReadStatus::OffsetOverflowOne, max),
            offset if offset > max => return ended(ReadStatus::OffsetOverflowBadly, max),
            _ => {}
        }
        let (mut found, mut bytes, mut next) = (Vec::new(), 0, offset);
        for one in seen.iter().filter(|one| one.offset >= offset) {
            let is_full = found.len() >= limits.messages || bytes + one.size > limits.bytes;
            if is_full && !found.is_empty() {
                break;
            }
            next = one.offset + 1;
            if tag.is_none_or(|tag| tag == one.tag) {
                bytes += one.size;
                found.push(one.offset);
            }
        }
        let none = found.is_empty();
        (
            found,
            next,
            if none {
                ReadStatus::NoMatchedMessage
            } else {
                ReadStatus::Found
            },
        )
    }
}

proptest! {
    #[test]
    fn a_store_is_what_a_list_would_be(
        steps in prop::collection::vec(step(), 1..60),
        offset in -1..14_i64,
        messages in 0..6_usize,
        bytes in 0..900_usize,
        lag in 0..6_u64,
        tag in prop::sample::select(&[None, Some("a"), Some("b")][..]),
    ) {
        let settings = Settings { store_bytes_max: BYTES_MAX as u64, ..Settings::default() };
        let mut bench = Bench::new(&settings);
        let queues: Vec<(Topic, QueueId)> = TOPICS
            .into_iter()
            .flat_map(|topic| [0, 1].map(|id| (Topic::from(topic), QueueId(id))))
            .collect();
        bench.store.put_topic(TopicConfig::new("U".into(), 2)).expect("there is room");
        let mut model = Model::default();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Put { queue, tag, body, later } => {
                    now += later;
                    (bench.topic, bench.queue) = queues[queue].clone();
                    let stored = bench.put(now, tag, &alloc::vec![1; body]);
                    let want = (model.next[queue], model.physical);
                    prop_assert_eq!((stored.queue_offset.0, stored.physical_offset.0), want);
                    let properties = if tag.is_empty() { 0 } else { 7 };
                    model.put(queue, tag, OVERHEAD + body + properties, now);
                }
                Step::Expire { queue, min } => {
                    bench.store.expire(&queues[queue].0, queues[queue].1, QueueOffset(min));
                    model.expire(queue, min);
                }
                Step::Recreate { topic } => {
                    bench.store.remove_topic(&TOPICS[topic].into());
                    bench.store.put_topic(TopicConfig::new(TOPICS[topic].into(), 2)).expect("there is room");
                    model.recreate(topic);
                }
            }
            let bytes_of: usize = model.list.iter().map(|one| one.size).sum();
            prop_assert_eq!(bench.store.bytes(), bytes_of as u64);
            prop_assert_eq!(bench.store.log.len(), model.list.len(), "the log lists what lies in queues");
            let time = now.saturating_sub(lag);
            let view = if lag == 0 { View::Newest } else { View::AsOf(ms(time)) };
            let filter = tag.map_or(TagFilter::All, tags);
            for (queue, (topic, id)) in queues.iter().enumerate() {
                let limits = limits(messages, bytes);
                let read = bench.store.read(view, (topic, *id), QueueOffset(offset), limits, &filter);
                let want = model.read(queue, time, offset, limits, tag);
                prop_assert_eq!((offsets(&read), read.next.0, read.status), want);
                prop_assert_eq!(read.bytes, read.records.iter().map(|bytes| bytes.len()).sum::<usize>());
                let seen = model.seen(queue, time);
                prop_assert_eq!(bench.store.min_offset(topic, *id).0, model.min[queue]);
                let max = model.min[queue] + seen.len() as i64;
                prop_assert_eq!(bench.store.max_offset(view, topic, *id).0, max);
                let lower = seen.iter().find(|one| one.at >= offset.unsigned_abs()).map_or(max, |one| one.offset);
                let time = wall(offset.abs());
                prop_assert_eq!(bench.store.search(view, (topic, *id), time, Boundary::Lower).0, lower);
                let upper = seen.iter().rfind(|one| one.at <= offset.unsigned_abs());
                let upper = upper.map_or(model.min[queue], |one| one.offset);
                prop_assert_eq!(bench.store.search(view, (topic, *id), time, Boundary::Upper).0, upper);
            }
            for physical in (0..model.physical).step_by(31).chain(model.list.iter().map(|one| one.physical)) {
                let want = model.list.iter().find(|one| one.physical == physical && one.at <= time);
                let found = bench.store.by_physical(view, PhysicalOffset(physical));
                let found = found.map(|bytes| open(bytes).queue_offset().0);
                prop_assert_eq!(found, want.map(|one| one.offset));
            }
        }
    }
}
