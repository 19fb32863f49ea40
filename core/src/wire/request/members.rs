//! Who else is in the group, and the word that it has changed.
//= rocketmq: GetConsumerListByGroupRequestHeader, NotifyConsumerIdsChangedRequestHeader

use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Done, Malformed, Request, json_answer};
use crate::ids::{ClientId, ConsumerGroup};
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, WriteExt};

/// `GET_CONSUMER_LIST_BY_GROUP`. A group without members is refused with
/// [`SYSTEM_ERROR`](crate::wire::code::ResponseCode::SYSTEM_ERROR).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberListRequest {
    /// The group.
    pub group: ConsumerGroup,
}

impl WriteExt for MemberListRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("consumerGroup", self.group.as_str());
    }
}

impl Request for MemberListRequest {
    const CODE: RequestCode = RequestCode::GET_CONSUMER_LIST_BY_GROUP;
    type Answer = MemberList;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("consumerGroup")?.into(),
        })
    }
}

/// The members of a group, one entry for each connection, in no order: a client whose old connection
/// the broker has not given up yet is listed twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberList {
    /// Their ids.
    #[serde(rename = "consumerIdList", default)]
    pub client_ids: Vec<ClientId>,
}

json_answer!(MemberList);

/// `NOTIFY_CONSUMER_IDS_CHANGED`, from a broker and one-way: members came, went or changed their
/// topics. The one who joins hears it too, before the answer to its heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembersChanged {
    /// The group.
    pub group: ConsumerGroup,
}

impl WriteExt for MembersChanged {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("consumerGroup", self.group.as_str());
    }
}

impl Request for MembersChanged {
    const CODE: RequestCode = RequestCode::NOTIFY_CONSUMER_IDS_CHANGED;
    type Answer = Done;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("consumerGroup")?.into(),
        })
    }
}
