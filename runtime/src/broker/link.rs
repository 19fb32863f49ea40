//! The task of one connection: hands what comes to the driver, and writes what the driver has for the client.
//!
//! ```text
//!  Open ──end of stream, error, closed──► Telling ──told──► Ignoring ──end of stream, error──► Ended
//! ```

use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_channel::mpsc;
use futures_io::{AsyncRead as _, AsyncWrite as _};
use rocketmq_consumer_core::ids::ConnId;

use super::outbox::{Outbox, Room};
use crate::runtime::Runtime;
use crate::writer::WriteQueue;

/// Bytes of one read: at first, and of a client that sends much. Ten thousand that only listen need 40 MiB.
const READ_MIN: usize = 4 << 10;
const READ_MAX: usize = 64 << 10;

/// Reads, and writes, in one turn, before others have theirs.
const BUDGET: usize = 16;

/// How long a connection that is closed may take to write what waits.
const LINGER: Duration = Duration::from_secs(1);

/// What connections tell the driver.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// Bytes have come.
    Received {
        /// From where.
        conn: ConnId,
        /// What.
        bytes: Bytes,
    },
    /// The client has closed it, or it broke.
    Closed {
        /// Which one.
        conn: ConnId,
    },
}

pub(super) struct Link<R: Runtime> {
    runtime: R,
    conn: ConnId,
    socket: R::Socket,
    outbox: Arc<Outbox>,
    events: mpsc::Sender<LinkEvent>,
    buffer: Vec<u8>,
    writer: WriteQueue,
    input: Input,
    /// Whether something can still be written.
    is_writable: bool,
    linger: Option<Pin<Box<R::Sleep>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    /// The driver has to hear that nothing more comes.
    Telling,
    /// A socket that is closed with unread input is reset, and the client would lose what was written to it last. So
    /// what it still sends is read and thrown away.
    Ignoring,
    Ended,
}

/// The driver has gone.
struct Gone;

impl<R: Runtime> Link<R> {
    pub(super) fn new(
        runtime: R,
        conn: ConnId,
        socket: R::Socket,
        outbox: Arc<Outbox>,
        events: mpsc::Sender<LinkEvent>,
    ) -> Self {
        Self {
            runtime,
            conn,
            socket,
            outbox,
            events,
            buffer: vec![0; READ_MIN],
            writer: WriteQueue::default(),
            input: Input::Open,
            is_writable: true,
            linger: None,
        }
    }

    /// Works until both directions have ended, or the driver cuts it off.
    pub(super) async fn run(mut self) {
        poll_fn(|cx| self.turn(cx)).await;
    }

    /// Writes first: what is written makes room for reading.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outbox.register(cx.waker());
        if self.outbox.is_cut() {
            return Poll::Ready(());
        }
        let mut more = self.write(cx);
        match self.read(cx) {
            Ok(more_to_read) => more |= more_to_read,
            Err(Gone) => return Poll::Ready(()),
        }
        let is_over = self.input == Input::Ended && !self.is_writable;
        if is_over || self.poll_linger(cx).is_ready() {
            return Poll::Ready(());
        }
        if more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Whether more could be written at once.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..BUDGET {
            if !self.is_writable {
                return false;
            }
            match self.poll_write(cx) {
                Poll::Pending => return false,
                Poll::Ready(Ok(goes_on)) => self.is_writable = goes_on,
                Poll::Ready(Err(_)) => {
                    self.is_writable = false;
                    self.outbox.close();
                }
            }
        }
        true
    }

    /// Writes something; false after the last byte.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut goes_on = true;
        if self.writer.is_empty() {
            goes_on = self.outbox.take(&mut self.writer);
        }
        if !goes_on {
            ready!(Pin::new(&mut self.socket).poll_close(cx))?;
            return Poll::Ready(Ok(false));
        }
        let written = ready!(self.writer.poll_write(Pin::new(&mut self.socket), cx))?;
        self.outbox.written(written as usize);
        Poll::Ready(Ok(true))
    }

    /// Whether more could be read at once.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Gone> {
        for _ in 0..BUDGET {
            let next = match self.input {
                Input::Open => self.poll_hand_over(cx),
                Input::Telling => self.poll_tell(cx),
                Input::Ignoring => self.poll_ignore(cx).map(Ok),
                Input::Ended => return Ok(false),
            };
            match next {
                Poll::Pending => return Ok(false),
                Poll::Ready(next) => self.input = next?,
            }
        }
        Ok(true)
    }

    /// Reads only what the driver has room for.
    fn poll_hand_over(&mut self, cx: &mut Context<'_>) -> Poll<Result<Input, Gone>> {
        match self.outbox.room() {
            // It is this task that writes, so it will look again.
            Room::Full => return Poll::Pending,
            Room::Closed => return Poll::Ready(Ok(Input::Telling)),
            Room::Yes => {}
        }
        ready!(self.events.poll_ready(cx)).map_err(|_| Gone)?;
        let read = match ready!(Pin::new(&mut self.socket).poll_read(cx, &mut self.buffer)) {
            Ok(0) | Err(_) => return Poll::Ready(Ok(Input::Telling)),
            Ok(read) => read,
        };
        // Copied, so that nothing pins more than what came.
        let bytes = Bytes::copy_from_slice(self.buffer.get(..read).unwrap_or_default());
        if read == self.buffer.len() && read < READ_MAX {
            // It was too small for what had arrived: fewer system calls from now on.
            self.buffer.resize(read * 2, 0);
        }
        let conn = self.conn;
        let sent = self.events.start_send(LinkEvent::Received { conn, bytes });
        Poll::Ready(sent.map(|()| Input::Open).map_err(|_| Gone))
    }

    fn poll_tell(&mut self, cx: &mut Context<'_>) -> Poll<Result<Input, Gone>> {
        ready!(self.events.poll_ready(cx)).map_err(|_| Gone)?;
        let sent = self.events.start_send(LinkEvent::Closed { conn: self.conn });
        Poll::Ready(sent.map(|()| Input::Ignoring).map_err(|_| Gone))
    }

    fn poll_ignore(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        let read = ready!(Pin::new(&mut self.socket).poll_read(cx, &mut self.buffer));
        Poll::Ready(match read {
            Ok(0) | Err(_) => Input::Ended,
            Ok(_) => Input::Ignoring,
        })
    }

    /// Ready when a connection that was closed has had its time. A driver that has not heard of the end yet may still
    /// have answers.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let was_told = matches!(self.input, Input::Ignoring | Input::Ended);
        if !was_told || self.outbox.room() != Room::Closed {
            return Poll::Pending;
        }
        let runtime = &self.runtime;
        let linger = self
            .linger
            .get_or_insert_with(|| Box::pin(runtime.sleep_until(runtime.now() + LINGER)));
        linger.as_mut().poll(cx)
    }
}
