//! The whole protocol of an Apache RocketMQ push consumer as a pure state machine.
//!
//! Events go in with the time they happened, actions come out as data. Nothing in this crate does
//! I/O, reads a clock or draws randomness; `README.md` and `ARCHITECTURE.md` of the project tell how
//! the rooms fit together.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod allocate;
pub mod ids;
pub mod message;
pub mod time;
pub mod wire;
