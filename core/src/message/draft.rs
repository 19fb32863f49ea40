//! A message that no broker has stored: for tests of handlers.

use alloc::string::String;
use alloc::sync::Arc;
use core::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use smallvec::smallvec;

use super::{Batch, Message};
use crate::ids::{BrokerName, MessageQueue, PhysicalOffset, QueueId, QueueOffset, Topic};
use crate::time::WallTime;
use crate::wire::properties::{PropertiesWriter, PropertyError, name};
use crate::wire::stored::{RecordParts, Scanned, Scanner, SysFlag, TooLong};

/// What a [`Message`] is to look like, made by [`Message::draft`].
///
/// It is written and read as a broker's record is, so what a handler sees of it is what it would see of a real one.
///
/// ```
/// use rocketmq_consumer_core::message::Message;
///
/// let message = Message::draft("orders")
///     .tags("paid")
///     .keys("order-1")
///     .body("{\"total\":12}")
///     .reconsume_times(2)
///     .finish()?;
/// assert_eq!((&*message.topic(), message.tags().as_deref()), ("orders", Some("paid")));
/// # Ok::<(), rocketmq_consumer_core::message::DraftError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a draft becomes a message when it is finished"]
pub struct Draft {
    queue: MessageQueue,
    offset: QueueOffset,
    body: Bytes,
    properties: Result<PropertiesWriter, PropertyError>,
    reconsume_times: u32,
    born_at: WallTime,
    store_at: WallTime,
}

/// Why a draft cannot be a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DraftError {
    /// A property cannot be written, a tag or a key among them.
    #[error(transparent)]
    Property(PropertyError),
    /// A record cannot hold it.
    #[error(transparent)]
    TooLong(TooLong),
    /// No consumer would take the record for a message: its offset is negative, say.
    #[error("no consumer could read such a record")]
    Unreadable,
}

impl Draft {
    pub(super) fn new(topic: Topic) -> Self {
        Self {
            queue: MessageQueue {
                topic,
                broker: "broker-a".into(),
                id: QueueId(0),
            },
            offset: QueueOffset(0),
            body: Bytes::new(),
            properties: Ok(PropertiesWriter::new()),
            reconsume_times: 0,
            born_at: WallTime::default(),
            store_at: WallTime::default(),
        }
    }

    /// The body; empty by default, which no broker stores.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Its tag.
    pub fn tags(self, tags: &str) -> Self {
        self.property(name::TAGS, tags)
    }

    /// Its business keys, separated by spaces.
    pub fn keys(self, keys: &str) -> Self {
        self.property(name::KEYS, keys)
    }

    /// A property; of two of one name the later counts.
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties = self.properties.and_then(|mut properties| {
            properties.push(name, value)?;
            Ok(properties)
        });
        self
    }

    /// The broker and the queue it comes from: `broker-a` and 0 by default.
    pub fn queue(mut self, broker: impl Into<BrokerName>, id: i32) -> Self {
        (self.queue.broker, self.queue.id) = (broker.into(), QueueId(id));
        self
    }

    /// The id that its producer gave it. Without one [`Message::msg_id`] is that of its place, and the places of drafts
    /// differ by their queue offsets only.
    pub fn msg_id(self, id: &str) -> Self {
        self.property(name::UNIQUE_KEY, id)
    }

    /// Its place in the queue; 0 by default, which is below no other.
    pub const fn queue_offset(mut self, offset: i64) -> Self {
        self.offset = QueueOffset(offset);
        self
    }

    /// How often brokers have delivered it again before; at most 2,147,483,647 times.
    pub const fn reconsume_times(mut self, times: u32) -> Self {
        self.reconsume_times = times;
        self
    }

    /// When it was sent; the epoch by default.
    pub const fn born_at(mut self, at: WallTime) -> Self {
        self.born_at = at;
        self
    }

    /// When it was stored; the epoch by default.
    pub const fn store_at(mut self, at: WallTime) -> Self {
        self.store_at = at;
        self
    }

    /// The message.
    ///
    /// # Errors
    ///
    /// What a record cannot hold, or a consumer could not read: a property without a value, a topic of 70,000 bytes, a
    /// negative offset. Whether a broker would take its topic and its body is not looked at.
    pub fn finish(self) -> Result<Message, DraftError> {
        let properties: String = self.properties.map_err(DraftError::Property)?.finish();
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let parts = RecordParts {
            topic: self.queue.topic.as_str(),
            queue_id: self.queue.id,
            flag: 0,
            queue_offset: self.offset,
            physical_offset: PhysicalOffset(self.offset.0),
            sys_flag: SysFlag::default(),
            born_at: self.born_at,
            born_host: nowhere,
            store_at: self.store_at,
            store_host: nowhere,
            reconsume_times: i32::try_from(self.reconsume_times).unwrap_or(i32::MAX),
            prepared_transaction_offset: 0,
            body: &self.body,
            properties: &properties,
        };
        let mut record = alloc::vec::Vec::new();
        parts.encode(&mut record).map_err(DraftError::TooLong)?;
        let frame = Bytes::from(record);
        let Some(Scanned::Message(entry)) = Scanner::new(&frame).next() else {
            return Err(DraftError::Unreadable);
        };
        let next = QueueOffset(self.offset.0.saturating_add(1));
        let batch = Batch::new(self.queue, false, frame, smallvec![entry], self.offset, next);
        Ok(Message::new(Arc::new(batch), 0).expect("it is its only message"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_sees_what_was_drafted() {
        let draft = Message::draft("orders")
            .body("hello")
            .tags("paid")
            .keys("a b")
            .property("colour", "red")
            .queue("broker-b", 3)
            .queue_offset(77)
            .reconsume_times(2)
            .born_at(WallTime::from_unix_millis(5))
            .store_at(WallTime::from_unix_millis(6));
        let message = draft.finish().expect("it is legal");
        assert_eq!(message.body().expect("it is not compressed"), "hello");
        assert_eq!(message.topic(), "orders");
        assert_eq!(message.tags().as_deref(), Some("paid"));
        assert_eq!(message.keys().as_deref(), Some("a b"));
        assert_eq!(message.property("colour").as_deref(), Some("red"));
        assert_eq!(
            (message.broker().as_str(), message.queue_id()),
            ("broker-b", QueueId(3))
        );
        assert_eq!(
            (message.queue_offset(), message.reconsume_times()),
            (QueueOffset(77), 2)
        );
        assert_eq!(message.born_at(), WallTime::from_unix_millis(5));
        assert_eq!(message.store_at(), WallTime::from_unix_millis(6));
    }

    #[test]
    fn ids_are_given_or_tell_drafts_of_different_offsets_apart() {
        let id = |draft: Draft| draft.finish().expect("it is legal").msg_id().into_owned();
        let draft = || Message::draft("orders");
        assert_eq!(id(draft().msg_id("A1")), "A1");
        assert_ne!(id(draft().queue_offset(1)), id(draft().queue_offset(2)));
    }

    #[test]
    fn what_a_record_cannot_hold_is_refused() {
        let empty = Message::draft("orders").tags("").keys("a").finish();
        assert_eq!(empty.err(), Some(DraftError::Property(PropertyError::Empty)));
        let odd = Message::draft("orders").queue_offset(-1).finish();
        assert_eq!(odd.err(), Some(DraftError::Unreadable));
        let long = Message::draft("o".repeat(70_000)).finish();
        assert_eq!(long.err(), Some(DraftError::TooLong(TooLong::Topic)));
    }
}
