//! What the window says of itself. Nothing here changes it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Window;
use super::slot::{Slot, SlotState};
use crate::ids::QueueOffset;
use crate::message::Batch;
use crate::time::Instant;

/// What becomes of the messages below one when a queue is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    /// They are settled, or on their way to it.
    Settled,
    /// Handlers may still finish them in time.
    MayFinish,
    /// One of them is left to the next owner, and all above it with it.
    Stays,
}

impl Window {
    pub(crate) fn state(&self, seq: u64) -> Option<SlotState> {
        Some(self.slots[self.index(seq)?].state)
    }

    pub(crate) fn offset(&self, seq: u64) -> Option<QueueOffset> {
        Some(self.slots[self.index(seq)?].offset)
    }

    /// The batch and position behind a slot, while its batch is held.
    pub(crate) fn message(&self, seq: u64) -> Option<(&Arc<Batch>, u32)> {
        let chunk = &self.chunks[self.chunk_of(seq)?];
        let position = chunk.first_position + u32::try_from(seq - chunk.first_seq).ok()?;
        Some((chunk.batch.as_ref()?, position))
    }

    /// Messages whose delivery is due for cancelling or dropping at `now`.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<u64> {
        (self.first_seq..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.due_at().is_some_and(|at| at <= now))
            .map(|(seq, _)| seq)
            .collect()
    }

    /// When the next delivery is due, looked up only when a timer fired or none is armed.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.slots.iter().filter_map(Slot::due_at).min()
    }

    /// The value to commit: everything below is settled.
    pub(crate) fn lowest_unfinished(&self) -> QueueOffset {
        self.slots.front().map_or(self.next_offset, |slot| slot.offset)
    }

    pub(crate) const fn next_offset(&self) -> QueueOffset {
        self.next_offset
    }

    pub(crate) const fn unfinished(&self) -> u32 {
        self.unfinished
    }

    /// Body bytes as stored of the unfinished messages.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of batch buffers held.
    pub(crate) const fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    /// Highest fetched offset minus lowest unfinished one.
    pub(crate) fn span(&self) -> u64 {
        if self.slots.is_empty() {
            return 0;
        }
        let span = self.highest.0.saturating_sub(self.lowest_unfinished().0);
        u64::try_from(span).unwrap_or(0)
    }

    /// What the lowest unfinished message is doing.
    pub(crate) fn front(&self) -> Option<SlotState> {
        self.slots.front().map(|slot| slot.state)
    }

    /// What lies below a message.
    pub(crate) fn below(&self, seq: u64) -> Below {
        let index = self.index(seq).unwrap_or(0);
        let mut below = Below::Settled;
        for slot in self.slots.iter().take(index) {
            match slot.state {
                SlotState::Ready | SlotState::Held => return Below::Stays,
                SlotState::Out { .. } | SlotState::Cancelled { .. } | SlotState::Abandoned => {
                    below = Below::MayFinish;
                }
                SlotState::Failing | SlotState::Done => {}
            }
        }
        below
    }

    /// Whether a message lies behind one that waits for a delivery and must not be overtaken.
    pub(crate) fn is_behind_ready(&self, seq: u64) -> bool {
        // Of one key only the first unfinished message is ever handed out.
        !self.is_by_key() && seq > self.first_seq && self.front() == Some(SlotState::Ready)
    }

    /// How often the lowest unfinished message was delivered again here.
    pub(crate) fn front_attempt(&self) -> u32 {
        self.slots.front().map_or(0, |slot| slot.attempt)
    }

    /// How often a message was delivered again here.
    pub(crate) fn attempt(&self, seq: u64) -> u32 {
        self.index(seq).map_or(0, |index| self.slots[index].attempt)
    }

    /// The lowest message that cannot be read and is not to be passed.
    pub(crate) fn held(&self) -> Option<QueueOffset> {
        let held = |slot: &&Slot| slot.state == SlotState::Held;
        self.slots.iter().find(held).map(|slot| slot.offset)
    }

    /// The first and the last message that is not finished.
    pub(crate) fn cached(&self) -> Option<(QueueOffset, QueueOffset)> {
        self.ends(|slot| slot.state != SlotState::Done)
    }

    /// The first and the last message with a handler.
    pub(crate) fn handed(&self) -> Option<(QueueOffset, QueueOffset)> {
        self.ends(|slot| slot.due_at().is_some())
    }

    fn ends(&self, is_meant: impl Fn(&Slot) -> bool) -> Option<(QueueOffset, QueueOffset)> {
        let first = self.slots.iter().find(|slot| is_meant(slot))?;
        let last = self.slots.iter().rfind(|slot| is_meant(slot))?;
        Some((first.offset, last.offset))
    }

    /// Messages with a handler.
    pub(crate) fn out(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_out()).count()
    }

    /// Messages whose handler failed and whose fate is open.
    pub(crate) fn failing(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| slot.state == SlotState::Failing)
            .count()
    }

    /// Messages whose token was cancelled and whose handler has not ended.
    pub(crate) fn past_deadline(&self) -> u32 {
        let cancelled =
            |slot: &&Slot| matches!(slot.state, SlotState::Cancelled { .. } | SlotState::Abandoned);
        u32::try_from(self.slots.iter().filter(cancelled).count()).unwrap_or(u32::MAX)
    }
}
