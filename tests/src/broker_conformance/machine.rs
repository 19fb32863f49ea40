//! The broker machine in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::broker::BrokerState;
use rocketmq_consumer_core::broker::config::{BrokerConfig, ClusterConfig, Settings};
use rocketmq_consumer_core::broker::event::{BrokerAction, BrokerEvent, ServerEvent};
use rocketmq_consumer_core::ids::{ConnId, PeerAddr};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};

use super::cluster::{Cluster, Node, Received};
use super::script;

const STARTED: WallTime = WallTime::from_unix_millis(1_795_000_000_000);
/// Where clients come from: ports counted from here.
const CLIENT_PORTS: u16 = 50_000;
/// What writing a frame and reading its answer takes; time must pass for what is ordered by it.
const ROUND_TRIP: Duration = Duration::from_millis(1);

/// [`BrokerState`] as the script wants its cluster.
#[derive(Debug)]
pub struct Machine {
    state: BrokerState,
    now: Instant,
    conns: BTreeMap<String, ConnId>,
    arrived: BTreeMap<ConnId, Arrived>,
    opened: u16,
}

/// What came to one connection and was not read.
#[derive(Debug, Default)]
struct Arrived {
    frames: VecDeque<Bytes>,
    is_closed: bool,
}

impl Machine {
    /// A cluster as [`script`] expects it.
    #[must_use]
    pub fn new() -> Self {
        Self::with(cluster().settings)
    }

    /// A cluster whose brokers are set otherwise.
    #[must_use]
    pub fn with(settings: Settings) -> Self {
        let config = ClusterConfig {
            settings,
            ..cluster()
        };
        Self {
            state: BrokerState::new(config, Seed(1), Instant::ZERO, STARTED),
            now: Instant::ZERO,
            conns: BTreeMap::new(),
            arrived: BTreeMap::new(),
            opened: 0,
        }
    }

    fn handle(&mut self, event: BrokerEvent) {
        self.state.handle(self.now, event);
        while let Some(action) = self.state.poll_action() {
            match action {
                BrokerAction::Send { conn, frame } => {
                    if let Some(arrived) = self.arrived.get_mut(&conn) {
                        arrived.frames.push_back(frame);
                    }
                }
                BrokerAction::Close { conn } => {
                    if let Some(arrived) = self.arrived.get_mut(&conn) {
                        arrived.is_closed = true;
                    }
                }
                _ => {}
            }
        }
    }

    fn net(&mut self, event: ServerEvent) {
        self.handle(BrokerEvent::Net(event));
    }

    /// Goes on to what happens next, or to `until` when that is earlier; whether something happened.
    fn advance(&mut self, until: Instant) -> bool {
        match self.state.poll_timeout() {
            Some(at) if at <= until => {
                self.now = self.now.max(at);
                self.handle(BrokerEvent::Wakeup);
                true
            }
            _ => {
                self.now = self.now.max(until);
                false
            }
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster for Machine {
    fn address(&self, node: Node) -> String {
        address(node).to_string()
    }

    fn wall(&self) -> i64 {
        self.state.wall().as_unix_millis()
    }

    fn open(&mut self, conn: &str, node: Node) -> Result<String, String> {
        let id = ConnId {
            slot: self.opened.into(),
            generation: 0,
        };
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, CLIENT_PORTS + self.opened));
        self.opened += 1;
        self.conns.insert(conn.into(), id);
        self.arrived.insert(id, Arrived::default());
        self.net(ServerEvent::Accepted {
            conn: id,
            at: address(node),
            from,
        });
        Ok(from.to_string())
    }

    fn close(&mut self, conn: &str) {
        if let Some(conn) = self.conns.remove(conn) {
            self.arrived.remove(&conn);
            self.net(ServerEvent::Closed { conn });
        }
    }

    fn send(&mut self, conn: &str, frame: &[u8]) {
        let Some(conn) = self.conns.get(conn).copied() else {
            return;
        };
        self.wait(ROUND_TRIP);
        if self.arrived.get(&conn).is_some_and(|arrived| !arrived.is_closed) {
            let bytes = Bytes::copy_from_slice(frame);
            self.net(ServerEvent::Received { conn, bytes });
        }
    }

    fn receive(&mut self, conn: &str, limit: Duration) -> Received {
        let until = self.now + limit;
        loop {
            let arrived = self.conns.get(conn).and_then(|conn| self.arrived.get_mut(conn));
            let Some(arrived) = arrived else {
                return Received::Closed;
            };
            if let Some(frame) = arrived.frames.pop_front() {
                return Received::Frame(frame.to_vec());
            }
            if arrived.is_closed {
                return Received::Closed;
            }
            if !self.advance(until) {
                return Received::Silence;
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while self.advance(until) {}
    }
}

/// The cluster that [`script`] expects.
#[must_use]
pub fn cluster() -> ClusterConfig {
    ClusterConfig {
        name: script::CLUSTER_NAME.into(),
        name_servers: [address(Node::NameServer)].into(),
        brokers: [BrokerConfig {
            name: script::BROKER_NAME.into(),
            replicas: [(0, address(Node::Broker))].into(),
        }]
        .into(),
        topics: Vec::new(),
        settings: Settings {
            delay_levels: vec![Duration::from_secs(1); script::DELAY_LEVELS.split_whitespace().count()],
            ..Settings::default()
        },
    }
}

fn address(node: Node) -> PeerAddr {
    let port = match node {
        Node::NameServer => 9_876,
        Node::Broker => 10_911,
    };
    PeerAddr::new("127.0.0.1", port)
}
