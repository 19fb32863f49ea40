//! What an observer of a simulated world sees, one thing after another.
//!
//! The engine takes apart what passes it (requests, answers, deliveries, reports) once, and shows it to every
//! [`Invariant`](super::invariant::Invariant). Nothing here is a copy of a machine's state: it is what could be
//! seen from outside, on the wire and at the application's door. Names are numbers ([`QueueNo`], [`GroupNo`]),
//! so that an observer keeps its account in vectors; [`View`](super::invariant::View) has the names.
//!
//! Order within one step of a member: what came in ([`Deed::Answered`], [`Deed::Settled`], [`Deed::Woken`] …),
//! then what the machine did because of it, in the order of its actions, then [`Deed::StepEnd`].

use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::ShutdownReport;
use rocketmq_consumer_core::event::{RunRange, Verdict};
use rocketmq_consumer_core::ids::{ConnId, ConsumeId, Epoch, PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::message::Batch;
use rocketmq_consumer_core::notice::Notice;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::pull::PullStatus;

/// A member's place in the world: stays when its process is restarted. A group that lives on the client of
/// another member has a place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u32);

/// One life of a member: one group on one client, from its start to its end. Counted over the whole world from
/// 0, never reused. What happens to a client that holds several groups is seen once for each of them:
/// connections, wake-ups, heartbeats; what concerns one group is seen of its life only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub u32);

/// A message queue of the world; [`View::queue`](super::invariant::View::queue) has its name. Queues of retry
/// topics are numbered like all others when they are first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueNo(pub u32);

/// A consumer group of the world; [`View::group`](super::invariant::View::group) has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupNo(pub u32);

/// A node that listens: a name server, a master or a slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeNo(pub u32);

/// One thing that was seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When.
    pub at: Instant,
    /// What.
    pub what: What<'a>,
}

/// What can be seen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum What<'a> {
    /// Something a member did or that was done to it.
    Member {
        /// Whose.
        life: Life,
        /// What.
        deed: Deed<'a>,
    },
    /// Something a broker did.
    Broker(BrokerDeed),
    /// Whoever runs the world has interfered; told before the fault takes effect.
    Fault(Upheaval),
}

/// What members do. Those of [`Kind::Java`] show the same wire deeds and [`Deed::Delivered`],
/// [`Deed::Settled`], [`Deed::Assigned`], [`Deed::Revoked`] with an epoch of the model's own.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Deed<'a> {
    /// A process begins.
    Begun {
        /// Its place.
        member: MemberId,
        /// What runs in it.
        kind: Kind,
        /// Its group.
        group: GroupNo,
    },
    /// It is asked to leave in order. The machine sees it in the same step.
    AskedToLeave {
        /// How long its handlers may still run.
        drain: Duration,
    },
    /// The group has left in order, as the machine says.
    Left(&'a ShutdownReport),
    /// The machine will do nothing any more.
    Closed,
    /// The process was killed: nothing of it is seen any more.
    Killed,

    /// The machine was woken because the time it had named has come.
    Woken,
    /// A connection stands.
    Connected {
        /// Which one.
        conn: ConnId,
        /// To whom.
        node: NodeNo,
    },
    /// A connection that stood is gone, in whichever way.
    Disconnected {
        /// Which one.
        conn: ConnId,
        /// Whether the member closed it itself.
        by_itself: bool,
    },
    /// A dial begins.
    Dialled {
        /// The new connection.
        conn: ConnId,
        /// To whom.
        node: NodeNo,
    },
    /// A dial has failed.
    DialFailed {
        /// Which one.
        conn: ConnId,
    },

    /// A request was written.
    Asked {
        /// On which connection.
        conn: ConnId,
        /// To whom.
        node: NodeNo,
        /// Its number on that connection.
        opaque: i32,
        /// Whether an answer is expected.
        oneway: bool,
        /// What.
        ask: Ask,
    },
    /// The last byte of an answer has arrived, and is given to the machine in this step.
    Answered {
        /// On which connection.
        conn: ConnId,
        /// The number of its request.
        opaque: i32,
        /// What it says.
        answer: Answer<'a>,
    },
    /// The last byte of a broker's own request has arrived.
    Requested {
        /// What is asked.
        code: RequestCode,
    },

    /// A queue is owned and about to be pulled.
    Assigned {
        /// Of which group.
        group: GroupNo,
        /// Which one.
        queue: QueueNo,
        /// The ownership.
        epoch: Epoch,
        /// Where it starts.
        from: QueueOffset,
    },
    /// An ownership has ended for good: grace and last commit are over.
    Revoked {
        /// Of which group.
        group: GroupNo,
        /// Which one.
        queue: QueueNo,
        /// The ownership.
        epoch: Epoch,
        /// What the broker acknowledged last.
        committed: Option<QueueOffset>,
    },
    /// Messages are handed to the application.
    Delivered {
        /// Of which group.
        group: GroupNo,
        /// From which queue.
        queue: QueueNo,
        /// The run.
        run: ConsumeId,
        /// The messages.
        batch: &'a Batch,
        /// Which of them.
        range: RunRange,
        /// 0 the first time, counted up by local redeliveries.
        attempt: u32,
    },
    /// The machine wants back what no handler has begun of a run.
    Withdrawn {
        /// The run.
        run: ConsumeId,
    },
    /// A handler has ended, or a withdrawal is confirmed; the machine is told in this step.
    Settled {
        /// Of which group.
        group: GroupNo,
        /// The message's queue.
        queue: QueueNo,
        /// Its offset.
        offset: QueueOffset,
        /// The run.
        run: ConsumeId,
        /// Its position within the batch.
        position: u32,
        /// What became of it.
        verdict: Verdict,
    },
    /// A notice that is not one of the above.
    Told(&'a Notice),
    /// The step is over.
    StepEnd {
        /// How many actions it had.
        actions: u32,
        /// When the machine wants to be woken.
        wake_at: Option<Instant>,
    },
}

/// What runs in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Our machine.
    Ours,
    /// The model of the Java client.
    Java,
}

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
            | Self::Members { group } => Some(*group),
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

/// What brokers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerDeed {
    /// A message was stored: sent by a producer, brought back after its delay, or put to the dead letters.
    Stored {
        /// Where.
        queue: QueueNo,
        /// Its offset.
        offset: QueueOffset,
        /// The number of the message it goes back to, as [`View::origin`](super::invariant::View::origin) has
        /// it: all copies of a message have the same.
        origin: u32,
    },
    /// A send back was accepted: the message will come again or lies with the dead letters.
    SentBack {
        /// For whom.
        group: GroupNo,
        /// Where it lay.
        queue: QueueNo,
        /// Its offset.
        offset: QueueOffset,
    },
    /// Progress was stored, by a commit or by a pull.
    Committed {
        /// Whose.
        group: GroupNo,
        /// Of which queue.
        queue: QueueNo,
        /// The next offset to consume.
        offset: QueueOffset,
    },
}

/// What is done to a world, as far as it changes what may be demanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Upheaval {
    /// A node dies and forgets the commits of its last seconds.
    NodeDied(NodeNo),
    /// A node ends in order.
    NodeStopped(NodeNo),
    /// A node runs again.
    NodeStarted(NodeNo),
    /// The queue counts of a topic change.
    QueuesChanged,
    /// Everything that was broken is mended: from here on the world must come to rest.
    Healed,
    /// All members are asked to leave.
    Closing,
}
