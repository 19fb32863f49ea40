//! How full a topic is, how far a group has come, and who belongs to it. Counts lag behind the log by
//! the time a broker needs for its queues, a few milliseconds.
//= rocketmq: TopicStatsTable, ConsumeStats, ConsumerConnection, GroupList

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::heartbeat::{ConsumeFrom, ConsumeType, MessageModel, SubscriptionData};
use super::number::{maybe_offset, maybe_time, non_negative};
use super::queue_table::{queue_table, write_table};
use super::{Answer, AnswerError, Malformed, Request, expect_success, json_answer, known_name};
use crate::ids::{ClientId, ConsumerGroup, MessageQueue, QueueOffset, Topic};
use crate::time::WallTime;
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, Header, WriteExt};
use crate::wire::fastjson::{self, ObjectWriter};

/// `GET_TOPIC_STATS_INFO`, to a broker. An unknown topic is refused with
/// [`TOPIC_NOT_EXIST`](crate::wire::code::ResponseCode::TOPIC_NOT_EXIST).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicStatsRequest {
    /// The topic.
    pub topic: Topic,
}

impl WriteExt for TopicStatsRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("topic", self.topic.as_str());
    }
}

impl Request for TopicStatsRequest {
    const CODE: RequestCode = RequestCode::GET_TOPIC_STATS_INFO;
    type Answer = TopicStats;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            topic: ext.require("topic")?.into(),
        })
    }
}

/// The queues of a topic on one broker, those that are only read or only written included.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct TopicStats {
    /// By queue.
    #[serde(rename = "offsetTable", default, deserialize_with = "queue_table")]
    pub queues: BTreeMap<MessageQueue, QueueStats>,
    /// Messages stored per second. Older brokers do not tell.
    #[serde(rename = "topicPutTps", default)]
    pub put_tps: f64,
}

/// How full a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStats {
    /// When the last message was stored.
    #[serde(rename = "lastUpdateTimestamp", with = "maybe_time", default)]
    pub last_update: Option<WallTime>,
    /// The offset the next message will get.
    #[serde(deserialize_with = "non_negative")]
    pub max_offset: QueueOffset,
    /// The offset of the oldest message.
    #[serde(deserialize_with = "non_negative")]
    pub min_offset: QueueOffset,
}

impl WriteExt for TopicStats {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for TopicStats {
    fn body(&self) -> Bytes {
        let mut out = Vec::new();
        ObjectWriter::write(&mut out, |stats| {
            write_table(stats, "offsetTable", &self.queues);
            stats.member("topicPutTps", &self.put_tps);
        });
        out.into()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(fastjson::from_slice(body)?)
    }
}

/// `GET_CONSUME_STATS`, to a broker. Nothing is refused: an unknown group has no queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumeStatsRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// The topic; without one, every topic in which the group has stored progress. While the group is
    /// online, topics it does not subscribe to are left out.
    pub topic: Option<Topic>,
    /// Exactly these topics, subscribed or not; since 5.3.2.
    pub topics: Vec<Topic>,
}

impl WriteExt for ConsumeStatsRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("consumerGroup", self.group.as_str());
        out.opt_text("topic", self.topic.as_ref().map(Topic::as_str));
        if !self.topics.is_empty() {
            let topics: Vec<_> = self.topics.iter().map(Topic::as_str).collect();
            out.text("topicList", &topics.join(";"));
        }
    }
}

impl Request for ConsumeStatsRequest {
    const CODE: RequestCode = RequestCode::GET_CONSUME_STATS;
    type Answer = ConsumeStats;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        let topics = ext.get("topicList").unwrap_or_default().split(';');
        Ok(Self {
            group: ext.require("consumerGroup")?.into(),
            topic: ext.get("topic").filter(|topic| !topic.is_empty()).map(Into::into),
            topics: topics.filter(|topic| !topic.is_empty()).map(Into::into).collect(),
        })
    }
}

/// How far a group has come on one broker.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ConsumeStats {
    /// Messages consumed per second.
    #[serde(rename = "consumeTps", default)]
    pub consume_tps: f64,
    /// By queue. Queues beyond the number consumers read are not shown, whatever is stored for them.
    #[serde(rename = "offsetTable", default, deserialize_with = "queue_table")]
    pub queues: BTreeMap<MessageQueue, QueueProgress>,
}

/// How far a group has come in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueProgress {
    /// The offset the next message will get.
    #[serde(deserialize_with = "non_negative")]
    pub broker_offset: QueueOffset,
    /// The offset that is stored. No stored offset is shown as 0.
    #[serde(deserialize_with = "non_negative")]
    pub consumer_offset: QueueOffset,
    /// When the last consumed message was stored. It is unknown before the first one and when the
    /// message is gone.
    #[serde(with = "maybe_time", default)]
    pub last_timestamp: Option<WallTime>,
    /// The offset the group pulls at; older brokers do not tell.
    #[serde(with = "maybe_offset", default)]
    pub pull_offset: Option<QueueOffset>,
}

impl QueueProgress {
    /// How many messages are not consumed yet. Negative when more is committed than there is.
    #[must_use]
    pub const fn lag(&self) -> i64 {
        self.broker_offset.0.saturating_sub(self.consumer_offset.0)
    }

    /// How many messages the members have and have not finished, if the broker tells.
    #[must_use]
    pub fn in_flight(&self) -> Option<i64> {
        self.pull_offset
            .map(|pulled| pulled.0.saturating_sub(self.consumer_offset.0))
    }
}

impl WriteExt for ConsumeStats {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for ConsumeStats {
    fn body(&self) -> Bytes {
        let mut out = Vec::new();
        ObjectWriter::write(&mut out, |stats| {
            stats.member("consumeTps", &self.consume_tps);
            write_table(stats, "offsetTable", &self.queues);
        });
        out.into()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(fastjson::from_slice(body)?)
    }
}

/// `GET_CONSUMER_CONNECTION_LIST`, to a broker. A group without members is refused with
/// [`CONSUMER_NOT_ONLINE`](crate::wire::code::ResponseCode::CONSUMER_NOT_ONLINE).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionsRequest {
    /// The group.
    pub group: ConsumerGroup,
}

impl WriteExt for ConnectionsRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("consumerGroup", self.group.as_str());
    }
}

impl Request for ConnectionsRequest {
    const CODE: RequestCode = RequestCode::GET_CONSUMER_CONNECTION_LIST;
    type Answer = ConsumerConnections;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("consumerGroup")?.into(),
        })
    }
}

/// The members of a group on one broker. All but the connections is the group's as a whole: what the
/// last heartbeat said, for each subscription what the newest said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerConnections {
    /// One entry for each connection: a client may have several.
    #[serde(rename = "connectionSet", default)]
    pub connections: Vec<Connection>,
    /// Where the group starts without stored progress.
    #[serde(default, deserialize_with = "known_name")]
    pub consume_from_where: Option<ConsumeFrom>,
    /// How it gets its messages.
    #[serde(default, deserialize_with = "known_name")]
    pub consume_type: Option<ConsumeType>,
    /// Whether the members share the work.
    #[serde(default, deserialize_with = "known_name")]
    pub message_model: Option<MessageModel>,
    /// What it subscribes to, by topic.
    #[serde(rename = "subscriptionTable", default)]
    pub subscriptions: BTreeMap<Topic, SubscriptionData>,
}

/// A connection of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// `host:port` as the broker sees it.
    #[serde(default)]
    pub client_addr: String,
    /// The member.
    pub client_id: ClientId,
    /// The language it states, by name.
    #[serde(default)]
    pub language: String,
    /// The version it states.
    #[serde(default)]
    pub version: i32,
}

json_answer!(ConsumerConnections);

/// `QUERY_TOPIC_CONSUME_BY_WHO`, to a broker: who subscribes to a topic now or has stored progress in it?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicGroupsRequest {
    /// The topic.
    pub topic: Topic,
}

impl WriteExt for TopicGroupsRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("topic", self.topic.as_str());
    }
}

impl Request for TopicGroupsRequest {
    const CODE: RequestCode = RequestCode::QUERY_TOPIC_CONSUME_BY_WHO;
    type Answer = GroupList;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            topic: ext.require("topic")?.into(),
        })
    }
}

/// Groups, none for an unknown topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupList {
    /// Their names.
    #[serde(rename = "groupList", default)]
    pub groups: BTreeSet<ConsumerGroup>,
}

json_answer!(GroupList);
