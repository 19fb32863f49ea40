//! From bytes as they arrive to frames: the reading half of a link.
//!
//! ```text
//! push(chunk) ──► whole frames in the chunk: slices of it ──► next_frame()
//!                 the rest: one growing buffer, as large as the frame says, never larger
//! ```
//!
//! The machine's own copy of what TCP has not finished delivering. It never reads a socket and never
//! waits; [`Reassembler::want`] tells the driver how much is missing.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use super::frame::{Frame, FrameError, LEN_WORD, PREAMBLE, frame_size};

/// Puts frames together from chunks that were cut anywhere.
///
/// A chunk that holds whole frames is not copied. What is left over is copied, so that a large read
/// buffer is not pinned by the few bytes at its end.
#[derive(Clone, Debug)]
pub struct Reassembler {
    frame_len_max: u32,
    /// Pushed and not looked at yet.
    chunks: VecDeque<Bytes>,
    /// The beginning of a frame whose end has not arrived.
    partial: Vec<u8>,
    failed: Option<FrameError>,
}

impl Reassembler {
    /// A reader at the beginning of a stream. `frame_len_max` bounds the length word, in bytes.
    #[must_use]
    pub const fn new(frame_len_max: u32) -> Self {
        Self {
            frame_len_max,
            chunks: VecDeque::new(),
            partial: Vec::new(),
            failed: None,
        }
    }

    /// Takes the next bytes of the stream. After an error they are dropped: nothing can come of them.
    pub fn push(&mut self, chunk: Bytes) {
        if self.failed.is_none() && !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// The next whole frame, or `None` until more bytes arrive.
    ///
    /// # Errors
    ///
    /// The stream is no longer one of frames. The error stays: each later call returns it again.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let next = self.next_whole().and_then(|whole| {
            whole
                .map(|bytes| Frame::parse(bytes, self.frame_len_max))
                .transpose()
        });
        if let Err(error) = next {
            self.failed = Some(error);
            self.chunks.clear();
            self.partial = Vec::new();
        }
        next
    }

    /// How many bytes the frame in progress still needs, zero between frames. Asked after
    /// [`Reassembler::next_frame`] has returned `None`; a hint for the size of the next read.
    #[must_use]
    pub fn want(&self) -> usize {
        if self.partial.is_empty() {
            return 0;
        }
        let size = frame_size(&self.partial, self.frame_len_max).ok().flatten();
        size.unwrap_or(PREAMBLE).saturating_sub(self.partial.len())
    }

    /// The bytes of the next frame, length word included.
    fn next_whole(&mut self) -> Result<Option<Bytes>, FrameError> {
        if self.partial.is_empty() {
            let Some(chunk) = self.chunks.front_mut() else {
                return Ok(None);
            };
            match frame_size(chunk, self.frame_len_max)? {
                Some(size) if size <= chunk.len() => {
                    let whole = chunk.split_to(size);
                    self.drop_if_read();
                    return Ok(Some(whole));
                }
                Some(_) | None => {}
            }
        }
        self.fill_to(LEN_WORD);
        let Some(size) = frame_size(&self.partial, self.frame_len_max)? else {
            return Ok(None);
        };
        self.fill_to(size);
        Ok((self.partial.len() == size).then(|| mem::take(&mut self.partial).into()))
    }

    /// Moves bytes from the chunks into the partial frame until it has `len` of them or no chunk is
    /// left.
    fn fill_to(&mut self, len: usize) {
        while let (Some(missing @ 1..), Some(chunk)) =
            (len.checked_sub(self.partial.len()), self.chunks.front_mut())
        {
            let part = chunk.split_to(missing.min(chunk.len()));
            reserve(&mut self.partial, part.len(), len);
            self.partial.extend_from_slice(&part);
            self.drop_if_read();
        }
    }

    fn drop_if_read(&mut self) {
        if self.chunks.front().is_some_and(Bytes::is_empty) {
            self.chunks.pop_front();
        }
    }
}

/// Makes room for `more` bytes, at least doubling but never beyond `len_max` in all.
///
/// The length a peer announces is an upper bound, not a reason to allocate: memory follows the bytes
/// that have arrived. Ending at exactly `len_max` lets the buffer become `Bytes` without a copy.
fn reserve(buffer: &mut Vec<u8>, more: usize, len_max: usize) {
    let needed = buffer.len() + more;
    if needed > buffer.capacity() {
        let target = needed.max(buffer.capacity().saturating_mul(2)).min(len_max);
        buffer.reserve_exact(target.max(needed) - buffer.len());
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::super::frame::{FRAME_LEN_MAX, HeaderForm};
    use super::*;

    fn wire(header: &[u8], body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(
            &u32::try_from(4 + header.len() + body.len())
                .unwrap()
                .to_be_bytes(),
        );
        out.extend_from_slice(&u32::try_from(header.len()).unwrap().to_be_bytes());
        out.extend_from_slice(header);
        out.extend_from_slice(body);
        out
    }

    fn drain(link: &mut Reassembler) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = link.next_frame().unwrap() {
            frames.push(frame);
        }
        frames
    }

    #[test]
    fn whole_frames_are_slices_of_the_chunk() {
        let mut bytes = wire(b"{}", b"one");
        bytes.extend(wire(b"{}", b"two"));
        let chunk = Bytes::from(bytes);
        let range = chunk.as_ptr_range();
        let mut link = Reassembler::new(FRAME_LEN_MAX);
        link.push(chunk);
        let frames = drain(&mut link);
        assert_eq!(frames.len(), 2);
        assert!(frames.iter().all(|frame| range.contains(&frame.body.as_ptr())));
    }

    #[test]
    fn want_counts_down_to_the_end_of_the_frame() {
        let mut link = Reassembler::new(FRAME_LEN_MAX);
        assert_eq!(link.want(), 0);
        let bytes = Bytes::from(wire(b"{}", b"body"));
        for (upto, want) in [(0..2, 6), (2..4, 10), (4..13, 1)] {
            link.push(bytes.slice(upto.clone()));
            assert_eq!((link.next_frame(), link.want()), (Ok(None), want), "{upto:?}");
        }
        link.push(bytes.slice(13..));
        assert_eq!(drain(&mut link).len(), 1);
        assert_eq!(link.want(), 0);
    }

    #[test]
    fn an_announced_length_alone_allocates_nothing() {
        let mut link = Reassembler::new(FRAME_LEN_MAX);
        link.push(Bytes::from_static(&[0, 0xff, 0xff, 0xfc, 0, 0, 0, 2, b'{']));
        assert_eq!(link.next_frame(), Ok(None));
        assert!(link.partial.capacity() < 64);
        assert_eq!(link.want(), 16_777_216 - 9);
    }

    #[test]
    fn an_error_stays() {
        let mut link = Reassembler::new(100);
        link.push(Bytes::from(wire(b"{}", b"")));
        link.push(Bytes::from_static(&[0, 0, 0, 101]));
        assert!(link.next_frame().unwrap().is_some());
        let error = link.next_frame().unwrap_err();
        assert!(matches!(
            error,
            FrameError::Length {
                len: 101,
                limit: 100,
                ..
            }
        ));
        link.push(Bytes::from(wire(b"{}", b"")));
        assert_eq!(link.next_frame(), Err(error));
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_frames(
            parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..200)), 0..6),
            cuts in prop::collection::vec(1..90_usize, 1..40),
            lazily in any::<bool>(),
        ) {
            let want: Vec<Frame> = parts
                .iter()
                .map(|(header, body)| Frame { form: HeaderForm::Json, header: Bytes::copy_from_slice(header), body: Bytes::copy_from_slice(body) })
                .collect();
            let mut bytes: Bytes = parts.iter().flat_map(|(header, body)| wire(header, body)).collect();
            let mut link = Reassembler::new(FRAME_LEN_MAX);
            let mut got = vec![];
            for cut in cuts.iter().cycle() {
                if bytes.is_empty() {
                    break;
                }
                link.push(bytes.split_to((*cut).min(bytes.len())));
                if !lazily {
                    got.extend(drain(&mut link));
                }
            }
            got.extend(drain(&mut link));
            prop_assert_eq!(got, want);
            prop_assert_eq!(link.want(), 0);
        }

        #[test]
        fn noise_never_panics(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8)) {
            let mut link = Reassembler::new(256);
            for chunk in chunks {
                link.push(chunk.into());
                while let Ok(Some(_)) = link.next_frame() {}
                prop_assert!(link.want() <= 260);
            }
        }
    }
}
