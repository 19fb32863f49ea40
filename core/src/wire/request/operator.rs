//! What an operator asks of a consumer, through its broker.
//!
//! The answer to a running info request passes its body through, as brokers do; its type is
//! [`ConsumerRunningInfo`](super::running_info::ConsumerRunningInfo).
//= rocketmq: ResetOffsetRequestHeader, GetConsumerStatusRequestHeader
//= rocketmq: GetConsumerRunningInfoRequestHeader, ConsumeMessageDirectlyResultRequestHeader

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::queue_table::{offset_table, write_offsets};
use super::{
    Answer, AnswerError, Done, Malformed, Request, expect_success, json_answer, known_name, wire_names,
};
use crate::ids::{BrokerName, ClientId, ConsumerGroup, Topic};
use crate::time::WallTime;
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, Header, WriteExt};
use crate::wire::fastjson::{self, ObjectWriter};

pub use super::queue_table::OffsetTable;

/// A body of one member: an offset table.
fn table_body(member: &str, table: &OffsetTable) -> Bytes {
    let mut out = Vec::new();
    ObjectWriter::write(&mut out, |body| write_offsets(body, member, table));
    out.into()
}

/// `RESET_CONSUMER_CLIENT_OFFSET`, one-way: continue at these offsets. Only brokers that do not reset
/// on their own side send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetOffsetRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// The topic.
    pub topic: Topic,
    /// The time the operator gave, for information.
    pub timestamp: Option<WallTime>,
    /// Whether the operator wants it even if it skips messages, for information.
    pub force: bool,
    /// Where to continue. Empty if there is nothing to do.
    pub offsets: OffsetTable,
}

impl WriteExt for ResetOffsetRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("group", self.group.as_str());
        out.text("topic", self.topic.as_str());
        out.opt_int("timestamp", self.timestamp.map(WallTime::as_unix_millis));
        out.bool("isForce", self.force);
    }
}

impl Request for ResetOffsetRequest {
    const CODE: RequestCode = RequestCode::RESET_CONSUMER_CLIENT_OFFSET;
    type Answer = Done;

    fn body(&self) -> Bytes {
        table_body("offsetTable", &self.offsets)
    }

    fn decode(ext: &ExtFields<'_>, body: &Bytes) -> Result<Self, Malformed> {
        #[derive(Default, Deserialize)]
        struct Body {
            #[serde(rename = "offsetTable", default, deserialize_with = "offset_table")]
            offsets: OffsetTable,
        }
        let body = if body.is_empty() {
            Body::default()
        } else {
            fastjson::from_slice(body)?
        };
        Ok(Self {
            group: ext.require("group")?.into(),
            topic: ext.require("topic")?.into(),
            timestamp: ext.get_i64("timestamp")?.map(WallTime::from_unix_millis),
            force: ext.get_bool("isForce").unwrap_or(false),
            offsets: body.offsets,
        })
    }
}

/// `GET_CONSUMER_STATUS_FROM_CLIENT`: how far has this member consumed?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerStatusRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// The topic.
    pub topic: Topic,
    /// The member the operator means, if only one.
    pub client_addr: Option<String>,
}

impl WriteExt for ConsumerStatusRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("group", self.group.as_str());
        out.text("topic", self.topic.as_str());
        out.opt_text("clientAddr", self.client_addr.as_deref());
    }
}

impl Request for ConsumerStatusRequest {
    const CODE: RequestCode = RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT;
    type Answer = ConsumerStatus;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("group")?.into(),
            topic: ext.require("topic")?.into(),
            client_addr: ext.get("clientAddr").map(Into::into),
        })
    }
}

/// The consumed offsets of the queues a member has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ConsumerStatus {
    /// By queue.
    #[serde(rename = "messageQueueTable", default, deserialize_with = "offset_table")]
    pub offsets: OffsetTable,
}

impl WriteExt for ConsumerStatus {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for ConsumerStatus {
    fn body(&self) -> Bytes {
        table_body("messageQueueTable", &self.offsets)
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(fastjson::from_slice(body)?)
    }
}

/// `GET_CONSUMER_RUNNING_INFO`: how is this member?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningInfoRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// The member.
    pub client_id: ClientId,
    /// Whether stack traces are wanted, which is for Java to give.
    pub jstack: bool,
}

impl WriteExt for RunningInfoRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("consumerGroup", self.group.as_str());
        out.text("clientId", self.client_id.as_str());
        out.bool("jstackEnable", self.jstack);
    }
}

impl Request for RunningInfoRequest {
    const CODE: RequestCode = RequestCode::GET_CONSUMER_RUNNING_INFO;
    type Answer = RunningInfo;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("consumerGroup")?.into(),
            client_id: ext.require("clientId")?.into(),
            jstack: ext.get_bool("jstackEnable").unwrap_or(false),
        })
    }
}

/// The answer of a member, unread: brokers hand it on to the operator as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningInfo {
    /// `ConsumerRunningInfo` in fastjson's dialect.
    pub json: Bytes,
}

impl WriteExt for RunningInfo {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for RunningInfo {
    fn body(&self) -> Bytes {
        self.json.clone()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(Self { json: body.clone() })
    }
}

/// `CONSUME_MESSAGE_DIRECTLY`: run the handler once for this message and say what came of it; no
/// offset moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumeDirectlyRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// The member; absent when it is left to the broker.
    pub client_id: Option<ClientId>,
    /// The id that tells where the message lies.
    pub message_id: Option<String>,
    /// The broker that stores it.
    pub broker: Option<BrokerName>,
    /// The topic.
    pub topic: Option<Topic>,
    /// The message as it is stored; empty on the way from the operator to the broker.
    pub message: Bytes,
}

impl WriteExt for ConsumeDirectlyRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("consumerGroup", self.group.as_str());
        out.opt_text("clientId", self.client_id.as_ref().map(ClientId::as_str));
        out.opt_text("msgId", self.message_id.as_deref());
        out.opt_text("brokerName", self.broker.as_ref().map(BrokerName::as_str));
        out.opt_text("topic", self.topic.as_ref().map(Topic::as_str));
        // What a broker adds on the way to the member: flags of units, which hardly anybody has.
        if self.broker.is_some() {
            out.int("groupSysFlag", 0);
            out.opt_int("topicSysFlag", self.topic.as_ref().map(|_| 0));
        }
    }
}

impl Request for ConsumeDirectlyRequest {
    const CODE: RequestCode = RequestCode::CONSUME_MESSAGE_DIRECTLY;
    type Answer = ConsumeDirectlyAnswer;

    fn body(&self) -> Bytes {
        self.message.clone()
    }

    fn decode(ext: &ExtFields<'_>, body: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("consumerGroup")?.into(),
            client_id: ext.get("clientId").map(Into::into),
            message_id: ext.get("msgId").map(Into::into),
            broker: ext.get("brokerName").map(Into::into),
            topic: ext.get("topic").map(Into::into),
            message: body.clone(),
        })
    }
}

wire_names! {
    /// What came of consuming a message directly.
    DirectResult {
        /// Done.
        Success = "CR_SUCCESS",
        /// To be delivered again later.
        Later = "CR_LATER",
        /// An ordered consumer rolled back.
        Rollback = "CR_ROLLBACK",
        /// An ordered consumer committed.
        Commit = "CR_COMMIT",
        /// The handler failed.
        ThrowException = "CR_THROW_EXCEPTION",
        /// The handler said nothing.
        ReturnNull = "CR_RETURN_NULL",
    }
}

/// The answer to a [`ConsumeDirectlyRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumeDirectlyAnswer {
    /// Whether the consumer is an ordered one.
    #[serde(default)]
    pub order: bool,
    /// Whether it commits by itself.
    #[serde(default)]
    pub auto_commit: bool,
    /// What came of it.
    #[serde(rename = "consumeResult", default, deserialize_with = "known_name")]
    pub result: Option<DirectResult>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// How long the handler ran, in milliseconds.
    #[serde(rename = "spentTimeMills", default)]
    pub spent_millis: i64,
}

json_answer!(ConsumeDirectlyAnswer);
