use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use atomic_waker::AtomicWaker;
use bytes::Bytes;

use crate::sync::lock;
use crate::writer::WriteQueue;

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

/// The frames that wait for one client, between the driver and the task of its connection.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// What waits here is counted there too.
    all: Arc<Waiting>,
    /// The task of the connection.
    task: AtomicWaker,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Bytes>,
    /// What waits here and what the connection has taken and not written yet.
    bytes: usize,
    closed: bool,
    cut: bool,
}

/// The client does not read, and too much waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

/// Whether something may be read from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Yes.
    Yes,
    /// Not before it has read what waits for it.
    Full,
    /// Never again: no frame is taken any more.
    Closed,
}

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
        let mut state = lock(&self.state);
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
        let was_empty = state.frames.is_empty();
        state.frames.push_back(frame);
        drop(state);
        // Whoever put the first one there has woken the task, and it has taken nothing since.
        if was_empty {
            self.task.wake();
        }
        Ok(())
    }

    /// Whom to wake when there are frames, or the end has come. Call before looking for them.
    pub(super) fn register(&self, task: &Waker) {
        self.task.register(task);
    }

    /// Hands everything that waits to the writer. False when there will be nothing any more.
    pub(super) fn take(&self, writer: &mut WriteQueue) -> bool {
        let mut state = lock(&self.state);
        let is_over = state.closed && state.frames.is_empty();
        state.frames.drain(..).for_each(|frame| writer.push(frame));
        !is_over
    }

    /// Notes that so many bytes have been written.
    pub(super) fn written(&self, bytes: usize) {
        let mut state = lock(&self.state);
        let written = bytes.min(state.bytes);
        state.bytes -= written;
        self.all.0.fetch_sub(written, Ordering::Relaxed);
    }

    /// Whether something may be read from the client. Room is made by [`Self::written`] alone.
    pub(super) fn room(&self) -> Room {
        let state = lock(&self.state);
        match (state.closed, state.bytes <= FULL) {
            (true, _) => Room::Closed,
            (false, true) => Room::Yes,
            (false, false) => Room::Full,
        }
    }

    /// Takes no further frames. Those that wait are still written.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.task.wake();
    }

    /// Ends the connection, whatever waits.
    pub(super) fn cut(&self) {
        {
            let mut state = lock(&self.state);
            (state.closed, state.cut) = (true, true);
        }
        self.task.wake();
    }

    /// Whether the connection has to end at once.
    pub(super) fn is_cut(&self) -> bool {
        lock(&self.state).cut
    }
}

impl Drop for Outbox {
    /// What was not written waits no more.
    fn drop(&mut self) {
        let bytes = lock(&self.state).bytes;
        self.all.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use super::*;
    use crate::testing::Sink;

    /// What a writer gets that takes everything.
    fn taken(outbox: &Outbox) -> (bool, String) {
        let (mut writer, mut sink) = (WriteQueue::default(), Sink::new(usize::MAX));
        let goes_on = outbox.take(&mut writer);
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(written) = writer.poll_write(Pin::new(&mut sink), &mut cx) {
            written.unwrap();
        }
        (goes_on, String::from_utf8(sink.taken).unwrap())
    }

    fn taken_unwritten(outbox: &Outbox) {
        assert!(outbox.take(&mut WriteQueue::default()));
    }

    #[test]
    fn the_writer_gets_everything_at_once_and_the_rest_after_the_end() {
        let outbox = Outbox::default();
        assert_eq!(taken(&outbox), (true, String::new()));
        outbox.push(Bytes::from_static(b"a")).unwrap();
        outbox.push(Bytes::from_static(b"b")).unwrap();
        assert_eq!(taken(&outbox), (true, "ab".to_owned()));
        outbox.push(Bytes::from_static(b"c")).unwrap();
        outbox.close();
        outbox.push(Bytes::from_static(b"d")).unwrap();
        assert_eq!(taken(&outbox), (true, "c".to_owned()));
        assert_eq!(taken(&outbox), (false, String::new()));
        assert!(!outbox.is_cut());
        outbox.cut();
        assert!(outbox.is_cut());
    }

    #[test]
    fn a_client_that_does_not_read_is_not_read_from() {
        let outbox = Outbox::default();
        outbox.push(vec![0; FULL].into()).unwrap();
        assert_eq!(outbox.room(), Room::Yes);
        outbox.push(Bytes::from_static(b"x")).unwrap();
        assert_eq!(outbox.room(), Room::Full);
        // What the writer has taken is not written yet.
        taken_unwritten(&outbox);
        assert_eq!(outbox.room(), Room::Full);
        outbox.written(1);
        assert_eq!(outbox.room(), Room::Yes);
        outbox.close();
        assert_eq!(outbox.room(), Room::Closed);
    }

    #[test]
    fn what_waits_has_a_limit_and_a_single_frame_none() {
        let outbox = Outbox::default();
        let half = Bytes::from(vec![0; LIMIT / 2]);
        assert_eq!(outbox.push(half.clone()), Ok(()));
        assert_eq!(outbox.push(half.clone()), Ok(()));
        assert_eq!(outbox.push(Bytes::from_static(b"x")), Err(Overflow));
        taken_unwritten(&outbox);
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
