//! The process queue: what was fetched from one message queue and is not finished.
//!
//! Offsets of one queue arrive sorted, so a ring does what Java needs a tree for: putting and
//! finishing a message are O(1), and the lowest unfinished offset is the front of the ring. A slot is
//! found by its sequence number, which counts the messages put since the queue was acquired.
//!
//! It decides nothing: it counts, and knows which message is in which state.
//!
//! ```text
//!  Ready ──take_run──► Out ──finish──► Done (leaves when it reaches the front)
//!    ▲                  │ ├─ deadline ─► Cancelled ─ grace ─► Failing
//!    └── ready_again ───┴─┴─ failed ──► Failing (being sent back, or waiting) ──finish──► Done
//! ```
//= rocketmq: ProcessQueue.putMessage, ProcessQueue.removeMessage type=differs
//  reason: counts what was recorded at insertion (never re-reads a body), takes the highest offset and
//  not the last, and measures the span over everything fetched and unfinished.

mod lanes;
mod reading;
mod slot;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;

use crate::event::RunRange;
use crate::ids::QueueOffset;
use crate::message::Batch;
use crate::time::Instant;

use lanes::{Lane, Lanes};
pub(crate) use reading::Below;
use slot::Slot;
pub(crate) use slot::SlotState;

/// A run of neighbouring slots that came with one batch.
#[derive(Clone, Debug)]
struct Chunk {
    first_seq: u64,
    len: u32,
    first_position: u32,
    unfinished: u32,
    /// `None` for a record that cannot be delivered, and once everything in it is settled.
    batch: Option<Arc<Batch>>,
    buffer_bytes: u64,
}

/// Messages to hand to the application.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) batch: Arc<Batch>,
    pub(crate) range: RunRange,
    pub(crate) first_seq: u64,
    pub(crate) attempt: u32,
}

/// What the window gave free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Freed {
    /// Whether a message was settled that was not before.
    pub(crate) settled: bool,
    /// Bytes of batch buffers that are no longer held.
    pub(crate) buffer_bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Window {
    slots: VecDeque<Slot>,
    first_seq: u64,
    chunks: VecDeque<Chunk>,
    /// The first slot that was never handed out.
    fresh_seq: u64,
    /// Slots that are ready again after a delivery.
    again: BTreeSet<u64>,
    /// Who may go where messages of one key keep their order; then `fresh_seq` and `again` decide nothing.
    lanes: Option<Box<Lanes>>,
    /// Where the fetched range ends: the next offset to fetch.
    next_offset: QueueOffset,
    highest: QueueOffset,
    unfinished: u32,
    bytes: u64,
    buffer_bytes: u64,
}

impl Window {
    pub(crate) const fn new(start: QueueOffset) -> Self {
        Self {
            slots: VecDeque::new(),
            first_seq: 0,
            chunks: VecDeque::new(),
            fresh_seq: 0,
            again: BTreeSet::new(),
            lanes: None,
            next_offset: start,
            highest: start,
            unfinished: 0,
            bytes: 0,
            buffer_bytes: 0,
        }
    }

    /// A window that keeps the order of messages of one key, and hands them out one by one.
    pub(crate) fn by_key(start: QueueOffset) -> Self {
        Self {
            lanes: Some(Box::default()),
            ..Self::new(start)
        }
    }

    /// Puts neighbouring messages of a batch, from `first_position` on, given as offset and body bytes
    /// in ascending order.
    pub(crate) fn put(
        &mut self,
        batch: &Arc<Batch>,
        first_position: u32,
        messages: impl Iterator<Item = (QueueOffset, u32)>,
        buffer_bytes: u64,
    ) {
        let first_seq = self.end_seq();
        for (offset, bytes) in messages {
            self.push(offset, bytes, SlotState::Ready);
        }
        let len = u32::try_from(self.end_seq() - first_seq).expect("a batch holds fewer than 2^32 messages");
        if let Some(lanes) = &mut self.lanes {
            for position in first_position..first_position + len {
                lanes.put(batch.record(position).map(|record| Lane::of(&record)));
            }
        }
        if len > 0 {
            let batch = Some(Arc::clone(batch));
            self.chunks.push_back(Chunk {
                first_seq,
                len,
                first_position,
                unfinished: len,
                batch,
                buffer_bytes,
            });
            self.buffer_bytes += buffer_bytes;
        }
    }

    /// Puts a record that cannot be delivered and returns its sequence number.
    pub(crate) fn put_unreadable(&mut self, offset: QueueOffset, bytes: u32, state: SlotState) -> u64 {
        let first_seq = self.end_seq();
        self.push(offset, bytes, state);
        if let Some(lanes) = &mut self.lanes {
            lanes.put(None);
        }
        self.chunks.push_back(Chunk {
            first_seq,
            len: 1,
            first_position: 0,
            unfinished: 1,
            batch: None,
            buffer_bytes: 0,
        });
        first_seq
    }

    fn push(&mut self, offset: QueueOffset, bytes: u32, state: SlotState) {
        self.slots.push_back(Slot {
            offset,
            bytes,
            attempt: 0,
            state,
        });
        self.highest = self.highest.max(offset);
        self.unfinished += 1;
        self.bytes += u64::from(bytes);
    }

    /// The fetched range now ends before `next`.
    pub(crate) fn advance_to(&mut self, next: QueueOffset) {
        debug_assert!(
            next >= self.next_offset,
            "the fetched range of one epoch only grows"
        );
        self.next_offset = self.next_offset.max(next);
    }

    /// Hands out at most `most` neighbouring messages of one batch; a single one where the order is that of keys.
    pub(crate) fn take_run(&mut self, most: u32, deadline: Instant) -> Option<Run> {
        let first_seq = self.next_ready()?;
        let index = self.index(first_seq)?;
        let attempt = self.slots[index].attempt;
        let chunk_index = self.chunk_of(first_seq)?;
        let chunk = &self.chunks[chunk_index];
        let batch = Arc::clone(chunk.batch.as_ref()?);
        let in_chunk =
            u32::try_from(first_seq - chunk.first_seq).expect("a position in a batch is below its length");
        let start = chunk.first_position + in_chunk;
        let most = if self.lanes.is_some() { 1 } else { most };
        let left = (chunk.len - in_chunk).min(most.max(1)) as usize;
        let mut taken = 0;
        for slot in self.slots.iter_mut().skip(index).take(left) {
            if slot.state != SlotState::Ready || slot.attempt != attempt {
                break;
            }
            slot.state = SlotState::Out { deadline };
            taken += 1;
        }
        for seq in first_seq..first_seq + u64::from(taken) {
            self.again.remove(&seq);
            if let Some(lanes) = &mut self.lanes {
                lanes.busy(seq);
            }
        }
        self.fresh_seq = self.fresh_seq.max(first_seq + u64::from(taken));
        Some(Run {
            batch,
            range: RunRange {
                start,
                end: start + taken,
            },
            first_seq,
            attempt,
        })
    }

    /// Whether a run could be taken.
    pub(crate) fn has_ready(&mut self) -> bool {
        self.next_ready().is_some()
    }

    fn next_ready(&mut self) -> Option<u64> {
        if let Some(lanes) = &self.lanes {
            return lanes.next();
        }
        if let Some(seq) = self.again.first() {
            return Some(*seq);
        }
        // Records that cannot be delivered are stepped over once and never looked at again.
        while let Some(index) = self.index(self.fresh_seq) {
            if self.slots[index].state == SlotState::Ready {
                return Some(self.fresh_seq);
            }
            self.fresh_seq += 1;
        }
        None
    }

    /// Moves a slot that is not settled to another state.
    pub(crate) fn set_state(&mut self, seq: u64, state: SlotState) {
        if let Some(index) = self.index(seq)
            && self.slots[index].state != SlotState::Done
        {
            self.slots[index].state = state;
            if let Some(lanes) = &mut self.lanes {
                lanes.busy(seq);
            }
        }
    }

    /// The message may be delivered again; `counted` when that is one more attempt.
    pub(crate) fn ready_again(&mut self, seq: u64, counted: bool) {
        if let Some(index) = self.index(seq)
            && self.slots[index].state != SlotState::Done
        {
            self.slots[index].state = SlotState::Ready;
            self.slots[index].attempt += u32::from(counted);
            match &mut self.lanes {
                Some(lanes) => lanes.ready(seq),
                None => {
                    self.again.insert(seq);
                }
            }
        }
    }

    /// Settles a message. Settling twice changes nothing.
    pub(crate) fn finish(&mut self, seq: u64) -> Freed {
        let Some(index) = self.index(seq) else {
            return Freed::default();
        };
        let slot = &mut self.slots[index];
        if slot.state == SlotState::Done {
            return Freed::default();
        }
        slot.state = SlotState::Done;
        self.unfinished -= 1;
        self.bytes -= u64::from(slot.bytes);
        self.again.remove(&seq);
        if let Some(lanes) = &mut self.lanes {
            lanes.finish(seq);
        }
        let mut freed = Freed {
            settled: true,
            buffer_bytes: 0,
        };
        if let Some(chunk_index) = self.chunk_of(seq) {
            let chunk = &mut self.chunks[chunk_index];
            chunk.unfinished -= 1;
            if chunk.unfinished == 0 {
                chunk.batch = None;
                freed.buffer_bytes = core::mem::take(&mut chunk.buffer_bytes);
                self.buffer_bytes -= freed.buffer_bytes;
            }
        }
        self.drop_settled_front();
        freed
    }

    fn drop_settled_front(&mut self) {
        while self
            .slots
            .front()
            .is_some_and(|slot| slot.state == SlotState::Done)
        {
            self.slots.pop_front();
            self.first_seq += 1;
        }
        while self
            .chunks
            .front()
            .is_some_and(|c| c.first_seq + u64::from(c.len) <= self.first_seq)
        {
            self.chunks.pop_front();
        }
        self.fresh_seq = self.fresh_seq.max(self.first_seq);
        if let Some(lanes) = &mut self.lanes {
            lanes.drop_below(self.first_seq);
        }
    }

    // ---- in order ---------------------------------------------------------------------------------

    /// Whether the order is that of keys.
    pub(crate) const fn is_by_key(&self) -> bool {
        self.lanes.is_some()
    }

    /// Whether a message may go without overtaking one that it must not. Where the order is that of the queue, nothing
    /// else may be out.
    pub(crate) fn has_next_in_order(&self) -> bool {
        match &self.lanes {
            Some(lanes) => lanes.next().is_some(),
            None => self.front() == Some(SlotState::Ready),
        }
    }

    /// A message is ready again; it and what follows it in its key are not handed out before then.
    pub(crate) fn rest(&mut self, seq: u64, until: Instant) {
        if let Some(lanes) = &mut self.lanes {
            lanes.rest(seq, until);
        }
    }

    /// Keys that have rested until now go on. Returns when the next one does.
    pub(crate) fn wake(&mut self, now: Instant) -> Option<Instant> {
        let lanes = self.lanes.as_mut()?;
        lanes.wake(now);
        lanes.next_wake()
    }

    /// All keys go on.
    pub(crate) fn wake_all(&mut self) {
        if let Some(lanes) = &mut self.lanes {
            lanes.wake_all();
        }
    }

    /// Until when the key of the lowest unfinished message rests.
    pub(crate) fn front_rests_until(&self) -> Option<Instant> {
        self.lanes.as_ref()?.rests_until(self.first_seq)
    }

    /// Messages with a handler are due by then.
    pub(crate) fn shorten(&mut self, latest: Instant) {
        for slot in &mut self.slots {
            if let SlotState::Out { deadline } = &mut slot.state {
                *deadline = latest.min(*deadline);
            }
        }
    }

    fn end_seq(&self) -> u64 {
        self.first_seq + self.slots.len() as u64
    }

    fn index(&self, seq: u64) -> Option<usize> {
        let index = usize::try_from(seq.checked_sub(self.first_seq)?).ok()?;
        (index < self.slots.len()).then_some(index)
    }

    fn chunk_of(&self, seq: u64) -> Option<usize> {
        let behind = self.chunks.partition_point(|chunk| chunk.first_seq <= seq);
        let index = behind.checked_sub(1)?;
        (seq < self.chunks[index].first_seq + u64::from(self.chunks[index].len)).then_some(index)
    }
}

#[cfg(test)]
mod tests;
