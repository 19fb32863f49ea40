//! Java members and ours consume in order, in one group of the real Apache RocketMQ.
#![cfg(unix)]

#[path = "support/outage_tools.rs"]
mod outage_tools;
#[path = "support/processes/mod.rs"]
mod processes;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use outage_tools::Running;
use processes::{AGREE, Crowd, Delivery, Loads, Queue, now, wait_until};
use rocketmq_consumer_testing::rocketmq::{Cluster, Producer};

const TOPIC: &str = "Ordered";
/// Queues of the topic on broker-a and broker-b.
const QUEUES: [u32; 2] = [5, 4];
/// Messages a second, by so many producers.
const RATE: u32 = 500;
const PRODUCERS: u32 = 4;
/// How long the members work undisturbed after each change.
const REST: Duration = Duration::from_secs(2);
/// A queue comes to us so soon after its owner has ended as it should. Twice what is promised: the machine is busy.
const CLEAN: Duration = Duration::from_secs(4);
/// Brokers keep the lock of a member that was killed for a minute.
const KILLED: Duration = Duration::from_secs(65);

/// How long a run may take that ends by itself; one whose message comes back for ever does not.
const LIMIT: Duration = Duration::from_secs(60);

/// One cluster for both: the steps have figures of their own, so they run one after the other.
#[test]
fn queues_are_consumed_in_order() {
    let cluster = Cluster::builder()
        .brokers(2)
        .broker_heap("128m", "256m")
        .start()
        .expect("a cluster starts");
    or_09_a_message_that_always_fails_is_buried_once(&cluster);
    hand_overs_keep_the_order(&cluster);
}

fn or_09_a_message_that_always_fails_is_buried_once(cluster: &Cluster) {
    const NAME: &str = "Poisoned";
    cluster
        .create_topic(NAME, &[(0, 1)])
        .expect("a topic can be created");
    Producer::new(cluster.name_server(), NAME)
        .expect("the topic has a route")
        .send_many(10)
        .expect("messages are stored");
    let consume = |topic, more: &[&str]| {
        let base = ["consume", topic, "--from", "earliest", "-o", "json"];
        let args = [&base, more, &["-n", cluster.name_server()]].concat();
        Running::start(&args).wait(LIMIT)
    };
    let in_order = [
        "-g",
        NAME,
        "--orderly",
        "--max-reconsume",
        "1",
        "--suspend-time",
        "200",
        "--idle-exit",
        "8",
    ];
    let failing = ["--exec", "test \"$(cat)\" != 5:"];
    let ran = consume(NAME, &[&in_order[..], &failing].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let number = |body: &str| body.trim_end_matches(':').parse::<u32>().expect("a number");
    let given: Vec<(u32, i64)> = ran
        .lines()
        .iter()
        .map(|line| {
            let times = line["reconsume_times"].as_i64().expect("a number");
            (number(line["body"].as_str().expect("text")), times)
        })
        .collect();
    let mut want: Vec<(u32, i64)> = (0..10).map(|number| (number, 0)).collect();
    want.insert(6, (5, 1));
    assert_eq!(given, want, "the first try and one more, and nothing overtakes");

    let again = consume(NAME, &in_order);
    assert_eq!(
        (again.code, again.lines().len()),
        (Some(0), 0),
        "nothing circulates: {}",
        again.stdout
    );
    let grave = consume("%DLQ%Poisoned", &["-g", "Undertaker", "-e"]);
    let buried = grave.lines();
    let [dead] = &buried[..] else {
        panic!("one dead letter: {buried:?}; {}", grave.stderr)
    };
    assert_eq!(dead["body"], "5:");
    println!(
        "poisoned: delivered {given:?}; buried with {}",
        dead["properties"]
    );
}

fn hand_overs_keep_the_order(cluster: &Cluster) {
    let queues = [(0, QUEUES[0]), (1, QUEUES[1])];
    cluster
        .create_topic(TOPIC, &queues)
        .expect("a topic can be created");
    let loads = Loads::start(cluster.name_server(), TOPIC, RATE, PRODUCERS);
    let mut crowd = Crowd::new(cluster, TOPIC, &QUEUES).orderly();
    let mut killed = BTreeSet::new();
    crowd.java_joins("10.0.0.1", "java-1");
    crowd.java_joins("10.0.0.2", "java-2");
    let since = crowd.ours_joins("10.0.0.3@ours-1");
    crowd.agree("two Java members and ours", since);

    type Change = fn(&mut Crowd<'_>) -> Instant;
    let changes: [(&str, Change); 10] = [
        ("Java leaves", |crowd| crowd.java_leaves("10.0.0.1@java-1")),
        ("Java joins", |crowd| crowd.java_joins("10.0.0.4", "java-3")),
        ("ours leaves", |crowd| crowd.ours_leaves("10.0.0.3@ours-1")),
        ("ours joins", |crowd| crowd.ours_joins("10.0.0.1@ours-2")),
        ("Java leaves", |crowd| crowd.java_leaves("10.0.0.2@java-2")),
        ("Java joins", |crowd| crowd.java_joins("10.0.0.5", "java-4")),
        ("ours is killed", |crowd| crowd.ours_is_killed("10.0.0.1@ours-2")),
        ("ours joins", |crowd| crowd.ours_joins("10.0.0.6@ours-3")),
        ("Java is killed", |crowd| crowd.java_is_killed("10.0.0.4@java-3")),
        ("Java joins", |crowd| crowd.java_joins("10.0.0.7", "java-5")),
    ];
    for (what, change) in changes {
        thread::sleep(REST);
        let members: BTreeSet<String> = crowd.ours().into_iter().chain(crowd.java()).collect();
        let had = crowd
            .ours()
            .iter()
            .flat_map(|id| crowd.owned_by_ours(id))
            .collect();
        let since = change(&mut crowd);
        let ended = now().duration_since(since);
        if what.ends_with("killed") {
            let left = crowd.ours().into_iter().chain(crowd.java()).collect();
            killed.extend(members.difference(&left).cloned());
        }
        if what == "Java leaves" {
            comes_to_ours(&crowd, &had, since, ended);
        }
        let limit = if what == "Java is killed" {
            KILLED
        } else {
            KILLED + AGREE
        };
        crowd.agree_within(what, since, limit);
    }

    let sent = loads.stop();
    crowd.nothing_is_lost(&sent);
    crowd.everybody_leaves();
    nothing_was_overtaken(&crowd.journal().all(), &killed);
    // A machine that builds something beside may not come to more.
    assert!(
        sent.rate() > f64::from(RATE) * 0.75,
        "the group was to be under load"
    );
}

/// Waits until our only member was given something of a queue that it did not have before, soon after the old
/// owner's process ended, which was so long after it was told.
fn comes_to_ours(crowd: &Crowd<'_>, had: &BTreeSet<Queue>, since: Instant, ended: Duration) {
    let ours = crowd.ours();
    let [id] = &ours[..] else {
        panic!("one of ours: {ours:?}")
    };
    let gained = || -> BTreeSet<Queue> {
        let given = crowd.journal().queues_of(id, since);
        given.difference(had).cloned().collect()
    };
    let took = wait_until(
        since,
        ended + CLEAN,
        || !gained().is_empty(),
        || {
            format!(
                "a queue of the one that left; we own {:?}",
                crowd.owned_by_ours(id)
            )
        },
    );
    println!(
        "a queue came to us {took:.3?} after Java was told to leave; its process ended after {ended:.3?}"
    );
}

/// No offset of a queue was delivered below one that another member had finished. Java's members do not commit the
/// message that is at work when a queue is taken from them, so its next owner is given that one again; ours do. A
/// member that was killed takes the commits of its last seconds with it, so what it had is excused.
fn nothing_was_overtaken(deliveries: &[Delivery], killed: &BTreeSet<String>) {
    let mut finished: BTreeMap<&Queue, BTreeMap<&str, i64>> = BTreeMap::new();
    let (mut wrong, mut excused, mut again, mut javas) = (Vec::new(), 0, 0, 0);
    for one in deliveries {
        let members = finished.entry(&one.queue).or_default();
        let not_new = members.iter().filter(|(_, highest)| **highest >= one.offset);
        for (member, highest) in not_new {
            if killed.contains(*member) {
                excused += 1;
            } else if is_java(member) && *highest == one.offset {
                again += 1;
            } else if is_java(member) && is_java(&one.member) {
                javas += 1;
            } else {
                wrong.push(format!("{highest} by {member}, then {one:?}"));
            }
        }
        let highest = members.entry(&one.member).or_insert(one.offset);
        *highest = one.offset.max(*highest);
    }
    println!(
        "{} deliveries of {} queues; repeated after a kill {excused}, at work when Java was told {again}, inverted by \
         Java among themselves {javas}",
        deliveries.len(),
        finished.len()
    );
    assert!(
        wrong.is_empty(),
        "{} inversions: {:#?}",
        wrong.len(),
        wrong.get(..20).unwrap_or(&wrong)
    );
}

fn is_java(member: &str) -> bool {
    member.contains("java")
}
