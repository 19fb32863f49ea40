//! Names and handles. A *name* is what RocketMQ calls a thing (a topic, a broker); a *handle* is a
//! small copyable number the machine gives it, with a generation so that late events about an
//! earlier owner of the slot miss instead of hitting the wrong one.

use alloc::string::String;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is; checks belong to the configuration.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        /// Java's order: 16-bit code units, not code points.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                java_order(&self.0, &other.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

name! {
    /// A topic, with every prefix it has on the wire (`%RETRY%group` is a topic too).
    Topic
}
name! {
    /// A consumer group: the members that share the work of its topics.
    ConsumerGroup
}
name! {
    /// A broker's stable name; its address may change, its name does not.
    BrokerName
}
name! {
    /// One member of a group, `ip@instance` for a Java client; opaque text for the broker.
    ClientId
}

/// Compares two strings as Java's `String.compareTo` does, by 16-bit code units.
///
/// Every member of a group sorts queues and client ids alone, so all of them must agree on the
/// order. UTF-8 byte order differs from it for characters beyond U+FFFF.
#[must_use]
pub fn java_order(left: &str, right: &str) -> Ordering {
    let mut pairs = left.bytes().zip(right.bytes());
    match pairs.find(|(left, right)| left != right) {
        // Characters beyond U+FFFF begin with 0xF0 and more; as surrogates they come before those that begin
        // with 0xEE and 0xEF. Everywhere else the bytes are in the order of the code units.
        Some((0xF0.., 0xEE | 0xEF)) => Ordering::Less,
        Some((0xEE | 0xEF, 0xF0..)) => Ordering::Greater,
        Some((left, right)) => left.cmp(&right),
        None => left.len().cmp(&right.len()),
    }
}

/// Index of a queue within one topic of one broker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QueueId(pub i32);

/// A position in a message queue: the offset of a message, or of the next one to fetch or commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QueueOffset(pub i64);

/// A message's position in the broker's commit log; what a send back asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PhysicalOffset(pub i64);

macro_rules! show_as_number {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}
show_as_number!(QueueId QueueOffset PhysicalOffset);

/// The name of a message queue: the unit of assignment, of pulling and of progress.
///
/// Ordered as rebalance sorts queues: by topic, broker name and id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageQueue {
    /// The topic the queue belongs to.
    pub topic: Topic,
    /// The broker that stores it.
    pub broker: BrokerName,
    /// Its index there.
    pub id: QueueId,
}

impl fmt::Display for MessageQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.topic, self.broker, self.id)
    }
}

impl fmt::Debug for MessageQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a peer listens: a host name or address that nobody resolved yet, and a port.
///
/// A name server or broker is known by this value, whatever connection currently leads to it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerAddr {
    host: Arc<str>,
    port: u16,
}

/// Why a text is not `host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerAddrError {
    /// There is no colon, or nothing before it.
    #[error("an address is written host:port")]
    NoHost,
    /// It is a URL where a plain address is wanted.
    #[error("an address is written host:port, without a scheme and without a path")]
    Url,
    /// There is a comma or a semicolon in it.
    #[error("this looks like several addresses; give them one by one, or separated by semicolons")]
    Several,
    /// What follows the last colon is not a port number.
    #[error("the port must be a number from 1 to 65535")]
    BadPort,
}

impl PeerAddr {
    /// An address from its parts. An IPv6 host is given without brackets.
    pub fn new(host: impl Into<Arc<str>>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// The host, as configured or as the name server registered it.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl core::str::FromStr for PeerAddr {
    type Err = PeerAddrError;

    /// Reads `host:port`; the last colon separates, brackets round an IPv6 host are taken off.
    fn from_str(text: &str) -> Result<Self, PeerAddrError> {
        if text.contains('/') {
            return Err(PeerAddrError::Url);
        }
        if text.contains([',', ';']) {
            return Err(PeerAddrError::Several);
        }
        let (host, port) = text.trim().rsplit_once(':').ok_or(PeerAddrError::NoHost)?;
        let host = host
            .strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'))
            .unwrap_or(host);
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(PeerAddrError::NoHost);
        }
        match port.parse::<u16>() {
            Ok(port) if port > 0 => Ok(Self::new(host, port)),
            _ => Err(PeerAddrError::BadPort),
        }
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name {
            /// Which place in the table.
            pub slot: u32,
            /// Which of the things that stood in that place, one after another.
            pub generation: u32,
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({}.{})"), self.slot, self.generation)
            }
        }
    };
}

handle! {
    /// One life of a connection. A re-dial of the same address gets a new generation.
    ConnId
}
handle! {
    /// One consumer group of this client instance.
    GroupKey
}
handle! {
    /// One ownership record of a message queue.
    QueueKey
}

/// Counts the ownerships of this client; never reset, never reused. What belongs to an earlier
/// epoch is stale and changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// Names one run of messages handed to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConsumeId {
    /// The group that hands it out.
    pub group: GroupKey,
    /// Counts the runs of that group; never reused.
    pub run: u64,
}

/// Names one question for a share of a topic, put to an own allocation strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AllocateId {
    /// The group that asks.
    pub group: GroupKey,
    /// Counts the questions of that group; never reused.
    pub serial: u64,
}

/// Names one request of the application, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(pub u64);

/// Names one stored thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreKey {
    /// Whose it is.
    pub group: ConsumerGroup,
    /// Which member's.
    pub instance: String,
    /// What kind of content.
    pub kind: StoreKind,
}

/// Kinds of stored content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StoreKind {
    /// Offsets of a broadcasting member.
    Offsets,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_sort_as_java_sorts_them() {
        // "0" < "@", so the longer address comes first: the trap of mixed groups.
        assert!(ClientId::from("10.0.0.10@7") < ClientId::from("10.0.0.1@7"));
        // A surrogate pair starts below U+FF5E although its code point is higher.
        assert!(ClientId::from("😀") < ClientId::from("～"));
        assert!(BrokerName::from("broker-10") < BrokerName::from("broker-2"));
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_code_units(
            left in "[a\u{7f}\u{e9}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}",
            right in "[a\u{7f}\u{e9}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}",
        ) {
            let by_units = left.encode_utf16().cmp(right.encode_utf16());
            prop_assert_eq!(java_order(&left, &right), by_units);
        }
    }

    #[test]
    fn addresses_are_host_and_port() {
        for (text, host, port) in [
            ("127.0.0.1:9876", "127.0.0.1", 9876),
            ("[::1]:1", "::1", 1),
            (" ns.local:65535 ", "ns.local", 65535),
        ] {
            let addr: PeerAddr = text.parse().unwrap();
            assert_eq!((addr.host(), addr.port()), (host, port));
        }
        for (text, error) in [
            ("localhost", PeerAddrError::NoHost),
            (":9876", PeerAddrError::NoHost),
            ("a:1,b:2", PeerAddrError::Several),
            ("a b:1", PeerAddrError::NoHost),
            ("http://127.0.0.1:9876", PeerAddrError::Url),
            ("127.0.0.1:9876/", PeerAddrError::Url),
            ("a:0", PeerAddrError::BadPort),
            ("a:65536", PeerAddrError::BadPort),
        ] {
            assert_eq!(text.parse::<PeerAddr>(), Err(error));
        }
        assert_eq!("[::1]:1".parse::<PeerAddr>().unwrap().to_string(), "[::1]:1");
    }

    #[test]
    fn queues_sort_by_topic_then_broker_then_number() {
        let queue = |topic: &str, broker: &str, id| MessageQueue {
            topic: topic.into(),
            broker: broker.into(),
            id: QueueId(id),
        };
        assert!(queue("a", "z", 9) < queue("b", "a", 0));
        assert!(queue("a", "a", 9) < queue("a", "b", 0));
        assert!(queue("a", "a", 2) < queue("a", "a", 10));
    }
}
