//! Java members and ours share a group of the real Apache RocketMQ.
#![cfg(unix)]

#[path = "support/processes/mod.rs"]
mod processes;
mod support;

use std::time::Instant;

use processes::{Crowd, Loads};
use rocketmq_consumer_testing::rocketmq::Cluster;

const TOPIC: &str = "Mixed";
/// Queues of the topic on broker-a and broker-b.
const QUEUES: [u32; 2] = [7, 4];
/// Messages a second, by so many producers.
const RATE: u32 = 1_000;
const PRODUCERS: u32 = 8;

/// The address part of client ids is the trap: `10.0.0.10@…` sorts before `10.0.0.1@…`.
#[test]
fn java_and_ours_agree_on_who_owns_what() {
    let cluster = Cluster::builder().brokers(2).start().expect("a cluster starts");
    let queues = [(0, QUEUES[0]), (1, QUEUES[1])];
    cluster
        .create_topic(TOPIC, &queues)
        .expect("a topic can be created");
    let loads = Loads::start(cluster.name_server(), TOPIC, RATE, PRODUCERS);

    let mut crowd = Crowd::new(&cluster, TOPIC, &QUEUES);
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

    let sent = loads.stop();
    crowd.nothing_is_lost(&sent);
    crowd.everybody_leaves();
    // A machine that builds something beside may not come to more.
    assert!(
        sent.rate() > f64::from(RATE) * 0.75,
        "the group was to be under load"
    );
}
