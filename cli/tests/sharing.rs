//! Two members share eight queues of the real Apache RocketMQ: one is killed, one leaves, all are
//! restarted.
#![cfg(unix)]

#[path = "support/processes/mod.rs"]
mod processes;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use processes::{Delivery, Journal, Load, Member, Queue, now, wait_until};
use rocketmq_consumer_testing::rocketmq::{Cluster, Producer};

const QUEUES: u32 = 8;
const BODY: usize = 128;
/// How long anything may take that is not measured.
const PATIENCE: Duration = Duration::from_secs(30);

/// The steps have figures of their own, so they run one after the other. A single test owns the
/// cluster: what belongs to a `static` would be left behind.
#[test]
fn members_share_the_queues() {
    let cluster = Cluster::builder().start().expect("a cluster starts");
    a_killed_member_is_replaced_by_the_other(&Bench::new(&cluster, "Killed"));
    let bench = Bench::new(&cluster, "Left");
    a_member_that_leaves_is_replaced_without_repeats(&bench);
    a_restarted_group_is_given_only_what_is_new(&bench.again());
}

/// A topic and a group of one name, and what its members were given.
struct Bench<'a> {
    cluster: &'a Cluster,
    name: &'a str,
    journal: Journal,
}

impl<'a> Bench<'a> {
    fn new(cluster: &'a Cluster, name: &'a str) -> Self {
        cluster
            .create_topic(name, &[(0, QUEUES)])
            .expect("a topic can be created");
        let journal = Journal::default();
        Self {
            cluster,
            name,
            journal,
        }
    }

    /// The same topic and group with an empty journal.
    fn again(&self) -> Self {
        let journal = Journal::default();
        Self { journal, ..*self }
    }

    fn member(&self, id: &str, pace: u32, more: &[&str]) -> Member {
        let base = [self.name, "-g", self.name, "-n", self.cluster.name_server()];
        Member::start(&self.journal, id, pace, &[&base, more].concat())
    }

    fn queue(&self, id: u32) -> Queue {
        Queue {
            topic: self.name.into(),
            broker: "broker-a".into(),
            id,
        }
    }

    /// What the broker has stored of the group, or, with `ends`, of the topic.
    fn offsets(&self, ends: bool) -> BTreeMap<Queue, i64> {
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        let offset = |id| {
            let stored = if ends {
                admin.max_offset(self.name, id).map(Some)
            } else {
                admin.query_offset(self.name, self.name, id)
            };
            (self.queue(id), stored.expect("the broker answers").unwrap_or(0))
        };
        (0..QUEUES).map(offset).collect()
    }

    /// Messages that nobody was given yet.
    fn unread(&self) -> i64 {
        let stored: i64 = self.offsets(true).values().sum();
        stored - i64::try_from(self.journal.distinct()).expect("a test is small")
    }

    /// Waits until each of two members owns four queues and was given something of each of them. Says
    /// how long it took.
    fn wait_shared(&self, members: &[Member; 2]) -> Duration {
        let since = now();
        let share = |member: &Member| {
            (
                member.owned(self.name),
                self.journal.queues_of(member.id(), since),
            )
        };
        wait_until(
            since,
            PATIENCE,
            || {
                members.iter().all(|member| {
                    let (owned, given) = share(member);
                    owned.len() == 4 && given.is_superset(&owned)
                }) && members[0]
                    .owned(self.name)
                    .is_disjoint(&members[1].owned(self.name))
            },
            || {
                format!(
                    "four queues each: {:#?}",
                    members.each_ref().map(|one| (share(one), one.talk()))
                )
            },
        )
    }

    /// Waits until `member` was given something of every queue after `since`. Says how long it took.
    fn wait_taken_over(&self, member: &Member, since: Instant) -> Duration {
        let given = || self.journal.queues_of(member.id(), since);
        wait_until(
            since,
            PATIENCE,
            || given().len() == QUEUES as usize,
            || {
                format!(
                    "messages of every queue, only of {:#?}; {:?}",
                    given(),
                    member.talk()
                )
            },
        )
    }

    fn wait_complete(&self, wanted: impl IntoIterator<Item = u64> + Clone) {
        let missing = || self.journal.missing(wanted.clone());
        let count = wanted.clone().into_iter().count();
        wait_until(
            now(),
            PATIENCE * 2,
            || self.journal.distinct() >= count && missing().is_empty(),
            || format!("everything, {} are missing", missing().len()),
        );
    }
}

/// A member that was killed: what it was given from these offsets on was not committed.
struct Victim {
    id: String,
    committed: BTreeMap<Queue, i64>,
}

impl Victim {
    /// Whether a delivery came to it and its commit did not come to the broker.
    fn has_lost(&self, one: &Delivery) -> bool {
        *one.member == *self.id
            && self
                .committed
                .get(&one.queue)
                .is_some_and(|offset| one.offset >= *offset)
    }
}

fn a_killed_member_is_replaced_by_the_other(bench: &Bench<'_>) {
    const STORED: u64 = 100_000;
    const UNREAD: i64 = 40_000;
    // What is read so slowly is settled so slowly; few at a time, so that a handler ends within the grace.
    let start = |id: &str| bench.member(id, 1_000, &["--concurrency", "8", "--batch", "1"]);

    let mut producer = Producer::new(bench.cluster.name_server(), bench.name).expect("the topic has a route");
    producer = producer.body_size(BODY);
    producer.fill(STORED).expect("messages are stored");
    let load = Load::start(bench.cluster.name_server(), bench.name, 200, BODY, STORED);

    let mut members = [start("member-0"), start("member-1")];
    let mut victims = Vec::new();
    for round in 0..3 {
        let shared = bench.wait_shared(&members);
        // Long enough for the commits that come every 5 s.
        thread::sleep(Duration::from_secs(5));
        let unread = bench.unread();
        assert!(unread >= UNREAD, "round {round}: only {unread} are unread");

        let [mut victim, survivor] = members;
        let killed_at = victim.kill();
        let committed = bench.offsets(false);
        let took = bench.wait_taken_over(&survivor, killed_at);
        assert!(took <= Duration::from_secs(3), "round {round}: {took:?}");

        let id = victim.id().to_owned();
        assert_eq!(victim.finish().code, None, "it was killed");
        victims.push(Victim { id, committed });
        println!("kill {round}: shared after {shared:.3?}, {unread} unread, taken over in {took:.3?}");
        members = [survivor, start(&format!("member-{}", round + 2))];
    }
    // One that leaves politely has fetched much that it has not begun, and nothing of that is repeated.
    bench.wait_shared(&members);
    let [mut leaver, survivor] = members;
    let told_at = leaver.terminate();
    let took = bench.wait_taken_over(&survivor, told_at);
    let ended = leaver.finish();
    assert_eq!(ended.code, Some(0), "{:?}", ended.talk);
    println!("leave with {} unread: taken over in {took:.3?}", bench.unread());
    assert!(took <= Duration::from_secs(1), "{took:?}");
    let members = [survivor, start("member-5")];
    bench.wait_shared(&members);
    let sent = load.stop();
    members.iter().for_each(Member::hurry);
    bench.wait_complete((0..STORED).chain(sent.numbers.iter().copied()));
    for mut member in members {
        member.terminate();
        let ended = member.finish();
        assert_eq!(ended.code, Some(0), "{:?}", ended.talk);
    }
    assert_eq!(
        bench.offsets(false),
        bench.offsets(true),
        "everything is committed"
    );

    let lost = |one: &Delivery| victims.iter().any(|victim| victim.has_lost(one));
    let uncommitted = bench.journal.all().iter().filter(|one| lost(one)).count();
    let mut repeats = 0;
    for (number, deliveries) in bench.journal.repeated() {
        repeats += deliveries.len() - 1;
        let excused = deliveries.iter().filter(|one| lost(one)).count();
        assert!(
            excused + 1 >= deliveries.len(),
            "message {number} was repeated for no reason: {deliveries:#?}"
        );
    }
    println!(
        "{} sent, {uncommitted} not committed when killed, {repeats} repeated",
        STORED as usize + sent.numbers.len()
    );
    assert!(repeats <= uncommitted);
}

fn a_member_that_leaves_is_replaced_without_repeats(bench: &Bench<'_>) {
    let load = Load::start(bench.cluster.name_server(), bench.name, 1_000, BODY, 0);
    let mut members = [bench.member("left-0", 0, &[]), bench.member("left-1", 0, &[])];
    for round in 0..3 {
        let shared = bench.wait_shared(&members);
        thread::sleep(Duration::from_secs(1));
        let [mut leaver, survivor] = members;
        let told_at = leaver.terminate();
        let took = bench.wait_taken_over(&survivor, told_at);
        assert!(took <= Duration::from_secs(1), "round {round}: {took:?}");
        let ended = leaver.finish();
        assert_eq!(ended.code, Some(0), "{:?}", ended.talk);
        println!("leave {round}: shared after {shared:.3?}, taken over in {took:.3?}");
        members = [survivor, bench.member(&format!("left-{}", round + 2), 0, &[])];
    }
    bench.wait_shared(&members);
    let sent = load.stop();
    bench.wait_complete(sent.numbers.iter().copied());
    for mut member in members {
        member.terminate();
        assert_eq!(member.finish().code, Some(0));
    }
    let repeated = bench.journal.repeated();
    println!(
        "{} sent at {:.0}/s, {} repeated",
        sent.numbers.len(),
        sent.rate(),
        repeated.len()
    );
    assert!(repeated.is_empty(), "{repeated:#?}");
    assert_eq!(bench.journal.len(), sent.numbers.len());
    assert_eq!(
        bench.offsets(false),
        bench.offsets(true),
        "everything is committed"
    );
}

fn a_restarted_group_is_given_only_what_is_new(bench: &Bench<'_>) {
    let all: BTreeSet<Queue> = (0..QUEUES).map(|id| bench.queue(id)).collect();
    let mut member = bench.member("restarted", 0, &[]);
    wait_until(
        now(),
        PATIENCE,
        || member.owned(bench.name) == all,
        || format!("every queue: {:?}", member.talk()),
    );
    thread::sleep(Duration::from_secs(10));
    assert_eq!(
        bench.journal.len(),
        0,
        "nothing comes again: {:#?}",
        bench.journal.all()
    );

    let mut producer = Producer::new(bench.cluster.name_server(), bench.name).expect("the topic has a route");
    let sent_at = now();
    producer.send("1000000:new").expect("the message is stored");
    let took = wait_until(
        sent_at,
        PATIENCE,
        || bench.journal.len() > 0,
        || "the new message".into(),
    );
    thread::sleep(Duration::from_secs(1));
    let numbers: Vec<u64> = bench.journal.all().iter().map(|one| one.number).collect();
    assert_eq!(numbers, [1_000_000], "it comes alone");
    println!("restart: silent for 10 s, the new message came in {took:.3?}");
    member.terminate();
    assert_eq!(member.finish().code, Some(0));
}
