//! Stored messages: the body of a pull answer.

use bytes::Bytes;
use rocketmq_consumer_core::wire::body::{Body, BodyLimits, CrcPolicy};
use rocketmq_consumer_core::wire::stored::{Entry, Record, Scanned, Scanner};

use super::Undecodable;
use crate::exit::Failure;
use crate::output::{Lines, RecordView};

/// Writes a line for each record and counts those that cannot be decoded. A body that cannot be
/// opened makes its record undecodable; its neighbours are shown.
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
    let stored = bytes.slice(entry.body_range());
    let (flag, crc) = (record.sys_flag(), record.body_crc());
    match Body::decode(&stored, flag, crc, BodyLimits::default(), CrcPolicy::Ignore) {
        Ok(body) => {
            lines.json(&RecordView::decoded(record, &body.bytes))?;
            Ok(None)
        }
        Err(error) => {
            let offset = record.queue_offset().0;
            Ok(Some(Undecodable::new(error, entry.range().start, Some(offset))))
        }
    }
}
