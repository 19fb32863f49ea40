use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rocketmq_consumer_core::message::Message;
use rocketmq_consumer_core::wire::stored::Record;
use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// A record as `-o json` and `decode messages` show it. The keys and their order are stable; every
/// key is always there, `null` where there is nothing.
pub(crate) struct RecordView<'a> {
    topic: Cow<'a, str>,
    stored_topic: &'a str,
    broker: Option<&'a str>,
    record: Record<'a>,
    /// A message of an inner batch, which has no place of storage of its own.
    inner: bool,
    body: &'a [u8],
    consumer: Option<&'a str>,
    /// Deliveries of an ordered queue before this one that the record does not count.
    repeats: u32,
    decoded: Option<DecodedParts>,
}

/// What only `decode messages` shows.
struct DecodedParts {
    /// Size of the record in bytes.
    store_size: Option<usize>,
    /// Its place in the commit log.
    physical_offset: i64,
    /// The system flag as on the wire.
    sys_flag: i32,
    /// The checksum as stored, not compared with anything.
    body_crc: Option<u32>,
}

impl<'a> RecordView<'a> {
    /// A message that this consumer was handed, after so many repeats that went through no broker.
    pub(crate) fn consumed(message: &'a Message, repeats: u32, body: &'a [u8], consumer: &'a str) -> Self {
        Self {
            topic: message.topic(),
            stored_topic: message.stored_topic(),
            broker: Some(message.broker().as_str()),
            record: message.record(),
            inner: message.is_inner(),
            body,
            consumer: Some(consumer),
            repeats,
            decoded: None,
        }
    }

    /// A record in a file: nobody knows which broker it came from, and nobody consumed it.
    pub(crate) fn decoded(record: Record<'a>, body: &'a [u8]) -> Self {
        Self {
            topic: Cow::Borrowed(record.topic()),
            stored_topic: record.topic(),
            broker: None,
            record,
            inner: false,
            body,
            consumer: None,
            repeats: 0,
            decoded: Some(DecodedParts {
                store_size: Some(record.bytes().len()),
                physical_offset: record.physical_offset().0,
                sys_flag: record.sys_flag().0,
                body_crc: Some(record.body_crc()),
            }),
        }
    }

    /// A message of an inner batch in a file. Place and system flag are those of the batch; neither a size nor
    /// a checksum of its own is stored.
    pub(crate) fn inner(outer: Record<'a>, record: Record<'a>) -> Self {
        let decoded = DecodedParts {
            store_size: None,
            physical_offset: outer.physical_offset().0,
            sys_flag: outer.sys_flag().0,
            body_crc: None,
        };
        Self {
            inner: true,
            decoded: Some(decoded),
            ..Self::decoded(record, record.stored_body())
        }
    }

    /// The id the producer gave, or else that of the place of storage where there is one.
    fn msg_id(&self) -> Option<Cow<'_, str>> {
        if self.inner {
            self.record.unique_key()
        } else {
            Some(self.record.msg_id())
        }
    }

    fn offset_msg_id(&self) -> Option<String> {
        (!self.inner).then(|| self.record.offset_msg_id())
    }
}

impl Serialize for RecordView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = &self.record;
        let properties: BTreeMap<_, _> = record.properties().iter().collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("topic", &self.topic)?;
        map.serialize_entry("stored_topic", self.stored_topic)?;
        map.serialize_entry("broker", &self.broker)?;
        map.serialize_entry("queue_id", &record.queue_id().0)?;
        map.serialize_entry("queue_offset", &record.queue_offset().0)?;
        map.serialize_entry("msg_id", &self.msg_id())?;
        map.serialize_entry("offset_msg_id", &self.offset_msg_id())?;
        map.serialize_entry("keys", &record.keys())?;
        map.serialize_entry("tags", &record.tags())?;
        map.serialize_entry("born_at", &record.born_at().as_unix_millis())?;
        map.serialize_entry("born_host", &Shown(record.born_host()))?;
        map.serialize_entry("store_at", &record.store_at().as_unix_millis())?;
        map.serialize_entry("store_host", &Shown(record.store_host()))?;
        let times = i64::from(record.reconsume_times()) + i64::from(self.repeats);
        map.serialize_entry("reconsume_times", &times)?;
        map.serialize_entry("properties", &properties)?;
        match std::str::from_utf8(self.body) {
            Ok(text) => map.serialize_entry("body", text)?,
            Err(_) => map.serialize_entry("body_base64", &base64(self.body))?,
        }
        map.serialize_entry("consumer", &self.consumer)?;
        if let Some(decoded) = &self.decoded {
            map.serialize_entry("store_size", &decoded.store_size)?;
            map.serialize_entry("physical_offset", &decoded.physical_offset)?;
            map.serialize_entry("sys_flag", &decoded.sys_flag)?;
            map.serialize_entry("body_crc", &decoded.body_crc)?;
        }
        map.end()
    }
}

/// Bytes as standard base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Serialises what it shows.
struct Shown<T>(T);

impl<T: fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::message;

    #[test]
    fn a_consumed_record_has_every_key() {
        let message = message(7);
        let text = serde_json::to_string(&RecordView::consumed(&message, 0, b"hello", "me@1")).unwrap();
        assert!(text.starts_with(r#"{"topic":"orders","stored_topic":"orders","broker":"broker-a""#));
        let line: Value = serde_json::from_str(&text).unwrap();
        let want = json!({
            "topic": "orders", "stored_topic": "orders", "broker": "broker-a", "queue_id": 3, "queue_offset": 7,
            "msg_id": "0A00000200002A9F00000000000003E8", "offset_msg_id": "0A00000200002A9F00000000000003E8",
            "keys": "k1 k2", "tags": "paid", "born_at": 1_700_000_000_000_i64, "born_host": "10.0.0.1:1234",
            "store_at": 1_700_000_000_005_i64, "store_host": "10.0.0.2:10911", "reconsume_times": 0,
            "properties": {"KEYS": "k1 k2", "TAGS": "paid"}, "body": "hello", "consumer": "me@1",
        });
        assert_eq!(line, want);
        let again = serde_json::to_value(RecordView::consumed(&message, 2, b"hello", "me@1")).unwrap();
        assert_eq!(
            again["reconsume_times"], 2,
            "as the Java client counts where messages are in order"
        );
    }

    #[test]
    fn a_body_that_is_no_text_is_base64() {
        let message = message(7);
        let view = serde_json::to_value(RecordView::decoded(message.record(), &[0xff, 0xfe])).unwrap();
        assert_eq!((view.get("body"), &view["body_base64"]), (None, &json!("//4=")));
        assert_eq!((&view["broker"], &view["consumer"]), (&Value::Null, &Value::Null));
        assert_eq!(
            (&view["sys_flag"], &view["physical_offset"]),
            (&json!(0), &json!(1000))
        );
    }
}
