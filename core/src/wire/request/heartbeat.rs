//! Membership: a client tells each broker which groups it belongs to and what they subscribe to.
//! The broker ties the membership to the connection the heartbeat came on.
//= rocketmq: HeartbeatData, UnregisterClientRequestHeader

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{
    Answer, AnswerError, Done, Malformed, Request, expect_success, json_body, known_name, wire_names,
};
use crate::ids::{ClientId, ConsumerGroup, Topic};
use crate::time::WallTime;
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, Header, WriteExt};
use crate::wire::fastjson;

/// `HEART_BEAT`: all groups of a client. Topics that are missing from the newest heartbeat of any
/// member are taken out of its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatRequest {
    /// The client.
    #[serde(rename = "clientID")]
    pub client_id: ClientId,
    /// Groups it consumes for.
    #[serde(rename = "consumerDataSet", default)]
    pub consumers: Vec<ConsumerData>,
    /// Groups it produces for.
    #[serde(rename = "producerDataSet", default)]
    pub producers: Vec<ProducerData>,
    /// Hash of the contents in heartbeats of the second version, 0 in the classic ones.
    #[serde(rename = "heartbeatFingerprint", default)]
    pub fingerprint: i32,
    /// Second version only: the subscriptions are left out because the broker has them.
    #[serde(default)]
    pub without_sub: bool,
}

/// A group a client produces for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProducerData {
    /// Its name.
    #[serde(rename = "groupName")]
    pub group: String,
}

/// A group a client consumes for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerData {
    /// Its name.
    #[serde(rename = "groupName")]
    pub group: ConsumerGroup,
    /// How it gets its messages.
    #[serde(default, deserialize_with = "known_name")]
    pub consume_type: Option<ConsumeType>,
    /// Whether the members share the work.
    #[serde(default, deserialize_with = "known_name")]
    pub message_model: Option<MessageModel>,
    /// Where it starts without stored progress; stored by the broker, not acted upon.
    #[serde(default, deserialize_with = "known_name")]
    pub consume_from_where: Option<ConsumeFrom>,
    /// What it subscribes to, its own retry topic included.
    #[serde(rename = "subscriptionDataSet", default)]
    pub subscriptions: Vec<SubscriptionData>,
    /// Marks its retry topic as one of a unit.
    #[serde(default)]
    pub unit_mode: bool,
}

/// A subscription to one topic. The broker filters by [`SubscriptionData::codes`], not by the
/// expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionData {
    /// The topic.
    pub topic: Topic,
    /// The expression as the user wrote it; `*` for everything.
    #[serde(rename = "subString", default)]
    pub expression: String,
    /// `TAG` or `SQL92`; absent means `TAG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression_type: Option<String>,
    /// The tags of a tag expression, empty for everything.
    #[serde(rename = "tagsSet", default)]
    pub tags: BTreeSet<String>,
    /// Java's hash codes of the tags.
    #[serde(rename = "codeSet", default)]
    pub codes: BTreeSet<i32>,
    /// Rises with each change: an older one does not replace a newer one.
    #[serde(default)]
    pub sub_version: WallTime,
    /// A filter class of very old clients.
    #[serde(default)]
    pub class_filter_mode: bool,
}

wire_names! {
    /// How a group gets its messages.
    ConsumeType {
        /// The application pulls.
        Actively = "CONSUME_ACTIVELY",
        /// The client pulls and pushes them to the application.
        Passively = "CONSUME_PASSIVELY",
        /// The broker hands them out.
        Pop = "CONSUME_POP",
    }
}

wire_names! {
    /// Who gets a message.
    MessageModel {
        /// Every member.
        Broadcasting = "BROADCASTING",
        /// One member.
        Clustering = "CLUSTERING",
    }
}

wire_names! {
    /// Where a group without stored progress starts.
    ConsumeFrom {
        /// After the last message.
        Last = "CONSUME_FROM_LAST_OFFSET",
        /// At the first message there is.
        First = "CONSUME_FROM_FIRST_OFFSET",
        /// At the first message from a time on.
        Timestamp = "CONSUME_FROM_TIMESTAMP",
    }
}

impl WriteExt for HeartbeatRequest {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Request for HeartbeatRequest {
    const CODE: RequestCode = RequestCode::HEART_BEAT;
    type Answer = HeartbeatAnswer;

    fn body(&self) -> Bytes {
        json_body(self)
    }

    fn decode(_: &ExtFields<'_>, body: &Bytes) -> Result<Self, Malformed> {
        Ok(fastjson::from_slice(body)?)
    }
}

/// What a broker says about itself in return. Brokers before 5.1.3 say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// Whether it knows heartbeats of the second version.
    pub supports_v2: Option<bool>,
    /// Whether the subscriptions have changed; always true for a classic heartbeat.
    pub sub_changed: Option<bool>,
}

impl WriteExt for HeartbeatAnswer {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.opt_bool("IS_SUPPORT_HEART_BEAT_V2", self.supports_v2);
        out.opt_bool("IS_SUB_CHANGE", self.sub_changed);
    }
}

impl Answer for HeartbeatAnswer {
    fn decode(header: &Header<'_>, _: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(Self {
            supports_v2: header.ext.get_bool("IS_SUPPORT_HEART_BEAT_V2"),
            sub_changed: header.ext.get_bool("IS_SUB_CHANGE"),
        })
    }
}

/// `UNREGISTER_CLIENT`: the client of this connection leaves a group. Always answered with success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnregisterRequest {
    /// The client.
    pub client_id: ClientId,
    /// The group it no longer consumes for.
    pub consumer_group: Option<ConsumerGroup>,
    /// The group it no longer produces for.
    pub producer_group: Option<String>,
}

impl WriteExt for UnregisterRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("clientID", self.client_id.as_str());
        out.opt_text(
            "consumerGroup",
            self.consumer_group.as_ref().map(ConsumerGroup::as_str),
        );
        out.opt_text("producerGroup", self.producer_group.as_deref());
    }
}

impl Request for UnregisterRequest {
    const CODE: RequestCode = RequestCode::UNREGISTER_CLIENT;
    type Answer = Done;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            // Brokers go by the connection and never look at it.
            client_id: ext.get("clientID").unwrap_or_default().into(),
            consumer_group: ext.get("consumerGroup").map(Into::into),
            producer_group: ext.get("producerGroup").map(Into::into),
        })
    }
}
