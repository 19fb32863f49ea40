use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::allocate::sort_queues;
use rocketmq_consumer_core::ids::{BrokerName, MessageQueue, PeerAddr, QueueId, Topic};
use rocketmq_consumer_core::wire::request::route::{MASTER_ID, TopicRoute};

/// What the name servers told: queues of topics, addresses of brokers. A topic they stop to know keeps what it
/// had.
//= rocketmq: MQClientInstance.updateTopicRouteInfoFromNameServer
#[derive(Debug, Default)]
pub(super) struct Directory {
    topics: BTreeMap<Topic, Known>,
    brokers: BTreeMap<BrokerName, BTreeMap<i64, PeerAddr>>,
    /// Java asks a random broker for the members; here they take turns.
    turn: usize,
}

#[derive(Debug)]
struct Known {
    queues: Vec<MessageQueue>,
    brokers: Vec<BrokerName>,
}

impl Directory {
    /// Takes a route.
    pub(super) fn learn(&mut self, topic: &Topic, route: &TopicRoute) {
        let mut queues: Vec<MessageQueue> = Vec::new();
        for data in route.queues.iter().filter(|data| data.is_readable()) {
            queues.extend((0..data.read_queues).filter_map(|id| {
                Some(MessageQueue {
                    topic: topic.clone(),
                    broker: data.broker.clone(),
                    id: QueueId(i32::try_from(id).ok()?),
                })
            }));
        }
        sort_queues(&mut queues);
        for broker in &route.brokers {
            let addresses = broker
                .addresses
                .iter()
                .filter_map(|(id, addr)| Some((*id, addr.parse().ok()?)));
            self.brokers.insert(broker.name.clone(), addresses.collect());
        }
        let brokers = route.brokers.iter().map(|broker| broker.name.clone()).collect();
        self.topics.insert(topic.clone(), Known { queues, brokers });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    pub(super) fn queues(&self, topic: &Topic) -> Option<&[MessageQueue]> {
        let queues = &self.topics.get(topic)?.queues;
        (!queues.is_empty()).then_some(queues)
    }

    /// Any broker of a topic, its master first.
    pub(super) fn any_broker(&mut self, topic: &Topic) -> Option<PeerAddr> {
        let names = &self.topics.get(topic)?.brokers;
        self.turn += 1;
        let name = names.get(self.turn % names.len().max(1))?;
        self.replica(name, MASTER_ID).map(|(_, addr)| addr.clone())
    }

    pub(super) fn master(&self, broker: &BrokerName) -> Option<&PeerAddr> {
        self.brokers.get(broker)?.get(&MASTER_ID)
    }

    /// The replica that was suggested, else its neighbour, else the first.
    //= rocketmq: MQClientInstance.findBrokerAddressInSubscribe
    pub(super) fn replica(&self, broker: &BrokerName, id: i64) -> Option<(i64, &PeerAddr)> {
        let ids = self.brokers.get(broker)?;
        let exactly = |id: i64| ids.get(&id).map(|addr| (id, addr));
        exactly(id)
            .or_else(|| if id == MASTER_ID { None } else { exactly(id + 1) })
            .or_else(|| ids.iter().next().map(|(id, addr)| (*id, addr)))
    }

    /// Every address of every broker: heartbeats go to slaves too.
    pub(super) fn addresses(&self) -> BTreeSet<PeerAddr> {
        self.brokers
            .values()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }
}
