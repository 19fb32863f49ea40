//! Whole clusters in one thread on virtual time, from one seed.
//!
//! [`Sim`] is for a test of an own handler: a cluster, members, messages, and time that passes at once.
//!
//! ```
//! use std::time::Duration;
//! use rocketmq_consumer_testing::sim::{Outcome, Sim};
//!
//! let mut sim = Sim::seed(7).topic("orders", 4);
//! let member = sim.consumer("billing", "orders", |_: &_| Outcome::Retry);
//! sim.send("orders", "boom");
//! sim.run_for(Duration::from_secs(5 * 3600));
//! assert_eq!(sim.dead_letters("billing"), ["boom"]);
//! assert_eq!(sim.attempts(member, "boom"), 17);
//! ```
//!
//! [`swarm`] draws whole worlds with their faults from seeds and runs them under every
//! [`Invariant`]; a run is known by the hash of its trace.
//!
//! What runs are the machines themselves: the consumer's, and the broker's of the core. The world between them
//! moves bytes and lets time pass, and knows no protocol except to look at it ([`seen`]).
//!
//! A client holds one group, or several: [`Sim::consumer_on`] and members with a [`host`](plan::MemberPlan::host).

mod acting;
mod agenda;
mod cluster;
mod dice;
mod engine;
pub mod fault;
pub mod habits;
pub mod handler;
mod hands;
pub mod invariant;
pub mod invariants;
pub mod java;
pub mod keep;
mod ledger;
mod machine;
mod model;
mod names;
pub mod narrator;
pub mod network;
mod nodes;
mod observe;
pub mod plan;
mod process;
pub mod report;
mod rest;
pub mod seen;
mod sharing;
mod storing;
pub mod swarm;
pub mod tenures;
pub mod trace;
pub mod trouble;
mod view;
pub mod violation;
mod watchers;
pub mod wishes;

use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::broker::config::{ClusterConfig, TopicConfig};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::ids::{MessageQueue, PeerAddr};
use rocketmq_consumer_core::status::Status;
use rocketmq_consumer_core::time::Instant;

pub use handler::{Delivery, Handler, Handling};
pub use rocketmq_consumer_core::message::Outcome;
pub use seen::MemberId;

use engine::World;
use fault::Fault;
use invariant::{Invariant, View as _};
use network::{Way, Weather};
use seen::{Kind, NodeNo};
use violation::Violation;

/// A small cluster and its consumers on virtual time.
///
/// Everything that happens follows from the seed and from what is called, in that order.
#[derive(Debug)]
pub struct Sim {
    world: World,
    seed: u64,
    name_servers: Vec<PeerAddr>,
}

impl Sim {
    /// One name server and one broker without topics, one millisecond away.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Self::with(seed, ClusterConfig::with_brokers(1), Vec::new())
    }

    /// A cluster of one's own, under rules of one's own.
    #[must_use]
    pub fn with(seed: u64, cluster: ClusterConfig, rules: Vec<Box<dyn Invariant>>) -> Self {
        let name_servers = cluster.name_servers.clone();
        let topics = cluster.topics.clone();
        let mut world = World::new(cluster, Weather::FINE, seed, rules);
        for topic in topics {
            world.put_topic(None, topic);
        }
        Self {
            world,
            seed,
            name_servers,
        }
    }

    /// Creates a topic with this many queues on each broker.
    #[must_use]
    pub fn topic(mut self, name: &str, queues: u32) -> Self {
        self.world.put_topic(None, TopicConfig::new(name.into(), queues));
        self
    }

    /// Starts a consumer of a group that reads a topic from its oldest message. The handler returns an
    /// [`Outcome`] or a [`Handling`].
    pub fn consumer<R: Into<Handling>>(
        &mut self,
        group: &str,
        topic: &str,
        handler: impl FnMut(&Delivery<'_>) -> R + Send + 'static,
    ) -> MemberId {
        let number = self.world.places.len() + 1;
        let id = format!("10.0.2.{number}@{number}");
        let client = ClientConfig::new(id.as_str().into(), self.name_servers.clone());
        let mut group = GroupConfig::new(group.into());
        group.set_start_at(StartAt::Earliest).subscribe(topic.into(), "*");
        self.member(client, group, Handler::new(handler))
    }

    /// Starts another group on the client of a member of ours, as [`Sim::consumer`] does: it shares its
    /// connections and can leave and come back on its own.
    pub fn consumer_on<R: Into<Handling>>(
        &mut self,
        host: MemberId,
        group: &str,
        topic: &str,
        handler: impl FnMut(&Delivery<'_>) -> R + Send + 'static,
    ) -> MemberId {
        let mut group = GroupConfig::new(group.into());
        group.set_start_at(StartAt::Earliest).subscribe(topic.into(), "*");
        let member = self.world.place_on(host, group, Handler::new(handler));
        self.world.places[member.0 as usize].calls = Some(std::collections::BTreeMap::new());
        self.world.start(member);
        member
    }

    /// Starts a consumer with settings of one's own.
    pub fn member(&mut self, client: ClientConfig, group: GroupConfig, handler: Handler) -> MemberId {
        let member = self.world.place(Kind::Ours, client, group, handler);
        self.world.places[member.0 as usize].calls = Some(std::collections::BTreeMap::new());
        self.world.start(member);
        member
    }

    /// Stores a message in a queue of the topic.
    ///
    /// # Panics
    /// When there is no such topic.
    pub fn send(&mut self, topic: &str, body: impl Into<Bytes>) {
        self.send_tagged(topic, body, None);
    }

    /// Stores a message with a tag.
    ///
    /// # Panics
    /// When there is no such topic.
    pub fn send_tagged(&mut self, topic: &str, body: impl Into<Bytes>, tag: Option<&str>) {
        let queues = self.world.topics.queues();
        let queues: Vec<MessageQueue> = queues.filter(|queue| queue.topic.as_str() == topic).collect();
        assert!(!queues.is_empty(), "there is no topic {topic}");
        let queue = self.world.dice.pick(&queues).clone();
        self.world.append(queue, body.into(), tag);
    }

    /// Lets virtual time pass, and everything happen that is due by then.
    ///
    /// # Panics
    /// When a rule is broken: [`Sim::violation`] in words.
    pub fn run_for(&mut self, time: Duration) {
        // A world without a plan has no script.
        let entry = self.world.run_until(self.world.now + time);
        debug_assert_eq!(entry, None, "nobody wrote a script");
        if let Some(violation) = self.violation() {
            panic!("{violation}");
        }
    }

    /// What time it is, from the beginning of the world.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.world.now
    }

    /// Bodies of a group's dead letters, in the order they came; what is no text is shown as far as it is.
    #[must_use]
    pub fn dead_letters(&self, group: &str) -> Vec<String> {
        let dead = self.world.dead.iter().filter(|(of, _)| of == group);
        dead.map(|(_, body)| String::from_utf8_lossy(body).into_owned())
            .collect()
    }

    /// How often a member's handler was called with such a body, over all its lives.
    #[must_use]
    pub fn attempts(&self, member: MemberId, body: &str) -> u32 {
        let calls = self.world.places[member.0 as usize].calls.as_ref();
        calls
            .and_then(|calls| calls.get(body.as_bytes()))
            .copied()
            .unwrap_or(0)
    }

    /// Messages that some group wants and has not finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.world.ledger.left()
    }

    /// What a member says of itself; `None` while it does not run.
    #[must_use]
    pub fn status(&self, member: MemberId) -> Option<Status> {
        let host = self.world.places[member.0 as usize].host.unwrap_or(member);
        let process = self.world.places[host.0 as usize].process.as_ref()?;
        self.world.facts().status(process.by_member(member)?.life)
    }

    /// The machine of a member of ours, to be looked at; `None` while it does not run.
    #[must_use]
    pub fn machine(&self, member: MemberId) -> Option<&ConsumerState> {
        let process = self.world.places[member.0 as usize].process.as_ref()?;
        process.machine.ours()
    }

    /// Kills a member's process; its connections are closed.
    pub fn crash(&mut self, member: MemberId) {
        self.apply(&Fault::Kill { member, told: true });
    }

    /// Starts a member again that crashed or left.
    pub fn restart(&mut self, member: MemberId) {
        self.apply(&Fault::Start(member));
    }

    /// Asks a member to leave; its handlers may run for so long.
    pub fn leave(&mut self, member: MemberId, drain: Duration) {
        self.apply(&Fault::Leave(member, drain));
    }

    /// Cuts a member off from every node, both ways, until [`Sim::mend`].
    pub fn cut(&mut self, member: MemberId) {
        self.each_way(|node, way| Fault::Cut(member, node, way));
    }

    /// Ends a cut.
    pub fn mend(&mut self, member: MemberId) {
        self.each_way(|node, way| Fault::Mend(member, node, way));
    }

    fn each_way(&mut self, fault: impl Fn(NodeNo, Way) -> Fault) {
        let nodes: Vec<NodeNo> = self.world.nodes.all().map(|(no, _)| no).collect();
        for node in nodes {
            for way in [Way::ToNode, Way::ToMember] {
                self.apply(&fault(node, way));
            }
        }
    }

    /// Does anything to the world that can be done to it.
    pub fn apply(&mut self, fault: &Fault) {
        fault.apply(&mut self.world);
    }

    /// The node that listens at an address.
    #[must_use]
    pub fn node(&self, addr: &PeerAddr) -> Option<NodeNo> {
        self.world.nodes.find(addr)
    }

    /// The hash of everything that happened so far.
    #[must_use]
    pub const fn trace_hash(&self) -> u64 {
        self.world.trace.hash()
    }

    /// The first rule that was broken.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        let (at, rule, what) = self.world.watchers.broken.clone()?;
        Some(Violation {
            seed: self.seed,
            troubles: None,
            at,
            rule,
            what,
            faults: Vec::new(),
        })
    }
}
