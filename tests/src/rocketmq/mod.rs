//! The real Apache RocketMQ and its Java clients, as fixtures of a test. Blocking; no async runtime needed.
//!
//! ```no_run
//! use rocketmq_consumer_testing::rocketmq::{Cluster, Producer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::builder().brokers(2).start()?;
//! cluster.create_topic("orders", &[(0, 7), (1, 4)])?;
//! let stored = Producer::new(cluster.name_server(), "orders")?.send_many(100)?;
//! assert_eq!(stored.len(), 100);
//! // ... start the consumer under test at cluster.name_server() ...
//! cluster.broker(1).kill()?;
//! cluster.broker(1).restart()?;
//! # Ok(())
//! # }
//! ```
//!
//! Needs `java` (17 or newer) and `mvn` on the path, or `JAVA_HOME`. The first start in a target directory
//! builds a small Maven project (its jars come from Maven Central); later ones reuse it, offline.
//!
//! Nothing outlives the test: `Drop` ends the processes; and because each JVM watches a pipe that only the
//! test process holds open, they also end when that is killed or aborts.

mod admin;
mod class_path;
mod clock;
mod cluster;
mod cluster_builder;
mod error;
mod folder;
mod java_consumer;
mod java_producer;
mod jvm;
mod ports;
mod producer;
mod remoting;
mod server;
mod version;

pub use admin::{
    AdminClient, BrokerAddresses, BrokerQueues, ConsumerConnection, GroupConfig, TopicConfig, TopicRoute,
};
pub use cluster::Cluster;
pub use cluster_builder::{ClusterBuilder, Replication};
pub use error::{AdminError, LaunchError};
pub use java_consumer::{ConsumerSummary, JavaConsumer, JavaConsumerBuilder, Received};
pub use java_producer::{JavaProducer, JavaProducerBuilder, ProducerSummary};
pub use producer::{Acknowledged, Producer, Run};
pub use remoting::Reply;
pub use server::Server;
pub use version::{NotAVersion, Version};
