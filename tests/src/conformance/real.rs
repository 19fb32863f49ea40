use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

use rocketmq_consumer::{BrokerName, PeerAddr};

use super::cluster::{Cluster, body};
use super::sync::lock;
use crate::rocketmq::{self, Producer};

/// Apache RocketMQ itself, shared by all cases that run at the same time.
#[derive(Debug)]
pub struct Real {
    cluster: Arc<rocketmq::Cluster>,
    broker: PeerAddr,
}

/// Ends with the last case that has it, so that nothing is left when the process ends.
static SHARED: Mutex<Weak<rocketmq::Cluster>> = Mutex::new(Weak::new());

impl Cluster for Real {
    fn start() -> Self {
        let mut shared = lock(&SHARED);
        let cluster = shared.upgrade().unwrap_or_else(|| {
            let builder =
                rocketmq::Cluster::builder().broker_config("messageDelayLevel", "1s 1s 1s 1s 1s 1s 1s 1s");
            Arc::new(builder.start().expect("a JDK and Maven are there"))
        });
        *shared = Arc::downgrade(&cluster);
        let broker = cluster.broker(0).address().parse().expect("an address");
        Self { cluster, broker }
    }

    fn name_server(&self) -> SocketAddr {
        self.cluster.name_server().parse().expect("an IP address")
    }

    fn broker_name(&self) -> BrokerName {
        "broker-a".into()
    }

    fn broker(&self) -> PeerAddr {
        self.broker.clone()
    }

    fn create_topic(&self, topic: &str, queues: u32) {
        let created = self.cluster.create_topic(topic, &[(0, queues)]);
        created.expect("the broker runs");
    }

    fn send(&self, topic: &str, queues: u32, numbers: Range<u64>, size: usize) {
        let mut producers: Vec<_> = (0..queues)
            .map(|id| {
                let producer = Producer::new(self.cluster.name_server(), topic);
                producer.expect("the topic has a route").only("broker-a", id)
            })
            .collect();
        for number in numbers {
            let queue = usize::try_from(number % u64::from(queues)).expect("queues are few");
            if let Some(producer) = producers.get_mut(queue) {
                producer.send(body(number, size)).expect("the broker stores it");
            }
        }
    }
}
