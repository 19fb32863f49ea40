//! The ports of nodes that run.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_channel::mpsc;
use futures_core::Stream as _;
use rocketmq_consumer_core::ids::PeerAddr;

use super::port::{Accepted, Port};
use super::socket_addr;
use crate::listening::Listening;

/// Connections that may wait to be taken, besides one for each port.
const WAITING: usize = 64;

/// All nodes, and a port for each of those that listen.
pub(super) struct Listeners<R: Listening> {
    runtime: R,
    nodes: BTreeMap<PeerAddr, Node<R::Listener>>,
    accepted: mpsc::Sender<Accepted<R::Socket>>,
    waiting: mpsc::Receiver<Accepted<R::Socket>>,
}

struct Node<L> {
    /// Where it listens, which need not be where clients reach it.
    at: SocketAddr,
    port: Option<Arc<Port<L>>>,
}

impl<R: Listening> Listeners<R> {
    /// No nodes.
    pub(super) fn new(runtime: R) -> Self {
        let (accepted, waiting) = mpsc::channel(WAITING);
        Self {
            runtime,
            nodes: BTreeMap::new(),
            accepted,
            waiting,
        }
    }

    /// The next connection.
    pub(super) fn poll_accepted(&mut self, cx: &mut Context<'_>) -> Poll<Option<Accepted<R::Socket>>> {
        Pin::new(&mut self.waiting).poll_next(cx)
    }

    /// Adds a node that listens.
    pub(super) fn add(&mut self, name: PeerAddr, at: SocketAddr, listener: R::Listener) {
        let port = Some(self.open(name.clone(), listener));
        self.nodes.insert(name, Node { at, port });
    }

    /// Lets a node that was stopped listen again, where it did before. Nothing happens to one that does.
    ///
    /// # Errors
    /// Its port is not free any more.
    pub(super) fn start(&mut self, name: &PeerAddr) -> io::Result<()> {
        let Some(node) = self.nodes.get(name).filter(|node| node.port.is_none()) else {
            return Ok(());
        };
        let listener = self.runtime.bind(node.at)?;
        let port = self.open(name.clone(), listener);
        if let Some(node) = self.nodes.get_mut(name) {
            node.port = Some(port);
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
        let is_stopped = self.nodes.get(from).is_some_and(|node| node.port.is_none());
        if is_stopped && !self.nodes.contains_key(to) {
            self.nodes.remove(from);
            self.nodes.insert(to.clone(), Node { at, port: None });
        }
        Ok(())
    }

    /// Keeps only those nodes listening that are up. The others' ports refuse from now on.
    pub(super) fn keep(&mut self, is_up: impl Fn(&PeerAddr) -> bool) {
        for (name, node) in &mut self.nodes {
            if !is_up(name)
                && let Some(port) = node.port.take()
            {
                port.close();
            }
        }
    }

    fn open(&self, name: PeerAddr, listener: R::Listener) -> Arc<Port<R::Listener>> {
        Port::open(&self.runtime, name, listener, self.accepted.clone())
    }
}

impl<R: Listening> Drop for Listeners<R> {
    fn drop(&mut self) {
        self.keep(|_| false);
    }
}
