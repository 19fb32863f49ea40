use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::net::SocketAddr;

use bytes::Bytes;

use super::Message;
use crate::ids::{BrokerName, PhysicalOffset, QueueId, QueueOffset};
use crate::time::WallTime;
use crate::wire::body::BodyError;

/// A message with memory of its own: it keeps no frame alive. The fields are those of [`Message`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedMessage {
    /// The topic it was sent to.
    pub topic: String,
    /// The topic it is stored under.
    pub stored_topic: String,
    /// The broker it came from.
    pub broker: BrokerName,
    /// The queue it came from.
    pub queue_id: QueueId,
    /// Its place in that queue.
    pub queue_offset: QueueOffset,
    /// Its place in the broker's commit log.
    pub physical_offset: PhysicalOffset,
    /// The id the producer gave it, or where there is none the one of its place of storage.
    pub msg_id: String,
    /// The id of its place of storage, unless it came in an inner batch.
    pub offset_msg_id: Option<String>,
    /// All properties; `TAGS` and `KEYS` are among them.
    pub properties: BTreeMap<String, String>,
    /// A number for the applications.
    pub flag: i32,
    /// When it was sent, by the producer's clock.
    pub born_at: WallTime,
    /// Where it was sent from.
    pub born_host: SocketAddr,
    /// When it was stored, by the broker's clock.
    pub store_at: WallTime,
    /// The broker that stored it.
    pub store_host: SocketAddr,
    /// How often it was sent back before.
    pub reconsume_times: u32,
    /// The body the producer sent.
    pub body: Bytes,
}

impl OwnedMessage {
    pub(super) fn copy(message: &Message) -> Result<Self, BodyError> {
        let body = message.body()?;
        // A decompressed body has its own memory already; a plain one is a slice of the frame.
        let is_slice = message.record().sys_flag().compression().is_none();
        let body = if is_slice {
            Bytes::copy_from_slice(&body)
        } else {
            body
        };
        Ok(Self {
            topic: message.topic().into_owned(),
            stored_topic: message.stored_topic().to_owned(),
            broker: message.broker().clone(),
            queue_id: message.queue_id(),
            queue_offset: message.queue_offset(),
            physical_offset: message.physical_offset(),
            msg_id: message.msg_id().into_owned(),
            offset_msg_id: message.offset_msg_id(),
            properties: message
                .properties()
                .iter()
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
            flag: message.flag(),
            born_at: message.born_at(),
            born_host: message.born_host(),
            store_at: message.store_at(),
            store_host: message.store_host(),
            reconsume_times: message.reconsume_times(),
            body,
        })
    }
}
