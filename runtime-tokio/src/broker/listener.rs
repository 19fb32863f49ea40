//! The ports of nodes that run.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rocketmq_consumer_core::ids::PeerAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::socket_addr;

/// Connections that may wait to be taken.
const WAITING: usize = 64;

/// The pause after an error that is not about one connection, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// Somebody connected.
#[derive(Debug)]
pub(super) struct Accepted {
    /// The node, by the address it is known at.
    pub(super) at: PeerAddr,
    /// Where the client is.
    pub(super) from: SocketAddr,
    /// The connection.
    pub(super) stream: TcpStream,
}

/// All nodes, and a task for each of those that listen.
#[derive(Debug)]
pub(super) struct Listeners {
    nodes: BTreeMap<PeerAddr, Node>,
    accepted: mpsc::Sender<Accepted>,
    waiting: mpsc::Receiver<Accepted>,
}

#[derive(Debug)]
struct Node {
    /// Where it listens, which need not be where clients reach it.
    at: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Listeners {
    /// No nodes.
    pub(super) fn new() -> Self {
        let (accepted, waiting) = mpsc::channel(WAITING);
        Self {
            nodes: BTreeMap::new(),
            accepted,
            waiting,
        }
    }

    /// The next connection.
    pub(super) async fn accept(&mut self) -> Option<Accepted> {
        self.waiting.recv().await
    }

    /// Adds a node that listens.
    pub(super) fn add(&mut self, name: PeerAddr, at: SocketAddr, listener: TcpListener) {
        let accepting = Some(self.spawn(name.clone(), listener));
        self.nodes.insert(name, Node { at, accepting });
    }

    /// Lets a node that was stopped listen again, where it did before. Nothing happens to one that does.
    ///
    /// # Errors
    /// Its port is not free any more.
    pub(super) async fn start(&mut self, name: &PeerAddr) -> io::Result<()> {
        let Some(node) = self.nodes.get(name).filter(|node| node.accepting.is_none()) else {
            return Ok(());
        };
        let listener = TcpListener::bind(node.at).await?;
        let accepting = self.spawn(name.clone(), listener);
        if let Some(node) = self.nodes.get_mut(name) {
            node.accepting = Some(accepting);
        }
        Ok(())
    }

    /// Lets a node that was stopped listen elsewhere when it is started again. Nothing happens to one that
    /// listens, or if somebody else has the new address.
    ///
    /// # Errors
    /// The new address is not one that a node can listen at and be found.
    pub(super) fn relocate(&mut self, from: &PeerAddr, to: &PeerAddr) -> io::Result<()> {
        let at = socket_addr(to)?;
        if at.port() == 0 || at.ip().is_unspecified() {
            let why = format!("{to}: a node moves to an address that clients can be told");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let is_stopped = self.nodes.get(from).is_some_and(|node| node.accepting.is_none());
        if is_stopped && !self.nodes.contains_key(to) {
            self.nodes.remove(from);
            self.nodes.insert(to.clone(), Node { at, accepting: None });
        }
        Ok(())
    }

    /// Keeps only those nodes listening that are up. The others' ports refuse from now on.
    pub(super) async fn keep(&mut self, is_up: impl Fn(&PeerAddr) -> bool) {
        for (name, node) in &mut self.nodes {
            if !is_up(name)
                && let Some(accepting) = node.accepting.take()
            {
                end(accepting).await;
            }
        }
    }

    /// Ends them all.
    pub(super) async fn end(&mut self) {
        self.keep(|_| false).await;
    }

    fn spawn(&self, name: PeerAddr, listener: TcpListener) -> JoinHandle<()> {
        tokio::spawn(accept(name, listener, self.accepted.clone()))
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        for node in self.nodes.values() {
            node.accepting.iter().for_each(JoinHandle::abort);
        }
    }
}

/// Waits for the end, so that the port is closed when this returns.
async fn end(accepting: JoinHandle<()>) {
    accepting.abort();
    let _cancelled = accepting.await;
}

async fn accept(at: PeerAddr, listener: TcpListener, accepted: mpsc::Sender<Accepted>) {
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // It only costs latency where it does not work.
        let _slower = stream.set_nodelay(true);
        let one = Accepted {
            at: at.clone(),
            from,
            stream,
        };
        if accepted.send(one).await.is_err() {
            return;
        }
    }
}
