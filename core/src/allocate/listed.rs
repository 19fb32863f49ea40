//! Each member has its own list of queues; whoever else is there does not matter.
//= rocketmq: AllocateMessageQueueByConfig.allocate type=differs
//  reason: lists are compared with the route; the retry topic, which no list names, is shared evenly.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{BrokerName, MessageQueue, QueueId, Topic};

/// One queue of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListedQueue {
    /// The topic; without one it is meant for every topic the group subscribes to.
    pub topic: Option<Topic>,
    /// The broker.
    pub broker: BrokerName,
    /// The queue's number there.
    pub id: QueueId,
}

impl ListedQueue {
    fn of(&self, topic: &Topic) -> MessageQueue {
        MessageQueue {
            topic: self.topic.as_ref().unwrap_or(topic).clone(),
            broker: self.broker.clone(),
            id: self.id,
        }
    }
}

/// `broker:0`, or `topic/broker:0`.
impl fmt::Display for ListedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, broker, id } = self;
        match topic {
            Some(topic) => write!(f, "{topic}/{broker}:{id}"),
            None => write!(f, "{broker}:{id}"),
        }
    }
}

/// The list as Java returns it: as it stands there, whatever the route says. An entry without a topic is
/// one of the topic that is shared, if that is known from its queues.
pub(super) fn verbatim(list: &[ListedQueue], queues: &[MessageQueue]) -> Vec<MessageQueue> {
    let topic = queues.first().map(|queue| &queue.topic);
    list.iter()
        .filter_map(|listed| Some(listed.of(listed.topic.as_ref().or(topic)?)))
        .collect()
}

/// What the list names of a topic, and whether the topic has it.
pub(super) fn named<'a>(
    list: &'a [ListedQueue],
    topic: &'a Topic,
    queues: &'a [MessageQueue],
) -> impl Iterator<Item = (MessageQueue, bool)> + 'a {
    let meant = list
        .iter()
        .filter(move |listed| listed.topic.as_ref().is_none_or(|of| of == topic));
    meant.map(move |listed| {
        let queue = listed.of(topic);
        let is_there = queues.contains(&queue);
        (queue, is_there)
    })
}
