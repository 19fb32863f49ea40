//! Inner batches: what is taken of them, and what follows from their faults.

use alloc::string::ToString as _;

use miniz_oxide::deflate::compress_to_vec_zlib;

use super::*;
use crate::message::Message;
use crate::time::WallTime;
use crate::wire::body::Unsupported;
use crate::wire::send_batch::{BatchEntry, BatchFault};
use crate::wire::stored::{RecordParts, SysFlag};

/// Both flags of an inner batch.
const INNER: i32 = SysFlag::INNER_BATCH | SysFlag::NEED_UNWRAP;

/// A batch at an offset with messages of these tags, and what its bytes suffer.
#[derive(Clone, Copy)]
struct Outer<'a> {
    offset: i64,
    tags: &'a [&'static str],
    sys_flag: i32,
    hurt: fn(&mut Vec<u8>),
}

const fn outer<'a>(offset: i64, tags: &'a [&'static str]) -> Outer<'a> {
    Outer {
        offset,
        tags,
        sys_flag: INNER,
        hurt: |_| {},
    }
}

/// The list has entries of 37 bytes: 20, a body of 8, 2 and the properties.
const ENTRY: usize = 37;

impl Outer<'_> {
    fn bytes(self) -> Vec<u8> {
        let mut list = vec![];
        for (flag, tag) in (100..).zip(self.tags) {
            let properties = ["TAGS\u{1}", tag, "\u{2}"].concat();
            let part = BatchEntry {
                flag,
                body: b"a letter",
                properties: &properties,
            };
            part.encode(&mut list).unwrap();
        }
        (self.hurt)(&mut list);
        if self.sys_flag & 1 != 0 {
            list = compress_to_vec_zlib(&list, 6);
        }
        let mut out = vec![];
        let parts = RecordParts {
            topic: "T",
            queue_id: QueueId(0),
            flag: 0,
            queue_offset: QueueOffset(self.offset),
            physical_offset: physical(self.offset),
            sys_flag: SysFlag(self.sys_flag),
            born_at: WallTime::from_unix_millis(1),
            born_host: "10.0.0.1:1".parse().unwrap(),
            store_at: WallTime::from_unix_millis(2),
            store_host: "10.0.0.2:2".parse().unwrap(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &list,
            properties: "",
        };
        parts.encode(&mut out).unwrap();
        out
    }
}

/// Harvests an answer to a pull from 10 that says to go on at 20.
fn reap_with(set: fn(&mut GroupConfig), expression: &str, records: &[Vec<u8>]) -> (Vec<Got>, Harvest) {
    let wanted = Subscription::tagged("T".into(), expression).unwrap();
    let mut config = GroupConfig::new("g".into());
    set(&mut config);
    let answer = Answer {
        asked: QueueOffset(10),
        next: QueueOffset(20),
        min: QueueOffset(0),
        max: QueueOffset(50),
        body: records.concat().into(),
    };
    let harvest = harvest(&queue(), false, &wanted, Limits::new(&config), answer);
    let offset = |position| {
        let record = harvest.batch.as_ref().unwrap().record(position);
        record.expect("a run lies within its batch").queue_offset().0
    };
    let pieces = harvest.pieces.iter().map(|piece| match piece {
        Piece::Run { first, len } => Got::Run((*first..first + len).map(offset).collect()),
        Piece::Unreadable(bad) => Got::Bad(bad.offset.0),
    });
    (pieces.collect(), harvest)
}

fn reap(expression: &str, records: &[Vec<u8>]) -> (Vec<Got>, Harvest) {
    reap_with(|_| {}, expression, records)
}

fn run(offsets: &[i64]) -> Got {
    Got::Run(offsets.to_vec())
}

#[test]
fn messages_of_a_batch_stand_beside_others_in_their_own_places() {
    for sys_flag in [INNER, INNER | 0x301] {
        let batch = Outer {
            sys_flag,
            ..outer(11, &["A", "A", "A"])
        };
        let records = [good(10).bytes(), batch.bytes(), good(14).bytes()];
        let (got, harvest) = reap("*", &records);
        assert_eq!(got, [run(&[10, 11, 12, 13, 14])]);
        assert_eq!((harvest.next.0, harvest.outside), (20, None));
        let batch = harvest.batch.expect("there are messages");
        let messages: Vec<Message> = batch.messages().collect();
        let inner: Vec<bool> = messages.iter().map(Message::is_inner).collect();
        assert_eq!(inner, [false, true, true, true, false]);
        for message in &messages[1..4] {
            assert_eq!(message.body().unwrap(), "a letter");
            assert_eq!(message.stored_body(), "a letter");
            assert_eq!(message.physical_offset(), physical(11));
            assert_eq!(message.offset_msg_id(), None);
            assert_eq!(message.record().sys_flag().0, sys_flag & !1);
            assert_eq!(message.clone().into_owned().unwrap().body, "a letter");
        }
        assert_eq!(messages[1].flag(), 100);
        assert_eq!(messages[4].body().unwrap(), "hi");
        assert!(messages[0].offset_msg_id().is_some());
        assert!(
            batch.memory() > records.concat().len(),
            "it costs more than its frame"
        );
    }
}

#[test]
fn one_bit_makes_no_batch() {
    for sys_flag in [SysFlag::INNER_BATCH, SysFlag::NEED_UNWRAP] {
        let record = Outer {
            sys_flag,
            ..outer(12, &["A", "A"])
        };
        let (got, harvest) = reap("*", &[record.bytes()]);
        assert_eq!(got, [run(&[12])]);
        let batch = harvest.batch.expect("there is a message");
        assert!(!batch.is_inner(0) && batch.stored_body(0).is_some_and(|body| body.len() == 2 * ENTRY));
    }
}

#[test]
fn what_lies_below_the_asked_offset_was_seen_before() {
    let batch = outer(8, &["A", "A", "A", "A"]).bytes();
    let (got, harvest) = reap("*", &[batch]);
    assert_eq!((got, harvest.outside), (vec![run(&[10, 11])], None));
    // A batch of which nothing was asked is another matter.
    let batch = outer(8, &["A", "A"]).bytes();
    let (got, harvest) = reap("*", &[batch, good(10).bytes()]);
    assert_eq!((got, harvest.outside), (vec![run(&[10])], Some(QueueOffset(8))));
    // So is what lies behind the promised end.
    let batch = outer(18, &["A", "A", "A"]).bytes();
    let (got, harvest) = reap("*", &[batch]);
    assert_eq!(
        (got, harvest.outside),
        (vec![run(&[18, 19])], Some(QueueOffset(20)))
    );
}

#[test]
fn tags_are_those_of_the_messages() {
    let (got, harvest) = reap("B", &[outer(10, &["A", "B", "A", "B"]).bytes()]);
    assert_eq!((got, harvest.next), (vec![run(&[11, 13])], QueueOffset(20)));
    let (got, harvest) = reap("C", &[outer(10, &["A", "B"]).bytes()]);
    assert_eq!((got, harvest.next), (vec![], QueueOffset(20)));
}

#[test]
fn what_is_too_much_for_one_answer_is_pulled_again() {
    type Set = fn(&mut GroupConfig);
    let records = [
        outer(8, &["A", "A", "A", "A"]).bytes(),
        good(12).bytes(),
        outer(13, &["A", "A", "A"]).bytes(),
        good(16).bytes(),
    ];
    let count: [Set; 6] = [
        |config| _ = config.set_inner_batch_messages_max(1),
        |config| _ = config.set_inner_batch_messages_max(2),
        |config| _ = config.set_inner_batch_messages_max(4),
        |config| _ = config.set_inner_batch_messages_max(5),
        |config| _ = config.set_inner_batch_bytes_max(1),
        // A record of theirs has 107 bytes.
        |config| _ = config.set_inner_batch_bytes_max(3 * 107),
    ];
    for (set, offsets, next) in [
        (count[0], &[10][..], 11),
        (count[1], &[10, 11, 12], 13),
        (count[2], &[10, 11, 12, 13, 14], 15),
        (count[3], &[10, 11, 12, 13, 14, 15, 16], 20),
        (count[4], &[10], 11),
        (count[5], &[10, 11, 12, 13], 14),
    ] {
        let (got, harvest) = reap_with(set, "*", &records);
        assert_eq!((got, harvest.next.0), (vec![run(offsets)], next));
        assert_eq!((harvest.outside, harvest.obstacle), (None, None));
    }
    // Whatever the order of the answer.
    let backwards: Vec<_> = records.iter().rev().cloned().collect();
    let (got, harvest) = reap_with(count[1], "*", &backwards);
    assert_eq!((got, harvest.next.0), (vec![], 10), "nothing is passed over");
}

#[test]
fn a_batch_that_cannot_be_opened_is_one_unreadable_record() {
    let unsupported = UnreadableReason::InnerBatch(BodyError::Unsupported(Unsupported::Compression(5)));
    for (sys_flag, set, reason, later) in [
        (
            INNER | 0x101,
            0,
            UnreadableReason::InnerBatch(BodyError::Corrupt),
            false,
        ),
        (INNER | 0x501, 0, unsupported, true),
        (
            INNER | 0x301,
            10,
            UnreadableReason::InnerBatch(BodyError::TooLarge { limit: 10 }),
            false,
        ),
    ] {
        let set: fn(&mut GroupConfig) = if set == 0 {
            |_| {}
        } else {
            |config| _ = config.set_body_bytes_max(10)
        };
        for (offset, at) in [(12, 12), (8, 10)] {
            let batch = Outer {
                sys_flag,
                ..outer(offset, &["A", "A", "A"])
            };
            let (got, harvest) = reap_with(set, "*", &[batch.bytes(), good(15).bytes()]);
            assert_eq!(got, [Got::Bad(at), run(&[15])], "{reason}");
            let Piece::Unreadable(bad) = &harvest.pieces[0] else {
                panic!("{got:?}")
            };
            assert_eq!((bad.reason, bad.physical_offset), (reason, physical(offset)));
            assert_eq!(
                (bad.reason.is_of_a_later_format(), &bad.record[..]),
                (later, &batch.bytes()[..])
            );
        }
    }
}

#[test]
fn a_damaged_batch_is_read_as_far_as_it_goes() {
    /// The body length of the third entry.
    const HURT: fn(&mut Vec<u8>) = |list| list[2 * ENTRY + 16] = 0xff;
    for (offset, want) in [
        (10, vec![run(&[10, 11]), Got::Bad(12), run(&[15])]),
        (9, vec![run(&[10]), Got::Bad(11), run(&[15])]),
        (7, vec![Got::Bad(10), run(&[15])]),
    ] {
        let batch = Outer {
            hurt: HURT,
            ..outer(offset, &["A", "A", "A", "A"])
        };
        let (got, harvest) = reap("*", &[batch.bytes(), good(15).bytes()]);
        assert_eq!((got, harvest.next.0), (want, 20));
        let told = harvest.pieces.iter().find_map(|piece| match piece {
            Piece::Unreadable(bad) => Some(bad.reason.to_string()),
            Piece::Run { .. } => None,
        });
        assert!(told.is_some_and(|told| told.contains("in the entry at byte 74")));
    }
    let fault = BatchFault::Size;
    let batch = Outer {
        hurt: |list| list.truncate(ENTRY + 10),
        ..outer(10, &["A", "A"])
    };
    let (got, harvest) = reap("*", &[batch.bytes()]);
    assert_eq!(got, [run(&[10]), Got::Bad(11)]);
    let Piece::Unreadable(bad) = &harvest.pieces[1] else {
        panic!("{got:?}")
    };
    assert_eq!(
        bad.reason,
        UnreadableReason::InnerMessage(BatchError { at: ENTRY, fault })
    );
}

#[test]
fn a_wrong_checksum_hurts_as_the_settings_say() {
    let mut record = outer(10, &["A", "A"]).bytes();
    record[8] ^= 1;
    let (got, harvest) = reap("*", &[record.clone()]);
    assert_eq!(got, [run(&[10, 11])]);
    let batch = harvest.batch.expect("there are messages");
    for message in batch.messages() {
        let stored = message.stored_body();
        assert!(!crate::wire::body::crc_matches(
            &stored,
            message.record().body_crc()
        ));
    }
    let (got, _) = reap_with(|config| _ = config.set_crc_reject(true), "*", &[record]);
    assert_eq!(got, [Got::Bad(10)]);
}

/// A few bytes that become many cost as much when nothing can be read of them.
#[test]
fn what_an_answer_may_cost_counts_what_was_decompressed_in_vain() {
    let bomb = |offset| Outer {
        sys_flag: INNER | 0x301,
        hurt: |list| list.fill(0),
        ..outer(offset, &["A", "A", "A"])
    };
    let good = |offset| Outer {
        hurt: |_| {},
        ..bomb(offset)
    };
    let plain = |offset| Outer {
        sys_flag: INNER,
        ..bomb(offset)
    };
    type Case<'a> = (&'a str, [Outer<'a>; 2], &'a [Got], i64);
    let cases: [Case<'_>; 4] = [
        ("one after another", [bomb(10), bomb(13)], &[Got::Bad(10)], 13),
        (
            "in front of a good one",
            [bomb(10), good(13)],
            &[Got::Bad(10)],
            13,
        ),
        (
            "not compressed",
            [plain(10), plain(13)],
            &[Got::Bad(10), Got::Bad(13)],
            20,
        ),
        (
            "not what was asked for",
            [good(7), good(10)],
            &[run(&[10, 11])],
            12,
        ),
    ];
    for (what, records, pieces, next) in cases {
        let set = |config: &mut GroupConfig| {
            config.set_inner_batch_bytes_max(3 * ENTRY as u64);
            config.set_inner_batch_messages_max(100);
        };
        // A record is longer than an entry: two of them are as much as an answer may bring anyhow.
        let (got, harvest) = reap_with(set, "*", &records.map(Outer::bytes));
        assert_eq!((&*got, harvest.next.0), (pieces, next), "{what}");
    }
}
