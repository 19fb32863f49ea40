//! The other end as a pure machine: a small cluster of name servers and brokers in one loop.
//!
//! `BrokerState` takes [`event::BrokerEvent`]s and emits [`event::BrokerAction`]s. Like the consumer it reads no
//! clock and draws no randomness of its own, so it runs in a simulator, inside a user's test, or on real
//! sockets for clients in other languages. Faults are data ([`rule::Rule`], [`event::Control`]) and a run with
//! the same configuration, seed and events is the same run.
//!
//! It shares `wire`, `step`, `time` and `ids` with the consumer, and no decision.

pub mod config;
pub mod event;
pub mod rule;
