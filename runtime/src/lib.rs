//! An Apache RocketMQ push consumer: what is the same on every async runtime.
//!
//! The protocol lives in `rocketmq-consumer-core`, a pure state machine. This crate gives it sockets,
//! a clock and your handlers: a [`ConsumerBuilder`], *lanes* that run handlers, a
//! [`DeliveryStream`] for those who would rather ask, and one driver task per [`Client`]. A runtime
//! is a small implementation of [`Runtime`]; `rocketmq-consumer-tokio` is one, `rocketmq-consumer-async-std` another,
//! and a chapter of this documentation writes a third: `bring_your_own_runtime`.
//!
//! ```text
//!            ┌────────────────────── driver: one task per client ─────────────────────┐
//!  sockets ──┤ frames ─Event─► ConsumerState ─Action─► frames, runs, notices, answers ├──► you
//!            └───────────▲──────────────────────────────────────┬─────────────────────┘
//!                      inbox ◄──── reports ──── lanes, threads, stream ◄┘ runs
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::wildcard_enum_match_arm,
        reason = "a test names what it expects and fails at anything else"
    )
)]

mod allocate;
mod answer;
mod blocking;
#[cfg(feature = "broker")]
pub mod broker;
mod builder;
mod client;
mod client_id;
mod consumer;
mod context;
mod desk;
mod driver;
mod error;
mod handler;
mod lanes;
#[cfg(feature = "broker")]
mod listening;
mod machine;
mod notices;
mod opener;
mod outcome;
mod record;
mod registry;
mod rehearsal;
mod runs;
mod runtime;
mod store;
mod stream;
mod sync;
#[cfg(test)]
mod testing;
mod timer;
mod typed;
mod writer;

pub use allocate::Allocate;
pub use answer::Answer;
pub use builder::ConsumerBuilder;
pub use client::{Client, ClientBuilder, Request};
pub use consumer::Consumer;
pub use context::{Cancelled, Context};
pub use error::{BoxError, ChangeError, Closed, FilterRefusal, ReadyError, StartError, SubscribeError};
pub use notices::Notices;
pub use outcome::{FirstDone, IntoBatchOutcome, IntoOutcome};
pub use record::{RecordTo, Recorder};
pub use rehearsal::Rehearsal;
pub use runtime::Runtime;
pub use store::{FileStore, MemoryStore, OpenStore, Store};
pub use stream::{Delivery, DeliveryStream};

pub use rocketmq_consumer_core::action::{CallAnswer, CallError, Former, RefusalReason, ShutdownReport};
pub use rocketmq_consumer_core::allocate::{AllocateStrategy, ListedQueue, Otherwise, RoomRule};
pub use rocketmq_consumer_core::config::{
    ClientConfig, ConfigError, ConsumeMode, DamagedStore, FilterExpression, GroupConfig, IllegalOffsetPolicy,
    MessageModel, OrderBy, SendBackFallback, StartAt, UndecodablePolicy,
};
pub use rocketmq_consumer_core::event::{FlowScope, Found, SeekTo, StoreError, Target};
pub use rocketmq_consumer_core::ids::{
    BrokerName, ClientId, ConsumerGroup, MessageQueue, PeerAddr, QueueId, QueueOffset, StoreKey, StoreKind,
    Topic,
};
pub use rocketmq_consumer_core::message::{Draft, DraftError, Message, OrderlyOutcome, Outcome};
pub use rocketmq_consumer_core::notice::{Notice, NoticeKind};
pub use rocketmq_consumer_core::rate::Rate;
pub use rocketmq_consumer_core::status::{LinkTrouble, Status};
pub use rocketmq_consumer_core::time::{Instant, WallTime};

/// The machine behind this crate, for those who want its whole vocabulary.
pub use rocketmq_consumer_core as core;

/// A chapter.
#[allow(rustdoc::invalid_rust_codeblocks, reason = "it quotes a file piece by piece")]
#[cfg(all(doc, not(doctest)))]
#[doc = include_str!("../docs/bring-your-own-runtime.md")]
pub mod bring_your_own_runtime {}
