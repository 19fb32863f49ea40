use std::io;
use std::net::{SocketAddr, TcpListener};
use std::task::{Context, Poll, ready};

use async_io::Async;
use rocketmq_consumer::broker::Listening;

use crate::async_std_runtime::AsyncStdRuntime;
use crate::socket::AsyncStdSocket;

impl Listening for AsyncStdRuntime {
    type Listener = Async<TcpListener>;

    fn bind(&self, addr: SocketAddr) -> io::Result<Async<TcpListener>> {
        Async::<TcpListener>::bind(addr)
    }

    fn local_addr(&self, listener: &Async<TcpListener>) -> io::Result<SocketAddr> {
        listener.get_ref().local_addr()
    }

    fn poll_accept(
        &self,
        listener: &mut Async<TcpListener>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(AsyncStdSocket, SocketAddr)>> {
        loop {
            match listener.get_ref().accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(listener.poll_readable(cx))?
                }
                Err(error) => return Poll::Ready(Err(error)),
                Ok((stream, from)) => {
                    // It only costs latency where it does not work.
                    let _slower = stream.set_nodelay(true);
                    let socket = AsyncStdSocket::new(Async::new(stream)?);
                    return Poll::Ready(Ok((socket, from)));
                }
            }
        }
    }
}
