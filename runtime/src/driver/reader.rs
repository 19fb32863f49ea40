use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_io::AsyncRead;
use rocketmq_consumer_core::wire::frame::frame_size;

/// What a fresh connection reads into; name servers and quiet brokers never need more.
const BUFFER_MIN: usize = 8 << 10;

/// Larger frames get a buffer of their own, so this is all a connection holds on to.
const BUFFER_MAX: usize = 64 << 10;

/// Cuts what a socket gives into frames, each in a buffer of exactly its size.
///
/// A message pins its frame and nothing else, so a frame is copied out of the read buffer once; one
/// that does not fit there is read straight into its own.
pub(crate) struct FrameReader {
    buffer: Vec<u8>,
    /// `buffer[start..end]` was read and not cut yet.
    start: usize,
    end: usize,
    large: Option<Large>,
    frame_len_max: u32,
}

/// A frame on its way into its own buffer.
struct Large {
    frame: Vec<u8>,
    filled: usize,
}

impl FrameReader {
    /// `frame_len_max`: largest legal length word, in bytes.
    pub(crate) const fn new(frame_len_max: u32) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            large: None,
            frame_len_max,
        }
    }

    /// Whether a frame has begun and not ended.
    pub(crate) const fn is_within_frame(&self) -> bool {
        self.start < self.end || self.large.is_some()
    }

    /// The next complete frame that was read already.
    ///
    /// Bytes that are no frame come out as they are and all at once: what a peer did wrong is not for
    /// the driver to say.
    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        if let Some(Large { frame, .. }) = self.large.take_if(|large| large.filled == large.frame.len()) {
            return Some(Bytes::from(frame));
        }
        let unread = &self.buffer[self.start..self.end];
        let size = match frame_size(unread, self.frame_len_max) {
            Ok(size) => size?,
            Err(_) => unread.len(),
        };
        if size <= unread.len() {
            let frame = Bytes::copy_from_slice(&unread[..size]);
            self.start += size;
            return Some(frame);
        }
        if size > BUFFER_MAX {
            // `frame_size` has compared it with `frame_len_max`. Zeroed pages cost nothing until the
            // peer really fills them.
            let mut frame = vec![0; size];
            let filled = unread.len();
            frame[..filled].copy_from_slice(unread);
            (self.start, self.end) = (0, 0);
            self.large = Some(Large { frame, filled });
        } else if size > self.buffer.len() {
            self.grow(size);
        }
        None
    }

    /// Reads once; 0 is the end of the stream. Call when [`Self::next_frame`] has nothing more.
    pub(crate) fn poll_read(
        &mut self,
        socket: Pin<&mut impl AsyncRead>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Some(large) = &mut self.large {
            let read = ready!(socket.poll_read(cx, &mut large.frame[large.filled..]))?;
            large.filled += read;
            return Poll::Ready(Ok(read));
        }
        self.make_room();
        let read = ready!(socket.poll_read(cx, &mut self.buffer[self.end..]))?;
        self.end += read;
        if self.end == self.buffer.len() {
            // It was too small for what had arrived: fewer system calls from now on.
            self.grow(self.buffer.len() * 2);
        }
        Poll::Ready(Ok(read))
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.grow(self.end + 1);
        }
    }

    fn grow(&mut self, wanted: usize) {
        let len = wanted.next_power_of_two().clamp(BUFFER_MIN, BUFFER_MAX);
        if len > self.buffer.len() {
            self.buffer.resize(len, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Chunks, frame};

    const MAX: u32 = 1 << 20;

    /// Feeds `bytes` in pieces of `step` and collects what comes out until nothing moves.
    fn cut(bytes: &[u8], step: usize) -> (Vec<Bytes>, FrameReader) {
        let mut reader = FrameReader::new(MAX);
        let mut socket = Chunks::new(bytes, step);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut frames = Vec::new();
        loop {
            frames.extend(std::iter::from_fn(|| reader.next_frame()));
            match reader.poll_read(Pin::new(&mut socket), &mut cx) {
                Poll::Ready(Ok(0)) | Poll::Pending => return (frames, reader),
                Poll::Ready(read) => assert!(read.unwrap() > 0),
            }
        }
    }

    #[test]
    fn any_split_of_the_bytes_gives_the_same_exact_frames() {
        let sizes = [0, 1, 100, 8_000, 8_188, 8_189, 30_000, 65_532, 65_533, 200_000, 7];
        let frames: Vec<Bytes> = (0u8..).zip(sizes).map(|(fill, len)| frame(len, fill)).collect();
        let stream = frames.concat();
        for step in [1, 3, 4_096, 65_536, usize::MAX] {
            let (cut, reader) = cut(&stream, step);
            assert!(
                cut == frames,
                "step {step}: {:?}",
                cut.iter().map(Bytes::len).collect::<Vec<_>>()
            );
            assert!(!reader.is_within_frame() && reader.buffer.len() <= BUFFER_MAX);
        }
    }

    #[test]
    fn half_a_frame_waits_for_the_other_half() {
        for len in [10, 50_000, 300_000] {
            let whole = frame(len, 1);
            for kept in [2, 5, whole.len() - 1] {
                let (frames, reader) = cut(&whole[..kept], usize::MAX);
                assert!(frames.is_empty() && reader.is_within_frame());
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_handed_over_as_it_is_and_nothing_is_allocated_for_it() {
        for garbage in [&b"HTTP/1.1 400 Bad Request"[..], &[0xFF; 9], &[0, 0, 0, 0, 1]] {
            let good = frame(5, 9);
            let (frames, reader) = cut(&[&good, garbage].concat(), usize::MAX);
            assert_eq!(frames, [good, Bytes::copy_from_slice(garbage)]);
            assert_eq!(reader.buffer.len(), BUFFER_MIN);
        }
    }
}
