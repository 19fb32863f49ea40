//! What is asked of the store of whoever runs the machine, and what it answers.
//!
//! ```text
//!  StartGroup ──► Load ──► Loaded ──► the group begins, or is refused
//!                            Save ◄── what it has finished ──► Saved
//! ```

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::{ConsumerState, loading};
use crate::action::{AppAction, ShutdownReport, StoreAction};
use crate::config::GroupConfig;
use crate::event::StoreEvent;
use crate::ids::{ConsumerGroup, GroupKey, StoreKey, StoreKind};

impl ConsumerState {
    /// A group that broadcasts is to begin: first it is read how far it has come.
    pub(super) fn load_offsets(&mut self, config: Arc<GroupConfig>) {
        let key = Box::new(StoreKey {
            group: config.group.clone(),
            instance: self.config.instance.clone(),
            kind: StoreKind::Offsets,
        });
        let seq = self.loads.begin(config);
        self.ground.out.push(StoreAction::Load { key, seq });
    }

    pub(super) fn on_store(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Loaded {
                key,
                seq,
                place,
                found,
            } => {
                let Some(config) = self.loads.answered(&key.group, seq) else {
                    self.ground.counters.stale_answers += 1;
                    return;
                };
                match loading::begin(key, place, *found, config.damaged_store) {
                    Ok((kept, notice)) => {
                        let group = config.group.clone();
                        self.begin_group(config, Some(kept));
                        if let Some(notice) = notice {
                            self.ground.cx().notice(&group, notice);
                        }
                    }
                    Err(why) => self.refuse(Some(config.group.clone()), "start", why),
                }
            }
            StoreEvent::Saved { key, seq, error } => {
                let of_group = self.by_name.get(&key.group).copied();
                let mut cx = self.ground.cx();
                match of_group.and_then(|key| self.groups.get_mut(key)) {
                    Some(group) => group.on_saved(&mut cx, seq, error),
                    None => cx.counters.stale_answers += 1,
                }
            }
        }
    }

    /// What a group keeps itself is to be stored, unless a save is under way.
    pub(super) fn save(&mut self, group: GroupKey) {
        let seq = self.loads.next_seq();
        let mut cx = self.ground.cx();
        if let Some(group) = self.groups.get_mut(group) {
            group.save(&mut cx, seq);
        }
    }

    /// A group was stopped before it had begun.
    pub(super) fn never_began(&mut self, group: ConsumerGroup) {
        let report = Box::new(ShutdownReport::default());
        self.ground.out.push(AppAction::GroupStopped { group, report });
    }
}
