//! Where a topic lives: asked of a name server.
//= rocketmq: GetRouteInfoRequestHeader, TopicRouteData

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{Answer, AnswerError, Malformed, Request, expect_success, json_body};
use crate::ids::{BrokerName, Topic};
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, Header, WriteExt};
use crate::wire::fastjson::{self, ObjectWriter};

/// The broker id of a master; all others are slaves.
pub const MASTER_ID: i64 = 0;

/// How many queues of one topic a broker may have. Java knows no limit; ours keeps a damaged route
/// from asking for memory.
pub const QUEUE_COUNT_MAX: u32 = 65_536;

/// From this version on (4.9.4) clients read a route in strict JSON without saying so.
const STANDARD_JSON_VERSION: i32 = 401;

/// `GET_ROUTEINFO_BY_TOPIC`: which brokers have the topic. Unknown topics are refused with
/// [`TOPIC_NOT_EXIST`](crate::wire::code::ResponseCode::TOPIC_NOT_EXIST).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRequest {
    /// The topic, with its prefix and namespace.
    pub topic: Topic,
    /// Ask for broker ids in quotes. Name servers before 4.9.4 do not know the field; the answer is
    /// read in both forms anyway.
    pub standard_json: bool,
}

impl RouteRequest {
    /// Whether a client that states `version` reads strict JSON; otherwise it expects a
    /// [`DialectRoute`].
    #[must_use]
    pub const fn reads_standard_json(&self, version: i32) -> bool {
        self.standard_json || version >= STANDARD_JSON_VERSION
    }
}

impl WriteExt for RouteRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("topic", self.topic.as_str());
        if self.standard_json {
            out.bool("acceptStandardJsonOnly", true);
        }
    }
}

impl Request for RouteRequest {
    const CODE: RequestCode = RequestCode::GET_ROUTEINFO_BY_TOPIC;
    type Answer = TopicRoute;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            // Name servers take an absent topic for one that they do not know.
            topic: ext.get("topic").unwrap_or_default().into(),
            standard_json: ext.get_bool("acceptStandardJsonOnly").unwrap_or(false),
        })
    }
}

/// The route of one topic. Absent parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicRoute {
    /// The order configuration of the topic (`broker:queues;…`), which only producers use.
    #[serde(default, rename = "orderTopicConf", skip_serializing_if = "Option::is_none")]
    pub order_conf: Option<String>,
    /// How many queues each broker has.
    #[serde(default, rename = "queueDatas", deserialize_with = "or_default")]
    pub queues: Vec<QueueData>,
    /// The addresses of these brokers.
    #[serde(default, rename = "brokerDatas", deserialize_with = "or_default")]
    pub brokers: Vec<BrokerData>,
    /// Where the queues of a static topic are, by broker; empty for any other topic.
    #[serde(
        default,
        rename = "topicQueueMappingByBroker",
        deserialize_with = "or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub static_queues: BTreeMap<BrokerName, StaticQueues>,
}

/// The queues of a topic on one broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueData {
    /// The broker.
    #[serde(rename = "brokerName")]
    pub broker: BrokerName,
    /// Permission bits of topic and broker combined: 4 read, 2 write, 1 inherit, 8 priority.
    #[serde(default)]
    pub perm: i32,
    /// Consumers read the queues 0 to this, exclusive.
    #[serde(rename = "readQueueNums", default, deserialize_with = "queue_count")]
    pub read_queues: u32,
    /// Flags of the topic, for information. Brokers up to 4.8 spell the name differently and mean
    /// nothing more by it.
    #[serde(default)]
    pub topic_sys_flag: i32,
    /// Producers write to the queues 0 to this, exclusive.
    #[serde(rename = "writeQueueNums", default, deserialize_with = "queue_count")]
    pub write_queues: u32,
}

impl QueueData {
    /// Whether consumers may read here.
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.perm & 4 != 0
    }

    /// Whether producers may write here.
    #[must_use]
    pub const fn is_writable(&self) -> bool {
        self.perm & 2 != 0
    }
}

/// The addresses of a broker: a master and its slaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokerData {
    /// The cluster it belongs to.
    #[serde(default, deserialize_with = "or_default")]
    pub cluster: String,
    /// Its name.
    #[serde(rename = "brokerName")]
    pub name: BrokerName,
    /// `host:port` by broker id. Any of them may be missing, the [`MASTER_ID`] too.
    #[serde(rename = "brokerAddrs", default, deserialize_with = "or_default")]
    pub addresses: BTreeMap<i64, String>,
    /// The zone it stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_name: Option<String>,
    /// Whether a slave may stand in for a lost master.
    #[serde(default)]
    pub enable_acting_master: bool,
}

/// The part of a static topic's queues that one broker has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticQueues {
    /// The topic.
    pub topic: Topic,
    /// Which set of queues this belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// How many queues the topic has in all.
    #[serde(default)]
    pub total_queues: i32,
    /// The broker.
    #[serde(rename = "bname")]
    pub broker: BrokerName,
    /// Of several claims on a queue the one with the highest number counts.
    #[serde(default)]
    pub epoch: i64,
    /// The broker's own queue id by queue id of the topic.
    #[serde(rename = "currIdMap", default, deserialize_with = "or_default")]
    pub ids: BTreeMap<i32, i32>,
}

/// `null` counts as absent.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

fn queue_count<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    // Brokers let an operator set −1, which is as good as none.
    let count = u32::try_from(i32::deserialize(from)?).unwrap_or(0);
    if count > QUEUE_COUNT_MAX {
        return Err(de::Error::custom("too many queues"));
    }
    Ok(count)
}

impl WriteExt for TopicRoute {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for TopicRoute {
    fn body(&self) -> Bytes {
        json_body(&Written {
            route: self,
            filter_servers: BTreeMap::new(),
        })
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(fastjson::from_slice(body)?)
    }
}

/// A route as name servers write it.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    route: &'a TopicRoute,
    /// Servers that filtered are long gone; their empty table is not.
    #[serde(rename = "filterServerTable")]
    filter_servers: BTreeMap<&'a str, &'a str>,
}

/// A [`TopicRoute`] as name servers write it for clients before 4.9.4: broker ids and queue ids are bare
/// integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialectRoute(pub TopicRoute);

impl WriteExt for DialectRoute {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for DialectRoute {
    fn body(&self) -> Bytes {
        let TopicRoute {
            order_conf,
            queues,
            brokers,
            static_queues,
        } = &self.0;
        let mut out = Vec::new();
        ObjectWriter::write(&mut out, |route| {
            route.list("brokerDatas", brokers, BrokerData::write);
            route.object("filterServerTable", |_| ());
            if let Some(conf) = order_conf {
                route.member("orderTopicConf", conf);
            }
            route.member("queueDatas", queues);
            if !static_queues.is_empty() {
                route.object("topicQueueMappingByBroker", |table| {
                    for (broker, queues) in static_queues {
                        table.object(broker.as_str(), |object| queues.write(object));
                    }
                });
            }
        });
        out.into()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        TopicRoute::decode(header, body).map(Self)
    }
}

impl BrokerData {
    /// Writes the members with bare integers for broker ids.
    pub(super) fn write(&self, object: &mut ObjectWriter<'_>) {
        object.object("brokerAddrs", |table| {
            for (id, address) in &self.addresses {
                table.entry(id, address);
            }
        });
        object.member("brokerName", &self.name);
        object.member("cluster", &self.cluster);
        object.member("enableActingMaster", &self.enable_acting_master);
        if let Some(zone) = &self.zone_name {
            object.member("zoneName", zone);
        }
    }
}

impl StaticQueues {
    /// Writes the members with bare integers for queue ids.
    fn write(&self, object: &mut ObjectWriter<'_>) {
        object.member("bname", &self.broker);
        object.object("currIdMap", |table| {
            for (id, own) in &self.ids {
                table.entry(id, own);
            }
        });
        object.member("dirty", &false);
        object.member("epoch", &self.epoch);
        if let Some(scope) = &self.scope {
            object.member("scope", scope);
        }
        object.member("topic", &self.topic);
        object.member("totalQueues", &self.total_queues);
    }
}
