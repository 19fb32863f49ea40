//! How groups are configured on a broker.

use alloc::format;

use super::super::post::Refusal;
use super::Serving;
use crate::ids::{ConsumerGroup, Topic};
use crate::wire::code::ResponseCode;

/// The longest group name, in bytes.
const NAME_MAX: usize = 255;

/// A group's configuration (`SubscriptionGroupConfig`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct GroupConfig {
    /// Whether it may consume.
    pub(in crate::broker) consume_enable: bool,
    /// Whether it may consume as a broadcasting group.
    pub(in crate::broker) broadcast_enable: bool,
    /// Whether its members are told when they change.
    pub(in crate::broker) notify: bool,
    /// Queues of its retry topic; 0 for no retries at all.
    pub(in crate::broker) retry_queues: i32,
    /// How often a message comes again before it is buried.
    pub(in crate::broker) retry_max: i32,
    /// The replica to read from.
    pub(in crate::broker) broker_id: i64,
    /// The replica to read from when it is slow.
    pub(in crate::broker) slow_broker_id: i64,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            consume_enable: true,
            broadcast_enable: true,
            notify: true,
            retry_queues: 1,
            retry_max: 16,
            broker_id: 0,
            slow_broker_id: 1,
        }
    }
}

/// The topic a group's messages come back on.
pub(in crate::broker) fn retry_topic(group: &ConsumerGroup) -> Topic {
    format!("{RETRY_PREFIX}{group}").into()
}

/// The topic a group's dead letters lie on.
pub(in crate::broker) fn dead_letter_topic(group: &ConsumerGroup) -> Topic {
    format!("%DLQ%{group}").into()
}

/// What retry topics begin with.
pub(in crate::broker) const RETRY_PREFIX: &str = "%RETRY%";

/// Whether Java would take this for the name of a topic or group.
pub(in crate::broker) fn is_legal_name(name: &str, most: usize) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"%|-_".contains(&byte);
    !name.is_empty() && name.len() <= most && name.bytes().all(legal)
}

impl Serving<'_> {
    /// A group's configuration, made if need be and allowed.
    pub(super) fn group(&mut self, group: &ConsumerGroup) -> Result<&GroupConfig, Refusal> {
        if !self.disk.groups.contains_key(group) {
            let settings = self.cx.settings;
            let allowed = settings.auto_create_group
                && is_legal_name(group.as_str(), NAME_MAX)
                && self.disk.groups.len() < settings.groups_max;
            if allowed {
                self.disk.groups.insert(group.clone(), GroupConfig::default());
            }
        }
        self.disk.groups.get(group).ok_or_else(|| {
            let remark = format!("subscription group [{group}] does not exist");
            Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        })
    }
}
