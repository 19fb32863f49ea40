mod hand;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use rocketmq_consumer_core::broker::config::{BrokerConfig, ClusterConfig, Settings};
use rocketmq_consumer_core::broker::event::{BrokerAction, BrokerEvent, Control, ServerEvent};
use rocketmq_consumer_core::broker::observation::Observation;
use rocketmq_consumer_core::broker::{BrokerState, StoredRef};
use rocketmq_consumer_core::ids::{
    BrokerName, ConnId, ConsumerGroup, MessageQueue, PeerAddr, QueueId, QueueOffset, Topic,
};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::route::{MASTER_ID, RouteRequest};

use super::asked::{Asked, Link};
use super::bench::address;
use super::node::Node;
use super::peer::{Dial, Peer, PeerAction, Reply};

/// The brokers of every world. One without topics is in no route, so nobody hears of it.
const BROKERS: [&str; 4] = ["a", "b", "c", "d"];
/// How many name servers every world has; members are told of the first, unless a test adds more.
const NAME_SERVERS: usize = 3;
/// What the machine may have done at once without our looking.
const OBSERVATIONS_MAX: usize = 100_000;

/// Name servers and brokers: the core's own machine of a cluster, behind names, addresses and what a
/// test has arranged for them.
///
/// Brokers are called `a` to `d`, the name servers `ns`, `ns2` and `ns3`.
#[derive(Debug)]
pub struct Cluster {
    state: BrokerState,
    nodes: BTreeMap<PeerAddr, Node>,
    /// The name servers members are told of.
    name_servers: Vec<PeerAddr>,
    /// Where each broker is.
    brokers: BTreeMap<BrokerName, PeerAddr>,
    /// Topics whose route the name servers deny.
    hidden: BTreeSet<Topic>,
    links: BTreeMap<Link, Accepted>,
    by_conn: BTreeMap<ConnId, Link>,
    conns: u32,
    later: BTreeMap<(Instant, u64), Pending>,
    seq: u64,
    out: VecDeque<PeerAction>,
    sent_back: Vec<SentBack>,
}

/// A connection as the machine knows it.
#[derive(Clone, Debug)]
struct Accepted {
    conn: ConnId,
    at: PeerAddr,
}

/// A request, and what a test wants to be done with it.
#[derive(Debug)]
struct Pending {
    asked: Asked,
    bytes: Bytes,
    reply: Reply,
}

/// A message that a broker has taken back.
#[derive(Clone, Debug)]
pub(super) struct SentBack {
    pub(super) at: Instant,
    pub(super) group: ConsumerGroup,
    pub(super) queue: MessageQueue,
    pub(super) offset: QueueOffset,
}

impl Cluster {
    pub(super) fn new(origin: WallTime) -> Self {
        let name_servers: Vec<_> = (1..=NAME_SERVERS)
            .map(|number| PeerAddr::new(format!("10.0.1.{number}"), 9876))
            .collect();
        let broker = |name: &str| BrokerConfig {
            name: name.into(),
            replicas: [(MASTER_ID, address(name))].into(),
        };
        let config = ClusterConfig {
            name: "C".into(),
            name_servers: name_servers.clone(),
            brokers: BROKERS.map(broker).into(),
            topics: Vec::new(),
            settings: Settings::default(),
        };
        let mut state = BrokerState::new(config, Seed(1), Instant::ZERO, origin);
        state.observe(OBSERVATIONS_MAX);
        Self {
            state,
            nodes: BTreeMap::new(),
            name_servers: name_servers[..1].to_vec(),
            brokers: BROKERS.map(|name| (name.into(), address(name))).into(),
            hidden: BTreeSet::new(),
            links: BTreeMap::new(),
            by_conn: BTreeMap::new(),
            conns: 0,
            later: BTreeMap::new(),
            seq: 0,
            out: VecDeque::new(),
            sent_back: Vec::new(),
        }
    }

    /// The machine: what is stored, committed, registered.
    #[must_use]
    pub const fn state(&self) -> &BrokerState {
        &self.state
    }

    /// The addresses members are told of.
    #[must_use]
    pub fn name_servers(&self) -> &[PeerAddr] {
        &self.name_servers
    }

    /// The address behind a name: `ns` is the first name server, `ns2` the second, anything else a
    /// broker.
    ///
    /// # Panics
    /// When nobody has that name.
    #[must_use]
    pub fn addr(&self, name: &str) -> PeerAddr {
        if let Some(number) = name.strip_prefix("ns") {
            let index = number.parse::<usize>().map_or(0, |number| number - 1);
            return self.name_servers[index].clone();
        }
        let known = self.brokers.get(name);
        known.unwrap_or_else(|| panic!("no broker {name:?}")).clone()
    }

    /// What is arranged for the address behind a name.
    ///
    /// # Panics
    /// When nobody has that name.
    pub fn node(&mut self, name: &str) -> &mut Node {
        let addr = self.addr(name);
        self.nodes.entry(addr).or_default()
    }

    /// Everything stored for a topic, queue by queue.
    pub(super) fn stored(&self, topic: &Topic) -> impl Iterator<Item = (MessageQueue, StoredRef<'_>)> {
        self.brokers.keys().flat_map(move |broker| {
            let config = self.state.topics(broker).find(|config| &config.name == topic);
            let queues = config.map_or(0, |config| config.read_queues);
            let queues = (0..).take(queues as usize).map(move |id| MessageQueue {
                topic: topic.clone(),
                broker: broker.clone(),
                id: QueueId(id),
            });
            queues.flat_map(|queue| {
                let stored = self.state.stored(&queue.broker, &queue.topic, queue.id);
                stored.map(move |message| (queue.clone(), message))
            })
        })
    }

    /// The messages that were taken back.
    pub(super) fn sent_back(&self) -> &[SentBack] {
        &self.sent_back
    }

    /// The machine takes an event; what it does in return is carried out.
    fn handle(&mut self, now: Instant, event: BrokerEvent) {
        self.state.handle(now, event);
        while let Some(action) = self.state.poll_action() {
            self.perform(action);
        }
        while let Some(seen) = self.state.poll_observation() {
            if let Observation::SentBack {
                group, queue, offset, ..
            } = seen
            {
                self.sent_back.push(SentBack {
                    at: now,
                    group,
                    queue,
                    offset,
                });
            }
        }
        assert_eq!(self.state.observations_missed(), 0, "looked at after every event");
    }

    fn control(&mut self, now: Instant, control: Control) {
        self.handle(now, BrokerEvent::Control(control));
    }

    /// Connections that no member has made lead nowhere.
    fn perform(&mut self, action: BrokerAction) {
        match action {
            BrokerAction::Send { conn, frame } => {
                if let Some(link) = self.by_conn.get(&conn).cloned() {
                    self.out.push_back(PeerAction::Send { link, bytes: frame });
                }
            }
            BrokerAction::Close { conn } => {
                if let Some(link) = self.by_conn.remove(&conn) {
                    self.links.remove(&link);
                    self.out.push_back(PeerAction::Close { link });
                }
            }
            other => panic!("an action nobody knows: {other:?}"),
        }
    }

    /// A connection to a node, new to the machine.
    fn accept(&mut self, now: Instant, at: &PeerAddr) -> ConnId {
        self.conns += 1;
        let conn = ConnId {
            slot: self.conns,
            generation: 1,
        };
        let [.., high, low] = self.conns.to_be_bytes();
        let event = ServerEvent::Accepted {
            conn,
            at: at.clone(),
            from: SocketAddr::new(Ipv4Addr::new(10, 1, high, low).into(), 40_000),
        };
        self.handle(now, BrokerEvent::Net(event));
        conn
    }

    fn carry_out(&mut self, now: Instant, pending: Pending) {
        let Some(conn) = self.links.get(&pending.asked.link).map(|accepted| accepted.conn) else {
            return;
        };
        let Pending { asked, bytes, reply } = pending;
        let link = asked.link.clone();
        match reply {
            Reply::Model if self.hides(&asked) => {
                let bytes = asked.refused(ResponseCode::TOPIC_NOT_EXIST, "no topic route info");
                self.out.push_back(PeerAction::Send { link, bytes });
            }
            Reply::Model => self.handle(now, BrokerEvent::Net(ServerEvent::Received { conn, bytes })),
            Reply::After(delay, reply) => {
                self.seq += 1;
                let reply = *reply;
                let pending = Pending { asked, bytes, reply };
                self.later.insert((now + delay, self.seq), pending);
            }
            Reply::Never => {}
            Reply::Refuse(code, remark) => {
                let bytes = asked.refused(code, remark);
                self.out.push_back(PeerAction::Send { link, bytes });
            }
            Reply::Close => self.control(now, Control::Disconnect(conn)),
            Reply::Raw(bytes) => self.out.push_back(PeerAction::Send { link, bytes }),
        }
    }

    /// Whether this is a question about a topic that the name servers deny.
    fn hides(&self, asked: &Asked) -> bool {
        asked.code == RequestCode::GET_ROUTEINFO_BY_TOPIC
            && self.hidden.contains(&asked.request::<RouteRequest>().topic)
    }
}

impl Peer for Cluster {
    fn dial(&mut self, now: Instant, link: &Link, addr: &PeerAddr) -> Dial {
        if !self.state.is_up(addr) {
            return Dial::Refuse;
        }
        let dial = self.nodes.get(addr).map_or(Dial::Accept, |node| node.dial);
        if dial == Dial::Accept {
            let conn = self.accept(now, addr);
            let at = addr.clone();
            self.links.insert(link.clone(), Accepted { conn, at });
            self.by_conn.insert(conn, link.clone());
        }
        dial
    }

    fn receive(&mut self, now: Instant, link: &Link, bytes: Bytes) {
        let Some(Accepted { conn, at }) = self.links.get(link).cloned() else {
            return;
        };
        let node = self.nodes.entry(at.clone()).or_default();
        if node.is_mute {
            return;
        }
        match Asked::read(now, link, &at, bytes.clone()) {
            Some(asked) => {
                let reply = node.reply(&asked);
                self.carry_out(now, Pending { asked, bytes, reply });
            }
            None => self.handle(now, BrokerEvent::Net(ServerEvent::Received { conn, bytes })),
        }
    }

    fn hung_up(&mut self, now: Instant, link: &Link) {
        if let Some(Accepted { conn, .. }) = self.links.remove(link) {
            self.by_conn.remove(&conn);
            self.handle(now, BrokerEvent::Net(ServerEvent::Closed { conn }));
        }
    }

    fn wake(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let pending = entry.remove();
            self.carry_out(now, pending);
        }
        if self.state.poll_timeout().is_some_and(|at| at <= now) {
            self.handle(now, BrokerEvent::Wakeup);
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        let later = self.later.keys().map(|(at, _)| *at);
        later.take(1).chain(self.state.poll_timeout()).min()
    }

    fn poll(&mut self) -> Option<PeerAction> {
        self.out.pop_front()
    }
}

/// A queue by the names a test uses.
#[must_use]
pub fn queue(topic: &str, broker: &str, id: i32) -> MessageQueue {
    MessageQueue {
        topic: topic.into(),
        broker: broker.into(),
        id: QueueId(id),
    }
}
