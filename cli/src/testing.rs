//! Messages to test with.

use std::sync::Arc;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{MessageQueue, QueueId, QueueOffset};
use rocketmq_consumer_core::message::{Batch, Message};
use rocketmq_consumer_core::wire::stored::{MAGIC_V1, Scanned, Scanner};

/// The queue all of them lie in.
pub(crate) fn queue() -> MessageQueue {
    MessageQueue {
        topic: "orders".into(),
        broker: "broker-a".into(),
        id: QueueId(3),
    }
}

/// A message of topic `orders` with body `hello`, tag `paid` and two keys.
pub(crate) fn message(queue_offset: i64) -> Message {
    message_of(queue_offset, 0)
}

/// The same, sent back so often before.
pub(crate) fn message_of(queue_offset: i64, reconsume_times: i32) -> Message {
    framed(Bytes::from(record(queue_offset, reconsume_times)))
}

/// The same with other properties.
pub(crate) fn message_with(queue_offset: i64, properties: &[u8]) -> Message {
    framed(Bytes::from(record_with(queue_offset, 0, properties)))
}

fn framed(frame: Bytes) -> Message {
    let entries = Scanner::new(&frame)
        .map(|scanned| match scanned {
            Scanned::Message(entry) => entry,
            other @ (Scanned::Undecodable(_) | Scanned::Broken { .. }) => panic!("{other:?}"),
        })
        .collect();
    let batch = Batch::new(queue(), false, frame, entries, QueueOffset(0), QueueOffset(100));
    Message::new(Arc::new(batch), 0).expect("the batch holds one")
}

/// The bytes of one record.
pub(crate) fn record(queue_offset: i64, reconsume_times: i32) -> Vec<u8> {
    record_with(
        queue_offset,
        reconsume_times,
        b"KEYS\x01k1 k2\x02TAGS\x01paid\x02",
    )
}

fn record_with(queue_offset: i64, reconsume_times: i32, properties: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend(MAGIC_V1.to_be_bytes());
    out.extend(0x3610_a686_u32.to_be_bytes());
    out.extend(3_i32.to_be_bytes());
    out.extend(0_i32.to_be_bytes());
    out.extend(queue_offset.to_be_bytes());
    out.extend(1_000_i64.to_be_bytes());
    out.extend(0_i32.to_be_bytes());
    out.extend(1_700_000_000_000_i64.to_be_bytes());
    out.extend([10, 0, 0, 1]);
    out.extend(1_234_i32.to_be_bytes());
    out.extend(1_700_000_000_005_i64.to_be_bytes());
    out.extend([10, 0, 0, 2]);
    out.extend(10_911_i32.to_be_bytes());
    out.extend(reconsume_times.to_be_bytes());
    out.extend(0_i64.to_be_bytes());
    out.extend(5_i32.to_be_bytes());
    out.extend(b"hello");
    out.push(6);
    out.extend(b"orders");
    out.extend(i16::try_from(properties.len()).expect("short").to_be_bytes());
    out.extend(properties);
    let size = i32::try_from(out.len()).expect("short").to_be_bytes();
    out[..4].copy_from_slice(&size);
    out
}
