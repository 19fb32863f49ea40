//! Bodies: what is inside a stored message once it is opened.
//!
//! The machine never opens a body. A lane calls [`Body::decode`], a pure function, right before the
//! handler: so decompression is spread over the cores and a bad body hurts one message. A plain body
//! is a slice of the frame it came in; only a decompressed one has memory of its own.

use bytes::Bytes;
use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit};
use serde::{Deserialize, Serialize};

use super::stored::{Compression, SysFlag};

/// An opened body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// What the producer sent.
    pub bytes: Bytes,
    /// Whether the checksum agreed with the stored form.
    pub crc: CrcState,
}

impl Body {
    /// Opens a body.
    ///
    /// `stored` is the body as it lies in the record, `sys_flag` and `body_crc` are the fields of that
    /// record. A format this build does not open is told before the checksum is looked at: such a
    /// message must wait for a build that does, whatever its checksum.
    ///
    /// An empty body is empty whatever the flags say about compression, as in Java.
    ///
    /// # Errors
    ///
    /// [`BodyError`]; the stored bytes are untouched and can be handed on as they are.
    pub fn decode(
        stored: &Bytes,
        sys_flag: SysFlag,
        body_crc: u32,
        limits: BodyLimits,
        policy: CrcPolicy,
    ) -> Result<Self, BodyError> {
        if sys_flag.is_inner_batch() {
            return Err(BodyError::Unsupported(Unsupported::InnerBatch));
        }
        let compressed = match sys_flag.compression().filter(|_| !stored.is_empty()) {
            None => false,
            Some(Compression::Zlib) => true,
            Some(Compression::Lz4) => return Err(BodyError::Unsupported(Unsupported::Lz4)),
            Some(Compression::Zstd) => return Err(BodyError::Unsupported(Unsupported::Zstd)),
            Some(Compression::Unknown(kind)) => {
                return Err(BodyError::Unsupported(Unsupported::Compression(kind)));
            }
        };
        let crc = match policy {
            CrcPolicy::Ignore => CrcState::Unchecked,
            CrcPolicy::Report | CrcPolicy::Reject if crc_matches(stored, body_crc) => CrcState::Match,
            CrcPolicy::Report => CrcState::Mismatch,
            CrcPolicy::Reject => return Err(BodyError::Crc),
        };
        let bytes = if compressed {
            inflate(stored, limits.decompressed_max)?
        } else {
            stored.clone()
        };
        Ok(Self { bytes, crc })
    }
}

/// What opening a body may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyLimits {
    /// The largest body after decompression, in bytes. A plain body is bounded by its frame.
    pub decompressed_max: usize,
}

impl Default for BodyLimits {
    /// 16 MiB: four times the largest message a broker takes by default. Java has no limit.
    fn default() -> Self {
        Self {
            decompressed_max: 16 * 1024 * 1024,
        }
    }
}

/// What to do with the checksum of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CrcPolicy {
    /// Do not compute it, like Java.
    Ignore,
    /// Compute it and deliver whatever the answer: brokers do not fill the field in on every path.
    #[default]
    Report,
    /// A mismatch makes the message undecodable.
    Reject,
}

/// What is known about the checksum of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CrcState {
    /// It was not computed.
    Unchecked,
    /// It agrees.
    Match,
    /// It does not.
    Mismatch,
}

/// Why a body cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// A later build may open it; the message itself is not at fault.
    #[error("{0} is not supported yet")]
    Unsupported(Unsupported),
    /// The compressed data is damaged or ends early.
    #[error("the compressed body is damaged")]
    Corrupt,
    /// It would be larger than the limit after decompression.
    #[error("the body has more than {limit} bytes after decompression")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The checksum does not agree, and the policy is [`CrcPolicy::Reject`].
    #[error("the checksum of the body does not match")]
    Crc,
}

/// A format of a body that this build does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// LZ4 compression.
    #[error("LZ4 compression")]
    Lz4,
    /// zstd compression.
    #[error("zstd compression")]
    Zstd,
    /// A batch of messages in one record.
    #[error("an inner batch")]
    InnerBatch,
    /// A compression type without a name.
    #[error("compression type {0}")]
    Compression(u8),
}

/// Whether `body_crc`, as a record has it, is the checksum of the body as stored. The highest bit is
/// ignored: brokers clear it.
#[must_use]
pub fn crc_matches(stored: &[u8], body_crc: u32) -> bool {
    stored_crc(stored) == body_crc & CRC_MASK
}

/// The checksum a broker writes into the record of a body.
pub(crate) fn stored_crc(stored: &[u8]) -> u32 {
    crc32fast::hash(stored) & CRC_MASK
}

/// All but the highest bit, which brokers clear.
const CRC_MASK: u32 = 0x7FFF_FFFF;

/// Opens a zlib stream. Bytes behind its end are ignored, as Java ignores them.
fn inflate(stored: &[u8], limit: usize) -> Result<Bytes, BodyError> {
    match decompress_to_vec_zlib_with_limit(stored, limit) {
        Ok(plain) => Ok(plain.into()),
        Err(error) if error.status == TINFLStatus::HasMoreOutput => Err(BodyError::TooLarge { limit }),
        Err(_) => Err(BodyError::Corrupt),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use miniz_oxide::deflate::compress_to_vec_zlib;
    use proptest::prelude::*;

    use super::*;

    const ZLIB: SysFlag = SysFlag(0x301);

    fn open(stored: &[u8], flag: SysFlag) -> Result<Bytes, BodyError> {
        let stored = Bytes::copy_from_slice(stored);
        Body::decode(&stored, flag, 0, BodyLimits::default(), CrcPolicy::Ignore).map(|body| body.bytes)
    }

    #[test]
    fn a_plain_body_is_a_slice_of_the_frame() {
        let frame = Bytes::from_static(b"..hello..");
        let stored = frame.slice(2..7);
        let body = Body::decode(
            &stored,
            SysFlag(0),
            0x3610_a686,
            BodyLimits::default(),
            CrcPolicy::Report,
        )
        .expect("a plain body");
        assert_eq!(body.bytes.as_ptr(), stored.as_ptr());
        assert_eq!(body.crc, CrcState::Match);
    }

    #[test]
    fn formats_to_come_are_told_apart_from_damage() {
        let table = [
            (0x101, Unsupported::Lz4),
            (0x201, Unsupported::Zstd),
            (0x501, Unsupported::Compression(5)),
            (0x0C0, Unsupported::InnerBatch),
            (0x3C1, Unsupported::InnerBatch),
        ];
        for (flag, expected) in table {
            assert_eq!(
                open(b"data", SysFlag(flag)),
                Err(BodyError::Unsupported(expected))
            );
        }
        assert_eq!(open(b"data", ZLIB), Err(BodyError::Corrupt));
        assert_eq!(open(b"", SysFlag(0x501)), Ok(Bytes::new()));
        // The unwrap bit alone, or type bits alone, change nothing.
        assert_eq!(open(b"data", SysFlag(0x240)), Ok(Bytes::from_static(b"data")));
    }

    #[test]
    fn zlib_bytes_behind_the_end_are_ignored_and_a_cut_is_noticed() {
        let plain = b"hello rocketmq ".repeat(100);
        let stored = compress_to_vec_zlib(&plain, 5);
        assert_eq!(open(&stored, ZLIB), Ok(plain.clone().into()));
        assert_eq!(open(&stored, SysFlag(1)), Ok(plain.clone().into()));
        assert_eq!(open(&[&stored[..], b"tail"].concat(), ZLIB), Ok(plain.into()));
        assert_eq!(open(&stored[..stored.len() / 2], ZLIB), Err(BodyError::Corrupt));
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let limits = BodyLimits {
            decompressed_max: 1000,
        };
        for (size, fits) in [(999, true), (1000, true), (1001, false), (1_000_000, false)] {
            let stored = Bytes::from(compress_to_vec_zlib(&vec![0; size], 9));
            let opened = Body::decode(&stored, ZLIB, 0, limits, CrcPolicy::Ignore);
            match opened {
                Ok(body) => assert!(fits && body.bytes.len() == size),
                Err(error) => {
                    assert_eq!(error, BodyError::TooLarge { limit: 1000 });
                    assert!(!fits);
                }
            }
        }
    }

    #[test]
    fn the_checksum_is_of_the_stored_form_without_its_highest_bit() {
        assert!(crc_matches(b"hello", 0x3610_a686));
        assert!(crc_matches(b"hello", 0xb610_a686));
        assert!(!crc_matches(b"hello", 0x3610_a687));
        assert!(crc_matches(b"", 0));

        let stored = Bytes::from_static(b"hello");
        let decode = |policy| Body::decode(&stored, SysFlag(0), 1, BodyLimits::default(), policy);
        assert_eq!(
            decode(CrcPolicy::Ignore).map(|body| body.crc),
            Ok(CrcState::Unchecked)
        );
        assert_eq!(
            decode(CrcPolicy::Report).map(|body| body.crc),
            Ok(CrcState::Mismatch)
        );
        assert_eq!(decode(CrcPolicy::Reject), Err(BodyError::Crc));
    }

    proptest! {
        #[test]
        fn any_stored_body_is_survived(stored in proptest::collection::vec(any::<u8>(), 0..200), flag in any::<i32>()) {
            let _ = open(&stored, SysFlag(flag));
        }

        #[test]
        fn zlib_opens_to_what_was_sent(plain in proptest::collection::vec(any::<u8>(), 1..2000), level in 0..10_u8) {
            let stored: Vec<u8> = compress_to_vec_zlib(&plain, level);
            prop_assert_eq!(open(&stored, ZLIB), Ok(plain.into()));
        }
    }
}
