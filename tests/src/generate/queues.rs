//! Queues that are to be shared.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::ids::{MessageQueue, QueueId};

use super::dice::pick;
use super::names::{broker_name, topic};

/// Most queues of a generated set.
pub const QUEUES_MAX: usize = 4 * 64;

/// The queues of one topic on up to four brokers, none twice, in no order. Some brokers number theirs
/// with gaps.
pub fn queue_set(u: &mut Unstructured<'_>) -> Result<Vec<MessageQueue>> {
    let topic = topic(u)?;
    let mut queues = BTreeSet::new();
    for _ in 0..u.int_in_range(1..=4_u8)? {
        let broker = broker_name(u)?;
        let count = match u.int_in_range(0..=3_u8)? {
            0 => pick(u, &[4, 8, 16])?,
            1 => pick(u, &[1, 0, 64])?,
            _ => u.int_in_range(0..=64)?,
        };
        let step = pick(u, &[1, 1, 1, 3])?;
        queues.extend((0..count).map(|id| MessageQueue {
            topic: topic.clone(),
            broker: broker.clone(),
            id: QueueId(id * step),
        }));
    }
    let mut queues: Vec<_> = queues.into_iter().collect();
    queues.truncate(QUEUES_MAX);
    shuffle(u, &mut queues)?;
    Ok(queues)
}

/// Puts a list into another order; as it is when the bytes have run out.
pub fn shuffle<T>(u: &mut Unstructured<'_>, list: &mut [T]) -> Result<()> {
    for place in 0..list.len() {
        let other = u.int_in_range(place..=list.len() - 1)?;
        list.swap(place, other);
    }
    Ok(())
}
