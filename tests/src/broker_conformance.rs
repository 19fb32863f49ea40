//! Whether the broker machine tells the truth: one script of requests, two clusters, answers compared field by
//! field.
//!
//! The [`script`] is data. A [`Cluster`] carries it out: the machine in virtual time ([`Machine`]), or whatever
//! listens on TCP ([`Sockets`]), which is the real broker when the recording is made and the embedded one when
//! its driver is tested. [`canon`] gives those values a name that differ by run (times, addresses, positions in the
//! commit log), so that two runs can be compared; nothing else is left out. What is known to differ is a
//! [`compare::Known`] with its reason.
//!
//! The codec here is its own on purpose: where it, the real broker and the machine agree, neither reading of the
//! protocol is likely to be wrong.

pub mod canon;
pub mod cluster;
pub mod compare;
mod dialect;
mod frame;
mod machine;
mod record;
pub mod recording;
mod run;
pub mod script;
mod sockets;
mod step;

pub use cluster::{Cluster, Node};
pub use machine::{Machine, cluster as cluster_config};
pub use run::{Outcome, run};
pub use sockets::Sockets;
pub use step::{Ask, Do, Script, Step};
