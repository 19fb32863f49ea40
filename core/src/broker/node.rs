//! What listens at an address: a name server, or one replica of a broker.

mod clients;
pub(super) mod disk;
mod find;
mod groups;
mod locks;
pub(super) mod members;
mod name_server;
mod names;
mod offsets;
mod pull;
mod relay;
mod reset;
mod send;
mod send_back;
mod serve;
mod stats;
mod storing;
mod topics;

use alloc::boxed::Box;

use super::config::Settings;
use super::holds::Holds;
use super::queue_locks::QueueLocks;
use crate::ids::PeerAddr;

pub(super) use self::disk::Disk;
pub(super) use self::members::Members;
pub(super) use self::name_server::serve_name_server;
pub(super) use self::names::SCHEDULE_TOPIC;
pub(super) use self::pull::{HeldPull, next_tick};
pub(super) use self::relay::Relays;
pub(super) use self::serve::{Asked, Serving};
pub(super) use self::storing::Draft;

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
#[derive(Clone, Debug)]
pub(super) enum Role {
    NameServer,
    Replica(Box<Replica>),
}

/// One process of a broker: what is gone when it ends.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    /// Which broker.
    pub(super) broker: usize,
    /// Which of its replicas; 0 is the master.
    pub(super) id: i64,
    pub(super) members: Members,
    pub(super) locks: QueueLocks,
    pub(super) holds: Holds<HeldPull>,
    pub(super) relays: Relays,
}

impl Replica {
    pub(super) fn new(broker: usize, id: i64, settings: &Settings) -> Self {
        Self {
            broker,
            id,
            members: Members::default(),
            locks: QueueLocks::new(settings.lock_expiry, settings.locks_max),
            holds: Holds::new(settings.held_max),
            relays: Relays::default(),
        }
    }

    pub(super) const fn is_master(&self) -> bool {
        self.id == crate::wire::request::route::MASTER_ID
    }
}
