//! Where records are written.
//!
//! Writing may block for as long as the reader of the pipe likes, and a consumer that does not send
//! heartbeats loses its queues; so a thread of its own writes. It takes everything that is ready at
//! once, and everyone whose record was in it is told when the write is over: the slower the reader,
//! the larger the writes.

use std::future::Future;
use std::io::Write;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::{io, thread};

/// A buffer that once held more is not kept that large.
const KEPT_CAPACITY: usize = 1 << 20;

/// The writing half of a consumer.
#[derive(Debug)]
pub(crate) struct Sink {
    shared: Arc<Shared>,
}

/// The write did not happen and never will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Something is ready to be written, or nothing will ever be.
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: Vec<u8>,
    /// The number of the write that will take what is ready.
    next: u64,
    /// Writes that are over.
    done: u64,
    failed: bool,
    closed: bool,
    waiting: Vec<Waker>,
}

impl Sink {
    /// Starts the thread. `on_error` hears of the first failed write, which is also the last.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn new(
        mut out: impl Write + Send + 'static,
        on_error: impl FnOnce(io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        thread::Builder::new().name("writer".into()).spawn(move || {
            if let Err(error) = own.write_all(&mut out) {
                // Before those who wait can give up, so that nobody takes that for the end of the run.
                on_error(error);
                own.end(|state| state.failed = true);
            }
        })?;
        Ok(Self { shared })
    }

    /// Lets `fill` append to what is written next. The future ends when that has reached the file or
    /// the pipe.
    pub(crate) fn append(&self, fill: impl FnOnce(&mut Vec<u8>)) -> Written {
        let mut state = self.shared.lock();
        fill(&mut state.ready);
        self.shared.news.notify_one();
        Written {
            shared: Arc::clone(&self.shared),
            write: state.next,
        }
    }
}

impl Drop for Sink {
    /// The thread ends when it has written what is ready. Nobody waits for it: a reader that does not
    /// read must not keep a process alive.
    fn drop(&mut self) {
        self.shared.end(|state| state.closed = true);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under this lock is one of a formatter; the bytes before it are whole records.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.news.notify_all();
        mem::take(&mut state.waiting).into_iter().for_each(Waker::wake);
    }

    /// Writes until there will be nothing more.
    fn write_all(&self, out: &mut impl Write) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            let mut state = self.lock();
            while state.ready.is_empty() && !state.closed {
                state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.ready.is_empty() {
                return Ok(());
            }
            mem::swap(&mut buffer, &mut state.ready);
            state.next += 1;
            drop(state);
            out.write_all(&buffer)?;
            out.flush()?;
            buffer.clear();
            buffer.shrink_to(KEPT_CAPACITY);
            let mut state = self.lock();
            state.done += 1;
            let waiting = mem::take(&mut state.waiting);
            drop(state);
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// Ends when a write is over; made by [`Sink::append`].
#[derive(Debug)]
#[must_use = "a record is settled only after it is written"]
pub(crate) struct Written {
    shared: Arc<Shared>,
    write: u64,
}

impl Future for Written {
    type Output = Result<(), Closed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.lock();
        if state.done > self.write {
            return Poll::Ready(Ok(()));
        }
        if state.failed {
            return Poll::Ready(Err(Closed));
        }
        // Polled twice it is listed twice, which is cheaper than looking through a thousand others.
        state.waiting.push(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::task::Wake;

    use super::*;

    /// Hands each write over and goes on when told how it went.
    struct Gate {
        writes: Sender<Vec<u8>>,
        results: Receiver<io::Result<()>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes.send(bytes.to_vec()).expect("the test listens");
            self.results
                .recv()
                .expect("the test answers")
                .map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Bench {
        sink: Sink,
        writes: Receiver<Vec<u8>>,
        results: Sender<io::Result<()>>,
        errors: Receiver<io::ErrorKind>,
    }

    fn bench() -> Bench {
        let ((writes, seen), (results, told), (error, errors)) = (channel(), channel(), channel());
        let gate = Gate {
            writes,
            results: told,
        };
        let sink = Sink::new(gate, move |why| error.send(why.kind()).expect("the test listens")).unwrap();
        Bench {
            sink,
            writes: seen,
            results,
            errors,
        }
    }

    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on(mut written: Written) -> Result<(), Closed> {
        let waker = Arc::new(Unpark(thread::current())).into();
        loop {
            match Pin::new(&mut written).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }

    fn is_pending(written: &mut Written) -> bool {
        Pin::new(written)
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    }

    #[test]
    fn what_becomes_ready_during_a_write_goes_out_together() {
        let Bench {
            sink,
            writes,
            results,
            ..
        } = bench();
        let first = sink.append(|out| out.extend(b"a"));
        assert_eq!(writes.recv().unwrap(), b"a");
        let mut second = sink.append(|out| out.extend(b"b"));
        let third = sink.append(|out| out.extend(b"c"));
        results.send(Ok(())).unwrap();
        assert_eq!(block_on(first), Ok(()));
        assert_eq!(writes.recv().unwrap(), b"bc");
        assert!(is_pending(&mut second), "its write is not over");
        results.send(Ok(())).unwrap();
        assert_eq!((block_on(second), block_on(third)), (Ok(()), Ok(())));
    }

    #[test]
    fn a_failed_write_is_the_last_one_and_everyone_hears_of_it() {
        let Bench {
            sink,
            writes,
            results,
            errors,
        } = bench();
        let first = sink.append(|out| out.extend(b"a"));
        writes.recv().unwrap();
        let second = sink.append(|out| out.extend(b"b"));
        results.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        assert_eq!((block_on(first), block_on(second)), (Err(Closed), Err(Closed)));
        assert_eq!(errors.recv().unwrap(), io::ErrorKind::BrokenPipe);
        assert_eq!(block_on(sink.append(|out| out.extend(b"c"))), Err(Closed));
        assert!(writes.recv().is_err(), "nothing was written after it");
    }

    #[test]
    fn what_is_ready_is_written_even_when_the_sink_is_dropped() {
        let Bench {
            sink,
            writes,
            results,
            ..
        } = bench();
        let written = sink.append(|out| out.extend(b"a"));
        drop(sink);
        results.send(Ok(())).unwrap();
        assert_eq!(writes.recv().unwrap(), b"a");
        assert_eq!(block_on(written), Ok(()));
    }
}
