//! The LZ4 frame format, version 1.6.
//!
//! ```text
//! magic 4 | flags 1 | block size 1 | content size 0 or 8 | dictionary 0 or 4 | header check 1
//! block: size 4 (highest bit: stored as it is) | data | checksum 0 or 4        ... until a size of 0
//! content checksum 0 or 4                                                      all words little-endian
//! ```
//!
//! Frames follow each other; skippable ones are skipped. Java writes independent blocks without checksums
//! and reads no others; here linked blocks and all checksums are read too. A dictionary is nobody's here.

use alloc::vec::Vec;

use lz4_flex::block::{DecompressError, decompress_into_with_dict};
use twox_hash::XxHash32;

use super::BodyError;

const MAGIC: u32 = 0x184D_2204;
/// The first of sixteen magic numbers that say: skip me.
const SKIPPABLE: u32 = 0x184D_2A50;
/// In a block's size: the data is not compressed.
const AS_IT_IS: u32 = 1 << 31;
/// How far a match reaches back into earlier blocks, in bytes.
const HISTORY: usize = 64 * 1024;
/// No block grows by more than this factor: that is what one byte of a match length can say.
const GROWTH: usize = 255;

/// Opens a sequence of frames.
pub(super) fn decompress(stored: &[u8], limit: usize) -> Result<Vec<u8>, BodyError> {
    let mut input = Input(stored);
    let mut out = Vec::new();
    while !input.0.is_empty() {
        match input.word()? {
            MAGIC => frame(&mut input, &mut out, limit)?,
            magic if magic & !0xF == SKIPPABLE => {
                let len = input.word()?;
                input.take(len as usize)?;
            }
            _ => return Err(BodyError::Corrupt),
        }
    }
    Ok(out)
}

/// Opens one frame whose magic number has been read.
fn frame(input: &mut Input<'_>, out: &mut Vec<u8>, limit: usize) -> Result<(), BodyError> {
    let header = Header::read(input)?;
    let start = out.len();
    if header
        .content_size
        .is_some_and(|size| size > (limit - start) as u64)
    {
        return Err(BodyError::TooLarge { limit });
    }
    loop {
        let size = input.word()?;
        if size == 0 {
            break;
        }
        let data = input.take((size & !AS_IT_IS) as usize)?;
        if header.block_checksums {
            check(input.word()?, data)?;
        }
        if data.len() > header.block_max {
            return Err(BodyError::Corrupt);
        }
        if size & AS_IT_IS == 0 {
            header.unpack(data, out, start, limit)?;
        } else if data.len() > limit - out.len() {
            return Err(BodyError::TooLarge { limit });
        } else {
            out.extend_from_slice(data);
        }
    }
    let content = &out[start..];
    if header.content_checksum {
        check(input.word()?, content)?;
    }
    match header.content_size {
        Some(size) if size != content.len() as u64 => Err(BodyError::Corrupt),
        Some(_) | None => Ok(()),
    }
}

/// What the header of a frame says about its blocks.
struct Header {
    linked: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_size: Option<u64>,
    /// The largest block, in bytes.
    block_max: usize,
}

impl Header {
    fn read(input: &mut Input<'_>) -> Result<Self, BodyError> {
        let whole = input.0;
        let [flags, sizes] = input.chunk()?;
        let has = |bit: u8| flags & 1 << bit != 0;
        // Version 01; bit 1 is reserved, and bit 0 asks for a dictionary.
        let block_max = match (flags >> 6, flags & 0b11, sizes) {
            (0b01, 0, 0x40) => 64 << 10,
            (0b01, 0, 0x50) => 256 << 10,
            (0b01, 0, 0x60) => 1 << 20,
            (0b01, 0, 0x70) => 4 << 20,
            _ => return Err(BodyError::Corrupt),
        };
        let content_size = if has(3) {
            Some(u64::from_le_bytes(input.chunk()?))
        } else {
            None
        };
        let described = &whole[..whole.len() - input.0.len()];
        let [check] = input.chunk()?;
        if check != XxHash32::oneshot(0, described).to_le_bytes()[1] {
            return Err(BodyError::Corrupt);
        }
        Ok(Self {
            linked: !has(5),
            block_checksums: has(4),
            content_checksum: has(2),
            content_size,
            block_max,
        })
    }

    /// Appends a compressed block. What it may make is known before: no more than a block, than its data
    /// can grow to, and than the limit leaves.
    fn unpack(&self, data: &[u8], out: &mut Vec<u8>, start: usize, limit: usize) -> Result<(), BodyError> {
        let at = out.len();
        let most = self.block_max.min(data.len().saturating_mul(GROWTH));
        let room = most.min(limit - at);
        out.resize(at + room, 0);
        let (before, space) = out.split_at_mut(at);
        let history = if self.linked {
            &before[start.max(at.saturating_sub(HISTORY))..]
        } else {
            &[]
        };
        match decompress_into_with_dict(data, space, history) {
            Ok(len) => {
                out.truncate(at + len);
                Ok(())
            }
            Err(DecompressError::OutputTooSmall { .. }) if room < most => Err(BodyError::TooLarge { limit }),
            Err(_) => Err(BodyError::Corrupt),
        }
    }
}

fn check(stated: u32, bytes: &[u8]) -> Result<(), BodyError> {
    if stated == XxHash32::oneshot(0, bytes) {
        Ok(())
    } else {
        Err(BodyError::Corrupt)
    }
}

/// What is not read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], BodyError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(BodyError::Corrupt)?;
        self.0 = rest;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], BodyError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(BodyError::Corrupt)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn word(&mut self) -> Result<u32, BodyError> {
        self.chunk().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests;
