use std::collections::BTreeMap;

use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup, MessageQueue, QueueId, Topic};

use super::seen::{GroupNo, QueueNo};

/// Everything a world has a name for, and the number it goes by.
///
/// A world has few topics, brokers and groups, so those are found by looking through them; queues by a table
/// of numbers.
#[derive(Debug, Default)]
pub(crate) struct Names {
    topics: Vec<Topic>,
    brokers: Vec<BrokerName>,
    groups: Vec<ConsumerGroup>,
    queues: Vec<MessageQueue>,
    by_parts: BTreeMap<(usize, usize, i32), QueueNo>,
}

impl Names {
    /// The number of a queue, a new one if it has none.
    pub(crate) fn queue(&mut self, topic: &str, broker: &str, id: QueueId) -> QueueNo {
        let topic_no = position_or_push(&mut self.topics, topic, Topic::as_str);
        let broker_no = position_or_push(&mut self.brokers, broker, BrokerName::as_str);
        let (topics, brokers, queues) = (&self.topics, &self.brokers, &mut self.queues);
        *self
            .by_parts
            .entry((topic_no, broker_no, id.0))
            .or_insert_with(|| {
                queues.push(MessageQueue {
                    topic: topics[topic_no].clone(),
                    broker: brokers[broker_no].clone(),
                    id,
                });
                QueueNo(number(queues.len() - 1))
            })
    }

    pub(crate) fn of_queue(&mut self, queue: &MessageQueue) -> QueueNo {
        self.queue(queue.topic.as_str(), queue.broker.as_str(), queue.id)
    }

    /// The number of a queue that has one.
    pub(crate) fn find_queue(&self, queue: &MessageQueue) -> Option<QueueNo> {
        let topic = self.topics.iter().position(|topic| topic == &queue.topic)?;
        let broker = self.brokers.iter().position(|broker| broker == &queue.broker)?;
        self.by_parts.get(&(topic, broker, queue.id.0)).copied()
    }

    /// The number of a group, a new one if it has none.
    pub(crate) fn group(&mut self, group: &str) -> GroupNo {
        GroupNo(number(position_or_push(
            &mut self.groups,
            group,
            ConsumerGroup::as_str,
        )))
    }

    pub(crate) fn queue_name(&self, queue: QueueNo) -> &MessageQueue {
        &self.queues[queue.0 as usize]
    }

    pub(crate) fn group_name(&self, group: GroupNo) -> &ConsumerGroup {
        &self.groups[group.0 as usize]
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupNo> + use<> {
        (0..number(self.groups.len())).map(GroupNo)
    }
}

fn position_or_push<T: for<'a> From<&'a str>>(all: &mut Vec<T>, name: &str, text: fn(&T) -> &str) -> usize {
    all.iter().position(|one| text(one) == name).unwrap_or_else(|| {
        all.push(name.into());
        all.len() - 1
    })
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("a world has fewer than 2^32 of anything")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let mut names = Names::default();
        let first = names.queue("orders", "broker-a", QueueId(0));
        let second = names.queue("orders", "broker-b", QueueId(0));
        assert_ne!(first, second);
        assert_eq!(names.queue("orders", "broker-a", QueueId(0)), first);
        assert_eq!(names.queue_name(second).to_string(), "orders/broker-b/0");
        let name = names.queue_name(second).clone();
        assert_eq!(
            (names.find_queue(&name), names.of_queue(&name)),
            (Some(second), second)
        );
        let unknown = MessageQueue {
            id: QueueId(9),
            ..name
        };
        assert_eq!(names.find_queue(&unknown), None);
        assert_eq!(
            (names.group("g"), names.group("h"), names.group("g")),
            (GroupNo(0), GroupNo(1), GroupNo(0))
        );
    }
}
