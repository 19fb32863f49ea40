//! Rates, pauses and seeks over TCP, on the embedded broker.

mod slow_lane;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{MessageQueue, QueueId};
use rocketmq_consumer_tokio::broker::{ClusterConfig, Control, EmbeddedBroker, NewMessage};
use slow_lane::{FIRST, QUEUES, TOPIC};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_is_slowed_down_paused_and_sent_elsewhere() {
    let config = ClusterConfig::with_brokers(1).topic(TOPIC, QUEUES);
    let cluster = EmbeddedBroker::start(config).await.expect("free ports");
    let broker = cluster.config().brokers[0].name.clone();
    let produce = async |count: usize| {
        for number in 0..count {
            let queue = MessageQueue {
                topic: TOPIC.into(),
                broker: broker.clone(),
                id: QueueId(i32::try_from(number % QUEUES as usize).expect("few")),
            };
            let message = NewMessage::new(Bytes::from(number.to_string()));
            let stored = cluster.control(Control::Append { queue, message }).await;
            stored.expect("the broker runs");
        }
    };
    produce(FIRST).await;
    slow_lane::it_does_what_it_is_told(&cluster.name_server(), broker.as_str(), produce).await;
}
