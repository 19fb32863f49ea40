//! Whether a world has come to rest.

use std::collections::BTreeMap;

use rocketmq_consumer_core::config::MessageModel;
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::wire::kept_offsets::KeptOffsets;

use super::engine::World;
use super::invariant::View as _;
use super::process::{Place, Process};
use super::seen::{GroupNo, QueueNo};

impl World {
    /// Whether nothing is left to be done: cheap to ask while much is.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.ledger.left() == 0 && self.is_committed() && self.unrest().is_none()
    }

    /// Whether brokers have all progress that groups keep there. Who owns what costs a snapshot of each machine, so
    /// that is asked for last.
    fn is_committed(&self) -> bool {
        let facts = self.facts();
        let mut groups = self.names.groups().filter(|group| !self.broadcasts(*group));
        groups.all(|group| {
            let mut queues = facts.queues_of(group).into_iter();
            self.members_of(group) == 0 || queues.all(|queue| self.lags(group, queue).is_none())
        })
    }

    /// How far a group is in a queue, and where that ends, if it is not there.
    fn lags(&self, group: GroupNo, queue: QueueNo) -> Option<(Option<QueueOffset>, QueueOffset)> {
        let facts = self.facts();
        let max = facts.max_offset(queue);
        let committed = facts.committed(group, queue);
        (max > QueueOffset(0) && committed != Some(max)).then_some((committed, max))
    }

    /// What has not come to rest yet, in words.
    pub(crate) fn unrest(&self) -> Option<String> {
        self.names
            .groups()
            .find_map(|group| self.left_of(group).or_else(|| self.unrest_of(group)))
    }

    fn left_of(&self, group: GroupNo) -> Option<String> {
        let (origin, copies) = self.ledger.first_left(group)?;
        let places = copies
            .iter()
            .map(|(queue, offset)| format!("{} {offset}", self.names.queue_name(*queue)));
        let places: Vec<String> = places.collect();
        let (left, group) = (self.ledger.left(), self.names.group_name(group));
        Some(format!(
            "{left} messages are neither finished nor dead letters; of {group}, message {origin}, stored at {places:?}"
        ))
    }

    fn unrest_of(&self, group: GroupNo) -> Option<String> {
        let facts = self.facts();
        let queues = facts.queues_of(group);
        let owners = self.owners(group);
        let members = self.members_of(group);
        let broadcasts = self.broadcasts(group);
        let kept = if broadcasts { self.kept(group) } else { Vec::new() };
        let mut unsettled = queues.into_iter().filter_map(|queue| {
            let name = facts.queue(queue);
            let owned = owners.get(&queue).copied().unwrap_or(0);
            let max = facts.max_offset(queue);
            if broadcasts {
                // Nobody retries where everybody has everything.
                if name.topic.as_str().starts_with('%') {
                    return None;
                }
                if owned != members {
                    return Some(format!("{name} is owned by {owned} of {members} members"));
                }
                let behind = kept
                    .iter()
                    .find(|kept| max > QueueOffset(0) && kept.get(name) != Some(&max));
                return behind.map(|kept| format!("{name}: {:?} of {max} is kept", kept.get(name)));
            }
            if let Some((committed, max)) = self.lags(group, queue) {
                return Some(format!("{name}: {committed:?} of {max} is committed"));
            }
            let may_be_shared = self.allowances.equal_client_ids;
            let is_good = owned == 1 || (may_be_shared && owned > 1);
            (!is_good).then(|| format!("{name} has {owned} owners"))
        });
        unsettled.next().filter(|_| members > 0)
    }

    fn broadcasts(&self, group: GroupNo) -> bool {
        let mut places = self.places.iter();
        places.any(|place| place.group_no == group && *place.group.model() == MessageModel::Broadcasting)
    }

    /// What each member of a group that runs has kept.
    fn kept(&self, group: GroupNo) -> Vec<KeptOffsets> {
        self.running(group).map(|place| place.keep.offsets()).collect()
    }

    /// How many members of a group run.
    fn members_of(&self, group: GroupNo) -> u32 {
        u32::try_from(self.running(group).count()).unwrap_or(u32::MAX)
    }

    fn running(&self, group: GroupNo) -> impl Iterator<Item = &Place> {
        let places = self.places.iter().filter(move |place| place.group_no == group);
        places.filter(move |place| {
            let process = self.process_of(place);
            process.is_some_and(|process| process.by_group(group).is_some())
        })
    }

    /// The process a group lives in.
    fn process_of<'a>(&'a self, place: &'a Place) -> Option<&'a Process> {
        let place = place.host.map_or(place, |host| &self.places[host.0 as usize]);
        place.process.as_ref()
    }

    /// How many members own each queue.
    fn owners(&self, group: GroupNo) -> BTreeMap<QueueNo, u32> {
        let mut owners = BTreeMap::new();
        let places = self.places.iter().filter(|place| place.group_no == group);
        for process in places.filter_map(|place| self.process_of(place)) {
            for queue in process.machine.owned(self.names.group_name(group)) {
                if let Some(no) = self.names.find_queue(&queue) {
                    *owners.entry(no).or_default() += 1;
                }
            }
        }
        owners
    }
}
