//! A hundred members come and go, Java's and ours, under load, on two brokers of the real Apache RocketMQ.
#![cfg(unix)]

#[path = "support/processes/mod.rs"]
mod processes;
mod support;

use std::thread;
use std::time::Duration;

use processes::{Crowd, Loads, now};
use rocketmq_consumer_testing::rocketmq::Cluster;

const TOPIC: &str = "Churn";
/// Queues of the topic on broker-a and broker-b.
const QUEUES: [u32; 2] = [7, 4];
/// Messages a second, by so many producers.
const RATE: u32 = 500;
const PRODUCERS: u32 = 4;
/// Joins and leaves.
const CHANGES: u32 = 100;
/// After so many the members are left alone until they agree; between them nobody waits for anybody.
const ROUND: u32 = 20;
/// From one change to the next: less than the members take to agree.
const PAUSE: Duration = Duration::from_millis(300);
/// One of so many changes is a Java member's: a JVM takes seconds to start.
const JAVA: u32 = 6;

/// Nobody waits for agreement, so most changes meet a group that is still busy with the ones before.
#[test]
fn a_hundred_joins_and_leaves_lose_nothing() {
    let cluster = Cluster::builder()
        .brokers(2)
        .broker_heap("128m", "256m")
        .start()
        .expect("a cluster starts");
    let queues = [(0, QUEUES[0]), (1, QUEUES[1])];
    cluster
        .create_topic(TOPIC, &queues)
        .expect("a topic can be created");
    let loads = Loads::start(cluster.name_server(), TOPIC, RATE, PRODUCERS);
    let mut crowd = Crowd::new(&cluster, TOPIC, &QUEUES);
    crowd.java_joins("10.0.0.10", "java-0");
    crowd.ours_joins("10.0.0.1@ours-0");
    let mut since = crowd.ours_joins("10.0.0.100@ours-1");
    crowd.agree("the first three", since);

    let (begun, mut course) = (now(), Course::default());
    for change in 1..=CHANGES {
        thread::sleep(PAUSE);
        course.step(&mut crowd, change);
        since = now();
        if change.is_multiple_of(ROUND) {
            crowd.agree(&format!("{change} changes"), since);
        }
    }
    println!("{course:?} in {:?}", begun.elapsed());
    assert!(
        [course.joined, course.left, course.killed, course.java]
            .iter()
            .all(|count| *count >= 10),
        "every kind of change happens: {course:?}"
    );
    let sent = loads.stop();
    crowd.nothing_is_lost(&sent);
    crowd.everybody_leaves();
    assert!(
        sent.rate() > f64::from(RATE) * 0.75,
        "the group was to be under load"
    );
}

/// What has happened so far, and from that what happens next: the same in every run.
#[derive(Debug, Default)]
struct Course {
    joined: u32,
    left: u32,
    killed: u32,
    /// Of all of these.
    java: u32,
}

impl Course {
    fn step(&mut self, crowd: &mut Crowd<'_>, change: u32) {
        if change.is_multiple_of(JAVA) {
            self.java += 1;
            return self.java_step(crowd, change);
        }
        let ours = crowd.ours();
        // From two to five of ours, up and down; who goes is not always who came last.
        let joins = match ours.len() {
            ..=2 => true,
            5.. => false,
            _ => (change * 7).is_multiple_of(3),
        };
        let one = || &ours[change as usize * 5 % ours.len()];
        if joins {
            self.joined += 1;
            crowd.ours_joins(&format!("{}@ours-{change}", address(change)));
        } else if change.is_multiple_of(2) {
            self.left += 1;
            crowd.ours_leaves(one());
        } else {
            self.killed += 1;
            crowd.ours_is_killed(one());
        }
    }

    /// A second one comes and one of the two goes, in turn: one is there all the time.
    fn java_step(&mut self, crowd: &mut Crowd<'_>, change: u32) {
        let java = crowd.java();
        if let [_] = java.as_slice() {
            self.joined += 1;
            crowd.java_joins(address(change), &format!("java-{change}"));
        } else if self.java.is_multiple_of(4) {
            self.killed += 1;
            crowd.java_is_killed(&java[change as usize / JAVA as usize % java.len()]);
        } else {
            self.left += 1;
            crowd.java_leaves(&java[change as usize / JAVA as usize % java.len()]);
        }
    }
}

/// The first part of client ids, whose order is a trap: `10.0.0.10@…` sorts before `10.0.0.1@…`.
fn address(change: u32) -> &'static str {
    ["10.0.0.1", "10.0.0.10", "9.0.0.1", "10.0.0.2", "10.0.0.100"][change as usize % 5]
}
