use alloc::collections::{BTreeMap, BTreeSet};

use crate::time::Instant;

/// Named timers: setting a name again moves it, and ties fire in the order of their names, so that
/// a run is the same on any machine.
#[derive(Clone, Debug)]
pub(crate) struct Timers<K> {
    by_time: BTreeSet<(Instant, K)>,
    by_key: BTreeMap<K, Instant>,
}

impl<K: Ord + Clone> Timers<K> {
    pub(crate) const fn new() -> Self {
        Self {
            by_time: BTreeSet::new(),
            by_key: BTreeMap::new(),
        }
    }

    /// Arms `key` for `at`, wherever it stood before.
    pub(crate) fn set(&mut self, key: impl Into<K>, at: Instant) {
        let key = key.into();
        match self.by_key.insert(key.clone(), at) {
            Some(old) if old == at => {}
            Some(old) => {
                self.by_time.remove(&(old, key.clone()));
                self.by_time.insert((at, key));
            }
            None => {
                self.by_time.insert((at, key));
            }
        }
    }

    /// Arms `key` for `at` unless it is armed for an earlier time.
    pub(crate) fn set_no_later(&mut self, key: impl Into<K>, at: Instant) {
        let key = key.into();
        if self.by_key.get(&key).is_none_or(|armed| at < *armed) {
            self.set(key, at);
        }
    }

    /// Arms `key` for a time, or not at all.
    pub(crate) fn arm(&mut self, key: impl Into<K>, at: Option<Instant>) {
        match at {
            Some(at) => self.set(key, at),
            None => self.cancel(key),
        }
    }

    pub(crate) fn cancel(&mut self, key: impl Into<K>) {
        let key = key.into();
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// How many are armed.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    #[cfg(test)]
    pub(crate) fn deadline(&self, key: impl Into<K>) -> Option<Instant> {
        self.by_key.get(&key.into()).copied()
    }

    pub(crate) fn next(&self) -> Option<&(Instant, K)> {
        self.by_time.first()
    }

    /// Takes the earliest timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<K> {
        if self.by_time.first()?.0 > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    pub(crate) fn clear(&mut self) {
        self.by_time.clear();
        self.by_key.clear();
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn setting_again_moves_and_cancelling_forgets() {
        let mut timers = Timers::<u8>::new();
        timers.set(1, ms(10));
        timers.set(2, ms(20));
        timers.set(1, ms(30));
        timers.set_no_later(1, ms(40));
        assert_eq!(timers.next(), Some(&(ms(20), 2)));
        timers.cancel(2);
        assert_eq!(
            (timers.pop_due(ms(29)), timers.pop_due(ms(30)), timers.next()),
            (None, Some(1), None)
        );
    }

    #[test]
    fn ties_fire_in_the_order_of_their_names() {
        let mut timers = Timers::<u8>::new();
        for key in [3, 1, 2] {
            timers.set(key, ms(5));
        }
        let fired: Vec<u8> = core::iter::from_fn(|| timers.pop_due(ms(5))).collect();
        assert_eq!(fired, [1, 2, 3]);
    }
    proptest! {
        #[test]
        fn timers_are_what_a_list_of_them_would_be(
            steps in prop::collection::vec((0..4_u8, 0..6_u8, 0..40_u64), 1..80),
        ) {
            let mut timers = Timers::<u8>::new();
            let mut list: Vec<(Instant, u8)> = Vec::new();
            for (step, key, at) in steps {
                let armed = list.iter().position(|(_, armed)| *armed == key);
                match (step, armed) {
                    (0, _) | (1, None) => {
                        list.retain(|(_, armed)| *armed != key);
                        list.push((ms(at), key));
                    }
                    (1, Some(index)) => list[index].0 = list[index].0.min(ms(at)),
                    (2, _) => list.retain(|(_, armed)| *armed != key),
                    (_, _) => {
                        let due = list.iter().filter(|(due, _)| *due <= ms(at)).min().copied();
                        list.retain(|timer| Some(*timer) != due);
                        prop_assert_eq!(timers.pop_due(ms(at)), due.map(|(_, key)| key));
                    }
                }
                match step {
                    0 => timers.set(key, ms(at)),
                    1 => timers.set_no_later(key, ms(at)),
                    2 => timers.cancel(key),
                    _ => {}
                }
                prop_assert_eq!(timers.next(), list.iter().min());
                for key in 0..6 {
                    let want = list.iter().find(|(_, armed)| *armed == key).map(|(at, _)| *at);
                    prop_assert_eq!(timers.deadline(key), want);
                }
            }
        }
    }
}
