//! Bodies: what is inside a stored message once it is opened.
//!
//! The machine never opens a body. A lane calls [`Body::decode`], a pure function, right before the
//! handler: so decompression is spread over the cores and a bad body hurts one message. A plain body
//! is a slice of the frame it came in; only a decompressed one has memory of its own. The one exception is
//! an inner batch, whose body is the messages themselves: see [`InnerBatch`](super::stored::InnerBatch).
//!
//! | type | container | behind its end |
//! |---|---|---|
//! | 0, 3 | one zlib stream | ignored, as in Java |
//! | 1 | LZ4 *frames* and skippable frames, blocks linked or not | an error, as in Java |
//! | 2 | zstd frames and skippable frames, without dictionaries | an error, as in Java |
//!
//! However small a body is and whatever sizes it claims, decompression never makes more than the limit and
//! one block of its format (4 MiB of LZ4, 128 KiB of zstd).

mod lz4;
mod zlib;
#[cfg(feature = "zstd")]
mod zstd;

use alloc::vec::Vec;

use bytes::Bytes;
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
    /// An empty body is empty whatever the flags say about compression, as in Java. The body of an inner batch
    /// is the list of its messages.
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
        let unpack = match sys_flag.compression().filter(|_| !stored.is_empty()) {
            None => None,
            Some(compression) => Some(unpacker(compression).map_err(BodyError::Unsupported)?),
        };
        let crc = match policy {
            CrcPolicy::Ignore => CrcState::Unchecked,
            CrcPolicy::Report | CrcPolicy::Reject if crc_matches(stored, body_crc) => CrcState::Match,
            CrcPolicy::Report => CrcState::Mismatch,
            CrcPolicy::Reject => return Err(BodyError::Crc),
        };
        let bytes = match unpack {
            Some(unpack) => unpack(stored, limits.decompressed_max)?.into(),
            None => stored.clone(),
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
    #[error("{0} is not supported by this build")]
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
    /// zstd compression, in a build without the feature `zstd`.
    #[error("zstd compression")]
    Zstd,
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

/// Decompresses all of a body, to no more than so many bytes.
type Unpack = fn(&[u8], usize) -> Result<Vec<u8>, BodyError>;

fn unpacker(compression: Compression) -> Result<Unpack, Unsupported> {
    match compression {
        Compression::Zlib => Ok(zlib::decompress),
        Compression::Lz4 => Ok(lz4::decompress),
        #[cfg(feature = "zstd")]
        Compression::Zstd => Ok(zstd::decompress),
        #[cfg(not(feature = "zstd"))]
        Compression::Zstd => Err(Unsupported::Zstd),
        Compression::Unknown(kind) => Err(Unsupported::Compression(kind)),
    }
}

#[cfg(test)]
mod tests;
