use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::ids::{MessageQueue, QueueOffset};

/// The books of the play: every order, by its number.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The order that was stored at each place.
    stored: BTreeMap<(MessageQueue, QueueOffset), u64>,
    /// How often each was handled to the end.
    handled: BTreeMap<u64, u32>,
    /// Orders whose handler failed.
    failed: BTreeSet<u64>,
    /// Those of them that came again.
    came_back: BTreeSet<u64>,
}

/// What the books say in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Balance {
    /// Orders that were stored.
    pub(super) sent: usize,
    /// Orders that were handled at least once.
    pub(super) handled: usize,
    /// Orders that were handled more than once.
    pub(super) repeated: usize,
    /// Orders whose handler failed.
    pub(super) failed: usize,
    /// Those of them that came again.
    pub(super) came_back: usize,
    /// Orders that were stored and never handled.
    pub(super) lost: usize,
}

impl Ledger {
    /// The broker has acknowledged an order.
    pub(super) fn stored(&mut self, queue: MessageQueue, offset: QueueOffset, number: u64) {
        self.stored.insert((queue, offset), number);
    }

    /// The order that lies at a place.
    pub(super) fn at(&self, queue: &MessageQueue, offset: QueueOffset) -> Option<u64> {
        self.stored.get(&(queue.clone(), offset)).copied()
    }

    /// An order was handled; says how often it was before.
    pub(super) fn handled(&mut self, number: u64, is_retry: bool) -> u32 {
        if is_retry {
            self.came_back.insert(number);
        }
        let times = self.handled.entry(number).or_default();
        *times += 1;
        *times - 1
    }

    /// Whether this is the first time that an order's handler fails.
    pub(super) fn fails(&mut self, number: u64) -> bool {
        self.failed.insert(number)
    }

    /// Whether every order that was stored so far is handled, and what failed has come again.
    pub(super) fn is_settled(&self) -> bool {
        self.balance().lost == 0 && self.failed == self.came_back
    }

    /// The balance.
    pub(super) fn balance(&self) -> Balance {
        let stored: BTreeSet<u64> = self.stored.values().copied().collect();
        Balance {
            sent: stored.len(),
            handled: self.handled.len(),
            repeated: self.handled.values().filter(|times| **times > 1).count(),
            failed: self.failed.len(),
            came_back: self.came_back.len(),
            lost: stored
                .iter()
                .filter(|number| !self.handled.contains_key(number))
                .count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::queue;

    #[test]
    fn an_order_that_nobody_handled_is_lost() {
        let mut ledger = Ledger::default();
        for number in 0..3 {
            ledger.stored(queue(), QueueOffset(i64::try_from(number).unwrap()), number);
        }
        assert_eq!(ledger.at(&queue(), QueueOffset(2)), Some(2));
        assert_eq!((ledger.handled(0, false), ledger.handled(0, false)), (0, 1));
        assert!(ledger.fails(1) && !ledger.fails(1));
        assert_eq!(ledger.handled(2, false), 0);
        assert!(!ledger.is_settled());
        ledger.handled(1, true);
        assert!(ledger.is_settled());
        let want = Balance {
            sent: 3,
            handled: 3,
            repeated: 1,
            failed: 1,
            came_back: 1,
            lost: 0,
        };
        assert_eq!(ledger.balance(), want);
    }
}
