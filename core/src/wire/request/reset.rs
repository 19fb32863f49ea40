//! What an operator asks of a broker about the progress of a group: set it, or ask the members for it.
//= rocketmq: ResetOffsetRequestHeader, GetConsumerStatusRequestHeader, GetConsumerStatusBody

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};

use super::queue_table::{OffsetTable, offset_table, write_offsets};
use super::{Answer, AnswerError, Malformed, Request, expect_success};
use crate::ids::{ClientId, ConsumerGroup, QueueId, QueueOffset, Topic};
use crate::time::WallTime;
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, Header, WriteExt};
use crate::wire::fastjson::{self, ObjectWriter};

/// `INVOKE_BROKER_TO_RESET_OFFSET`, to a master: continue elsewhere. Brokers since 5.2 store the offset
/// and answer the next pull with it; earlier ones, and those set to, tell the members, and ignore
/// `queue` and `offset` then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorResetRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// The topic.
    pub topic: Topic,
    /// Continue at the first message stored at this time or later: 0 is the oldest message, anything
    /// below behind the last one. To a broker an absent time is 0 as well.
    pub timestamp: WallTime,
    /// Whether to go forwards too; only looked at where the members are told.
    pub force: bool,
    /// One queue instead of all.
    pub queue: Option<QueueId>,
    /// The offset to continue at in that queue, instead of the time.
    pub offset: Option<QueueOffset>,
}

impl WriteExt for OperatorResetRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("group", self.group.as_str());
        out.text("topic", self.topic.as_str());
        out.int("timestamp", self.timestamp.as_unix_millis());
        out.bool("isForce", self.force);
        out.int("queueId", self.queue.map_or(-1, |queue| queue.0));
        out.int("offset", self.offset.map_or(-1, |offset| offset.0));
    }
}

impl Request for OperatorResetRequest {
    const CODE: RequestCode = RequestCode::INVOKE_BROKER_TO_RESET_OFFSET;
    type Answer = ResetOffsets;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        let queue = ext.get_i32("queueId")?.filter(|&queue| queue >= 0);
        let offset = ext.get_i64("offset")?.filter(|&offset| offset >= 0);
        Ok(Self {
            group: ext.require("group")?.into(),
            topic: ext.require("topic")?.into(),
            // A Java broker reads a text that is no number as 0 too, but there somebody meant a time.
            timestamp: WallTime::from_unix_millis(ext.get_i64("timestamp")?.unwrap_or(0)),
            force: ext.get_bool("isForce").unwrap_or(false),
            queue: queue.map(QueueId),
            offset: offset.map(QueueOffset),
        })
    }
}

/// The offsets that were set, or that the members were told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ResetOffsets {
    /// By queue.
    #[serde(rename = "offsetTable", default, deserialize_with = "offset_table")]
    pub offsets: OffsetTable,
}

impl WriteExt for ResetOffsets {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for ResetOffsets {
    fn body(&self) -> Bytes {
        let mut out = Vec::new();
        ObjectWriter::write(&mut out, |body| {
            write_offsets(body, "offsetTable", &self.offsets);
        });
        out.into()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(fastjson::from_slice(body)?)
    }
}

/// `INVOKE_BROKER_TO_GET_CONSUMER_STATUS`, to a broker: how far has each member consumed?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatusRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// The topic.
    pub topic: Topic,
    /// One member instead of all. The field is called an address and holds an id.
    pub client_id: Option<ClientId>,
}

impl WriteExt for GroupStatusRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("group", self.group.as_str());
        out.text("topic", self.topic.as_str());
        out.opt_text("clientAddr", self.client_id.as_ref().map(ClientId::as_str));
    }
}

impl Request for GroupStatusRequest {
    const CODE: RequestCode = RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS;
    type Answer = GroupStatus;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("group")?.into(),
            topic: ext.require("topic")?.into(),
            client_id: ext.get("clientAddr").filter(|id| !id.is_empty()).map(Into::into),
        })
    }
}

/// The consumed offsets of each member that answered; one that is silent is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct GroupStatus {
    /// By member.
    #[serde(rename = "consumerTable", default, deserialize_with = "offset_tables")]
    pub members: BTreeMap<ClientId, OffsetTable>,
}

fn offset_tables<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<ClientId, OffsetTable>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Offsets(#[serde(deserialize_with = "offset_table")] OffsetTable);
    let members = BTreeMap::<ClientId, Offsets>::deserialize(from)?;
    Ok(members.into_iter().map(|(id, offsets)| (id, offsets.0)).collect())
}

impl WriteExt for GroupStatus {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for GroupStatus {
    fn body(&self) -> Bytes {
        let mut out = Vec::new();
        ObjectWriter::write(&mut out, |body| {
            body.object("consumerTable", |members| {
                for (id, offsets) in &self.members {
                    write_offsets(members, id.as_str(), offsets);
                }
            });
            // The same body carries the answer of a single member, to the broker.
            body.object("messageQueueTable", |_| ());
        });
        out.into()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(fastjson::from_slice(body)?)
    }
}
