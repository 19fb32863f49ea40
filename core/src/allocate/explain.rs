//! Why a member owns what it owns: for people who look at two shares and do not believe them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use serde::Serialize;

use crate::ids::{ClientId, MessageQueue};

use super::consistent_hash::{Ring, hash, java_text};
use super::nearby::Part;
use super::{AllocateError, AllocateStrategy, machine_room, nearby, positions_of};

/// A share, and how it came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The strategy, as text.
    pub strategy: String,
    /// Queues that were shared.
    pub queues: usize,
    /// Who is there, in the order that counts, and how much each one owns.
    pub members: Vec<MemberShare>,
    /// What the member owns.
    pub share: Vec<Owned>,
    /// Queues that no member owns, as far as this strategy can tell from here.
    pub nobodys: Vec<MessageQueue>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberShare {
    /// Its id.
    pub id: ClientId,
    /// Its places in the sorted list, from 0; several when it is listed several times.
    pub places: Vec<usize>,
    /// How many queues it owns. With [`AllocateStrategy::Config`] only its own list tells, so `None`.
    pub owns: Option<usize>,
}

/// One queue and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Owned {
    /// The queue.
    pub queue: MessageQueue,
    /// Why.
    pub why: Why,
}

/// Why a queue belongs to a member. Shown as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Why {
    /// It lies in the block of a place.
    Block {
        /// Which of the shared queues it is, from 0.
        index: usize,
        /// The place.
        place: usize,
        /// The first of the block, and one behind the last.
        block: (usize, usize),
    },
    /// It is the turn of a place.
    Turn {
        /// Which of the shared queues it is, from 0.
        index: usize,
        /// The place.
        place: usize,
        /// Places in the circle.
        places: usize,
    },
    /// It did not come out even, and the place is among the first ones, which take what is left over.
    LeftOver {
        /// Which of the shared queues it is, from 0.
        index: usize,
        /// The place.
        place: usize,
    },
    /// The next point on the ring is one of the member's.
    Ring {
        /// Where the queue lies.
        queue_at: u32,
        /// Where the point lies; before the queue when it is the first one of the ring.
        point_at: u32,
        /// Which point of the member.
        point: usize,
    },
    /// The member's list names it.
    Listed,
    /// It is in the member's own room.
    OwnRoom {
        /// The room.
        room: Box<str>,
        /// Why in there.
        why: Box<Self>,
    },
    /// It is in a room without members.
    DesertedRoom {
        /// The room.
        room: Box<str>,
        /// Why among all.
        why: Box<Self>,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block {
                index,
                place,
                block: (start, end),
            } => {
                let last = end.saturating_sub(1);
                write!(
                    f,
                    "queue {index} lies in the block {start} to {last} of place {place}"
                )
            }
            Self::Turn { index, place, places } => {
                write!(
                    f,
                    "queue {index} is the turn of place {place}, as every {places}th is"
                )
            }
            Self::LeftOver { index, place } => write!(f, "queue {index} was left over for place {place}"),
            Self::Ring {
                queue_at,
                point_at,
                point,
            } => write!(
                f,
                "from {queue_at} on the ring the next point is {point_at}, number {point} of this member"
            ),
            Self::Listed => f.write_str("it is on the list"),
            Self::OwnRoom { room, why } => write!(f, "in the own room {room:?} {why}"),
            Self::DesertedRoom { room, why } => {
                write!(f, "nobody is in room {room:?}, so all share it: {why}")
            }
        }
    }
}

impl AllocateStrategy {
    /// What [`Self::allocate_all`] gives to `own`, why, and who else is there. The lists are to be sorted.
    ///
    /// # Errors
    ///
    /// As [`Self::allocate_all`].
    pub fn explain(
        &self,
        queues: &[MessageQueue],
        members: &[ClientId],
        own: &ClientId,
    ) -> Result<Explanation, AllocateError> {
        let mut owned_by_somebody = BTreeSet::new();
        let mut shares = Vec::new();
        for id in members.iter().collect::<BTreeSet<_>>() {
            let share = self.allocate_all(queues, members, id)?;
            shares.push(MemberShare {
                id: id.clone(),
                places: positions_of(id, members).collect(),
                owns: (id == own || !self.is_listed()).then_some(share.len()),
            });
            owned_by_somebody.extend(share);
        }
        let share = self.allocate_all(queues, members, own)?;
        let reasons = self.reasons(&share, queues, members, own)?;
        let share = share.into_iter().zip(reasons);
        let is_nobodys = |queue: &&MessageQueue| !self.is_listed() && !owned_by_somebody.contains(*queue);
        Ok(Explanation {
            strategy: self.to_string(),
            queues: queues.len(),
            members: shares,
            share: share.map(|(queue, why)| Owned { queue, why }).collect(),
            nobodys: queues.iter().filter(is_nobodys).cloned().collect(),
        })
    }

    /// Whether each member has a list of its own, which nobody else knows.
    fn is_listed(&self) -> bool {
        match self {
            Self::Config { .. } => true,
            Self::Nearby { inner, .. } => inner.is_listed(),
            Self::Averagely
            | Self::Circle
            | Self::ConsistentHash { .. }
            | Self::MachineRoom { .. }
            | Self::Own(_) => false,
        }
    }

    /// Why each queue of `share` is `own`'s, which it is.
    fn reasons(
        &self,
        share: &[MessageQueue],
        queues: &[MessageQueue],
        members: &[ClientId],
        own: &ClientId,
    ) -> Result<Vec<Why>, AllocateError> {
        let count = members.len();
        Ok(match self {
            Self::Averagely => by_index(share, queues.iter(), |index, total| block(index, total, count)),
            Self::Circle => by_index(share, queues.iter(), |index, _| Why::Turn {
                index,
                place: index % count.max(1),
                places: count,
            }),
            Self::MachineRoom { rooms } => {
                let eligible = machine_room::eligible(queues, rooms);
                by_index(share, eligible, |index, total| room_block(index, total, count))
            }
            Self::ConsistentHash { virtual_nodes } => {
                let ring = Ring::new(members, *virtual_nodes)?;
                share.iter().map(|queue| ring_point(&ring, queue)).collect()
            }
            Self::Config { .. } => share.iter().map(|_| Why::Listed).collect(),
            Self::Nearby { rooms, inner } => {
                let mut reasons = BTreeMap::new();
                for part in nearby::parts(rooms, queues, members, own)? {
                    let inside = inner.allocate_all(&part.queues, &part.members, own)?;
                    let whys = inner.reasons(&inside, &part.queues, &part.members, own)?;
                    let whys = whys.into_iter().map(|why| part.because(why));
                    reasons.extend(inside.into_iter().zip(whys));
                }
                share.iter().filter_map(|queue| reasons.remove(queue)).collect()
            }
            Self::Own(name) => return Err(AllocateError::Own(name.clone())),
        })
    }
}

impl Part<'_> {
    fn because(&self, why: Why) -> Why {
        let (room, why) = (self.room.into(), Box::new(why));
        if self.is_deserted {
            Why::DesertedRoom { room, why }
        } else {
            Why::OwnRoom { room, why }
        }
    }
}

/// Reasons that follow from the places of queues among those that are shared, and from how many those are.
fn by_index<'a>(
    share: &[MessageQueue],
    shared: impl Iterator<Item = &'a MessageQueue>,
    why: impl Fn(usize, usize) -> Why,
) -> Vec<Why> {
    let places: BTreeMap<&MessageQueue, usize> = shared.zip(0..).collect();
    let known = share.iter().filter_map(|queue| places.get(queue));
    known.map(|index| why(*index, places.len())).collect()
}

fn ring_point(ring: &Ring<'_>, queue: &MessageQueue) -> Why {
    let (point_at, point) = ring
        .point_of(queue)
        .map_or((0, 0), |(at, point)| (at, point.number));
    Why::Ring {
        queue_at: hash(&java_text(queue)),
        point_at,
        point,
    }
}

/// The block of [`AllocateStrategy::Averagely`] that a queue lies in.
fn block(index: usize, queues: usize, members: usize) -> Why {
    let members = members.max(1);
    let (each, longer) = (queues / members, queues % members);
    let in_longer = longer * (each + 1);
    let (place, start, len) = if index < in_longer {
        let place = index / (each + 1);
        (place, place * (each + 1), each + 1)
    } else {
        let place = longer + (index - in_longer) / each.max(1);
        (place, in_longer + (place - longer) * each, each)
    };
    Why::Block {
        index,
        place,
        block: (start, start + len),
    }
}

/// The same of [`AllocateStrategy::MachineRoom`], whose blocks are equal and where the rest is dealt out.
fn room_block(index: usize, queues: usize, members: usize) -> Why {
    let each = queues / members.max(1);
    if index >= each * members {
        return Why::LeftOver {
            index,
            place: index - each * members,
        };
    }
    let place = index / each.max(1);
    Why::Block {
        index,
        place,
        block: (place * each, (place + 1) * each),
    }
}
