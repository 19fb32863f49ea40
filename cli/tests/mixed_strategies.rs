//! A Java member and ours share a group of the real Apache RocketMQ, by each strategy.
#![cfg(unix)]

#[path = "support/outage_tools.rs"]
mod outage_tools;
#[path = "support/processes/mod.rs"]
mod processes;
mod support;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use outage_tools::{Answer, Member};
use processes::{JavaMember, Journal, Load, Queue, now, wait_until};
use rocketmq_consumer_testing::rocketmq::{AdminClient, Cluster, JavaConsumer};
use rocketmq_consumer_tokio::core::allocate::sort_members;
use rocketmq_consumer_tokio::core::status::QueueState;
use rocketmq_consumer_tokio::{AllocateStrategy, ClientId, MessageQueue, QueueId};

/// Rooms of the two brokers; with the number of their queues at first and later.
const BROKERS: [(&str, u32, u32); 2] = [("r1@broker-a", 4, 6), ("r2@broker-b", 3, 5)];
/// The addresses are a trap: `10.0.0.10@…` sorts before `10.0.0.1@…`.
const FIRST: &str = "10.0.0.10@ours-1";
const JAVA: &str = "10.0.0.1@java-1";
const SECOND: &str = "10.0.0.2@ours-2";
/// Messages a second.
const RATE: u32 = 50;
/// How long the members may take to agree. A Java member sees new queues in its rebalance every 20 s.
const AGREE: Duration = Duration::from_secs(45);
/// Groups at a time: each has a JVM.
const AT_ONCE: usize = 3;

/// The topic, and the strategy of each member.
type Case = (&'static str, fn(&str) -> &'static str);

const CASES: [Case; 6] = [
    ("Averagely", |_| "avg"),
    ("Circle", |_| "circle"),
    ("ConsistentHash", |_| "hash:7"),
    ("MachineRoom", |_| "room:r1,r2"),
    ("Nearby", |_| {
        // Two members in one room, nobody in the other at first and last.
        "near:r1@broker-a=r1,r2@broker-b=r2,10.0.0.1*=r1,before=@,else=r2/circle"
    }),
    ("Config", |id| match id {
        FIRST => "config:r1@broker-a:0,r1@broker-a:1,r1@broker-a:4,r1@broker-a:5",
        JAVA => "config:r1@broker-a:2,r2@broker-b:0",
        _ => "config:r1@broker-a:3,r2@broker-b:1,r2@broker-b:2,r2@broker-b:3,r2@broker-b:4",
    }),
];

#[test]
fn java_and_ours_agree_by_every_strategy() {
    let rooms = BROKERS.map(|(broker, ..)| broker.split('@').next().expect("a room"));
    let cluster = Cluster::builder()
        .rooms(&rooms)
        .start()
        .expect("a cluster starts");
    for cases in CASES.chunks(AT_ONCE) {
        thread::scope(|scope| {
            for (topic, strategy) in cases {
                let cluster = &cluster;
                scope.spawn(move || Group::new(cluster, topic, *strategy).lives());
            }
        });
    }
}

/// A topic, the group of its name, and who is there.
struct Group<'a> {
    cluster: &'a Cluster,
    topic: &'static str,
    strategy: fn(&str) -> &'static str,
    queues: Vec<MessageQueue>,
    ours: BTreeMap<String, Member>,
    /// What members saw that have left.
    seen: BTreeSet<String>,
    java: Option<JavaMember>,
    journal: Journal,
    broker: AdminClient,
}

impl<'a> Group<'a> {
    fn new(cluster: &'a Cluster, topic: &'static str, strategy: fn(&str) -> &'static str) -> Self {
        let mut group = Self {
            cluster,
            topic,
            strategy,
            queues: Vec::new(),
            ours: BTreeMap::new(),
            seen: BTreeSet::new(),
            java: None,
            journal: Journal::default(),
            broker: cluster.broker(0).admin().expect("the broker listens"),
        };
        group.has(BROKERS.map(|(broker, first, _)| (broker, first)));
        group
    }

    fn lives(mut self) {
        let load = Load::start(self.cluster.name_server(), self.topic, RATE, 0, 0);
        self.ours_joins(FIRST);
        self.java_joins();
        self.agree("one of each");
        self.has(BROKERS.map(|(broker, _, later)| (broker, later)));
        self.agree("the topic has grown");
        self.ours_joins(SECOND);
        self.agree("ours joined");
        self.java_leaves();
        self.agree("Java left");
        self.java_joins();
        self.agree("Java came back");
        self.ours_leaves(FIRST);
        self.agree("ours left");
        self.ours_joins(FIRST);
        self.agree("ours came back");

        let sent: BTreeSet<String> = load
            .stop()
            .numbers
            .iter()
            .map(|number| format!("{number}:"))
            .collect();
        let lost = RefCell::default();
        wait_until(
            now(),
            AGREE,
            || {
                lost.replace(sent.difference(&self.seen()).cloned().collect::<Vec<_>>());
                lost.borrow().is_empty()
            },
            || format!("{}: everything, missing {:?}", self.topic, lost.borrow()),
        );
        println!("{}: {} messages, none lost", self.topic, sent.len());
        self.java_leaves();
        for id in [FIRST, SECOND] {
            self.ours_leaves(id);
        }
    }

    /// The topic has so many queues from now on.
    fn has(&mut self, counts: [(&str, u32); 2]) {
        let [(_, first), (_, second)] = counts;
        self.cluster
            .create_topic(self.topic, &[(0, first), (1, second)])
            .expect("a topic can be created");
        let queues = counts.iter().flat_map(|(broker, count)| {
            (0_i32..).take(*count as usize).map(|id| MessageQueue {
                topic: self.topic.into(),
                broker: (*broker).into(),
                id: QueueId(id),
            })
        });
        self.queues = queues.collect();
    }

    fn ours_joins(&mut self, id: &str) {
        let strategy: AllocateStrategy = (self.strategy)(id).parse().expect("a strategy");
        let own = id.to_owned();
        let second = Duration::from_secs(1);
        let member = Member::start(
            self.cluster.name_server(),
            self.topic,
            |builder| {
                builder
                    .client_id(own)
                    .strategy(strategy)
                    .client_config(move |config| config.set_route_interval(second))
            },
            |_| Answer::Done,
        );
        self.ours.insert(id.into(), member);
    }

    fn ours_leaves(&mut self, id: &str) {
        let member = self.ours.remove(id).expect("it is a member");
        self.seen.extend(member.leave());
    }

    fn java_joins(&mut self) {
        let (ip, instance) = JAVA.split_once('@').expect("an address and a name");
        let builder = JavaConsumer::builder(self.cluster.name_server(), self.topic)
            .subscribe(self.topic, "*")
            .strategy((self.strategy)(JAVA))
            .client_ip(ip)
            .instance(instance)
            .from_first()
            .route_refresh(Duration::from_secs(1));
        self.java = Some(JavaMember::start(&self.journal, builder));
    }

    fn java_leaves(&mut self) {
        let member = self.java.take().expect("it is a member");
        member.terminate();
        member.finish();
    }

    /// Bodies that anybody was given.
    fn seen(&self) -> BTreeSet<String> {
        let by_java = self
            .journal
            .all()
            .into_iter()
            .map(|one| format!("{}:", one.number));
        let by_ours = self.ours.values().flat_map(Member::bodies);
        by_java.chain(by_ours).chain(self.seen.iter().cloned()).collect()
    }

    /// Waits until each member owns exactly what its strategy gives it.
    fn agree(&mut self, what: &str) {
        let since: Instant = now();
        let differences = RefCell::default();
        let topic = self.topic;
        let took = wait_until(
            since,
            AGREE,
            || {
                differences.replace(self.differences());
                differences.borrow().is_empty()
            },
            || format!("{topic}, {what}: {:#?}", differences.borrow()),
        );
        println!("{topic}, {what}: agreed after {took:.3?}");
    }

    fn differences(&mut self) -> Vec<String> {
        let java = self.java.as_ref().map(|_| JAVA.to_owned());
        let mut ids: Vec<ClientId> = self
            .ours
            .keys()
            .cloned()
            .chain(java)
            .map(ClientId::from)
            .collect();
        sort_members(&mut ids);
        let mut out = Vec::new();
        for id in &ids {
            let strategy: AllocateStrategy = (self.strategy)(id.as_str()).parse().expect("a strategy");
            let share = strategy
                .allocate_all(&self.queues, &ids, id)
                .expect("it can be shared");
            let share: BTreeSet<Queue> = share.iter().map(as_queue).collect();
            let owned = match self.ours.get(id.as_str()) {
                Some(ours) => Some(self.owned_by(ours)),
                None => self.owned_by_java(),
            };
            if owned.as_ref() != Some(&share) {
                out.push(format!("{id} owns {owned:?} instead of {share:?}"));
            }
        }
        out
    }

    fn owned_by(&self, member: &Member) -> BTreeSet<Queue> {
        let groups = member.status().groups;
        let queues = groups.iter().flat_map(|group| &group.queues);
        let owned = queues.filter(|queue| {
            let counts = !matches!(queue.state, QueueState::Acquiring | QueueState::Revoking);
            counts && queue.queue.topic.as_str() == self.topic
        });
        owned.map(|queue| as_queue(&queue.queue)).collect()
    }

    fn owned_by_java(&mut self) -> Option<BTreeSet<Queue>> {
        let owned = self.java.as_ref()?.owned(&mut self.broker, self.topic)?;
        Some(
            owned
                .into_iter()
                .filter(|queue| queue.topic == self.topic)
                .collect(),
        )
    }
}

fn as_queue(queue: &MessageQueue) -> Queue {
    Queue {
        topic: queue.topic.to_string(),
        broker: queue.broker.to_string(),
        id: queue.id.0.unsigned_abs(),
    }
}
