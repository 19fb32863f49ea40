//! Connections of clients, as the driver sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_channel::mpsc;
use rocketmq_consumer_core::ids::ConnId;

use super::link::{Link, LinkEvent};
use super::outbox::{Outbox, Waiting};
use crate::runtime::Runtime;

/// Every connection that stands, and a task for each.
pub(super) struct Links<R> {
    runtime: R,
    by_conn: BTreeMap<ConnId, Arc<Outbox>>,
    opened: u64,
    events: mpsc::Sender<LinkEvent>,
    waiting: Arc<Waiting>,
}

impl<R> Links<R> {
    /// No connections. Their tasks will talk to `events`.
    pub(super) fn new(runtime: R, events: mpsc::Sender<LinkEvent>) -> Self {
        Self {
            runtime,
            by_conn: BTreeMap::new(),
            opened: 0,
            events,
            waiting: Arc::default(),
        }
    }

    /// Starts to read from and write to a client.
    pub(super) fn open(&mut self, socket: R::Socket) -> ConnId
    where
        R: Runtime,
    {
        let conn = ConnId {
            slot: (self.opened & 0xffff_ffff) as u32,
            generation: (self.opened >> 32) as u32,
        };
        self.opened += 1;
        let outbox = Arc::new(Outbox::among(&self.waiting));
        let runtime = self.runtime.clone();
        let link = Link::new(runtime, conn, socket, Arc::clone(&outbox), self.events.clone());
        self.runtime.spawn(link.run());
        self.by_conn.insert(conn, outbox);
        conn
    }

    /// Whether a connection stands. What its task said before it was closed may still arrive.
    pub(super) fn stands(&self, conn: ConnId) -> bool {
        self.by_conn.contains_key(&conn)
    }

    /// Queues a frame. False when the client was cut off because it does not read.
    pub(super) fn send(&mut self, conn: ConnId, frame: Bytes) -> bool {
        let Some(outbox) = self.by_conn.get(&conn) else {
            return true;
        };
        if outbox.push(frame).is_ok() {
            return true;
        }
        outbox.cut();
        self.by_conn.remove(&conn);
        false
    }

    /// Closes a connection after what waits for its client is written, or has been given up.
    pub(super) fn close(&mut self, conn: ConnId) {
        if let Some(outbox) = self.by_conn.remove(&conn) {
            outbox.close();
        }
    }
}

impl<R> Drop for Links<R> {
    /// Cuts all connections off.
    fn drop(&mut self) {
        for outbox in self.by_conn.values() {
            outbox.cut();
        }
    }
}
