//! What a strategy may be made of.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;

use super::{AllocateStrategy, Otherwise, RoomRule};

/// Most points of one member on a ring.
pub const VIRTUAL_NODES_MAX: u32 = 1_000;

/// Most rooms of [`AllocateStrategy::MachineRoom`] and entries of a [`RoomRule`].
pub const ROOMS_MAX: usize = 1_000;

/// Most queues of [`AllocateStrategy::Config`].
pub const LISTED_MAX: usize = 65_536;

/// Longest name of a room, a broker, a pattern and an own strategy, in bytes.
pub const NAME_LEN_MAX: usize = 255;

impl AllocateStrategy {
    /// Whether a group can use it.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Averagely | Self::Circle => Ok(()),
            Self::ConsistentHash { virtual_nodes } => {
                if (1..=VIRTUAL_NODES_MAX).contains(virtual_nodes) {
                    return Ok(());
                }
                Err(format!(
                    "consistent hashing takes 1 to {VIRTUAL_NODES_MAX} virtual nodes"
                ))
            }
            Self::MachineRoom { rooms } => {
                count("rooms", rooms.len(), ROOMS_MAX)?;
                rooms.iter().try_for_each(|room| name("a room", room))
            }
            Self::Config { queues } => {
                count("queues", queues.len(), LISTED_MAX)?;
                queues.iter().try_for_each(|queue| {
                    if queue.id.0 < 0 {
                        return Err(format!("{queue}: queues are numbered from 0"));
                    }
                    name("a broker name", queue.broker.as_str())
                })
            }
            Self::Nearby { rooms, inner } => {
                if matches!(**inner, Self::Nearby { .. } | Self::Own(_)) {
                    return Err(
                        "nearby rooms cannot stand inside of each other, nor an own strategy in them"
                            .to_owned(),
                    );
                }
                rooms.check()?;
                inner.check()
            }
            Self::Own(own) => name("the name of an own strategy", own),
        }
    }
}

impl RoomRule {
    fn check(&self) -> Result<(), String> {
        if self.named.len() > ROOMS_MAX {
            return count("entries", self.named.len(), ROOMS_MAX);
        }
        for (pattern, room) in &self.named {
            name("a pattern", pattern)?;
            name("a room", room)?;
        }
        if let Otherwise::Room(room) = &self.otherwise {
            name("a room", room)?;
        }
        if self.named.is_empty() && self.before.is_none() && self.otherwise == Otherwise::Refuse {
            return Err("the rule tells no room for anybody".to_owned());
        }
        Ok(())
    }
}

fn count(what: &str, found: usize, most: usize) -> Result<(), String> {
    if (1..=most).contains(&found) {
        return Ok(());
    }
    Err(format!("{found} {what} are named, 1 to {most} can be"))
}

fn name(what: &str, text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > NAME_LEN_MAX {
        return Err(format!("{what} has 1 to {NAME_LEN_MAX} bytes: {text:?}"));
    }
    Ok(())
}
