use alloc::collections::VecDeque;

use bytes::Bytes;

use super::filter::{TagCode, TagFilter};
use super::read::{Read, ReadLimits, ReadStatus};
use super::{Boundary, View};
use crate::ids::{PhysicalOffset, QueueOffset};
use crate::time::{Instant, WallTime};

/// One record and what is asked of it without opening it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// The record as pull answers carry it.
    pub(super) bytes: Bytes,
    /// Where it begins in the log.
    pub(super) physical: PhysicalOffset,
    /// What filters compare.
    pub(super) tag_code: TagCode,
    /// When it was stored, for slaves that are behind. Never earlier than that of the item before.
    pub(super) at: Instant,
    /// When it was stored by the wall clock, which may have jumped.
    pub(super) store_at: WallTime,
}

/// One consume queue: the records from its minimum on, without gaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    min: i64,
    items: VecDeque<Item>,
}

impl Queue {
    /// The offset of the oldest item; the next offset if there is none.
    pub(super) const fn min(&self) -> QueueOffset {
        QueueOffset(self.min)
    }

    /// The offset behind the last item that is seen.
    pub(super) fn max(&self, view: View) -> QueueOffset {
        QueueOffset(self.min.saturating_add_unsigned(self.seen(view) as u64))
    }

    /// How many items are seen.
    fn seen(&self, view: View) -> usize {
        match view {
            View::Newest => self.items.len(),
            View::AsOf(time) if self.items.back().is_none_or(|last| last.at <= time) => self.items.len(),
            View::AsOf(time) => self.items.partition_point(|item| item.at <= time),
        }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.iter()
    }

    pub(super) fn item(&self, view: View, offset: QueueOffset) -> Option<&Item> {
        let index = usize::try_from(offset.0.checked_sub(self.min)?).ok()?;
        self.items.get(index).filter(|item| match view {
            View::Newest => true,
            View::AsOf(time) => item.at <= time,
        })
    }

    pub(super) fn push(&mut self, item: Item) {
        self.items.push_back(item);
    }

    /// Forgets the items below an offset; returns their bytes.
    pub(super) fn expire(&mut self, min: QueueOffset) -> u64 {
        let drop = usize::try_from(min.0.saturating_sub(self.min)).unwrap_or(0);
        let drop = drop.min(self.items.len());
        self.min = self.min.saturating_add_unsigned(drop as u64);
        self.items.drain(..drop).map(|item| item.bytes.len() as u64).sum()
    }

    /// The bytes of all items.
    pub(super) fn bytes(&self) -> u64 {
        self.items.iter().map(|item| item.bytes.len() as u64).sum()
    }

    /// See [`super::Store::search`]. Like the broker it halves the queue, so where the wall clock jumped
    /// back the result is one of several that could be meant.
    //= rocketmq: ConsumeQueue.binarySearchInQueueByTime
    pub(super) fn search(&self, view: View, time: WallTime, boundary: Boundary) -> QueueOffset {
        let index = match boundary {
            Boundary::Lower => self.items.partition_point(|item| item.store_at < time),
            Boundary::Upper => self
                .items
                .partition_point(|item| item.store_at <= time)
                .saturating_sub(1),
        };
        let seen = match boundary {
            Boundary::Lower => self.seen(view),
            Boundary::Upper => self.seen(view).saturating_sub(1),
        };
        QueueOffset(self.min.saturating_add_unsigned(index.min(seen) as u64))
    }

    /// See [`super::Store::read`]; the tests stand in the broker's order.
    pub(super) fn read(
        &self,
        view: View,
        offset: QueueOffset,
        limits: ReadLimits,
        filter: &TagFilter,
    ) -> Read<'_> {
        let (min, max) = (self.min(), self.max(view));
        let nothing = |status, next| Read {
            min,
            max,
            ..Read::nothing(status, next)
        };
        if max.0 == 0 {
            return nothing(ReadStatus::NoMessageInQueue, QueueOffset(0));
        }
        if offset < min {
            return nothing(ReadStatus::OffsetTooSmall, min);
        }
        if offset == max {
            return nothing(ReadStatus::OffsetOverflowOne, offset);
        }
        if offset > max {
            return nothing(ReadStatus::OffsetOverflowBadly, max);
        }
        let mut read = nothing(ReadStatus::NoMatchedMessage, offset);
        let (from, to) = (self.index(offset), self.index(max));
        for item in self.items.range(from..to).take(limits.scanned()) {
            // The batch is judged full by the next item before anybody asks whether that one is wanted.
            if limits.is_full(read.records.len(), read.bytes, item.bytes.len()) {
                break;
            }
            read.next.0 += 1;
            read.last_physical = Some(item.physical);
            if filter.matches(item.tag_code) {
                read.status = ReadStatus::Found;
                read.bytes += item.bytes.len();
                read.records.push(&item.bytes);
            }
        }
        read
    }

    /// The index of an offset that is known to lie between minimum and maximum.
    fn index(&self, offset: QueueOffset) -> usize {
        usize::try_from(offset.0 - self.min).unwrap_or(0)
    }
}
