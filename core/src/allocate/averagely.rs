use crate::ids::MessageQueue;

/// The neighbouring queues that fall to one of `members` places. The first `queues % members` places
/// get one more than the others; with fewer queues than places the last ones get nothing.
pub(super) fn share(queues: &[MessageQueue], members: usize, position: usize) -> &[MessageQueue] {
    let Some(each) = queues.len().checked_div(members).filter(|_| position < members) else {
        return &[];
    };
    let one_more = queues.len() % members;
    // Places in front of this one that got one more, and whether this one does.
    let before = position.min(one_more);
    let len = each + usize::from(position < one_more);
    let start = position * each + before;
    &queues[start..start + len]
}
