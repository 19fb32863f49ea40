//! Pulls that found nothing and wait: for a message, for their time to be over, or for the end of their
//! connection.
//!
//! A hold is looked at when a message arrives in its queue and at every sweep, never on a timer of its
//! own: a pull may be answered a whole sweep interval after its time, as on a real broker.
//= rocketmq: PullRequestHoldService.notifyMessageArriving

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::store::{TagCode, TagFilter};
use crate::ids::{ConnId, QueueId, QueueOffset, Topic};
use crate::time::Instant;

/// A pull that waits, with what its node needs to carry it out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held<T> {
    /// Where the answer goes.
    pub(crate) conn: ConnId,
    /// The topic.
    pub(crate) topic: Topic,
    /// The queue.
    pub(crate) queue: QueueId,
    /// The offset it asked for.
    pub(crate) offset: QueueOffset,
    /// Which messages wake it.
    pub(crate) filter: TagFilter,
    /// When it has waited long enough.
    pub(crate) until: Instant,
    /// The pull.
    pub(crate) pull: T,
}

/// Names one hold; they rise, so that holds of a queue stay in the order they came.
type Number = u64;

/// The held pulls of one broker process.
#[derive(Clone, Debug)]
pub(crate) struct Holds<T> {
    held: BTreeMap<Number, Held<T>>,
    by_queue: BTreeMap<Topic, BTreeMap<QueueId, Vec<Number>>>,
    by_conn: BTreeSet<(ConnId, Number)>,
    next: Number,
    len_max: usize,
}

impl<T> Holds<T> {
    /// No holds, and at most `len_max` at once.
    pub(crate) const fn new(len_max: usize) -> Self {
        Self {
            held: BTreeMap::new(),
            by_queue: BTreeMap::new(),
            by_conn: BTreeSet::new(),
            next: 0,
            len_max,
        }
    }

    /// Holds a pull.
    ///
    /// # Errors
    ///
    /// Gives it back when as many are held as may be.
    pub(crate) fn hold(&mut self, held: Held<T>) -> Result<(), Held<T>> {
        if self.held.len() >= self.len_max {
            return Err(held);
        }
        let number = self.next;
        self.next += 1;
        if !self.by_queue.contains_key(&held.topic) {
            self.by_queue.insert(held.topic.clone(), BTreeMap::new());
        }
        if let Some(queues) = self.by_queue.get_mut(&held.topic) {
            queues.entry(held.queue).or_default().push(number);
        }
        self.by_conn.insert((held.conn, number));
        self.held.insert(number, held);
        Ok(())
    }

    /// A message arrived: takes the pulls of its queue that it wakes, and those whose time is over.
    /// `max` is the queue's end with that message.
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        (topic, queue): (&Topic, QueueId),
        max: QueueOffset,
        tag: TagCode,
    ) -> Vec<Held<T>> {
        self.take_of_queue((topic, queue), |held| {
            (held.offset < max && held.filter.matches(tag)) || held.until <= now
        })
    }

    /// Looks at all holds: takes those whose queue has anything behind their offset, wanted or not, and
    /// those whose time is over.
    pub(crate) fn sweep(
        &mut self,
        now: Instant,
        mut max: impl FnMut(&Topic, QueueId) -> QueueOffset,
    ) -> Vec<Held<T>> {
        let mut due = Vec::new();
        for (topic, queues) in &self.by_queue {
            for (queue, numbers) in queues {
                let max = max(topic, *queue);
                let is_due = |held: &Held<T>| held.offset < max || held.until <= now;
                due.extend(
                    numbers
                        .iter()
                        .filter(|number| self.held.get(number).is_some_and(is_due)),
                );
            }
        }
        due.into_iter().filter_map(|number| self.take(number)).collect()
    }

    /// Takes the pulls of a connection, which nobody waits for any more.
    pub(crate) fn drop_conn(&mut self, conn: ConnId) -> Vec<Held<T>> {
        let of_conn = self.by_conn.range((conn, 0)..=(conn, Number::MAX));
        let numbers: Vec<Number> = of_conn.map(|(_, number)| *number).collect();
        numbers
            .into_iter()
            .filter_map(|number| self.take(number))
            .collect()
    }

    /// How many are held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn take_of_queue(
        &mut self,
        (topic, queue): (&Topic, QueueId),
        is_due: impl Fn(&Held<T>) -> bool,
    ) -> Vec<Held<T>> {
        let Some(numbers) = self.by_queue.get(topic).and_then(|queues| queues.get(&queue)) else {
            return Vec::new();
        };
        let due = numbers
            .iter()
            .filter(|number| self.held.get(number).is_some_and(&is_due));
        let due: Vec<Number> = due.copied().collect();
        due.into_iter().filter_map(|number| self.take(number)).collect()
    }

    fn take(&mut self, number: Number) -> Option<Held<T>> {
        let held = self.held.remove(&number)?;
        self.by_conn.remove(&(held.conn, number));
        if let Some(queues) = self.by_queue.get_mut(&held.topic) {
            if let Some(numbers) = queues.get_mut(&held.queue) {
                numbers.retain(|other| *other != number);
                if numbers.is_empty() {
                    queues.remove(&held.queue);
                }
            }
            if queues.is_empty() {
                self.by_queue.remove(&held.topic);
            }
        }
        Some(held)
    }
}
