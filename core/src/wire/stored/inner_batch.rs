use alloc::vec::Vec;

use bytes::Bytes;

use super::writer::{RecordParts, TooLong};
use super::{Entry, Record, SysFlag, entry};
use crate::ids::QueueOffset;
use crate::wire::body::{Body, BodyError, BodyLimits, CrcPolicy, CrcState};
use crate::wire::send_batch::{BatchEntries, BatchEntry, BatchError};

/// A record whose body is a list of messages: what a batch send to a topic with `queue.type=BatchCQ` leaves.
/// Producers may compress the list as a whole.
///
/// Its messages have flag, properties and body of their own, and one place in the queue each, counted from
/// that of the record. Topic, hosts, times and the place in the commit log are the record's. They were never
/// sent back: whatever the record says, their own count is 0, as in Java.
#[derive(Clone, Debug)]
pub struct InnerBatch<'a> {
    outer: Record<'a>,
    list: Bytes,
    crc: CrcState,
}

impl<'a> InnerBatch<'a> {
    /// Opens the record of `entry`, which has [the flags of an inner batch](SysFlag::is_inner_batch);
    /// `scanned` are the bytes it was scanned from.
    ///
    /// # Errors
    ///
    /// As [`Body::decode`].
    pub fn open(
        scanned: &'a Bytes,
        entry: Entry,
        limits: BodyLimits,
        policy: CrcPolicy,
    ) -> Result<Self, BodyError> {
        let outer = Record::new(scanned, entry);
        let stored = scanned.slice(entry.body_range());
        let body = Body::decode(&stored, outer.sys_flag(), outer.body_crc(), limits, policy)?;
        Ok(Self {
            outer,
            list: body.bytes,
            crc: body.crc,
        })
    }

    /// The record around the messages.
    #[must_use]
    pub const fn outer(&self) -> Record<'a> {
        self.outer
    }

    /// Bytes of the list of messages, decompressed.
    pub(crate) const fn len(&self) -> usize {
        self.list.len()
    }

    /// The messages in their order; a fault is the last item.
    pub fn messages(&self) -> impl Iterator<Item = Result<InnerMessage<'_>, BatchError>> {
        let first = self.outer.queue_offset().0;
        BatchEntries::new(&self.list)
            .zip(0..)
            .map(move |(part, position)| {
                Ok(InnerMessage {
                    batch: self,
                    queue_offset: QueueOffset(first.saturating_add(position)),
                    part: part?,
                })
            })
    }
}

/// One message of an [`InnerBatch`].
#[derive(Clone, Copy, Debug)]
pub struct InnerMessage<'a> {
    batch: &'a InnerBatch<'a>,
    queue_offset: QueueOffset,
    part: BatchEntry<'a>,
}

impl InnerMessage<'_> {
    /// Its place in the queue.
    #[must_use]
    pub const fn queue_offset(&self) -> QueueOffset {
        self.queue_offset
    }

    /// Appends the record it would have been stored as alone, and returns where that lies: `before` bytes
    /// behind where `out` begins. Only the compression bit of its system flag differs from that of the batch.
    ///
    /// When the checksum of the batch does not agree, that of the message does not either: nobody knows which
    /// of them was hurt.
    ///
    /// # Errors
    ///
    /// [`TooLong`] when positions cannot count that far; nothing is written then.
    pub fn append_to(&self, out: &mut Vec<u8>, before: usize) -> Result<Entry, TooLong> {
        let outer = self.batch.outer;
        let start = out.len();
        let at = before
            .checked_add(start)
            .and_then(|at| u32::try_from(at).ok())
            .filter(|at| at.checked_add(i32::MAX as u32).is_some())
            .ok_or(TooLong::Body)?;
        RecordParts {
            topic: outer.topic(),
            queue_id: outer.queue_id(),
            flag: self.part.flag,
            queue_offset: self.queue_offset,
            physical_offset: outer.physical_offset(),
            sys_flag: SysFlag(outer.sys_flag().0 & !SysFlag::COMPRESSED),
            born_at: outer.born_at(),
            born_host: outer.born_host(),
            store_at: outer.store_at(),
            store_host: outer.store_host(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: self.part.body,
            properties: self.part.properties,
        }
        .encode(out)?;
        if self.batch.crc == CrcState::Mismatch {
            out[start + entry::place::BODY_CRC + 3] ^= 1;
        }
        // Its size fits into a signed word, so says the writer.
        let len = (out.len() - start) as u32;
        Ok(Entry::index(&out[start..], at, len).expect("a record of ours can be read"))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::ids::{PhysicalOffset, QueueId};
    use crate::time::WallTime;
    use crate::wire::send_batch::BatchFault;
    use crate::wire::stored::{Scanned, Scanner};

    fn list(bodies: &[&[u8]]) -> Vec<u8> {
        let mut list = Vec::new();
        for (flag, body) in (10..).zip(bodies) {
            let properties = "TAGS\u{1}A\u{2}";
            let part = BatchEntry {
                flag,
                body,
                properties,
            };
            part.encode(&mut list).expect("short parts");
        }
        list
    }

    /// The record of an inner batch at offset 40, its list as given, and its index.
    fn outer(sys_flag: i32, list: &[u8], topic: &str) -> (Bytes, Entry) {
        let mut bytes = vec![];
        let parts = RecordParts {
            topic,
            queue_id: QueueId(3),
            flag: 1,
            queue_offset: QueueOffset(40),
            physical_offset: PhysicalOffset(1_000),
            sys_flag: SysFlag(sys_flag),
            born_at: WallTime::from_unix_millis(1),
            born_host: "[fe80::1]:7".parse().expect("an address"),
            store_at: WallTime::from_unix_millis(2),
            store_host: "10.0.0.1:10911".parse().expect("an address"),
            reconsume_times: 5,
            prepared_transaction_offset: 9,
            body: list,
            properties: "KEYS\u{1}outer\u{2}",
        };
        parts.encode(&mut bytes).expect("short parts");
        let Some(Scanned::Message(entry)) = Scanner::new(&bytes).next() else {
            panic!("a good record");
        };
        (bytes.into(), entry)
    }

    fn open<'a>(scanned: &'a Bytes, entry: Entry, policy: CrcPolicy) -> Result<InnerBatch<'a>, BodyError> {
        InnerBatch::open(scanned, entry, BodyLimits::default(), policy)
    }

    #[test]
    fn messages_are_records_with_their_own_parts() {
        let zlib = miniz_oxide::deflate::compress_to_vec_zlib;
        let long = "t".repeat(200);
        for (flag, list, topic) in [
            (0xC0, list(&[b"one", b"", b"three"]), "T"),
            (0x3C1, zlib(&list(&[b"one", b"", b"three"]), 6), &*long),
        ] {
            let (scanned, entry) = outer(flag, &list, topic);
            let batch = open(&scanned, entry, CrcPolicy::Report).expect("a good batch");
            let mut out = vec![];
            for (at, (message, body)) in batch.messages().zip([&b"one"[..], b"", b"three"]).enumerate() {
                let message = message.expect("a good entry");
                let start = out.len();
                let entry = message.append_to(&mut out, 500).expect("it fits");
                assert_eq!(entry.range(), 500 + start..500 + out.len());
                let moved = Scanner::new(&out[start..]).next();
                let Some(Scanned::Message(entry)) = moved else {
                    panic!("{moved:?}")
                };
                let record = Record::new(&out[start..], entry);
                let offset = 40 + i64::try_from(at).expect("small");
                assert_eq!(
                    (record.queue_offset().0, message.queue_offset().0),
                    (offset, offset)
                );
                assert_eq!((record.flag(), record.stored_body()), (10 + at as i32, body));
                assert_eq!((record.tags().as_deref(), record.keys()), (Some("A"), None));
                assert_eq!((record.topic(), record.queue_id()), (topic, QueueId(3)));
                assert_eq!(record.physical_offset(), PhysicalOffset(1_000));
                assert_eq!(
                    (record.born_host(), record.store_host()),
                    (batch.outer().born_host(), batch.outer().store_host())
                );
                assert_eq!(
                    (
                        record.born_at().as_unix_millis(),
                        record.store_at().as_unix_millis()
                    ),
                    (1, 2)
                );
                assert_eq!(
                    (record.reconsume_times(), record.prepared_transaction_offset()),
                    (0, 0)
                );
                assert_eq!(record.sys_flag().0, flag & !1 | SysFlag::BORN_HOST_V6);
                assert!(crate::wire::body::crc_matches(body, record.body_crc()));
            }
            assert_eq!(batch.messages().count(), 3);
        }
    }

    #[test]
    fn a_fault_is_the_last_item() {
        let mut bytes = list(&[b"one", b"two", b"three"]);
        bytes[2 * 32..][16..20].copy_from_slice(&[0xff; 4]);
        let (scanned, entry) = outer(0xC0, &bytes, "T");
        let batch = open(&scanned, entry, CrcPolicy::Report).expect("a good body");
        let faults: Vec<_> = batch.messages().map(|message| message.err()).collect();
        let at = 2 * 32;
        let fault = BatchFault::BodyLength;
        assert_eq!(faults, [None, None, Some(BatchError { at, fault })]);
    }

    #[test]
    fn a_wrong_checksum_of_the_batch_is_one_of_each_message() {
        for (flag, inner) in [
            (0xC0, true),
            (0x3C1, true),
            (0x80, false),
            (0x40, false),
            (0, false),
        ] {
            let (scanned, entry) = outer(flag, &list(&[b"one"]), "T");
            assert_eq!(entry.is_inner_batch(), inner);
            assert_eq!(Record::new(&scanned, entry).keys().as_deref(), Some("outer"));
        }
        let (scanned, entry) = outer(0xC0, &list(&[b"one"]), "T");
        let mut damaged = scanned.to_vec();
        damaged[8 + 3] ^= 1;
        let damaged = Bytes::from(damaged);
        assert_eq!(
            open(&damaged, entry, CrcPolicy::Reject).err(),
            Some(BodyError::Crc)
        );
        for (scanned, policy, matches) in [
            (&scanned, CrcPolicy::Reject, true),
            (&damaged, CrcPolicy::Report, false),
            (&damaged, CrcPolicy::Ignore, true),
        ] {
            let batch = open(scanned, entry, policy).expect("a good body");
            let mut out = vec![];
            let message = batch.messages().next().expect("one").expect("a good entry");
            let entry = message.append_to(&mut out, 0).expect("it fits");
            let crc = Record::new(&out, entry).body_crc();
            assert_eq!(crate::wire::body::crc_matches(b"one", crc), matches);
        }
    }

    #[test]
    fn positions_do_not_wrap() {
        let (scanned, entry) = outer(0xC0, &list(&[b"one"]), "T");
        let batch = open(&scanned, entry, CrcPolicy::Ignore).expect("a good body");
        let message = batch.messages().next().expect("one").expect("a good entry");
        let mut out = vec![];
        let refused = message.append_to(&mut out, u32::MAX as usize - 100);
        assert_eq!((refused, out.len()), (Err(TooLong::Body), 0));
    }
}
