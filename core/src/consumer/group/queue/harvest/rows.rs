use alloc::boxed::Box;

use smallvec::SmallVec;

use super::Unreadable;
use crate::ids::QueueOffset;
use crate::wire::stored::Entry;

/// What was found at one place of the queue.
pub(super) enum Row {
    /// A record of the answer.
    Good(Entry),
    /// A message of an inner batch, with a record of its own behind the answer.
    Inner(Entry),
    /// Rare and large, so that the others are small to move.
    Bad(Box<Unreadable>),
}

impl Row {
    pub(super) const fn offset(&self) -> QueueOffset {
        match self {
            Self::Good(entry) | Self::Inner(entry) => entry.queue_offset(),
            Self::Bad(bad) => bad.offset,
        }
    }
}

/// Everything found within the range that was asked and promised.
pub(super) struct Rows {
    asked: QueueOffset,
    next: QueueOffset,
    rows: SmallVec<[Row; 32]>,
    outside: Option<QueueOffset>,
    in_order: bool,
    last: Option<QueueOffset>,
    /// Where the range ends early, because inner batches hold more than one answer may bring.
    cut: Option<QueueOffset>,
}

impl Rows {
    pub(super) fn new(asked: QueueOffset, next: QueueOffset) -> Self {
        Self {
            asked,
            next,
            rows: SmallVec::new(),
            outside: None,
            in_order: true,
            last: None,
            cut: None,
        }
    }

    pub(super) fn take(&mut self, row: Row) {
        let offset = row.offset();
        if offset < self.asked || offset >= self.next {
            return self.lies_outside(offset);
        }
        self.in_order &= self.last.is_none_or(|last| last < offset);
        self.last = Some(offset);
        self.rows.push(row);
    }

    pub(super) fn lies_outside(&mut self, offset: QueueOffset) {
        self.outside.get_or_insert(offset);
    }

    /// What lies at `offset` or behind it is for another pull.
    pub(super) fn cut_at(&mut self, offset: QueueOffset) {
        let cut = self.cut.map_or(offset, |cut| cut.min(offset));
        self.cut = Some(cut.max(self.asked));
    }

    pub(super) const fn asked(&self) -> QueueOffset {
        self.asked
    }

    /// The first offset outside of what was asked.
    pub(super) const fn outside(&self) -> Option<QueueOffset> {
        self.outside
    }

    /// Puts the rows in order, one for each offset, and returns where the range ends.
    pub(super) fn sort(&mut self) -> QueueOffset {
        if !self.in_order {
            self.rows.sort_by_key(Row::offset);
            self.rows.dedup_by_key(|row| row.offset());
        }
        match self.cut.filter(|&cut| cut < self.next) {
            Some(cut) => {
                self.rows.retain(|row| row.offset() < cut);
                cut
            }
            None => self.next,
        }
    }

    /// Behind the last row.
    pub(super) fn end(&self) -> QueueOffset {
        self.rows
            .last()
            .map_or(self.asked, |row| QueueOffset(row.offset().0 + 1))
    }

    pub(super) fn into_rows(self) -> SmallVec<[Row; 32]> {
        self.rows
    }
}
