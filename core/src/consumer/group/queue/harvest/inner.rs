//! Inner batches: one record, many messages.
//!
//! A pull from the middle of a batch brings all of it; what lies below the asked offset was seen before. What
//! is more than one answer may bring is left for the next pull, which begins in the middle then. A batch that
//! cannot be opened, or not to its end, is one unreadable record at the first place nobody could see.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

use super::{Row, Rows, Unreadable, UnreadableReason};
use crate::config::GroupConfig;
use crate::ids::QueueOffset;
use crate::wire::body::{BodyLimits, CrcPolicy};
use crate::wire::stored::{Entry, InnerBatch, InnerMessage, Record};

/// What opening the inner batches of one answer may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    body: BodyLimits,
    crc: CrcPolicy,
    messages_max: u32,
    bytes_max: u64,
}

impl Limits {
    pub(crate) fn new(config: &GroupConfig) -> Self {
        Self {
            body: BodyLimits {
                decompressed_max: usize::try_from(config.body_bytes_max).unwrap_or(usize::MAX),
            },
            crc: if config.crc_reject {
                CrcPolicy::Reject
            } else {
                CrcPolicy::Report
            },
            messages_max: config.inner_batch_messages_max,
            bytes_max: config.inner_batch_bytes_max,
        }
    }
}

/// Opens the inner batches of one answer.
pub(super) struct Opener<'a> {
    answer: &'a Bytes,
    limits: Limits,
    /// A record for each message taken; it begins where the answer ends.
    unwrapped: Vec<u8>,
    taken: u32,
    /// Bytes that were decompressed for it, whatever came of them.
    opened: u64,
    /// Whether that brought something that will not be asked for again.
    has_brought: bool,
}

impl<'a> Opener<'a> {
    pub(super) const fn new(answer: &'a Bytes, limits: Limits) -> Self {
        Self {
            answer,
            limits,
            unwrapped: Vec::new(),
            taken: 0,
            opened: 0,
            has_brought: false,
        }
    }

    pub(super) fn open(&mut self, entry: Entry, rows: &mut Rows) {
        let first = entry.queue_offset();
        if self.is_spent() {
            return rows.cut_at(first);
        }
        let opened = InnerBatch::open(self.answer, entry, self.limits.body, self.limits.crc);
        if Record::new(self.answer, entry).sys_flag().compression().is_some() {
            // One that fails has cost up to the limit.
            let cost = opened
                .as_ref()
                .map_or(self.limits.body.decompressed_max, InnerBatch::len);
            self.opened = self.opened.saturating_add(cost as u64);
        }
        let batch = match opened {
            Ok(batch) => batch,
            Err(error) => return self.give_up(entry, first, UnreadableReason::InnerBatch(error), rows),
        };
        let mut next = first;
        for message in batch.messages() {
            match message {
                Ok(message) => {
                    next = QueueOffset(message.queue_offset().0.saturating_add(1));
                    if message.queue_offset() < rows.asked() {
                        continue;
                    }
                    if self.is_full() {
                        return rows.cut_at(message.queue_offset());
                    }
                    self.take(message, rows);
                }
                Err(error) => return self.give_up(entry, next, UnreadableReason::InnerMessage(error), rows),
            }
        }
        if first < rows.asked() && next <= rows.asked() {
            rows.lies_outside(first);
        }
    }

    fn take(&mut self, message: InnerMessage<'_>, rows: &mut Rows) {
        match message.append_to(&mut self.unwrapped, self.answer.len()) {
            Ok(entry) => {
                self.taken += 1;
                self.has_brought = true;
                rows.take(Row::Inner(entry));
            }
            // Positions count to 4 GiB; no limit lets a buffer grow so far.
            Err(_) => rows.cut_at(message.queue_offset()),
        }
    }

    /// Whether this answer has brought, or cost, as much as it may. It always brings one message.
    const fn is_full(&self) -> bool {
        self.taken >= self.limits.messages_max || self.unwrapped.len() as u64 >= self.limits.bytes_max
    }

    /// Whether no further batch may be opened. A few bytes become many, also where nothing comes of them: that
    /// must not keep the machine for as long as an answer of such batches would.
    const fn is_spent(&self) -> bool {
        self.is_full() || self.has_brought && self.opened >= self.limits.bytes_max
    }

    /// Nothing from `at` to the end of the batch can be read. Below what was asked it stands there: the broker
    /// has sent the batch for what it holds from there on.
    fn give_up(&mut self, entry: Entry, at: QueueOffset, reason: UnreadableReason, rows: &mut Rows) {
        self.has_brought = true;
        rows.take(Row::Bad(Box::new(Unreadable {
            offset: at.max(rows.asked()),
            physical_offset: Record::new(self.answer, entry).physical_offset(),
            reason,
            record: self.answer.slice(entry.range()),
        })));
    }

    pub(super) fn finish(self) -> Bytes {
        self.unwrapped.into()
    }
}
