//! zstd frames (RFC 8878).

use alloc::vec::Vec;

use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::BodyError;

/// The first of sixteen magic numbers that say: skip me.
const SKIPPABLE: u32 = 0x184D_2A50;

/// Opens a sequence of frames; skippable ones are skipped.
pub(super) fn decompress(stored: &[u8], limit: usize) -> Result<Vec<u8>, BodyError> {
    let mut input = stored;
    let mut out = Vec::new();
    while !input.is_empty() {
        match skippable(input) {
            Some(rest) => input = rest.ok_or(BodyError::Corrupt)?,
            None => frame(&mut input, &mut out, limit)?,
        }
    }
    Ok(out)
}

/// If a skippable frame is next: what lies behind it, unless it is cut.
fn skippable(input: &[u8]) -> Option<Option<&[u8]>> {
    let (magic, rest) = input.split_first_chunk()?;
    if u32::from_le_bytes(*magic) & !0xF != SKIPPABLE {
        return None;
    }
    Some(rest.split_first_chunk().and_then(|(len, rest)| {
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        rest.get(len..)
    }))
}

/// Opens one frame.
fn frame(input: &mut &[u8], out: &mut Vec<u8>, limit: usize) -> Result<(), BodyError> {
    let too_large = BodyError::TooLarge { limit };
    let room = limit - out.len();
    // The decoder's memory grows with what it makes, not with the window a header claims.
    let mut decoder = FrameDecoder::new();
    decoder.init(&mut *input).map_err(|error| {
        if matches!(error, FrameDecoderError::WindowSizeTooBig { .. }) {
            too_large
        } else {
            BodyError::Corrupt
        }
    })?;
    // 0 where the header does not say.
    let stated = decoder.content_size();
    if stated > room as u64 {
        return Err(too_large);
    }
    let one_too_many = BlockDecodingStrategy::UptoBytes(room.saturating_add(1));
    let ended = decoder
        .decode_blocks(&mut *input, one_too_many)
        .map_err(|_| BodyError::Corrupt)?;
    if !ended {
        return Err(too_large);
    }
    let content = decoder.collect().unwrap_or_default();
    if content.len() > room {
        return Err(too_large);
    }
    let checksum = decoder.get_checksum_from_data();
    if checksum.is_some() && checksum != decoder.get_calculated_checksum()
        || stated > 0 && stated != content.len() as u64
    {
        return Err(BodyError::Corrupt);
    }
    if out.is_empty() {
        *out = content;
    } else {
        out.extend_from_slice(&content);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
