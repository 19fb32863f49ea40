//! What machines want of their store, carried out.

use std::time::Duration;

use rocketmq_consumer_core::action::StoreAction;
use rocketmq_consumer_core::event::StoreEvent;
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::wire::kept_offsets;

use super::agenda::Due;
use super::engine::World;
use super::keep::{Damage, Disk};
use super::process::{Process, Tenancy};
use super::seen::{Deed, Life, MemberId, QueueNo};

/// A question to a store that is not answered yet.
#[derive(Debug)]
pub(crate) struct Stored {
    action: StoreAction,
    fails: bool,
}

impl World {
    /// Whose store a question is about: that of the group it names.
    fn storing(&mut self, host: MemberId, action: &StoreAction) -> Option<Tenancy> {
        let (StoreAction::Load { key, .. } | StoreAction::Save { key, .. }) = action else {
            return None;
        };
        let group = self.names.group(key.group.as_str());
        let process = self.places[host.0 as usize].process.as_ref();
        process.and_then(|process| process.by_group(group))
    }

    pub(crate) fn on_store(&mut self, host: MemberId, life: Life, action: StoreAction) {
        let (StoreAction::Load { seq, .. } | StoreAction::Save { seq, .. }) = action else {
            return self.unknown(&action);
        };
        let Some(tenancy) = self.storing(host, &action) else {
            return;
        };
        if let StoreAction::Save { bytes, .. } = &action {
            self.show_kept(tenancy, bytes, |queue, offset| Deed::Keeping { queue, offset });
        }
        self.client_deed(host, Deed::StoreAsked);
        let disk = self.places[tenancy.member.0 as usize].keep.disk;
        let fails = disk.fails > 0 && self.dice.number(0..1000) < disk.fails;
        let takes = self.dice.time(Duration::ZERO..disk.slow);
        if let Some(process) = self.places[host.0 as usize].process.as_mut() {
            process.stored.insert(seq, Stored { action, fails });
            self.agenda.put(self.now + takes, Due::Stored(host, life, seq));
        }
    }

    fn show_kept(
        &mut self,
        tenancy: Tenancy,
        content: &[u8],
        deed: fn(QueueNo, QueueOffset) -> Deed<'static>,
    ) {
        for (queue, offset) in kept_offsets::read(content).unwrap_or_default() {
            let queue = self.names.of_queue(&queue);
            self.deed(tenancy.life, deed(queue, offset));
        }
    }

    /// The disk is done with a question.
    pub(crate) fn answer_store(&mut self, host: MemberId, seq: u64) {
        let process = self.places[host.0 as usize].process.as_mut();
        let Some(stored) = process.and_then(|process| process.stored.remove(&seq)) else {
            return;
        };
        let Some(tenancy) = self.storing(host, &stored.action) else {
            return;
        };
        self.client_deed(host, Deed::StoreAnswered);
        let event = match stored.action {
            StoreAction::Load { key, seq } => {
                let keep = &self.places[tenancy.member.0 as usize].keep;
                let (found, offsets) = (keep.found(), keep.offsets());
                for (queue, offset) in offsets {
                    let queue = self.names.of_queue(&queue);
                    self.deed(tenancy.life, Deed::Found { queue, offset });
                }
                let (place, found) = (format!("{:?}", tenancy.member).into(), Box::new(Ok(found)));
                StoreEvent::Loaded {
                    key,
                    seq,
                    place,
                    found,
                }
            }
            StoreAction::Save {
                key,
                seq,
                bytes,
                former,
            } => {
                let error = stored.fails.then(|| "the disk is full".into());
                if !stored.fails {
                    self.show_kept(tenancy, &bytes, |queue, offset| Deed::Kept { queue, offset });
                    self.places[tenancy.member.0 as usize].keep.write(bytes, former);
                }
                StoreEvent::Saved { key, seq, error }
            }
            other => return self.unknown(&other),
        };
        self.feed(host, event.into());
    }

    /// What a process that dies was just writing is there or not.
    pub(crate) fn drop_stored(&mut self, process: &mut Process) {
        for stored in std::mem::take(&mut process.stored).into_values() {
            if let StoreAction::Save {
                key, bytes, former, ..
            } = stored.action
                && self.dice.chance(50)
            {
                let group = self.names.group(key.group.as_str());
                if let Some(tenancy) = process.by_group(group) {
                    self.places[tenancy.member.0 as usize].keep.write(bytes, former);
                }
            }
        }
    }

    pub(crate) fn set_disk(&mut self, member: MemberId, disk: Disk) {
        self.places[member.0 as usize].keep.disk = disk;
    }

    pub(crate) fn damage(&mut self, member: MemberId, damage: Damage) {
        self.places[member.0 as usize].keep.damage(damage);
    }
}
