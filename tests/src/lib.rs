//! What a test of a RocketMQ consumer needs around it.
//!
//! [`sim`] runs whole clusters on virtual time, from one seed; [`world`] tells stories of a few members against scripts;
//! [`broker_conformance`] shows that the broker machine answers as the real broker does. With the feature `real-broker`
//! (Unix only), `rocketmq` starts a private Apache RocketMQ 5.5.0 cluster and Java clients on this machine, and ends them
//! again, whatever happens to the test.
//!
//! With the feature `conformance`, `conformance_suite!` makes tests of what every runtime under a consumer has to keep,
//! for those who bring one.
//!
//! With the feature `generate`, `generate` builds anything a consumer may meet out of bytes; with
//! `proptest`, `strategies` offers the same to property tests. [`fuzzing`] holds what the fuzz targets do
//! with theirs, so that an ordinary test can do it again.
#![forbid(unsafe_code)]

/// The project's own README: its programs are compiled, and those that need no broker are run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct ReadmeOfTheProject;

pub mod broker_conformance;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod fuzzing;
#[cfg(feature = "generate")]
pub mod generate;
#[cfg(all(feature = "real-broker", unix))]
pub mod rocketmq;
pub mod sim;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod world;
