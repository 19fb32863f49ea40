//! What listens at an address: a name server, or one replica of a broker.

use crate::ids::PeerAddr;

/// A node's place in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeKey(pub(super) usize);

/// A process that can be up or down.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) addr: PeerAddr,
    pub(super) up: bool,
    pub(super) role: Role,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    NameServer,
    Replica {
        /// Which broker.
        broker: usize,
        /// Which of its replicas; 0 is the master.
        id: i64,
    },
}
