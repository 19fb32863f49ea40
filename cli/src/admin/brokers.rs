use rocketmq_consumer_core::ids::{BrokerName, PeerAddr, Topic};
use rocketmq_consumer_core::wire::request::cluster::{ClusterInfo, ClusterInfoRequest};
use rocketmq_consumer_core::wire::request::route::{BrokerData, TopicRoute};

use crate::cluster::{Cluster, master};
use crate::exit::Failure;
use crate::talk::{Level, Talk};

/// The master of a broker: who keeps offsets, groups and topics.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Master {
    /// The broker.
    pub(crate) name: BrokerName,
    /// Where it listens.
    pub(crate) addr: PeerAddr,
}

impl Master {
    fn of(broker: &BrokerData) -> Option<Self> {
        Some(Self {
            name: broker.name.clone(),
            addr: master(broker)?,
        })
    }
}

/// All masters of the cluster, by name. Who has none is told.
///
/// # Errors
/// No name server answers, or none knows a master.
pub(crate) async fn masters(cluster: &Cluster, talk: Talk) -> Result<Vec<Master>, Failure> {
    let info: Option<ClusterInfo> = cluster.ask_name_servers(&ClusterInfoRequest).await?;
    let brokers = info.unwrap_or_default().brokers;
    for broker in brokers.values().filter(|broker| master(broker).is_none()) {
        talk.say(
            Level::Warn,
            format_args!(
                "{} has no master now and is left out; see `rocketcat doctor`",
                broker.name
            ),
        );
    }
    let masters: Vec<_> = brokers.values().filter_map(Master::of).collect();
    if masters.is_empty() {
        return Err(Failure::failed(
            "the name server knows no broker with a master; start one, or check --name-server",
        ));
    }
    Ok(masters)
}

/// The masters in a route, by name.
pub(crate) fn masters_of(route: &TopicRoute) -> Vec<Master> {
    let mut masters: Vec<_> = route.brokers.iter().filter_map(Master::of).collect();
    masters.sort();
    masters
}

/// The route of a topic that has to be there.
///
/// # Errors
/// No name server answers, or none knows the topic.
pub(crate) async fn route_or_fail(cluster: &Cluster, topic: &Topic) -> Result<TopicRoute, Failure> {
    let route = cluster.route(topic).await?;
    route.ok_or_else(|| {
        Failure::failed(format_args!(
            "topic {topic} is unknown; `rocketcat topics` lists those there are"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masters_with_an_address_that_makes_sense_count() {
        let broker = |name: &str, id: i64, addr: &str| BrokerData {
            cluster: "C".into(),
            name: name.into(),
            addresses: [(id, addr.to_owned())].into(),
            zone_name: None,
            enable_acting_master: false,
        };
        let route = TopicRoute {
            brokers: vec![
                broker("b", 0, "h:2"),
                broker("a", 0, "h:1"),
                broker("slave", 1, "h:3"),
                broker("odd", 0, "nonsense"),
            ],
            ..TopicRoute::default()
        };
        let names: Vec<_> = masters_of(&route)
            .into_iter()
            .map(|master| format!("{} {}", master.name, master.addr))
            .collect();
        assert_eq!(names, ["a h:1", "b h:2"]);
    }
}
