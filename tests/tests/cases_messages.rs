//! Faults of stored messages that other clients have had, each with the bytes of its report.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::message::{Batch, Message};
use rocketmq_consumer_core::wire::body::{BodyLimits, CrcPolicy, CrcState};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::properties::PropertiesWriter;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_core::wire::stored::{RecordParts, Scanned, Scanner, SysFlag};
use rocketmq_consumer_testing::world::{Bench, pull_answer, queue, secs};

/// Bytes written in hexadecimal digits.
fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16).expect("a hexadecimal digit")).expect("below 16"))
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The messages of an answer to a pull of a topic.
fn messages(topic: &str, is_retry: bool, frame: Bytes) -> Vec<Message> {
    let entries = Scanner::new(&frame).map(|scanned| match scanned {
        Scanned::Message(entry) => entry,
        Scanned::Undecodable(_) | Scanned::Broken { .. } => panic!("{scanned:?}"),
    });
    let entries = entries.collect();
    let (min, max) = (QueueOffset(0), QueueOffset(100));
    let batch = Batch::new(queue(topic, "a", 0), is_retry, frame, entries, min, max);
    Arc::new(batch).messages().collect()
}

fn only(bytes: &str) -> Message {
    let mut messages = messages("T", false, hex(bytes));
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

#[test]
fn cd_12_topic_of_two_length_bytes() {
    const WIDE: &str = "0000012fdaa320ab0cdc16830000000300000000000000000000002a00000000000003e8000000000000018bcfe568000a000001000004d20000018bcfe568050a00000200002a9f000000000000000000000000000000017800c8255245545259256767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767676767675f747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474747474000a54414753015461674102";
    let message = only(WIDE);
    assert_eq!(
        (message.topic().len(), message.tags().as_deref()),
        (200, Some("TagA"))
    );
    // A format nobody knows is one undecodable record: its neighbours stand.
    let mut frame = hex(&WIDE.repeat(3)).to_vec();
    let second = frame.len() / 3;
    frame[second + 7] = 0x00;
    let scanned: Vec<_> = Scanner::new(&frame).collect();
    let [
        Scanned::Message(_),
        Scanned::Undecodable(bad),
        Scanned::Message(_),
    ] = scanned[..]
    else {
        panic!("{scanned:?}")
    };
    assert_eq!(
        (bad.at as usize, bad.queue_offset),
        (second, Some(QueueOffset(42)))
    );
}

#[test]
fn cd_13_each_host_has_a_flag_of_its_own() {
    for (bytes, born, store, digits) in [
        (
            "00000073daa320a70cdc16830000000300000000000000000000002a00000000000003e8000000100000018bcfe5680020010db8000000000000000000000001000004d20000018bcfe568050a00000200002a9f00000000000000000000000000000001780154000a54414753015461674102",
            "[2001:db8::1]:1234",
            "10.0.0.2:10911",
            32,
        ),
        (
            "00000073daa320a70cdc16830000000300000000000000000000002a00000000000003e8000000200000018bcfe568000a000001000004d20000018bcfe5680520010db800000000000000000000000200002a9f00000000000000000000000000000001780154000a54414753015461674102",
            "10.0.0.1:1234",
            "[2001:db8::2]:10911",
            56,
        ),
        (
            "0000007fdaa320a70cdc16830000000300000000000000000000002a00000000000003e8000000300000018bcfe5680020010db8000000000000000000000001000004d20000018bcfe5680520010db800000000000000000000000200002a9f00000000000000000000000000000001780154000a54414753015461674102",
            "[2001:db8::1]:1234",
            "[2001:db8::2]:10911",
            56,
        ),
    ] {
        let message = only(bytes);
        let host = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert_eq!(
            (message.born_host(), message.store_host()),
            (host(born), host(store))
        );
        assert_eq!(
            (&*message.topic(), message.tags().as_deref()),
            ("T", Some("TagA"))
        );
        assert_eq!(message.body().expect("a plain body"), "x");
        assert_eq!(message.offset_msg_id().map(|id| id.len()), Some(digits));
    }
}

#[test]
fn cd_15_a_compressed_body_is_zlib() {
    for bytes in [
        "00000072daa320a76fa299950000000300000000000000000000002a00000000000003e8000000010000018bcfe568000a000001000004d20000018bcfe568050a00000200002a9f0000000000000000000000000000000c785e7374a40c0000107e10410154000a54414753015461674102",
        "00000072daa320a76fa299950000000300000000000000000000002a00000000000003e8000003010000018bcfe568000a000001000004d20000018bcfe568050a00000200002a9f0000000000000000000000000000000c785e7374a40c0000107e10410154000a54414753015461674102",
    ] {
        let mut message = only(bytes);
        assert_eq!(message.body().expect("zlib"), [b'A'; 64][..]);
        let crc = message.open(BodyLimits::default(), CrcPolicy::Report);
        assert_eq!(crc, Ok(CrcState::Match), "the checksum is of the stored bytes");
        assert_eq!(message.stored_body().len(), 12);
    }
}

/// Nothing here reads a body before a handler does, so what counts is what is stored, opened or not.
#[test]
fn cd_17_sizes_do_not_depend_on_bodies_that_nobody_has_read() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let (pull, _) = bench.expect_pull();
    let stored = [b"x".to_vec(), vec![], b"packed, and not to be opened".to_vec()];
    let mut bytes = Vec::new();
    for (offset, body) in (0..).zip(&stored) {
        packed(offset, body, SysFlag::COMPRESSED | 0x500)
            .encode(&mut bytes)
            .expect("short parts");
    }
    bench.answer(&pull, &pull_answer(PullStatus::Found, 3, bytes.into()));
    let held = |bench: &Bench| {
        let queue = bench.queue(0).expect("it is owned");
        (queue.unfinished, queue.bytes)
    };
    let len: usize = stored.iter().map(Vec::len).sum();
    assert_eq!(held(&bench), (3, len as u64));
    for run in bench.take_runs() {
        bench.done(&run);
    }
    assert_eq!(held(&bench), (0, 0));
    bench.sleep(secs(5));
    assert_eq!(last_commit(&bench), Some(3));
}

/// A record with a body as it is stored.
const fn packed(offset: i64, body: &[u8], sys_flag: i32) -> RecordParts<'_> {
    RecordParts {
        topic: "T",
        queue_id: rocketmq_consumer_core::ids::QueueId(0),
        flag: 0,
        queue_offset: QueueOffset(offset),
        physical_offset: PhysicalOffset(offset * 1_000),
        sys_flag: SysFlag(sys_flag),
        born_at: rocketmq_consumer_core::time::WallTime::from_unix_millis(1),
        born_host: HOST,
        store_at: rocketmq_consumer_core::time::WallTime::from_unix_millis(2),
        store_host: HOST,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: "",
    }
}

const HOST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

fn last_commit(bench: &Bench) -> Option<i64> {
    let last = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET).pop()?;
    Some(last.request::<CommitOffsetRequest>().offset.0)
}

#[test]
fn cd_19_separators_within_values() {
    let odd = only(
        "0000006ddaa320a70cdc16830000000300000000000000000000002a00000000000003e8000000000000018bcfe568000a000001000004d20000018bcfe568050a00000200002a9f0000000000000000000000000000000178015400106b016101620254414753015461674102",
    );
    assert_eq!(odd.property("k").as_deref(), Some("a\u{1}b"));
    assert_eq!(odd.tags().as_deref(), Some("TagA"));
    let empty = only(
        "0000006ddaa320a70cdc16830000000300000000000000000000002a00000000000003e8000000000000018bcfe568000a000001000004d20000018bcfe568050a00000200002a9f0000000000000000000000000000000178015400104b455953010254414753015461674102",
    );
    assert_eq!((empty.keys(), empty.tags().as_deref()), (None, Some("TagA")));
    // And none are written.
    for (name, value) in [
        ("k", "a\u{1}b"),
        ("k", "a\u{2}b"),
        ("k\u{1}", "a"),
        ("k\u{2}", "a"),
    ] {
        let mut writer = PropertiesWriter::new();
        assert!(writer.push_new(name, value).is_err(), "{name:?} {value:?}");
        assert_eq!(writer.finish(), "", "nothing of it");
    }
}
