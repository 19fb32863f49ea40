//! What the application sees: messages, handed out in batches, and the outcomes it answers with.
//!
//! A [`Batch`] is what one pull answer brought: the bytes and an index over them, behind one `Arc`.
//! A [`Message`] is a batch and a position; it is cheap to clone and opens its body when asked. As
//! long as one message of a batch lives, the whole frame does. [`Message::into_owned`] is for
//! those who keep one for longer.

mod batch;
mod delay_level;
mod draft;
mod outcome;
mod owned;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;

use bytes::Bytes;

pub use batch::Batch;
pub use delay_level::{DelayLevel, NoSuchLevel};
pub use draft::{Draft, DraftError};
pub use outcome::{OrderlyOutcome, Outcome};
pub use owned::OwnedMessage;

use crate::ids::{BrokerName, PhysicalOffset, QueueId, QueueOffset, Topic};
use crate::time::WallTime;
use crate::wire::body::{Body, BodyError, BodyLimits, CrcPolicy, CrcState};
use crate::wire::properties::{Properties, name};
use crate::wire::stored::Record;

/// One message, sharing the bytes of its batch.
#[derive(Clone)]
pub struct Message {
    batch: Arc<Batch>,
    position: u32,
    /// The body, once it has been decompressed.
    opened: Option<Bytes>,
}

impl Message {
    /// The message at a position of a batch; `None` behind its end.
    #[must_use]
    pub fn new(batch: Arc<Batch>, position: u32) -> Option<Self> {
        batch.entry(position)?;
        Some(Self {
            batch,
            position,
            opened: None,
        })
    }

    /// A message that no broker has stored, for tests of handlers.
    pub fn draft(topic: impl Into<Topic>) -> Draft {
        Draft::new(topic.into())
    }

    /// The topic it was sent to. Of a redelivered message that is the topic of its first delivery,
    /// not the retry topic it is stored under.
    #[must_use]
    pub fn topic(&self) -> Cow<'_, str> {
        let record = self.record();
        if self.batch.is_from_retry_topic()
            && record.topic() == self.batch.queue().topic.as_str()
            && let Some(original) = record.property(name::RETRY_TOPIC)
        {
            return original;
        }
        Cow::Borrowed(record.topic())
    }

    /// The topic it is stored under.
    #[must_use]
    pub fn stored_topic(&self) -> &str {
        self.record().topic()
    }

    /// The broker it came from.
    #[must_use]
    pub fn broker(&self) -> &BrokerName {
        &self.batch.queue().broker
    }

    /// The queue it came from.
    #[must_use]
    pub fn queue_id(&self) -> QueueId {
        self.batch.queue().id
    }

    /// Its place in that queue.
    #[must_use]
    pub fn queue_offset(&self) -> QueueOffset {
        self.record().queue_offset()
    }

    /// Its place in the broker's commit log; of a message in an inner batch that of the batch.
    #[must_use]
    pub fn physical_offset(&self) -> PhysicalOffset {
        self.record().physical_offset()
    }

    /// The id the producer gave it, or where there is none the one of its place of storage, which messages
    /// of one inner batch share.
    #[must_use]
    pub fn msg_id(&self) -> Cow<'_, str> {
        self.record().msg_id()
    }

    /// The id of its place of storage: each redelivery has another. A message of an inner batch has none, as
    /// in Java: its place holds the whole batch.
    #[must_use]
    pub fn offset_msg_id(&self) -> Option<String> {
        (!self.is_inner()).then(|| self.record().offset_msg_id())
    }

    /// Whether it came as part of an inner batch. Its place in the commit log is then that of the batch, and
    /// who sends that place back sends back every message of it.
    #[must_use]
    pub fn is_inner(&self) -> bool {
        self.batch.is_inner(self.position)
    }

    /// The business keys, separated by spaces.
    #[must_use]
    pub fn keys(&self) -> Option<Cow<'_, str>> {
        self.record().keys()
    }

    /// The tag.
    #[must_use]
    pub fn tags(&self) -> Option<Cow<'_, str>> {
        self.record().tags()
    }

    /// The value of one property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<Cow<'_, str>> {
        self.record().property(name)
    }

    /// All properties, those of RocketMQ among them.
    #[must_use]
    pub fn properties(&self) -> Properties<'_> {
        self.record().properties()
    }

    /// A number for the applications; RocketMQ gives it no meaning.
    #[must_use]
    pub fn flag(&self) -> i32 {
        self.record().flag()
    }

    /// When it was sent, by the producer's clock.
    #[must_use]
    pub fn born_at(&self) -> WallTime {
        self.record().born_at()
    }

    /// Where it was sent from, as the broker saw it.
    #[must_use]
    pub fn born_host(&self) -> SocketAddr {
        self.record().born_host()
    }

    /// When it was stored, by the broker's clock.
    #[must_use]
    pub fn store_at(&self) -> WallTime {
        self.record().store_at()
    }

    /// The broker that stored it.
    #[must_use]
    pub fn store_host(&self) -> SocketAddr {
        self.record().store_host()
    }

    /// How often it was sent back before. A negative number in the record counts as 0.
    #[must_use]
    pub fn reconsume_times(&self) -> u32 {
        u32::try_from(self.record().reconsume_times()).unwrap_or(0)
    }

    /// The body the producer sent: a slice of the frame if it was stored plainly.
    ///
    /// A compressed body is opened with the default [`BodyLimits`] each time, unless
    /// [`Message::open`] has opened it before; a lane does that before the handler is called.
    ///
    /// # Errors
    ///
    /// [`BodyError`] if it cannot be opened.
    pub fn body(&self) -> Result<Bytes, BodyError> {
        match &self.opened {
            Some(bytes) => Ok(bytes.clone()),
            None => Ok(self.decode(BodyLimits::default(), CrcPolicy::Ignore)?.bytes),
        }
    }

    /// The body as it is stored, perhaps compressed.
    #[must_use]
    pub fn stored_body(&self) -> Bytes {
        self.batch
            .stored_body(self.position)
            .expect("`new` has checked the position")
    }

    /// Opens and checks the body. A decompressed one is kept in this message and in what is cloned
    /// from it from now on.
    ///
    /// # Errors
    ///
    /// [`BodyError`] if it cannot be opened, or if the policy rejects it.
    pub fn open(&mut self, limits: BodyLimits, policy: CrcPolicy) -> Result<CrcState, BodyError> {
        let body = self.decode(limits, policy)?;
        if self.record().sys_flag().compression().is_some() {
            self.opened = Some(body.bytes);
        }
        Ok(body.crc)
    }

    /// The record behind it.
    #[must_use]
    pub fn record(&self) -> Record<'_> {
        self.batch
            .record(self.position)
            .expect("`new` has checked the position")
    }

    /// The batch it came in.
    #[must_use]
    pub const fn batch(&self) -> &Arc<Batch> {
        &self.batch
    }

    /// Its position there.
    #[must_use]
    pub const fn position(&self) -> u32 {
        self.position
    }

    /// A copy that does not keep the frame alive.
    ///
    /// # Errors
    ///
    /// [`BodyError`] if the body cannot be opened.
    pub fn into_owned(self) -> Result<OwnedMessage, BodyError> {
        OwnedMessage::copy(&self)
    }

    fn decode(&self, limits: BodyLimits, policy: CrcPolicy) -> Result<Body, BodyError> {
        let record = self.record();
        Body::decode(
            &self.stored_body(),
            record.sys_flag(),
            record.body_crc(),
            limits,
            policy,
        )
    }
}

impl PartialEq for Message {
    /// Same place in equal batches.
    fn eq(&self, other: &Self) -> bool {
        self.position == other.position && self.batch == other.batch
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic())
            .field("broker", self.broker())
            .field("queue_id", &self.queue_id())
            .field("queue_offset", &self.queue_offset())
            .field("msg_id", &self.msg_id())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
