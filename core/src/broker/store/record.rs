use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;

use super::filter::TagCode;
use crate::ids::{PhysicalOffset, QueueId, QueueOffset, Topic};
use crate::time::WallTime;
use crate::wire::properties::{Properties, name};
use crate::wire::stored::{Record, RecordParts, Scanned, Scanner, SysFlag, TooLong};

/// A record before it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRecord<'a> {
    /// The topic.
    pub(crate) topic: &'a Topic,
    /// The queue.
    pub(crate) queue_id: QueueId,
    /// The user's own flag.
    pub(crate) flag: i32,
    /// Compression and transaction bits. Those of the hosts are set by the hosts.
    pub(crate) sys_flag: SysFlag,
    /// When it was sent.
    pub(crate) born_at: WallTime,
    /// Where from.
    pub(crate) born_host: SocketAddr,
    /// When it is stored.
    pub(crate) store_at: WallTime,
    /// Who stores it.
    pub(crate) store_host: SocketAddr,
    /// How often it was sent back.
    pub(crate) reconsume_times: i32,
    /// The body, perhaps compressed.
    pub(crate) body: &'a [u8],
    /// The properties as they are stored.
    pub(crate) properties: &'a str,
    /// Of a scheduled record, when it is due; that is its tag code then.
    pub(crate) due_at: Option<WallTime>,
}

impl NewRecord<'_> {
    /// What the consume queue keeps for filters.
    pub(super) fn tag_code(&self) -> TagCode {
        match self.due_at {
            Some(due) => TagCode(due.as_unix_millis()),
            None => TagCode::of(
                Properties::new(self.properties.as_bytes())
                    .get(name::TAGS)
                    .as_deref(),
            ),
        }
    }

    /// The record at its place.
    pub(super) fn encode(&self, offset: QueueOffset, physical: PhysicalOffset) -> Result<Bytes, TooLong> {
        let parts = RecordParts {
            topic: self.topic.as_str(),
            queue_id: self.queue_id,
            flag: self.flag,
            queue_offset: offset,
            physical_offset: physical,
            sys_flag: self.sys_flag,
            born_at: self.born_at,
            born_host: self.born_host,
            store_at: self.store_at,
            store_host: self.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: 0,
            body: self.body,
            properties: self.properties,
        };
        // `encode` reserves what it needs.
        let mut bytes = Vec::new();
        parts.encode(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// A stored record, to be read.
pub(crate) fn open(stored: &[u8]) -> Record<'_> {
    match Scanner::new(stored).next() {
        Some(Scanned::Message(entry)) => Record::new(stored, entry),
        other => unreachable!("a record that was stored can be read: {other:?}"),
    }
}
