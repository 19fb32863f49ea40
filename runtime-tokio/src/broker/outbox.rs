use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Above this many waiting bytes nothing more is read from a client: who does not read its answers gets no
/// further ones by asking.
const FULL: usize = 4 << 20;

/// Above this many a client is cut off. It gets there only by what it has asked for at once: a thousand pulls
/// with as much as a broker gives in each.
const LIMIT: usize = 256 << 20;

/// When this many wait for all clients together, those for whom more than [`FULL`] waits are cut off one after
/// the other. A hundred that ask and do not read would need 25 GiB otherwise.
const LIMIT_OF_ALL: usize = 1 << 30;

/// Bytes that wait for all clients of a cluster.
#[derive(Debug, Default)]
pub(super) struct Waiting(AtomicUsize);

/// The frames that wait for one client, between the driver and its writer.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// What waits here is counted there too.
    all: Arc<Waiting>,
    /// For the writer: there are frames, or there will be none any more.
    frames: Notify,
    /// For the reader: there is room again, or nothing is to be read any more.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Bytes>,
    /// What waits here and what the writer has taken and not written yet.
    bytes: usize,
    closed: bool,
}

/// The client does not read, and too much waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

impl Outbox {
    /// An empty one among others.
    pub(super) fn among(all: &Arc<Waiting>) -> Self {
        let mut outbox = Self::default();
        outbox.all = Arc::clone(all);
        outbox
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// Too much waits already.
    pub(super) fn push(&self, frame: Bytes) -> Result<(), Overflow> {
        let mut state = self.lock();
        if state.closed {
            return Ok(());
        }
        let bytes = state.bytes + frame.len();
        let is_crowded = bytes > FULL && self.all.0.load(Ordering::Relaxed) + frame.len() > LIMIT_OF_ALL;
        // One frame is always taken, however large it is.
        if state.bytes > 0 && (bytes > LIMIT || is_crowded) {
            return Err(Overflow);
        }
        state.bytes = bytes;
        self.all.0.fetch_add(frame.len(), Ordering::Relaxed);
        state.frames.push_back(frame);
        drop(state);
        self.frames.notify_one();
        Ok(())
    }

    /// Everything that waits, for the writer; `None` when there will be nothing any more.
    pub(super) async fn take(&self) -> Option<VecDeque<Bytes>> {
        loop {
            {
                let mut state = self.lock();
                if !state.frames.is_empty() {
                    return Some(mem::take(&mut state.frames));
                }
                if state.closed {
                    return None;
                }
            }
            self.frames.notified().await;
        }
    }

    /// Notes that the writer has written so many bytes.
    pub(super) fn written(&self, bytes: usize) {
        let mut state = self.lock();
        let was_full = state.bytes > FULL;
        let written = bytes.min(state.bytes);
        state.bytes -= written;
        self.all.0.fetch_sub(written, Ordering::Relaxed);
        if was_full && state.bytes <= FULL {
            drop(state);
            self.room.notify_one();
        }
    }

    /// Waits until something may be read from the client. False when nothing is to be read any more.
    pub(super) async fn room(&self) -> bool {
        loop {
            {
                let state = self.lock();
                if state.closed {
                    return false;
                }
                if state.bytes <= FULL {
                    return true;
                }
            }
            self.room.notified().await;
        }
    }

    /// Takes no further frames. The writer still gets those that wait.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.frames.notify_one();
        self.room.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outbox {
    /// What was not written waits no more.
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.all.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_writer_gets_everything_at_once_and_the_rest_after_the_end() {
        let outbox = Outbox::default();
        assert_eq!(now(outbox.take()), None);
        outbox.push(Bytes::from_static(b"a")).unwrap();
        outbox.push(Bytes::from_static(b"b")).unwrap();
        assert_eq!(now(outbox.take()).unwrap().unwrap(), ["a", "b"]);
        outbox.push(Bytes::from_static(b"c")).unwrap();
        outbox.close();
        outbox.push(Bytes::from_static(b"d")).unwrap();
        assert_eq!(now(outbox.take()).unwrap().unwrap(), ["c"]);
        assert_eq!(now(outbox.take()), Some(None));
    }

    #[test]
    fn a_client_that_does_not_read_is_not_read_from() {
        let outbox = Outbox::default();
        outbox.push(vec![0; FULL].into()).unwrap();
        assert_eq!(now(outbox.room()), Some(true));
        outbox.push(Bytes::from_static(b"x")).unwrap();
        assert_eq!(now(outbox.room()), None);
        // What the writer has taken is not written yet.
        now(outbox.take()).unwrap().unwrap();
        assert_eq!(now(outbox.room()), None);
        outbox.written(1);
        assert_eq!(now(outbox.room()), Some(true));
        outbox.close();
        assert_eq!(now(outbox.room()), Some(false));
    }

    #[test]
    fn what_waits_has_a_limit_and_a_single_frame_none() {
        let outbox = Outbox::default();
        let half = Bytes::from(vec![0; LIMIT / 2]);
        assert_eq!(outbox.push(half.clone()), Ok(()));
        assert_eq!(outbox.push(half.clone()), Ok(()));
        assert_eq!(outbox.push(Bytes::from_static(b"x")), Err(Overflow));
        now(outbox.take()).unwrap().unwrap();
        assert_eq!(outbox.push(half), Err(Overflow), "taken is not written");
        outbox.written(LIMIT);
        assert_eq!(outbox.push(vec![0; LIMIT + 1].into()), Ok(()));
    }

    #[test]
    fn what_waits_for_all_together_has_a_limit() {
        let all = Arc::default();
        let quarter = Bytes::from(vec![0; LIMIT]);
        let many: Vec<Outbox> = (0..5).map(|_| Outbox::among(&all)).collect();
        for outbox in &many {
            assert_eq!(outbox.push(quarter.clone()), Ok(()), "the first frame");
        }
        let modest = Outbox::among(&all);
        for _ in 0..2 {
            assert_eq!(modest.push(vec![0; FULL / 2].into()), Ok(()));
        }
        assert_eq!(modest.push(Bytes::from_static(b"x")), Err(Overflow));
        drop(many);
        assert_eq!(modest.push(Bytes::from_static(b"x")), Ok(()));
        modest.written(FULL + 1);
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }
}
