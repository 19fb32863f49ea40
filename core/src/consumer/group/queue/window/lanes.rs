//! Which message of a window may go next where only messages of one key keep their order.
//!
//! A lane is all unfinished messages of one key, as they lie in the queue. The first of a lane is free, with a handler,
//! resting, or failing; the others wait for it, whatever other lanes do. So a message never overtakes one of its key,
//! and what is out of one lane is one message.
//!
//! ```text
//!  put ──first of its lane──► free ──taken──► with a handler ──finished──► its successor in the lane is free
//!    └── waits for the first   ▲ ▲                │    │
//!                              │ └─ ready again ──┘    │ suspended
//!                              └─────── woken ◄── resting
//! ```
//!
//! A record that cannot be read has no key that could be known. It may be anybody's predecessor, so nothing behind it
//! goes before it is settled.
//!
//! Nothing here is searched: every question is answered by the first element of a sorted set.

use alloc::collections::{BTreeSet, VecDeque};

use crate::time::Instant;
use crate::wire::properties::name;
use crate::wire::stored::Record;

/// A lane: the hash of its key. Two keys that share one are kept in order with each other, which costs them time and
/// nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane(u64);

impl Lane {
    /// The lane of a message. Those without a key have one in common.
    pub(super) fn of(record: &Record<'_>) -> Self {
        if let Some(key) = record.property(name::SHARDING_KEY) {
            return Self::of_key(&key);
        }
        let keys = record.keys();
        let first = keys
            .as_deref()
            .and_then(|keys| keys.split(' ').find(|key| !key.is_empty()));
        Self::of_key(first.unwrap_or_default())
    }

    /// FNV-1a: the same on every machine and in every run, so that recordings replay.
    pub(super) fn of_key(key: &str) -> Self {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let mixed = key
            .bytes()
            .fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
        Self(mixed)
    }
}

/// The lanes of one window. Messages are named by their sequence number there.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    /// The lane of each message of the window; `None` for a record that cannot be read.
    of: VecDeque<Option<Lane>>,
    first_seq: u64,
    /// Unfinished messages, lane by lane.
    unfinished: BTreeSet<(Lane, u64)>,
    /// Messages that could be handed out: each is the first of its lane.
    free: BTreeSet<u64>,
    /// Messages whose lane rests until then. Each is the first of its lane.
    resting: BTreeSet<(Instant, u64)>,
    /// Records that cannot be read and are not settled.
    barriers: BTreeSet<u64>,
}

impl Lanes {
    /// The next message of the window is of this lane, or cannot be read.
    pub(super) fn put(&mut self, lane: Option<Lane>) {
        let seq = self.first_seq + self.of.len() as u64;
        self.of.push_back(lane);
        let Some(lane) = lane else {
            self.barriers.insert(seq);
            return;
        };
        if self.first_of(lane).is_none() {
            self.free.insert(seq);
        }
        self.unfinished.insert((lane, seq));
    }

    /// The lowest message that may go now.
    pub(super) fn next(&self) -> Option<u64> {
        let free = *self.free.first()?;
        let is_passable = self.barriers.first().is_none_or(|barrier| free < *barrier);
        is_passable.then_some(free)
    }

    /// A message is with a handler, or on another way on which it cannot be handed out.
    pub(super) fn busy(&mut self, seq: u64) {
        self.free.remove(&seq);
    }

    /// A message may be handed out again. It had been before, so it is the first of its lane.
    pub(super) fn ready(&mut self, seq: u64) {
        let Some(lane) = self.lane(seq) else { return };
        debug_assert_eq!(self.first_of(lane), Some(seq), "it was handed out");
        if self.first_of(lane) == Some(seq) {
            self.free.insert(seq);
        }
    }

    /// A message is ready and its lane rests until then.
    pub(super) fn rest(&mut self, seq: u64, until: Instant) {
        if self.free.remove(&seq) {
            self.resting.insert((until, seq));
        }
    }

    /// Lanes that have rested long enough go on.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some((_, seq)) = self.resting.first().copied().filter(|(until, _)| *until <= now) {
            self.resting.pop_first();
            self.ready(seq);
        }
    }

    /// Every lane goes on.
    pub(super) fn wake_all(&mut self) {
        self.wake(Instant::from_micros(u64::MAX));
    }

    /// When the next lane has rested long enough.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.resting.first().map(|(until, _)| *until)
    }

    /// Until when the lane of a message rests. For operators: it looks through all that rest.
    pub(super) fn rests_until(&self, seq: u64) -> Option<Instant> {
        let resting = self.resting.iter().find(|(_, resting)| *resting == seq);
        resting.map(|(until, _)| *until)
    }

    /// A message is settled: the next one of its lane is free.
    pub(super) fn finish(&mut self, seq: u64) {
        self.barriers.remove(&seq);
        self.free.remove(&seq);
        let Some(lane) = self.lane(seq) else { return };
        let was_first = self.first_of(lane) == Some(seq);
        self.unfinished.remove(&(lane, seq));
        if let Some(next) = self.first_of(lane).filter(|_| was_first) {
            self.free.insert(next);
        }
    }

    /// Messages below this one have left the window.
    pub(super) fn drop_below(&mut self, first_seq: u64) {
        while self.first_seq < first_seq && self.of.pop_front().is_some() {
            self.first_seq += 1;
        }
    }

    fn lane(&self, seq: u64) -> Option<Lane> {
        let index = usize::try_from(seq.checked_sub(self.first_seq)?).ok()?;
        *self.of.get(index)?
    }

    fn first_of(&self, lane: Lane) -> Option<u64> {
        let mut of_lane = self.unfinished.range((lane, 0)..=(lane, u64::MAX));
        of_lane.next().map(|(_, seq)| *seq)
    }
}

#[cfg(test)]
mod tests;
