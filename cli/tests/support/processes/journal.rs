//! Who was given what, in the order the test heard of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::clock::now;

/// A queue of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Queue {
    /// The topic as stored, so a retried message's is the group's retry topic.
    pub(crate) topic: String,
    /// The broker's name.
    pub(crate) broker: String,
    /// Its number there.
    pub(crate) id: u32,
}

/// A message in the hands of a member.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// The member's client id.
    pub(crate) member: Arc<str>,
    /// Where it was stored.
    pub(crate) queue: Queue,
    /// Its offset there.
    pub(crate) offset: i64,
    /// The number its body begins with, which no other message of the test has.
    pub(crate) number: u64,
    /// When the test heard of it.
    pub(crate) at: Instant,
}

/// All deliveries of a test, by whichever member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    deliveries: Vec<Delivery>,
    numbers: BTreeSet<u64>,
}

impl Journal {
    /// Adds a delivery. The number is what stands before the colon in `body`.
    ///
    /// # Panics
    /// When there is no such number.
    pub(crate) fn add(&self, member: &Arc<str>, queue: Queue, offset: i64, body: &str) {
        let number = body.split(':').next().and_then(|number| number.parse().ok());
        let number = number.unwrap_or_else(|| panic!("a body without number: {body:?}"));
        let mut entries = self.lock();
        entries.numbers.insert(number);
        entries.deliveries.push(Delivery {
            member: Arc::clone(member),
            queue,
            offset,
            number,
            // Under the lock, so that times rise from entry to entry.
            at: now(),
        });
    }

    /// How many deliveries there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().deliveries.len()
    }

    /// How many different messages were delivered.
    pub(crate) fn distinct(&self) -> usize {
        self.lock().numbers.len()
    }

    /// Those of `wanted` that nobody was given.
    pub(crate) fn missing(&self, wanted: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let entries = self.lock();
        let is_missing = |number: &u64| !entries.numbers.contains(number);
        wanted.into_iter().filter(is_missing).collect()
    }

    /// All deliveries.
    pub(crate) fn all(&self) -> Vec<Delivery> {
        self.lock().deliveries.clone()
    }

    /// Deliveries from `since` on.
    pub(crate) fn since(&self, since: Instant) -> Vec<Delivery> {
        let entries = self.lock();
        let first = entries.deliveries.partition_point(|one| one.at < since);
        entries.deliveries.iter().skip(first).cloned().collect()
    }

    /// The queues of which `member` was given something from `since` on.
    pub(crate) fn queues_of(&self, member: &str, since: Instant) -> BTreeSet<Queue> {
        let entries = self.lock();
        let recent = entries.deliveries.iter().rev();
        recent
            .take_while(|one| one.at >= since)
            .filter(|one| &*one.member == member)
            .map(|one| one.queue.clone())
            .collect()
    }

    /// The deliveries of each message that was delivered more than once, in their order.
    pub(crate) fn repeated(&self) -> BTreeMap<u64, Vec<Delivery>> {
        let mut by_number = BTreeMap::<u64, Vec<Delivery>>::new();
        for one in &self.lock().deliveries {
            by_number.entry(one.number).or_default().push(one.clone());
        }
        by_number.retain(|_, deliveries| deliveries.len() > 1);
        by_number
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
