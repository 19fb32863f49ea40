//! What operators' commands share: which brokers there are, who belongs to a group, how many are asked at
//! once, and who says yes before something is changed.

mod brokers;
mod consent;
mod fan_out;
mod group;
mod members;
mod names;
mod properties;
mod queue_arg;
mod release;
mod session;

pub(crate) use brokers::{Master, masters, masters_of, route_or_fail};
pub(crate) use consent::Consent;
pub(crate) use fan_out::fan_out;
#[cfg(test)]
pub(crate) use group::tests as group_tests;
pub(crate) use group::{Group, Link, Member};
pub(crate) use members::{connections, owned, running_infos};
pub(crate) use names::{dead_letters, is_internal_group, is_internal_topic, retry_topic};
pub(crate) use properties::{BrokerConfigRequest, BrokerRuntimeRequest};
pub(crate) use queue_arg::QueueArg;
pub(crate) use release::release;
pub(crate) use session::with_cluster;
