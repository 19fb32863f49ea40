use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use miniz_oxide::deflate::compress_to_vec_zlib;
use smallvec::SmallVec;

use super::*;
use crate::ids::MessageQueue;
use crate::wire::stored::{Scanned, Scanner};

/// A record in the retry topic `%RETRY%g`, or in another, as a broker stores it.
fn record(offset: i64, topic: &str, sys_flag: i32, body: &[u8], properties: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let size = 91 + body.len() + topic.len() + properties.len();
    out.extend(i32::try_from(size).expect("small").to_be_bytes());
    out.extend(0xDAA3_20A7_u32.to_be_bytes());
    out.extend([0; 12]);
    out.extend(offset.to_be_bytes());
    out.extend((offset * 100).to_be_bytes());
    out.extend(sys_flag.to_be_bytes());
    out.extend([0; 8]);
    out.extend([10, 0, 0, 1, 0, 0, 1, 0]);
    out.extend([0; 8]);
    out.extend([10, 0, 0, 2, 0, 0, 2, 0]);
    out.extend((-7_i32).to_be_bytes());
    out.extend([0; 8]);
    out.extend(i32::try_from(body.len()).expect("small").to_be_bytes());
    out.extend(body);
    out.push(u8::try_from(topic.len()).expect("small"));
    out.extend(topic.as_bytes());
    out.extend(i16::try_from(properties.len()).expect("small").to_be_bytes());
    out.extend(properties.as_bytes());
    out
}

fn batch(topic: &str, from_retry_topic: bool, records: &[Vec<u8>]) -> Arc<Batch> {
    let frame = Bytes::from(records.concat());
    let entries: SmallVec<_> = Scanner::new(&frame)
        .filter_map(|scanned| match scanned {
            Scanned::Message(entry) => Some(entry),
            Scanned::Undecodable(_) | Scanned::Broken { .. } => None,
        })
        .collect();
    let queue = MessageQueue {
        topic: topic.into(),
        broker: "broker-a".into(),
        id: QueueId(3),
    };
    Arc::new(Batch::new(
        queue,
        from_retry_topic,
        frame,
        entries,
        QueueOffset(0),
        QueueOffset(100),
    ))
}

fn only(batch: &Arc<Batch>) -> Message {
    Message::new(Arc::clone(batch), 0).expect("one message")
}

#[test]
fn a_redelivered_message_shows_the_topic_it_was_sent_to() {
    let properties = "RETRY_TOPIC\u{1}orders\u{2}";
    let own = only(&batch(
        "%RETRY%g",
        true,
        &[record(1, "%RETRY%g", 0, b"", properties)],
    ));
    assert_eq!(own.topic(), "orders");
    assert_eq!(own.stored_topic(), "%RETRY%g");

    // Somebody else's retry topic is a topic like any other.
    let other = only(&batch(
        "%RETRY%g",
        false,
        &[record(1, "%RETRY%g", 0, b"", properties)],
    ));
    assert_eq!(other.topic(), "%RETRY%g");
    // A property alone changes nothing.
    let plain = only(&batch(
        "invoices",
        false,
        &[record(1, "invoices", 0, b"", properties)],
    ));
    assert_eq!(plain.topic(), "invoices");
}

#[test]
fn messages_come_in_order_and_share_the_frame() {
    let batch = batch(
        "T",
        false,
        &[record(5, "T", 0, b"five", ""), record(9, "T", 0, b"nine", "")],
    );
    let messages: Vec<_> = batch.messages().collect();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1].queue_offset(), QueueOffset(9));
    assert_eq!(messages[1].physical_offset(), PhysicalOffset(900));
    assert_eq!(
        (messages[1].queue_id(), messages[1].broker().as_str()),
        (QueueId(3), "broker-a")
    );
    assert_eq!(messages[1].reconsume_times(), 0, "a negative count in a record");
    let body = messages[1].body().expect("a plain body");
    assert_eq!(body, "nine");
    assert!(batch.frame().as_ptr_range().contains(&body.as_ptr()));
    assert_eq!(Message::new(Arc::clone(&batch), 2), None);
}

#[test]
fn a_body_is_decompressed_once_by_whoever_opens_it() {
    let plain = b"hello rocketmq ".repeat(50);
    let stored = compress_to_vec_zlib(&plain, 5);
    let mut message = only(&batch("T", false, &[record(1, "T", 1, &stored, "")]));
    assert_eq!(message.body().expect("opened on demand"), plain);

    let small = BodyLimits { decompressed_max: 10 };
    assert_eq!(
        message.open(small, CrcPolicy::Ignore),
        Err(BodyError::TooLarge { limit: 10 })
    );
    assert_eq!(
        message.open(BodyLimits::default(), CrcPolicy::Report),
        Ok(CrcState::Mismatch)
    );
    let (first, second) = (
        message.body().expect("opened"),
        message.clone().body().expect("opened"),
    );
    assert_eq!(first, plain);
    assert_eq!(first.as_ptr(), second.as_ptr());
    assert_eq!(message.stored_body(), stored);
}

#[test]
fn an_owned_message_has_left_the_frame() {
    let batch = batch(
        "T",
        false,
        &[record(1, "T", 0, b"body", "TAGS\u{1}t\u{2}a\u{1}1\u{2}a\u{1}2")],
    );
    let frame = batch.frame().as_ptr_range();
    let owned = only(&batch).into_owned().expect("a plain body");
    assert_eq!(owned.body, "body");
    assert!(!frame.contains(&owned.body.as_ptr()));
    assert_eq!(owned.properties["a"], "2");
    assert_eq!(Some(owned.msg_id), owned.offset_msg_id);
    assert_eq!(Arc::strong_count(&batch), 1);
}

#[test]
fn a_batch_is_shown_and_recorded_by_its_offsets() {
    let two = batch(
        "T",
        false,
        &[record(5, "T", 0, b"", ""), record(9, "T", 0, b"", "")],
    );
    assert_eq!(format!("{two:?}"), "Batch(T/broker-a/3 5..=9)");
    assert_eq!(
        format!("{:?}", batch("T", false, &[record(5, "T", 0, b"", "")])),
        "Batch(T/broker-a/3 5)"
    );
    assert_eq!(format!("{:?}", batch("T", false, &[])), "Batch(T/broker-a/3)");
    let recorded = serde_json::to_value(&*two).expect("plain data");
    assert_eq!(recorded["offsets"].to_string(), "[5,9]");
    assert_eq!(recorded.as_object().map(serde_json::Map::len), Some(2));
}
