use core::ops::Range;

use super::{MAGIC_V1, MAGIC_V2, SysFlag, UndecodableReason};
use crate::ids::{PhysicalOffset, QueueOffset};

/// Where the fields in front of the first host lie; the same in both formats.
pub(super) mod place {
    pub(in crate::wire::stored) const MAGIC: usize = 4;
    pub(in crate::wire::stored) const BODY_CRC: usize = 8;
    pub(in crate::wire::stored) const QUEUE_ID: usize = 12;
    pub(in crate::wire::stored) const FLAG: usize = 16;
    pub(in crate::wire::stored) const QUEUE_OFFSET: usize = 20;
    pub(in crate::wire::stored) const PHYSICAL_OFFSET: usize = 28;
    pub(in crate::wire::stored) const SYS_FLAG: usize = 36;
    pub(in crate::wire::stored) const BORN_AT: usize = 40;
    pub(in crate::wire::stored) const BORN_HOST: usize = 48;
}

/// Where the fields behind the first host lie: the hosts have 8 or 20 bytes.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) store_at: usize,
    pub(super) store_host: usize,
    pub(super) reconsume_times: usize,
}

impl Layout {
    pub(super) const fn of(flag: SysFlag) -> Self {
        let store_at = place::BORN_HOST + host_len(flag.born_host_is_v6());
        let store_host = store_at + 8;
        let reconsume_times = store_host + host_len(flag.store_host_is_v6());
        Self {
            store_at,
            store_host,
            reconsume_times,
        }
    }

    pub(super) const fn prepared_transaction_offset(self) -> usize {
        self.reconsume_times + 4
    }

    const fn body_len(self) -> usize {
        self.prepared_transaction_offset() + 8
    }
}

/// Address and port, the port in 4 bytes.
pub(super) const fn host_len(v6: bool) -> usize {
    if v6 { 20 } else { 8 }
}

/// One record of an index: where it lies and where its parts begin. 32 bytes, made by
/// [`Scanner`](super::Scanner) and only by it, so that what it points to has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    queue_offset: i64,
    at: u32,
    len: u32,
    /// From the beginning of the record, as is `topic_at`.
    body_at: u32,
    body_len: u32,
    topic_at: u32,
    topic_len: u16,
    /// At most 32,767; the highest bit says that the record is an inner batch.
    properties_len: u16,
}

/// The bit of [`Entry::properties_len`] that is none of a length.
const INNER_BATCH: u16 = 1 << 15;

impl Entry {
    /// Checks a record and notes where its parts lie. `record` is the whole record and `len` its
    /// length, at least [`SIZE_MIN`](super::SIZE_MIN).
    pub(super) fn index(record: &[u8], at: u32, len: u32) -> Result<Self, UndecodableReason> {
        use UndecodableReason as Reason;

        let magic = word(record, place::MAGIC).ok_or(Reason::UnknownMagic(0))? as u32;
        let wide_topic = match magic {
            MAGIC_V1 => false,
            MAGIC_V2 => true,
            other => return Err(Reason::UnknownMagic(other)),
        };
        let queue_offset = queue_offset(record).ok_or(Reason::NegativeQueueOffset)?;
        physical_offset(record).ok_or(Reason::NegativePhysicalOffset)?;

        let flag = SysFlag(word(record, place::SYS_FLAG).ok_or(Reason::BodyLength)?);
        let layout = Layout::of(flag);
        for port_at in [layout.store_at - 4, layout.reconsume_times - 4] {
            let port = word(record, port_at).ok_or(Reason::BodyLength)?;
            u16::try_from(port).map_err(|_| Reason::HostPort)?;
        }

        // From here on every length is compared with what is left of the record before it is used.
        let body_at = layout.body_len() + 4;
        let body_len = word(record, layout.body_len())
            .and_then(|len| usize::try_from(len).ok())
            .filter(|&len| len <= record.len() - body_at)
            .ok_or(Reason::BodyLength)?;
        let rest = &record[body_at + body_len..];
        let (topic_len, rest) = if wide_topic {
            let (word, rest) = rest.split_first_chunk().ok_or(Reason::TopicLength)?;
            (u16::from_be_bytes(*word), rest)
        } else {
            let (byte, rest) = rest.split_first().ok_or(Reason::TopicLength)?;
            (u16::from(*byte), rest)
        };
        let topic_at = record.len() - rest.len();
        let (topic, rest) = rest
            .split_at_checked(usize::from(topic_len))
            .ok_or(Reason::TopicLength)?;
        if core::str::from_utf8(topic).is_err() {
            return Err(Reason::TopicText);
        }
        let (properties_len, rest) = rest.split_first_chunk().ok_or(Reason::PropertiesLength)?;
        let properties_len =
            u16::try_from(i16::from_be_bytes(*properties_len)).map_err(|_| Reason::PropertiesLength)?;
        match rest.len().checked_sub(usize::from(properties_len)) {
            Some(0) => {}
            Some(left) => return Err(Reason::LeftOver(left as u32)),
            None => return Err(Reason::PropertiesLength),
        }
        Ok(Self {
            queue_offset: queue_offset.0,
            at,
            len,
            body_at: body_at as u32,
            body_len: body_len as u32,
            topic_at: topic_at as u32,
            topic_len,
            properties_len: if flag.is_inner_batch() {
                properties_len | INNER_BATCH
            } else {
                properties_len
            },
        })
    }

    /// The message's place in its queue.
    #[must_use]
    pub const fn queue_offset(&self) -> QueueOffset {
        QueueOffset(self.queue_offset)
    }

    /// Length of the body as stored, in bytes: what the flow limits of a queue count.
    #[must_use]
    pub const fn body_len(&self) -> u32 {
        self.body_len
    }

    /// Whether the system flag says that the body is a list of messages.
    #[must_use]
    pub const fn is_inner_batch(&self) -> bool {
        self.properties_len & INNER_BATCH != 0
    }

    /// Where the record lies in the scanned bytes.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.at as usize..self.at as usize + self.len as usize
    }

    /// Where the stored body lies in the scanned bytes.
    #[must_use]
    pub const fn body_range(&self) -> Range<usize> {
        let start = self.at as usize + self.body_at as usize;
        start..start + self.body_len as usize
    }

    /// The same record, for a reader of bytes that begin `by` bytes later.
    pub(crate) const fn seen_from(mut self, by: u32) -> Option<Self> {
        match self.at.checked_sub(by) {
            Some(at) => {
                self.at = at;
                Some(self)
            }
            None => None,
        }
    }

    /// Where the topic lies in the record.
    pub(super) const fn topic_range(&self) -> Range<usize> {
        self.topic_at as usize..self.topic_at as usize + self.topic_len as usize
    }

    /// Where the properties lie in the record: at its end.
    pub(super) const fn properties_range(&self) -> Range<usize> {
        let len = self.len as usize;
        len - (self.properties_len & !INNER_BATCH) as usize..len
    }
}

/// The queue offset a record names, unless it is negative.
pub(super) fn queue_offset(record: &[u8]) -> Option<QueueOffset> {
    double(record, place::QUEUE_OFFSET)
        .filter(|&offset| offset >= 0)
        .map(QueueOffset)
}

/// The commit log offset a record names, unless it is negative.
pub(super) fn physical_offset(record: &[u8]) -> Option<PhysicalOffset> {
    double(record, place::PHYSICAL_OFFSET)
        .filter(|&offset| offset >= 0)
        .map(PhysicalOffset)
}

/// The 32-bit number at a place, if the bytes reach that far.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<i32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|chunk| i32::from_be_bytes(*chunk))
}

/// The 64-bit number at a place, if the bytes reach that far.
pub(super) fn double(bytes: &[u8], at: usize) -> Option<i64> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|chunk| i64::from_be_bytes(*chunk))
}
