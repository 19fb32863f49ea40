use std::io::{self, IoSlice, Read as _};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};

/// A TCP stream of `async-io`, the reactor of async-std and smol. It writes several buffers in one system call,
/// closing it tells the peer, and it does not read what cannot be there.
#[derive(Debug)]
pub struct AsyncStdSocket {
    stream: Async<TcpStream>,
    /// Whether the last read took everything there was. A task that is woken for another reason then asks the reactor
    /// first, which costs no system call.
    is_drained: bool,
}

impl AsyncStdSocket {
    pub(crate) const fn new(stream: Async<TcpStream>) -> Self {
        Self {
            stream,
            is_drained: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn nodelay(&self) -> io::Result<bool> {
        self.stream.get_ref().nodelay()
    }
}

impl AsyncRead for AsyncStdSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.is_drained {
                ready!(self.stream.poll_readable(cx))?;
                self.is_drained = false;
            }
            match self.stream.get_ref().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_drained = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What comes after a short read, the end of the stream too, the reactor sees.
                Ok(read) => {
                    self.is_drained = read > 0 && read < buf.len();
                    return Poll::Ready(Ok(read));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for AsyncStdSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What `async-io` calls closing leaves the peer waiting.
        Poll::Ready(self.stream.get_ref().shutdown(Shutdown::Write))
    }
}
