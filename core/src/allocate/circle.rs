use alloc::vec::Vec;

use crate::ids::MessageQueue;

/// Every `members`-th queue, from the one that has the number of the place.
pub(super) fn share(queues: &[MessageQueue], members: usize, position: usize) -> Vec<MessageQueue> {
    if position >= members {
        return Vec::new();
    }
    queues.iter().skip(position).step_by(members).cloned().collect()
}
