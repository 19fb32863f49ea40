//! The loop: one heap of what is due, machines that are fed from it, and what they want carried out.
//!
//! ```text
//!              ┌── Due ◄── agenda (time, sequence) ◄─────────────┐
//!              ▼                                                 │
//!  World ──event──► ConsumerState ──action──► network, handlers ─┤
//!    └────event──► BrokerState ────action──► network ────────────┘
//! ```
//!
//! Virtual time jumps from one thing that is due to the next. What is due at the same moment happens in the
//! order it was decided; timers come behind what arrived by then, unless a process is set to do the opposite.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use rocketmq_consumer_core::broker::BrokerState;
use rocketmq_consumer_core::broker::config::ClusterConfig;
use rocketmq_consumer_core::broker::event::{BrokerAction, BrokerEvent, ServerEvent};
use rocketmq_consumer_core::event::{AppEvent, Event, NetCause, NetEvent};
use rocketmq_consumer_core::ids::ClientId;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};

use super::agenda::{Agenda, Due};
use super::cluster::{Cluster, Observed};
use super::dice::Dice;
use super::invariant::{Allowances, Broken, Invariant};
use super::ledger::Ledger;
use super::names::Names;
use super::network::{Arrival, End, LinkNo, Network, Parcel, Way, Weather};
use super::nodes::Nodes;
use super::process::Place;
use super::seen::{BrokerDeed, Deed, Life, MemberId, Seen, What};
use super::tenures::Tenures;
use super::trace::{Entry, Trace};
use super::view::{Facts, Topics};
use super::watchers::Watchers;

/// Wall time at the origin of every world.
pub(crate) const ORIGIN: WallTime = WallTime::from_unix_millis(1_700_000_000_000);

/// Things that may happen at one moment before it counts as a world that stands still.
const STANDSTILL: u32 = 200_000;

/// A cluster, members, the network between them, and those who watch.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) agenda: Agenda,
    pub(crate) cluster: Cluster,
    cluster_wake: Option<Instant>,
    pub(crate) nodes: Nodes,
    pub(crate) network: Network,
    pub(crate) places: Vec<Place>,
    pub(crate) lives: u32,
    pub(crate) alive: Vec<Life>,
    /// Whose each life was.
    pub(crate) members: Vec<MemberId>,
    pub(crate) names: Names,
    pub(crate) topics: Topics,
    pub(crate) ledger: Ledger,
    pub(crate) trace: Trace,
    pub(crate) tenures: Tenures,
    pub(crate) watchers: Watchers,
    pub(crate) allowances: Allowances,
    pub(crate) dice: Dice,
    pub(crate) steps: u64,
    pub(crate) deliveries: u64,
    /// The dead letters of each group, as they came.
    pub(crate) dead: Vec<(String, Bytes)>,
    at_once: u32,
}

/// Who is next.
enum Next {
    Agenda,
    Cluster,
    Member(usize),
}

impl World {
    pub(crate) fn new(
        config: ClusterConfig,
        weather: Weather,
        seed: u64,
        rules: Vec<Box<dyn Invariant>>,
    ) -> Self {
        let mut dice = Dice::new(seed);
        let nodes = Nodes::new(&config);
        let topics = Topics::new(&config);
        let state = BrokerState::new(config, Seed(dice.word()), Instant::ZERO, ORIGIN);
        let mut world = Self {
            now: Instant::ZERO,
            agenda: Agenda::default(),
            cluster: Cluster::new(state),
            cluster_wake: None,
            nodes,
            network: Network::new(weather, dice.branch()),
            places: Vec::new(),
            lives: 0,
            alive: Vec::new(),
            members: Vec::new(),
            names: Names::default(),
            topics,
            ledger: Ledger::default(),
            trace: Trace::new(),
            tenures: Tenures::default(),
            watchers: Watchers::new(rules),
            allowances: Allowances::default(),
            dice,
            steps: 0,
            deliveries: 0,
            dead: Vec::new(),
            at_once: 0,
        };
        world.collect();
        world
    }

    // ---- the loop -------------------------------------------------------------------------------

    /// Lets everything happen that is due by then. Returns early with an entry of the script that is due, or
    /// when a rule is broken.
    pub(crate) fn run_until(&mut self, until: Instant) -> Option<u32> {
        while self.watchers.broken.is_none() {
            let Some((at, next)) = self.next().filter(|(at, _)| *at <= until) else {
                self.now = self.now.max(until);
                return None;
            };
            self.at_once = if at > self.now { 0 } else { self.at_once + 1 };
            if self.at_once > STANDSTILL {
                let words = format!("at {:?} somebody always finds something more to do", self.now);
                self.broken("time_moves_on", Broken(words));
                return None;
            }
            self.now = self.now.max(at);
            match next {
                Next::Agenda => {
                    let due = self.agenda.pop();
                    if let Some(Due::Script(entry)) = due {
                        return Some(entry);
                    }
                    due.into_iter().for_each(|due| self.happen(due));
                }
                Next::Cluster => self.feed_cluster(BrokerEvent::Wakeup),
                Next::Member(index) => self.wake(index),
            }
        }
        None
    }

    fn next(&self) -> Option<(Instant, Next)> {
        let mut best = self.agenda.next_at().map(|at| (at, Next::Agenda));
        let is_before =
            |at: Instant, best: &Option<(Instant, Next)>| best.as_ref().is_none_or(|(than, _)| at < *than);
        if let Some(at) = self.cluster_wake.filter(|at| is_before(*at, &best)) {
            best = Some((at, Next::Cluster));
        }
        for (index, place) in self.places.iter().enumerate() {
            let Some(process) = place.process.as_ref().filter(|process| !process.stalled) else {
                continue;
            };
            let Some(at) = process.wake_at.map(|at| at + place.timer_lag) else {
                continue;
            };
            let is_tie = place.timers_first && best.as_ref().is_some_and(|(than, _)| at == *than);
            if is_tie || is_before(at, &best) {
                best = Some((at, Next::Member(index)));
            }
        }
        best
    }

    pub(crate) fn happen(&mut self, due: Due) {
        match due {
            Due::Arrive(link, Way::ToNode) => self.arrive_at_node(link),
            Due::Arrive(link, Way::ToMember) => self.arrive_at_member(due, link),
            Due::Handled(member, life, run) => {
                if self.is_ready(due, member, life) {
                    self.settle(member, run);
                }
            }
            Due::Stored(member, life, seq) => {
                if self.is_ready(due, member, life) {
                    self.answer_store(member, seq);
                }
            }
            Due::Share(member, life, id) => {
                if self.is_ready(due, member, life) {
                    self.tell_share(member, id);
                }
            }
            Due::Extend {
                member,
                life,
                run,
                position,
                by,
            } => {
                if self.is_ready(due, member, life) {
                    let asks = AppEvent::Extend {
                        id: run,
                        position,
                        by,
                    };
                    self.feed(member, asks.into());
                }
            }
            Due::GoOn(member, life) => self.go_on(member, life),
            // Whoever runs the world takes these out before.
            Due::Script(_) => {}
        }
    }

    /// Whether this life of a member can take something now; if it is stopped, it waits for it.
    pub(crate) fn is_ready(&mut self, due: Due, member: MemberId, life: Life) -> bool {
        let process = self.places[member.0 as usize].process.as_mut();
        let Some(process) = process.filter(|process| process.life == life) else {
            return false;
        };
        if process.stalled {
            process.waiting.push(due);
        }
        !process.stalled
    }

    pub(crate) fn expect(&mut self, arrivals: impl IntoIterator<Item = Arrival>) {
        for (at, link, way) in arrivals {
            self.agenda.put(at, Due::Arrive(link, way));
        }
    }

    // ---- members --------------------------------------------------------------------------------

    fn arrive_at_member(&mut self, due: Due, link: LinkNo) {
        let (member, life) = (self.network.link(link).member, self.network.link(link).life);
        if !self.is_ready(due, member, life) {
            return;
        }
        let parcel = self.network.arrive(link, Way::ToMember);
        let link_state = self.network.link(link);
        let (conn, node) = (link_state.conn, link_state.node);
        let Some(parcel) = parcel.filter(|_| link_state.at_member != End::Gone) else {
            return;
        };
        self.trace.enter(self.now, Entry::ToMember, link.0.into());
        let event = match parcel {
            Parcel::Accepted => {
                self.network.link(link).at_member = End::Open;
                self.client_deed(member, Deed::Connected { conn, node });
                NetEvent::Connected { conn }
            }
            Parcel::Refused => {
                self.lose(member, link);
                self.client_deed(member, Deed::DialFailed { conn });
                let cause = NetCause::Refused;
                NetEvent::ConnectFailed { conn, cause }
            }
            Parcel::Bytes { piece, frame } => {
                if let Some(frame) = frame {
                    self.observe_arrived(member, link, &frame);
                }
                NetEvent::Received { conn, bytes: piece }
            }
            Parcel::End(cause) => {
                self.lose(member, link);
                let by_itself = false;
                self.client_deed(member, Deed::Disconnected { conn, by_itself });
                NetEvent::Closed { conn, cause }
            }
        };
        self.feed(member, event.into());
    }

    /// The member knows no more of a link.
    pub(crate) fn lose(&mut self, member: MemberId, link: LinkNo) {
        let state = self.network.link(link);
        state.at_member = End::Gone;
        state.pending.clear();
        let conn = state.conn;
        if let Some(process) = &mut self.places[member.0 as usize].process {
            process.forget(conn);
        }
    }

    fn wake(&mut self, index: usize) {
        let Some(process) = &self.places[index].process else {
            return;
        };
        let (life, member) = (process.life, self.member_at(index));
        self.trace.enter(self.now, Entry::Wakeup, life.0.into());
        self.client_deed(member, Deed::Woken);
        self.feed(member, Event::Wakeup);
    }

    pub(crate) fn member_at(&self, index: usize) -> MemberId {
        MemberId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    // ---- the cluster ----------------------------------------------------------------------------

    fn arrive_at_node(&mut self, link: LinkNo) {
        let Some(parcel) = self.network.arrive(link, Way::ToNode) else {
            return;
        };
        self.trace.enter(self.now, Entry::ToNode, link.0.into());
        let conn = link.at_node();
        let event = match parcel {
            Parcel::Accepted => return self.dial_arrives(link),
            _ if self.network.link(link).at_node != End::Open => return,
            Parcel::Refused => return,
            Parcel::Bytes { piece, .. } => ServerEvent::Received { conn, bytes: piece },
            Parcel::End(_) => {
                self.network.link(link).at_node = End::Gone;
                ServerEvent::Closed { conn }
            }
        };
        self.feed_cluster(BrokerEvent::Net(event));
    }

    fn dial_arrives(&mut self, link: LinkNo) {
        let (now, state) = (self.now, self.network.link(link));
        let node = self.nodes.get(state.node);
        if node.is_silent {
            return;
        }
        if !node.is_up {
            let refused = self.network.put(now, link, Way::ToMember, Parcel::Refused);
            return self.expect(refused);
        }
        state.at_node = End::Open;
        let [.., high, low] = link.0.to_be_bytes();
        let host = u8::try_from(state.member.0 % 250).unwrap_or(0);
        let from = SocketAddr::new(
            Ipv4Addr::new(10, 1, 0, host + 1).into(),
            u16::from_be_bytes([high, low]).max(1),
        );
        let at = node.addr.clone();
        let accepted = self.network.put(now, link, Way::ToMember, Parcel::Accepted);
        self.expect(accepted);
        let conn = link.at_node();
        self.feed_cluster(BrokerEvent::Net(ServerEvent::Accepted { conn, at, from }));
    }

    pub(crate) fn feed_cluster(&mut self, event: BrokerEvent) {
        self.steps += 1;
        self.cluster.handle(self.now, event);
        self.collect();
    }

    /// Carries out what the cluster wants.
    fn collect(&mut self) {
        while let Some(action) = self.cluster.poll_action() {
            match action {
                BrokerAction::Send { conn, frame } => {
                    let link = LinkNo::from_node(conn);
                    self.trace.enter(self.now, Entry::Frame, link.0.into());
                    self.trace.bytes(&frame);
                    let arrivals = self.network.send(self.now, link, Way::ToMember, frame);
                    self.expect(arrivals.into_iter().flatten());
                }
                BrokerAction::Close { conn } => self.hang_up(LinkNo::from_node(conn)),
                other => {
                    let words = format!("an action of a cluster that nobody knows: {other:?}");
                    self.broken("actions_are_known", Broken(words));
                }
            }
        }
        while let Some(observed) = self.cluster.poll_observation() {
            self.note(observed);
        }
        self.cluster_wake = self.cluster.poll_timeout();
    }

    /// The node has closed a link.
    fn hang_up(&mut self, link: LinkNo) {
        let state = self.network.link(link);
        state.at_node = End::Gone;
        let is_silent = self.nodes.get(state.node).is_silent;
        if !is_silent {
            let end = Parcel::End(NetCause::EndOfStream);
            let end = self.network.put(self.now, link, Way::ToMember, end);
            self.expect(end);
        }
    }

    fn note(&mut self, observed: Observed) {
        let deed = match observed {
            Observed::Stored {
                queue,
                offset,
                body,
                tag,
            } => {
                let no = self.names.of_queue(&queue);
                let index = usize::try_from(offset.0).unwrap_or(0);
                let topic = queue.topic.as_str();
                let origin = self.ledger.stored(no, index, topic, body.clone(), tag.as_deref());
                if let Some(group) = topic.strip_prefix("%DLQ%") {
                    self.dead.push((group.into(), body));
                    let group = self.names.group(group);
                    self.ledger.finish(group, origin);
                }
                BrokerDeed::Stored {
                    queue: no,
                    offset,
                    origin,
                }
            }
            Observed::SentBack {
                group,
                queue,
                offset,
                dead,
            } => {
                let group = self.names.group(group.as_str());
                let queue = self.names.of_queue(&queue);
                if let Some(origin) = self.ledger.origin(queue, offset.0).filter(|_| dead) {
                    self.ledger.finish(group, origin);
                }
                BrokerDeed::SentBack { group, queue, offset }
            }
            Observed::Committed { group, queue, offset } => BrokerDeed::Committed {
                group: self.names.group(group.as_str()),
                queue: self.names.of_queue(&queue),
                offset,
            },
            Observed::Reset { group, queue, offset } => BrokerDeed::Reset {
                group: self.names.group(group.as_str()),
                queue: self.names.of_queue(&queue),
                offset,
            },
            Observed::Lock {
                group,
                queue,
                client,
                held,
            } => {
                let member = self.member_of(&client);
                let (group, queue) = (self.names.group(group.as_str()), self.names.of_queue(&queue));
                if held {
                    BrokerDeed::Locked { group, queue, member }
                } else {
                    BrokerDeed::Unlocked { group, queue, member }
                }
            }
        };
        self.show(What::Broker(deed));
    }

    fn member_of(&self, client: &ClientId) -> Option<MemberId> {
        let index = self
            .places
            .iter()
            .position(|place| place.client.client_id() == client);
        index.map(|index| self.member_at(index))
    }

    // ---- those who watch ------------------------------------------------------------------------

    pub(crate) fn deed(&mut self, life: Life, deed: Deed<'_>) {
        self.show(What::Member { life, deed });
    }

    pub(crate) fn show(&mut self, what: What<'_>) {
        if self.watchers.broken.is_some() {
            return;
        }
        let seen = Seen { at: self.now, what };
        self.tenures.begin(&seen);
        let mut rules = std::mem::take(&mut self.watchers.rules);
        let broken = rules.see(&seen, &self.facts());
        self.watchers.rules = rules;
        self.tenures.end(&seen);
        if let Some((rule, broken)) = broken {
            self.broken(rule, broken);
        }
    }

    /// Asks every rule for what must have come about by now.
    pub(crate) fn ask(&mut self, ask: fn(&mut dyn Invariant, Instant, &Facts<'_>) -> Result<(), Broken>) {
        let mut rules = std::mem::take(&mut self.watchers.rules);
        let facts = self.facts();
        let broken = rules.ask(|rule| ask(rule, facts.now, &facts));
        self.watchers.rules = rules;
        if let Some((rule, broken)) = broken {
            self.broken(rule, broken);
        }
    }

    pub(crate) fn broken(&mut self, rule: &'static str, broken: Broken) {
        let now = self.now;
        self.watchers.broken.get_or_insert((now, rule, broken));
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            now: self.now,
            nodes: &self.nodes,
            names: &self.names,
            ledger: &self.ledger,
            cluster: &self.cluster,
            topics: &self.topics,
            places: &self.places,
            members: &self.members,
            alive: &self.alive,
            tenures: &self.tenures,
            allowances: self.allowances,
        }
    }
}
