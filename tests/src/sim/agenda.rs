use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use rocketmq_consumer_core::ids::{AllocateId, ConsumeId};
use rocketmq_consumer_core::time::Instant;

use super::network::{LinkNo, Way};
use super::seen::{Life, MemberId};

/// Something that is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A lane of a link brings its next parcel.
    Arrive(LinkNo, Way),
    /// Handlers of a run end.
    Handled(MemberId, Life, ConsumeId),
    /// A handler asks for more time.
    Extend {
        member: MemberId,
        life: Life,
        run: ConsumeId,
        position: u32,
        by: Duration,
    },
    /// The application has computed its share of a topic.
    Share(MemberId, Life, AllocateId),
    /// A disk is done with a question of that number.
    Stored(MemberId, Life, u64),
    /// A process that was stopped goes on.
    GoOn(MemberId, Life),
    /// An entry of the script falls due; whoever runs the world knows what it is.
    Script(u32),
}

/// What is going to happen, by time; at the same time, in the order it was put in.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Item>>,
    seq: u64,
}

#[derive(Debug)]
struct Item {
    at: Instant,
    seq: u64,
    due: Due,
}

impl Agenda {
    pub(crate) fn put(&mut self, at: Instant, due: Due) {
        self.seq += 1;
        self.heap.push(Reverse(Item {
            at,
            seq: self.seq,
            due,
        }));
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|item| item.0.at)
    }

    pub(crate) fn pop(&mut self) -> Option<Due> {
        self.heap.pop().map(|item| item.0.due)
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.seq).cmp(&(other.at, other.seq))
    }
}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Item {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_first_and_at_the_same_time_as_put() {
        let mut agenda = Agenda::default();
        for (at, script) in [(20, 0), (10, 1), (20, 2), (10, 3)] {
            agenda.put(Instant::from_millis(at), Due::Script(script));
        }
        assert_eq!(agenda.next_at(), Some(Instant::from_millis(10)));
        let order: Vec<Due> = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(order, [1, 3, 0, 2].map(Due::Script));
    }
}
