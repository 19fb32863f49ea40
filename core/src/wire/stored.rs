//! Stored messages: the records a pull answer carries one behind the other, without count and
//! without padding.
//!
//! Scanning makes an *index*: where each record lies and where its parts begin. No payload is
//! opened, nothing is copied and nothing is allocated; a [`Record`] reads the rest on demand.
//!
//! ```text
//! size 4 | magic 4 | body CRC 4 | queue id 4 | flag 4 | queue offset 8 | physical offset 8 | system flag 4
//! born at 8 | born host 8 or 20 | store at 8 | store host 8 or 20 | reconsume times 4 | prepared offset 8
//! body length 4 | body | topic length 1 (v1) or 2 (v2) | topic | properties length 2 | properties
//! ```
//!
//! The size word is trusted within the frame. Java reads the fields one after another instead and
//! drops everything behind the first record it cannot read, while the offset moves on: messages
//! are lost without a trace. Here a bad record is reported and its neighbours arrive; only a size
//! word that cannot be used ends the scan.

mod entry;
mod inner_batch;
mod record;
mod sys_flag;
mod writer;

use core::iter::FusedIterator;

use serde::{Deserialize, Serialize};

pub use entry::Entry;
pub use inner_batch::{InnerBatch, InnerMessage};
pub use record::Record;
pub use sys_flag::{Compression, SysFlag, Transaction};
pub use writer::{RecordParts, TooLong};

use crate::ids::{PhysicalOffset, QueueOffset};

/// First format: one byte of topic length.
pub const MAGIC_V1: u32 = 0xDAA3_20A7;
/// Second format: two bytes of topic length; only where a topic is longer than 127 bytes.
pub const MAGIC_V2: u32 = 0xDAA3_20AB;
/// The smallest record: first format, IPv4 hosts, nothing in body, topic and properties.
pub const SIZE_MIN: u32 = 91;

/// One step of a [`Scanner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// A record that can be read. Whether its body can be opened is another question, see
    /// [`Body`](crate::wire::body::Body).
    Message(Entry),
    /// A record that cannot be read. The scan goes on behind it.
    Undecodable(Undecodable),
    /// Nothing behind this place can be found. The scan is over.
    Broken {
        /// Where the unusable size word begins.
        at: u32,
        /// What is wrong with it.
        reason: BrokenReason,
    },
}

/// A record that cannot be read, and what of it may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecodable {
    /// Where the record begins.
    pub at: u32,
    /// Its size in bytes, this much is sure.
    pub len: u32,
    /// What is wrong.
    pub reason: UndecodableReason,
    /// Its place in the queue, if the record names a possible one. With
    /// [`UndecodableReason::UnknownMagic`] it is read where both known formats have it.
    pub queue_offset: Option<QueueOffset>,
    /// Its place in the commit log, with the same reservations.
    pub physical_offset: Option<PhysicalOffset>,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum UndecodableReason {
    /// Neither of the known formats.
    #[error("unknown magic number {0:#010x}")]
    UnknownMagic(u32),
    /// The queue offset is negative.
    #[error("negative queue offset")]
    NegativeQueueOffset,
    /// The commit log offset is negative.
    #[error("negative physical offset")]
    NegativePhysicalOffset,
    /// A port above 65535 or below 0.
    #[error("host port out of range")]
    HostPort,
    /// The body length is negative or points behind the record.
    #[error("body length out of range")]
    BodyLength,
    /// The topic length points behind the record.
    #[error("topic length out of range")]
    TopicLength,
    /// The topic is not UTF-8.
    #[error("topic is not UTF-8")]
    TopicText,
    /// The properties length is negative or points behind the record.
    #[error("properties length out of range")]
    PropertiesLength,
    /// The fields end before the record does.
    #[error("{0} bytes behind the last field")]
    LeftOver(u32),
}

/// What is wrong with a size word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenReason {
    /// Fewer bytes are left than a size word has.
    #[error("{0} stray bytes behind the last record")]
    CutSize(u32),
    /// The size is smaller than any record, or negative.
    #[error("record size {0} is too small")]
    TooSmall(i32),
    /// The record ends behind the frame.
    #[error("record size {size} with {left} bytes left")]
    BeyondEnd {
        /// The size word.
        size: u32,
        /// The bytes from the size word to the end.
        left: u32,
    },
    /// The bytes are more than positions can count (4 GiB); no frame is.
    #[error("more than 4 GiB of records")]
    TooLong,
}

/// Walks over the records of a pull answer.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: u32,
    broken: bool,
}

impl<'a> Scanner<'a> {
    /// A scanner over the body of a pull answer. Positions it reports count from its beginning.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            broken: false,
        }
    }

    /// The bytes that are not scanned yet.
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at as usize..).unwrap_or_default()
    }

    fn broken(&mut self, reason: BrokenReason) -> Option<Scanned> {
        self.broken = true;
        Some(Scanned::Broken { at: self.at, reason })
    }
}

impl Iterator for Scanner<'_> {
    type Item = Scanned;

    fn next(&mut self) -> Option<Scanned> {
        let rest = self.rest();
        if self.broken || rest.is_empty() {
            return None;
        }
        let Ok(left) = u32::try_from(self.bytes.len()).map(|len| len - self.at) else {
            return self.broken(BrokenReason::TooLong);
        };
        let Some(word) = rest.first_chunk::<4>() else {
            return self.broken(BrokenReason::CutSize(left));
        };
        let word = i32::from_be_bytes(*word);
        let len = match u32::try_from(word) {
            Ok(len) if len >= SIZE_MIN => len,
            Ok(_) | Err(_) => return self.broken(BrokenReason::TooSmall(word)),
        };
        let Some(record) = rest.get(..len as usize) else {
            return self.broken(BrokenReason::BeyondEnd { size: len, left });
        };
        let at = self.at;
        self.at += len;
        Some(match Entry::index(record, at, len) {
            Ok(entry) => Scanned::Message(entry),
            Err(reason) => Scanned::Undecodable(Undecodable {
                at,
                len,
                reason,
                queue_offset: entry::queue_offset(record),
                physical_offset: entry::physical_offset(record),
            }),
        })
    }
}

impl FusedIterator for Scanner<'_> {}

#[cfg(test)]
mod tests;
