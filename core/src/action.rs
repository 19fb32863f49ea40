//! What the machine wants done: the one vocabulary of everything that comes out.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::event::RunRange;
use crate::ids::{
    AllocateId, CallId, ClientId, ConnId, ConsumeId, ConsumerGroup, GroupKey, MessageQueue, PeerAddr,
    QueueOffset, StoreKey, Topic,
};
use crate::message::Batch;
use crate::notice::Notice;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Action {
    /// Do something with a connection.
    Net(NetAction),
    /// Tell the application.
    App(AppAction),
    /// Use the store.
    Store(StoreAction),
}

/// What to do with connections. The machine decides when to connect, back off and close; the driver
/// maps a [`ConnId`] to a socket and moves bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum NetAction {
    /// Find the addresses behind a host name; answered by `NetEvent::Resolved`.
    Lookup {
        /// The connection that waits for it.
        conn: ConnId,
        /// The host name.
        name: Arc<str>,
    },
    /// Connect; answered by `Connected` or `ConnectFailed`.
    Connect {
        /// The new connection.
        conn: ConnId,
        /// Where to; the host is an address, not a name.
        addr: PeerAddr,
        /// The name a TLS certificate must show, if TLS is wanted.
        tls: Option<Arc<str>>,
    },
    /// Write a frame, in order.
    Send {
        /// Where.
        conn: ConnId,
        /// What; unsigned, a driver with credentials adds the signature.
        frame: Bytes,
    },
    /// Close and forget; no event is expected for it any more.
    Close {
        /// Which one.
        conn: ConnId,
    },
}

/// What to tell the application.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum AppAction {
    /// Handle these messages and report each position exactly once.
    Consume {
        /// The run, to be named in the report.
        id: ConsumeId,
        /// The pull answer they came with.
        batch: Arc<Batch>,
        /// Which positions of it.
        range: RunRange,
        /// 0 on the first delivery here, counted up by local redeliveries.
        attempt: u32,
    },
    /// What no handler has begun of this run is to be reported as `NotStarted`.
    Withdraw {
        /// The run.
        id: ConsumeId,
    },
    /// The deadline of a delivery has passed: cancel its token.
    Cancel {
        /// The run.
        id: ConsumeId,
        /// Position within its batch.
        position: u32,
    },
    /// The grace after a cancellation has passed: drop the handler's future and report.
    Abandon {
        /// The run.
        id: ConsumeId,
        /// Position within its batch.
        position: u32,
    },
    /// Compute this member's share of a topic with an own strategy; answered by
    /// [`crate::event::AppEvent::Allocated`] within
    /// [`set_allocate_timeout`](crate::config::GroupConfig::set_allocate_timeout).
    Allocate(Box<AllocateQuestion>),
    /// The group runs; readiness and everything else is told by notices.
    GroupStarted {
        /// Which group.
        group: ConsumerGroup,
        /// How its runs name it from now on.
        key: GroupKey,
    },
    /// The group has left.
    GroupStopped {
        /// Which group.
        group: ConsumerGroup,
        /// What was finished and what was not.
        report: Box<ShutdownReport>,
    },
    /// A wish could not be met.
    Refused(Box<Refusal>),
    /// The answer to a call.
    Answer {
        /// The call.
        id: CallId,
        /// What came of it.
        result: Box<Result<CallAnswer, CallError>>,
    },
    /// Something worth knowing.
    Notice(Box<Notice>),
    /// Everything is closed; the machine will do nothing any more.
    Closed,
}

/// What an own strategy has to decide, and all it may decide from: every member is asked the same, but for
/// `own`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllocateQuestion {
    /// To be named in the answer.
    pub id: AllocateId,
    /// The strategy, see [`AllocateStrategy::Own`](crate::allocate::AllocateStrategy::Own).
    pub strategy: Box<str>,
    /// The topic; the group's retry topic is shared too.
    pub topic: Topic,
    /// Its queues, sorted.
    pub queues: Box<[MessageQueue]>,
    /// The members, sorted. One that is listed several times is there several times.
    pub members: Box<[ClientId]>,
    /// This member; it is among them.
    pub own: ClientId,
}

/// What a shutdown achieved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShutdownReport {
    /// Messages settled over the life of the group.
    pub finished: u64,
    /// Failed messages among them that were dropped, because the group broadcasts.
    pub dropped: u64,
    /// Messages that handlers had begun and did not finish in time.
    pub abandoned: u64,
    /// The offset that each queue's broker acknowledged last, if it did; in a group that broadcasts, what the store
    /// has.
    pub committed: Vec<(MessageQueue, Option<QueueOffset>)>,
    /// Whether the drain deadline passed before all handlers had ended.
    pub timed_out: bool,
}

/// A wish that could not be met, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The group it was about.
    pub group: Option<ConsumerGroup>,
    /// What was asked for.
    pub wish: &'static str,
    /// Why not.
    pub why: RefusalReason,
}

/// Why a wish could not be met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[non_exhaustive]
pub enum RefusalReason {
    /// This version cannot do it.
    #[error("not supported yet")]
    NotSupportedYet,
    /// One client holds one consumer of a group.
    #[error("a consumer of this group is already registered with this client")]
    AlreadyRegistered,
    /// The client holds as many groups as it may; one that is leaving counts until it has left.
    #[error("this client holds {most} groups already; raise groups_max or open another client")]
    TooManyGroups {
        /// The limit, [`ClientConfig::set_groups_max`](crate::config::ClientConfig::set_groups_max).
        most: u32,
    },
    /// There is no such group on this client.
    #[error("no consumer of this group is registered with this client")]
    UnknownGroup,
    /// The client is shutting down.
    #[error("the client is shutting down")]
    ShuttingDown,
    /// The group is leaving.
    #[error("the group is leaving")]
    GroupLeaving,
    /// A group without a topic is of no use, and a member that takes shares of nothing.
    #[error("this is the group's last topic; stop the group instead")]
    LastTopic,
    /// The group subscribes to as many topics as it may.
    #[error("the group subscribes to {most} topics already")]
    TooManyTopics {
        /// The limit, [`SUBSCRIPTIONS_MAX`](crate::config::SUBSCRIPTIONS_MAX).
        most: usize,
    },
    /// The settings cannot be used.
    #[error("{0}: {1}")]
    BadConfig(&'static str, String),
    /// Another process consumes under the same identity.
    #[error(
        "another process uses {place}: each process needs an instance name of its own, the same one after a restart"
    )]
    StoreInUse {
        /// Where the offsets live.
        place: String,
    },
    /// The offsets that are stored with this member cannot be had.
    #[error("the offsets in {place} cannot be used: {why}")]
    StoreUnusable {
        /// Where they live.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// This member does not own the queue.
    #[error("{0} is not owned by this member")]
    NotOwned(MessageQueue),
}

/// A peer's answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallAnswer {
    /// The response code. 0 is success; what another one means depends on the request: a refusal
    /// mostly, but also "stored, not flushed yet" or "nothing is stored".
    pub code: i32,
    /// The peer's words, empty when it says none.
    pub remark: String,
    /// The header fields.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl CallAnswer {
    /// Takes the answer for a success if its code says so, and for a refusal otherwise.
    ///
    /// # Errors
    /// [`CallError::Broker`] for every code but 0.
    pub fn accept(self) -> Result<Self, CallError> {
        if self.code == 0 {
            return Ok(self);
        }
        Err(CallError::Broker {
            code: self.code,
            remark: self.remark,
        })
    }
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No route names that broker or topic, or its master is away.
    #[error("no route to the target")]
    NoRoute,
    /// The request was never written, because no connection stood in time.
    #[error("cannot connect to {0}")]
    Connect(PeerAddr),
    /// The request was written and not answered in time.
    #[error("no answer in time")]
    Timeout,
    /// The peer refused.
    #[error("refused with code {code}: {remark}")]
    Broker {
        /// The response code.
        code: i32,
        /// The peer's words.
        remark: String,
    },
    /// The connection was lost before the answer came.
    #[error("the connection was lost")]
    Closed,
    /// A limit of this client: too many requests or bytes wait already.
    #[error("too much waits for this peer already")]
    Overloaded,
    /// The answer could not be read.
    #[error("the answer is malformed: {0}")]
    Malformed(String),
}

impl CallError {
    /// Whether the same call may work a little later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::NoRoute | Self::Connect(_) | Self::Timeout | Self::Closed | Self::Overloaded => true,
            // SYSTEM_ERROR, SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, FLOW_CONTROL, GO_AWAY.
            Self::Broker { code, .. } => matches!(*code, 1 | 2 | 14 | 215 | 1500),
            Self::Malformed(_) => false,
        }
    }
}

/// What to do with the store. Questions for one key follow each other: one is asked when the one before has been
/// answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum StoreAction {
    /// Read, and keep others from it from now on; answered by
    /// [`StoreEvent::Loaded`](crate::event::StoreEvent::Loaded). The group whose key it is begins with this, and
    /// lets go of it when [`AppAction::GroupStopped`] or [`AppAction::Refused`] tells its end.
    Load {
        /// What.
        key: Box<StoreKey>,
        /// Names the question; rises over all questions of a client.
        seq: u64,
    },
    /// Write; answered by [`StoreEvent::Saved`](crate::event::StoreEvent::Saved) when the content would survive a
    /// loss of power, or has not been written.
    Save {
        /// What.
        key: Box<StoreKey>,
        /// Names the save; rises over all questions of a client.
        seq: u64,
        /// The content.
        bytes: Bytes,
        /// What becomes of what was stored before.
        former: Former,
    },
}

/// What becomes of the content that another one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Former {
    /// It is the backup from now on. One without any byte is none: the backup stays what it was.
    Backup,
    /// It cannot be read, and is kept aside for people. The backup stays what it was.
    Aside,
}

impl From<NetAction> for Action {
    fn from(action: NetAction) -> Self {
        Self::Net(action)
    }
}

impl From<StoreAction> for Action {
    fn from(action: StoreAction) -> Self {
        Self::Store(action)
    }
}

impl From<AppAction> for Action {
    fn from(action: AppAction) -> Self {
        Self::App(action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_stays_small() {
        assert!(size_of::<Action>() <= 64, "{}", size_of::<Action>());
    }

    #[test]
    fn only_passing_troubles_are_worth_a_retry() {
        let refused = |code| CallError::Broker {
            code,
            remark: String::new(),
        };
        assert!(CallError::Timeout.is_retryable() && refused(2).is_retryable());
        assert!(!refused(16).is_retryable() && !CallError::Malformed(String::new()).is_retryable());
    }
}
