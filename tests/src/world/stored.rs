use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use rocketmq_consumer_core::ids::{MessageQueue, PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::properties::{PropertiesWriter, name};
use rocketmq_consumer_core::wire::stored::{RecordParts, SysFlag};

/// Where the messages of tests were sent from.
const PRODUCER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 12_345);
/// Where they were stored.
const BROKER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 10_911);

/// A message as a broker stores it, as far as tests care: the other fields of a record are made up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Where it lies.
    pub queue: MessageQueue,
    /// Its place in the queue.
    pub offset: QueueOffset,
    /// Its place in the commit log.
    pub physical_offset: PhysicalOffset,
    /// How often it was sent back.
    pub reconsume_times: i32,
    /// When it was stored.
    pub store_at: WallTime,
    /// The body, as stored.
    pub body: Bytes,
    /// The properties, in order.
    pub properties: Vec<(String, String)>,
}

impl StoredMessage {
    /// A message with a body and, unless it is empty, a tag.
    #[must_use]
    pub fn new(queue: MessageQueue, offset: i64, body: impl Into<Bytes>, tag: &str) -> Self {
        let tag = (!tag.is_empty()).then(|| (name::TAGS.to_owned(), tag.to_owned()));
        Self {
            queue,
            offset: QueueOffset(offset),
            physical_offset: PhysicalOffset(offset * 1_000),
            reconsume_times: 0,
            store_at: WallTime::default(),
            body: body.into(),
            properties: tag.into_iter().collect(),
        }
    }

    /// The tag, if it has one.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        let found = self.properties.iter().rfind(|(known, _)| known == name::TAGS)?;
        Some(&found.1)
    }

    /// Sets a property, in place of an earlier one of that name.
    pub fn set_property(&mut self, name: &str, value: impl Into<String>) {
        self.properties.retain(|(known, _)| known != name);
        self.properties.push((name.to_owned(), value.into()));
    }

    /// Appends the record, as pull answers carry it.
    ///
    /// # Panics
    /// When a part is longer than the format can say.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut properties = PropertiesWriter::new();
        for (name, value) in &self.properties {
            properties
                .push(name, value)
                .expect("a property of a test is legal");
        }
        let parts = RecordParts {
            topic: self.queue.topic.as_str(),
            queue_id: self.queue.id,
            flag: 0,
            queue_offset: self.offset,
            physical_offset: self.physical_offset,
            sys_flag: SysFlag(0),
            born_at: self.store_at,
            born_host: PRODUCER,
            store_at: self.store_at,
            store_host: BROKER,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: 0,
            body: &self.body,
            properties: &properties.finish(),
        };
        parts.encode(out).expect("a message of a test is small");
    }
}

/// The body of a pull answer with these messages.
#[must_use]
pub fn records<'a>(messages: impl IntoIterator<Item = &'a StoredMessage>) -> Bytes {
    let mut out = Vec::new();
    for message in messages {
        message.encode(&mut out);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::QueueId;
    use rocketmq_consumer_core::wire::body::crc_matches;
    use rocketmq_consumer_core::wire::stored::{Record, Scanned, Scanner};

    use super::*;

    #[test]
    fn what_is_written_is_what_the_client_reads() {
        let queue = MessageQueue {
            topic: "T".into(),
            broker: "a".into(),
            id: QueueId(3),
        };
        let mut message = StoredMessage::new(queue, 7, "hello", "TagA");
        message.reconsume_times = 2;
        message.store_at = WallTime::from_unix_millis(99);
        message.set_property(name::KEYS, "k1 k2");
        let bytes = records([&message, &message]);
        let read: Vec<_> = Scanner::new(&bytes).collect();
        let [Scanned::Message(entry), Scanned::Message(_)] = read[..] else {
            panic!("{read:?}");
        };
        let record = Record::new(&bytes, entry);
        assert_eq!(
            (record.topic(), record.queue_id(), record.queue_offset()),
            ("T", QueueId(3), QueueOffset(7))
        );
        assert_eq!(
            (record.physical_offset(), record.reconsume_times()),
            (PhysicalOffset(7_000), 2)
        );
        assert_eq!(record.stored_body(), b"hello");
        assert!(crc_matches(b"hello", record.body_crc()));
        assert_eq!(
            (record.tags().as_deref(), record.keys().as_deref()),
            (Some("TagA"), Some("k1 k2"))
        );
        assert_eq!(record.store_at(), message.store_at);
    }
}
