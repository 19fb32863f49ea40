use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::request::Answer;

use super::asked::{Asked, Link};

/// Everything at the other end of the members' connections: name servers and brokers.
///
/// The world carries bytes to it and back, with latency; what it answers, and when, is its own
/// business. Like the machine it sees time only as an argument.
pub trait Peer {
    /// Somebody dials an address.
    fn dial(&mut self, now: Instant, link: &Link, addr: &PeerAddr) -> Dial;
    /// Bytes of a connection that stands: one whole frame.
    fn receive(&mut self, now: Instant, link: &Link, bytes: Bytes);
    /// The member's end of a connection is closed.
    fn hung_up(&mut self, now: Instant, link: &Link);
    /// The time that [`Self::wake_at`] named has come.
    fn wake(&mut self, now: Instant);
    /// When it wants to be woken.
    fn wake_at(&self) -> Option<Instant>;
    /// What it wants done, oldest first.
    fn poll(&mut self) -> Option<PeerAction>;
}

/// What a peer wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAction {
    /// Send bytes to a member.
    Send {
        /// Where.
        link: Link,
        /// What.
        bytes: Bytes,
    },
    /// Close a connection.
    Close {
        /// Which one.
        link: Link,
    },
}

/// What becomes of an attempt to connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dial {
    /// The connection stands.
    #[default]
    Accept,
    /// Nobody listens.
    Refuse,
    /// Nothing happens at all.
    Hang,
}

/// What a script does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What the cluster does without a script.
    Model,
    /// The reply, later.
    After(Duration, Box<Self>),
    /// Nothing.
    Never,
    /// A refusal.
    Refuse(ResponseCode, &'static str),
    /// The connection is closed.
    Close,
    /// Exactly these bytes.
    Raw(Bytes),
}

impl Reply {
    /// An answer made up by the script.
    #[must_use]
    pub fn answer<A: Answer>(asked: &Asked, answer: &A) -> Self {
        Self::Raw(asked.answered(answer))
    }

    /// The same, later.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self::After(delay, Box::new(self))
    }
}
