use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures_io::AsyncWrite;

/// Frames in one system call; more than a busy link ever has waiting.
const SLICES: usize = 32;

/// Frames that wait to be written, in order. Whoever pushes them bounds their bytes: it learns of every byte that
/// has left.
#[derive(Default)]
pub(crate) struct WriteQueue {
    frames: VecDeque<Bytes>,
    unflushed: bool,
}

impl WriteQueue {
    pub(crate) fn push(&mut self, frame: Bytes) {
        if !frame.is_empty() {
            self.frames.push_back(frame);
        }
    }

    /// Whether nothing waits.
    #[cfg(feature = "broker")]
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Writes what the socket takes in one go and says how many bytes that was; pending as well when
    /// nothing waits.
    pub(crate) fn poll_write(
        &mut self,
        mut socket: Pin<&mut impl AsyncWrite>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u32>> {
        if self.frames.is_empty() {
            if self.unflushed {
                ready!(socket.poll_flush(cx))?;
                self.unflushed = false;
            }
            return Poll::Pending;
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        for (slice, frame) in slices.iter_mut().zip(&self.frames) {
            *slice = IoSlice::new(frame);
        }
        let filled = self.frames.len().min(SLICES);
        let written = ready!(socket.as_mut().poll_write_vectored(cx, &slices[..filled]))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.unflushed = true;
        self.advance(written);
        Poll::Ready(Ok(u32::try_from(written).unwrap_or(u32::MAX)))
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(frame) = self.frames.front_mut().filter(|_| written > 0) {
            let taken = frame.len().min(written);
            frame.advance(taken);
            written -= taken;
            if frame.is_empty() {
                self.frames.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sink;

    #[test]
    fn frames_leave_in_order_however_little_the_socket_takes() {
        for step in [1, 3, 7, 1_000] {
            let mut queue = WriteQueue::default();
            for frame in ["first", "", "second", "third"] {
                queue.push(Bytes::from_static(frame.as_bytes()));
            }
            let mut socket = Sink::new(step);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let mut sent = 0;
            while let Poll::Ready(written) = queue.poll_write(Pin::new(&mut socket), &mut cx) {
                sent += written.unwrap();
            }
            assert_eq!((sent, socket.taken.as_slice()), (16, &b"firstsecondthird"[..]));
            assert!(socket.flushed);
        }
    }
}
