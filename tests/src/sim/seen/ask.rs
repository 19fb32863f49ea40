//! What members ask, and what they are answered.

use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::pull::PullStatus;

use super::{GroupNo, QueueNo};

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ask {
    /// 11: messages.
    Pull {
        /// For whom.
        group: GroupNo,
        /// From where.
        queue: QueueNo,
        /// From which offset.
        offset: QueueOffset,
        /// How many at most.
        max: i32,
        /// Progress that is stored on the way.
        commit: Option<QueueOffset>,
        /// How long the broker may hold it; zero if it may not.
        hold: Duration,
    },
    /// 15: store progress.
    Commit {
        /// Whose.
        group: GroupNo,
        /// Of which queue.
        queue: QueueNo,
        /// The next offset to consume.
        offset: QueueOffset,
    },
    /// 14: what progress is stored?
    QueryOffset {
        /// Whose.
        group: GroupNo,
        /// Of which queue.
        queue: QueueNo,
    },
    /// 36: bring it again later.
    SendBack {
        /// For whom.
        group: GroupNo,
        /// Where the message lies in the log.
        physical: PhysicalOffset,
        /// 0: the broker chooses; −1: to the dead letters.
        delay_level: i32,
    },
    /// 310 to a retry topic: store a copy of a message that could not be sent back.
    Copy {
        /// For whom.
        group: GroupNo,
        /// Which message.
        origin: u32,
        /// Whether the broker buries it at once: it says that it was tried once too often.
        dead: bool,
    },
    /// 38: who are the members?
    Members {
        /// Of which group.
        group: GroupNo,
    },
    /// 41: queues are mine alone, or stay so. Each is told by a [`Deed::Locking`](super::Deed::Locking) of its own.
    Lock {
        /// Of which group.
        group: GroupNo,
    },
    /// 42: they are not any more; each by a [`Deed::Unlocking`](super::Deed::Unlocking).
    Unlock {
        /// Of which group.
        group: GroupNo,
    },
    /// 34: I am here.
    Heartbeat,
    /// 35: I go.
    Unregister {
        /// Out of which group; `None` for a producer.
        group: Option<GroupNo>,
    },
    /// Anything else.
    Other(RequestCode),
}

impl Ask {
    /// The group it is asked for; `None` when it is asked for the whole client.
    #[must_use]
    pub const fn group(&self) -> Option<GroupNo> {
        match self {
            Self::Pull { group, .. }
            | Self::Commit { group, .. }
            | Self::QueryOffset { group, .. }
            | Self::SendBack { group, .. }
            | Self::Copy { group, .. }
            | Self::Members { group }
            | Self::Lock { group }
            | Self::Unlock { group } => Some(*group),
            Self::Unregister { group } => *group,
            Self::Heartbeat | Self::Other(_) => None,
        }
    }
}

/// What an answer says.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// To a pull, one of its four good ends.
    Pulled {
        /// Which.
        status: PullStatus,
        /// Where to go on.
        next: QueueOffset,
        /// The records, as `wire::stored` reads them; empty unless `Found`.
        records: &'a Bytes,
        /// The lowest and the next offset of the queue, as the answer tells them.
        bounds: (QueueOffset, QueueOffset),
        /// Whether an operator's reset is told.
        reset: bool,
        /// Whether a slave says all that.
        by_slave: bool,
    },
    /// To a question for an offset.
    Offset(Option<QueueOffset>),
    /// Any other success.
    Done,
    /// A refusal.
    Refused(ResponseCode),
}
