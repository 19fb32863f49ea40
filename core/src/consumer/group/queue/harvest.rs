//! From the body of a pull answer to what the window takes.
//!
//! One pass over the records: what lies outside of what was asked is left out, what the tags do not
//! want is left out, the rest is put in order. A record that cannot be read does not take its
//! neighbours along.
//= rocketmq: PullAPIWrapper.processPullResult type=differs
//  reason: the record size is trusted within the frame, so one bad record costs one message and not the
//  rest of the answer; offsets below the asked one are dropped.

use alloc::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::ids::{MessageQueue, PhysicalOffset, QueueOffset};
use crate::message::Batch;
use crate::wire::stored::{BrokenReason, Entry, Record, Scanned, Scanner, UndecodableReason};
use crate::wire::subscription::Subscription;

/// What a pull asked for and what came back.
pub(crate) struct Answer {
    pub(crate) asked: QueueOffset,
    pub(crate) next: QueueOffset,
    pub(crate) min: QueueOffset,
    pub(crate) max: QueueOffset,
    pub(crate) body: Bytes,
}

/// What the window takes.
pub(crate) struct Harvest {
    pub(crate) batch: Option<Arc<Batch>>,
    /// In ascending order of offsets.
    pub(crate) pieces: SmallVec<[Piece; 1]>,
    /// Where the fetched range ends; below the answer's `next` when a record stands in the way.
    pub(crate) next: QueueOffset,
    /// The first offset that lay outside of what was asked.
    pub(crate) outside: Option<QueueOffset>,
    /// What stands in the way.
    pub(crate) obstacle: Option<Obstacle>,
}

/// Neighbours in the batch, or one record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Run { first: u32, len: u32 },
    Unreadable(Unreadable),
}

/// A record that cannot be read but whose places are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) offset: QueueOffset,
    pub(crate) physical_offset: PhysicalOffset,
    pub(crate) reason: UndecodableReason,
    pub(crate) record: Bytes,
}

impl Unreadable {
    /// Its size in bytes.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.record.len()).unwrap_or(u32::MAX)
    }
}

/// Why an answer cannot be taken to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Obstacle {
    #[error("{0}")]
    Size(BrokenReason),
    #[error("{0}, and the record does not tell where it stands")]
    Placeless(UndecodableReason),
}

enum Row {
    Good(Entry),
    Bad(Unreadable),
}

impl Row {
    const fn offset(&self) -> QueueOffset {
        match self {
            Self::Good(entry) => entry.queue_offset(),
            Self::Bad(bad) => bad.offset,
        }
    }
}

pub(crate) fn harvest(
    queue: &MessageQueue,
    retry_topic: bool,
    wanted: &Subscription,
    answer: Answer,
) -> Harvest {
    let mut rows: SmallVec<[Row; 32]> = SmallVec::new();
    let mut outside = None;
    let mut obstacle = None;
    let mut in_order = true;
    let mut last = None;
    for scanned in Scanner::new(&answer.body) {
        let row = match scanned {
            Scanned::Message(entry) => Row::Good(entry),
            Scanned::Undecodable(bad) => match (bad.queue_offset, bad.physical_offset) {
                (Some(offset), Some(physical_offset)) => Row::Bad(Unreadable {
                    offset,
                    physical_offset,
                    reason: bad.reason,
                    record: answer.body.slice(bad.at as usize..(bad.at + bad.len) as usize),
                }),
                _ => {
                    obstacle = Some(Obstacle::Placeless(bad.reason));
                    break;
                }
            },
            Scanned::Broken { reason, .. } => {
                obstacle = Some(Obstacle::Size(reason));
                break;
            }
        };
        let offset = row.offset();
        if offset < answer.asked || offset >= answer.next {
            outside.get_or_insert(offset);
            continue;
        }
        in_order &= last.is_none_or(|last| last < offset);
        last = Some(offset);
        rows.push(row);
    }
    if !in_order {
        rows.sort_by_key(Row::offset);
        rows.dedup_by_key(|row| row.offset());
    }
    // What lies behind an obstacle was not seen, so the range ends behind the last record that was.
    let next = match obstacle {
        Some(_) => rows
            .last()
            .map_or(answer.asked, |row| QueueOffset(row.offset().0 + 1)),
        None => answer.next,
    };
    let mut entries: SmallVec<[Entry; 32]> = SmallVec::new();
    let mut pieces = SmallVec::new();
    for row in rows {
        match row {
            Row::Good(entry) => {
                if wanted.tags.is_empty()
                    || wanted.matches(Record::new(&answer.body, entry).tags().as_deref())
                {
                    extend_run(&mut pieces, u32::try_from(entries.len()).unwrap_or(u32::MAX));
                    entries.push(entry);
                }
            }
            Row::Bad(bad) => pieces.push(Piece::Unreadable(bad)),
        }
    }
    let batch = (!entries.is_empty()).then(|| {
        Arc::new(Batch::new(
            queue.clone(),
            retry_topic,
            answer.body,
            entries,
            answer.min,
            answer.max,
        ))
    });
    Harvest {
        batch,
        pieces,
        next,
        outside,
        obstacle,
    }
}

fn extend_run(pieces: &mut SmallVec<[Piece; 1]>, position: u32) {
    if let Some(Piece::Run { len, .. }) = pieces.last_mut() {
        *len += 1;
    } else {
        pieces.push(Piece::Run {
            first: position,
            len: 1,
        });
    }
}

#[cfg(test)]
mod tests;
