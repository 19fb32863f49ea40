//! What an operator asks of one group: where it is ([`Group::progress_in`]), how it is ([`info`]), to continue
//! elsewhere ([`reset`]), and to consume one message now ([`direct`]).

pub(super) mod direct;
mod info;
mod reset;
pub(super) mod tempo;

use crate::ids::Topic;
use crate::wire::request::operator::OffsetTable;

use super::Group;
use super::queue::Queue;

impl Group {
    /// What the next commit of each queue of a topic would say. Queues whose start is not known yet are left out.
    pub(crate) fn progress_in(&self, topic: &Topic) -> OffsetTable {
        let queues = self.by_name.iter().filter(|(queue, _)| &queue.topic == topic);
        let offsets = queues.filter_map(|(name, key)| {
            let tenure = self.queues.get(*key).and_then(Queue::tenure)?;
            Some((name.clone(), tenure.window.lowest_unfinished()))
        });
        offsets.collect()
    }
}
