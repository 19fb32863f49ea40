use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup, PeerAddr, Topic};
use rocketmq_consumer_core::wire::request::groups::SubscriptionGroupConfig;
use rocketmq_consumer_core::wire::request::heartbeat::MessageModel;
use rocketmq_consumer_core::wire::request::route::TopicRoute;

use crate::admin::{Group, Master};
use crate::lag::Row;

/// Everything that is known when the checks begin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// The name of the group; nothing but a test has none.
    pub(crate) name: Option<ConsumerGroup>,
    /// The group at the end of the look.
    pub(crate) group: Group,
    /// The group at its beginning, if this watched.
    pub(crate) before: Option<Group>,
    /// The masters there are.
    pub(crate) masters: Vec<Master>,
    /// How brokers keep the group.
    pub(crate) settings: BTreeMap<BrokerName, SubscriptionGroupConfig>,
    /// What each name server says of the topics, or why it says nothing.
    pub(crate) name_servers: BTreeMap<PeerAddr, Result<BTreeMap<Topic, Option<TopicRoute>>, String>>,
    /// Addresses of brokers of these topics.
    pub(crate) addresses: Vec<Address>,
    /// Clocks that could be read.
    pub(crate) clocks: Vec<Reading>,
    /// How far the group was at the beginning and at the end.
    pub(crate) progress: Option<Progress>,
    /// Dead letters that were not sent again, by broker.
    pub(crate) dead: BTreeMap<BrokerName, u64>,
}

/// How far the group was, twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// At the end.
    pub(crate) after: Vec<Row>,
    /// At the beginning, and how long before the end that was, if this watched.
    pub(crate) before: Option<(Vec<Row>, Duration)>,
}

/// An address a broker has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The broker.
    pub(crate) broker: BrokerName,
    /// Which of its replicas; 0 is the master.
    pub(crate) id: i64,
    /// As it is registered.
    pub(crate) text: String,
    /// Why it cannot be reached, if it cannot.
    pub(crate) trouble: Option<String>,
}

/// A clock and ours, in Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Whose clock.
    pub(crate) of: String,
    /// How much it is ahead of ours at least.
    pub(crate) ahead_ms: i64,
    /// How much it is ahead of ours at most. A member tells when it last asked for messages, which may have
    /// been a while ago; then there is no saying.
    pub(crate) ahead_most_ms: Option<i64>,
}

impl Evidence {
    /// The name of the group.
    pub(crate) fn group_name(&self) -> &str {
        self.name.as_ref().map_or("", ConsumerGroup::as_str)
    }

    /// Whether the members share the work.
    pub(crate) fn is_clustering(&self) -> bool {
        self.group.message_model != Some(MessageModel::Broadcasting)
    }
}
