//! What stands between a consumer and its cluster, and spoils it.
//!
//! Threads and blocking sockets of the standard library: nothing here depends on the runtime that is examined.

mod link;
mod way;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::sync::lock;
use link::Link;
use way::Way;
pub use way::{Cut, Side, Then};

/// A listener on loopback that passes on what it hears to another address, in the manner it was told.
///
/// It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    /// From the consumer, and to it.
    ways: [Way; 2],
    links: Mutex<BTreeMap<u64, Arc<Link>>>,
    /// What befalls the next connections, each its own.
    cuts: Mutex<VecDeque<Cut>>,
    /// Connections so far.
    accepted: AtomicU64,
    refusing: AtomicBool,
    ended: AtomicBool,
}

impl Proxy {
    /// Listens at a free port of loopback, for somebody who listens elsewhere.
    ///
    /// # Errors
    /// The system gives no port.
    pub fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            ways: [Way::new(), Way::new()],
            links: Mutex::default(),
            cuts: Mutex::default(),
            accepted: AtomicU64::new(0),
            refusing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = thread::Builder::new().spawn(move || accepting.accept(&listener))?;
        Ok(Self {
            addr,
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many connections have been made to it.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Acquire)
    }

    /// How many connections stand.
    #[must_use]
    pub fn standing(&self) -> usize {
        lock(&self.shared.links).len()
    }

    /// Bytes that were passed on this way.
    #[must_use]
    pub fn passed(&self, side: Side) -> u64 {
        self.shared.way(side).passed()
    }

    /// Passes on so many bytes at a time, each a segment of its own; the rest waits for the next.
    pub fn pieces(&self, bytes: usize) {
        for way in &self.shared.ways {
            way.pieces(bytes);
        }
    }

    /// Neither reads nor writes this way any more, until [`Self::go_on`].
    pub fn hold(&self, side: Side) {
        self.shared.way(side).hold(true);
    }

    /// Ends [`Self::hold`].
    pub fn go_on(&self, side: Side) {
        self.shared.way(side).hold(false);
    }

    /// The next connections end so, one after the other; those after them are whole.
    pub fn cut_next(&self, cuts: impl IntoIterator<Item = Cut>) {
        lock(&self.shared.cuts).extend(cuts);
    }

    /// Cuts that no connection has taken yet.
    #[must_use]
    pub fn cuts_left(&self) -> usize {
        lock(&self.shared.cuts).len()
    }

    /// Resets all connections: what is on its way is lost, and both ends are told by `RST`.
    pub fn reset_all(&self) {
        self.shared.end_all(Then::Reset);
    }

    /// Closes all connections in order: both ends are told by `FIN`.
    pub fn close_all(&self) {
        self.shared.end_all(Then::Close);
    }

    /// Resets what stands and each connection that is made from now on; or takes them again.
    pub fn refuse(&self, refusing: bool) {
        self.shared.refusing.store(refusing, Ordering::Release);
        if refusing {
            self.reset_all();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        for way in &self.shared.ways {
            way.end();
        }
        self.shared.end_all(Then::Reset);
        // The acceptor waits for a connection: this is its last one.
        drop(TcpStream::connect(self.addr));
        if let Some(acceptor) = self.acceptor.take() {
            // It panics only if the system has no threads left; there is nobody to tell here.
            let _panicked = acceptor.join();
        }
    }
}

impl Shared {
    const fn way(&self, side: Side) -> &Way {
        let [from_consumer, to_consumer] = &self.ways;
        match side {
            Side::FromConsumer => from_consumer,
            Side::ToConsumer => to_consumer,
        }
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for number in 0.. {
            let accepted = listener.accept();
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            // Whoever gave up before it was accepted.
            let Ok((consumer, _)) = accepted else { continue };
            self.accepted.fetch_add(1, Ordering::AcqRel);
            if let Ok(link) = self.join(consumer) {
                self.carry(number, &Arc::new(link));
            }
        }
    }

    fn join(&self, consumer: TcpStream) -> io::Result<Link> {
        let link = TcpStream::connect(self.upstream).and_then(|cluster| Link::new(consumer, cluster));
        let link = link?;
        if self.refusing.load(Ordering::Acquire) {
            link.end(Then::Reset);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(link)
    }

    /// Starts a thread for each way.
    fn carry(self: &Arc<Self>, number: u64, link: &Arc<Link>) {
        lock(&self.links).insert(number, Arc::clone(link));
        let mut cut = lock(&self.cuts).pop_front();
        for side in [Side::FromConsumer, Side::ToConsumer] {
            let cut = cut.take_if(|cut| cut.side == side);
            let (shared, link) = (Arc::clone(self), Arc::clone(link));
            thread::spawn(move || {
                let then = shared.way(side).pump(&link, side, cut);
                link.end(then);
                lock(&shared.links).remove(&number);
            });
        }
    }

    fn end_all(&self, then: Then) {
        for (_, link) in std::mem::take(&mut *lock(&self.links)) {
            link.end(then);
        }
    }
}

#[cfg(test)]
mod tests;
