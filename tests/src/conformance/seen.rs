use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use rocketmq_consumer::Message;

use super::cluster::number;
use super::sync::lock;

/// What handlers have seen: a clone is the same list.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    /// How often each number came.
    times: BTreeMap<u64, u32>,
    /// What was answered for of each queue: those of the topic itself, not of retries.
    offsets: BTreeMap<i32, BTreeSet<i64>>,
}

impl Seen {
    /// Notes a message; call it when the handler is done with it.
    pub(super) fn note(&self, message: &Message) {
        let body = message.body().unwrap_or_default();
        let number = number(&body).expect("nobody else sends to this topic");
        *lock(&self.0).times.entry(number).or_default() += 1;
        self.answer(message);
    }

    /// Notes that a handler is done with this delivery, whatever it says of the message.
    pub(super) fn answer(&self, message: &Message) {
        if message.reconsume_times() == 0 {
            let mut list = lock(&self.0);
            let offsets = list.offsets.entry(message.queue_id().0).or_default();
            offsets.insert(message.queue_offset().0);
        }
    }

    /// How often a number was seen.
    pub(super) fn times(&self, number: u64) -> u32 {
        lock(&self.0).times.get(&number).copied().unwrap_or_default()
    }

    /// How many messages were seen, each as often as it came.
    pub(super) fn calls(&self) -> u64 {
        lock(&self.0).times.values().copied().map(u64::from).sum()
    }

    /// Those that have not been seen.
    pub(super) fn missing(&self, of: Range<u64>) -> Vec<u64> {
        let list = lock(&self.0);
        of.filter(|number| !list.times.contains_key(number)).collect()
    }

    /// The first offset of a queue, from 0 on, that no handler was done with.
    pub(super) fn lowest_unanswered(&self, queue: i32) -> i64 {
        let list = lock(&self.0);
        let Some(offsets) = list.offsets.get(&queue) else {
            return 0;
        };
        (0..).zip(offsets).find(|(at, offset)| at != *offset).map_or_else(
            || i64::try_from(offsets.len()).expect("messages are few"),
            |(at, _)| at,
        )
    }
}
