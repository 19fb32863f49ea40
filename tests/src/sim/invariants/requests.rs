use std::collections::BTreeMap;

use rocketmq_consumer_core::ids::ConnId;

use crate::sim::seen::{Deed, Life};

/// Requests that were written and neither answered nor lost with their link, with what a rule keeps of each.
/// One that ended by its deadline stays until its link ends: from outside nobody sees it end.
#[derive(Debug)]
pub(in crate::sim) struct Requests<T>(BTreeMap<(Life, ConnId, i32), T>);

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Requests<T> {
    /// A request was written. Returns what stood under its number.
    pub(in crate::sim) fn asked(&mut self, life: Life, conn: ConnId, opaque: i32, what: T) -> Option<T> {
        self.0.insert((life, conn, opaque), what)
    }

    /// Its answer has come.
    pub(in crate::sim) fn answered(&mut self, life: Life, conn: ConnId, opaque: i32) -> Option<T> {
        self.0.remove(&(life, conn, opaque))
    }

    /// Takes note of links and processes that end; what is lost with them is given to `lost`.
    pub(in crate::sim) fn see(&mut self, life: Life, deed: &Deed<'_>, mut lost: impl FnMut(T)) {
        let range = match *deed {
            Deed::Disconnected { conn, .. } => (life, conn, i32::MIN)..=(life, conn, i32::MAX),
            Deed::Killed | Deed::Closed => {
                let end = |n| ConnId {
                    slot: n,
                    generation: n,
                };
                (life, end(0), i32::MIN)..=(life, end(u32::MAX), i32::MAX)
            }
            _ => return,
        };
        let gone: Vec<_> = self.0.range(range).map(|(key, _)| *key).collect();
        for key in gone {
            self.0.remove(&key).into_iter().for_each(&mut lost);
        }
    }

    /// Requests of a life that wait for an answer.
    pub(in crate::sim) fn of_life(&self, life: Life) -> impl Iterator<Item = &T> {
        let end = |n| ConnId {
            slot: n,
            generation: n,
        };
        let range = (life, end(0), i32::MIN)..=(life, end(u32::MAX), i32::MAX);
        self.0.range(range).map(|(_, what)| what)
    }
}
