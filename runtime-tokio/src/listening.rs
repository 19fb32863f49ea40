use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use rocketmq_consumer::broker::Listening;
use tokio::net::{TcpListener, TcpSocket};

use crate::socket::TokioSocket;
use crate::tokio_runtime::TokioRuntime;

/// Connections that may wait in the kernel.
const BACKLOG: u32 = 1_024;

impl Listening for TokioRuntime {
    type Listener = TcpListener;

    fn bind(&self, addr: SocketAddr) -> io::Result<TcpListener> {
        let _inside = self.enter();
        let socket = match addr {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        // Elsewhere it would let two listen at once.
        if cfg!(unix) {
            socket.set_reuseaddr(true)?;
        }
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    }

    fn local_addr(&self, listener: &TcpListener) -> io::Result<SocketAddr> {
        listener.local_addr()
    }

    fn poll_accept(
        &self,
        listener: &mut TcpListener,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(TokioSocket, SocketAddr)>> {
        let (stream, from) = ready!(listener.poll_accept(cx))?;
        // It only costs latency where it does not work.
        let _slower = stream.set_nodelay(true);
        Poll::Ready(Ok((TokioSocket::new(stream), from)))
    }
}
