use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_io::{AsyncRead, AsyncWrite};
use rocketmq_consumer_core::event::{NetCause, NetEvent};
use rocketmq_consumer_core::ids::ConnId;
use rocketmq_consumer_core::time::Instant;

use crate::driver::reader::FrameReader;
use crate::writer::WriteQueue;

/// While a large frame trickles in, the machine hears this often that the link is not silent.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

type Attempt<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// One life of a connection. Says what happens to it, one event at a time, and decides nothing: when to
/// connect, give up or close is the machine's business.
pub(crate) struct Conn<S> {
    id: ConnId,
    phase: Phase<S>,
}

enum Phase<S> {
    LookingUp(Attempt<Vec<IpAddr>>),
    Connecting(Attempt<S>),
    /// Refused before anything was tried.
    Failed(NetCause),
    Open(Box<Open<S>>),
    Over,
}

struct Open<S> {
    socket: S,
    reader: FrameReader,
    writer: WriteQueue,
    heard: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conn<S> {
    /// A connection whose address is being looked up.
    pub(crate) fn looking_up(
        id: ConnId,
        lookup: impl Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    ) -> Self {
        Self {
            id,
            phase: Phase::LookingUp(Box::pin(lookup)),
        }
    }

    /// A connection that is being made.
    pub(crate) fn connecting(
        id: ConnId,
        attempt: impl Future<Output = io::Result<S>> + Send + 'static,
    ) -> Self {
        Self {
            id,
            phase: Phase::Connecting(Box::pin(attempt)),
        }
    }

    /// A connection that cannot be tried.
    pub(crate) const fn failed(id: ConnId, cause: NetCause) -> Self {
        Self {
            id,
            phase: Phase::Failed(cause),
        }
    }

    /// Queues a frame. Frames for a connection that does not stand are dropped: the machine sends
    /// only after `Connected`, and hears of an end by `Closed`.
    pub(crate) fn send(&mut self, frame: Bytes) {
        if let Phase::Open(open) = &mut self.phase {
            open.writer.push(frame);
        }
    }

    /// Whether its last event has been given.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// The next thing that happens to it. Writes come first, so that a peer that talks without end is
    /// still answered.
    pub(crate) fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        frame_len_max: u32,
    ) -> Poll<NetEvent> {
        let conn = self.id;
        let (next, event) = match &mut self.phase {
            Phase::Over => return Poll::Pending,
            Phase::Failed(cause) => (Phase::Over, NetEvent::ConnectFailed { conn, cause: *cause }),
            Phase::LookingUp(lookup) => match lookup.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(found) => {
                    // A resolver that fails and a name that nobody knows are the same to the caller.
                    let found = found.unwrap_or_default();
                    let addresses: Arc<[_]> =
                        found.iter().map(|ip| ip.to_string().into_boxed_str()).collect();
                    (Phase::Over, NetEvent::Resolved { conn, addresses })
                }
            },
            Phase::Connecting(attempt) => match attempt.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(socket)) => {
                    let (reader, writer) = (FrameReader::new(frame_len_max), WriteQueue::default());
                    let open = Box::new(Open {
                        socket,
                        reader,
                        writer,
                        heard: now,
                    });
                    (Phase::Open(open), NetEvent::Connected { conn })
                }
                Poll::Ready(Err(error)) => (
                    Phase::Over,
                    NetEvent::ConnectFailed {
                        conn,
                        cause: cause_of(&error),
                    },
                ),
            },
            Phase::Open(open) => match open.poll_event(conn, cx, now) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(event)) => return Poll::Ready(event),
                Poll::Ready(Err(cause)) => (Phase::Over, NetEvent::Closed { conn, cause }),
            },
        };
        self.phase = next;
        Poll::Ready(event)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Open<S> {
    fn poll_event(
        &mut self,
        conn: ConnId,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<NetEvent, NetCause>> {
        if let Poll::Ready(written) = self.writer.poll_write(Pin::new(&mut self.socket), cx) {
            let sent = written.map(|bytes| NetEvent::Sent { conn, bytes });
            return Poll::Ready(sent.map_err(|error| cause_of(&error)));
        }
        loop {
            if let Some(bytes) = self.reader.next_frame() {
                self.heard = now;
                return Poll::Ready(Ok(NetEvent::Received { conn, bytes }));
            }
            match self.reader.poll_read(Pin::new(&mut self.socket), cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(NetCause::EndOfStream)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(cause_of(&error))),
                Poll::Ready(Ok(_)) if self.owes_sign_of_life(now) => {
                    self.heard = now;
                    return Poll::Ready(Ok(NetEvent::Received {
                        conn,
                        bytes: Bytes::new(),
                    }));
                }
                Poll::Ready(Ok(_)) => {}
            }
        }
    }

    /// The machine closes links from which no byte comes. It sees whole frames only, so a large one
    /// on a slow line is announced by empty pieces.
    fn owes_sign_of_life(&self, now: Instant) -> bool {
        self.reader.is_within_frame() && now.saturating_since(self.heard) >= SIGN_OF_LIFE
    }
}

/// What an I/O error means for a connection.
#[expect(clippy::wildcard_enum_match_arm, reason = "most kinds are about files")]
fn cause_of(error: &io::Error) -> NetCause {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionRefused => NetCause::Refused,
        Kind::TimedOut => NetCause::TimedOut,
        Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown | Kind::AddrNotAvailable => {
            NetCause::Unreachable
        }
        Kind::UnexpectedEof => NetCause::EndOfStream,
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe | Kind::WriteZero => {
            NetCause::Reset
        }
        _ => NetCause::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Chunks, frame};
    use std::future::ready;
    use std::task::Waker;

    const CONN: ConnId = ConnId {
        slot: 0,
        generation: 1,
    };

    #[test]
    fn a_large_frame_on_a_slow_line_shows_signs_of_life() {
        let whole: &'static [u8] = Vec::leak(frame(300_000, 1).to_vec());
        let mut conn = Conn::connecting(CONN, ready(Ok(Chunks::new(whole, 1_000))));
        let mut cx = Context::from_waker(Waker::noop());
        let mut at =
            |conn: &mut Conn<_>, millis| conn.poll_event(&mut cx, Instant::from_millis(millis), 1 << 20);
        let received = |bytes| Poll::Ready(NetEvent::Received { conn: CONN, bytes });
        assert_eq!(at(&mut conn, 0), Poll::Ready(NetEvent::Connected { conn: CONN }));
        assert_eq!(at(&mut conn, 1_000), received(Bytes::new()));
        assert_eq!(at(&mut conn, 2_500), received(Bytes::new()));
        assert_eq!(at(&mut conn, 3_000), received(Bytes::from_static(whole)));
        assert_eq!(
            at(&mut conn, 9_000),
            Poll::Ready(NetEvent::Closed {
                conn: CONN,
                cause: NetCause::EndOfStream
            })
        );
        assert!(conn.is_over() && at(&mut conn, 9_000).is_pending());
    }

    #[test]
    fn io_errors_have_a_meaning_for_connections() {
        for (kind, cause) in [
            (io::ErrorKind::ConnectionRefused, NetCause::Refused),
            (io::ErrorKind::TimedOut, NetCause::TimedOut),
            (io::ErrorKind::NetworkUnreachable, NetCause::Unreachable),
            (io::ErrorKind::BrokenPipe, NetCause::Reset),
            (io::ErrorKind::UnexpectedEof, NetCause::EndOfStream),
            (io::ErrorKind::PermissionDenied, NetCause::Other),
        ] {
            assert_eq!(cause_of(&kind.into()), cause);
        }
    }
}
