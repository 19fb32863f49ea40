//! Where queues were left that are not ours now.
//!
//! What a broker has stored is the group's word and wins over what this process remembers, with two exceptions in
//! which nobody but us can know better:
//!
//! | stored | we remember | begins at |
//! |---|---|---|
//! | nothing | where we left | where we left: a broker that crashes forgets the commits of its last seconds |
//! | less than we finished, and the queue was away from everybody meanwhile | where we left | where we left: the broker came back with older offsets |
//! | less than we finished | where we left | what is stored: another member may have been told to go back |
//! | anything else | | what is stored |
//!
//! Everything below where we left was finished by this process, so no message is lost by it; and an operator's
//! reset that waits at the broker is told with the first pull, wherever that begins.

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::ids::{MessageQueue, QueueOffset, Topic};
use crate::time::{Instant, WallTime};

/// What is remembered of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Everything below was finished.
    pub(super) finished: QueueOffset,
    /// What the broker has stored from then on is new to us.
    pub(super) new_since: Option<WallTime>,
    /// Whether it was lost because the route did not name it any more: nobody could own it.
    pub(super) missing: bool,
    /// When the route named it again.
    pub(super) back_at: Option<Instant>,
}

/// By queue.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftQueues(BTreeMap<MessageQueue, Left>);

impl LeftQueues {
    pub(super) fn leave(&mut self, queue: MessageQueue, left: Left) {
        self.0.insert(queue, left);
    }

    /// The last handlers of a queue that was given back have finished this much.
    pub(super) fn finished(&mut self, queue: &MessageQueue, finished: QueueOffset) {
        if let Some(left) = self.0.get_mut(queue) {
            left.finished = left.finished.max(finished);
        }
    }

    /// It is ours again, or it does not matter any more.
    pub(super) fn take(&mut self, queue: &MessageQueue) -> Option<Left> {
        self.0.remove(queue)
    }

    /// Nobody here will read the topic again, as far as is known.
    pub(super) fn forget(&mut self, topic: &Topic) {
        self.0.retain(|queue, _| &queue.topic != topic);
    }

    /// The route of a topic names these queues now, in order.
    pub(super) fn routed(&mut self, topic: &Topic, queues: &[MessageQueue], now: Instant) {
        let of_topic = self.0.iter_mut().filter(|(queue, _)| &queue.topic == topic);
        for (_, left) in of_topic.filter(|(queue, _)| queues.binary_search(queue).is_ok()) {
            left.back_at.get_or_insert(now);
        }
    }

    /// Where a queue begins of which `stored` is stored, and whether that is our own word. A member that gets it
    /// within `first` after it came back is the first one to have it.
    pub(super) fn begin(
        &self,
        queue: &MessageQueue,
        stored: Option<QueueOffset>,
        now: Instant,
        first: Duration,
    ) -> Option<Beginning> {
        let Some(left) = self.0.get(queue) else {
            return stored.map(Beginning::Stored);
        };
        let Some(stored) = stored else {
            return Some(Beginning::Left(left.finished));
        };
        let is_first = left.missing && left.back_at.is_none_or(|at| now.saturating_since(at) <= first);
        Some(match (stored < left.finished, is_first) {
            (false, _) => Beginning::Stored(stored),
            (true, true) => Beginning::Left(left.finished),
            (true, false) => Beginning::FellBack {
                stored,
                finished: left.finished,
            },
        })
    }
}

/// Where a queue begins that has a beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Where the broker says.
    Stored(QueueOffset),
    /// Where we left it: the broker has forgotten.
    Left(QueueOffset),
    /// Where the broker says, although we had come further.
    FellBack {
        stored: QueueOffset,
        finished: QueueOffset,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::QueueId;

    const FIRST: Duration = Duration::from_secs(40);

    fn queue(id: i32) -> MessageQueue {
        MessageQueue {
            topic: "T".into(),
            broker: "a".into(),
            id: QueueId(id),
        }
    }

    fn left_at(finished: i64, missing: bool) -> LeftQueues {
        let mut queues = LeftQueues::default();
        let left = Left {
            finished: QueueOffset(finished),
            new_since: None,
            missing,
            back_at: None,
        };
        queues.leave(queue(0), left);
        queues
    }

    #[test]
    fn what_is_stored_wins_unless_the_broker_alone_can_have_forgotten() {
        use Beginning as B;
        const fn at(offset: i64) -> QueueOffset {
            QueueOffset(offset)
        }
        // What is stored, whether the queue was missing, seconds since it came back, and where it begins.
        for (stored, missing, back_for, want) in [
            (Some(60), false, None, B::Stored(at(60))),
            (Some(60), true, Some(1), B::Stored(at(60))),
            (Some(50), true, Some(1), B::Stored(at(50))),
            (Some(0), true, Some(1), B::Left(at(50))),
            (Some(0), true, Some(40), B::Left(at(50))),
            (Some(0), true, None, B::Left(at(50))),
            (
                Some(0),
                true,
                Some(41),
                B::FellBack {
                    stored: at(0),
                    finished: at(50),
                },
            ),
            (
                Some(49),
                false,
                None,
                B::FellBack {
                    stored: at(49),
                    finished: at(50),
                },
            ),
            (None, false, None, B::Left(at(50))),
            (None, true, Some(99), B::Left(at(50))),
        ] {
            let mut queues = left_at(50, missing);
            let now = Instant::from_millis(100_000);
            if let Some(secs) = back_for {
                let back = Instant::from_millis(100_000 - secs * 1000);
                queues.routed(&"T".into(), &[queue(0)], back);
                queues.routed(&"T".into(), &[queue(0)], now);
            }
            let begins = queues.begin(&queue(0), stored.map(QueueOffset), now, FIRST);
            assert_eq!(begins, Some(want), "{stored:?} {missing} {back_for:?}");
        }
    }

    #[test]
    fn a_queue_that_was_never_ours_begins_where_it_is_stored_or_has_no_beginning() {
        let queues = left_at(50, true);
        let begin = |stored| queues.begin(&queue(1), stored, Instant::ZERO, FIRST);
        assert_eq!(
            begin(Some(QueueOffset(3))),
            Some(Beginning::Stored(QueueOffset(3)))
        );
        assert_eq!(begin(None), None);
    }

    #[test]
    fn last_handlers_raise_it_and_nothing_lowers_it() {
        let mut queues = left_at(50, false);
        queues.finished(&queue(0), QueueOffset(53));
        queues.finished(&queue(0), QueueOffset(51));
        queues.finished(&queue(1), QueueOffset(99));
        assert_eq!(
            queues.take(&queue(0)).map(|left| left.finished),
            Some(QueueOffset(53))
        );
        assert_eq!((queues.take(&queue(0)), queues.take(&queue(1))), (None, None));
    }
}
