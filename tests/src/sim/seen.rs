//! What an observer of a simulated world sees, one thing after another.
//!
//! The engine takes apart what passes it (requests, answers, deliveries, reports) once, and shows it to every
//! [`Invariant`](super::invariant::Invariant). Nothing here is a copy of a machine's state: it is what could be
//! seen from outside, on the wire and at the application's door. Names are numbers ([`QueueNo`], [`GroupNo`]),
//! so that an observer keeps its account in vectors; [`View`](super::invariant::View) has the names.
//!
//! Order within one step of a member: what came in ([`Deed::Answered`], [`Deed::Settled`], [`Deed::Woken`] …),
//! then what the machine did because of it, in the order of its actions, then [`Deed::StepEnd`].

mod ask;
mod sight;

use std::time::Duration;

use rocketmq_consumer_core::action::ShutdownReport;
use rocketmq_consumer_core::event::{AppEvent, RunRange, Verdict};
use rocketmq_consumer_core::ids::{ConnId, ConsumeId, Epoch, QueueOffset};
use rocketmq_consumer_core::message::{Batch, OrderlyOutcome, Outcome};
use rocketmq_consumer_core::notice::Notice;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::RequestCode;

pub use ask::{Answer, Ask};
pub use sight::{Sight, Sights};

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
    /// The application has another wish. The machine sees it in the same step.
    Wished(&'a AppEvent),
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
        /// What its request asked.
        asked: &'a Ask,
        /// What it says.
        answer: Answer<'a>,
    },
    /// The last byte of a broker's own request has arrived.
    Requested {
        /// What is asked.
        code: RequestCode,
    },

    /// One of the queues that the lock request just written asks for.
    Locking {
        /// Of which group.
        group: GroupNo,
        /// Which one.
        queue: QueueNo,
    },
    /// One of those that the unlock request just written gives back.
    Unlocking {
        /// Of which group.
        group: GroupNo,
        /// Which one.
        queue: QueueNo,
    },
    /// What the lock answer just told says of one of the queues that were asked for. A refusal of the whole
    /// request says nothing of any.
    Locked {
        /// Of which group.
        group: GroupNo,
        /// Which one.
        queue: QueueNo,
        /// Whether the broker has locked it.
        granted: bool,
        /// When the request was written: the lease cannot have begun earlier.
        asked_at: Instant,
    },

    /// A client's store was asked something.
    StoreAsked,
    /// Its store has answered one question; the machine is told in this step.
    StoreAnswered,
    /// A member that keeps its offsets itself finds this one as it begins.
    Found {
        /// Of which queue.
        queue: QueueNo,
        /// The next offset to consume.
        offset: QueueOffset,
    },
    /// It wants this one to be kept.
    Keeping {
        /// Of which queue.
        queue: QueueNo,
        /// The next offset to consume.
        offset: QueueOffset,
    },
    /// It is told in this step that this one is safe.
    Kept {
        /// Of which queue.
        queue: QueueNo,
        /// The next offset to consume.
        offset: QueueOffset,
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
    /// The machine gives a handler up that went on after its deadline; whatever it says counts for nothing.
    Abandoned {
        /// The message's queue.
        queue: QueueNo,
        /// Its offset.
        offset: QueueOffset,
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

/// Whether a handler is done with a message for good.
#[must_use]
pub const fn is_success(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Handled(Outcome::Done) | Verdict::Ordered(OrderlyOutcome::Commit)
    )
}

/// What runs in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Our machine.
    Ours,
    /// The model of the Java client.
    Java,
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
    /// An operator has set where a group goes on.
    Reset {
        /// Whose.
        group: GroupNo,
        /// Of which queue.
        queue: QueueNo,
        /// The next offset to consume.
        offset: QueueOffset,
    },
    /// A queue is locked for a client that did not hold it before.
    Locked {
        /// Of which group.
        group: GroupNo,
        /// Which queue.
        queue: QueueNo,
        /// Whose client it is; the first one, of several under one id.
        member: Option<MemberId>,
    },
    /// A client has given its lock back.
    Unlocked {
        /// Of which group.
        group: GroupNo,
        /// Which queue.
        queue: QueueNo,
        /// Whose client it is; the first one, of several under one id.
        member: Option<MemberId>,
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
    /// A broker forgets all its queue locks.
    LocksLost,
    /// The queue counts of a topic change.
    QueuesChanged,
    /// Everything that was broken is mended: from here on the world must come to rest.
    Healed,
    /// All members are asked to leave.
    Closing,
}
