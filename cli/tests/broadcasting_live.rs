//! `consume --model broadcasting` against the real Apache RocketMQ, and after its Java client.
#![cfg(unix)]

#[path = "support/broadcasting.rs"]
mod broadcasting;
mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use broadcasting::{Broadcast, got};
use rocketmq_consumer_testing::rocketmq::{Cluster, JavaConsumer};
use support::side_by_side;

const TOPICS: [&str; 4] = ["All", "Damaged", "Second", "Java"];

#[test]
fn the_real_broker_agrees() {
    let cluster = Cluster::builder().brokers(1).start().expect("a cluster starts");
    for topic in TOPICS {
        cluster
            .create_topic(topic, &[(0, 3)])
            .expect("a topic can be created");
    }
    let bench = Broadcast::new(cluster.name_server());
    let steps: [fn(&Broadcast); 3] = [
        |bench| bench.every_member_gets_all_and_over_a_restart_nothing_twice("All"),
        |bench| bench.a_damaged_file_is_survived_from_its_backup("Damaged"),
        |bench| bench.a_second_process_is_refused_until_the_first_has_ended("Second"),
    ];
    side_by_side(&bench, &steps);
    a_member_goes_on_where_a_java_consumer_has_ended(&cluster, &bench);
}

fn a_member_goes_on_where_a_java_consumer_has_ended(cluster: &Cluster, bench: &Broadcast) {
    bench.produce("Java", 0..30);
    let dir = support::arg(bench.dir());
    let mut java = JavaConsumer::builder(cluster.name_server(), "Java")
        .subscribe("Java", "*")
        .broadcasting()
        .from_first()
        .client_ip("10.9.8.7")
        .instance("DEFAULT")
        .jvm_option(format!("-Drocketmq.client.localOffsetStoreDir={dir}"))
        .start()
        .expect("a Java consumer starts");
    let seen = java
        .take(30, Duration::from_secs(60))
        .expect("it prints what it should");
    assert_eq!(seen.len(), 30);
    let id = java.client_id().to_owned();
    let file = bench.dir().join(&id).join("Java").join("offsets.json");
    // It prints a message before the offset moves, and stores the offset every five seconds: who is stopped at
    // once may store one that lies before what was printed.
    for _ in 0..150 {
        if fs::read_to_string(&file).is_ok_and(|text| finished(&text) == 30) {
            break;
        }
        thread::sleep(Duration::from_millis(200));
    }
    java.stop().expect("it stops");
    let written = fs::read_to_string(&file).expect("it has stored its offsets");
    assert!(written.contains("offsetTable"), "{written}");
    assert_eq!(finished(&written), 30, "{written}");

    bench.produce("Java", 30..42);
    assert_eq!(got(&bench.consume("Java", &id, &[])), (30..42).collect());
    // What it wrote is the backup of what is written here.
    let backup = fs::read_to_string(file.with_extension("json.bak")).expect("the former content");
    assert_eq!(backup, written);
    assert_eq!(got(&bench.consume("Java", &id, &[])), [].into());
}

/// How many messages lie below the offsets of a file of Java's, whose queues begin at 0. Its keys are objects, so it is
/// no JSON.
fn finished(text: &str) -> u64 {
    let numbers = text.split("}:").skip(1);
    let numbers = numbers.map(|rest| rest.trim_start().split(|c: char| !c.is_ascii_digit()).next());
    numbers.filter_map(|number| number?.parse::<u64>().ok()).sum()
}
