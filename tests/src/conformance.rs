//! What every runtime under a consumer has to keep, as tests: bring a [`Host`], and
//! [`conformance_suite!`](crate::conformance_suite) makes a test of each case for it.
//!
//! ```text
//!  case ─► Scene: a host, a topic and a group of their own
//!            consumers on Gauge<Runtime> ◄══► Proxy ◄══► Cluster: the embedded broker, or the real one
//!               what is alive in it           spoils
//! ```
//!
//! Cases assert what happens, and never how quickly: bounds are there to tell what does not happen from what takes
//! long. After each case that has a cluster, no task, socket, timer or job of the consumers may be left.
//!
//! A runtime that passes the cases of its own part (`clock` to `full_sockets`) keeps the contract of
//! [`Runtime`](rocketmq_consumer::Runtime); the others show that the consumer on it survives what networks,
//! handlers and callers do.

pub mod cases;
mod cluster;
mod embedded;
pub mod gauge;
mod host;
mod polls;
pub mod proxy;
#[cfg(all(feature = "real-broker", unix))]
mod real;
mod scene;
mod seen;
mod suite;
mod sync;
mod time;
mod watch;

pub use cluster::Cluster;
pub use embedded::Embedded;
pub use host::Host;
#[cfg(all(feature = "real-broker", unix))]
pub use real::Real;
pub use watch::watch;
