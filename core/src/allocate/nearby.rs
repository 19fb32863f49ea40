//! First the queues of one's own room, then those of rooms where no member is.
//!
//! Java asks user code for the room of a broker and of a client id; here a [`RoomRule`] tells both.
//= rocketmq: AllocateMachineRoomNearby.allocate type=differs
//  reason: the resolver is data, so that it can be written down, compared and replayed.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ids::{ClientId, MessageQueue, java_order};

use super::AllocateError;
use super::consistent_hash::java_text;

/// Tells the room of a broker by its name and of a member by its id. The first that applies counts: an
/// entry of `named`, the text `before` a separator, what is said `otherwise`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RoomRule {
    /// Pairs of a pattern and a room. A pattern is a whole name, or the beginning of names when a `*`
    /// ends it: `broker-a`, `10.0.1.*`.
    pub named: Vec<(Box<str>, Box<str>)>,
    /// The room is the text before the first such character.
    pub before: Option<char>,
    /// What if nothing of that applies.
    pub otherwise: Otherwise,
}

/// The room of who has no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Otherwise {
    /// There is none, and without it nothing can be shared: [`AllocateError::NoRoom`].
    #[default]
    Refuse,
    /// The whole text is the room.
    Whole,
    /// This room.
    Room(Box<str>),
}

impl Default for RoomRule {
    /// The text before the first `-`, the whole text if there is none.
    fn default() -> Self {
        Self {
            named: Vec::new(),
            before: Some('-'),
            otherwise: Otherwise::Whole,
        }
    }
}

impl RoomRule {
    /// The room of a broker name or a client id. Java refuses an empty one, and so it is none.
    #[must_use]
    pub fn room_of<'a>(&'a self, text: &'a str) -> Option<&'a str> {
        let named = self.named.iter().find(|(pattern, _)| matches(pattern, text));
        let before = || text.split_once(self.before?).map(|(room, _)| room);
        let otherwise = || match &self.otherwise {
            Otherwise::Refuse => None,
            Otherwise::Whole => Some(text),
            Otherwise::Room(room) => Some(&**room),
        };
        let room = named.map(|(_, room)| &**room);
        room.or_else(before)
            .or_else(otherwise)
            .filter(|room| !room.is_empty())
    }

    fn room_of_queue<'a>(&'a self, queue: &'a MessageQueue) -> Result<&'a str, AllocateError> {
        let room = self.room_of(queue.broker.as_str());
        room.ok_or_else(|| AllocateError::NoRoom(no_room("mq", &java_text(queue))))
    }

    fn room_of_member<'a>(&'a self, member: &'a ClientId) -> Result<&'a str, AllocateError> {
        let room = self.room_of(member.as_str());
        room.ok_or_else(|| AllocateError::NoRoom(no_room("consumer id", member.as_str())))
    }
}

/// In Java's words.
fn no_room(kind: &str, who: &str) -> String {
    alloc::format!("Machine room is null for {kind} {who}")
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => pattern == text,
    }
}

/// Queues that are shared among some members, by another strategy.
pub(super) struct Part<'a> {
    pub(super) room: &'a str,
    pub(super) queues: Vec<MessageQueue>,
    /// The members of the room, or all when the room has none.
    pub(super) members: Vec<ClientId>,
    /// Whether the room has none.
    pub(super) is_deserted: bool,
}

/// What `own` takes part in, in the order in which Java does it: its own room, then the deserted ones
/// by name.
///
/// # Errors
/// [`AllocateError::NoRoom`] for the first that has none, queues before members.
pub(super) fn parts<'a>(
    rule: &'a RoomRule,
    queues: &'a [MessageQueue],
    members: &'a [ClientId],
    own: &'a ClientId,
) -> Result<Vec<Part<'a>>, AllocateError> {
    let queues = grouped(queues, |queue| rule.room_of_queue(queue))?;
    let members_by_room = grouped(members, |member| rule.room_of_member(member))?;
    let own_room = rule.room_of_member(own)?;
    let members_of = |room: &str| {
        let found = members_by_room.iter().find(|(name, _)| *name == room);
        found.map(|(_, members)| members.clone())
    };
    let (mine, others): (Vec<_>, Vec<_>) = queues.into_iter().partition(|(room, _)| *room == own_room);
    let mut parts = Vec::new();
    for (room, queues) in mine.into_iter().chain(others) {
        let inhabitants = members_of(room);
        if room == own_room || inhabitants.is_none() {
            parts.push(Part {
                room,
                queues,
                is_deserted: inhabitants.is_none(),
                members: inhabitants.unwrap_or_else(|| members.to_vec()),
            });
        }
    }
    Ok(parts)
}

/// Things by room: rooms in Java's order, things in their own.
fn grouped<'a, T: Clone>(
    things: &'a [T],
    room_of: impl Fn(&'a T) -> Result<&'a str, AllocateError>,
) -> Result<Vec<(&'a str, Vec<T>)>, AllocateError> {
    let mut with_rooms = Vec::with_capacity(things.len());
    for thing in things {
        with_rooms.push((room_of(thing)?, thing));
    }
    // A stable sort: within a room the order stays.
    with_rooms.sort_by(|(left, _), (right, _)| java_order(left, right));
    let rooms = with_rooms.chunk_by(|(left, _), (right, _)| left == right);
    let grouped = rooms.filter_map(|room| {
        let (name, _) = room.first()?;
        Some((*name, room.iter().map(|(_, thing)| (*thing).clone()).collect()))
    });
    Ok(grouped.collect())
}
