//! An Apache RocketMQ push consumer on tokio.
//!
//! ```no_run
//! use std::time::Duration;
//! use rocketmq_consumer_tokio::{Consumer, Message, Outcome};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let consumer = Consumer::builder("billing")
//!     .name_server("127.0.0.1:9876")
//!     .subscribe("orders", "paid || refund")
//!     .concurrency(32)
//!     .start(|message: Message| async move {
//!         println!("from {}", message.topic());
//!         Ok::<_, std::io::Error>(Outcome::Done)
//!     })
//!     .await?;
//! consumer.ready().await?;
//! let report = consumer.shutdown(Duration::from_secs(30)).await;
//! # Ok(())
//! # }
//! ```
//!
//! Where the messages of a queue must be handled one after another, the group is started so:
//!
//! ```no_run
//! # use rocketmq_consumer_tokio::{Consumer, Message, OrderlyOutcome};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let consumer = Consumer::builder("shipping")
//!     .name_server("127.0.0.1:9876")
//!     .subscribe("orders", "*")
//!     .max_reconsume(8)
//!     .start_orderly(|message: Message| async move {
//!         println!("{} after its predecessors", message.queue_offset());
//!         Ok::<_, std::io::Error>(OrderlyOutcome::Commit)
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! `examples/` has a short program for each way: `consume`, `batch`, `orderly`, `stream`, `several_groups`, and
//! `shutdown` with notices, status and a changing pace; `axum` beside a web server, `database` with a transaction for each
//! batch, `testing` with a handler's own tests, which need no broker. A program of its own needs tokio's features `macros` and
//! `rt-multi-thread`, and `signal` for Ctrl-C.
//!
//! The log goes to `tracing` under the target `rocketmq`; it is seen once a subscriber is installed.
//! Warnings ask for attention, `debug` adds commits.
//!
//! With the feature `broker`, `broker::EmbeddedBroker` is a small cluster inside the process: for tests of
//! programs that use this crate.
//!
//! Everything but the runtime is the crate `rocketmq_consumer`, re-exported here: see there for
//! handlers, batches, streams and settings. Start consumers inside a tokio runtime with its I/O and
//! time drivers enabled, or give one by [`TokioRuntime::on`].
#![forbid(unsafe_code)]

/// The page of the crate: its program is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

#[cfg(feature = "broker")]
pub mod broker;
#[cfg(feature = "broker")]
mod listening;
mod socket;
mod tokio_runtime;

pub use rocketmq_consumer::*;
pub use socket::TokioSocket;
pub use tokio_runtime::TokioRuntime;

/// A consumer group that runs on tokio.
pub type Consumer = rocketmq_consumer::Consumer<TokioRuntime>;
/// Settings of a [`Consumer`], and the ways to start it.
pub type ConsumerBuilder = rocketmq_consumer::ConsumerBuilder<TokioRuntime>;
/// The messages of a group as a stream.
pub type DeliveryStream = rocketmq_consumer::DeliveryStream<TokioRuntime>;
/// The messages of a group as a stream, those of a queue one after another.
pub type OrderlyStream = rocketmq_consumer::DeliveryStream<TokioRuntime, OrderlyOutcome>;
/// A client instance that several groups share.
pub type Client = rocketmq_consumer::Client<TokioRuntime>;
/// Settings of a [`Client`].
pub type ClientBuilder = rocketmq_consumer::ClientBuilder<TokioRuntime>;
