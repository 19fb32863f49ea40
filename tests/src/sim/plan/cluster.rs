//! The cluster, the network, and which node is which.

use std::time::Duration;

use rocketmq_consumer_core::broker::config::{ClusterConfig, TopicConfig};
use rocketmq_consumer_core::ids::{BrokerName, PeerAddr, Topic};

use super::{Painter, ms, secs};
use crate::sim::dice::Dice;
use crate::sim::network::Weather;
use crate::sim::seen::NodeNo;

impl Painter {
    pub(super) fn draw_weather(&mut self, extreme: bool) -> Weather {
        let most = if extreme { ms(700) } else { ms(8) };
        Weather {
            latency: self.dice.time(ms(0)..most / 2) + Duration::from_micros(100),
            jitter: self.dice.time(ms(0)..most),
            bytes_per_second: if extreme && self.dice.chance(50) {
                self.dice.number(2_000..50_000)
            } else {
                0
            },
            halves_per_mille: if extreme {
                self.dice.number(0..300)
            } else {
                self.dice.number(0..20)
            },
            half_gap: if extreme { secs(6) } else { ms(200) },
            lost_halves_percent: if extreme { 10 } else { 0 },
        }
    }

    /// A node of this kind: `None` is a name server, else the id of the replica.
    pub(super) fn node(&mut self, wanted: impl Fn(Option<i64>) -> bool) -> NodeNo {
        let servers = self.cluster.name_servers.iter().map(|_| None);
        let replicas = self
            .cluster
            .brokers
            .iter()
            .flat_map(|broker| broker.replicas.keys());
        let all = (0..).map(NodeNo).zip(servers.chain(replicas.copied().map(Some)));
        let fit: Vec<NodeNo> = all.filter(|(_, kind)| wanted(*kind)).map(|(no, _)| no).collect();
        *self.dice.pick(&fit)
    }

    /// The nodes of a broker.
    pub(super) fn replicas_of(&self, broker: &BrokerName) -> Vec<NodeNo> {
        let servers = u32::try_from(self.cluster.name_servers.len()).unwrap_or(0);
        let replicas = self
            .cluster
            .brokers
            .iter()
            .flat_map(|of| of.replicas.keys().map(|_| &of.name));
        let all = (servers..).map(NodeNo).zip(replicas);
        all.filter(|(_, name)| *name == broker)
            .map(|(no, _)| no)
            .collect()
    }

    pub(super) fn broker_of(&self, node: NodeNo) -> BrokerName {
        let mut index = (node.0 as usize).saturating_sub(self.cluster.name_servers.len());
        for broker in &self.cluster.brokers {
            if index < broker.replicas.len() {
                return broker.name.clone();
            }
            index -= broker.replicas.len();
        }
        self.cluster.brokers[0].name.clone()
    }
}

/// A cluster with its topics and its settings.
pub(super) fn draw_cluster(dice: &mut Dice) -> ClusterConfig {
    let brokers = *dice.pick(&[1, 1, 1, 2, 2, 3]);
    let mut cluster = ClusterConfig::with_brokers(brokers);
    if dice.chance(40) {
        cluster.name_servers.push(PeerAddr::new("10.0.1.2", 9876));
    }
    for (index, broker) in (1_u8..).zip(&mut cluster.brokers) {
        if dice.chance(40) {
            let slave = PeerAddr::new(format!("10.0.3.{index}"), 10911);
            broker.replicas.insert(1, slave);
        }
    }
    let topics = 1 + u64::from(dice.chance(30));
    let total = *dice.pick(&[2, 4, 6, 7, 7, 8, 8, 9, 10]);
    for number in 0..topics {
        let each = (total / topics / brokers as u64).max(1);
        let queues = u32::try_from(each + dice.number(0..2)).unwrap_or(4);
        cluster
            .topics
            .push(TopicConfig::new(Topic::from(format!("T{number}")), queues));
    }
    let settings = &mut cluster.settings;
    let levels = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 15, 16, 17, 18, 19, 20, 20, 20];
    settings.delay_levels = levels.map(secs).into();
    // Short polling takes a step a second and queue.
    settings.long_polling = dice.chance(96);
    settings.slave_read = dice.chance(50);
    settings.offset_check_in_slave = dice.chance(30);
    settings.route_expiry = if dice.chance(50) {
        Duration::ZERO
    } else {
        dice.time(secs(1)..secs(120))
    };
    settings.replication_lag = dice.time(Duration::ZERO..secs(2));
    cluster
}
