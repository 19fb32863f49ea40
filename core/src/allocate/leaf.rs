//! Reads what may stand inside of [`AllocateStrategy::Nearby`]: everything that has nothing inside itself.
//! A recording is a stranger's bytes, and a type that contains itself could be nested until the stack ends.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer};

use super::{AllocateStrategy, ListedQueue};

/// The variants of [`AllocateStrategy`] in front of `Nearby`, in the same order: formats number them.
#[derive(Deserialize)]
enum Leaf {
    Averagely,
    Circle,
    ConsistentHash { virtual_nodes: u32 },
    MachineRoom { rooms: BTreeSet<Box<str>> },
    Config { queues: Vec<ListedQueue> },
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<AllocateStrategy>, D::Error> {
    Ok(Box::new(match Leaf::deserialize(deserializer)? {
        Leaf::Averagely => AllocateStrategy::Averagely,
        Leaf::Circle => AllocateStrategy::Circle,
        Leaf::ConsistentHash { virtual_nodes } => AllocateStrategy::ConsistentHash { virtual_nodes },
        Leaf::MachineRoom { rooms } => AllocateStrategy::MachineRoom { rooms },
        Leaf::Config { queues } => AllocateStrategy::Config { queues },
    }))
}
