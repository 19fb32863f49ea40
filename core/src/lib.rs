//! The whole protocol of an Apache RocketMQ push consumer as a pure state machine.
//!
//! Events go in with the time they happened, actions come out as data. Nothing in this crate does
//! I/O, reads a clock or draws randomness; `README.md` and `ARCHITECTURE.md` of the project tell how
//! the rooms fit together.
#![cfg_attr(
    doc,
    doc = "",
    doc = "How to give it sockets and a clock: [`drive_the_machine_yourself`]."
)]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

/// The page of the crate: its program is run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub mod action;
pub mod allocate;
#[cfg(feature = "broker")]
pub mod broker;
pub mod config;
pub mod consumer;
pub mod event;
pub mod ids;
pub mod message;
pub mod notice;
pub mod rate;
pub mod recording;
mod rpc;
pub mod status;
pub mod step;
pub mod time;
pub mod wire;

/// A chapter.
#[allow(rustdoc::invalid_rust_codeblocks, reason = "it quotes a file piece by piece")]
#[cfg(all(doc, not(doctest)))]
#[doc = include_str!("../docs/drive-the-machine-yourself.md")]
pub mod drive_the_machine_yourself {}
