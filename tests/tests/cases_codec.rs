//! Faults of the wire that other clients have had, each with the steps of its report and what must and
//! must not follow.

use std::collections::BTreeMap;

use bytes::Bytes;
use rocketmq_consumer_core::config::{GroupConfig, StartAt, UndecodablePolicy};
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::{HoldReason, LinkState, QueueState};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, FrameError, HeaderForm};
use rocketmq_consumer_core::wire::link::Reassembler;
use rocketmq_consumer_core::wire::properties::PropertiesWriter;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::reset::ResetOffsets;
use rocketmq_consumer_core::wire::request::route::TopicRoute;
use rocketmq_consumer_core::wire::request::send_back::{Delay, SendBackRequest};
use rocketmq_consumer_core::wire::request::{Answer as _, AnswerError};
use rocketmq_consumer_core::wire::stored::{Record, Scanned, Scanner};
use rocketmq_consumer_testing::world::{
    Bench, Run, StoredMessage, address, ms, pull_answer, queue, records, secs,
};
use serde_json::Value;

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const BACK: RequestCode = RequestCode::CONSUMER_SEND_MSG_BACK;

/// Bytes written in hexadecimal digits.
fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16).expect("a hexadecimal digit")).expect("below 16"))
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The first frame of bytes from a peer.
fn first_frame(bytes: Bytes) -> Result<bool, FrameError> {
    let mut link = Reassembler::new(FRAME_LEN_MAX);
    link.push(bytes);
    link.next_frame().map(|frame| frame.is_some())
}

/// A frame with a JSON header.
fn json_frame(header: &str, body: &[u8]) -> Bytes {
    let word = |len: usize| u32::try_from(len).expect("test frames are small").to_be_bytes();
    let len = word(4 + header.len() + body.len());
    [&len[..], &word(header.len()), header.as_bytes(), body]
        .concat()
        .into()
}

fn json_header(text: &str) -> Header<'_> {
    Header::decode(HeaderForm::Json, text.as_bytes()).expect("a good header")
}

/// Bytes that close the connection: what waits on it fails, and it is dialled again.
fn closes(bytes: &Bytes, why: &str) {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let conn = bench.conn_to(&address("a"));
    bench.receive(conn, bytes.clone());
    assert!(bench.connections().iter().all(|(standing, _)| *standing != conn));
    let told = bench
        .count_notices(|kind| matches!(kind, NoticeKind::PeerMisbehaved { why: told, .. } if told == why));
    assert_eq!(told, 1, "{why}: {:?}", bench.notices());
    let links = bench.status().links;
    let link = links.iter().find(|link| link.addr == address("a"));
    let link = link.expect("the broker is known");
    assert_eq!((link.state, link.failed_dials), (LinkState::BackingOff, 1));
    // The pull has failed with its connection; once the next one stands it is sent again.
    let queue = bench.queue(0).expect("it is owned");
    assert_eq!(
        (queue.state, queue.hold),
        (QueueState::Held, Some(HoldReason::LinkDown))
    );
    bench.sleep(ms(200));
    let pulls = bench.sent(PULL);
    let offsets = pulls.iter().map(|pull| pull.request::<PullRequest>().offset.0);
    assert_eq!(offsets.collect::<Vec<_>>(), [0, 0]);
    assert_ne!(pulls[1].link.conn, conn);
}

#[test]
fn cd_01_short_frame_and_unknown_header_form() {
    let short = hex("000000020000");
    let form_9 = hex("000000220900001e7b22636f6465223a302c226f7061717565223a372c22666c6167223a317d");
    assert!(matches!(
        first_frame(short.clone()),
        Err(FrameError::Length { len: 2, .. })
    ));
    assert_eq!(first_frame(form_9.clone()), Err(FrameError::Form { byte: 9 }));
    closes(&short, "frame length 2 is not within 4 to 16777212 bytes");
    closes(&form_9, "unknown header form 9");
}

#[test]
fn cd_03_another_protocol_on_the_port() {
    let preface = hex("505249202a20485454502f322e300d0a0d0a534d0d0a0d0a");
    let negative = hex("ffffffff0000000000000000");
    // At once: the first four bytes are enough, 1.3 GB are not waited for.
    closes(
        &preface.slice(..4),
        "frame length 1347569952 is not within 4 to 16777212 bytes; the peer speaks HTTP",
    );
    closes(
        &preface,
        "frame length 1347569952 is not within 4 to 16777212 bytes; the peer speaks HTTP",
    );
    closes(&negative, "frame length -1 is not within 4 to 16777212 bytes");
    closes(
        &hex("160301020001"),
        "frame length 369295618 is not within 4 to 16777212 bytes; the peer speaks TLS",
    );
    closes(
        &Bytes::from_static(b"SSH-2.0-"),
        "frame length 1397966893 is not within 4 to 16777212 bytes; the peer sends plain text",
    );
}

#[test]
fn cd_04_route_with_integer_keys() {
    let body = br#"{"brokerDatas":[{"brokerAddrs":{0:"192.0.2.10:10911",1:"192.0.2.11:10911"},"brokerName":"b-a","cluster":"C"}],"filterServerTable":{},"queueDatas":[{"brokerName":"b-a","perm":6,"readQueueNums":4,"topicSynFlag":0,"writeQueueNums":4}]}"#;
    let header = json_header(r#"{"code":0,"flag":1,"opaque":1}"#);
    let route = TopicRoute::decode(&header, &Bytes::from_static(body)).expect("every classic route is so");
    let [broker] = &route.brokers[..] else {
        panic!("{route:?}")
    };
    let addresses = BTreeMap::from([(0, "192.0.2.10:10911".into()), (1, "192.0.2.11:10911".into())]);
    assert_eq!((broker.name.as_str(), &broker.addresses), ("b-a", &addresses));
    assert_eq!(
        route
            .queues
            .iter()
            .map(|data| data.read_queues)
            .collect::<Vec<_>>(),
        [4]
    );
}

/// Java names the entries of these tables by whole objects; other clients get lists.
#[test]
fn cd_06_tables_named_by_objects() {
    let offsets = BTreeMap::from([
        (queue("test", "b-a", 2), QueueOffset(5)),
        (queue("test", "b-a", 10), QueueOffset(7)),
    ]);
    let header = json_header(r#"{"code":0,"flag":1,"opaque":1}"#);
    for body in [
        r#"{"offsetTable":{{"brokerName":"b-a","queueId":2,"topic":"test"}:5,{"brokerName":"b-a","queueId":10,"topic":"test"}:7}}"#,
        r#"{"offsetTable":{{"topic":"test","queueId":2,"brokerName":"b-a"}:5,{"topic":"test","queueId":10,"brokerName":"b-a"}:7}}"#,
        r#"{"offsetTable":[{"key":{"topic":"test","queueId":2,"brokerName":"b-a"},"value":5},{"key":{"brokerName":"b-a","queueId":10,"topic":"test"},"value":7}]}"#,
        r#"{"offsetTable":[{"topic":"test","queueId":2,"brokerName":"b-a","offset":5},{"brokerName":"b-a","queueId":10,"topic":"test","offset":7}]}"#,
    ] {
        let read = ResetOffsets::decode(&header, &Bytes::copy_from_slice(body.as_bytes()));
        assert_eq!(read.map(|read| read.offsets).as_ref(), Ok(&offsets), "{body}");
    }
    // A Java broker reads the first form only.
    let written = ResetOffsets { offsets }.body();
    assert_eq!(
        written,
        r#"{"offsetTable":{{"brokerName":"b-a","queueId":2,"topic":"test"}:5,{"brokerName":"b-a","queueId":10,"topic":"test"}:7}}"#
    );
}

#[test]
fn cd_07_a_heartbeat_uses_the_brokers_names() {
    for (start_at, from) in [
        (StartAt::Latest, "CONSUME_FROM_LAST_OFFSET"),
        (StartAt::Earliest, "CONSUME_FROM_FIRST_OFFSET"),
        (
            StartAt::Time(WallTime::from_unix_millis(1)),
            "CONSUME_FROM_TIMESTAMP",
        ),
    ] {
        let mut bench = Bench::new(|_, group| {
            group.subscribe("T".into(), "*").set_start_at(start_at);
        });
        bench.settle();
        let beats = bench.sent(RequestCode::HEART_BEAT);
        let beat = beats.first().expect("it has beaten");
        let body: Value = serde_json::from_slice(&beat.frame.body).expect("standard JSON");
        let group = &body["consumerDataSet"][0];
        for (member, name) in [
            ("consumeType", "CONSUME_PASSIVELY"),
            ("messageModel", "CLUSTERING"),
            ("consumeFromWhere", from),
        ] {
            assert_eq!(group[member], name);
        }
        // Nothing that a 4.2 broker does not have, either; it would not mind.
        let old = [
            "groupName",
            "consumeType",
            "messageModel",
            "consumeFromWhere",
            "subscriptionDataSet",
            "unitMode",
        ];
        let members = group.as_object().expect("an object");
        assert!(
            members.keys().all(|member| old.contains(&member.as_str())),
            "{members:?}"
        );
    }
}

#[test]
fn cd_08_pull_answer_without_nullable_fields() {
    const FULL: &str = r#""suggestWhichBrokerId":"0","nextBeginOffset":"5","minOffset":"0","maxOffset":"5""#;
    const NO_SUGGESTION: &str = r#""nextBeginOffset":"5","minOffset":"0","maxOffset":"5""#;
    const UNKNOWN: &str = r#""nextBeginOffset":"5","minOffset":"0","maxOffset":"5","shape":"round""#;
    for (fields, suggestion) in [(FULL, Some(0)), (NO_SUGGESTION, None), (UNKNOWN, None)] {
        let text = format!(r#"{{"code":19,"flag":1,"opaque":1,"extFields":{{{fields}}}}}"#);
        let header = json_header(&text);
        let answer = PullAnswer::decode(&header, &Bytes::new()).expect("absent fields are no fault");
        assert_eq!(
            (answer.next_begin_offset, answer.suggest_broker_id),
            (QueueOffset(5), suggestion)
        );

        let mut bench = Bench::owning_one_queue(0, |_, _| {});
        let (pull, _) = bench.expect_pull();
        let text = format!(
            r#"{{"code":19,"flag":1,"opaque":{},"extFields":{{{fields}}}}}"#,
            pull.opaque
        );
        bench.receive(pull.link.conn, json_frame(&text, b""));
        assert_eq!(bench.expect_pull().1.offset, QueueOffset(5));
    }
    // Without the next offset there is nothing to go on with: this pull has failed, and no more.
    let header = json_header(r#"{"code":19,"flag":1,"opaque":1,"extFields":{"minOffset":"0"}}"#);
    assert!(matches!(
        PullAnswer::decode(&header, &Bytes::new()),
        Err(AnswerError::Malformed(_))
    ));
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let (pull, _) = bench.expect_pull();
    let (conn, opaque) = (pull.link.conn, pull.opaque);
    let text = format!(r#"{{"code":19,"flag":1,"opaque":{opaque},"extFields":{{"minOffset":"0"}}}}"#);
    bench.receive(conn, json_frame(&text, b""));
    assert_eq!(bench.conn_to(&address("a")), conn);
    assert!(bench.outstanding(PULL).is_empty(), "not at once");
    bench.sleep(secs(1));
    let (again, request) = bench.expect_pull();
    assert_eq!(
        (again.link.conn, request.offset.0),
        (conn, 0),
        "asked again on the same connection"
    );
}

#[test]
fn cd_10_properties_without_the_last_separator() {
    for (bytes, keys) in [
        (
            "0000006edaa320a70cdc16830000000300000000000000000000002a00000000000003e8000000000000018bcfe568000a000001000004d20000018bcfe568050a00000200002a9f0000000000000000000000000000000178015400114b455953016b3102544147530154616741",
            "k1",
        ),
        (
            "00000073daa320a73610a6860000000300000000000000000000002a00000000000003e8000000000000018bcfe568000a000001000004d20000018bcfe568050a00000200002a9f0000000000000000000000000000000568656c6c6f01540012544147530154616741024b455953016b3102",
            "k1",
        ),
    ] {
        let bytes = hex(bytes);
        let scanned: Vec<_> = Scanner::new(&bytes).collect();
        let [Scanned::Message(entry)] = scanned[..] else {
            panic!("{scanned:?}")
        };
        let record = Record::new(&bytes, entry);
        assert_eq!(
            (record.tags().as_deref(), record.keys().as_deref()),
            (Some("TagA"), Some(keys))
        );
    }
    let mut writer = PropertiesWriter::default();
    writer.push("KEYS", "k1").expect("a good property");
    writer.push("TAGS", "TagA").expect("a good property");
    assert_eq!(
        writer.finish(),
        "KEYS\u{1}k1\u{2}TAGS\u{1}TagA\u{2}",
        "every pair has its end"
    );
}

/// A slave that was suggested is asked until something else is suggested.
#[test]
fn cd_08_a_missing_suggestion_keeps_the_choice() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_addresses("a", &[(0, "10.0.0.1:10911"), (1, "10.0.0.21:10911")]);
    bench.store("T", 0, 0);
    bench.settle();
    let mut asked = Vec::new();
    for (next, suggest_broker_id) in [(5, Some(1)), (6, None), (7, Some(0)), (8, None)] {
        let (pull, _) = bench.expect_pull();
        let answer = pull_answer(PullStatus::NotFound, next, Bytes::new());
        let answer = PullAnswer {
            suggest_broker_id,
            ..answer
        };
        bench.answer(&pull, &answer);
        asked.push(pull.to.host().to_owned());
    }
    asked.push(bench.expect_pull().0.to.host().to_owned());
    assert_eq!(
        asked,
        ["10.0.0.1", "10.0.0.21", "10.0.0.21", "10.0.0.1", "10.0.0.1"]
    );
}

/// Messages 50 and 52 are good; the topic of 51 is said to be longer than the record.
fn fifty_to_fifty_two() -> [Vec<u8>; 3] {
    let [first, mut second, third] = [50, 51, 52].map(|offset| {
        let message = StoredMessage::new(queue("T", "a", 0), offset, "body", "A");
        records([&message]).to_vec()
    });
    let topic_len_at = 88 + b"body".len();
    assert_eq!(second[topic_len_at], 1);
    second[topic_len_at] = 0xff;
    [first, second, third]
}

/// A member that has pulled at 50 is given these records; returns what was delivered of them.
fn deliver(bench: &mut Bench, stored: &[Vec<u8>; 3]) -> Vec<i64> {
    let (pull, _) = bench.expect_pull();
    bench.answer(&pull, &pull_answer(PullStatus::Found, 53, stored.concat().into()));
    let runs = bench.take_runs();
    for run in &runs {
        bench.done(run);
    }
    runs.iter().flat_map(Run::offsets).collect()
}

fn last_commit(bench: &Bench) -> Option<i64> {
    let last = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET).pop()?;
    Some(last.request::<CommitOffsetRequest>().offset.0)
}

#[test]
fn cd_20_one_undecodable_message_among_good_ones() {
    const DEFAULT: fn(&mut GroupConfig) = |_| {};
    const HOLD: fn(&mut GroupConfig) = |group| {
        group.set_undecodable(UndecodablePolicy::Hold);
    };
    const DELIVER: fn(&mut GroupConfig) = |group| {
        group.set_undecodable(UndecodablePolicy::Deliver);
    };
    const SKIP: fn(&mut GroupConfig) = |group| {
        group.set_undecodable(UndecodablePolicy::Skip);
    };
    for (policy, group, fate, sent_back, committed) in [
        ("default", DEFAULT, "sent to the dead letters", true, 53),
        ("hold", HOLD, "held", false, 51),
        ("deliver", DELIVER, "held", false, 51),
        ("skip", SKIP, "skipped", false, 53),
    ] {
        let mut bench = Bench::owning_one_queue(50, |_, config| group(config));
        bench.serve(BACK);
        let stored = fifty_to_fifty_two();
        assert_eq!(
            deliver(&mut bench, &stored),
            [50, 52],
            "{policy}: both neighbours"
        );
        let told = bench.count_notices(|kind| {
            matches!(kind, NoticeKind::Undecodable { offset, physical_offset, record, fate: told, .. }
                if *offset == Some(QueueOffset(51))
                    && *physical_offset == Some(PhysicalOffset(51_000))
                    && record.as_deref() == Some(&stored[1][..])
                    && *told == fate)
        });
        assert!(told > 0, "{policy}: {:?}", bench.notices());
        let buried: Vec<_> = bench
            .sent(BACK)
            .iter()
            .map(|asked| asked.request::<SendBackRequest>())
            .map(|back| (back.offset, back.delay))
            .collect();
        let want = [(PhysicalOffset(51_000), Delay::DeadLetter)];
        assert_eq!(buried, &want[..usize::from(sent_back)], "{policy}");
        bench.sleep(secs(5));
        assert_eq!(last_commit(&bench), Some(committed), "{policy}");
    }
}

/// As long as the broker has not taken it, what cannot be read holds the offset.
#[test]
fn cd_20_is_not_passed_before_the_dead_letters_have_it() {
    let mut bench = Bench::owning_one_queue(50, |_, _| {});
    bench.refuse_all(BACK, ResponseCode::SYSTEM_ERROR);
    deliver(&mut bench, &fifty_to_fifty_two());
    bench.sleep(secs(30));
    assert_eq!(last_commit(&bench), Some(51));
    assert!(bench.sent(BACK).len() > 2, "it is tried again");
    bench.serve(BACK);
    bench.sleep(secs(30));
    assert_eq!(last_commit(&bench), Some(53));
}
