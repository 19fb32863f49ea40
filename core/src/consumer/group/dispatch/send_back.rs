//! Failed messages on their way back to the broker.
//!
//! ```text
//!  asked ──acknowledged──► settled
//!    │ refused, lost: asked again after a pause, a few times
//!    ▼
//!  waiting ──local_retry──► delivered again here
//! ```
//!
//! Until one of the two ends is reached the message holds the queue's offset.
//= rocketmq: ConsumeMessageConcurrentlyService.sendMessageBack type=differs
//  reason: asynchronous, with retries of its own before the message is delivered again locally.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ids::{PhysicalOffset, QueueKey, Topic};
use crate::wire::request::send_back::Delay;

/// What a message to be sent back needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendBack {
    pub(crate) queue: QueueKey,
    pub(crate) seq: u64,
    pub(crate) physical_offset: PhysicalOffset,
    /// What of the message the request tells for information, unless it could not be read.
    pub(crate) about: Option<(String, Topic)>,
    pub(crate) delay: Delay,
    /// How often it was refused.
    failures: u32,
    waiting: bool,
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    AskAgainIn(Duration),
    DeliverAgainIn(Duration),
}

/// What a timer of a send back means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    AskAgain(SendBack),
    DeliverAgain(SendBack),
}

#[derive(Clone, Debug)]
pub(crate) struct SendBacks {
    table: BTreeMap<u64, SendBack>,
    next: u64,
    retries: u32,
    local_retry: Duration,
}

impl SendBacks {
    pub(crate) const fn new(retries: u32, local_retry: Duration) -> Self {
        Self {
            table: BTreeMap::new(),
            next: 0,
            retries,
            local_retry,
        }
    }

    pub(crate) fn start(
        &mut self,
        queue: QueueKey,
        seq: u64,
        physical_offset: PhysicalOffset,
        about: Option<(String, Topic)>,
        delay: Delay,
    ) -> u64 {
        let id = self.next;
        self.next += 1;
        let back = SendBack {
            queue,
            seq,
            physical_offset,
            about,
            delay,
            failures: 0,
            waiting: false,
        };
        self.table.insert(id, back);
        id
    }

    pub(crate) fn get(&self, id: u64) -> Option<&SendBack> {
        self.table.get(&id)
    }

    /// The broker has it: this one is over.
    pub(crate) fn acknowledged(&mut self, id: u64) -> Option<SendBack> {
        self.table.remove(&id)
    }

    pub(crate) fn failed(&mut self, id: u64) -> Option<AfterFailure> {
        let back = self.table.get_mut(&id)?;
        back.failures += 1;
        if back.failures <= self.retries {
            return Some(AfterFailure::AskAgainIn(Duration::from_secs(
                1 << (back.failures - 1).min(5),
            )));
        }
        back.waiting = true;
        Some(AfterFailure::DeliverAgainIn(self.local_retry))
    }

    /// A pause has ended.
    pub(crate) fn due(&mut self, id: u64) -> Option<Due> {
        let back = self.table.get(&id)?;
        if back.waiting {
            return self.table.remove(&id).map(Due::DeliverAgain);
        }
        Some(Due::AskAgain(back.clone()))
    }

    /// Forgets those of a queue that has left; returns their numbers.
    pub(crate) fn forget(&mut self, queue: QueueKey) -> Vec<u64> {
        let gone: Vec<u64> = self
            .table
            .iter()
            .filter(|(_, back)| back.queue == queue)
            .map(|(id, _)| *id)
            .collect();
        for id in &gone {
            self.table.remove(id);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_a_few_times_and_then_delivered_again_here() {
        let mut backs = SendBacks::new(2, Duration::from_secs(5));
        let queue = QueueKey {
            slot: 0,
            generation: 1,
        };
        let id = backs.start(queue, 7, PhysicalOffset(99), None, Delay::Broker);
        assert_eq!(
            backs.failed(id),
            Some(AfterFailure::AskAgainIn(Duration::from_secs(1)))
        );
        assert!(matches!(backs.due(id), Some(Due::AskAgain(back)) if back.seq == 7));
        assert_eq!(
            backs.failed(id),
            Some(AfterFailure::AskAgainIn(Duration::from_secs(2)))
        );
        assert_eq!(
            backs.failed(id),
            Some(AfterFailure::DeliverAgainIn(Duration::from_secs(5)))
        );
        assert!(matches!(backs.due(id), Some(Due::DeliverAgain(back)) if back.seq == 7));
        assert_eq!(
            (backs.due(id), backs.failed(id), backs.acknowledged(id)),
            (None, None, None)
        );
    }

    #[test]
    fn those_of_a_queue_that_left_are_forgotten() {
        let mut backs = SendBacks::new(2, Duration::from_secs(5));
        let (gone, stays) = (
            QueueKey {
                slot: 0,
                generation: 1,
            },
            QueueKey {
                slot: 0,
                generation: 2,
            },
        );
        let first = backs.start(gone, 1, PhysicalOffset(1), None, Delay::Broker);
        let second = backs.start(stays, 1, PhysicalOffset(2), None, Delay::Level(3));
        assert_eq!(backs.forget(gone), [first]);
        assert_eq!(
            (
                backs.acknowledged(first),
                backs.acknowledged(second).map(|b| b.delay)
            ),
            (None, Some(Delay::Level(3)))
        );
    }
}
