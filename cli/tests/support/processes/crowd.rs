//! A group whose members are Java's and ours, each in a process of its own.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use rocketmq_consumer_testing::rocketmq::{AdminClient, Cluster, JavaConsumer};

use super::clock::{now, wait_until};
use super::java_member::JavaMember;
use super::journal::{Delivery, Journal, Queue};
use super::load::Sent;
use super::member::Member;

/// How long the members may take to agree after a change.
pub(crate) const AGREE: Duration = Duration::from_secs(25);

/// How long a Java member works on a message that comes in order; it is told when the work is done.
const WORK: Duration = Duration::from_millis(2);

/// The members of a group that has the name of its topic.
#[derive(Debug)]
pub(crate) struct Crowd<'a> {
    cluster: &'a Cluster,
    topic: &'a str,
    /// Queues of the topic on each broker.
    queues: &'a [u32],
    journal: Journal,
    orderly: bool,
    ours: BTreeMap<String, Member>,
    java: BTreeMap<String, JavaMember>,
    brokers: Vec<AdminClient>,
}

impl<'a> Crowd<'a> {
    /// Nobody yet, on a topic with so many queues on each broker.
    pub(crate) fn new(cluster: &'a Cluster, topic: &'a str, queues: &'a [u32]) -> Self {
        let brokers = cluster.brokers().iter();
        Self {
            cluster,
            topic,
            queues,
            journal: Journal::default(),
            orderly: false,
            ours: BTreeMap::new(),
            java: BTreeMap::new(),
            brokers: brokers
                .map(|broker| broker.admin().expect("the broker listens"))
                .collect(),
        }
    }

    /// All its members will handle the messages of a queue one after another.
    pub(crate) fn orderly(mut self) -> Self {
        self.orderly = true;
        self
    }

    /// What its members were given.
    pub(crate) const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The client ids of our members.
    pub(crate) fn ours(&self) -> Vec<String> {
        self.ours.keys().cloned().collect()
    }

    /// The client ids of the Java members.
    pub(crate) fn java(&self) -> Vec<String> {
        self.java.keys().cloned().collect()
    }

    /// One of ours joins; returns when it was started.
    pub(crate) fn ours_joins(&mut self, id: &str) -> Instant {
        let mut args = vec![self.topic, "-g", self.topic, "-n", self.cluster.name_server()];
        args.extend(self.orderly.then_some("--orderly"));
        let at = now();
        let member = Member::start(&self.journal, id, 0, &args);
        self.ours.insert(id.into(), member);
        at
    }

    /// The queues of the topic that one of ours owns.
    pub(crate) fn owned_by_ours(&self, id: &str) -> BTreeSet<Queue> {
        self.ours[id].owned(self.topic)
    }

    /// One of ours leaves as it should; returns when it was told.
    pub(crate) fn ours_leaves(&mut self, id: &str) -> Instant {
        let mut member = self.ours.remove(id).expect("it is a member");
        let at = member.terminate();
        let ended = member.finish();
        assert_eq!(ended.code, Some(0), "{:?}", ended.talk);
        at
    }

    /// One of ours is killed; returns when.
    pub(crate) fn ours_is_killed(&mut self, id: &str) -> Instant {
        let mut member = self.ours.remove(id).expect("it is a member");
        let at = member.kill();
        member.finish();
        at
    }

    /// A Java client joins; returns when it says that it has started.
    pub(crate) fn java_joins(&mut self, ip: &str, instance: &str) -> Instant {
        let mut builder = JavaConsumer::builder(self.cluster.name_server(), self.topic)
            .subscribe(self.topic, "*")
            .client_ip(ip)
            .instance(instance)
            .from_first()
            // The retry topic is there only after the first heartbeat; Java learns of it this way.
            .route_refresh(Duration::from_secs(1));
        if self.orderly {
            builder = builder.orderly().work(WORK);
        }
        let member = JavaMember::start(&self.journal, builder);
        self.java.insert(member.id().into(), member);
        // The start of a JVM is no part of what is measured.
        now()
    }

    /// A Java client leaves as it should; returns when it was told.
    pub(crate) fn java_leaves(&mut self, id: &str) -> Instant {
        let member = self.java.remove(id).expect("it is a member");
        let at = member.terminate();
        member.finish();
        at
    }

    /// A Java client is killed; returns when.
    pub(crate) fn java_is_killed(&mut self, id: &str) -> Instant {
        let member = self.java.remove(id).expect("it is a member");
        let at = member.kill();
        member.finish();
        at
    }

    /// Waits until every member owns exactly its share, as the members themselves and both brokers say;
    /// then until messages that are stored from now on come to the owner of their queue.
    pub(crate) fn agree(&mut self, what: &str, since: Instant) {
        self.agree_within(what, since, AGREE);
    }

    /// The same, where it may take longer or must be quicker.
    pub(crate) fn agree_within(&mut self, what: &str, since: Instant, limit: Duration) {
        let shares = self.shares();
        let differences = RefCell::default();
        let took = wait_until(
            since,
            limit,
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

    fn retry_topic(&self) -> String {
        format!("%RETRY%{}", self.topic)
    }

    /// What each member is to own.
    fn shares(&self) -> BTreeMap<String, BTreeSet<Queue>> {
        let ids: BTreeSet<&String> = self.ours.keys().chain(self.java.keys()).collect();
        let queues = |topic: &str, counts: &[u32]| -> Vec<Queue> {
            let all = self.cluster.brokers().iter().zip(counts);
            all.flat_map(|(broker, count)| {
                (0..*count).map(move |id| Queue {
                    topic: topic.into(),
                    broker: broker.name().into(),
                    id,
                })
            })
            .collect()
        };
        let (retry, one_each) = (self.retry_topic(), vec![1; self.queues.len()]);
        let mut shares: BTreeMap<String, BTreeSet<Queue>> = BTreeMap::new();
        for queues in [queues(self.topic, self.queues), queues(&retry, &one_each)] {
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
        let (retry, mut out) = (self.retry_topic(), Vec::new());
        for broker in &mut self.brokers {
            let ids = broker.consumer_ids(self.topic).expect("the broker answers");
            if !ids.iter().eq(shares.keys()) {
                out.push(format!("{} lists {ids:?}", broker.address()));
            }
        }
        for (id, share) in shares {
            let owned = match (self.ours.get(id), self.java.get(id)) {
                (Some(ours), _) => Some(
                    [self.topic, &retry]
                        .into_iter()
                        .flat_map(|topic| ours.owned(topic))
                        .collect(),
                ),
                (None, Some(java)) => java.owned(&mut self.brokers[0], self.topic),
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
            .filter(|(queue, _)| queue.topic == self.topic)
            .collect();
        assert_eq!(
            owners.len(),
            self.queues.iter().sum::<u32>() as usize,
            "every queue has one owner"
        );
        let mut ends = BTreeMap::new();
        for queue in owners.keys() {
            let mut names = self.cluster.brokers().iter();
            let place = names.position(|broker| broker.name() == queue.broker);
            let broker = &mut self.brokers[place.expect("it is one of them")];
            let end = broker
                .max_offset(self.topic, queue.id)
                .expect("the broker answers");
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

    /// Waits until every message was given to somebody.
    ///
    /// # Panics
    /// When one was not in time.
    pub(crate) fn nothing_is_lost(&self, sent: &Sent) {
        let missing = || self.journal.missing(sent.numbers.iter().copied());
        wait_until(
            now(),
            AGREE,
            || self.journal.distinct() >= sent.numbers.len(),
            || format!("everything, missing {:?}", missing()),
        );
        assert!(missing().is_empty(), "nothing is lost");
        println!(
            "{} sent at {:.0}/s, none lost, {} repeated",
            sent.numbers.len(),
            sent.rate(),
            self.journal.len() - sent.numbers.len()
        );
    }

    /// All leave as they should, and the brokers know it.
    pub(crate) fn everybody_leaves(&mut self) {
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
                broker.consumer_ids(self.topic).expect("the broker answers"),
                Vec::<String>::new()
            );
        }
    }
}
