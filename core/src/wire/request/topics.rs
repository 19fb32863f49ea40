//! Topics: made, looked at, listed and deleted. A topic is deleted on every master first and then at
//! every name server, which go on serving its route otherwise.
//= rocketmq: CreateTopicRequestHeader, DeleteTopicRequestHeader, GetTopicConfigRequestHeader
//= rocketmq: TopicConfig, TopicList, GetTopicsByClusterRequestHeader

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Done, Malformed, Request, json_answer, known_name, wire_names};
use crate::ids::Topic;
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, FieldError, FieldFault, WriteExt};

wire_names! {
    /// How many tags a message of the topic may have.
    TopicFilterType {
        /// One, as in every topic of today.
        SingleTag = "SINGLE_TAG",
        /// Several.
        MultiTag = "MULTI_TAG",
    }
}

/// `UPDATE_AND_CREATE_TOPIC`, to a master: from now on the topic is as described. Everything but the
/// attributes is replaced, also by what makes no sense: brokers take 0 and −1 queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateTopicRequest {
    /// The topic.
    pub topic: Topic,
    /// The topic new ones are made after, usually `TBW102`. Of no effect since the rest is given.
    pub default_topic: Topic,
    /// How many queues consumers read.
    pub read_queues: i32,
    /// How many queues producers write to.
    pub write_queues: i32,
    /// Permission bits: 4 read, 2 write. Clients find them in the route.
    pub perm: i32,
    /// How many tags its messages may have.
    pub filter_type: TopicFilterType,
    /// Unit bits; 0 for most.
    pub sys_flag: i32,
    /// Whether the order of its messages is kept at the cost of availability.
    pub order: bool,
    /// Changes of attributes, `+name=value,-name`; the others stay.
    pub attributes: Option<String>,
}

impl WriteExt for UpdateTopicRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("topic", self.topic.as_str());
        out.text("defaultTopic", self.default_topic.as_str());
        out.int("readQueueNums", self.read_queues);
        out.int("writeQueueNums", self.write_queues);
        out.int("perm", self.perm);
        out.text(FILTER_TYPE, self.filter_type.name());
        out.int("topicSysFlag", self.sys_flag);
        out.bool("order", self.order);
        out.opt_text("attributes", self.attributes.as_deref());
    }
}

const FILTER_TYPE: &str = "topicFilterType";

impl Request for UpdateTopicRequest {
    const CODE: RequestCode = RequestCode::UPDATE_AND_CREATE_TOPIC;
    type Answer = Done;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        let filter_type = TopicFilterType::from_name(ext.require(FILTER_TYPE)?);
        Ok(Self {
            topic: ext.require("topic")?.into(),
            default_topic: ext.get("defaultTopic").unwrap_or_default().into(),
            read_queues: ext.require_i32("readQueueNums")?,
            write_queues: ext.require_i32("writeQueueNums")?,
            perm: ext.require_i32("perm")?,
            filter_type: filter_type.ok_or(FieldError::new(FILTER_TYPE, FieldFault::Unknown))?,
            sys_flag: ext.get_i32("topicSysFlag")?.unwrap_or(0),
            order: ext.get_bool("order").unwrap_or(false),
            attributes: ext.get("attributes").map(Into::into),
        })
    }
}

/// `GET_TOPIC_CONFIG`, to a broker. An unknown topic is refused with
/// [`TOPIC_NOT_EXIST`](crate::wire::code::ResponseCode::TOPIC_NOT_EXIST).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfigRequest {
    /// The topic.
    pub topic: Topic,
}

impl WriteExt for TopicConfigRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("topic", self.topic.as_str());
    }
}

impl Request for TopicConfigRequest {
    const CODE: RequestCode = RequestCode::GET_TOPIC_CONFIG;
    type Answer = TopicConfig;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            topic: ext.require("topic")?.into(),
        })
    }
}

/// A topic as one broker has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicConfig {
    /// What is special about it, such as `message.type`.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// Whether the order of its messages is kept at the cost of availability.
    #[serde(default)]
    pub order: bool,
    /// Permission bits: 4 read, 2 write.
    #[serde(default)]
    pub perm: i32,
    /// How many queues consumers read; whatever an operator has set.
    #[serde(rename = "readQueueNums", default)]
    pub read_queues: i32,
    /// How many tags its messages may have.
    #[serde(rename = "topicFilterType", default, deserialize_with = "known_name")]
    pub filter_type: Option<TopicFilterType>,
    /// Its name.
    #[serde(rename = "topicName")]
    pub topic: Topic,
    /// Unit bits; 0 for most.
    #[serde(rename = "topicSysFlag", default)]
    pub sys_flag: i32,
    /// How many queues producers write to; whatever an operator has set.
    #[serde(rename = "writeQueueNums", default)]
    pub write_queues: i32,
}

json_answer!(TopicConfig);

/// `DELETE_TOPIC_IN_BROKER`: deletes the topic, its queues and everybody's progress in it. Succeeds for
/// a topic that does not exist as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTopicRequest {
    /// The topic.
    pub topic: Topic,
}

impl WriteExt for DeleteTopicRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("topic", self.topic.as_str());
    }
}

impl Request for DeleteTopicRequest {
    const CODE: RequestCode = RequestCode::DELETE_TOPIC_IN_BROKER;
    type Answer = Done;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            topic: ext.require("topic")?.into(),
        })
    }
}

/// `DELETE_TOPIC_IN_NAMESRV`: forgets the route of a topic, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetTopicRequest {
    /// The topic.
    pub topic: Topic,
    /// Forget it for the brokers of this cluster only.
    pub cluster: Option<String>,
}

impl WriteExt for ForgetTopicRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("topic", self.topic.as_str());
        out.opt_text("clusterName", self.cluster.as_deref());
    }
}

impl Request for ForgetTopicRequest {
    const CODE: RequestCode = RequestCode::DELETE_TOPIC_IN_NAMESRV;
    type Answer = Done;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            topic: ext.require("topic")?.into(),
            cluster: ext.get("clusterName").map(Into::into),
        })
    }
}

/// `GET_ALL_TOPIC_LIST_FROM_NAMESERVER`: every topic that has a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicListRequest;

impl WriteExt for TopicListRequest {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Request for TopicListRequest {
    const CODE: RequestCode = RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER;
    type Answer = TopicList;

    fn decode(_: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self)
    }
}

/// `GET_TOPICS_BY_CLUSTER`: every topic some broker of a cluster has; none for an unknown cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTopicsRequest {
    /// The cluster.
    pub cluster: String,
}

impl WriteExt for ClusterTopicsRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("cluster", &self.cluster);
    }
}

impl Request for ClusterTopicsRequest {
    const CODE: RequestCode = RequestCode::GET_TOPICS_BY_CLUSTER;
    type Answer = TopicList;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            cluster: ext.require("cluster")?.into(),
        })
    }
}

/// Topics of users and of brokers, retry topics and dead letters, all in one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicList {
    /// Their names.
    #[serde(rename = "topicList", default)]
    pub topics: BTreeSet<Topic>,
}

json_answer!(TopicList);
