use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::SockRef;

use super::way::{Side, Then};

/// Two sockets that belong together. Both close when the last of its users has let go of it.
#[derive(Debug)]
pub(super) struct Link {
    consumer: TcpStream,
    cluster: TcpStream,
    ended: AtomicBool,
}

impl Link {
    pub(super) fn new(consumer: TcpStream, cluster: TcpStream) -> io::Result<Self> {
        for socket in [&consumer, &cluster] {
            // So that a piece is a segment.
            socket.set_nodelay(true)?;
        }
        Ok(Self {
            consumer,
            cluster,
            ended: AtomicBool::new(false),
        })
    }

    /// Where bytes of this side come from, and where they go.
    pub(super) const fn ends(&self, side: Side) -> (&TcpStream, &TcpStream) {
        match side {
            Side::FromConsumer => (&self.consumer, &self.cluster),
            Side::ToConsumer => (&self.cluster, &self.consumer),
        }
    }

    /// Ends both sockets; whoever reads or writes them here returns, and ends them again, which changes nothing: a
    /// reset must not become a close. That a socket has ended already is no fault.
    pub(super) fn end(&self, then: Then) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        if then == Then::Reset {
            // With this, closing sends `RST` in place of `FIN`. It must not be shut down for writing before, which
            // would send `FIN`; for reading it has to be, or the thread that reads it would keep it open.
            let _ended = SockRef::from(&self.consumer).set_linger(Some(Duration::ZERO));
            let _ended = self.consumer.shutdown(Shutdown::Read);
        } else {
            let _ended = self.consumer.shutdown(Shutdown::Both);
        }
        let _ended = self.cluster.shutdown(Shutdown::Both);
    }
}
