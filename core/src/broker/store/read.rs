use bytes::Bytes;
use smallvec::SmallVec;

use crate::ids::{PhysicalOffset, QueueOffset};

/// Queue entries one read looks at, wanted or not, unless more messages are asked for
/// (`maxFilterMessageSize`, 16,000 bytes of 20 each).
const SCANNED: usize = 800;
/// Queue entries one read looks at however many messages are asked for. Java has no such limit.
const SCANNED_MAX: usize = 16_000;
/// `maxTransferCountOnMessageInMemory`.
const MESSAGES_MAX: usize = 32;
/// `maxTransferBytesOnMessageInMemory`.
const BYTES_MAX: usize = 256 * 1024;

/// How a read ended (`GetMessageStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadStatus {
    /// There is at least one record.
    Found,
    /// There are messages, none of them wanted.
    NoMatchedMessage,
    /// Exactly at the end.
    OffsetOverflowOne,
    /// Beyond the end.
    OffsetOverflowBadly,
    /// Before the beginning.
    OffsetTooSmall,
    /// Nothing was ever stored there.
    NoMessageInQueue,
    /// There is no such queue.
    NoMatchedLogicQueue,
}

impl ReadStatus {
    /// The name that pull answers carry as their remark.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Found => "FOUND",
            Self::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            Self::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            Self::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            Self::OffsetTooSmall => "OFFSET_TOO_SMALL",
            Self::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
            Self::NoMatchedLogicQueue => "NO_MATCHED_LOGIC_QUEUE",
        }
    }
}

/// How much the asker wants at once. A broker gives at most 32 messages and 256 KiB, and always the first
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadLimits {
    /// Messages (`maxMsgNums`).
    pub(crate) messages: usize,
    /// Bytes of records (`maxMsgBytes`).
    pub(crate) bytes: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            messages: MESSAGES_MAX,
            bytes: BYTES_MAX,
        }
    }
}

impl ReadLimits {
    /// How many queue entries may be looked at.
    pub(super) fn scanned(self) -> usize {
        self.messages.clamp(SCANNED, SCANNED_MAX)
    }

    /// Whether a further record of this size has no room behind those that were found.
    //= rocketmq: DefaultMessageStore.isTheBatchFull
    pub(super) fn is_full(self, messages: usize, bytes: usize, further: usize) -> bool {
        messages > 0
            && (messages >= self.messages.min(MESSAGES_MAX) || bytes + further > self.bytes.min(BYTES_MAX))
    }
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read<'a> {
    /// How it ended.
    pub(crate) status: ReadStatus,
    /// Where to go on (`nextBeginOffset`).
    pub(crate) next: QueueOffset,
    /// The queue's oldest offset.
    pub(crate) min: QueueOffset,
    /// The queue's next free offset, as far as it is seen.
    pub(crate) max: QueueOffset,
    /// The records, in order.
    pub(crate) records: SmallVec<[&'a Bytes; MESSAGES_MAX]>,
    /// Their bytes together.
    pub(crate) bytes: usize,
    /// Where the last entry that was looked at lies; how far that is from the end of the log says whether
    /// a consumer is slow.
    pub(crate) last_physical: Option<PhysicalOffset>,
}

impl Read<'_> {
    /// A read without records.
    pub(super) fn nothing(status: ReadStatus, next: QueueOffset) -> Self {
        Self {
            status,
            next,
            min: QueueOffset(0),
            max: QueueOffset(0),
            records: SmallVec::new(),
            bytes: 0,
            last_physical: None,
        }
    }
}
