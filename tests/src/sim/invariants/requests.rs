use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rocketmq_consumer_core::ids::ConnId;

use crate::sim::seen::{Deed, Life, Sight, Sights};

/// What [`Requests::see`] has to be shown.
pub(in crate::sim) const ENDS: Sights = Sights::of(&[Sight::Disconnected, Sight::Over]);

/// Requests that were written and neither answered nor lost with their link, with what a rule keeps of each.
/// One that ended by its deadline stays until its link ends: from outside nobody sees it end.
#[derive(Debug)]
pub(in crate::sim) struct Requests<T> {
    table: BTreeMap<Key, T>,
}

/// A request's life, connection and number, most significant first, as one number: rules look requests up so
/// often that comparing them part by part is felt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    const fn new(life: Life, conn: ConnId, opaque: i32) -> Self {
        let [life, slot, generation] = [life.0 as u128, conn.slot as u128, conn.generation as u128];
        Self(life << 96 | slot << 64 | generation << 32 | opaque.cast_unsigned() as u128)
    }

    const fn of_conn(life: Life, conn: ConnId) -> RangeInclusive<Self> {
        Self::new(life, conn, 0)..=Self::new(life, conn, -1)
    }

    const fn of_life(life: Life) -> RangeInclusive<Self> {
        let first = (life.0 as u128) << 96;
        Self(first)..=Self(first | u128::MAX >> 32)
    }
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self {
            table: BTreeMap::new(),
        }
    }
}

impl<T> Requests<T> {
    /// A request was written. Returns what stood under its number.
    pub(in crate::sim) fn asked(&mut self, life: Life, conn: ConnId, opaque: i32, what: T) -> Option<T> {
        self.table.insert(Key::new(life, conn, opaque), what)
    }

    /// Its answer has come.
    pub(in crate::sim) fn answered(&mut self, life: Life, conn: ConnId, opaque: i32) -> Option<T> {
        self.table.remove(&Key::new(life, conn, opaque))
    }

    /// Takes note of links and processes that end; what is lost with them is given to `lost`.
    #[inline]
    pub(in crate::sim) fn see(&mut self, life: Life, deed: &Deed<'_>, lost: impl FnMut(T)) {
        match *deed {
            Deed::Disconnected { conn, .. } => self.lose(Key::of_conn(life, conn), lost),
            Deed::Killed | Deed::Closed => self.lose(Key::of_life(life), lost),
            _ => {}
        }
    }

    fn lose(&mut self, range: RangeInclusive<Key>, mut lost: impl FnMut(T)) {
        let gone: Vec<_> = self.table.range(range).map(|(key, _)| *key).collect();
        for key in gone {
            self.table.remove(&key).into_iter().for_each(&mut lost);
        }
    }

    /// Requests of a life that wait for an answer.
    pub(in crate::sim) fn of_life(&self, life: Life) -> impl Iterator<Item = &T> {
        self.table.range(Key::of_life(life)).map(|(_, what)| what)
    }
}
