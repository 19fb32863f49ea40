//! The offsets that a group keeps itself, because it broadcasts, and their way into the store.
//!
//! ```text
//!  put ──► Waiting ──► Saving ──stored──► Idle
//!             ▲           │ failed: a pause that doubles, or the way out
//!             └───────────┘
//! ```
//!
//! One save is out at a time, and it carries the whole table: a queue that is not ours now keeps its position, for
//! when the route names it again and for the next process. The broker is told nothing, so what stands here is what
//! the next ownership begins with, whether it is stored already or not.
//= rocketmq: LocalFileOffsetStore.persistAll type=differs
//  reason: what a queue was left at is never forgotten; a save is acknowledged, and tried again.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use crate::action::{Former, StoreAction};
use crate::ids::{MessageQueue, QueueKey, QueueOffset, StoreKey};
use crate::status::StoreStatus;
use crate::wire::kept_offsets::{self, KeptOffsets};

/// Pause after the first failed save; it doubles.
const RETRY: Duration = Duration::from_secs(1);

/// Longest pause.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What the progress of one ownership has become.
type Put = (QueueKey, QueueOffset);

/// The last of each queue: there are as many as queues, however long nothing can be stored.
type Puts = BTreeMap<MessageQueue, Put>;

/// What was loaded when the group began.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) key: Box<StoreKey>,
    pub(crate) place: Box<str>,
    pub(crate) offsets: KeptOffsets,
    /// What becomes of what is stored when it is replaced the first time.
    pub(crate) former: Former,
}

#[derive(Clone, Debug)]
pub(super) struct Shelf {
    kept: Kept,
    /// Not on their way yet.
    waiting: Puts,
    saving: Option<(u64, Puts)>,
    failures: u32,
    /// Whether the pause after a failure is not over yet.
    rests: bool,
    trouble: Option<Box<str>>,
}

/// How a save went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// It was not asked for, or is answered already.
    Stale,
    /// These are safe.
    Safe(Vec<Put>),
    /// Nothing is; it may be tried again after this pause.
    Failed(Duration),
}

impl Shelf {
    pub(super) const fn new(kept: Kept) -> Self {
        Self {
            kept,
            waiting: Puts::new(),
            saving: None,
            failures: 0,
            rests: false,
            trouble: None,
        }
    }

    /// Where a queue goes on, if it has ever been ours.
    pub(super) fn position(&self, queue: &MessageQueue) -> Option<QueueOffset> {
        self.kept.offsets.get(queue).copied()
    }

    pub(super) fn place(&self) -> &str {
        &self.kept.place
    }

    /// An ownership has come to `offset`. True when nothing has waited to be stored.
    pub(super) fn put(&mut self, key: QueueKey, queue: MessageQueue, offset: QueueOffset) -> bool {
        let is_first = self.waiting.is_empty();
        self.kept.offsets.insert(queue.clone(), offset);
        self.waiting.insert(queue, (key, offset));
        is_first
    }

    /// Whether everything is stored.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.saving.is_none()
    }

    /// Whether a save has failed and waits for its pause.
    pub(super) const fn is_resting(&self) -> bool {
        self.rests
    }

    /// The pause is over.
    pub(super) const fn end_rest(&mut self) {
        self.rests = false;
    }

    /// What is to be stored, if something is and nothing is on its way. `seq` names it.
    pub(super) fn save(&mut self, seq: u64) -> Option<StoreAction> {
        if self.waiting.is_empty() || self.saving.is_some() || self.rests {
            return None;
        }
        self.saving = Some((seq, mem::take(&mut self.waiting)));
        Some(StoreAction::Save {
            key: self.kept.key.clone(),
            seq,
            bytes: kept_offsets::write(&self.kept.offsets),
            former: self.kept.former,
        })
    }

    /// The store has answered.
    pub(super) fn saved(&mut self, seq: u64, error: Option<Box<str>>) -> Saved {
        let Some((_, carried)) = self.saving.take_if(|(of, _)| *of == seq) else {
            return Saved::Stale;
        };
        let Some(error) = error else {
            self.kept.former = Former::Backup;
            (self.failures, self.trouble) = (0, None);
            return Saved::Safe(carried.into_values().collect());
        };
        for (queue, put) in carried {
            self.waiting.entry(queue).or_insert(put);
        }
        self.trouble = Some(error);
        self.rests = true;
        let doublings = self.failures.min(16);
        self.failures = self.failures.saturating_add(1);
        Saved::Failed(RETRY.saturating_mul(1 << doublings).min(RETRY_MAX))
    }

    pub(super) fn status(&self) -> StoreStatus {
        StoreStatus {
            place: String::from(&*self.kept.place),
            behind: !self.is_idle(),
            failures: self.failures,
            trouble: self.trouble.as_deref().map(String::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::ids::{QueueId, StoreKind};

    const KEY: QueueKey = QueueKey {
        slot: 0,
        generation: 1,
    };

    fn queue(id: i32) -> MessageQueue {
        MessageQueue {
            topic: "T".into(),
            broker: "a".into(),
            id: QueueId(id),
        }
    }

    fn shelf(former: Former) -> Shelf {
        Shelf::new(Kept {
            key: Box::new(StoreKey {
                group: "g".into(),
                instance: "i".into(),
                kind: StoreKind::Offsets,
            }),
            place: "/somewhere".into(),
            offsets: KeptOffsets::from([(queue(0), QueueOffset(3)), (queue(9), QueueOffset(4))]),
            former,
        })
    }

    /// The table a save carries, and what becomes of what was there before.
    fn content(action: Option<StoreAction>) -> Option<(u64, KeptOffsets, Former)> {
        match action? {
            StoreAction::Save {
                seq, bytes, former, ..
            } => Some((
                seq,
                kept_offsets::read(&bytes).expect("it was just written"),
                former,
            )),
            StoreAction::Load { .. } => panic!("loaded again"),
        }
    }

    #[test]
    fn a_save_carries_the_whole_table_and_one_is_out_at_a_time() {
        let mut shelf = shelf(Former::Backup);
        assert_eq!((shelf.save(1), shelf.is_idle()), (None, true));
        shelf.put(KEY, queue(0), QueueOffset(5));
        let table = |first| KeptOffsets::from([(queue(0), QueueOffset(first)), (queue(9), QueueOffset(4))]);
        assert_eq!(content(shelf.save(2)), Some((2, table(5), Former::Backup)));
        shelf.put(KEY, queue(0), QueueOffset(6));
        assert_eq!((shelf.save(3), shelf.is_idle()), (None, false));
        assert_eq!(shelf.saved(2, None), Saved::Safe(vec![(KEY, QueueOffset(5))]));
        assert!(!shelf.is_idle());
        assert_eq!(content(shelf.save(4)), Some((4, table(6), Former::Backup)));
        assert_eq!(shelf.saved(4, None), Saved::Safe(vec![(KEY, QueueOffset(6))]));
        assert!(shelf.is_idle());
    }

    #[test]
    fn an_answer_to_another_save_changes_nothing() {
        let mut shelf = shelf(Former::Backup);
        assert_eq!(shelf.saved(0, None), Saved::Stale);
        shelf.put(KEY, queue(0), QueueOffset(5));
        shelf.save(2);
        assert_eq!(shelf.saved(1, Some("no".into())), Saved::Stale);
        assert_eq!(shelf.status().failures, 0);
        assert_eq!(shelf.saved(2, None), Saved::Safe(vec![(KEY, QueueOffset(5))]));
        assert_eq!(shelf.saved(2, None), Saved::Stale, "twice");
    }

    #[test]
    fn a_failed_save_is_tried_again_with_pauses_that_double_and_nothing_is_lost() {
        let mut shelf = shelf(Former::Aside);
        shelf.put(KEY, queue(0), QueueOffset(5));
        for (seq, pause) in (1..).zip([1, 2, 4, 8, 16, 30, 30]) {
            assert!(shelf.save(seq).is_some());
            let failed = shelf.saved(seq, Some("disk full".into()));
            assert_eq!(failed, Saved::Failed(Duration::from_secs(pause)));
            assert!(
                shelf.is_resting() && shelf.save(99).is_none(),
                "not before its pause is over"
            );
            shelf.end_rest();
        }
        let status = shelf.status();
        assert_eq!(
            (status.failures, status.behind, status.trouble.as_deref()),
            (7, true, Some("disk full"))
        );
        shelf.put(KEY, queue(0), QueueOffset(6));
        // What could not be read is still there: nothing has replaced it yet.
        assert_eq!(
            content(shelf.save(8)).map(|(_, _, former)| former),
            Some(Former::Aside)
        );
        assert_eq!(shelf.saved(8, None), Saved::Safe(vec![(KEY, QueueOffset(6))]));
        assert_eq!((shelf.status().failures, shelf.is_resting()), (0, false));
        shelf.put(KEY, queue(0), QueueOffset(7));
        assert_eq!(
            content(shelf.save(9)).map(|(_, _, former)| former),
            Some(Former::Backup)
        );
    }

    #[test]
    fn what_waits_does_not_grow_with_time() {
        let mut shelf = shelf(Former::Backup);
        let later = |generation| QueueKey { slot: 0, generation };
        for seq in 1..100 {
            shelf.put(later(2 * seq), queue(0), QueueOffset(5));
            assert!(shelf.save(seq.into()).is_some());
            shelf.put(later(2 * seq + 1), queue(0), QueueOffset(6));
            assert!(matches!(
                shelf.saved(seq.into(), Some("disk full".into())),
                Saved::Failed(_)
            ));
            shelf.end_rest();
        }
        assert!(shelf.save(100).is_some());
        let newest = vec![(later(199), QueueOffset(6))];
        assert_eq!(
            shelf.saved(100, None),
            Saved::Safe(newest),
            "and what is older waits for nothing"
        );
        assert!(shelf.is_idle());
    }

    #[test]
    fn a_position_is_what_was_put_last_stored_or_not() {
        let mut shelf = shelf(Former::Backup);
        let at = |shelf: &Shelf, id| shelf.position(&queue(id)).map(|offset| offset.0);
        assert_eq!((at(&shelf, 0), at(&shelf, 1)), (Some(3), None));
        shelf.put(KEY, queue(0), QueueOffset(8));
        assert_eq!(at(&shelf, 0), Some(8));
        // A reset, or a correction of an offset that is not there.
        shelf.put(KEY, queue(0), QueueOffset(2));
        assert_eq!(at(&shelf, 0), Some(2));
    }
}
