//! Members are put on a ring at many points each, queues at one; a queue belongs to the next point.
//! Whoever joins or leaves moves few queues.
//= rocketmq: AllocateMessageQueueConsistentHash.allocate, ConsistentHashRouter, MD5Hash.hash

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;

use md5::{Digest as _, Md5};

use crate::ids::{ClientId, MessageQueue};

use super::AllocateError;

/// Points one ring may have. Each costs a hash, and the members are a broker's word.
pub(super) const POINTS_MAX: usize = 1_000_000;

/// The ring of a list of members.
pub(super) struct Ring<'a> {
    points: BTreeMap<u32, Point<'a>>,
}

/// A member on the ring.
#[derive(Clone, Copy)]
pub(super) struct Point<'a> {
    pub(super) member: &'a ClientId,
    /// Which of its points.
    pub(super) number: usize,
}

impl<'a> Ring<'a> {
    /// Puts every place of the list on the ring with so many points. An id that is listed several
    /// times gets as many more, and of two points on one spot the later one stays: as in Java.
    ///
    /// # Errors
    /// [`AllocateError::RingTooLarge`].
    pub(super) fn new(members: &'a [ClientId], virtual_nodes: u32) -> Result<Self, AllocateError> {
        let each = usize::try_from(virtual_nodes).unwrap_or(usize::MAX);
        if members.len().saturating_mul(each) > POINTS_MAX {
            return Err(AllocateError::RingTooLarge);
        }
        let mut points = BTreeMap::new();
        let mut known = BTreeSet::new();
        for member in members {
            let before = if known.insert(member) {
                0
            } else {
                points
                    .values()
                    .filter(|point: &&Point<'_>| point.member == member)
                    .count()
            };
            let mut text = format!("{member}-");
            let prefix = text.len();
            for number in before..before + each {
                text.truncate(prefix);
                text.push_str(itoa::Buffer::new().format(number));
                points.insert(hash(&text), Point { member, number });
            }
        }
        Ok(Self { points })
    }

    /// The point a queue belongs to, and where on the ring it lies; none on an empty ring.
    pub(super) fn point_of(&self, queue: &MessageQueue) -> Option<(u32, Point<'a>)> {
        let mut behind = self.points.range(hash(&java_text(queue))..);
        let (at, point) = behind.next().or_else(|| self.points.iter().next())?;
        Some((*at, *point))
    }
}

/// The spot of a text on the ring: the first four bytes of its MD5.
pub(super) fn hash(text: &str) -> u32 {
    let [a, b, c, d, ..]: [u8; 16] = Md5::digest(text.as_bytes()).into();
    u32::from_be_bytes([a, b, c, d])
}

/// Java's `MessageQueue.toString()`, by which a queue is put on the ring.
pub(super) fn java_text(queue: &MessageQueue) -> String {
    let MessageQueue { topic, broker, id } = queue;
    format!("MessageQueue [topic={topic}, brokerName={broker}, queueId={id}]")
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn points(members: &[&str], virtual_nodes: u32) -> Vec<(u32, usize)> {
        let members: Vec<ClientId> = members.iter().map(|id| (*id).into()).collect();
        let ring = Ring::new(&members, virtual_nodes).expect("a small ring");
        ring.points
            .into_iter()
            .map(|(at, point)| (at, point.number))
            .collect()
    }

    #[test]
    fn an_id_that_is_listed_twice_has_twice_the_points() {
        assert_eq!(points(&["a", "a"], 2), points(&["a"], 4));
        assert_eq!(points(&["a", "b", "a"], 3).len(), 9);
    }

    #[test]
    fn texts_are_hashed_as_java_hashes_them() {
        assert_eq!(hash("10.0.0.1@7-0"), 1_169_456_621);
    }
}
