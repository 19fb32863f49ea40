//! Stored messages: the body of a pull answer.

use bytes::Bytes;
use rocketmq_consumer_core::wire::body::{Body, BodyError, BodyLimits, CrcPolicy};
use rocketmq_consumer_core::wire::stored::{Entry, InnerBatch, Record, Scanned, Scanner};

use super::Undecodable;
use crate::exit::Failure;
use crate::output::{Lines, RecordView};

/// Writes a line for each message and counts those that cannot be decoded. A body that cannot be
/// opened makes its record undecodable; its neighbours are shown. An inner batch is shown as the messages
/// it holds.
pub(super) fn decode(bytes: &Bytes, lines: &mut Lines) -> Result<u64, Failure> {
    let mut undecodable = 0;
    for scanned in Scanner::new(bytes) {
        let bad = match scanned {
            Scanned::Message(entry) => match message(bytes, entry, lines)? {
                None => continue,
                Some(bad) => bad,
            },
            Scanned::Undecodable(bad) => Undecodable::new(
                bad.reason,
                bad.at as usize,
                bad.queue_offset.map(|offset| offset.0),
            ),
            Scanned::Broken { at, reason } => Undecodable::new(reason, at as usize, None),
        };
        lines.json(&bad)?;
        undecodable += 1;
    }
    Ok(undecodable)
}

/// Writes a record, or says why not.
fn message(bytes: &Bytes, entry: Entry, lines: &mut Lines) -> Result<Option<Undecodable>, Failure> {
    let record = Record::new(bytes, entry);
    let (flag, crc) = (record.sys_flag(), record.body_crc());
    let limits = BodyLimits::default();
    let opened = if flag.is_inner_batch() {
        match InnerBatch::open(bytes, entry, limits, CrcPolicy::Ignore) {
            Ok(batch) => return inner_batch(&batch, entry, lines),
            Err(error) => Err(error),
        }
    } else {
        let stored = bytes.slice(entry.body_range());
        Body::decode(&stored, flag, crc, limits, CrcPolicy::Ignore)
    };
    match opened {
        Ok(body) => {
            lines.json(&RecordView::decoded(record, &body.bytes))?;
            Ok(None)
        }
        Err(error) => Ok(Some(unopened(record, entry, &error))),
    }
}

fn unopened(record: Record<'_>, entry: Entry, error: &BodyError) -> Undecodable {
    let offset = record.queue_offset().0;
    Undecodable::new(error, entry.range().start, Some(offset))
}

/// Writes the messages of an inner batch, up to the first that cannot be read.
fn inner_batch(
    batch: &InnerBatch<'_>,
    entry: Entry,
    lines: &mut Lines,
) -> Result<Option<Undecodable>, Failure> {
    let mut next = batch.outer().queue_offset().0;
    for message in batch.messages() {
        let mut bytes = Vec::new();
        let record = match message {
            Ok(message) => message
                .append_to(&mut bytes, 0)
                .map_err(|error| error.to_string())
                .map(|entry| Record::new(&bytes, entry)),
            Err(error) => Err(error.to_string()),
        };
        let record = match record {
            Ok(record) => record,
            Err(reason) => {
                return Ok(Some(Undecodable::new(reason, entry.range().start, Some(next))));
            }
        };
        lines.json(&RecordView::inner(batch.outer(), record))?;
        next = next.saturating_add(1);
    }
    Ok(None)
}
