use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use rocketmq_consumer::{BrokerName, MessageQueue, PeerAddr, QueueId, Topic};
use rocketmq_consumer_tokio::broker::{
    ClusterConfig, Control, EmbeddedBroker, NewMessage, Settings, TopicConfig,
};

use super::cluster::{Cluster, body};

/// The embedded broker, on a small tokio runtime of its own. Its delay levels are 100 ms each, so that what failed
/// comes again soon.
#[derive(Debug)]
pub struct Embedded {
    broker: Arc<EmbeddedBroker>,
    tokio: tokio::runtime::Runtime,
}

impl Embedded {
    /// Waits for work that the broker's runtime does. By a channel: this thread may belong to another runtime of
    /// tokio, which may not be blocked by means of tokio.
    fn wait_for<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (reply, answer) = mpsc::sync_channel(1);
        self.tokio.spawn(async move {
            let _gone = reply.send(work.await);
        });
        answer.recv().expect("the embedded broker does not panic")
    }

    fn control(&self, controls: Vec<Control>) {
        let broker = Arc::clone(&self.broker);
        self.wait_for(async move {
            for control in controls {
                broker.control(control).await.expect("the cluster runs");
            }
        });
    }
}

impl Cluster for Embedded {
    fn start() -> Self {
        let mut tokio = tokio::runtime::Builder::new_multi_thread();
        let tokio = tokio.worker_threads(1).enable_all().build();
        let tokio = tokio.expect("threads can be had");
        let config = ClusterConfig {
            settings: Settings {
                delay_levels: vec![Duration::from_millis(100); 18],
                ..Settings::default()
            },
            ..ClusterConfig::with_brokers(1)
        };
        let (reply, answer) = mpsc::sync_channel(1);
        tokio.spawn(async move {
            let _gone = reply.send(EmbeddedBroker::start(config).await);
        });
        let broker = answer.recv().expect("the embedded broker does not panic");
        Self {
            broker: Arc::new(broker.expect("ports are free")),
            tokio,
        }
    }

    fn name_server(&self) -> SocketAddr {
        let addr = self.broker.name_server();
        addr.parse().expect("one server, by its IP address")
    }

    fn broker_name(&self) -> BrokerName {
        let broker = self.broker.config().brokers.first();
        broker.expect("there is one").name.clone()
    }

    fn broker(&self) -> PeerAddr {
        let broker = self.broker.config().brokers.first();
        let replicas = &broker.expect("there is one").replicas;
        replicas.get(&0).expect("it has a master").clone()
    }

    fn create_topic(&self, topic: &str, queues: u32) {
        self.control(vec![Control::PutTopic(TopicConfig::new(topic.into(), queues))]);
    }

    fn send(&self, topic: &str, queues: u32, numbers: Range<u64>, size: usize) {
        let topic: Topic = topic.into();
        let broker = self.broker_name();
        let append = |number: u64| Control::Append {
            queue: MessageQueue {
                topic: topic.clone(),
                broker: broker.clone(),
                id: QueueId(i32::try_from(number % u64::from(queues)).expect("queues are few")),
            },
            message: NewMessage::new(body(number, size)),
        };
        self.control(numbers.map(append).collect());
    }
}
