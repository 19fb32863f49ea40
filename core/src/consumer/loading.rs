//! Groups that broadcast and have not begun: what they keep of their offsets is being read.
//!
//! | stored | backup | the group |
//! |---|---|---|
//! | can be read | | begins with it |
//! | cannot, or is not there | can be read | begins with the backup, and a notice |
//! | nothing | nothing | begins for the first time |
//! | anything else | | does not begin, or, if it is so configured, over again by its start policy |
//! | written by a later version | | the same: its backup may be much older |
//!
//! What cannot be read is kept aside when it is replaced, and never becomes the backup.
//= rocketmq: LocalFileOffsetStore.load type=differs
//  reason: an empty file is not a damaged one; a damaged one without a backup is told by its name, and can be
//  started over.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::action::{Former, RefusalReason};
use crate::config::{DamagedStore, GroupConfig};
use crate::event::{Found, StoreError};
use crate::ids::{ConsumerGroup, StoreKey};
use crate::notice::NoticeKind;
use crate::wire::kept_offsets::{self, KeptOffsets, KeptOffsetsError};

use super::group::Kept;

/// Groups whose offsets are being read, and the numbers of everything a store is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads {
    waiting: BTreeMap<ConsumerGroup, Load>,
    asked: u64,
}

#[derive(Clone, Debug)]
struct Load {
    seq: u64,
    config: Arc<GroupConfig>,
}

impl Loads {
    /// The number of the next question.
    pub(super) const fn next_seq(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// A group waits for the answer to this question.
    pub(super) fn begin(&mut self, config: Arc<GroupConfig>) -> u64 {
        let seq = self.next_seq();
        self.waiting.insert(config.group.clone(), Load { seq, config });
        seq
    }

    /// Takes the group that waits for this answer.
    pub(super) fn answered(&mut self, group: &ConsumerGroup, seq: u64) -> Option<Arc<GroupConfig>> {
        self.waiting.get(group).filter(|load| load.seq == seq)?;
        self.waiting.remove(group).map(|load| load.config)
    }

    pub(super) fn is_loading(&self, group: &ConsumerGroup) -> bool {
        self.waiting.contains_key(group)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The group is not to begin any more; false if none is about to.
    pub(super) fn call_off(&mut self, group: &ConsumerGroup) -> bool {
        self.waiting.remove(group).is_some()
    }

    /// No group is to begin any more.
    pub(super) fn call_off_all(&mut self) -> Vec<ConsumerGroup> {
        core::mem::take(&mut self.waiting).into_keys().collect()
    }
}

/// With what a group begins, and what is to be told about it.
pub(super) fn begin(
    key: Box<StoreKey>,
    place: Box<str>,
    found: Result<Found, StoreError>,
    policy: DamagedStore,
) -> Result<(Kept, Option<NoticeKind>), RefusalReason> {
    let path = String::from(&*place);
    let found = found.map_err(|error| match error {
        StoreError::InUse => RefusalReason::StoreInUse { place: path.clone() },
        StoreError::Failed(why) => RefusalReason::StoreUnusable {
            place: path.clone(),
            why: why.into(),
        },
    })?;
    let (offsets, former, notice) = match Content::of(&found) {
        Content::None => (KeptOffsets::new(), Former::Backup, None),
        Content::Main(offsets) => (offsets, Former::Backup, None),
        Content::Backup(offsets, why) => {
            let notice = NoticeKind::BackupUsed { place: path, why };
            (offsets, Former::Aside, Some(notice))
        }
        Content::Damaged(why) if policy == DamagedStore::StartOver => {
            let notice = NoticeKind::StartedOver { place: path, why };
            (KeptOffsets::new(), Former::Aside, Some(notice))
        }
        Content::Damaged(why) => return Err(RefusalReason::StoreUnusable { place: path, why }),
    };
    let kept = Kept {
        key,
        place,
        offsets,
        former,
    };
    Ok((kept, notice))
}

/// What can be read of what was found.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    None,
    Main(KeptOffsets),
    /// And why not what was saved last.
    Backup(KeptOffsets, String),
    /// Neither, and why.
    Damaged(String),
}

impl Content {
    fn of(found: &Found) -> Self {
        let main = read(found.main.as_ref());
        let why = match main {
            Some(Ok(offsets)) => return Self::Main(offsets),
            Some(Err(later @ KeptOffsetsError::Version(_))) => return Self::Damaged(later.to_string()),
            Some(Err(error)) => Some(error.to_string()),
            None => None,
        };
        match (why, read(found.backup.as_ref())) {
            (why, Some(Ok(offsets))) => {
                Self::Backup(offsets, why.unwrap_or_else(|| "there is nothing".into()))
            }
            (Some(why), Some(Err(backup))) => Self::Damaged(format!("{why}; of the backup: {backup}")),
            (Some(why), None) => Self::Damaged(format!("{why}; there is no backup")),
            (None, Some(Err(backup))) => Self::Damaged(format!("there is nothing; of the backup: {backup}")),
            (None, None) => Self::None,
        }
    }
}

fn read(content: Option<&Bytes>) -> Option<Result<KeptOffsets, KeptOffsetsError>> {
    let content = content.filter(|content| !kept_offsets::is_blank(content))?;
    Some(kept_offsets::read(content))
}

#[cfg(test)]
mod tests;
