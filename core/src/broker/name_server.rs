//! What name servers know: which brokers run where, and which topics they have.
//!
//! All name servers know the same, because brokers register with each. One that is frozen goes on telling
//! what it knew, as one does that lost sight of the brokers.
//= rocketmq: RouteInfoManager, ClientRequestProcessor

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};

use super::config::TopicConfig;
use super::node::NodeKey;
use crate::ids::{BrokerName, PeerAddr, Topic};
use crate::wire::request::route::{BrokerData, QueueData, TopicRoute};

/// What is registered.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    cluster: String,
    brokers: BTreeMap<BrokerName, Registration>,
}

#[derive(Clone, Debug, Default)]
struct Registration {
    /// Where replicas run, by broker id.
    replicas: BTreeMap<i64, String>,
    topics: BTreeMap<Topic, TopicConfig>,
}

impl Directory {
    pub(super) const fn new(cluster: String) -> Self {
        Self {
            cluster,
            brokers: BTreeMap::new(),
        }
    }

    /// A replica runs.
    pub(super) fn register(&mut self, broker: &BrokerName, id: i64, addr: &PeerAddr) {
        let of = self.brokers.entry(broker.clone()).or_default();
        of.replicas.insert(id, addr.to_string());
    }

    /// A replica does not run any more. Of a broker without replicas nothing is known.
    pub(super) fn unregister(&mut self, broker: &BrokerName, id: i64) {
        if let Some(of) = self.brokers.get_mut(broker) {
            of.replicas.remove(&id);
            if of.replicas.is_empty() {
                self.brokers.remove(broker);
            }
        }
    }

    /// A broker that runs has a topic.
    pub(super) fn put_topic(&mut self, broker: &BrokerName, topic: &TopicConfig) {
        if let Some(of) = self.brokers.get_mut(broker) {
            of.topics.insert(topic.name.clone(), topic.clone());
        }
    }

    /// How many topics of a broker are known.
    pub(super) fn topics_of(&self, broker: &BrokerName) -> usize {
        self.brokers.get(broker).map_or(0, |of| of.topics.len())
    }

    /// Forgets the topics of a broker that it has no more.
    pub(super) fn keep_topics(&mut self, broker: &BrokerName, is_there: impl Fn(&Topic) -> bool) {
        if let Some(of) = self.brokers.get_mut(broker) {
            of.topics.retain(|topic, _| is_there(topic));
        }
    }

    /// Forgets a topic. A broker that deletes one does not say so: whoever wants that asks for it.
    pub(super) fn delete_topic(&mut self, topic: &Topic) {
        for of in self.brokers.values_mut() {
            of.topics.remove(topic);
        }
    }

    /// Where a topic is; `None` when no broker that runs has it.
    pub(super) fn route(&self, topic: &Topic) -> Option<TopicRoute> {
        let mut route = TopicRoute::default();
        for (name, of) in &self.brokers {
            if let Some(config) = of.topics.get(topic) {
                route.queues.push(QueueData {
                    broker: name.clone(),
                    read_queues: config.read_queues,
                    write_queues: config.write_queues,
                    perm: config.perm,
                    topic_sys_flag: 0,
                });
                route.brokers.push(self.broker_data(name, of));
            }
        }
        (!route.queues.is_empty()).then_some(route)
    }

    /// All brokers and their addresses.
    pub(super) fn brokers(&self) -> impl Iterator<Item = BrokerData> {
        self.brokers.iter().map(|(name, of)| self.broker_data(name, of))
    }

    /// The cluster's name.
    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// All topics that any broker has.
    pub(super) fn topics(&self) -> BTreeSet<Topic> {
        let all = self.brokers.values().flat_map(|of| of.topics.keys());
        all.cloned().collect()
    }

    fn broker_data(&self, name: &BrokerName, of: &Registration) -> BrokerData {
        BrokerData {
            cluster: self.cluster.clone(),
            name: name.clone(),
            addresses: of.replicas.clone(),
            zone_name: None,
            enable_acting_master: false,
        }
    }
}

/// The name servers' views.
#[derive(Clone, Debug)]
pub(super) struct NameServers {
    /// What is true.
    pub(super) live: Directory,
    /// What frozen name servers tell.
    frozen: BTreeMap<NodeKey, Directory>,
}

impl NameServers {
    pub(super) const fn new(cluster: String) -> Self {
        Self {
            live: Directory::new(cluster),
            frozen: BTreeMap::new(),
        }
    }

    /// What a name server tells.
    pub(super) fn view(&self, name_server: NodeKey) -> &Directory {
        self.frozen.get(&name_server).unwrap_or(&self.live)
    }

    pub(super) fn freeze(&mut self, name_server: NodeKey, frozen: bool) {
        if frozen {
            let view = self.view(name_server).clone();
            self.frozen.insert(name_server, view);
        } else {
            self.frozen.remove(&name_server);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn directory() -> Directory {
        let mut directory = Directory::new("C".into());
        for (broker, id, port) in [("a", 0, 1), ("a", 1, 2), ("b", 0, 3)] {
            directory.register(&broker.into(), id, &PeerAddr::new("h", port));
            directory.put_topic(&broker.into(), &TopicConfig::new("T".into(), 4));
        }
        directory
    }

    fn brokers_of(directory: &Directory) -> Vec<(BrokerName, Vec<i64>)> {
        let route = directory.route(&"T".into()).unwrap_or_default();
        assert_eq!(route.queues.len(), route.brokers.len());
        let addresses = |data: BrokerData| (data.name, data.addresses.into_keys().collect());
        route.brokers.into_iter().map(addresses).collect()
    }

    #[test]
    fn a_route_names_the_replicas_that_run() {
        let mut directory = directory();
        let all = [("a".into(), [0, 1].into()), ("b".into(), [0].into())];
        assert_eq!(brokers_of(&directory), all);
        directory.unregister(&"a".into(), 0);
        directory.unregister(&"b".into(), 0);
        assert_eq!(brokers_of(&directory), [("a".into(), [1].into())]);
        directory.unregister(&"a".into(), 1);
        assert_eq!(
            (directory.route(&"T".into()), directory.topics()),
            (None, [].into())
        );
        let b = "b".into();
        directory.register(&b, 0, &PeerAddr::new("h", 9));
        assert_eq!(brokers_of(&directory), [], "its topics are registered anew");
        directory.put_topic(&b, &TopicConfig::new("T".into(), 4));
        assert_eq!(brokers_of(&directory), [(b, [0].into())]);
    }

    #[test]
    fn a_topic_that_is_forgotten_has_no_route() {
        let mut directory = directory();
        directory.delete_topic(&"T".into());
        assert_eq!(directory.route(&"T".into()), None);
    }

    #[test]
    fn a_frozen_name_server_tells_what_it_knew() {
        let (frozen, honest) = (NodeKey(0), NodeKey(1));
        let mut servers = NameServers::new("C".into());
        servers.live = directory();
        servers.freeze(frozen, true);
        servers.live.unregister(&"b".into(), 0);
        servers.freeze(frozen, true);
        let count = |servers: &NameServers, key| brokers_of(servers.view(key)).len();
        assert_eq!((count(&servers, frozen), count(&servers, honest)), (2, 1));
        servers.freeze(frozen, false);
        assert_eq!(count(&servers, frozen), 1);
    }
}
