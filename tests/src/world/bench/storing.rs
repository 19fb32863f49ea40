//! The store of a bench: what a file and its backup would be.

use std::collections::VecDeque;

use bytes::Bytes;
use rocketmq_consumer_core::action::{Former, StoreAction};
use rocketmq_consumer_core::event::{Event, Found, StoreError, StoreEvent};
use rocketmq_consumer_core::ids::{MessageQueue, QueueOffset};
use rocketmq_consumer_core::wire::kept_offsets::{self, KeptOffsets};

use super::Bench;

/// What is stored, and what was asked of the store.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    found: Found,
    aside: Option<Bytes>,
    /// Questions that are not answered yet.
    waiting: VecDeque<StoreAction>,
    /// Whether the test answers them itself.
    withheld: bool,
    /// Why nothing can be loaded, or saved.
    locked: bool,
    broken: Option<Box<str>>,
    saves: usize,
}

impl Bench {
    /// Where the store says that everything lives.
    pub const PLACE: &'static str = "/bench/offsets.json";

    /// What the store has from now on.
    pub fn put_in_store(&mut self, main: Option<&[u8]>, backup: Option<&[u8]>) {
        let bytes = |content: &[u8]| Bytes::copy_from_slice(content);
        self.shelf.found = Found {
            main: main.map(bytes),
            backup: backup.map(bytes),
        };
    }

    /// These offsets are stored from now on, and no backup is.
    pub fn keep(&mut self, offsets: &[(MessageQueue, i64)]) {
        let offsets = offsets.iter().cloned();
        let table: KeptOffsets = offsets
            .map(|(queue, offset)| (queue, QueueOffset(offset)))
            .collect();
        self.put_in_store(Some(&kept_offsets::write(&table)), None);
    }

    /// The offsets that are stored.
    ///
    /// # Panics
    /// When what is stored cannot be read.
    #[must_use]
    pub fn kept(&self) -> KeptOffsets {
        let main = self.shelf.found.main.as_ref();
        main.map_or_else(KeptOffsets::new, |main| {
            kept_offsets::read(main).expect("what was saved can be read")
        })
    }

    /// Everything that is stored.
    #[must_use]
    pub const fn in_store(&self) -> &Found {
        &self.shelf.found
    }

    /// What could not be read, and was kept aside.
    #[must_use]
    pub const fn aside(&self) -> Option<&Bytes> {
        self.shelf.aside.as_ref()
    }

    /// How often something was saved.
    #[must_use]
    pub const fn saves(&self) -> usize {
        self.shelf.saves
    }

    /// Whether questions to the store wait for [`Self::serve_store`].
    pub const fn withhold_store(&mut self) {
        self.shelf.withheld = true;
    }

    /// From now on the store answers at once, also what has waited.
    pub fn serve_store(&mut self) {
        self.shelf.withheld = false;
        self.settle();
    }

    /// Questions that wait for the store.
    #[must_use]
    pub const fn store_questions(&self) -> &VecDeque<StoreAction> {
        &self.shelf.waiting
    }

    /// Another process has the store.
    pub const fn lock_store(&mut self) {
        self.shelf.locked = true;
    }

    /// Nothing can be saved, for this reason; `None` mends it.
    pub fn break_store(&mut self, why: Option<&str>) {
        self.shelf.broken = why.map(Into::into);
    }

    pub(super) fn ask_store(&mut self, action: StoreAction) {
        self.shelf.waiting.push_back(action);
    }

    pub(super) fn store_one(&mut self) -> bool {
        if self.shelf.withheld {
            return false;
        }
        let Some(action) = self.shelf.waiting.pop_front() else {
            return false;
        };
        let event = self.shelf.answer(action);
        self.feed_alone(Event::Store(event));
        true
    }
}

impl Shelf {
    fn answer(&mut self, action: StoreAction) -> StoreEvent {
        match action {
            StoreAction::Load { key, seq } => {
                let found = if self.locked {
                    Err(StoreError::InUse)
                } else {
                    Ok(self.found.clone())
                };
                StoreEvent::Loaded {
                    key,
                    seq,
                    place: Bench::PLACE.into(),
                    found: Box::new(found),
                }
            }
            StoreAction::Save {
                key,
                seq,
                bytes,
                former,
            } => {
                let error = self.broken.clone();
                if error.is_none() {
                    self.save(bytes, former);
                }
                StoreEvent::Saved { key, seq, error }
            }
            other => panic!("an action nobody knows: {other:?}"),
        }
    }

    fn save(&mut self, bytes: Bytes, former: Former) {
        self.saves += 1;
        let before = self.found.main.replace(bytes);
        let Some(before) = before.filter(|before| !before.is_empty()) else {
            return;
        };
        match former {
            Former::Backup => self.found.backup = Some(before),
            Former::Aside => self.aside = Some(before),
            other => panic!("a fate nobody knows: {other:?}"),
        }
    }
}
