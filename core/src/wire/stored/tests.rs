use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::ids::QueueId;

/// Fields of a record to build; the rest is fixed.
#[derive(Clone)]
struct Build<'a> {
    magic: u32,
    queue_offset: i64,
    physical_offset: i64,
    sys_flag: i32,
    born_port: i32,
    body: &'a [u8],
    topic: &'a [u8],
    properties: &'a [u8],
}

const PLAIN: Build<'static> = Build {
    magic: MAGIC_V1,
    queue_offset: 42,
    physical_offset: 1000,
    sys_flag: 0,
    born_port: 1234,
    body: b"hello",
    topic: b"T",
    properties: b"TAGS\x01TagA\x02",
};

impl Build<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        out.extend(self.magic.to_be_bytes());
        out.extend([0x36, 0x10, 0xa6, 0x86]);
        out.extend(3_i32.to_be_bytes());
        out.extend(9_i32.to_be_bytes());
        out.extend(self.queue_offset.to_be_bytes());
        out.extend(self.physical_offset.to_be_bytes());
        out.extend(self.sys_flag.to_be_bytes());
        out.extend(1_700_000_000_000_i64.to_be_bytes());
        self.push_host(&mut out, SysFlag::BORN_HOST_V6, 1, self.born_port);
        out.extend(1_700_000_000_005_i64.to_be_bytes());
        self.push_host(&mut out, SysFlag::STORE_HOST_V6, 2, 10911);
        out.extend(2_i32.to_be_bytes());
        out.extend(77_i64.to_be_bytes());
        out.extend(i32::try_from(self.body.len()).expect("small").to_be_bytes());
        out.extend(self.body);
        if self.magic == MAGIC_V2 {
            out.extend(u16::try_from(self.topic.len()).expect("small").to_be_bytes());
        } else {
            out.push(u8::try_from(self.topic.len()).expect("small"));
        }
        out.extend(self.topic);
        out.extend(i16::try_from(self.properties.len()).expect("small").to_be_bytes());
        out.extend(self.properties);
        set_size(&mut out);
        out
    }

    fn push_host(&self, out: &mut Vec<u8>, bit: i32, last: u8, port: i32) {
        let address: &[u8] = if self.sys_flag & bit == 0 {
            &[10, 0, 0]
        } else {
            &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        };
        out.extend(address);
        out.push(last);
        out.extend(port.to_be_bytes());
    }
}

fn set_size(record: &mut [u8]) {
    let size = i32::try_from(record.len()).expect("small");
    record[..4].copy_from_slice(&size.to_be_bytes());
}

fn only(bytes: &[u8]) -> Scanned {
    let mut scanner = Scanner::new(bytes);
    let scanned = scanner.next().expect("one record");
    assert_eq!(scanner.next(), None);
    scanned
}

fn reason(bytes: &[u8]) -> UndecodableReason {
    match only(bytes) {
        Scanned::Undecodable(undecodable) => undecodable.reason,
        other @ (Scanned::Message(_) | Scanned::Broken { .. }) => panic!("{other:?}"),
    }
}

fn entry(bytes: &[u8]) -> Entry {
    match only(bytes) {
        Scanned::Message(entry) => entry,
        other @ (Scanned::Undecodable(_) | Scanned::Broken { .. }) => panic!("{other:?}"),
    }
}

#[test]
fn an_index_entry_is_small() {
    assert!(size_of::<Entry>() <= 32);
}

#[test]
fn every_field_is_read_where_it_lies() {
    let bytes = PLAIN.bytes();
    let record = Record::new(&bytes, entry(&bytes));
    assert_eq!(record.bytes(), bytes);
    assert_eq!(record.topic(), "T");
    assert_eq!(record.queue_id(), QueueId(3));
    assert_eq!(record.queue_offset(), QueueOffset(42));
    assert_eq!(record.physical_offset(), PhysicalOffset(1000));
    assert_eq!(record.flag(), 9);
    assert_eq!(record.sys_flag(), SysFlag(0));
    assert_eq!(record.born_at().as_unix_millis(), 1_700_000_000_000);
    assert_eq!(record.born_host(), "10.0.0.1:1234".parse().expect("an address"));
    assert_eq!(record.store_at().as_unix_millis(), 1_700_000_000_005);
    assert_eq!(record.store_host(), "10.0.0.2:10911".parse().expect("an address"));
    assert_eq!(record.reconsume_times(), 2);
    assert_eq!(record.prepared_transaction_offset(), 77);
    assert_eq!(record.body_crc(), 0x3610_a686);
    assert_eq!(record.stored_body(), b"hello");
    assert_eq!(record.tags().as_deref(), Some("TagA"));
    assert_eq!(record.keys(), None);
    assert_eq!(record.offset_msg_id(), "0A00000200002A9F00000000000003E8");
    assert_eq!(record.msg_id(), record.offset_msg_id());
}

#[test]
fn host_families_mix_freely() {
    for (sys_flag, born, store) in [
        (0x00, "10.0.0.1:1234", "10.0.0.2:10911"),
        (0x10, "[fe80::1]:1234", "10.0.0.2:10911"),
        (0x20, "10.0.0.1:1234", "[fe80::2]:10911"),
        (0x30, "[fe80::1]:1234", "[fe80::2]:10911"),
    ] {
        let bytes = Build { sys_flag, ..PLAIN }.bytes();
        let record = Record::new(&bytes, entry(&bytes));
        assert_eq!(record.born_host(), born.parse().expect("an address"));
        assert_eq!(record.store_host(), store.parse().expect("an address"));
        assert_eq!(record.store_at().as_unix_millis(), 1_700_000_000_005);
        assert_eq!(record.reconsume_times(), 2);
        assert_eq!(record.stored_body(), b"hello");
    }
}

#[test]
fn topic_lengths_are_unsigned() {
    let topic = [b't'; 255];
    let bytes = Build {
        topic: &topic,
        ..PLAIN
    }
    .bytes();
    assert_eq!(Record::new(&bytes, entry(&bytes)).topic().as_bytes(), topic);

    let topic = [b't'; 40_000];
    let bytes = Build {
        topic: &topic,
        magic: MAGIC_V2,
        ..PLAIN
    }
    .bytes();
    assert_eq!(Record::new(&bytes, entry(&bytes)).topic().as_bytes(), topic);
}

#[test]
fn a_bad_record_says_why_and_where_it_stood() {
    use UndecodableReason as Reason;
    let edited = |edit: fn(&mut Vec<u8>)| {
        let mut bytes = PLAIN.bytes();
        edit(&mut bytes);
        bytes
    };
    let table = [
        (
            Build {
                magic: 0xCBD4_3194,
                ..PLAIN
            }
            .bytes(),
            Reason::UnknownMagic(0xCBD4_3194),
        ),
        (
            Build {
                queue_offset: -1,
                ..PLAIN
            }
            .bytes(),
            Reason::NegativeQueueOffset,
        ),
        (
            Build {
                physical_offset: -4,
                ..PLAIN
            }
            .bytes(),
            Reason::NegativePhysicalOffset,
        ),
        (
            Build {
                born_port: 70_000,
                ..PLAIN
            }
            .bytes(),
            Reason::HostPort,
        ),
        (
            Build {
                born_port: -1,
                ..PLAIN
            }
            .bytes(),
            Reason::HostPort,
        ),
        (
            Build {
                topic: b"\xff",
                ..PLAIN
            }
            .bytes(),
            Reason::TopicText,
        ),
        // Body length: -1, the highest number, one byte too many for the record.
        (edited(|b| b[84..88].fill(0xff)), Reason::BodyLength),
        (
            edited(|b| b[84..88].copy_from_slice(&i32::MAX.to_be_bytes())),
            Reason::BodyLength,
        ),
        (edited(|b| b[87] = 20), Reason::BodyLength),
        (edited(|b| b[87] = 19), Reason::TopicLength),
        (edited(|b| b[93] = 0xff), Reason::TopicLength),
        (edited(|b| b[95] = 0x80), Reason::PropertiesLength),
        (edited(|b| b[96] += 1), Reason::PropertiesLength),
        (edited(|b| b[96] -= 1), Reason::LeftOver(1)),
        (
            edited(|b| {
                b.extend([0; 7]);
                set_size(b);
            }),
            Reason::LeftOver(7),
        ),
        // Flags that make the hosts longer than the record is.
        (
            edited(|b| {
                b[39] = 0x30;
                b[40..].fill(0);
                b.truncate(91);
                set_size(b);
            }),
            Reason::BodyLength,
        ),
    ];
    for (bytes, expected) in table {
        assert_eq!(reason(&bytes), expected);
    }
}

#[test]
fn offsets_of_a_bad_record_are_told_when_they_are_possible() {
    let bytes = Build {
        born_port: -1,
        physical_offset: -4,
        ..PLAIN
    }
    .bytes();
    let Scanned::Undecodable(undecodable) = only(&bytes) else {
        panic!("a bad record");
    };
    assert_eq!(undecodable.queue_offset, Some(QueueOffset(42)));
    assert_eq!(undecodable.physical_offset, None);
    assert_eq!((undecodable.at, undecodable.len as usize), (0, bytes.len()));
}

/// CD-20: Java delivers 50, drops 51 and 52 and moves on.
#[test]
fn a_bad_record_does_not_take_its_neighbours_along() {
    let mut bytes = Build {
        queue_offset: 50,
        ..PLAIN
    }
    .bytes();
    let second = bytes.len();
    bytes.extend(
        Build {
            queue_offset: 51,
            ..PLAIN
        }
        .bytes(),
    );
    bytes[second + 93] = 0xff;
    bytes.extend(
        Build {
            queue_offset: 52,
            ..PLAIN
        }
        .bytes(),
    );

    let scanned: Vec<_> = Scanner::new(&bytes).collect();
    let [
        Scanned::Message(first),
        Scanned::Undecodable(bad),
        Scanned::Message(third),
    ] = scanned[..]
    else {
        panic!("{scanned:?}");
    };
    assert_eq!(first.queue_offset(), QueueOffset(50));
    assert_eq!(bad.queue_offset, Some(QueueOffset(51)));
    assert_eq!(bad.physical_offset, Some(PhysicalOffset(1000)));
    assert_eq!(bad.reason, UndecodableReason::TopicLength);
    assert_eq!(bad.at as usize, second);
    assert_eq!(third.queue_offset(), QueueOffset(52));
}

#[test]
fn an_unusable_size_word_ends_the_scan_behind_the_good_records() {
    let good = PLAIN.bytes();
    let len = u32::try_from(good.len()).expect("small");
    let sized = |size: i32| {
        let mut bytes = good.clone();
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        bytes
    };
    let table = [
        (vec![1, 2, 3], BrokenReason::CutSize(3)),
        (sized(-1), BrokenReason::TooSmall(-1)),
        (sized(0), BrokenReason::TooSmall(0)),
        (sized(90), BrokenReason::TooSmall(90)),
        (
            sized(i32::MAX),
            BrokenReason::BeyondEnd {
                size: i32::MAX as u32,
                left: len,
            },
        ),
        (
            good[..100].to_vec(),
            BrokenReason::BeyondEnd { size: len, left: 100 },
        ),
    ];
    for (tail, reason) in table {
        let bytes = [good.clone(), tail].concat();
        let mut scanner = Scanner::new(&bytes);
        assert!(matches!(scanner.next(), Some(Scanned::Message(_))));
        assert_eq!(scanner.next(), Some(Scanned::Broken { at: len, reason }));
        assert_eq!(scanner.next(), None);
    }
    assert_eq!(Scanner::new(&[]).next(), None);
}

/// CD-10: with and without the last separator.
#[test]
fn tags_do_not_depend_on_the_last_separator() {
    for properties in [
        &b"KEYS\x01k1\x02TAGS\x01TagA"[..],
        b"TAGS\x01TagA\x02KEYS\x01k1\x02",
    ] {
        let bytes = Build { properties, ..PLAIN }.bytes();
        let record = Record::new(&bytes, entry(&bytes));
        assert_eq!(record.tags().as_deref(), Some("TagA"));
        assert_eq!(record.keys().as_deref(), Some("k1"));
    }
}

proptest! {
    /// Whatever a peer sends: no panic, and the pieces lie side by side from the beginning.
    #[test]
    fn any_damage_is_survived(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
        sys_flag in 0..0x40_i32,
    ) {
        let record = Build { sys_flag, ..PLAIN }.bytes();
        let mut bytes = [record.clone(), record.clone(), record].concat();
        for (place, value) in edits {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let mut expected_at = 0;
        for scanned in Scanner::new(&bytes) {
            let range = match scanned {
                Scanned::Message(entry) => {
                    let record = Record::new(&bytes, entry);
                    let _ = (record.topic(), record.born_host(), record.store_host(), record.msg_id());
                    let _ = (record.stored_body(), record.properties().iter().count(), record.store_at());
                    let _ = (record.reconsume_times(), record.prepared_transaction_offset());
                    entry.range()
                }
                Scanned::Undecodable(bad) => bad.at as usize..(bad.at + bad.len) as usize,
                Scanned::Broken { at, .. } => at as usize..bytes.len(),
            };
            prop_assert_eq!(range.start, expected_at);
            expected_at = range.end;
        }
        prop_assert_eq!(expected_at, bytes.len());
    }
}
