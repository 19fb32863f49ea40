//! What of a group is paused: three kinds of switches, each for itself.

use alloc::collections::BTreeSet;

use crate::event::FlowScope;
use crate::ids::{MessageQueue, Topic};
use crate::status::PauseScope;

/// Switches by name: a topic or queue may be named that is not there yet, or not any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Switches {
    group: bool,
    topics: BTreeSet<Topic>,
    queues: BTreeSet<MessageQueue>,
}

impl Switches {
    /// Whether nothing is paused.
    pub(super) fn is_idle(&self) -> bool {
        !self.group && self.topics.is_empty() && self.queues.is_empty()
    }

    pub(super) fn is_paused(&self, scope: &FlowScope) -> bool {
        match scope {
            FlowScope::Group => self.group,
            FlowScope::Topic(topic) => self.topics.contains(topic),
            FlowScope::Queue(queue) => self.queues.contains(&**queue),
        }
    }

    pub(super) fn pause(&mut self, scope: &FlowScope) {
        match scope {
            FlowScope::Group => self.group = true,
            FlowScope::Topic(topic) => {
                self.topics.insert(topic.clone());
            }
            FlowScope::Queue(queue) => {
                self.queues.insert((**queue).clone());
            }
        }
    }

    pub(super) fn resume(&mut self, scope: &FlowScope) {
        match scope {
            FlowScope::Group => self.group = false,
            FlowScope::Topic(topic) => {
                self.topics.remove(topic);
            }
            FlowScope::Queue(queue) => {
                self.queues.remove(&**queue);
            }
        }
    }

    /// The widest switch that holds a queue.
    pub(super) fn holds(&self, queue: &MessageQueue) -> Option<PauseScope> {
        if self.is_idle() {
            None
        } else if self.group {
            Some(PauseScope::Group)
        } else if self.topics.contains(&queue.topic) {
            Some(PauseScope::Topic)
        } else {
            self.queues.contains(queue).then_some(PauseScope::Queue)
        }
    }

    /// Names that are remembered.
    pub(super) fn names(&self) -> usize {
        self.topics.len() + self.queues.len()
    }

    pub(super) const fn group(&self) -> bool {
        self.group
    }

    pub(super) const fn topics(&self) -> &BTreeSet<Topic> {
        &self.topics
    }

    pub(super) const fn queues(&self) -> &BTreeSet<MessageQueue> {
        &self.queues
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec;

    use super::*;
    use crate::ids::QueueId;

    fn queue(topic: &str, id: i32) -> MessageQueue {
        MessageQueue {
            topic: topic.into(),
            broker: "a".into(),
            id: QueueId(id),
        }
    }

    #[test]
    fn a_queue_flows_while_no_switch_holds_it_and_the_widest_is_named() {
        use PauseScope as P;
        let of_group = FlowScope::Group;
        let of_topic = FlowScope::Topic("T".into());
        let of_queue = FlowScope::Queue(Box::new(queue("T", 1)));
        // Which are switched off, and what holds T/0, T/1 and U/1.
        for (off, holds) in [
            (vec![], [None, None, None]),
            (vec![&of_queue], [None, Some(P::Queue), None]),
            (vec![&of_topic], [Some(P::Topic), Some(P::Topic), None]),
            (vec![&of_queue, &of_topic], [Some(P::Topic), Some(P::Topic), None]),
            (vec![&of_queue, &of_group], [Some(P::Group); 3]),
        ] {
            let mut switches = Switches::default();
            for scope in &off {
                switches.pause(scope);
                switches.pause(scope);
                assert!(switches.is_paused(scope));
            }
            let of = |switches: &Switches| {
                [("T", 0), ("T", 1), ("U", 1)].map(|(topic, id)| switches.holds(&queue(topic, id)))
            };
            assert_eq!(of(&switches), holds, "{off:?}");
            assert_eq!(switches.is_idle(), off.is_empty());
            // Resuming the group says nothing of a topic or queue that was paused itself.
            switches.resume(&of_group);
            assert_eq!(
                switches.names(),
                off.iter().filter(|scope| ***scope != of_group).count()
            );
            for scope in off {
                switches.resume(scope);
            }
            assert_eq!((of(&switches), switches.is_idle()), ([None; 3], true));
        }
    }
}
