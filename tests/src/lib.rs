//! What a test of a RocketMQ consumer needs around it.
//!
//! [`world`] is several members and a small cluster in virtual time, in one thread; [`conformance`] shows that the
//! broker machine answers as the real broker does; [`sim`] runs whole clusters from a seed. With the feature `real-broker` (Unix only), `rocketmq` starts a
//! private Apache RocketMQ 5.5.0 cluster and Java clients on this machine, and ends them again, whatever happens to
//! the test.
//!
//! With the feature `generate`, `generate` builds anything a consumer may meet out of bytes; with
//! `proptest`, `strategies` offers the same to property tests. [`fuzzing`] holds what the fuzz targets do
//! with theirs, so that an ordinary test can do it again.
#![forbid(unsafe_code)]

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
