use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll};

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};

/// A TCP stream of `async-io`, the reactor of async-std and smol. It writes several buffers in one system call, and
/// closing it tells the peer.
#[derive(Debug)]
pub struct AsyncStdSocket(Async<TcpStream>);

impl AsyncStdSocket {
    pub(crate) const fn new(stream: Async<TcpStream>) -> Self {
        Self(stream)
    }

    #[cfg(test)]
    pub(crate) fn nodelay(&self) -> io::Result<bool> {
        self.0.get_ref().nodelay()
    }
}

impl AsyncRead for AsyncStdSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for AsyncStdSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What `async-io` calls closing leaves the peer waiting.
        Poll::Ready(self.0.get_ref().shutdown(Shutdown::Write))
    }
}
