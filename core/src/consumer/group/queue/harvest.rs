//! From the body of a pull answer to what the window takes.
//!
//! One pass over the records: inner batches are opened, what lies outside of what was asked is left out, what
//! the tags do not want is left out, the rest is put in order. A record that cannot be read does not take its
//! neighbours along.
//= rocketmq: PullAPIWrapper.processPullResult type=differs
//  reason: the record size is trusted within the frame, so one bad record costs one message and not the
//  rest of the answer; offsets below the asked one are dropped, those of inner batches too.

mod inner;
mod rows;

use alloc::boxed::Box;
use alloc::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::ids::{MessageQueue, PhysicalOffset, QueueOffset};
use crate::message::Batch;
use crate::wire::body::BodyError;
use crate::wire::send_batch::BatchError;
use crate::wire::stored::{BrokenReason, Entry, Record, Scanned, Scanner, UndecodableReason};
use crate::wire::subscription::Subscription;

pub(crate) use inner::Limits;
use inner::Opener;
use rows::{Row, Rows};

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
    pub(crate) reason: UnreadableReason,
    pub(crate) record: Bytes,
}

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadableReason {
    #[error("{0}")]
    Record(UndecodableReason),
    #[error("an inner batch cannot be opened: {0}")]
    InnerBatch(BodyError),
    /// From here to its end.
    #[error("an inner batch cannot be read on: {0}")]
    InnerMessage(BatchError),
}

impl UnreadableReason {
    /// Whether a newer build may read it: then nothing may be thrown away.
    pub(crate) const fn is_of_a_later_format(&self) -> bool {
        matches!(
            self,
            Self::Record(UndecodableReason::UnknownMagic(_)) | Self::InnerBatch(BodyError::Unsupported(_))
        )
    }
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

pub(crate) fn harvest(
    queue: &MessageQueue,
    retry_topic: bool,
    wanted: &Subscription,
    limits: Limits,
    answer: Answer,
) -> Harvest {
    let mut rows = Rows::new(answer.asked, answer.next);
    let mut opener = Opener::new(&answer.body, limits);
    let mut obstacle = None;
    for scanned in Scanner::new(&answer.body) {
        match scanned {
            Scanned::Message(entry) if entry.is_inner_batch() => opener.open(entry, &mut rows),
            Scanned::Message(entry) => rows.take(Row::Good(entry)),
            Scanned::Undecodable(bad) => match (bad.queue_offset, bad.physical_offset) {
                (Some(offset), Some(physical_offset)) => rows.take(Row::Bad(Box::new(Unreadable {
                    offset,
                    physical_offset,
                    reason: UnreadableReason::Record(bad.reason),
                    record: answer.body.slice(bad.at as usize..(bad.at + bad.len) as usize),
                }))),
                _ => {
                    obstacle = Some(Obstacle::Placeless(bad.reason));
                    break;
                }
            },
            Scanned::Broken { reason, .. } => {
                obstacle = Some(Obstacle::Size(reason));
                break;
            }
        }
    }
    let outside = rows.outside();
    let end = rows.sort();
    // What lies behind an obstacle was not seen, so the range ends behind the last record that was.
    let next = if obstacle.is_some() { rows.end() } else { end };
    let unwrapped = opener.finish();
    let mut entries: SmallVec<[Entry; 32]> = SmallVec::new();
    let mut pieces = SmallVec::new();
    // Made for the messages whose tags somebody wants to see.
    let record = |entry: Entry, inner: bool| {
        if !inner {
            return Some(Record::new(&answer.body, entry));
        }
        let there = entry.seen_from(u32::try_from(answer.body.len()).ok()?)?;
        Some(Record::new(&unwrapped, there))
    };
    let all = wanted.tags.is_empty();
    for row in rows.into_rows() {
        let (entry, inner) = match row {
            Row::Good(entry) => (entry, false),
            Row::Inner(entry) => (entry, true),
            Row::Bad(bad) => {
                pieces.push(Piece::Unreadable(*bad));
                continue;
            }
        };
        if all || record(entry, inner).is_some_and(|record| wanted.matches(record.tags().as_deref())) {
            extend_run(&mut pieces, u32::try_from(entries.len()).unwrap_or(u32::MAX));
            entries.push(entry);
        }
    }
    let batch = (!entries.is_empty()).then(|| {
        Arc::new(Batch::with_unwrapped(
            queue.clone(),
            retry_topic,
            [answer.body, unwrapped],
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
