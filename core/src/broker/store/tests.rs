mod model;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};

use super::*;
use crate::wire::stored::SysFlag;
use crate::wire::subscription::Subscription;

const HOST: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10911);
/// What a record of these tests costs besides its body and its properties: the topic is one byte long.
const OVERHEAD: usize = 92;

const fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

const fn wall(ms: i64) -> WallTime {
    WallTime::from_unix_millis(ms)
}

/// A store under test and one of its queues.
struct Bench {
    store: Store,
    topic: Topic,
    queue: QueueId,
}

impl Bench {
    fn new(settings: &Settings) -> Self {
        let mut store = Store::new(settings);
        let topic = Topic::from("T");
        store
            .put_topic(TopicConfig::new(topic.clone(), 2))
            .expect("there is room");
        Self {
            store,
            topic,
            queue: QueueId(0),
        }
    }

    /// With this many messages, stored at 0 ms, 1 ms and so on.
    fn with(messages: u64) -> Self {
        let mut bench = Self::new(&Settings::default());
        for n in 0..messages {
            bench.put(n, "a", b"x");
        }
        bench
    }

    fn put(&mut self, at: u64, tag: &str, body: &[u8]) -> Stored {
        let properties = if tag.is_empty() {
            String::new()
        } else {
            format!("TAGS\u{1}{tag}\u{2}")
        };
        self.put_with(at, &properties, body).expect("a legal record")
    }

    fn put_with(&mut self, at: u64, properties: &str, body: &[u8]) -> Result<Stored, PutError> {
        let store_at = wall(i64::try_from(at).expect("a small number"));
        let record = NewRecord {
            topic: &self.topic,
            queue_id: self.queue,
            flag: 1,
            sys_flag: SysFlag(0),
            born_at: wall(7),
            born_host: HOST,
            store_at,
            store_host: HOST,
            reconsume_times: 2,
            body,
            properties,
            due_at: None,
        };
        self.store.put(ms(at), &record)
    }

    fn read(&self, view: View, offset: i64, limits: ReadLimits, filter: &TagFilter) -> Read<'_> {
        let queue = (&self.topic, self.queue);
        self.store.read(view, queue, QueueOffset(offset), limits, filter)
    }

    fn read_all(&self, offset: i64) -> Read<'_> {
        self.read(View::Newest, offset, ReadLimits::default(), &TagFilter::All)
    }

    fn bounds(&self) -> (i64, i64) {
        let min = self.store.min_offset(&self.topic, self.queue);
        let max = self.store.max_offset(View::Newest, &self.topic, self.queue);
        (min.0, max.0)
    }

    fn expire(&mut self, min: i64) {
        self.store.expire(&self.topic, self.queue, QueueOffset(min));
    }
}

/// The offsets of what was read.
fn offsets(read: &Read<'_>) -> Vec<i64> {
    read.records
        .iter()
        .map(|bytes| open(bytes).queue_offset().0)
        .collect()
}

fn tags(expression: &str) -> TagFilter {
    TagFilter::of(&Subscription::tagged("T".into(), expression).expect("a legal expression"))
}

fn limits(messages: usize, bytes: usize) -> ReadLimits {
    ReadLimits { messages, bytes }
}

#[test]
fn a_record_says_what_was_put_and_where_it_lies() {
    let mut bench = Bench::new(&Settings::default());
    bench.put(1, "first", b"");
    let stored = bench
        .put_with(5, "TAGS\u{1}b\u{2}KEYS\u{1}k\u{2}", b"body")
        .expect("a legal record");
    assert_eq!(
        stored,
        Stored {
            queue_offset: QueueOffset(1),
            physical_offset: PhysicalOffset(OVERHEAD as i64 + 11),
            tag_code: TagCode(98),
        }
    );
    let read = bench.read_all(1);
    let record = open(read.records[0]);
    assert_eq!(
        (
            record.topic(),
            record.queue_id(),
            record.flag(),
            record.reconsume_times()
        ),
        ("T", QueueId(0), 1, 2)
    );
    assert_eq!(
        (record.queue_offset(), record.physical_offset()),
        (stored.queue_offset, stored.physical_offset)
    );
    assert_eq!(
        (record.born_at(), record.store_at(), record.store_host()),
        (wall(7), wall(5), HOST)
    );
    assert_eq!(
        (record.stored_body(), record.keys().as_deref()),
        (b"body".as_slice(), Some("k"))
    );
    assert_eq!(
        bench.store.max_physical().0,
        stored.physical_offset.0 + record.bytes().len() as i64
    );
}

#[test]
fn a_scheduled_record_is_filed_under_its_due_time() {
    let mut bench = Bench::new(&Settings::default());
    let topic = bench.topic.clone();
    let record = NewRecord {
        topic: &topic,
        queue_id: QueueId(1),
        flag: 0,
        sys_flag: SysFlag(0),
        born_at: wall(0),
        born_host: HOST,
        store_at: wall(0),
        store_host: HOST,
        reconsume_times: 0,
        body: b"",
        properties: "TAGS\u{1}b\u{2}",
        due_at: Some(wall(1_000)),
    };
    let stored = bench.store.put(ms(0), &record).expect("a legal record");
    assert_eq!(stored.tag_code, TagCode(1_000));
}

#[test]
fn what_does_not_fit_is_not_stored() {
    let mut bench = Bench::new(&Settings::default());
    let long = "x".repeat(32_768);
    assert_eq!(
        bench.put_with(0, &long, b""),
        Err(PutError::TooLong(TooLong::Properties))
    );
    for queue in [-1, 2, i32::MAX] {
        bench.queue = QueueId(queue);
        assert_eq!(bench.put_with(0, "", b""), Err(PutError::UnknownQueue), "{queue}");
        assert_eq!(
            bench.read_all(0).status,
            ReadStatus::NoMatchedLogicQueue,
            "{queue}"
        );
    }
    bench.topic = "other".into();
    assert_eq!(bench.put_with(0, "", b""), Err(PutError::UnknownTopic));
    assert_eq!(
        (bench.store.bytes(), bench.store.max_physical()),
        (0, PhysicalOffset(0))
    );
}

#[test]
fn a_read_ends_as_the_table_of_the_broker_says() {
    use ReadStatus as St;
    let mut empty = Bench::with(0);
    for offset in [0, 5, -1] {
        let read = empty.read_all(offset);
        assert_eq!((read.status, read.next.0), (St::NoMessageInQueue, 0), "{offset}");
    }
    empty.expire(9);
    assert_eq!(empty.bounds(), (0, 0), "there was nothing to expire");
    let mut bench = Bench::with(6);
    bench.expire(2);
    for (offset, status, next) in [
        (i64::MIN, St::OffsetTooSmall, 2),
        (1, St::OffsetTooSmall, 2),
        (2, St::Found, 6),
        (5, St::Found, 6),
        (6, St::OffsetOverflowOne, 6),
        (7, St::OffsetOverflowBadly, 6),
        (i64::MAX, St::OffsetOverflowBadly, 6),
    ] {
        let read = bench.read_all(offset);
        assert_eq!((read.status, read.next.0), (status, next), "{offset}");
        assert_eq!((read.min.0, read.max.0), (2, 6), "{offset}");
        assert_eq!(
            offsets(&read),
            if status == St::Found {
                (offset..6).collect()
            } else {
                Vec::new()
            }
        );
    }
    let none = bench.read(View::Newest, 3, ReadLimits::default(), &tags("b"));
    assert_eq!(
        (none.status, none.next.0, none.records.len()),
        (St::NoMatchedMessage, 6, 0)
    );
    drop(none);
    bench.expire(9);
    assert_eq!(
        bench.read_all(6).status,
        St::OffsetOverflowOne,
        "an emptied queue is not a new one"
    );
    assert_eq!(bench.read_all(0).next.0, 6);
}

#[test]
fn a_read_is_full_by_messages_or_bytes_and_the_first_always_fits() {
    let size = OVERHEAD + 1 + 7;
    for (messages, bytes, found) in [
        (0, 0, 1),
        (1, usize::MAX, 1),
        (5, usize::MAX, 5),
        (usize::MAX, usize::MAX, 32),
        (32, 3 * size, 3),
        (32, 3 * size - 1, 2),
        (32, 1, 1),
    ] {
        let bench = Bench::with(40);
        let read = bench.read(View::Newest, 2, limits(messages, bytes), &TagFilter::All);
        assert_eq!(
            (read.records.len(), read.bytes),
            (found, found * size),
            "{messages} {bytes}"
        );
        assert_eq!(read.next.0, 2 + found as i64);
    }
    let mut bench = Bench::new(&Settings::default());
    for body in [300_000, 100_000, 100_000, 100_000] {
        bench.put(0, "", &alloc::vec![0; body]);
    }
    assert_eq!(
        offsets(&bench.read(View::Newest, 0, limits(32, usize::MAX), &TagFilter::All)),
        [0]
    );
    assert_eq!(
        offsets(&bench.read(View::Newest, 1, limits(32, usize::MAX), &TagFilter::All)),
        [1, 2]
    );
}

#[test]
fn a_read_passes_over_what_is_not_wanted_but_not_without_end() {
    let mut bench = Bench::with(3);
    bench.put(3, "b", b"");
    for n in 4..1_000 {
        bench.put(n, "a", b"");
    }
    let b = tags("b || c");
    let read = bench.read(View::Newest, 0, ReadLimits::default(), &b);
    assert_eq!((offsets(&read), read.next.0), (Vec::from([3]), 800));
    // What comes behind a full batch is not passed over, wanted or not.
    let one = bench.read(View::Newest, 0, limits(1, usize::MAX), &b);
    assert_eq!((offsets(&one), one.next.0), (Vec::from([3]), 4));
    // Who asks for more than 800 messages gets as many looked at.
    let many = bench.read(View::Newest, 4, limits(900, usize::MAX), &b);
    assert_eq!((many.status, many.next.0), (ReadStatus::NoMatchedMessage, 904));
}

#[test]
fn a_slave_sees_what_was_stored_until_then() {
    let mut bench = Bench::with(5);
    let at = |time| View::AsOf(ms(time));
    let all = ReadLimits::default();
    for (time, max) in [(0, 1), (3, 4), (4, 5), (9, 5)] {
        assert_eq!(
            bench.store.max_offset(at(time), &bench.topic, bench.queue).0,
            max,
            "{time}"
        );
        assert_eq!(
            bench.read(at(time), 0, all, &TagFilter::All).next.0,
            max,
            "{time}"
        );
    }
    assert_eq!(
        bench.read(at(2), 4, all, &TagFilter::All).status,
        ReadStatus::OffsetOverflowBadly
    );
    let physical = open(bench.read_all(3).records[0]).physical_offset();
    assert_eq!(bench.store.by_physical(at(2), physical), None);
    assert!(bench.store.by_physical(at(3), physical).is_some());
    let queue = (&bench.topic, bench.queue);
    assert_eq!(bench.store.search(at(2), queue, wall(99), Boundary::Lower).0, 3);
    assert_eq!(bench.store.search(at(2), queue, wall(99), Boundary::Upper).0, 2);
    bench.expire(4);
    assert_eq!(
        bench.store.max_offset(at(2), &bench.topic, bench.queue).0,
        4,
        "never below the minimum"
    );
}

#[test]
fn times_are_searched_from_both_sides() {
    let mut bench = Bench::new(&Settings::default());
    let queue = |bench: &Bench, time, boundary| {
        bench
            .store
            .search(View::Newest, (&bench.topic, bench.queue), wall(time), boundary)
            .0
    };
    for boundary in [Boundary::Lower, Boundary::Upper] {
        assert_eq!(queue(&bench, 5, boundary), 0);
    }
    for at in [10, 20, 20, 20, 30] {
        bench.put(at, "", b"");
    }
    for (time, lower, upper) in [
        (-1, 0, 0),
        (10, 0, 0),
        (15, 1, 0),
        (20, 1, 3),
        (25, 4, 3),
        (30, 4, 4),
        (31, 5, 4),
    ] {
        assert_eq!(queue(&bench, time, Boundary::Lower), lower, "{time}");
        assert_eq!(queue(&bench, time, Boundary::Upper), upper, "{time}");
    }
    bench.expire(2);
    assert_eq!(queue(&bench, 0, Boundary::Lower), 2);
    let (store, of) = (&bench.store, (&bench.topic, bench.queue));
    assert_eq!(
        store.earliest_store_time(View::Newest, of.0, of.1),
        Some(wall(20))
    );
    assert_eq!(store.store_time(View::Newest, of, QueueOffset(4)), Some(wall(30)));
    assert_eq!(store.store_time(View::Newest, of, QueueOffset(1)), None);
    bench.expire(5);
    assert_eq!(
        bench
            .store
            .earliest_store_time(View::Newest, &bench.topic, bench.queue),
        None
    );
}

#[test]
fn a_physical_offset_names_one_record_until_it_is_gone() {
    let mut bench = Bench::with(3);
    let all: Vec<PhysicalOffset> = bench
        .store
        .records(&bench.topic, bench.queue)
        .map(|bytes| open(bytes).physical_offset())
        .collect();
    let found = |bench: &Bench, physical: PhysicalOffset| {
        let bytes = bench.store.by_physical(View::Newest, physical)?;
        Some(open(bytes).queue_offset().0)
    };
    assert_eq!(
        all.iter()
            .map(|physical| found(&bench, *physical))
            .collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2)]
    );
    assert_eq!(
        found(&bench, PhysicalOffset(all[1].0 + 1)),
        None,
        "inside a record"
    );
    assert_eq!(found(&bench, PhysicalOffset(-1)), None);
    assert_eq!(found(&bench, bench.store.max_physical()), None);
    bench.expire(1);
    assert_eq!((found(&bench, all[0]), found(&bench, all[1])), (None, Some(1)));
    assert!(bench.store.remove_topic(&bench.topic.clone()));
    assert_eq!((found(&bench, all[1]), bench.store.bytes()), (None, 0));
}

#[test]
fn the_oldest_records_of_the_broker_make_room() {
    let size = OVERHEAD as u64;
    let settings = Settings {
        store_bytes_max: 3 * size,
        ..Settings::default()
    };
    let mut bench = Bench::new(&settings);
    for queue in [0, 1, 0, 1, 1] {
        bench.queue = QueueId(queue);
        bench.put(0, "", b"");
    }
    assert_eq!((bench.bounds(), bench.store.bytes()), ((1, 3), 3 * size));
    bench.queue = QueueId(0);
    assert_eq!(bench.bounds(), (1, 2));
    bench.put(0, "", &[0; 1_000]);
    assert_eq!(
        (bench.bounds(), bench.store.bytes()),
        ((2, 3), size + 1_000),
        "the newest stays however big"
    );
}

#[test]
fn a_topic_that_shrinks_keeps_its_messages_and_one_that_is_deleted_does_not() {
    let mut bench = Bench::new(&Settings::default());
    bench.queue = QueueId(1);
    bench.put(0, "", b"");
    let resize = |bench: &mut Bench, queues| {
        bench
            .store
            .put_topic(TopicConfig::new(bench.topic.clone(), queues))
            .expect("there is room");
    };
    resize(&mut bench, 1);
    assert_eq!(bench.put_with(0, "", b""), Err(PutError::UnknownQueue));
    assert_eq!(bench.bounds(), (0, 1));
    resize(&mut bench, 3);
    bench.put(0, "", b"");
    assert_eq!(bench.bounds(), (0, 2));
    let topic = bench.topic.clone();
    assert!(bench.store.remove_topic(&topic));
    assert!(!bench.store.remove_topic(&topic));
    assert_eq!(
        (bench.store.topic(&topic), bench.store.topics().count()),
        (None, 0)
    );
    resize(&mut bench, 2);
    assert_eq!(
        (bench.bounds(), bench.put(0, "", b"").queue_offset.0),
        ((0, 0), 0)
    );
}

#[test]
fn topics_and_queues_have_limits() {
    let settings = Settings {
        topics_max: 2,
        queues_max: 4,
        ..Settings::default()
    };
    let mut store = Bench::new(&settings).store;
    assert_eq!(
        store.put_topic(TopicConfig::new("U".into(), 5)),
        Err(TopicError::TooManyQueues)
    );
    assert_eq!(store.put_topic(TopicConfig::new("U".into(), 4)), Ok(()));
    assert_eq!(
        store.put_topic(TopicConfig::new("V".into(), 1)),
        Err(TopicError::TooManyTopics)
    );
    assert_eq!(
        store.put_topic(TopicConfig::new("T".into(), 4)),
        Ok(()),
        "a known one may change"
    );
    let settings = Settings {
        queues_max: u32::MAX,
        ..settings
    };
    let mut store = Bench::new(&settings).store;
    let all = u32::try_from(QUEUES_MAX).expect("a small number");
    assert_eq!(
        store.put_topic(TopicConfig::new("U".into(), all - 1)),
        Err(TopicError::TooManyQueues)
    );
    assert_eq!(store.put_topic(TopicConfig::new("U".into(), all - 2)), Ok(()));
    assert!(store.remove_topic(&"U".into()));
    assert_eq!(
        store.put_topic(TopicConfig::new("V".into(), all - 2)),
        Ok(()),
        "queues are given back"
    );
}

#[test]
fn records_are_found_by_words_of_their_keys_and_by_their_unique_key() {
    let mut bench = Bench::new(&Settings::default());
    for (at, properties) in [
        (0, "KEYS\u{1}k1 k2\u{2}"),
        (1, "UNIQ_KEY\u{1}k1\u{2}"),
        (2, "KEYS\u{1}k11\u{2}UNIQ_KEY\u{1}u\u{2}"),
        (3, "TAGS\u{1}k1\u{2}"),
        (4, "KEYS\u{1}k2  k1\u{2}"),
    ] {
        bench.put_with(at, properties, b"").expect("a legal record");
    }
    let find = |topic: &str, key: &str, stored: RangeInclusive<i64>, most| {
        let stored = wall(*stored.start())..=wall(*stored.end());
        let found = bench.store.find(View::Newest, &topic.into(), key, &stored, most);
        found
            .iter()
            .map(|bytes| open(bytes).queue_offset().0)
            .collect::<Vec<_>>()
    };
    for (key, stored, most, want) in [
        ("k1", 0..=9, 64, [0, 1, 4].as_slice()),
        ("k1", 0..=9, 2, &[1, 4]),
        ("k1", 0..=3, 64, &[0, 1]),
        ("k1", 1..=1, 64, &[1]),
        ("k2", 0..=9, 64, &[0, 4]),
        ("u", 0..=9, 64, &[2]),
        ("", 0..=9, 64, &[]),
        ("k1", 0..=9, 0, &[]),
    ] {
        assert_eq!(find("T", key, stored, most), want, "{key}");
    }
    assert!(find("other", "k1", 0..=9, 64).is_empty());
    for n in 5..100 {
        bench
            .put_with(n, "KEYS\u{1}many\u{2}", b"")
            .expect("a legal record");
    }
    let all = wall(0)..=wall(i64::MAX);
    let found = bench
        .store
        .find(View::Newest, &bench.topic, "many", &all, usize::MAX);
    assert_eq!(
        (found.len(), open(found[0]).queue_offset().0),
        (64, 36),
        "the newest"
    );
}
