//! Who owns which queue. Every member of a group computes its own share, alone, from the sorted
//! queues of a topic and the sorted ids of the members; so all of them, Java members too, must
//! compute bit by bit the same.
//!
//! The functions do not sort: [`sort_queues`] and [`sort_members`] are the caller's first step.

mod averagely;

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{ClientId, MessageQueue};

/// How queues are shared among the members of a group. All members must use the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AllocateStrategy {
    /// Neighbouring queues, in shares that differ by one at most. Java's default.
    #[default]
    Averagely,
}

impl AllocateStrategy {
    /// The name Java reports for it, in running info for instance.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Averagely => "AVG",
        }
    }

    /// The share of the member `own`, exactly as Java computes it: nothing if the id is not in the
    /// list, and the share of its first place if it is there several times.
    ///
    /// # Errors
    ///
    /// [`AllocateError`] where Java refuses the arguments.
    pub fn allocate(
        self,
        queues: &[MessageQueue],
        members: &[ClientId],
        own: &ClientId,
    ) -> Result<Vec<MessageQueue>, AllocateError> {
        check(queues, members, own)?;
        Ok(positions_of(own, members)
            .next()
            .map(|position| self.share(queues, members.len(), position))
            .unwrap_or_default())
    }

    /// The shares of all places `own` has in the list, in queue order.
    ///
    /// An id that is listed twice is mostly the same member on a connection the broker has not missed
    /// yet. With the share of the first place alone, that of the second would belong to nobody.
    ///
    /// # Errors
    ///
    /// [`AllocateError`] where Java refuses the arguments.
    pub fn allocate_all(
        self,
        queues: &[MessageQueue],
        members: &[ClientId],
        own: &ClientId,
    ) -> Result<Vec<MessageQueue>, AllocateError> {
        check(queues, members, own)?;
        let mut share: Vec<_> = positions_of(own, members)
            .flat_map(|position| self.share(queues, members.len(), position))
            .collect();
        sort_queues(&mut share);
        share.dedup();
        Ok(share)
    }

    /// The share of one place among `members`.
    fn share(self, queues: &[MessageQueue], members: usize, position: usize) -> Vec<MessageQueue> {
        match self {
            Self::Averagely => averagely::share(queues, members, position).to_vec(),
        }
    }
}

impl fmt::Display for AllocateStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AllocateStrategy {
    type Err = UnknownStrategy;

    /// Takes the short name, upper or lower case, or the name of the Java class.
    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        match name {
            "AVG" | "avg" | "AllocateMessageQueueAveragely" => Ok(Self::Averagely),
            _ => Err(UnknownStrategy),
        }
    }
}

/// A name that is not the name of an [`AllocateStrategy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown allocation strategy, known are: AVG")]
pub struct UnknownStrategy;

/// Arguments no strategy takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
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
