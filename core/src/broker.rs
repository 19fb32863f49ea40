//! The other end as a pure machine: a small cluster of name servers and brokers in one loop.
//!
//! `BrokerState` takes [`event::BrokerEvent`]s and emits [`event::BrokerAction`]s. Like the consumer it reads no
//! clock and draws no randomness of its own, so it runs in a simulator, inside a user's test, or on real
//! sockets for clients in other languages. Faults are data ([`rule::Rule`], [`event::Control`]) and a run with
//! the same configuration, seed and events is the same run.
//!
//! It shares `wire`, `step`, `time` and `ids` with the consumer, and no decision.

pub mod config;
#[allow(dead_code, reason = "the machine around it is being built")]
mod consume_offsets;
pub mod event;
#[allow(dead_code, reason = "the machine around it is being built")]
mod holds;
#[allow(dead_code, reason = "the machine around it is being built")]
mod queue_locks;
pub mod rule;
#[allow(dead_code, reason = "the machine around it is being built")]
mod schedule;
#[allow(dead_code, unused_imports, reason = "the machine around it is being built")]
mod store;

mod links;
mod node;
mod post;
mod rules;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use self::config::{ClusterConfig, Settings};
use self::event::{BrokerAction, BrokerEvent, Control, ServerEvent};
use self::links::Links;
use self::node::{Node, NodeKey, Role};
use self::post::{Asker, Fate, Post, Refusal, Work};
use self::rule::Effect;
use crate::ids::{ConnId, PeerAddr};
use crate::step::{Machine, Rng, Seed, Timers};
use crate::time::{Instant, WallTime};
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::Header;
use crate::wire::frame::Frame;

/// Names of the cluster's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Connections on which nothing moves are looked for.
    Idle,
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
    #[expect(dead_code, reason = "queues are drawn with the first send")]
    rng: Rng,
    nodes: Vec<Node>,
    by_addr: BTreeMap<PeerAddr, NodeKey>,
    links: Links,
    timers: Timers<Timer>,
    post: Post,
}

impl BrokerState {
    /// A cluster in which every node runs. `wall` is the time of day at `now`.
    #[must_use]
    pub fn new(config: ClusterConfig, seed: Seed, now: Instant, wall: WallTime) -> Self {
        let mut nodes = Vec::new();
        for addr in config.name_servers {
            nodes.push(Node {
                addr,
                up: true,
                role: Role::NameServer,
            });
        }
        for (broker, of) in config.brokers.into_iter().enumerate() {
            for (id, addr) in of.replicas {
                let role = Role::Replica { broker, id };
                nodes.push(Node { addr, up: true, role });
            }
        }
        let by_addr = nodes.iter().enumerate();
        let since_origin = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        Self {
            post: Post::new(config.settings.delayed_max),
            settings: config.settings,
            now,
            epoch: WallTime::from_unix_millis(wall.as_unix_millis().saturating_sub(since_origin)),
            rng: Rng::new(seed),
            by_addr: by_addr
                .map(|(key, node)| (node.addr.clone(), NodeKey(key)))
                .collect(),
            nodes,
            links: Links::default(),
            timers: Timers::new(),
        }
    }

    /// Takes one event. `now` going backwards is taken for the latest time known.
    pub fn handle(&mut self, now: Instant, event: BrokerEvent) {
        self.now = self.now.max(now);
        match event {
            BrokerEvent::Wakeup => self.on_wakeup(),
            BrokerEvent::Net(ServerEvent::Accepted { conn, at, from }) => {
                match self.by_addr.get(&at).copied().filter(|key| self.nodes[key.0].up) {
                    Some(node) if self.links.len() < self.settings.connections_max => {
                        self.links.open(self.now, conn, node, from);
                        self.arm_scan();
                    }
                    Some(_) | None => self.post.closed(conn),
                }
            }
            BrokerEvent::Net(ServerEvent::Received { conn, bytes }) => self.on_bytes(conn, bytes),
            BrokerEvent::Net(ServerEvent::Closed { conn }) => self.forget(conn),
            BrokerEvent::Control(control) => self.on_control(control),
        }
        self.sweep();
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

    /// How many bytes the frame in progress on a connection still needs; a hint for the next read.
    #[must_use]
    pub fn want(&self, conn: ConnId) -> usize {
        self.links.want(conn)
    }

    /// Whether something listens at an address.
    #[must_use]
    pub fn is_up(&self, addr: &PeerAddr) -> bool {
        self.by_addr.get(addr).is_some_and(|key| self.nodes[key.0].up)
    }

    /// The brokers' wall clock.
    #[must_use]
    pub fn wall(&self) -> WallTime {
        self.epoch + self.now.saturating_since(Instant::ZERO)
    }

    fn on_wakeup(&mut self) {
        while let Some(work) = self.post.take_due(self.now) {
            match work {
                Work::Serve { conn, frame } => self.serve(conn, &frame, Effect::Pass),
                Work::Send { conn, frame } if self.links.get(conn).is_some() => self.post.send(conn, frame),
                Work::Send { .. } => {}
            }
        }
        while let Some(timer) = self.timers.pop_due(self.now) {
            match timer {
                Timer::Idle => self.on_scan(),
            }
        }
    }

    fn on_scan(&mut self) {
        for conn in self.links.idle_since(self.now - self.settings.client_expiry) {
            self.post.close(conn);
        }
        self.arm_scan();
    }

    fn arm_scan(&mut self) {
        if self.links.len() > 0 {
            self.timers
                .set_no_later(Timer::Idle, self.now + self.settings.client_scan_interval);
        }
    }

    fn on_bytes(&mut self, conn: ConnId, bytes: Bytes) {
        self.links.push(self.now, conn, bytes);
        loop {
            match self.links.next_frame(conn) {
                Ok(Some(frame)) => self.on_frame(conn, &frame),
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
            return;
        }
        let node = &self.nodes[link.node.0];
        let effect = self.post.decide(&node.addr, RequestCode(header.code));
        self.serve(conn, frame, effect);
    }

    /// Serves a request under the effect of a rule.
    fn serve(&mut self, conn: ConnId, frame: &Frame, effect: Effect) {
        let (Some(link), Ok(header)) = (self.links.get(conn), Header::of(frame)) else {
            return;
        };
        let key = link.node;
        let oneway = header.is_oneway();
        let asker = |fate| Asker {
            conn,
            opaque: header.opaque,
            fate: if oneway { Fate::Lost } else { fate },
        };
        match effect {
            Effect::Pass => self.dispatch(key, &header, &frame.body, asker(Fate::Prompt)),
            Effect::Fail { code, remark } => {
                self.post
                    .refuse(self.now, asker(Fate::Prompt), &Refusal::new(code, remark));
            }
            Effect::Delay(delay) => {
                let late = Work::Serve {
                    conn,
                    frame: frame.clone(),
                };
                if self.post.put_off(self.now + delay, late).is_err() {
                    self.dispatch(key, &header, &frame.body, asker(Fate::Prompt));
                }
            }
            Effect::DelayAnswer(delay) => self.dispatch(key, &header, &frame.body, asker(Fate::Late(delay))),
            Effect::Drop => {}
            Effect::LoseAnswer => self.dispatch(key, &header, &frame.body, asker(Fate::Lost)),
            Effect::Twice => {
                self.dispatch(key, &header, &frame.body, asker(Fate::Prompt));
                self.dispatch(key, &header, &frame.body, asker(Fate::Lost));
            }
            Effect::Close => self.post.close(conn),
            Effect::Reply { code, body } => {
                let reply = post::Canned { code, body };
                self.post.answer(self.now, asker(Fate::Prompt), &reply);
            }
        }
    }

    /// Gives a request to the node it was sent to.
    fn dispatch(&mut self, node: NodeKey, header: &Header<'_>, _body: &Bytes, asker: Asker) {
        match self.nodes[node.0].role {
            Role::NameServer | Role::Replica { .. } => {}
        }
        let remark = format!("request type {} not supported", header.code);
        let refusal = Refusal::new(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, remark);
        self.post.refuse(self.now, asker, &refusal);
    }

    fn on_control(&mut self, control: Control) {
        match control {
            Control::AddRule(rule) => self.post.add_rule(rule, self.settings.rules_max),
            Control::ClearRules => self.post.clear_rules(),
            Control::Crash(addr) | Control::Stop(addr) => self.take_down(&addr),
            Control::Start(addr) => {
                if let Some(key) = self.by_addr.get(&addr) {
                    self.nodes[key.0].up = true;
                }
            }
            Control::Disconnect(conn) => self.post.close(conn),
            Control::ClockJump(millis) => {
                let epoch = self.epoch.as_unix_millis().saturating_add(millis);
                self.epoch = WallTime::from_unix_millis(epoch);
            }
            Control::PutTopic(_)
            | Control::PutTopicOn { .. }
            | Control::DeleteTopic(_)
            | Control::Append { .. }
            | Control::Expire { .. }
            | Control::ReplicationLag { .. }
            | Control::FreezeRoutes { .. }
            | Control::Notify { .. }
            | Control::ExpireLocks(_) => {}
        }
    }

    fn take_down(&mut self, addr: &PeerAddr) {
        let Some(key) = self.by_addr.get(addr).copied() else {
            return;
        };
        self.nodes[key.0].up = false;
        for conn in self.links.to(key) {
            self.post.close(conn);
        }
    }

    /// Closes what was asked to be closed during this step.
    fn sweep(&mut self) {
        for conn in self.post.take_closing() {
            if self.links.get(conn).is_some() {
                self.forget(conn);
                self.post.closed(conn);
            }
        }
    }

    /// A connection is gone.
    fn forget(&mut self, conn: ConnId) {
        self.links.close(conn);
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
