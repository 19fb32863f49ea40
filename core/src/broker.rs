//! The other end as a pure machine: a small cluster of name servers and brokers in one loop.
//!
//! `BrokerState` takes [`event::BrokerEvent`]s and emits [`event::BrokerAction`]s. Like the consumer it reads no
//! clock and draws no randomness of its own, so it runs in a simulator, inside a user's test, or on real
//! sockets for clients in other languages. Faults are data ([`rule::Rule`], [`event::Control`]) and a run with
//! the same configuration, seed and events is the same run.
//!
//! It shares `wire`, `step`, `time` and `ids` with the consumer, and no decision.

pub mod config;
pub mod event;
pub mod observation;
pub mod rule;

mod consume_offsets;
mod control;
mod cx;
mod holds;
mod links;
mod name_server;
mod node;
mod post;
mod queue_locks;
mod rules;
mod schedule;
mod store;
mod view;

#[cfg(test)]
mod bench;
#[cfg(test)]
mod tests;

pub use self::view::StoredRef;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use self::config::{ClusterConfig, Settings};
use self::cx::{Arrival, Cx};
use self::event::{BrokerAction, BrokerEvent, ServerEvent};
use self::links::Links;
use self::name_server::NameServers;
use self::node::{Asked, Disk, Node, NodeKey, Replica, Role, Serving, serve_name_server};
use self::observation::{Observation, Observations};
use self::post::{Asker, Canned, Fate, Post, Refusal, Work};
use self::rule::Effect;
use crate::ids::{ConnId, PeerAddr};
use crate::step::{Machine, Rng, Seed, Timers};
use crate::time::{Instant, WallTime};
use crate::wire::code::RequestCode;
use crate::wire::command::Header;
use crate::wire::frame::Frame;
use crate::wire::request::route::MASTER_ID;

/// Names of the cluster's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A node that went down is taken off the name servers.
    Unregister(NodeKey),
    /// A broker's delayed messages are due.
    Schedule(usize),
    /// Silent members and connections on which nothing comes are looked for.
    Silence,
    /// A replica looks at the pulls it holds.
    Holds(NodeKey),
    /// A replica looks for members that took too long to answer.
    Relays(NodeKey),
}

/// A cluster: name servers, and brokers with their replicas.
///
/// The contract is that of [`Machine`]. No event is an error: what makes no sense changes nothing.
#[derive(Clone, Debug)]
pub struct BrokerState {
    settings: Settings,
    now: Instant,
    /// The brokers' wall clock when `now` was zero.
    epoch: WallTime,
    rng: Rng,
    nodes: Vec<Node>,
    by_addr: BTreeMap<PeerAddr, NodeKey>,
    /// One for each broker.
    disks: Vec<Disk>,
    names: NameServers,
    links: Links,
    timers: Timers<Timer>,
    post: Post,
    seen: Observations,
    arrivals: Vec<Arrival>,
}

impl BrokerState {
    /// A cluster in which every node runs. `wall` is the time of day at `now`. Of two nodes at one address
    /// only the first is there.
    #[must_use]
    pub fn new(config: ClusterConfig, seed: Seed, now: Instant, wall: WallTime) -> Self {
        let settings = config.settings;
        let since_origin = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let mut state = Self {
            post: Post::new(&settings),
            now,
            epoch: WallTime::from_unix_millis(wall.as_unix_millis().saturating_sub(since_origin)),
            rng: Rng::new(seed),
            nodes: Vec::new(),
            by_addr: BTreeMap::new(),
            disks: Vec::new(),
            names: NameServers::new(config.name),
            links: Links::default(),
            timers: Timers::new(),
            seen: Observations::default(),
            arrivals: Vec::new(),
            settings,
        };
        for addr in config.name_servers {
            state.add_node(addr, Role::NameServer);
        }
        for of in config.brokers {
            let index = state.disks.len();
            let Some(first) = of.replicas.values().next() else {
                continue;
            };
            let master = of.replicas.get(&MASTER_ID).unwrap_or(first);
            let mut disk = Disk::new(index, of.name, master, &state.settings);
            disk.put_schedule_topic(&state.settings);
            state.disks.push(disk);
            for (id, addr) in of.replicas {
                let replica = Replica::new(index, id, &state.settings);
                if let Some(key) = state.add_node(addr, Role::Replica(Box::new(replica))) {
                    state.register(key);
                }
            }
            state.with_disk(index, |disk, cx| {
                disk.put_own_topics(cx);
                for topic in &config.topics {
                    // A topic that the limits leave no room for is not there.
                    let _full = disk.put_topic(cx, topic.clone());
                }
            });
        }
        state
    }

    fn add_node(&mut self, addr: PeerAddr, role: Role) -> Option<NodeKey> {
        if self.by_addr.contains_key(&addr) {
            return None;
        }
        let key = NodeKey(self.nodes.len());
        self.by_addr.insert(addr.clone(), key);
        self.nodes.push(Node { addr, up: true, role });
        Some(key)
    }

    /// Takes one event. `now` going backwards is taken for the latest time known.
    pub fn handle(&mut self, now: Instant, event: BrokerEvent) {
        self.now = self.now.max(now);
        self.post.begin();
        match event {
            BrokerEvent::Wakeup => self.on_wakeup(),
            BrokerEvent::Net(ServerEvent::Accepted { conn, at, from }) => {
                match self.by_addr.get(&at).copied().filter(|key| self.nodes[key.0].up) {
                    Some(node) if self.links.len() < self.settings.connections_max => {
                        self.links.open(self.now, conn, node, from);
                        self.arm_silence();
                    }
                    Some(_) | None => self.post.closed(conn),
                }
            }
            BrokerEvent::Net(ServerEvent::Received { conn, bytes }) => self.on_bytes(conn, bytes),
            BrokerEvent::Net(ServerEvent::Closed { conn }) => self.forget(conn),
            BrokerEvent::Control(control) => self.on_control(control),
        }
        self.settle();
    }

    /// Takes the oldest action that was not taken yet.
    pub fn poll_action(&mut self) -> Option<BrokerAction> {
        self.post.poll()
    }

    /// The earliest time at which something is to be done without being asked.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.timers.next().map(|(at, _)| *at);
        timer.into_iter().chain(self.post.next_work()).min()
    }

    /// From now on up to `most` observations wait to be taken; 0, as it is at first, for none. What comes
    /// when as many wait is missed, see [`BrokerState::observations_missed`].
    pub fn observe(&mut self, most: usize) {
        self.seen.keep(most);
    }

    /// Takes the oldest observation that was not taken yet.
    pub fn poll_observation(&mut self) -> Option<Observation> {
        self.seen.poll()
    }

    /// How many observations had no room.
    #[must_use]
    pub const fn observations_missed(&self) -> u64 {
        self.seen.missed()
    }

    /// What a step of a broker may touch, and its disks.
    fn cx(&mut self) -> (Cx<'_>, &mut [Disk], &mut [Node]) {
        let cx = Cx {
            now: self.now,
            wall: self.epoch + self.now.saturating_since(Instant::ZERO),
            settings: &self.settings,
            timers: &mut self.timers,
            rng: &mut self.rng,
            post: &mut self.post,
            names: &mut self.names,
            seen: &mut self.seen,
            arrivals: &mut self.arrivals,
        };
        (cx, &mut self.disks, &mut self.nodes)
    }

    /// Lets one broker's disk do something.
    fn with_disk<T>(&mut self, broker: usize, work: impl FnOnce(&mut Disk, &mut Cx<'_>) -> T) -> Option<T> {
        let (mut cx, disks, _) = self.cx();
        disks.get_mut(broker).map(|disk| work(disk, &mut cx))
    }

    /// A replica at work; `None` for a name server.
    fn at(&mut self, key: NodeKey) -> Option<Serving<'_>> {
        let (cx, disks, nodes) = self.cx();
        let node = nodes.get_mut(key.0)?;
        let Role::Replica(replica) = &mut node.role else {
            return None;
        };
        Some(Serving {
            key,
            addr: &node.addr,
            disk: disks.get_mut(replica.broker)?,
            replica,
            cx,
        })
    }

    fn on_wakeup(&mut self) {
        while let Some(work) = self.post.take_due(self.now) {
            match work {
                Work::Serve { conn, frame } => {
                    if let Ok(header) = Header::of(&frame) {
                        self.serve(conn, &frame, &header, Effect::Pass);
                    }
                }
                Work::Send { conn, frame } if self.links.get(conn).is_some() => self.post.send(conn, frame),
                Work::Send { .. } => {}
            }
        }
        while let Some(timer) = self.timers.pop_due(self.now) {
            match timer {
                Timer::Unregister(key) => self.unregister(key),
                Timer::Schedule(broker) => {
                    self.with_disk(broker, Disk::deliver_due);
                }
                Timer::Silence => self.on_silence(),
                Timer::Holds(key) => {
                    if let Some(mut replica) = self.at(key) {
                        replica.check_holds();
                    }
                }
                Timer::Relays(key) => {
                    if let Some(mut replica) = self.at(key) {
                        replica.check_relays();
                    }
                }
            }
        }
    }

    /// Looks for silent members and connections.
    fn on_silence(&mut self) {
        let expiry = self.settings.client_expiry;
        for key in (0..self.nodes.len()).map(NodeKey) {
            if let Some(mut replica) = self.at(key) {
                replica.expire_members(expiry);
            }
        }
        for conn in self.links.idle_for(self.now, expiry) {
            self.post.close(conn);
        }
        self.arm_silence();
    }

    fn arm_silence(&mut self) {
        if self.links.len() > 0 {
            let at = node::next_tick(self.now, self.settings.client_scan_interval);
            self.timers.set_no_later(Timer::Silence, at);
        }
    }

    fn on_bytes(&mut self, conn: ConnId, bytes: Bytes) {
        self.links.push(self.now, conn, bytes);
        loop {
            match self.links.next_frame(conn) {
                Ok(Some(frame)) if !self.post.is_closing(conn) => self.on_frame(conn, &frame),
                // What came behind the frame that ended the connection is not read.
                Ok(Some(_)) => break,
                Ok(None) => break,
                // Whoever writes that is not one we understand.
                Err(_) => {
                    self.post.close(conn);
                    break;
                }
            }
        }
    }

    fn on_frame(&mut self, conn: ConnId, frame: &Frame) {
        let Some(link) = self.links.get(conn) else {
            return;
        };
        let Ok(header) = Header::of(frame) else {
            self.post.close(conn);
            return;
        };
        if header.is_response() {
            let node = link.node;
            if let Some(mut replica) = self.at(node) {
                replica.on_answer(conn, &header, &frame.body);
            }
            return;
        }
        let node = &self.nodes[link.node.0];
        let effect = self.post.decide(&node.addr, RequestCode(header.code));
        self.serve(conn, frame, &header, effect);
    }

    /// Serves a request under the effect of a rule.
    fn serve(&mut self, conn: ConnId, frame: &Frame, header: &Header<'_>, effect: Effect) {
        let Some(link) = self.links.get(conn) else {
            return;
        };
        let (key, from) = (link.node, link.from);
        let asked = |fate| Asked {
            header,
            body: &frame.body,
            to: Asker {
                conn,
                opaque: header.opaque,
                fate: if header.is_oneway() { Fate::Lost } else { fate },
            },
            from,
        };
        match effect {
            Effect::Pass => self.dispatch(key, &asked(Fate::Prompt)),
            Effect::Fail { code, remark } => {
                let refusal = Refusal::new(code, remark);
                self.post.refuse(self.now, asked(Fate::Prompt).to, &refusal);
            }
            Effect::Delay(delay) => {
                let late = Work::Serve {
                    conn,
                    frame: frame.clone(),
                };
                if self.post.put_off(self.now + delay, late).is_err() {
                    self.dispatch(key, &asked(Fate::Prompt));
                }
            }
            Effect::DelayAnswer(delay) => self.dispatch(key, &asked(Fate::Late(delay))),
            Effect::Drop => {}
            Effect::LoseAnswer => self.dispatch(key, &asked(Fate::Lost)),
            Effect::Twice => {
                self.dispatch(key, &asked(Fate::Prompt));
                // A request has one answer, however often it is carried out.
                self.dispatch(key, &asked(Fate::Lost));
            }
            Effect::Close => self.post.close(conn),
            Effect::Reply { code, body } => {
                let reply = Canned { code, body };
                self.post.answer(self.now, asked(Fate::Prompt).to, &reply);
            }
        }
    }

    /// Gives a request to the node it was sent to.
    fn dispatch(&mut self, key: NodeKey, asked: &Asked<'_, '_>) {
        match self.at(key) {
            Some(mut replica) => replica.serve(asked),
            None => serve_name_server(&mut self.cx().0, key, asked),
        }
    }

    /// Ends a step: what was stored reaches those who wait for it, and what was to be closed is.
    fn settle(&mut self) {
        for arrival in mem::take(&mut self.arrivals) {
            for key in (0..self.nodes.len()).map(NodeKey) {
                let node = &self.nodes[key.0];
                let waits = matches!(&node.role, Role::Replica(replica)
                    if replica.broker == arrival.broker && !replica.holds.is_empty());
                if let Some(mut replica) = self.at(key).filter(|_| waits) {
                    replica.on_arrival(&arrival);
                }
            }
        }
        for conn in self.post.take_closing() {
            if self.links.get(conn).is_some() {
                self.forget(conn);
                self.post.closed(conn);
            }
        }
    }

    /// A connection is gone.
    fn forget(&mut self, conn: ConnId) {
        let Some(link) = self.links.close(conn) else {
            return;
        };
        if let Some(mut replica) = self.at(link.node) {
            replica.hang_up(conn);
        }
    }
}

impl Machine for BrokerState {
    type Event = BrokerEvent;
    type Action = BrokerAction;
    type Wakeup = Instant;

    fn handle(&mut self, now: Instant, event: BrokerEvent) {
        self.handle(now, event);
    }

    fn poll_action(&mut self) -> Option<BrokerAction> {
        self.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.poll_timeout()
    }
}
