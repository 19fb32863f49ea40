//! What happens to the machine: the one vocabulary of everything that goes in.
//!
//! Events are plain data, so a run can be written down and repeated.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::config::{FilterExpression, GroupConfig};
use crate::ids::{
    AllocateId, BrokerName, CallId, ConnId, ConsumeId, ConsumerGroup, MessageQueue, PeerAddr, QueueOffset,
    StoreKey, Topic,
};
use crate::message::{OrderlyOutcome, Outcome};
use crate::rate::Rate;
use crate::time::WallTime;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// The time `poll_timeout` named has come.
    Wakeup,
    /// Something happened to a connection.
    Net(NetEvent),
    /// The application wants or reports something.
    App(AppEvent),
    /// The store answered.
    Store(StoreEvent),
}

/// What happens to connections. Everything names the life of the connection it is about; an event
/// about an earlier life changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NetEvent {
    /// Answer to `NetAction::Lookup`: the addresses behind a host name, best first; empty when the
    /// name is unknown.
    Resolved {
        /// The connection that waits for it.
        conn: ConnId,
        /// Addresses as text, without port.
        addresses: Arc<[Box<str>]>,
    },
    /// The connection stands; bytes may be sent.
    Connected {
        /// Which one.
        conn: ConnId,
    },
    /// The attempt failed; the connection never stood.
    ConnectFailed {
        /// Which one.
        conn: ConnId,
        /// Why.
        cause: NetCause,
    },
    /// Bytes arrived, in order, cut anywhere.
    Received {
        /// From where.
        conn: ConnId,
        /// What came. An exact frame is taken without copying.
        bytes: Bytes,
    },
    /// Bytes handed over earlier were written to the peer. Lets the machine bound what is queued.
    Sent {
        /// To whom.
        conn: ConnId,
        /// How many.
        bytes: u32,
    },
    /// The connection is gone.
    Closed {
        /// Which one.
        conn: ConnId,
        /// Why.
        cause: NetCause,
    },
}

/// Why a connection failed, as far as the driver can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NetCause {
    /// Nobody listens there.
    Refused,
    /// The attempt took longer than `dial_timeout`.
    TimedOut,
    /// The host or network cannot be reached.
    Unreachable,
    /// The host name is unknown.
    NameUnknown,
    /// The peer closed the connection in an orderly way.
    EndOfStream,
    /// The peer or the network broke the connection.
    Reset,
    /// The TLS handshake failed.
    Tls,
    /// Anything else.
    Other,
}

/// What the application wants or reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AppEvent {
    /// Start a consumer group. Answered by [`crate::action::AppAction::GroupStarted`] or
    /// [`crate::action::AppAction::Refused`].
    StartGroup(Arc<GroupConfig>),
    /// Drain, commit and leave; answered by [`crate::action::AppAction::GroupStopped`].
    StopGroup {
        /// Which group.
        group: ConsumerGroup,
        /// How long running handlers may still take.
        drain: Duration,
    },
    /// Stop every group and close every connection; ends with
    /// [`crate::action::AppAction::Closed`]. A second one changes nothing.
    Shutdown {
        /// How long running handlers may still take.
        drain: Duration,
    },
    /// How a run of messages, or a part of it, went.
    Consumed {
        /// The run.
        id: ConsumeId,
        /// Positions within its batch.
        range: RunRange,
        /// What became of them.
        report: Report,
    },
    /// A handler asks for more time: the deadline of one message is now this far away.
    Extend {
        /// The run.
        id: ConsumeId,
        /// Position within its batch.
        position: u32,
        /// From now on.
        by: Duration,
    },
    /// A body's checksum does not match; it is delivered all the same.
    CrcMismatch {
        /// The run.
        id: ConsumeId,
        /// Position within its batch.
        position: u32,
    },
    /// Change how many handler calls may run at once.
    Concurrency {
        /// Which group.
        group: ConsumerGroup,
        /// The new number, 1..=1000.
        permits: u32,
    },
    /// A new list of name servers replaces the old one.
    NameServers(Arc<[PeerAddr]>),
    /// The wall clock. Refreshed hourly by the driver; a jump changes no deadline.
    Clock(WallTime),
    /// A request that is not consuming: produce, look up an offset, …
    Call(Box<Call>),
    /// Subscribe to one more topic, or change its filter. Refused at once, or answered by
    /// [`NoticeKind::SubscriptionChanged`](crate::notice::NoticeKind::SubscriptionChanged) when it is in force, or
    /// by [`NoticeKind::FilterRefused`](crate::notice::NoticeKind::FilterRefused) when a broker does not take the
    /// filter; the former one then stays. A later wish about the same topic takes the place of one that has not
    /// been answered.
    Subscribe {
        /// Which group.
        group: ConsumerGroup,
        /// The topic.
        topic: Topic,
        /// Which of its messages.
        filter: FilterExpression,
    },
    /// Give a topic back; its offsets stay at the brokers. Refused at once, or answered by
    /// [`NoticeKind::SubscriptionChanged`](crate::notice::NoticeKind::SubscriptionChanged). The last topic of a
    /// group is not given back: the group is stopped instead.
    Unsubscribe {
        /// Which group.
        group: ConsumerGroup,
        /// The topic.
        topic: Topic,
    },
    /// Stop pulling and delivering, keep the queues: see [`FlowScope`]. Running handlers finish. Doing so twice
    /// changes nothing.
    Pause {
        /// Which group.
        group: ConsumerGroup,
        /// What of it.
        scope: FlowScope,
    },
    /// Pull and deliver again, from where it was.
    Resume {
        /// Which group.
        group: ConsumerGroup,
        /// What of it.
        scope: FlowScope,
    },
    /// Go on from another place in a queue that this member owns. That is a new ownership: what handlers still
    /// report for the old one counts for nothing. The new place is committed at once.
    Seek {
        /// Which group.
        group: ConsumerGroup,
        /// The queue.
        queue: Box<MessageQueue>,
        /// Where to.
        to: SeekTo,
    },
    /// Change how fast messages are handed out.
    RateLimit {
        /// Which group.
        group: ConsumerGroup,
        /// One topic of it; `None` for the group as a whole. Both may be limited.
        topic: Option<Topic>,
        /// The new rate; `None` for no limit.
        rate: Option<Rate>,
    },
    /// The answer to [`crate::action::AppAction::Allocate`]. One that comes too late, or twice, is counted
    /// and changes nothing.
    Allocated {
        /// Which question.
        id: AllocateId,
        /// The queues this member takes, in any order; or why there is no answer.
        share: Result<Box<[MessageQueue]>, Box<str>>,
    },
    /// Not supported yet: sign requests from now on.
    Credentials {
        /// Access key. The secret travels with the driver's signer, never through an event.
        access_key: Box<str>,
    },
}

/// What of a group a pause or a resume is about.
///
/// The three are switches of their own: a queue flows while neither it nor its topic nor the group is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FlowScope {
    /// All of it, queues that come later among it.
    Group,
    /// One topic.
    Topic(Topic),
    /// One queue, as long as the group runs: also when it goes and comes back.
    Queue(Box<MessageQueue>),
}

/// A place in a queue to go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SeekTo {
    /// This offset is delivered next. One that the queue does not have is judged by its broker's answer, as any
    /// other: see [`IllegalOffsetPolicy`](crate::config::IllegalOffsetPolicy).
    Offset(QueueOffset),
    /// The oldest message.
    Earliest,
    /// Behind the newest message.
    Latest,
    /// The first message stored at or after this time.
    Time(WallTime),
}

impl From<Topic> for FlowScope {
    fn from(topic: Topic) -> Self {
        Self::Topic(topic)
    }
}

impl From<MessageQueue> for FlowScope {
    fn from(queue: MessageQueue) -> Self {
        Self::Queue(Box::new(queue))
    }
}

/// Positions `start..end` within a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRange {
    /// The first.
    pub start: u32,
    /// One behind the last.
    pub end: u32,
}

impl RunRange {
    /// How many positions.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// What became of the messages of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The same for all.
    All(Verdict),
    /// One each, in order; as many as the range is long. With fewer the rest is retried, more are
    /// ignored; both are told by a notice.
    Each(Box<[Verdict]>),
}

impl Report {
    /// What is said of the message at this index of the range; `None` when nothing is.
    #[must_use]
    pub fn of(&self, index: u32) -> Option<Verdict> {
        match self {
            Self::All(verdict) => Some(*verdict),
            Self::Each(each) => each.get(index as usize).copied(),
        }
    }
}

/// What became of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The handler's answer. An error and a panic count as [`Outcome::Retry`].
    Handled(Outcome),
    /// The answer of a handler that consumes in order. An error and a panic count as
    /// [`OrderlyOutcome::Suspend`].
    Ordered(OrderlyOutcome),
    /// The body could not be read: damaged.
    Undecodable,
    /// The body is packed in a way this build cannot open.
    Unsupported,
    /// No handler began it: it was withdrawn in time.
    NotStarted,
}

impl Verdict {
    /// Whether it is finished.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(
            self,
            Self::Handled(Outcome::Done) | Self::Ordered(OrderlyOutcome::Commit)
        )
    }
}

/// A request of the application that is not consuming.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Chosen by the caller; comes back with the answer.
    pub id: CallId,
    /// Who should answer.
    pub to: Target,
    /// The request code.
    pub code: i32,
    /// The header fields.
    pub fields: Box<[(Box<str>, Box<str>)]>,
    /// The body; empty means none.
    pub body: Bytes,
    /// How long the caller waits.
    pub timeout: Duration,
}

/// Who should answer a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Target {
    /// Any name server.
    NameServer,
    /// The master of a broker that a route named.
    Master(BrokerName),
    /// Exactly this address.
    Address(PeerAddr),
}

/// What a store did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StoreEvent {
    /// Answer to [`StoreAction::Load`](crate::action::StoreAction::Load).
    Loaded {
        /// Of what.
        key: Box<StoreKey>,
        /// The number of the question.
        seq: u64,
        /// Where it lives, in words for people: the path of a file.
        place: Box<str>,
        /// What is stored. Whether it can be used is decided here, not by the store.
        found: Box<Result<Found, StoreError>>,
    },
    /// Answer to [`StoreAction::Save`](crate::action::StoreAction::Save).
    Saved {
        /// Of what.
        key: Box<StoreKey>,
        /// The number of the save.
        seq: u64,
        /// Why the content is not safe, if it is not.
        error: Option<Box<str>>,
    },
}

/// What a store has under one key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// What was saved last, if anything was.
    pub main: Option<Bytes>,
    /// What was saved before that, as far as the store keeps it.
    pub backup: Option<Bytes>,
}

/// Why a store has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else uses what is stored under the key.
    #[error("another process uses it")]
    InUse,
    /// The store cannot read it, in words for people.
    #[error("{0}")]
    Failed(Box<str>),
}

impl From<NetEvent> for Event {
    fn from(event: NetEvent) -> Self {
        Self::Net(event)
    }
}

impl From<StoreEvent> for Event {
    fn from(event: StoreEvent) -> Self {
        Self::Store(event)
    }
}

impl From<AppEvent> for Event {
    fn from(event: AppEvent) -> Self {
        Self::App(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stays_small() {
        assert!(size_of::<Event>() <= 64, "{}", size_of::<Event>());
    }
}
