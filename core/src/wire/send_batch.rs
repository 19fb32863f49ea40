//! The body of a batch send: several messages of one topic for one queue, one behind the other and
//! without count. The same layout lies in the body of an inner batch.
//!
//! ```text
//! size 4 | magic 4 | body CRC 4 | flag 4 | body length 4 | body | properties length 2 | properties
//! ```
//!
//! Magic and CRC are 0 when written and not looked at when read, as in Java. The size word has to agree
//! with the parts: Java does not look at it either, but whoever writes another one means something else.
//= rocketmq: MessageDecoder.encodeMessage, MessageDecoder.decodeMessage

use alloc::vec::Vec;
use core::iter::FusedIterator;

use super::properties;
use super::stored::TooLong;

/// An entry without body and properties, in bytes.
const SIZE_MIN: usize = 22;

/// Where the fields of an entry lie.
mod place {
    pub(super) const FLAG: usize = 12;
    pub(super) const BODY_LEN: usize = 16;
    pub(super) const BODY: usize = 20;
}

/// One message of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEntry<'a> {
    /// A number for the applications.
    pub flag: i32,
    /// The body, never compressed.
    pub body: &'a [u8],
    /// The properties as they are stored.
    pub properties: &'a str,
}

impl BatchEntry<'_> {
    /// Appends the entry.
    ///
    /// # Errors
    ///
    /// [`TooLong`] when a length does not fit into its field; nothing is written then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        if self.properties.len() > properties::LENGTH_MAX {
            return Err(TooLong::Properties);
        }
        let size = (SIZE_MIN + self.properties.len())
            .checked_add(self.body.len())
            .and_then(|size| i32::try_from(size).ok())
            .ok_or(TooLong::Body)?;
        out.reserve(size as usize);
        // Each part is no longer than the whole, whose size fits.
        for word in [size, 0, 0, self.flag, self.body.len() as i32] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(self.body);
        out.extend_from_slice(&(self.properties.len() as u16).to_be_bytes());
        out.extend_from_slice(self.properties.as_bytes());
        Ok(())
    }
}

/// Walks over the entries of a batch. Nothing is copied; a fault is the last item.
#[derive(Clone, Debug)]
pub struct BatchEntries<'a> {
    /// What is not read yet; empty behind a fault.
    rest: &'a [u8],
    /// Where that begins in the body.
    at: usize,
}

impl<'a> BatchEntries<'a> {
    /// The entries in the body of a batch send.
    #[must_use]
    pub const fn new(body: &'a [u8]) -> Self {
        Self { rest: body, at: 0 }
    }
}

impl<'a> Iterator for BatchEntries<'a> {
    type Item = Result<BatchEntry<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some(match split_entry(self.rest) {
            Ok((entry, rest)) => {
                self.at += self.rest.len() - rest.len();
                self.rest = rest;
                Ok(entry)
            }
            Err(fault) => {
                self.rest = &[];
                Err(BatchError { at: self.at, fault })
            }
        })
    }
}

impl FusedIterator for BatchEntries<'_> {}

/// A batch that cannot be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} in the entry at byte {at}")]
pub struct BatchError {
    /// Where the entry begins, in bytes from the beginning of the body.
    pub at: usize,
    /// What is wrong with it.
    pub fault: BatchFault,
}

/// What is wrong with an entry of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchFault {
    /// The size is negative, smaller than any entry, or larger than what is left.
    #[error("a size that is out of range")]
    Size,
    /// The body length is negative or points behind the entry.
    #[error("a body length that is out of range")]
    BodyLength,
    /// The properties do not end where the entry does.
    #[error("a properties length that is out of range")]
    PropertiesLength,
    /// The properties are not UTF-8.
    #[error("properties that are not UTF-8")]
    PropertiesText,
}

/// The first entry, and what lies behind it.
fn split_entry(bytes: &[u8]) -> Result<(BatchEntry<'_>, &[u8]), BatchFault> {
    let size = word(bytes, 0).and_then(|size| usize::try_from(size).ok());
    let (entry, rest) = size
        .filter(|&size| size >= SIZE_MIN)
        .and_then(|size| bytes.split_at_checked(size))
        .ok_or(BatchFault::Size)?;
    let flag = word(entry, place::FLAG).ok_or(BatchFault::Size)?;
    let (body, tail) = word(entry, place::BODY_LEN)
        .and_then(|len| usize::try_from(len).ok())
        .and_then(|len| entry.get(place::BODY..)?.split_at_checked(len))
        .ok_or(BatchFault::BodyLength)?;
    let (len, text) = tail.split_first_chunk().ok_or(BatchFault::BodyLength)?;
    if usize::try_from(i16::from_be_bytes(*len)) != Ok(text.len()) {
        return Err(BatchFault::PropertiesLength);
    }
    let properties = core::str::from_utf8(text).map_err(|_| BatchFault::PropertiesText)?;
    Ok((
        BatchEntry {
            flag,
            body,
            properties,
        },
        rest,
    ))
}

fn word(bytes: &[u8], at: usize) -> Option<i32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|chunk| i32::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use proptest::prelude::*;

    use super::*;

    /// An entry a 5.5.0 broker accepted.
    const ACCEPTED: &[u8] =
        b"\0\0\0\x2b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02b1\0\x13TAGS\x01A\x02UNIQ_KEY\x01U1\x02";

    fn read(body: &[u8]) -> Result<Vec<BatchEntry<'_>>, BatchError> {
        BatchEntries::new(body).collect()
    }

    #[test]
    fn an_accepted_entry_is_written_and_read() {
        let entry = BatchEntry {
            flag: 0,
            body: b"b1",
            properties: "TAGS\u{1}A\u{2}UNIQ_KEY\u{1}U1\u{2}",
        };
        let mut bytes = Vec::new();
        entry.encode(&mut bytes).expect("short parts");
        assert_eq!(bytes, ACCEPTED);
        entry.encode(&mut bytes).expect("short parts");
        assert_eq!(read(&bytes), Ok([entry, entry].into()));
        assert_eq!(read(b""), Ok(Vec::new()));
    }

    /// What a Java producer sends.
    #[test]
    fn a_batch_of_a_java_producer_is_read() {
        let one = "KEYS\u{1}b1\u{2}UNIQ_KEY\u{1}FD000000000000000000000000000002535630946E09935BEEA20008\u{2}WAIT\u{1}true\u{2}TAGS\u{1}b\u{2}";
        let mut body = b"\0\0\0\x7a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09batch one\0\x5b".to_vec();
        body.extend(one.bytes());
        let entry = BatchEntry {
            flag: 0,
            body: b"batch one",
            properties: one,
        };
        assert_eq!(read(&body), Ok([entry].into()));
    }

    #[test]
    fn a_fault_tells_its_place_and_ends_the_walk() {
        let edited = |at: usize, value: &[u8]| {
            let mut bytes = ACCEPTED.to_vec();
            bytes[at..at + value.len()].copy_from_slice(value);
            bytes
        };
        let mut longer = edited(3, &[0x2c]);
        longer.push(0);
        for (tail, fault) in [
            (ACCEPTED[..3].to_vec(), BatchFault::Size),
            (ACCEPTED[..ACCEPTED.len() - 1].to_vec(), BatchFault::Size),
            (edited(0, &[0xff]), BatchFault::Size),
            (edited(3, &[21]), BatchFault::Size),
            (edited(3, &[0]), BatchFault::Size),
            (edited(place::BODY_LEN, &[0xff]), BatchFault::BodyLength),
            (edited(place::BODY_LEN, &[0x7f]), BatchFault::BodyLength),
            (edited(place::BODY_LEN + 3, &[22]), BatchFault::BodyLength),
            (edited(22, &[0xff]), BatchFault::PropertiesLength),
            (edited(23, &[0x12]), BatchFault::PropertiesLength),
            (longer, BatchFault::PropertiesLength),
            (edited(24, &[0xff]), BatchFault::PropertiesText),
        ] {
            let bytes = [ACCEPTED, &tail].concat();
            let mut entries = BatchEntries::new(&bytes);
            assert!(matches!(entries.next(), Some(Ok(_))));
            let at = ACCEPTED.len();
            assert_eq!(entries.next(), Some(Err(BatchError { at, fault })));
            assert_eq!(entries.next(), None);
        }
    }

    #[test]
    fn what_does_not_fit_is_not_written() {
        let properties = "p".repeat(32_768);
        let entry = |properties| BatchEntry {
            flag: 0,
            body: b"",
            properties,
        };
        let mut bytes = Vec::new();
        assert_eq!(entry(&*properties).encode(&mut bytes), Err(TooLong::Properties));
        assert!(bytes.is_empty());
        assert_eq!(entry(&properties[1..]).encode(&mut bytes), Ok(()));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in proptest::collection::vec((any::<i32>(), proptest::collection::vec(any::<u8>(), 0..20), "\\PC{0,20}"), 0..5)) {
            let entries: Vec<(i32, Vec<u8>, String)> = entries;
            let entries: Vec<_> = entries
                .iter()
                .map(|(flag, body, properties)| BatchEntry { flag: *flag, body, properties })
                .collect();
            let mut bytes = Vec::new();
            for entry in &entries {
                entry.encode(&mut bytes).expect("short parts");
            }
            prop_assert_eq!(read(&bytes), Ok(entries));
        }

        #[test]
        fn any_damage_is_survived(edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut in any::<prop::sample::Index>()) {
            let mut bytes = [ACCEPTED, ACCEPTED].concat();
            for (place, value) in edits {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            let parts: usize = BatchEntries::new(&bytes)
                .filter_map(Result::ok)
                .map(|entry| SIZE_MIN + entry.body.len() + entry.properties.len())
                .sum();
            prop_assert!(parts <= bytes.len());
        }
    }
}
