//! What happens to a cluster and what it wants done.

use alloc::string::String;
use core::net::SocketAddr;
use core::time::Duration;

use bytes::Bytes;

use super::config::TopicConfig;
use super::rule::Rule;
use crate::ids::{BrokerName, ConnId, ConsumerGroup, MessageQueue, PeerAddr, QueueOffset, Topic};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BrokerEvent {
    /// The time `poll_timeout` named has come.
    Wakeup,
    /// Something happened to a connection.
    Net(ServerEvent),
    /// The one who runs the cluster wants something.
    Control(Control),
}

/// What happens to connections, seen from the side that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// Somebody connected. A driver refuses by itself while the node is down ([`Control::Stop`],
    /// [`Control::Crash`]); a connection to a node that is down or unknown is closed at once.
    Accepted {
        /// The name of the new connection; never one that was used before.
        conn: ConnId,
        /// Which node: the address it listens at.
        at: PeerAddr,
        /// Where the client is.
        from: SocketAddr,
    },
    /// Bytes arrived, in order, cut anywhere.
    Received {
        /// From where.
        conn: ConnId,
        /// What came.
        bytes: Bytes,
    },
    /// The connection is gone.
    Closed {
        /// Which one.
        conn: ConnId,
    },
}

/// The hand of whoever runs the cluster: an operator, a test, a simulator. What does not apply (an unknown
/// topic, a node that is up already) changes nothing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Control {
    /// Creates a topic on every broker, or changes it.
    PutTopic(TopicConfig),
    /// Creates or changes a topic on one broker: queue counts grow and shrink.
    PutTopicOn {
        /// The broker.
        broker: BrokerName,
        /// The topic.
        topic: TopicConfig,
    },
    /// Deletes a topic everywhere, its messages and all groups' offsets in it.
    DeleteTopic(Topic),
    /// Stores a message without a producer.
    Append {
        /// The queue; it must exist.
        queue: MessageQueue,
        /// The message.
        message: NewMessage,
    },
    /// Forgets the messages below an offset, as if they had expired.
    Expire {
        /// The queue.
        queue: MessageQueue,
        /// The oldest offset that stays.
        min: QueueOffset,
    },
    /// From now on requests are treated so. A later rule does not replace an earlier one: the first that
    /// matches counts.
    AddRule(Rule),
    /// Forgets all rules.
    ClearRules,
    /// The process at an address dies: its connections break, members, locks, held pulls and the offsets of
    /// the last flush interval are gone. Messages stay.
    Crash(PeerAddr),
    /// The process at an address ends in order: nothing that was stored is lost.
    Stop(PeerAddr),
    /// A process that was down runs again.
    Start(PeerAddr),
    /// A process that is down will listen elsewhere when it runs again, as in a container that was made anew.
    /// Rules that name its old address stay with the address.
    Move {
        /// Where it listened.
        from: PeerAddr,
        /// Where it will listen; an address that somebody has already changes nothing.
        to: PeerAddr,
    },
    /// How far the slaves of a broker are behind from now on.
    ReplicationLag {
        /// The broker.
        broker: BrokerName,
        /// How far.
        lag: Duration,
    },
    /// A name server goes on telling what it knows now (`true`), or tells the truth again (`false`).
    FreezeRoutes {
        /// Which name server.
        name_server: PeerAddr,
        /// Whether it is frozen.
        frozen: bool,
    },
    /// Tells the members of a group that it changed, although it did not.
    Notify {
        /// The broker that tells.
        broker: BrokerName,
        /// The group.
        group: ConsumerGroup,
    },
    /// Sets where a group continues in a queue, as the operator's request does (222): its members are told with
    /// their next pull.
    ResetOffset {
        /// Whose.
        group: ConsumerGroup,
        /// Of which queue.
        queue: MessageQueue,
        /// Where to continue.
        offset: QueueOffset,
    },
    /// Takes every stored offset of a broker back by this much, but not below 0, as when an older file of offsets
    /// is restored. It counts as flushed.
    RewindOffsets {
        /// The broker.
        broker: BrokerName,
        /// By how many messages.
        by: u64,
    },
    /// Lets all queue locks of a broker expire.
    ExpireLocks(BrokerName),
    /// Closes a connection.
    Disconnect(ConnId),
    /// The brokers' wall clock jumps by this many milliseconds; timers do not.
    ClockJump(i64),
}

/// A message that nobody has stored yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// The body, compressed if `sys_flag` says so.
    pub body: Bytes,
    /// The properties as they are stored: names and values with their separators.
    pub properties: String,
    /// Compression and transaction bits.
    pub sys_flag: i32,
    /// The user's own flag.
    pub flag: i32,
}

impl NewMessage {
    /// A message with a body and nothing else.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self {
            body: body.into(),
            ..Self::default()
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerAction {
    /// Write a frame, in order.
    Send {
        /// Where.
        conn: ConnId,
        /// What.
        frame: Bytes,
    },
    /// Close and forget; no event is expected for it any more.
    Close {
        /// Which one.
        conn: ConnId,
    },
}
