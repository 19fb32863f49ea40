use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::ids::{GroupKey, QueueKey};

/// A key of a [`Slab`]: a place and the count of things that stood there.
pub(crate) trait Handle: Copy + Ord {
    fn new(slot: u32, generation: u32) -> Self;
    fn slot(self) -> usize;
    fn generation(self) -> u32;
}

macro_rules! slab_key {
    ($($name:ident)*) => {$(
        impl Handle for $name {
            fn new(slot: u32, generation: u32) -> Self {
                Self { slot, generation }
            }
            fn slot(self) -> usize {
                self.slot as usize
            }
            fn generation(self) -> u32 {
                self.generation
            }
        }
    )*};
}
slab_key!(GroupKey QueueKey);

#[derive(Clone, Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// A table with keys that go stale: removing bumps the generation of the place, so a late event that
/// carries the old key finds nothing.
#[derive(Clone, Debug)]
pub(crate) struct Slab<K, T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    key: PhantomData<K>,
}

impl<K: Handle, T> Slab<K, T> {
    pub(crate) const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            key: PhantomData,
        }
    }

    /// Stores what `make` builds from its key.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(K) -> T) -> K {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                value: None,
            });
            u32::try_from(self.places.len() - 1).expect("a client owns fewer than 2^32 queues")
        });
        let place = &mut self.places[slot as usize];
        place.generation = place.generation.wrapping_add(1);
        let key = K::new(slot, place.generation);
        place.value = Some(make(key));
        key
    }

    pub(crate) fn get(&self, key: K) -> Option<&T> {
        let place = self.places.get(key.slot())?;
        place
            .value
            .as_ref()
            .filter(|_| place.generation == key.generation())
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut T> {
        let place = self.places.get_mut(key.slot())?;
        let generation = place.generation;
        place.value.as_mut().filter(|_| generation == key.generation())
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<T> {
        let place = self.places.get_mut(key.slot())?;
        if place.generation != key.generation() {
            return None;
        }
        let value = place.value.take()?;
        self.free
            .push(u32::try_from(key.slot()).expect("the slot came from a u32"));
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.places.iter().enumerate().filter_map(|(slot, place)| {
            let key = K::new(u32::try_from(slot).ok()?, place.generation);
            Some((key, place.value.as_ref()?))
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(slot, place)| {
            let key = K::new(u32::try_from(slot).ok()?, place.generation);
            Some((key, place.value.as_mut()?))
        })
    }

    pub(crate) fn keys(&self) -> Vec<K> {
        self.iter().map(|(key, _)| key).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_of_an_earlier_tenant_finds_nothing() {
        let mut slab = Slab::<QueueKey, &str>::new();
        let first = slab.insert_with(|_| "first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert_with(|_| "second");
        assert_eq!(
            (first.slot, slab.remove(first), slab.get(first)),
            (second.slot, None, None)
        );
        assert_eq!((slab.get(second), slab.len()), (Some(&"second"), 1));
    }
    proptest! {
        #[test]
        fn a_slab_is_what_a_map_with_fresh_keys_would_be(
            steps in prop::collection::vec((any::<bool>(), any::<usize>()), 1..80),
        ) {
            let mut slab = Slab::<QueueKey, usize>::new();
            let mut map: BTreeMap<QueueKey, usize> = BTreeMap::new();
            let mut gone: Vec<QueueKey> = Vec::new();
            for (insert, n) in steps {
                if insert {
                    let key = slab.insert_with(|_| n);
                    prop_assert!(map.insert(key, n).is_none() && !gone.contains(&key), "a key comes once");
                } else if let Some(key) = map.keys().nth(n % map.len().max(1)).copied() {
                    prop_assert_eq!(slab.remove(key), map.remove(&key));
                    gone.push(key);
                }
                prop_assert_eq!((slab.len(), slab.is_empty()), (map.len(), map.is_empty()));
                prop_assert_eq!(slab.iter().map(|(key, n)| (key, *n)).collect::<BTreeMap<_, _>>(), map.clone());
                prop_assert_eq!(slab.keys(), map.keys().copied().collect::<Vec<_>>());
                for key in &gone {
                    prop_assert_eq!(slab.remove(*key), None);
                    prop_assert_eq!(slab.get(*key), None);
                }
            }
        }
    }
}
