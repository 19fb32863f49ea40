use std::collections::BTreeMap;

use rocketmq_consumer_core::broker::config::{ClusterConfig, TopicConfig};
use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::ids::{
    BrokerName, ConsumerGroup, MessageQueue, PeerAddr, QueueId, QueueOffset, Topic,
};
use rocketmq_consumer_core::status::Status;
use rocketmq_consumer_core::time::Instant;

use super::cluster::Cluster;
use super::invariant::{Allowances, View};
use super::ledger::Ledger;
use super::names::Names;
use super::nodes::Nodes;
use super::process::{Place, Process};
use super::seen::{GroupNo, Life, MemberId, NodeNo, QueueNo};
use super::tenures::Tenures;

/// Which queues there are: what the world itself has ordered.
#[derive(Debug)]
pub(crate) struct Topics {
    brokers: Vec<BrokerName>,
    read_queues: BTreeMap<(Topic, BrokerName), u32>,
    /// Most queues a topic has ever had on a broker.
    most: BTreeMap<(Topic, BrokerName), u32>,
}

impl Topics {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        let brokers = config.brokers.iter().map(|broker| broker.name.clone());
        let mut topics = Self {
            brokers: brokers.collect(),
            read_queues: BTreeMap::new(),
            most: BTreeMap::new(),
        };
        for topic in &config.topics {
            topics.put(None, topic);
        }
        topics
    }

    /// A topic was created or changed, on one broker or on all.
    pub(crate) fn put(&mut self, on: Option<&BrokerName>, topic: &TopicConfig) {
        for broker in self
            .brokers
            .iter()
            .filter(|broker| on.is_none_or(|on| on == *broker))
        {
            let key = (topic.name.clone(), broker.clone());
            let most = self.most.entry(key.clone()).or_default();
            *most = (*most).max(topic.read_queues);
            self.read_queues.insert(key, topic.read_queues);
        }
    }

    /// A topic was deleted everywhere.
    pub(crate) fn remove(&mut self, topic: &Topic) {
        self.read_queues.retain(|(name, _), _| name != topic);
    }

    /// How many queues of a topic on a broker can be read now.
    pub(crate) fn count(&self, topic: &Topic, broker: &BrokerName) -> u32 {
        let key = (topic.clone(), broker.clone());
        self.read_queues.get(&key).copied().unwrap_or(0)
    }

    /// The queues that can be read now.
    pub(crate) fn queues(&self) -> impl Iterator<Item = MessageQueue> + '_ {
        self.read_queues.iter().flat_map(|((topic, broker), queues)| {
            (0..i32::try_from(*queues).unwrap_or(0)).map(move |id| MessageQueue {
                topic: topic.clone(),
                broker: broker.clone(),
                id: QueueId(id),
            })
        })
    }

    /// Every topic as large as it ever was, by broker.
    pub(crate) fn largest(&self) -> Vec<(Topic, BrokerName, u32)> {
        let all = self.most.iter();
        all.map(|((topic, broker), queues)| (topic.clone(), broker.clone(), *queues))
            .collect()
    }

    /// How many queues there were at most.
    pub(crate) fn most(&self) -> u32 {
        self.most.values().sum()
    }

    pub(crate) fn brokers(&self) -> &[BrokerName] {
        &self.brokers
    }
}

/// A world, as observers may look at it.
pub(crate) struct Facts<'a> {
    pub(crate) now: Instant,
    pub(crate) nodes: &'a Nodes,
    pub(crate) names: &'a Names,
    pub(crate) ledger: &'a Ledger,
    pub(crate) cluster: &'a Cluster,
    pub(crate) topics: &'a Topics,
    pub(crate) places: &'a [Place],
    pub(crate) members: &'a [MemberId],
    pub(crate) alive: &'a [Life],
    pub(crate) tenures: &'a Tenures,
    pub(crate) allowances: Allowances,
}

impl Facts<'_> {
    fn place(&self, life: Life) -> &Place {
        let member = self.members[life.0 as usize];
        &self.places[member.0 as usize]
    }

    pub(crate) fn process(&self, life: Life) -> Option<&Process> {
        let member = self.members[life.0 as usize];
        let host = self.place(life).host.unwrap_or(member);
        let process = self.places[host.0 as usize].process.as_ref();
        process.filter(|process| process.has(life))
    }
}

impl View for Facts<'_> {
    fn queue(&self, queue: QueueNo) -> &MessageQueue {
        self.names.queue_name(queue)
    }

    fn group(&self, group: GroupNo) -> &ConsumerGroup {
        self.names.group_name(group)
    }

    fn config(&self, life: Life) -> &GroupConfig {
        &self.place(life).group
    }

    fn tenures(&self) -> &Tenures {
        self.tenures
    }

    fn is_wanted(&self, group: GroupNo, queue: QueueNo) -> bool {
        let topic = self.queue(queue).topic.as_str();
        match topic.strip_prefix("%RETRY%") {
            Some(of) => of == self.group(group).as_str(),
            None => self.ledger.wants_topic(group, topic),
        }
    }

    fn origin(&self, queue: QueueNo, offset: QueueOffset) -> Option<u32> {
        self.ledger.origin(queue, offset.0)
    }

    fn wants(&self, group: GroupNo, origin: u32) -> bool {
        self.ledger.wants(group, origin)
    }

    fn alive(&self) -> &[Life] {
        self.alive
    }

    fn queues_of(&self, group: GroupNo) -> Vec<QueueNo> {
        let retry = Topic::from(format!("%RETRY%{}", self.group(group)));
        let retries = self.topics.brokers.iter().map(|broker| MessageQueue {
            topic: retry.clone(),
            broker: broker.clone(),
            id: QueueId(0),
        });
        let wanted = self.topics.queues();
        let wanted = wanted.filter(|queue| self.ledger.wants_topic(group, queue.topic.as_str()));
        wanted
            .chain(retries)
            .filter_map(|queue| self.names.find_queue(&queue))
            .collect()
    }

    fn committed(&self, group: GroupNo, queue: QueueNo) -> Option<QueueOffset> {
        self.cluster.committed(self.group(group), self.queue(queue))
    }

    fn max_offset(&self, queue: QueueNo) -> QueueOffset {
        self.cluster.max_offset(self.queue(queue))
    }

    fn replica(&self, node: NodeNo) -> Option<i64> {
        self.nodes.get(node).replica.as_ref().map(|(_, id)| *id)
    }

    fn broker_at(&self, addr: &PeerAddr) -> Option<&BrokerName> {
        let node = self.nodes.get(self.nodes.find(addr)?);
        node.replica.as_ref().map(|(broker, _)| broker)
    }

    fn status(&self, life: Life) -> Option<Status> {
        let mut status = self.process(life)?.machine.status()?;
        let group = self.config(life).group();
        status.groups.retain(|of| of.group == *group);
        Some(status)
    }

    fn allowances(&self) -> Allowances {
        self.allowances
    }
}
