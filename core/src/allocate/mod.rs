//! Who owns which queue. Every member of a group computes its own share, alone, from the sorted
//! queues of a topic and the sorted ids of the members; so all of them, Java members too, must
//! compute bit by bit the same.
//!
//! The functions do not sort: [`sort_queues`] and [`sort_members`] are the caller's first step.

mod averagely;
mod circle;
mod consistent_hash;
mod explain;
mod leaf;
mod limits;
mod listed;
mod machine_room;
mod nearby;
mod text;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ids::{ClientId, MessageQueue, Topic};

pub use explain::{Explanation, MemberShare, Owned, Why};
pub use limits::{LISTED_MAX, NAME_LEN_MAX, ROOMS_MAX, VIRTUAL_NODES_MAX};
pub use listed::ListedQueue;
pub use nearby::{Otherwise, RoomRule};
pub use text::{StrategyError, VIRTUAL_NODES};

use consistent_hash::Ring;

/// How queues are shared among the members of a group. All members must use the same one.
///
/// As text it is a short name or Java's, with what it needs behind a colon; see [`str::parse`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AllocateStrategy {
    /// Neighbouring queues, in shares that differ by one at most. Java's default.
    #[default]
    Averagely,
    /// Queues in turn, one for each member, round and round.
    Circle,
    /// Members and queues on a ring; who joins or leaves moves few queues. Shares differ in size.
    ConsistentHash {
        /// Points each member has on the ring. More make shares more even.
        virtual_nodes: u32,
    },
    /// Only queues of brokers named `room@broker`, of these rooms. Others belong to nobody.
    MachineRoom {
        /// The rooms.
        rooms: BTreeSet<Box<str>>,
    },
    /// Exactly these queues, whoever else is there; each member has its own list. What the topic does not
    /// have is told and not owned. Retries, which no list names, are shared [`Self::Averagely`].
    Config {
        /// The queues.
        queues: Vec<ListedQueue>,
    },
    /// First the queues of one's own room among its members; queues of rooms without members among all.
    Nearby {
        /// Tells the room of brokers and members.
        rooms: RoomRule,
        /// How the queues of a room are shared: any of the above.
        #[serde(deserialize_with = "leaf::deserialize")]
        inner: Box<Self>,
    },
    /// What a function of the application says, known under this name.
    Own(Box<str>),
}

impl AllocateStrategy {
    /// The name Java reports for it, in running info for instance; that of an own one is its own.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(match self {
            Self::Averagely => "AVG",
            Self::Circle => "AVG_BY_CIRCLE",
            Self::ConsistentHash { .. } => "CONSISTENT_HASH",
            Self::MachineRoom { .. } => "MACHINE_ROOM",
            Self::Config { .. } => "CONFIG",
            Self::Nearby { inner, .. } => return Cow::Owned(format!("MACHINE_ROOM_NEARBY-{}", inner.name())),
            Self::Own(name) => name,
        })
    }

    /// The share of the member `own`, exactly as Java computes it: nothing if the id is not in the
    /// list, and the share of its first place if it is there several times.
    ///
    /// # Errors
    ///
    /// [`AllocateError`] where Java refuses the arguments; always for [`Self::Own`].
    pub fn allocate(
        &self,
        queues: &[MessageQueue],
        members: &[ClientId],
        own: &ClientId,
    ) -> Result<Vec<MessageQueue>, AllocateError> {
        if let Self::Config { queues: list } = self {
            return Ok(listed::verbatim(list, queues));
        }
        check(queues, members, own)?;
        let Some(position) = positions_of(own, members).next() else {
            return Ok(Vec::new());
        };
        if let Self::Nearby { rooms, inner } = self {
            let parts = nearby::parts(rooms, queues, members, own)?;
            let shares = parts
                .iter()
                .map(|part| inner.allocate(&part.queues, &part.members, own));
            return Ok(shares.collect::<Result<Vec<_>, _>>()?.concat());
        }
        self.share(queues, members, own, position)
    }

    /// What a member takes in a rebalance: the shares of all places `own` has in the list, in queue order,
    /// each queue once and only such that are among `queues`.
    ///
    /// An id that is listed twice is mostly the same member on a connection the broker has not missed
    /// yet. With the share of the first place alone, that of the second would belong to nobody.
    ///
    /// # Errors
    ///
    /// [`AllocateError`] where Java refuses the arguments; always for [`Self::Own`].
    pub fn allocate_all(
        &self,
        queues: &[MessageQueue],
        members: &[ClientId],
        own: &ClientId,
    ) -> Result<Vec<MessageQueue>, AllocateError> {
        check(queues, members, own)?;
        let mut share = match self {
            Self::Config { queues: list } => {
                let listed: BTreeSet<_> = listed::verbatim(list, queues).into_iter().collect();
                queues
                    .iter()
                    .filter(|queue| listed.contains(queue))
                    .cloned()
                    .collect()
            }
            Self::Nearby { rooms, inner } if members.contains(own) => {
                let parts = nearby::parts(rooms, queues, members, own)?;
                let shares = parts
                    .iter()
                    .map(|part| inner.allocate_all(&part.queues, &part.members, own));
                shares.collect::<Result<Vec<_>, _>>()?.concat()
            }
            // On a ring every place counts already.
            Self::ConsistentHash { .. } => self.allocate(queues, members, own)?,
            Self::Averagely
            | Self::Circle
            | Self::MachineRoom { .. }
            | Self::Nearby { .. }
            | Self::Own(_) => {
                let shares = positions_of(own, members).map(|place| self.share(queues, members, own, place));
                shares.collect::<Result<Vec<_>, _>>()?.concat()
            }
        };
        sort_queues(&mut share);
        share.dedup();
        Ok(share)
    }

    /// The share of one place among the members.
    fn share(
        &self,
        queues: &[MessageQueue],
        members: &[ClientId],
        own: &ClientId,
        position: usize,
    ) -> Result<Vec<MessageQueue>, AllocateError> {
        let count = members.len();
        Ok(match self {
            Self::Averagely => averagely::share(queues, count, position).to_vec(),
            Self::Circle => circle::share(queues, count, position),
            Self::ConsistentHash { virtual_nodes } => {
                let ring = Ring::new(members, *virtual_nodes)?;
                let is_mine = |queue: &&MessageQueue| {
                    ring.point_of(queue).is_some_and(|(_, point)| point.member == own)
                };
                queues.iter().filter(is_mine).cloned().collect()
            }
            Self::MachineRoom { rooms } => {
                let eligible: Vec<_> = machine_room::eligible(queues, rooms).collect();
                machine_room::share(&eligible, count, position)
            }
            Self::Config { .. } | Self::Nearby { .. } => return self.allocate(queues, members, own),
            Self::Own(name) => return Err(AllocateError::Own(name.clone())),
        })
    }

    /// How the retry topic of a group is shared that uses this strategy: a list of queues, which names
    /// queues of the topics, would leave retried messages to nobody.
    #[must_use]
    pub fn for_retries(&self) -> Cow<'_, Self> {
        match self {
            Self::Config { .. } => Cow::Owned(Self::Averagely),
            Self::Nearby { rooms, inner } if matches!(**inner, Self::Config { .. }) => {
                Cow::Owned(Self::Nearby {
                    rooms: rooms.clone(),
                    inner: Box::new(Self::Averagely),
                })
            }
            Self::Averagely
            | Self::Circle
            | Self::ConsistentHash { .. }
            | Self::MachineRoom { .. }
            | Self::Nearby { .. }
            | Self::Own(_) => Cow::Borrowed(self),
        }
    }

    /// Queues of a topic that the strategy names and the topic does not have.
    #[must_use]
    pub fn not_there(&self, topic: &Topic, queues: &[MessageQueue]) -> Vec<MessageQueue> {
        match self {
            Self::Config { queues: list } => {
                let named = listed::named(list, topic, queues);
                named
                    .filter_map(|(queue, is_there)| (!is_there).then_some(queue))
                    .collect()
            }
            Self::Nearby { inner, .. } => inner.not_there(topic, queues),
            Self::Averagely
            | Self::Circle
            | Self::ConsistentHash { .. }
            | Self::MachineRoom { .. }
            | Self::Own(_) => Vec::new(),
        }
    }
}

/// Arguments a strategy does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocateError {
    /// The own client id is empty.
    #[error("the own client id is empty")]
    EmptyClientId,
    /// There is no queue to share.
    #[error("there is no queue")]
    NoQueues,
    /// There is no member to share among.
    #[error("there is no member")]
    NoMembers,
    /// The [`RoomRule`] tells no room for this one; in Java's words.
    #[error("{0}")]
    NoRoom(String),
    /// Members and virtual nodes make more points than a ring may have.
    #[error("the ring would have more than a million points; use fewer virtual nodes")]
    RingTooLarge,
    /// The application computes it, nobody else can.
    #[error("only the application knows the shares of {0}")]
    Own(Box<str>),
}

/// The places of `own` in the list of members, none if it is missing: an unregistered member has no
/// share, least of all that of the first place.
pub fn positions_of<'a>(own: &'a ClientId, members: &'a [ClientId]) -> impl Iterator<Item = usize> + 'a {
    members
        .iter()
        .enumerate()
        .filter_map(move |(position, member)| (member == own).then_some(position))
}

/// Sorts queues as every member must: by topic, broker name and number.
pub fn sort_queues(queues: &mut [MessageQueue]) {
    queues.sort_unstable();
}

/// Sorts member ids as every member must: by 16-bit code units. Ids that are listed several times
/// stay so: every member counts them alike.
pub fn sort_members(members: &mut [ClientId]) {
    members.sort_unstable();
}

fn check(queues: &[MessageQueue], members: &[ClientId], own: &ClientId) -> Result<(), AllocateError> {
    if own.as_str().is_empty() {
        return Err(AllocateError::EmptyClientId);
    }
    if queues.is_empty() {
        return Err(AllocateError::NoQueues);
    }
    if members.is_empty() {
        return Err(AllocateError::NoMembers);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
