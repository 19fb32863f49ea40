use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::runtime::Runtime;

/// A connection that was taken, and where it comes from.
pub(crate) type Taken<R> = (<R as Runtime>::Socket, SocketAddr);

/// What an async runtime must offer besides, to carry a broker: sockets that listen.
pub trait Listening: Runtime {
    /// A TCP socket that listens. Dropping it closes the port.
    type Listener: Send + 'static;

    /// Listens at an address; port 0 stands for a free one. Does not block: there is no name to look up. Called
    /// wherever a cluster is started, and from tasks of this runtime.
    ///
    /// # Errors
    /// What the operating system reports, such as that somebody else listens there.
    fn bind(&self, addr: SocketAddr) -> io::Result<Self::Listener>;

    /// Where it really listens.
    ///
    /// # Errors
    /// What the operating system reports.
    fn local_addr(&self, listener: &Self::Listener) -> io::Result<SocketAddr>;

    /// The next connection, and where it comes from; with `TCP_NODELAY`, where that works. Always polled by the same
    /// task.
    ///
    /// # Errors
    /// What the operating system reports, such as too many open files. The listener goes on.
    fn poll_accept(
        &self,
        listener: &mut Self::Listener,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Self::Socket, SocketAddr)>>;
}
