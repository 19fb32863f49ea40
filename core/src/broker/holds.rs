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
    by_queue: BTreeMap<Topic, BTreeMap<QueueId, BTreeSet<Number>>>,
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
            queues.entry(held.queue).or_default().insert(number);
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
                numbers.remove(&number);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    const fn conn(slot: u32) -> ConnId {
        ConnId { slot, generation: 1 }
    }

    /// A hold of queue 0 of topic T for messages with tag `a`.
    fn held(number: u32, offset: i64, until: u64) -> Held<u32> {
        Held {
            conn: conn(0),
            topic: "T".into(),
            queue: QueueId(0),
            offset: QueueOffset(offset),
            filter: TagFilter::Codes([code("a").0 as i32].into_iter().collect()),
            until: ms(until),
            pull: number,
        }
    }

    fn code(tag: &str) -> TagCode {
        TagCode::of(Some(tag))
    }

    fn holds(held: impl IntoIterator<Item = Held<u32>>) -> Holds<u32> {
        let mut holds = Holds::new(100);
        for held in held {
            holds.hold(held).expect("there is room");
        }
        holds
    }

    fn numbers(held: Vec<Held<u32>>) -> Vec<u32> {
        held.into_iter().map(|held| held.pull).collect()
    }

    #[test]
    fn an_arrival_wakes_what_it_matches_and_what_has_waited_long_enough() {
        for (now, queue, max, tag, woken) in [
            (0, 0, 6, "a", [1].as_slice()),
            (0, 0, 6, "b", &[]),
            (0, 0, 5, "a", &[]),
            (0, 0, 8, "a", &[1, 2]),
            (10, 0, 6, "b", &[1]),
            (9, 0, 6, "b", &[]),
            (0, 1, 9, "a", &[]),
            (20, 0, 0, "b", &[1, 2]),
        ] {
            let mut holds = holds([held(1, 5, 10), held(2, 7, 20)]);
            let topic = "T".into();
            let taken = holds.arrived(ms(now), (&topic, QueueId(queue)), QueueOffset(max), code(tag));
            assert_eq!(numbers(taken), woken, "{now} {queue} {max} {tag}");
            assert_eq!(holds.len(), 2 - woken.len());
        }
    }

    #[test]
    fn a_sweep_wakes_by_offset_alone_and_looks_at_every_queue_once() {
        let mut other = held(3, 2, 99);
        other.queue = QueueId(1);
        let mut holds = holds([held(1, 5, 10), held(2, 7, 20), other]);
        let mut asked = Vec::new();
        let taken = holds.sweep(ms(0), |topic, queue| {
            asked.push((topic.clone(), queue.0));
            QueueOffset(if queue.0 == 0 { 6 } else { 2 })
        });
        assert_eq!(numbers(taken), [1]);
        assert_eq!(asked, [("T".into(), 0), ("T".into(), 1)]);
        assert!(holds.sweep(ms(19), |_, _| QueueOffset(0)).is_empty());
        assert_eq!(numbers(holds.sweep(ms(20), |_, _| QueueOffset(0))), [2]);
        assert_eq!(numbers(holds.sweep(ms(99), |_, _| QueueOffset(0))), [3]);
        assert!(holds.is_empty() && holds.by_queue.is_empty() && holds.by_conn.is_empty());
    }

    #[test]
    fn a_connection_takes_its_holds_with_it() {
        let mut other = held(2, 5, 10);
        other.conn = conn(1);
        let mut holds = holds([held(1, 5, 10), other, held(3, 6, 10)]);
        assert_eq!(numbers(holds.drop_conn(conn(0))), [1, 3]);
        assert!(holds.drop_conn(conn(0)).is_empty());
        assert_eq!(holds.len(), 1);
        assert_eq!(numbers(holds.drop_conn(conn(1))), [2]);
        assert!(holds.is_empty());
    }

    #[test]
    fn holds_have_a_limit() {
        let mut holds = Holds::new(2);
        assert_eq!(holds.hold(held(1, 0, 1)), Ok(()));
        assert_eq!(holds.hold(held(2, 0, 2)), Ok(()));
        assert_eq!(holds.hold(held(3, 0, 3)), Err(held(3, 0, 3)));
        assert_eq!(numbers(holds.sweep(ms(1), |_, _| QueueOffset(0))), [1]);
        assert_eq!(holds.hold(held(3, 0, 3)), Ok(()));
    }

    proptest! {
        #[test]
        fn holds_are_what_a_list_of_them_would_be(
            steps in prop::collection::vec((0..8_u8, 0..3_u32, 0..3_i32, 0..6_i64, any::<bool>()), 1..60),
        ) {
            let mut holds = Holds::new(8);
            let mut list: Vec<Held<u32>> = Vec::new();
            let topic: Topic = "T".into();
            for (now, (step, who, queue, offset, matches)) in (0_u32..).zip(steps) {
                let at = ms(u64::from(now));
                let taken = match step {
                    0 => {
                        let max = |queue: QueueId| QueueOffset(offset + i64::from(queue.0));
                        let due = |held: &Held<u32>| held.offset < max(held.queue) || held.until <= at;
                        let want = split(&mut list, due);
                        let taken = holds.sweep(at, |_, queue| max(queue));
                        (taken, want)
                    }
                    1 => (holds.drop_conn(conn(who)), split(&mut list, |held| held.conn == conn(who))),
                    2 | 3 => {
                        let due = |held: &Held<u32>| {
                            held.queue.0 == queue && ((held.offset.0 < offset && matches) || held.until <= at)
                        };
                        let want = split(&mut list, due);
                        let tag = code(if matches { "a" } else { "b" });
                        (holds.arrived(at, (&topic, QueueId(queue)), QueueOffset(offset), tag), want)
                    }
                    _ => {
                        let mut held = held(now, offset, u64::from(now) + 7);
                        (held.conn, held.queue) = (conn(who), QueueId(queue));
                        let fits = list.len() < 8;
                        prop_assert_eq!(holds.hold(held.clone()).is_ok(), fits);
                        list.extend(fits.then_some(held));
                        (Vec::new(), Vec::new())
                    }
                };
                let sorted = |held| {
                    let mut numbers = numbers(held);
                    numbers.sort_unstable();
                    numbers
                };
                prop_assert_eq!(sorted(taken.0), sorted(taken.1));
                prop_assert_eq!((holds.len(), holds.by_conn.len()), (list.len(), list.len()));
                let indexed = holds.by_queue.values().flat_map(BTreeMap::values).map(BTreeSet::len).sum::<usize>();
                prop_assert_eq!(indexed, list.len());
            }
        }
    }

    /// Takes from the list what is due.
    fn split(list: &mut Vec<Held<u32>>, due: impl Fn(&Held<u32>) -> bool) -> Vec<Held<u32>> {
        let (taken, kept) = core::mem::take(list).into_iter().partition(due);
        *list = kept;
        taken
    }
}
