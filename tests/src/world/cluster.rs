use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{BrokerName, MessageQueue, PeerAddr, QueueId, Topic};
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::route::{BrokerData, QueueData, RouteRequest, TopicRoute};

use super::asked::{Asked, Link};
use super::broker::Broker;
use super::peer::{Dial, Peer, PeerAction, Reply};
use super::stored::StoredMessage;

/// What a test answers in place of the model.
type Script = Box<dyn FnMut(&Asked) -> Reply>;

/// One address somebody listens at, or does not.
#[derive(Default)]
pub struct Node {
    scripts: BTreeMap<RequestCode, Script>,
    dial: Dial,
    mute: bool,
    down: bool,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scripts: Vec<_> = self.scripts.keys().collect();
        f.debug_struct("Node")
            .field("scripts", &scripts)
            .field("dial", &self.dial)
            .field("mute", &self.mute)
            .field("down", &self.down)
            .finish()
    }
}

impl Node {
    /// From now on requests of this kind are answered by the script.
    pub fn on(&mut self, code: RequestCode, script: impl FnMut(&Asked) -> Reply + 'static) -> &mut Self {
        self.scripts.insert(code, Box::new(script));
        self
    }

    /// Requests of this kind are answered by the model again.
    pub fn off(&mut self, code: RequestCode) -> &mut Self {
        self.scripts.remove(&code);
        self
    }

    /// What becomes of attempts to connect.
    pub const fn dials(&mut self, dial: Dial) -> &mut Self {
        self.dial = dial;
        self
    }

    /// Whether all bytes to it vanish.
    pub const fn mute(&mut self, mute: bool) -> &mut Self {
        self.mute = mute;
        self
    }
}

/// Name servers and brokers, answered from a model and from scripts.
#[derive(Debug)]
pub struct Cluster {
    nodes: BTreeMap<PeerAddr, Node>,
    name_servers: Vec<PeerAddr>,
    brokers: BTreeMap<BrokerName, Broker>,
    addresses: BTreeMap<BrokerName, PeerAddr>,
    /// Topics whose route is taken off the name servers.
    hidden: Vec<Topic>,
    links: BTreeMap<Link, PeerAddr>,
    later: BTreeMap<(Instant, u64), (Asked, Reply)>,
    seq: u64,
    out: VecDeque<PeerAction>,
    origin: WallTime,
}

impl Cluster {
    pub(super) fn new(origin: WallTime) -> Self {
        let mut cluster = Self {
            nodes: BTreeMap::new(),
            name_servers: Vec::new(),
            brokers: BTreeMap::new(),
            addresses: BTreeMap::new(),
            hidden: Vec::new(),
            links: BTreeMap::new(),
            later: BTreeMap::new(),
            seq: 0,
            out: VecDeque::new(),
            origin,
        };
        cluster.add_name_server();
        cluster
    }

    pub(super) fn add_name_server(&mut self) {
        let host = format!("10.0.1.{}", self.name_servers.len() + 1);
        let addr = PeerAddr::new(host, 9876);
        self.nodes.insert(addr.clone(), Node::default());
        self.name_servers.push(addr);
    }

    /// The name servers' addresses.
    #[must_use]
    pub fn name_servers(&self) -> &[PeerAddr] {
        &self.name_servers
    }

    pub(super) fn add_topic(&mut self, topic: &Topic, queues: &[(&str, u32)]) {
        for (name, count) in queues {
            let name = BrokerName::from(*name);
            let number = self.brokers.len() + 1;
            let origin = self.origin;
            let make = || Broker::new(name.clone(), origin);
            let broker = self.brokers.entry(name.clone()).or_insert_with(make);
            broker.add_queues(topic, *count);
            if !self.addresses.contains_key(&name) {
                let addr = PeerAddr::new(format!("10.0.0.{number}"), 10911);
                self.nodes.insert(addr.clone(), Node::default());
                self.addresses.insert(name, addr);
            }
        }
    }

    /// Takes a topic off the name servers, or puts it back.
    pub fn hide(&mut self, topic: &str, hidden: bool) {
        self.hidden.retain(|known| known.as_str() != topic);
        if hidden {
            self.hidden.push(topic.into());
        }
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
        let known = self.addresses.get(name);
        known.unwrap_or_else(|| panic!("no broker {name:?}")).clone()
    }

    /// What listens behind a name.
    ///
    /// # Panics
    /// When nobody has that name.
    pub fn node(&mut self, name: &str) -> &mut Node {
        let addr = self.addr(name);
        self.nodes.entry(addr).or_default()
    }

    /// A broker's model.
    ///
    /// # Panics
    /// When there is no such broker.
    pub(super) fn broker(&self, name: &str) -> &Broker {
        self.brokers.get(name).expect("a broker of this world")
    }

    pub(super) fn broker_mut(&mut self, name: &str) -> &mut Broker {
        self.brokers.get_mut(name).expect("a broker of this world")
    }

    pub(super) fn brokers(&self) -> impl Iterator<Item = &Broker> {
        self.brokers.values()
    }

    pub(super) fn append(&mut self, now: Instant, queue: MessageQueue, body: String, tag: &str) {
        let broker = queue.broker.clone();
        let message = StoredMessage::new(queue, 0, body, tag);
        self.broker_mut(broker.as_str()).append(now, message);
        self.collect();
    }

    /// Ends the process behind a name: its connections break, what it had not written is lost.
    pub(super) fn kill(&mut self, now: Instant, name: &str) {
        let addr = self.addr(name);
        let node = self.node(name);
        node.down = true;
        if let Some(broker) = self.brokers.get_mut(name) {
            broker.crash(now);
        }
        let ended: Vec<Link> = self
            .links
            .iter()
            .filter(|(_, at)| **at == addr)
            .map(|(link, _)| link.clone())
            .collect();
        for link in ended {
            self.close(&link);
        }
    }

    /// Starts it again, perhaps at another address.
    pub(super) fn revive(&mut self, name: &str, addr: Option<PeerAddr>) {
        if let Some(addr) = addr {
            self.nodes.insert(addr.clone(), Node::default());
            self.addresses.insert(name.into(), addr);
        }
        self.node(name).down = false;
    }

    fn close(&mut self, link: &Link) {
        self.links.remove(link);
        self.out.push_back(PeerAction::Close { link: link.clone() });
    }

    fn collect(&mut self) {
        for broker in self.brokers.values_mut() {
            for (link, bytes) in broker.poll() {
                if self.links.contains_key(&link) {
                    self.out.push_back(PeerAction::Send { link, bytes });
                }
            }
        }
    }

    fn reply(&mut self, now: Instant, asked: Asked, reply: Reply) {
        let Some(addr) = self.links.get(&asked.link).cloned() else {
            return;
        };
        let link = asked.link.clone();
        match reply {
            Reply::Model => {
                let broker = self.addresses.iter().find(|(_, at)| **at == addr);
                match broker.and_then(|(name, _)| self.brokers.get_mut(name)) {
                    Some(broker) => broker.serve(now, &asked),
                    None => self.serve_route(&asked),
                }
            }
            Reply::After(delay, reply) => {
                self.seq += 1;
                self.later.insert((now + delay, self.seq), (asked, *reply));
            }
            Reply::Never => {}
            Reply::Refuse(code, remark) => {
                let bytes = asked.refused(code, remark);
                self.out.push_back(PeerAction::Send { link, bytes });
            }
            Reply::Close => {
                self.close(&link);
                self.brokers.values_mut().for_each(|broker| broker.forget(&link));
            }
            Reply::Raw(bytes) => self.out.push_back(PeerAction::Send { link, bytes }),
        }
        self.collect();
    }

    fn serve_route(&mut self, asked: &Asked) {
        let bytes = if asked.code == RequestCode::GET_ROUTEINFO_BY_TOPIC {
            let topic = asked.request::<RouteRequest>().topic;
            let route = self.route(&topic);
            if route.queues.is_empty() {
                asked.refused(
                    ResponseCode::TOPIC_NOT_EXIST,
                    "no topic route info in name server",
                )
            } else {
                asked.answered(&route)
            }
        } else {
            asked.refused(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, "not modelled")
        };
        let link = asked.link.clone();
        self.out.push_back(PeerAction::Send { link, bytes });
    }

    /// Only brokers that are alive are registered.
    fn route(&self, topic: &Topic) -> TopicRoute {
        let mut route = TopicRoute::default();
        if self.hidden.contains(topic) {
            return route;
        }
        for (name, broker) in &self.brokers {
            let addr = &self.addresses[name];
            let queues = broker.queues_of(topic);
            if queues == 0 || self.nodes.get(addr).is_none_or(|node| node.down) {
                continue;
            }
            route.queues.push(QueueData {
                broker: name.clone(),
                read_queues: queues,
                write_queues: queues,
                perm: 6,
                topic_sys_flag: 0,
            });
            route.brokers.push(BrokerData {
                cluster: "C".into(),
                name: name.clone(),
                addresses: [(0, addr.to_string())].into(),
                zone_name: None,
                enable_acting_master: false,
            });
        }
        route
    }
}

impl Peer for Cluster {
    fn dial(&mut self, _: Instant, link: &Link, addr: &PeerAddr) -> Dial {
        let dial = match self.nodes.get(addr) {
            Some(node) if !node.down => node.dial,
            Some(_) | None => Dial::Refuse,
        };
        if dial == Dial::Accept {
            self.links.insert(link.clone(), addr.clone());
        }
        dial
    }

    fn receive(&mut self, now: Instant, link: &Link, bytes: Bytes) {
        let Some(addr) = self.links.get(link).cloned() else {
            return;
        };
        let Some(node) = self.nodes.get_mut(&addr).filter(|node| !node.mute) else {
            return;
        };
        let Some(asked) = Asked::read(now, link, &addr, bytes) else {
            return;
        };
        let script = node.scripts.get_mut(&asked.code);
        let reply = script.map_or(Reply::Model, |script| script(&asked));
        self.reply(now, asked, reply);
    }

    fn hung_up(&mut self, _: Instant, link: &Link) {
        if self.links.remove(link).is_some() {
            self.brokers.values_mut().for_each(|broker| broker.forget(link));
            self.collect();
        }
    }

    fn wake(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let (asked, reply) = entry.remove();
            self.reply(now, asked, reply);
        }
        self.brokers.values_mut().for_each(|broker| broker.wake(now));
        self.collect();
    }

    fn wake_at(&self) -> Option<Instant> {
        let later = self.later.keys().map(|(at, _)| *at);
        later
            .chain(self.brokers.values().filter_map(Broker::wake_at))
            .min()
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
