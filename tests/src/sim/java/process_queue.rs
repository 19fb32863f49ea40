use std::collections::BTreeMap;

use rocketmq_consumer_core::ids::{MessageQueue, QueueOffset};
use rocketmq_consumer_core::message::Message;
use rocketmq_consumer_core::time::Instant;

/// `pullThresholdForQueue`, `pullThresholdSizeForQueue` in whole MiB, `consumeConcurrentlyMaxSpan`.
const COUNT: usize = 1_000;
const MIB: u64 = 100;
const SPAN: i64 = 2_000;

/// One ownership of one queue: the cache, the one pull that goes round, and the entry of the offset table,
/// which lives and dies with it.
//= rocketmq: ProcessQueue, PullRequest
#[derive(Debug)]
pub(super) struct ProcessQueue {
    pub(super) name: MessageQueue,
    pub(super) epoch: u64,
    pub(super) next: QueueOffset,
    pub(super) suggested: i64,
    pub(super) last_pull: Instant,
    /// When its pull fires, if it waits in the timer.
    pub(super) timer: Option<Instant>,
    /// Offsets to body bytes.
    cached: BTreeMap<i64, u32>,
    bytes: u64,
    highest: i64,
    entry: Option<QueueOffset>,
    /// Given back, but still in the table: nothing is done for it any more, and it is in the way of its successor.
    pub(super) dropped: bool,
    /// Given back, and gone as soon as its listener lets go in time.
    pub(super) removing: bool,
    /// What an orderly member knows of its lock, and what it has not given to a listener.
    pub(super) lock: Lock,
    pub(super) backlog: BTreeMap<i64, (Message, u32)>,
    /// Whether a listener has something of it, or will look for something.
    pub(super) consuming: bool,
}

/// What an orderly member knows of a queue's lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    pub(super) held: bool,
    /// When its answer came.
    pub(super) since: Instant,
    /// Whether the position was asked for since it was locked.
    pub(super) checked: bool,
}

impl ProcessQueue {
    pub(super) const fn new(name: MessageQueue, epoch: u64, next: QueueOffset, now: Instant) -> Self {
        Self {
            name,
            epoch,
            next,
            suggested: 0,
            last_pull: now,
            timer: None,
            cached: BTreeMap::new(),
            bytes: 0,
            highest: 0,
            entry: None,
            dropped: false,
            removing: false,
            lock: Lock {
                held: true,
                since: now,
                checked: false,
            },
            backlog: BTreeMap::new(),
            consuming: false,
        }
    }

    pub(super) fn put(&mut self, offset: QueueOffset, bytes: u32) {
        if self.cached.insert(offset.0, bytes).is_none() {
            self.bytes += u64::from(bytes);
            self.highest = offset.0;
        }
    }

    /// A message is finished, or taken back by the broker; the offset table rises to the lowest that is not.
    pub(super) fn finish(&mut self, offset: QueueOffset) {
        if let Some(bytes) = self.cached.remove(&offset.0) {
            self.bytes -= u64::from(bytes);
            let lowest = self.cached.keys().next().copied().unwrap_or(self.highest + 1);
            self.raise(QueueOffset(lowest));
        }
    }

    /// The message a listener had is done, and everything before it was.
    pub(super) fn commit(&mut self, offset: QueueOffset) {
        if let Some(bytes) = self.cached.remove(&offset.0) {
            self.bytes -= u64::from(bytes);
        }
        self.entry = Some(QueueOffset(offset.0 + 1));
    }

    /// The position the offset table has, never lowered.
    pub(super) fn raise(&mut self, offset: QueueOffset) {
        self.entry = self.entry.max(Some(offset));
    }

    /// The broker says where the queue goes on, lower or higher.
    pub(super) const fn correct(&mut self, offset: QueueOffset) {
        self.entry = Some(offset);
    }

    pub(super) const fn entry(&self) -> Option<QueueOffset> {
        self.entry
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cached.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.cached.len()
    }

    /// Whether flow control holds the next pull: *above* a limit, so one more batch fits at the limit.
    pub(super) fn is_full(&self) -> bool {
        let span = match (self.cached.keys().next(), self.cached.keys().next_back()) {
            (Some(first), Some(last)) => last - first,
            _ => 0,
        };
        self.cached.len() > COUNT || self.bytes >> 20 > MIB || span > SPAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> ProcessQueue {
        let name = MessageQueue {
            topic: "T".into(),
            broker: "b".into(),
            id: rocketmq_consumer_core::ids::QueueId(0),
        };
        ProcessQueue::new(name, 1, QueueOffset(0), Instant::ZERO)
    }

    #[test]
    fn what_is_committed_is_the_lowest_unfinished_offset() {
        let mut queue = queue();
        for offset in 10..13 {
            queue.put(QueueOffset(offset), 1);
        }
        for (finished, entry) in [(11, 10), (10, 12), (10, 12), (12, 13)] {
            queue.finish(QueueOffset(finished));
            assert_eq!(queue.entry(), Some(QueueOffset(entry)), "after {finished}");
        }
    }

    #[test]
    fn limits_hold_only_what_exceeds_them() {
        let mut queue = queue();
        for offset in 0..1_000 {
            queue.put(QueueOffset(offset), 1);
        }
        assert!(!queue.is_full(), "at the count");
        queue.put(QueueOffset(1_000), 1);
        assert!(queue.is_full(), "above the count");
        let mut queue = self::queue();
        queue.put(QueueOffset(0), 1);
        queue.put(QueueOffset(2_000), 1);
        assert!(!queue.is_full(), "at the span");
        queue.put(QueueOffset(2_001), 101 << 20);
        assert!(queue.is_full(), "above the span");
        queue.finish(QueueOffset(0));
        assert!(queue.is_full(), "101 MiB");
    }
}
