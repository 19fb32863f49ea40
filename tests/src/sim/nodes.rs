use std::collections::BTreeMap;

use rocketmq_consumer_core::broker::config::ClusterConfig;
use rocketmq_consumer_core::ids::{BrokerName, PeerAddr};

use super::seen::NodeNo;

/// The nodes of a cluster, by number: name servers first, then every replica of every broker.
#[derive(Debug)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    by_addr: BTreeMap<PeerAddr, NodeNo>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) addr: PeerAddr,
    /// The broker it is a replica of, and its id there; `None` for a name server.
    pub(crate) replica: Option<(BrokerName, i64)>,
    pub(crate) is_up: bool,
    /// It went without a word: what comes from it does not arrive any more.
    pub(crate) is_silent: bool,
}

impl Node {
    pub(crate) fn broker(&self) -> &str {
        self.replica.as_ref().map_or("", |(broker, _)| broker.as_str())
    }
}

impl Nodes {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        let servers = config.name_servers.iter().map(|addr| (addr.clone(), None));
        let replicas = config.brokers.iter().flat_map(|broker| {
            let replicas = broker.replicas.iter();
            replicas.map(|(id, addr)| (addr.clone(), Some((broker.name.clone(), *id))))
        });
        let nodes = servers.chain(replicas).map(|(addr, replica)| Node {
            addr,
            replica,
            is_up: true,
            is_silent: false,
        });
        let nodes: Vec<Node> = nodes.collect();
        let by_addr = (0..).zip(&nodes);
        Self {
            by_addr: by_addr
                .map(|(no, node)| (node.addr.clone(), NodeNo(no)))
                .collect(),
            nodes,
        }
    }

    pub(crate) fn find(&self, addr: &PeerAddr) -> Option<NodeNo> {
        self.by_addr.get(addr).copied()
    }

    pub(crate) fn get(&self, node: NodeNo) -> &Node {
        &self.nodes[node.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, node: NodeNo) -> &mut Node {
        &mut self.nodes[node.0 as usize]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (NodeNo, &Node)> {
        (0..).map(NodeNo).zip(&self.nodes)
    }

    /// The master of a broker.
    pub(crate) fn master(&self, broker: &str) -> Option<NodeNo> {
        let is_master = |node: &Node| matches!(&node.replica, Some((name, 0)) if name.as_str() == broker);
        self.all().find(|(_, node)| is_master(node)).map(|(no, _)| no)
    }
}
