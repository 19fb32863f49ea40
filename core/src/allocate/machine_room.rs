//! Queues of brokers in certain rooms only. The name of a broker says where it stands: `room@broker`.
//= rocketmq: AllocateMessageQueueByMachineRoom.allocate

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::ids::MessageQueue;

/// The room in a broker's name; `None` when the name has not exactly two parts. Like Java's `split`,
/// which forgets empty parts at the end: `room@broker@` has two, `room@` one.
pub(super) fn room_of(broker: &str) -> Option<&str> {
    let (room, rest) = broker.trim_end_matches('@').split_once('@')?;
    (!rest.contains('@')).then_some(room)
}

/// The queues that are shared at all: those of brokers in these rooms, in their order.
pub(super) fn eligible<'a>(
    queues: &'a [MessageQueue],
    rooms: &BTreeSet<Box<str>>,
) -> impl Iterator<Item = &'a MessageQueue> {
    queues
        .iter()
        .filter(move |queue| room_of(queue.broker.as_str()).is_some_and(|room| rooms.contains(room)))
}

/// The share of one of `members` places: a block, all as long, and one of what is left over behind the
/// blocks.
pub(super) fn share(eligible: &[&MessageQueue], members: usize, position: usize) -> Vec<MessageQueue> {
    let Some(each) = eligible.len().checked_div(members).filter(|_| position < members) else {
        return Vec::new();
    };
    let block = eligible.iter().skip(position * each).take(each);
    let left_over = eligible.get(each * members + position);
    block.chain(left_over).map(|queue| (*queue).clone()).collect()
}
