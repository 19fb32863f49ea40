//! Where members that broadcast keep their offsets, and who asks them.

mod file;
mod jobs;
mod memory;
mod path;

use bytes::Bytes;
use rocketmq_consumer_core::action::Former;
use rocketmq_consumer_core::event::{Found, StoreError};
use rocketmq_consumer_core::ids::StoreKey;

use crate::error::BoxError;

pub use file::FileStore;
pub use memory::MemoryStore;

pub(crate) use jobs::{Storage, act};

/// Keeps what a group that broadcasts has to know after a restart.
///
/// Its methods run on threads that may block, never on the task that carries the client; a store that is asked over
/// a network may wait there. What is good of what is stored is decided by the machine, so content is never looked at
/// here. See [`ConsumerBuilder::store`](crate::ConsumerBuilder::store).
pub trait Store: Send + Sync + 'static {
    /// Where it lives under this key, for people.
    fn place(&self, key: &StoreKey) -> String;

    /// Takes what is stored under a key for this process alone, until the result is dropped. What does not exist yet
    /// is made with the first save.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when another process has it, [`StoreError::Failed`] when it cannot be had.
    fn open(&self, key: &StoreKey) -> Result<Box<dyn OpenStore>, StoreError>;
}

/// What one group has stored.
pub trait OpenStore: Send + 'static {
    /// Reads it. Nothing stored yet is no error.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn load(&mut self) -> Result<Found, BoxError>;

    /// Replaces it, as a whole or not at all; returns when the new content would survive a loss of power.
    ///
    /// # Errors
    /// Why it was not replaced. It is asked for again later.
    fn save(&mut self, content: &Bytes, former: Former) -> Result<(), BoxError>;
}
