//! Strategies as text, for flags and files.
//!
//! ```text
//! avg                            circle                hash:20                  (hash alone: 10 virtual nodes)
//! room:r1,r2                     config:broker-a:0,broker-b:3,OTHER_TOPIC/broker-a:1
//! near                           near/hash:20          near:before=-,else=*/avg
//! near:broker-a=r1,broker-b=r2,10.0.1.*=r1,else=r2/circle
//! ```
//!
//! `near` takes entries `PATTERN=ROOM` of a [`RoomRule`], `before=C` and `else=ROOM` (`*`: the whole text),
//! and behind a `/` the strategy inside of a room; without any, the room is what stands before the first
//! `-`, and `avg` shares.

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::str::FromStr;

use crate::ids::QueueId;

use super::{AllocateStrategy, ListedQueue, Otherwise, RoomRule};

/// Points of a member on the ring, unless told otherwise; Java's default.
pub const VIRTUAL_NODES: u32 = 10;

/// A text that is not an [`AllocateStrategy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StrategyError {
    /// No strategy has this name.
    #[error(
        "unknown allocation strategy, known are: avg, circle, hash:N, room:R,…, config:BROKER:N,…, near:RULE/STRATEGY"
    )]
    Unknown,
    /// What stands behind the colon makes no sense.
    #[error("{0}")]
    Parameters(String),
}

impl FromStr for AllocateStrategy {
    type Err = StrategyError;

    /// Takes a short name, Java's name or that of the Java class, and parameters behind a colon:
    /// `circle`, `AVG_BY_CIRCLE`, `hash:20`, `room:r1,r2`, `config:broker-a:0,broker-b:3` (queues of one
    /// topic only as `TOPIC/broker-a:0`), `near`, `near/hash:20`, `near:broker-a=r1,10.0.1.*=r1,else=r2/avg`.
    fn from_str(text: &str) -> Result<Self, StrategyError> {
        let parsed = match nearby_parts(text) {
            Some((rule, inner)) => {
                let inner: Self = inner.map_or(Ok(Self::Averagely), leaf)?;
                let rooms = rule.map_or_else(|| Ok(RoomRule::default()), room_rule)?;
                Self::Nearby {
                    rooms,
                    inner: Box::new(inner),
                }
            }
            None => leaf(text)?,
        };
        parsed.check().map_err(StrategyError::Parameters)?;
        Ok(parsed)
    }
}

/// The rule and the inner strategy of a text that means rooms nearby. Java joins the inner name with a `-`.
fn nearby_parts(text: &str) -> Option<(Option<&str>, Option<&str>)> {
    let rest = ["near", "MACHINE_ROOM_NEARBY", "AllocateMachineRoomNearby"]
        .iter()
        .find_map(|name| text.strip_prefix(name))?;
    match rest.split_at_checked(1) {
        None => Some((None, None)),
        Some((":", rest)) => Some(match rest.split_once('/') {
            Some((rule, inner)) => (Some(rule), Some(inner)),
            None => (Some(rest), None),
        }),
        Some(("/" | "-", inner)) => Some((None, Some(inner))),
        Some(_) => None,
    }
}

/// A strategy with nothing inside.
fn leaf(text: &str) -> Result<AllocateStrategy, StrategyError> {
    use AllocateStrategy as S;
    let (name, parameters) = match text.split_once(':') {
        Some((name, parameters)) => (name, Some(parameters)),
        None => (text, None),
    };
    let needed = |what: &str| {
        let why = || alloc::format!("{name} needs {what} behind a colon");
        parameters
            .filter(|p| !p.is_empty())
            .ok_or_else(|| StrategyError::Parameters(why()))
    };
    let strategy = match name {
        "avg" | "AVG" | "AllocateMessageQueueAveragely" => S::Averagely,
        "circle" | "AVG_BY_CIRCLE" | "AllocateMessageQueueAveragelyByCircle" => S::Circle,
        "hash" | "CONSISTENT_HASH" | "AllocateMessageQueueConsistentHash" => {
            let virtual_nodes = parameters.map_or(Ok(VIRTUAL_NODES), str::parse);
            let why =
                |_| StrategyError::Parameters("hash takes a number of virtual nodes, hash:20".to_string());
            return Ok(S::ConsistentHash {
                virtual_nodes: virtual_nodes.map_err(why)?,
            });
        }
        "room" | "MACHINE_ROOM" | "AllocateMessageQueueByMachineRoom" => {
            let rooms = needed("rooms, room:r1,r2,")?.split(',').map(Box::from).collect();
            return Ok(S::MachineRoom { rooms });
        }
        "config" | "CONFIG" | "AllocateMessageQueueByConfig" => {
            let queues = needed("queues, config:broker-a:0,broker-b:3,")?.split(',');
            let queues = queues.map(str::parse).collect::<Result<Vec<_>, _>>()?;
            return Ok(S::Config { queues });
        }
        _ => return Err(StrategyError::Unknown),
    };
    match parameters {
        None => Ok(strategy),
        Some(_) => Err(StrategyError::Parameters(alloc::format!(
            "{name} takes no parameters"
        ))),
    }
}

impl FromStr for ListedQueue {
    type Err = StrategyError;

    /// Takes `broker:0` or `topic/broker:0`.
    fn from_str(text: &str) -> Result<Self, StrategyError> {
        let refused = || {
            StrategyError::Parameters(alloc::format!(
                "{text:?} is not BROKER:QUEUE, for instance broker-a:0"
            ))
        };
        let (place, id) = text.rsplit_once(':').ok_or_else(refused)?;
        let id: i32 = id.parse().map_err(|_| refused())?;
        let (topic, broker) = match place.split_once('/') {
            Some((topic, broker)) => (Some(topic), broker),
            None => (None, place),
        };
        if broker.is_empty() || topic.is_some_and(str::is_empty) {
            return Err(refused());
        }
        Ok(Self {
            topic: topic.map(Into::into),
            broker: broker.into(),
            id: QueueId(id),
        })
    }
}

fn room_rule(text: &str) -> Result<RoomRule, StrategyError> {
    let mut rule = RoomRule {
        named: Vec::new(),
        before: None,
        otherwise: Otherwise::Refuse,
    };
    for entry in text.split(',') {
        let refused = || {
            StrategyError::Parameters(alloc::format!(
                "{entry:?} is not PATTERN=ROOM, before=C or else=ROOM"
            ))
        };
        let (key, value) = entry.split_once('=').ok_or_else(refused)?;
        match (key, value) {
            ("before", value) => {
                let mut chars = value.chars();
                let (Some(separator), None) = (chars.next(), chars.next()) else {
                    return Err(refused());
                };
                rule.before = Some(separator);
            }
            ("else", "*") => rule.otherwise = Otherwise::Whole,
            ("else", room) => rule.otherwise = Otherwise::Room(room.into()),
            (pattern, room) => rule.named.push((pattern.into(), room.into())),
        }
    }
    Ok(rule)
}

/// The shortest text that is read as the same again, unless a name in it holds one of the separators.
impl fmt::Display for AllocateStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Averagely => f.write_str("avg"),
            Self::Circle => f.write_str("circle"),
            Self::ConsistentHash { virtual_nodes } => write!(f, "hash:{virtual_nodes}"),
            Self::MachineRoom { rooms } => {
                f.write_str("room")?;
                write_list(f, rooms)
            }
            Self::Config { queues } => {
                f.write_str("config")?;
                write_list(f, queues)
            }
            Self::Nearby { rooms, inner } => write!(f, "near{rooms}/{inner}"),
            Self::Own(name) => f.write_str(name),
        }
    }
}

/// `:a,b`
fn write_list(f: &mut fmt::Formatter<'_>, items: impl IntoIterator<Item: fmt::Display>) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        f.write_char(if index == 0 { ':' } else { ',' })?;
        write!(f, "{item}")?;
    }
    Ok(())
}

/// The entries behind a colon.
impl fmt::Display for RoomRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self
            .named
            .iter()
            .map(|(pattern, room)| alloc::format!("{pattern}={room}"));
        let before = self.before.map(|separator| alloc::format!("before={separator}"));
        let otherwise = match &self.otherwise {
            Otherwise::Refuse => None,
            Otherwise::Whole => Some("else=*".to_string()),
            Otherwise::Room(room) => Some(alloc::format!("else={room}")),
        };
        write_list(f, named.chain(before).chain(otherwise))
    }
}
