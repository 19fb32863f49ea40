//! Failed messages whose broker does not take them back, on the real Apache RocketMQ: copies are produced to
//! another broker, with the fate that was asked for.
#![cfg(unix)]

mod support;

use rocketmq_consumer_testing::rocketmq::{Cluster, Producer};
use serde_json::Value;

/// Message 0 is to be buried, message 1 to come again, message 2 is good.
const COMMAND: &str = "case $ROCKETMQ_OFFSET.$ROCKETMQ_RECONSUME_TIMES in 0.0) exit 65;; 1.0) exit 75;; esac";

#[test]
fn a_broker_that_takes_nothing_back_is_replaced_by_another_one() {
    let cluster = Cluster::builder()
        .brokers(2)
        .broker_config("messageDelayLevel", "1s 1s 1s 1s")
        .start()
        .expect("a cluster starts");
    cluster
        .create_topic("Refused", &[(0, 1), (1, 1)])
        .expect("a topic can be created");
    let producer = Producer::new(cluster.name_server(), "Refused").expect("the topic has a route");
    let stored = producer.only("broker-a", 0).send_many(3);
    stored.expect("messages are stored");
    // From now on it can be read only: send backs are refused with code 16.
    let mut admin = cluster.broker(0).admin().expect("it can be asked");
    admin
        .update_broker_config(&[("brokerPermission", "4")])
        .expect("a setting takes");
    let ran = support::run([
        "consume",
        "Refused",
        "-g",
        "refused",
        "--from",
        "earliest",
        "-n",
        cluster.name_server(),
        "--exec",
        COMMAND,
        "-o",
        "none",
        "-c",
        "4",
        "--idle-exit",
        "60",
        "--events",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let events = ran
        .stderr
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut retries: Vec<(i64, i64, String)> = events
        .filter(|event| event["event"] == "retry")
        .map(|event| {
            let number = |key: &str| event[key].as_i64().expect("a number");
            let path = event["path"].as_str().expect("a word").to_owned();
            (number("offset"), number("level"), path)
        })
        .collect();
    retries.sort();
    let produced = |offset, level| (offset, level, "produced".to_owned());
    assert_eq!(retries, [produced(0, -1), produced(1, 3)], "{}", ran.stderr);
    let mut other = cluster.broker(1).admin().expect("it can be asked");
    let buried = other
        .max_offset("%DLQ%refused", 0)
        .expect("there is such a topic");
    assert_eq!(buried, 1, "and it has been retried, or four would not have come");
}
