//! Consumer groups as a broker keeps them: set, listed and deleted.
//= rocketmq: SubscriptionGroupConfig, SubscriptionGroupWrapper
//= rocketmq: DeleteSubscriptionGroupRequestHeader, GetSubscriptionGroupConfigRequestHeader

use alloc::collections::BTreeMap;
use alloc::string::String;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Answer, AnswerError, Done, Malformed, Request, expect_success, json_answer, json_body};
use crate::ids::ConsumerGroup;
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, Header, WriteExt};
use crate::wire::fastjson;

/// The settings of a group. A broker replaces all of them at once: what is absent falls back to its
/// default, so whoever changes one reads the others first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default = "defaults")]
pub struct SubscriptionGroupConfig {
    /// What is special about it. In an [`UpdateGroupRequest`] each name begins with `+` or `-` and a
    /// broker refuses any other: clear it before writing back what was read.
    pub attributes: BTreeMap<String, String>,
    /// The broker id members are sent to for reading: 0, the master.
    pub broker_id: i64,
    /// Whether members may broadcast.
    pub consume_broadcast_enable: bool,
    /// Whether the group may pull at all.
    pub consume_enable: bool,
    /// Of no effect.
    pub consume_from_min_enable: bool,
    /// Whether the group consumes in order; for POP.
    pub consume_message_orderly: bool,
    /// After how many minutes a broker takes a POP message for lost.
    pub consume_timeout_minute: i32,
    /// Its name.
    #[serde(rename = "groupName")]
    pub group: ConsumerGroup,
    /// Unit bits; 0 for most.
    pub group_sys_flag: i32,
    /// Whether members are told of each other.
    pub notify_consumer_ids_changed_enable: bool,
    /// How often a message is delivered again before it is a dead letter, unless a member says how often.
    pub retry_max_times: i32,
    /// How many queues the retry topic has. Without any, messages that are sent back are gone.
    pub retry_queue_nums: i32,
    /// The broker id that lagging members are sent to.
    pub which_broker_when_consume_slowly: i64,
    /// All members without a name here, such as the retry policy, so that writing back loses none.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl SubscriptionGroupConfig {
    /// A group with Java's defaults.
    #[must_use]
    pub fn new(group: ConsumerGroup) -> Self {
        Self {
            group,
            attributes: BTreeMap::new(),
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: false,
            consume_timeout_minute: 15,
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            which_broker_when_consume_slowly: 1,
            other: Map::new(),
        }
    }

    /// Sets the retry policy to Java's default unless there is one: a broker always names it.
    #[cfg(feature = "broker")]
    pub(crate) fn complete(mut self) -> Self {
        let default = || serde_json::json!({ "type": "CUSTOMIZED" });
        self.other.entry("groupRetryPolicy").or_insert_with(default);
        self
    }
}

/// What an absent member means; brokers refuse the absent name.
fn defaults() -> SubscriptionGroupConfig {
    SubscriptionGroupConfig::new("".into())
}

/// `UPDATE_AND_CREATE_SUBSCRIPTIONGROUP`, to a master: from now on the group is as described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateGroupRequest(pub SubscriptionGroupConfig);

impl WriteExt for UpdateGroupRequest {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Request for UpdateGroupRequest {
    const CODE: RequestCode = RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
    type Answer = Done;

    fn body(&self) -> Bytes {
        json_body(&self.0)
    }

    fn decode(_: &ExtFields<'_>, body: &Bytes) -> Result<Self, Malformed> {
        Ok(Self(fastjson::from_slice(body)?))
    }
}

/// `GET_SUBSCRIPTIONGROUP_CONFIG`. A broker that may create groups creates an unknown one, others refuse
/// it with [`SUBSCRIPTION_GROUP_NOT_EXIST`](crate::wire::code::ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST):
/// who only wants to look uses a [`GroupListRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfigRequest {
    /// The group.
    pub group: ConsumerGroup,
}

impl WriteExt for GroupConfigRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("group", self.group.as_str());
    }
}

impl Request for GroupConfigRequest {
    const CODE: RequestCode = RequestCode::GET_SUBSCRIPTIONGROUP_CONFIG;
    type Answer = SubscriptionGroupConfig;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("group")?.into(),
        })
    }
}

json_answer!(SubscriptionGroupConfig);

/// `GET_ALL_SUBSCRIPTIONGROUP_CONFIG`: the groups a broker knows. Brokers before 5.4 answer with all of
/// them, whatever page is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupListRequest {
    /// How many groups to skip.
    pub skip: Option<i32>,
    /// How many groups to answer with.
    pub limit: Option<i32>,
}

impl WriteExt for GroupListRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.opt_int("groupSeq", self.skip);
        out.opt_int("maxGroupNum", self.limit);
    }
}

impl Request for GroupListRequest {
    const CODE: RequestCode = RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG;
    type Answer = GroupTable;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            skip: ext.get_i32("groupSeq")?,
            limit: ext.get_i32("maxGroupNum")?,
        })
    }
}

/// The groups a broker knows, its own among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupTable {
    /// Which state of the table this is.
    #[serde(default)]
    pub data_version: DataVersion,
    /// The groups by name.
    #[serde(rename = "subscriptionGroupTable", default)]
    pub groups: BTreeMap<ConsumerGroup, SubscriptionGroupConfig>,
    /// How many there are in all; since 5.4.
    #[serde(skip)]
    pub total: Option<i32>,
}

/// Which state of a table something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Counts the changes.
    pub counter: i64,
    /// Counts the times a controller chose another master.
    pub state_version: i64,
    /// When it was changed last, in Unix milliseconds.
    pub timestamp: i64,
}

impl WriteExt for GroupTable {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.opt_int(TOTAL, self.total);
    }
}

const TOTAL: &str = "totalGroupNum";

/// The table as brokers write it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenTable<'a> {
    #[serde(flatten)]
    table: &'a GroupTable,
    /// What groups may not read, which no request of ours sets.
    forbidden_table: BTreeMap<&'a str, &'a str>,
}

impl Answer for GroupTable {
    fn body(&self) -> Bytes {
        json_body(&WrittenTable {
            table: self,
            forbidden_table: BTreeMap::new(),
        })
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(Self {
            total: header.ext.get_i32(TOTAL)?,
            ..fastjson::from_slice(body)?
        })
    }
}

/// `DELETE_SUBSCRIPTIONGROUP`: always answered with success. A broker that may create groups makes it
/// again at once unless its progress is deleted too, so look afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteGroupRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// Whether to delete its progress as well.
    pub clean_offset: bool,
}

impl WriteExt for DeleteGroupRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("groupName", self.group.as_str());
        out.bool("cleanOffset", self.clean_offset);
    }
}

impl Request for DeleteGroupRequest {
    const CODE: RequestCode = RequestCode::DELETE_SUBSCRIPTIONGROUP;
    type Answer = Done;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("groupName")?.into(),
            clean_offset: ext.get_bool("cleanOffset").unwrap_or(false),
        })
    }
}
