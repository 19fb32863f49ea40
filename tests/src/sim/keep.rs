//! What a member keeps for itself, and how the disk it is kept on behaves.

use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::Former;
use rocketmq_consumer_core::event::Found;
use rocketmq_consumer_core::wire::kept_offsets::{self, KeptOffsets};

/// How a disk behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The longest that reading and writing take.
    pub slow: Duration,
    /// Of 1000 writes, how many fail.
    pub fails: u64,
}

impl Disk {
    /// Everything works at once.
    pub const GOOD: Self = Self {
        slow: Duration::ZERO,
        fails: 0,
    };
}

/// What can happen to what is kept while nobody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Only the first half is left.
    Half,
    /// As long as before, and nothing but zeros.
    Zeros,
    /// It is gone.
    Gone,
}

/// Two contents, which survive the process.
#[derive(Debug)]
pub(crate) struct Keep {
    found: Found,
    pub(crate) disk: Disk,
}

impl Keep {
    pub(crate) const fn new() -> Self {
        Self {
            found: Found {
                main: None,
                backup: None,
            },
            disk: Disk::GOOD,
        }
    }

    pub(crate) fn found(&self) -> Found {
        self.found.clone()
    }

    /// As a file is replaced: all of it or nothing.
    pub(crate) fn write(&mut self, content: Bytes, former: Former) {
        let before = self.found.main.replace(content);
        if former == Former::Backup && before.is_some() {
            self.found.backup = before;
        }
    }

    /// The content suffers, if something is left to begin with all the same.
    pub(crate) fn damage(&mut self, damage: Damage) {
        let is_saved = self
            .found
            .backup
            .as_ref()
            .is_some_and(|backup| kept_offsets::read(backup).is_ok());
        let Some(main) = self.found.main.take_if(|_| is_saved) else {
            return;
        };
        self.found.main = match damage {
            Damage::Half => Some(main.slice(..main.len() / 2)),
            Damage::Zeros => Some(vec![0; main.len()].into()),
            Damage::Gone => None,
        };
    }

    /// What a member finds that can be read: its main content, else the backup.
    pub(crate) fn offsets(&self) -> KeptOffsets {
        let contents = [&self.found.main, &self.found.backup].into_iter().flatten();
        let mut good = contents.filter_map(|content| kept_offsets::read(content).ok());
        good.next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::{MessageQueue, QueueId, QueueOffset};

    use super::*;

    fn content(offset: i64) -> Bytes {
        let queue = MessageQueue {
            topic: "T".into(),
            broker: "a".into(),
            id: QueueId(0),
        };
        kept_offsets::write(&KeptOffsets::from([(queue, QueueOffset(offset))]))
    }

    fn offset(keep: &Keep) -> Option<i64> {
        keep.offsets().values().next().map(|offset| offset.0)
    }

    #[test]
    fn the_backup_is_what_was_there_before_and_outlives_damage() {
        let mut keep = Keep::new();
        assert_eq!(offset(&keep), None);
        keep.write(content(10), Former::Backup);
        keep.damage(Damage::Gone);
        assert_eq!(offset(&keep), Some(10), "there is nothing to fall back on");
        keep.write(content(20), Former::Backup);
        for damage in [Damage::Half, Damage::Zeros, Damage::Gone] {
            keep.write(content(20), Former::Aside);
            keep.damage(damage);
            assert_eq!(offset(&keep), Some(10), "{damage:?}");
        }
        keep.write(content(30), Former::Aside);
        assert_eq!(offset(&keep), Some(30));
    }
}
