//! What an answer yields, one table row for each way it can be odd.

mod inner;

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::config::GroupConfig;
use crate::ids::QueueId;
use crate::wire::stored::{BrokenReason, MAGIC_V1};

/// One record of the answer.
#[derive(Clone, Copy, Debug)]
enum Rec {
    /// A good one with a tag.
    Tagged(i64, &'static str),
    /// The topic length points behind the record; its places can be read.
    Bad(i64),
    /// Not even its place in the queue can be believed.
    Placeless,
    /// A size word that cannot be one.
    Size(i32),
    /// A size word that points behind the answer.
    Beyond,
}
use Rec::{Bad, Beyond, Placeless, Size, Tagged};

const fn good(offset: i64) -> Rec {
    Tagged(offset, "A")
}

fn physical(offset: i64) -> PhysicalOffset {
    PhysicalOffset(offset * 100)
}

impl Rec {
    fn bytes(self) -> Vec<u8> {
        let (offset, tag) = match self {
            Tagged(offset, tag) => (offset, tag),
            Bad(offset) => (offset, "A"),
            Placeless => (-7, "A"),
            Size(word) => return word.to_be_bytes().to_vec(),
            Beyond => return [200_i32.to_be_bytes().to_vec(), vec![0; 100]].concat(),
        };
        let properties = [b"TAGS\x01", tag.as_bytes(), b"\x02"].concat();
        let mut out = vec![0; 4];
        out.extend(MAGIC_V1.to_be_bytes());
        out.extend([0; 12]);
        out.extend(offset.to_be_bytes());
        out.extend(physical(offset).0.to_be_bytes());
        out.extend([0; 4 + 8 + 8 + 8 + 8 + 4 + 8]);
        out.extend(2_i32.to_be_bytes());
        out.extend(b"hi");
        out.push(if matches!(self, Bad(_)) { 0xff } else { 1 });
        out.push(b'T');
        out.extend(i16::try_from(properties.len()).unwrap().to_be_bytes());
        out.extend(properties);
        let size = i32::try_from(out.len()).unwrap();
        out[..4].copy_from_slice(&size.to_be_bytes());
        out
    }
}

/// Pieces as offsets, so that a row can be read.
#[derive(Debug, PartialEq)]
enum Got {
    Run(Vec<i64>),
    Bad(i64),
}

fn queue() -> MessageQueue {
    MessageQueue {
        topic: "T".into(),
        broker: "b".into(),
        id: QueueId(0),
    }
}

/// Harvests an answer to a pull from 10 that says to go on at 20.
fn reap(expression: &str, records: &[Rec]) -> (Vec<Got>, Harvest) {
    let body: Vec<u8> = records.iter().flat_map(|record| record.bytes()).collect();
    let wanted = Subscription::tagged("T".into(), expression).unwrap();
    let answer = Answer {
        asked: QueueOffset(10),
        next: QueueOffset(20),
        min: QueueOffset(0),
        max: QueueOffset(50),
        body: body.into(),
    };
    let limits = Limits::new(&GroupConfig::new("g".into()));
    let harvest = harvest(&queue(), false, &wanted, limits, answer);
    let offset = |position: u32| {
        let batch = harvest.batch.as_ref().expect("a run has a batch");
        batch
            .entry(position)
            .expect("a run lies within its batch")
            .queue_offset()
            .0
    };
    let pieces = harvest.pieces.iter().map(|piece| match piece {
        Piece::Run { first, len } => Got::Run((*first..first + len).map(offset).collect()),
        Piece::Unreadable(bad) => {
            assert_eq!(bad.physical_offset, physical(bad.offset.0));
            Got::Bad(bad.offset.0)
        }
    });
    (pieces.collect(), harvest)
}

#[test]
fn what_an_answer_yields() {
    let run = |offsets: &[i64]| Got::Run(offsets.to_vec());
    for (what, records, pieces, next, outside) in [
        (
            "neighbours",
            &[good(10), good(11), good(12)][..],
            vec![run(&[10, 11, 12])],
            20,
            None,
        ),
        (
            "gaps are neighbours too",
            &[good(10), good(19)],
            vec![run(&[10, 19])],
            20,
            None,
        ),
        ("nothing", &[], vec![], 20, None),
        (
            "out of order",
            &[good(12), good(10), good(11)],
            vec![run(&[10, 11, 12])],
            20,
            None,
        ),
        (
            "twice",
            &[good(10), good(11), good(10), good(11)],
            vec![run(&[10, 11])],
            20,
            None,
        ),
        (
            "below what was asked",
            &[good(8), good(9), good(10)],
            vec![run(&[10])],
            20,
            Some(8),
        ),
        (
            "behind what was promised",
            &[good(19), good(20), good(21)],
            vec![run(&[19])],
            20,
            Some(20),
        ),
        ("all outside", &[good(3)], vec![], 20, Some(3)),
        (
            "unreadable in the middle",
            &[good(10), Bad(11), good(12)],
            vec![run(&[10]), Got::Bad(11), run(&[12])],
            20,
            None,
        ),
        (
            "unreadable, out of order",
            &[Bad(12), good(10)],
            vec![run(&[10]), Got::Bad(12)],
            20,
            None,
        ),
        ("unreadable alone", &[Bad(10)], vec![Got::Bad(10)], 20, None),
        (
            "unreadable outside",
            &[Bad(9), good(10)],
            vec![run(&[10])],
            20,
            Some(9),
        ),
        (
            "two unreadable",
            &[Bad(10), Bad(11)],
            vec![Got::Bad(10), Got::Bad(11)],
            20,
            None,
        ),
    ] {
        let (got, harvest) = reap("*", records);
        assert_eq!(got, pieces, "{what}");
        assert_eq!(
            (harvest.next.0, harvest.outside.map(|o| o.0)),
            (next, outside),
            "{what}"
        );
        assert_eq!(harvest.obstacle, None, "{what}");
        let delivered = got.iter().any(|piece| matches!(piece, Got::Run(_)));
        assert_eq!(
            harvest.batch.is_some(),
            delivered,
            "{what}: a batch of nothing pins its frame for nothing"
        );
    }
}

#[test]
fn an_obstacle_ends_the_range_behind_the_last_record_that_was_seen() {
    use crate::wire::stored::UndecodableReason::NegativeQueueOffset;
    let too_small = |word| Obstacle::Size(BrokenReason::TooSmall(word));
    let beyond = Obstacle::Size(BrokenReason::BeyondEnd { size: 200, left: 104 });
    for (what, records, pieces, next, obstacle) in [
        (
            "at the beginning",
            &[Size(3), good(10)][..],
            vec![],
            10,
            too_small(3),
        ),
        (
            "a negative size",
            &[good(10), Size(-1), good(11)],
            vec![Got::Run(vec![10])],
            11,
            too_small(-1),
        ),
        (
            "behind the end",
            &[good(10), good(15), Beyond],
            vec![Got::Run(vec![10, 15])],
            16,
            beyond,
        ),
        (
            "after an unreadable one",
            &[Bad(10), Size(0)],
            vec![Got::Bad(10)],
            11,
            too_small(0),
        ),
        (
            "a record without a place",
            &[good(10), Placeless, good(12)],
            vec![Got::Run(vec![10])],
            11,
            Obstacle::Placeless(NegativeQueueOffset),
        ),
    ] {
        let (got, harvest) = reap("*", records);
        assert_eq!(got, pieces, "{what}");
        assert_eq!(
            (harvest.next.0, harvest.obstacle),
            (next, Some(obstacle)),
            "{what}"
        );
    }
}

#[test]
fn tags_are_compared_as_text_and_what_does_not_match_counts_as_fetched() {
    // "Aa" and "BB" have the same hash, so a broker lets both through.
    let records = [
        Tagged(10, "Aa"),
        Tagged(11, "BB"),
        Tagged(12, "Aa"),
        Bad(13),
        Tagged(14, "Aa"),
    ];
    for (expression, pieces) in [
        (
            "Aa",
            vec![Got::Run(vec![10, 12]), Got::Bad(13), Got::Run(vec![14])],
        ),
        ("BB || CC", vec![Got::Run(vec![11]), Got::Bad(13)]),
        ("CC", vec![Got::Bad(13)]),
        (
            "*",
            vec![Got::Run(vec![10, 11, 12]), Got::Bad(13), Got::Run(vec![14])],
        ),
    ] {
        let (got, harvest) = reap(expression, &records);
        assert_eq!((got, harvest.next), (pieces, QueueOffset(20)), "{expression}");
    }
}

#[test]
fn the_batch_shares_the_bytes_of_the_answer() {
    let (_, harvest) = reap("*", &[good(11), good(10)]);
    let batch = harvest.batch.expect("there are messages");
    assert_eq!(
        (batch.min_offset(), batch.max_offset()),
        (QueueOffset(0), QueueOffset(50))
    );
    assert_eq!((batch.queue(), batch.len()), (&queue(), 2));
    assert_eq!(
        batch.record(0).map(|record| record.stored_body()),
        Some(&b"hi"[..])
    );
}
