//! A blocking socket as tasks see it: one thread reads, one writes, and a pipe is between each of them and the task.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};

/// Bytes that may wait in a pipe. Whoever finds it full waits, and so does the peer in the end.
const ROOM: usize = 64 << 10;

/// How long a peer may take nothing of what is written to it.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Socket {
    stream: TcpStream,
    input: Arc<Pipe>,
    output: Arc<Pipe>,
}

impl Socket {
    pub(crate) fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (input, output) = (Arc::<Pipe>::default(), Arc::<Pipe>::default());
        let (mut from, filled) = (stream.try_clone()?, Arc::clone(&input));
        thread::spawn(move || {
            let mut buffer = vec![0; ROOM];
            let how = loop {
                match from.read(&mut buffer) {
                    Ok(0) => break End::Clean,
                    Ok(read) if filled.push(&buffer[..read]) => {}
                    Ok(_) => return,
                    Err(error) => break End::Broken(error.kind()),
                }
            };
            filled.end(how);
        });
        let (mut to, emptied) = (stream.try_clone()?, Arc::clone(&output));
        thread::spawn(move || {
            let mut buffer = vec![0; ROOM];
            loop {
                let taken = emptied.pop(&mut buffer);
                if taken == 0 {
                    // Everything is written. The client may have gone already.
                    let _gone = to.shutdown(Shutdown::Write);
                    return;
                }
                if let Err(error) = to.write_all(&buffer[..taken]) {
                    return emptied.end(End::Broken(error.kind()));
                }
            }
        });
        Ok(Self {
            stream,
            input,
            output,
        })
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.input.poll_pop(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.output.poll_push(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.end(End::Clean);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Socket {
    /// What was written still goes out; nothing is read any more, which ends the thread that waits for it.
    fn drop(&mut self) {
        self.output.end(End::Clean);
        self.input.end(End::Clean);
        let _gone = self.stream.shutdown(Shutdown::Read);
    }
}

#[derive(Clone, Copy)]
enum End {
    Clean,
    Broken(io::ErrorKind),
}

/// Bytes between a thread that blocks and a task that is polled.
#[derive(Default)]
struct Pipe {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    end: Option<End>,
    task: Option<Waker>,
}

impl Pipe {
    /// Blocks until all is in; false if the task has gone.
    fn push(&self, bytes: &[u8]) -> bool {
        let is_full = |state: &mut State| state.end.is_none() && state.bytes.len() >= ROOM;
        let waited = self.changed.wait_while(self.lock(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes.extend(bytes);
        state.task.take().into_iter().for_each(Waker::wake);
        state.end.is_none()
    }

    /// Blocks until there is something; nothing at the end.
    fn pop(&self, buffer: &mut [u8]) -> usize {
        let is_empty = |state: &mut State| state.end.is_none() && state.bytes.is_empty();
        let waited = self.changed.wait_while(self.lock(), is_empty);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.task.take().into_iter().for_each(Waker::wake);
        state.bytes.read(buffer).unwrap_or_default()
    }

    fn poll_pop(&self, cx: &Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        match state.end {
            _ if !state.bytes.is_empty() => {
                self.changed.notify_one();
                Poll::Ready(state.bytes.read(buffer))
            }
            Some(End::Clean) => Poll::Ready(Ok(0)),
            Some(End::Broken(kind)) => Poll::Ready(Err(kind.into())),
            None => {
                state.task = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn poll_push(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        match state.end {
            Some(End::Clean) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Some(End::Broken(kind)) => Poll::Ready(Err(kind.into())),
            None if state.bytes.len() >= ROOM => {
                state.task = Some(cx.waker().clone());
                Poll::Pending
            }
            None => {
                let taken = bytes.len().min(ROOM - state.bytes.len());
                state.bytes.extend(&bytes[..taken]);
                self.changed.notify_one();
                Poll::Ready(Ok(taken))
            }
        }
    }

    /// Nothing more comes; the first end is the one that counts.
    fn end(&self, how: End) {
        let mut state = self.lock();
        state.end.get_or_insert(how);
        self.changed.notify_one();
        state.task.take().into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
