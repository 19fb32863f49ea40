//! A real cluster to try things on: `cluster [<brokers> [<topic> <queues> [<messages> [<body bytes>]]]]`.
//!
//! Starts it, creates the topic with so many queues on each broker, fills it, prints what there is, and ends
//! everything when standard input closes.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::error::Error;
use std::io::Read;
use std::time::Instant;

use rocketmq_consumer_testing::rocketmq::{Cluster, Producer};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let brokers = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let start = Instant::now();
    let cluster = Cluster::builder()
        .brokers(brokers)
        .broker_heap("512m", "1g")
        .start()?;
    println!(
        "name server {} ({:.1} s)",
        cluster.name_server(),
        start.elapsed().as_secs_f64()
    );
    for broker in cluster.brokers() {
        println!("{} {}", broker.name(), broker.address());
    }
    if let (Some(topic), Some(queues)) = (arguments.next(), arguments.next()) {
        let queues: u32 = queues.parse()?;
        let all: Vec<(usize, u32)> = (0..brokers).map(|broker| (broker, queues)).collect();
        cluster.create_topic(&topic, &all)?;
        let messages = arguments.next().map_or(Ok(0), |text| text.parse())?;
        let bytes = arguments.next().map_or(Ok(128), |text| text.parse())?;
        let start = Instant::now();
        Producer::new(cluster.name_server(), &topic)?
            .body_size(bytes)
            .fill(messages)?;
        println!(
            "{topic}: {messages} messages of {bytes} bytes ({:.1} s)",
            start.elapsed().as_secs_f64()
        );
    }
    println!(
        "stores and logs in {}; close standard input to end",
        cluster.folder().display()
    );
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
