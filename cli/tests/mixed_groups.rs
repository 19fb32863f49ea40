//! Java members and ours share a group of the real Apache RocketMQ.
#![cfg(unix)]

#[path = "support/processes/mod.rs"]
mod processes;
mod support;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use processes::{Delivery, JavaMember, Journal, Load, Member, Queue, Sent, now, wait_until};
use rocketmq_consumer_testing::rocketmq::{AdminClient, Cluster, JavaConsumer};

const TOPIC: &str = "Mixed";
const GROUP: &str = "Mixed";
const RETRY: &str = "%RETRY%Mixed";
/// Queues of the topic on broker-a and broker-b.
const QUEUES: [u32; 2] = [7, 4];
/// Messages a second, by so many producers.
const RATE: u32 = 1_000;
const PRODUCERS: u32 = 8;
/// How long the members may take to agree after a change.
const AGREE: Duration = Duration::from_secs(25);

/// The address part of client ids is the trap: `10.0.0.10@…` sorts before `10.0.0.1@…`.
#[test]
fn java_and_ours_agree_on_who_owns_what() {
    let cluster = Cluster::builder().brokers(2).start().expect("a cluster starts");
    let queues = [(0, QUEUES[0]), (1, QUEUES[1])];
    cluster
        .create_topic(TOPIC, &queues)
        .expect("a topic can be created");
    let begin = |place| {
        let first = u64::from(place) * 1_000_000;
        Load::start(cluster.name_server(), TOPIC, RATE / PRODUCERS, 0, first)
    };
    let loads: Vec<Load> = (0..PRODUCERS).map(begin).collect();

    let mut crowd = Crowd::new(&cluster);
    crowd.ours_joins("10.0.0.10@ours-1");
    crowd.java_joins("10.0.0.1", "java-1");
    crowd.ours_joins("10.0.0.1@ours-2");
    let since = crowd.java_joins("10.0.0.10", "java-2");
    crowd.agree("two of each", since);

    type Change = fn(&mut Crowd<'_>) -> Instant;
    let changes: [(&str, Change); 10] = [
        ("ours joins", |crowd| crowd.ours_joins("10.0.0.100@ours-3")),
        ("Java leaves", |crowd| crowd.java_leaves("10.0.0.1@java-1")),
        ("ours is killed", |crowd| crowd.ours_is_killed("10.0.0.10@ours-1")),
        ("Java joins", |crowd| crowd.java_joins("10.0.0.2", "java-3")),
        ("ours leaves", |crowd| crowd.ours_leaves("10.0.0.1@ours-2")),
        ("ours joins", |crowd| crowd.ours_joins("10.0.0.1@ours-4")),
        ("Java is killed", |crowd| crowd.java_is_killed("10.0.0.10@java-2")),
        ("Java joins", |crowd| crowd.java_joins("10.0.0.10", "java-4")),
        ("ours joins", |crowd| crowd.ours_joins("9.0.0.1@ours-5")),
        ("ours leaves", |crowd| crowd.ours_leaves("10.0.0.100@ours-3")),
    ];
    for (what, change) in changes {
        let since = change(&mut crowd);
        crowd.agree(what, since);
    }

    let sent: Vec<Sent> = loads.into_iter().map(Load::stop).collect();
    let numbers: Vec<u64> = sent.iter().flat_map(|one| one.numbers.iter().copied()).collect();
    let rate: f64 = sent.iter().map(Sent::rate).sum();
    let journal = crowd.journal.clone();
    wait_until(
        now(),
        AGREE,
        || journal.distinct() >= numbers.len(),
        || {
            format!(
                "everything, missing {:?}",
                journal.missing(numbers.iter().copied())
            )
        },
    );
    assert!(
        journal.missing(numbers.iter().copied()).is_empty(),
        "nothing is lost"
    );
    crowd.everybody_leaves();
    println!(
        "{} sent at {rate:.0}/s, none lost, {} repeated",
        numbers.len(),
        journal.len() - numbers.len()
    );
    // A machine that builds something beside may not come to more.
    assert!(rate > f64::from(RATE) * 0.75, "the group was to be under load");
}

/// The members of the group.
struct Crowd<'a> {
    cluster: &'a Cluster,
    journal: Journal,
    ours: BTreeMap<String, Member>,
    java: BTreeMap<String, JavaMember>,
    brokers: [AdminClient; 2],
}

impl<'a> Crowd<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            journal: Journal::default(),
            ours: BTreeMap::new(),
            java: BTreeMap::new(),
            brokers: [0, 1].map(|at| cluster.broker(at).admin().expect("the broker listens")),
        }
    }

    fn ours_joins(&mut self, id: &str) -> Instant {
        let args = [TOPIC, "-g", GROUP, "-n", self.cluster.name_server()];
        let at = now();
        let member = Member::start(&self.journal, id, 0, &args);
        self.ours.insert(id.into(), member);
        at
    }

    fn ours_leaves(&mut self, id: &str) -> Instant {
        let mut member = self.ours.remove(id).expect("it is a member");
        let at = member.terminate();
        let ended = member.finish();
        assert_eq!(ended.code, Some(0), "{:?}", ended.talk);
        at
    }

    fn ours_is_killed(&mut self, id: &str) -> Instant {
        let mut member = self.ours.remove(id).expect("it is a member");
        let at = member.kill();
        member.finish();
        at
    }

    fn java_joins(&mut self, ip: &str, instance: &str) -> Instant {
        let builder = JavaConsumer::builder(self.cluster.name_server(), GROUP)
            .subscribe(TOPIC, "*")
            .client_ip(ip)
            .instance(instance)
            .from_first()
            // The retry topic is there only after the first heartbeat; Java learns of it this way.
            .route_refresh(Duration::from_secs(1));
        let member = JavaMember::start(&self.journal, builder);
        self.java.insert(member.id().into(), member);
        // The start of a JVM is no part of what is measured.
        now()
    }

    fn java_leaves(&mut self, id: &str) -> Instant {
        let member = self.java.remove(id).expect("it is a member");
        let at = member.terminate();
        member.finish();
        at
    }

    fn java_is_killed(&mut self, id: &str) -> Instant {
        let member = self.java.remove(id).expect("it is a member");
        let at = member.kill();
        member.finish();
        at
    }

    /// Waits until every member owns exactly its share, as the members themselves and both brokers say;
    /// then until messages that are stored from now on come to the owner of their queue.
    fn agree(&mut self, what: &str, since: Instant) {
        let shares = self.shares();
        let differences = RefCell::default();
        let took = wait_until(
            since,
            AGREE,
            || {
                differences.replace(self.differences(&shares));
                differences.borrow().is_empty()
            },
            || {
                format!(
                    "agreement after {what}: {:#?} of {shares:#?}",
                    differences.borrow()
                )
            },
        );
        self.owners_are_given_what_is_new(&shares);
        let repeats = self.repeats_since(since);
        println!(
            "{what}: {} members agree after {took:.3?}, repeats {repeats:?}",
            shares.len()
        );
    }

    /// How often a message came again since then, by who had it last and who got it again.
    fn repeats_since(&self, since: Instant) -> BTreeMap<String, usize> {
        let kind = |one: &Delivery| {
            if one.member.contains("java") {
                "Java"
            } else {
                "ours"
            }
        };
        let mut counts = BTreeMap::new();
        for deliveries in self.journal.repeated().into_values() {
            for (before, again) in deliveries.iter().zip(deliveries.iter().skip(1)) {
                if again.at >= since {
                    *counts
                        .entry(format!("{} to {}", kind(before), kind(again)))
                        .or_default() += 1;
                }
            }
        }
        counts
    }

    /// What each member is to own.
    fn shares(&self) -> BTreeMap<String, BTreeSet<Queue>> {
        let ids: BTreeSet<&String> = self.ours.keys().chain(self.java.keys()).collect();
        let names = ["broker-a", "broker-b"];
        let queues = |topic: &str, counts: [u32; 2]| -> Vec<Queue> {
            let all = names.into_iter().zip(counts);
            all.flat_map(|(broker, count)| {
                (0..count).map(move |id| Queue {
                    topic: topic.into(),
                    broker: broker.into(),
                    id,
                })
            })
            .collect()
        };
        let mut shares: BTreeMap<String, BTreeSet<Queue>> = BTreeMap::new();
        for queues in [queues(TOPIC, QUEUES), queues(RETRY, [1, 1])] {
            let mut queues = queues.into_iter();
            for (place, id) in ids.iter().enumerate() {
                // Even blocks; the first members have one more where it does not come out even.
                let total = queues.len();
                let left = ids.len() - place;
                shares
                    .entry((*id).clone())
                    .or_default()
                    .extend(queues.by_ref().take(total.div_ceil(left)));
            }
        }
        shares
    }

    /// Members that do not own exactly their share, with what they own; and brokers that do not list
    /// exactly the members.
    fn differences(&mut self, shares: &BTreeMap<String, BTreeSet<Queue>>) -> Vec<String> {
        let mut out = Vec::new();
        for broker in &mut self.brokers {
            let ids = broker.consumer_ids(GROUP).expect("the broker answers");
            if !ids.iter().eq(shares.keys()) {
                out.push(format!("{} lists {ids:?}", broker.address()));
            }
        }
        for (id, share) in shares {
            let owned = match (self.ours.get(id), self.java.get(id)) {
                (Some(ours), _) => Some(
                    [TOPIC, RETRY]
                        .iter()
                        .flat_map(|topic| ours.owned(topic))
                        .collect(),
                ),
                (None, Some(java)) => java.owned(&mut self.brokers[0], GROUP),
                (None, None) => None,
            };
            if owned.as_ref() != Some(share) {
                out.push(format!("{id} owns {owned:?}"));
            }
        }
        out
    }

    /// For a second, messages stored from now on come only to the owners of their queues, and of every
    /// queue some do.
    fn owners_are_given_what_is_new(&mut self, shares: &BTreeMap<String, BTreeSet<Queue>>) {
        let since = now();
        let owners: BTreeMap<&Queue, &String> = shares
            .iter()
            .flat_map(|(id, share)| share.iter().map(move |queue| (queue, id)))
            .filter(|(queue, _)| queue.topic == TOPIC)
            .collect();
        assert_eq!(owners.len(), 11, "every queue has one owner");
        let mut ends = BTreeMap::new();
        for queue in owners.keys() {
            let broker = &mut self.brokers[usize::from(queue.broker == "broker-b")];
            let end = broker.max_offset(TOPIC, queue.id).expect("the broker answers");
            ends.insert((*queue).clone(), end);
        }
        thread::sleep(Duration::from_secs(1));
        let news = || {
            let mut news = self.journal.since(since);
            news.retain(|one| ends.get(&one.queue).is_some_and(|end| one.offset >= *end));
            news
        };
        let given = || news().into_iter().map(|one| one.queue).collect::<BTreeSet<_>>();
        wait_until(
            since,
            AGREE,
            || given().len() == owners.len(),
            || format!("new messages of every queue, only of {:?}", given()),
        );
        for one in news() {
            assert_eq!(
                owners.get(&one.queue).map(|id| id.as_str()),
                Some(&*one.member),
                "{one:?}"
            );
        }
    }

    fn everybody_leaves(&mut self) {
        for mut member in std::mem::take(&mut self.ours).into_values() {
            member.terminate();
            let ended = member.finish();
            assert_eq!(ended.code, Some(0), "{:?}", ended.talk);
        }
        for member in std::mem::take(&mut self.java).into_values() {
            member.terminate();
            member.finish();
        }
        for broker in &mut self.brokers {
            assert_eq!(
                broker.consumer_ids(GROUP).expect("the broker answers"),
                Vec::<String>::new()
            );
        }
    }
}
