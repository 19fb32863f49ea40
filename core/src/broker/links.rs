//! The connections of a cluster: which node each leads to, and what of its bytes is not a frame yet.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use bytes::Bytes;

use super::node::NodeKey;
use crate::ids::ConnId;
use crate::time::Instant;
use crate::wire::frame::{FRAME_LEN_MAX, Frame, FrameError};
use crate::wire::link::Reassembler;

/// One connection.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Where it leads.
    pub(super) node: NodeKey,
    /// Where the client is.
    pub(super) from: SocketAddr,
    /// When the last byte came.
    active: Instant,
    bytes: Reassembler,
}

/// All connections that stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    by_conn: BTreeMap<ConnId, Link>,
}

impl Links {
    pub(super) fn open(&mut self, now: Instant, conn: ConnId, node: NodeKey, from: SocketAddr) {
        let link = Link {
            node,
            from,
            active: now,
            bytes: Reassembler::new(FRAME_LEN_MAX),
        };
        self.by_conn.insert(conn, link);
    }

    pub(super) fn close(&mut self, conn: ConnId) -> Option<Link> {
        self.by_conn.remove(&conn)
    }

    pub(super) fn get(&self, conn: ConnId) -> Option<&Link> {
        self.by_conn.get(&conn)
    }

    pub(super) fn len(&self) -> usize {
        self.by_conn.len()
    }

    pub(super) fn push(&mut self, now: Instant, conn: ConnId, bytes: Bytes) {
        if let Some(link) = self.by_conn.get_mut(&conn) {
            link.active = now;
            link.bytes.push(bytes);
        }
    }

    /// The next whole frame of a connection; none of one that is gone.
    pub(super) fn next_frame(&mut self, conn: ConnId) -> Result<Option<Frame>, FrameError> {
        self.by_conn
            .get_mut(&conn)
            .map_or(Ok(None), |link| link.bytes.next_frame())
    }

    pub(super) fn want(&self, conn: ConnId) -> usize {
        self.by_conn.get(&conn).map_or(0, |link| link.bytes.want())
    }

    /// The connections that lead to a node.
    pub(super) fn to(&self, node: NodeKey) -> Vec<ConnId> {
        self.select(|link| link.node == node)
    }

    /// The connections on which nothing has come for this long.
    pub(super) fn idle_for(&self, now: Instant, time: Duration) -> Vec<ConnId> {
        self.select(|link| now.saturating_since(link.active) >= time)
    }

    fn select(&self, wanted: impl Fn(&Link) -> bool) -> Vec<ConnId> {
        self.by_conn
            .iter()
            .filter(|(_, link)| wanted(link))
            .map(|(conn, _)| *conn)
            .collect()
    }
}
