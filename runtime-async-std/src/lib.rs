//! An Apache RocketMQ push consumer on async-std.
//!
//! ```no_run
//! use std::time::Duration;
//! use rocketmq_consumer_async_std::{Consumer, Message, Outcome};
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
//! Everything but the runtime is the crate `rocketmq_consumer`, re-exported here: see there for handlers, batches,
//! streams and settings. Tasks run on async-std's executor, whoever starts a consumer; handlers that block go to its
//! blocking threads.
//!
//! With the feature `broker`, `broker::EmbeddedBroker` is a small cluster inside the process: for tests of
//! programs that use this crate.
//!
//! The authors of async-std recommend smol to new programs. Sockets and timers here are those of `async-io`, on which
//! both stand, and one file names async-std, in two places: `async_std_runtime.rs`.
//!
//! The log goes to `tracing` under the target `rocketmq`; it is seen once a subscriber is installed.
#![forbid(unsafe_code)]

mod async_std_runtime;
#[cfg(feature = "broker")]
pub mod broker;
#[cfg(feature = "broker")]
mod listening;
mod sleep;
mod socket;

pub use async_std_runtime::AsyncStdRuntime;
pub use rocketmq_consumer::*;
pub use sleep::Sleep;
pub use socket::AsyncStdSocket;

/// A consumer group that runs on async-std.
pub type Consumer = rocketmq_consumer::Consumer<AsyncStdRuntime>;
/// Settings of a [`Consumer`], and the ways to start it.
pub type ConsumerBuilder = rocketmq_consumer::ConsumerBuilder<AsyncStdRuntime>;
/// The messages of a group as a stream.
pub type DeliveryStream = rocketmq_consumer::DeliveryStream<AsyncStdRuntime>;
/// The messages of a group as a stream, those of a queue one after another.
pub type OrderlyStream = rocketmq_consumer::DeliveryStream<AsyncStdRuntime, OrderlyOutcome>;
/// A client instance that several groups share.
pub type Client = rocketmq_consumer::Client<AsyncStdRuntime>;
/// Settings of a [`Client`].
pub type ClientBuilder = rocketmq_consumer::ClientBuilder<AsyncStdRuntime>;

/// Its code is compiled like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
