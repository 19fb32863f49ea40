use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rocketmq_consumer_core::action::Former;
use rocketmq_consumer_core::event::{Found, StoreError};
use rocketmq_consumer_core::ids::StoreKey;

use super::{OpenStore, Store};
use crate::error::BoxError;
use crate::sync::lock;

/// Keeps everything as long as the process lives, or a clone: for tests, and for those who begin anew with each
/// start.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    shelves: Arc<Mutex<BTreeMap<(String, String), Shelf>>>,
}

/// What is stored under one key.
#[derive(Clone, Debug, Default)]
struct Shelf {
    found: Found,
    in_use: bool,
}

impl MemoryStore {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The one kind of content there is has no part in it.
fn name(key: &StoreKey) -> (String, String) {
    (key.instance.clone(), key.group.to_string())
}

impl Store for MemoryStore {
    fn place(&self, key: &StoreKey) -> String {
        format!("memory of {} as {}", key.group, key.instance)
    }

    fn open(&self, key: &StoreKey) -> Result<Box<dyn OpenStore>, StoreError> {
        let mut shelves = lock(&self.shelves);
        let shelf = shelves.entry(name(key)).or_default();
        if std::mem::replace(&mut shelf.in_use, true) {
            return Err(StoreError::InUse);
        }
        Ok(Box::new(OpenShelf {
            store: self.clone(),
            name: name(key),
        }))
    }
}

struct OpenShelf {
    store: MemoryStore,
    name: (String, String),
}

impl OpenShelf {
    fn with<T>(&self, what: impl FnOnce(&mut Shelf) -> T) -> T {
        what(lock(&self.store.shelves).entry(self.name.clone()).or_default())
    }
}

impl OpenStore for OpenShelf {
    fn load(&mut self) -> Result<Found, BoxError> {
        Ok(self.with(|shelf| shelf.found.clone()))
    }

    fn save(&mut self, content: &Bytes, former: Former) -> Result<(), BoxError> {
        self.with(|shelf| {
            let before = shelf.found.main.replace(content.clone());
            if former == Former::Backup && before.as_ref().is_some_and(|before| !before.is_empty()) {
                shelf.found.backup = before;
            }
        });
        Ok(())
    }
}

impl Drop for OpenShelf {
    fn drop(&mut self) {
        self.with(|shelf| shelf.in_use = false);
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::StoreKind;

    use super::*;

    #[test]
    fn it_keeps_the_former_content_and_lets_in_one_at_a_time() {
        let store = MemoryStore::new();
        let key = StoreKey {
            group: "g".into(),
            instance: "i".into(),
            kind: StoreKind::Offsets,
        };
        let mut open = store.open(&key).unwrap();
        assert_eq!(open.load().unwrap(), Found::default());
        assert_eq!(store.clone().open(&key).map(|_| ()), Err(StoreError::InUse));
        open.save(&"10".into(), Former::Backup).unwrap();
        open.save(&"20".into(), Former::Backup).unwrap();
        open.save(&"30".into(), Former::Aside).unwrap();
        drop(open);
        let found = store.open(&key).unwrap().load().unwrap();
        assert_eq!((found.main, found.backup), (Some("30".into()), Some("10".into())));
    }
}
