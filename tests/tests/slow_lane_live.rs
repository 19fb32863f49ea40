//! Rates, pauses and seeks on the real broker.

mod slow_lane;

use rocketmq_consumer_testing::rocketmq::{Cluster, LaunchError, Producer};
use slow_lane::{FIRST, QUEUES, TOPIC};

#[test]
fn a_consumer_is_slowed_down_paused_and_sent_elsewhere_on_the_real_broker() -> Result<(), LaunchError> {
    let cluster = Cluster::builder().start()?;
    cluster.create_topic(TOPIC, &[(0, QUEUES)])?;
    let produce = |count: usize| {
        for id in 0..QUEUES {
            let producer = Producer::new(cluster.name_server(), TOPIC).expect("the topic has a route");
            let share = count as u64 / u64::from(QUEUES);
            let stored = producer.only("broker-a", id).send_many(share);
            stored.expect("messages are stored");
        }
    };
    produce(FIRST);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads can be had");
    runtime.block_on(slow_lane::it_does_what_it_is_told(
        cluster.name_server(),
        "broker-a",
        async |count: usize| tokio::task::block_in_place(|| produce(count)),
    ));
    Ok(())
}
