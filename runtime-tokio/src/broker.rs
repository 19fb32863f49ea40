//! A broker in this process: a small cluster on real sockets, for tests and for trying things out.
//!
//! ```no_run
//! use rocketmq_consumer_tokio::broker::{ClusterConfig, EmbeddedBroker};
//! use rocketmq_consumer_tokio::{Consumer, Message, Outcome};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(1).topic("orders", 4)).await?;
//! let consumer = Consumer::builder("billing")
//!     .name_server(broker.name_server())
//!     .subscribe("orders", "*")
//!     .start(|_: Message| async { Ok::<_, std::io::Error>(Outcome::Done) })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! What it is and what it does not model, `rocketmq_consumer::broker` says, re-exported here.

pub use rocketmq_consumer::broker::*;

use crate::tokio_runtime::TokioRuntime;

/// A running cluster on tokio.
pub type EmbeddedBroker = rocketmq_consumer::broker::EmbeddedBroker<TokioRuntime>;
