//! Requests of an operator's tool, over one socket: milliseconds, where `mqadmin` takes seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::AdminError;
use super::remoting::{Connection, Fields, Reply};

/// How long connecting and each answer may take.
const LIMIT: Duration = Duration::from_secs(5);

const QUERY_CONSUMER_OFFSET: i32 = 14;
const UPDATE_CONSUMER_OFFSET: i32 = 15;
const UPDATE_AND_CREATE_TOPIC: i32 = 17;
const UPDATE_BROKER_CONFIG: i32 = 25;
const GET_BROKER_CONFIG: i32 = 26;
const GET_MAX_OFFSET: i32 = 30;
const GET_MIN_OFFSET: i32 = 31;
const GET_CONSUMER_LIST_BY_GROUP: i32 = 38;
const GET_ROUTEINFO_BY_TOPIC: i32 = 105;
const UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: i32 = 200;
const GET_CONSUMER_CONNECTION_LIST: i32 = 203;

const SUCCESS: i32 = 0;
const SYSTEM_ERROR: i32 = 1;
const TOPIC_NOT_EXIST: i32 = 17;
const QUERY_NOT_FOUND: i32 = 22;
const CONSUMER_NOT_ONLINE: i32 = 206;

/// A connection to one name server or broker. Which of the requests a server knows depends on its kind.
#[derive(Debug)]
pub struct AdminClient {
    connection: Connection,
}

/// How a topic is created on one broker. Everything but the attributes is replaced if the topic exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// The topic.
    pub name: String,
    /// Queues that consumers see.
    pub read_queues: u32,
    /// Queues that producers see.
    pub write_queues: u32,
    /// 6 read and write, 4 read, 2 write.
    pub perm: u32,
    /// Whether the topic is marked as ordered.
    pub order: bool,
    /// Signed attributes, for example `+message.type=FIFO`; empty for none.
    pub attributes: String,
}

impl TopicConfig {
    /// A readable and writable topic with `queues` queues both ways.
    #[must_use]
    pub fn new(name: impl Into<String>, queues: u32) -> Self {
        Self {
            name: name.into(),
            read_queues: queues,
            write_queues: queues,
            perm: 6,
            order: false,
            attributes: String::new(),
        }
    }
}

/// How a subscription group is created on one broker: what is written replaces what was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// The group.
    pub name: String,
    /// Deliveries of one message before it becomes a dead letter; 16 by default.
    pub retry_max_times: i32,
    /// Queues of the group's retry topic; 1 by default.
    pub retry_queues: u32,
    /// False refuses every pull (code 16).
    pub consume_enable: bool,
    /// False refuses pulls of broadcasting members.
    pub broadcast_enable: bool,
    /// False stops the broker from telling members that the list of ids changed.
    pub notify_ids_changed: bool,
}

impl GroupConfig {
    /// A group with the broker's defaults.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            retry_max_times: 16,
            retry_queues: 1,
            consume_enable: true,
            broadcast_enable: true,
            notify_ids_changed: true,
        }
    }
}

/// One connection of a group's member, as its broker sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConsumerConnection {
    /// The client id of its heartbeat.
    pub client_id: String,
    /// `ip:port` it comes from.
    pub address: String,
    /// For example `JAVA` or `RUST`.
    pub language: String,
    /// Version ordinal, for example 513 for 5.5.0.
    pub version: i64,
}

/// Where a topic lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicRoute {
    /// Queues per broker name.
    pub queues: Vec<BrokerQueues>,
    /// Addresses per broker name.
    pub brokers: Vec<BrokerAddresses>,
}

/// A topic's queues on one broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerQueues {
    /// The broker's name.
    pub broker: String,
    /// Queues that consumers see.
    pub read_queues: u32,
    /// Queues that producers see.
    pub write_queues: u32,
    /// Permission of topic and broker combined: 4 read, 2 write.
    pub perm: u32,
}

/// The addresses of one broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerAddresses {
    /// The broker's name.
    pub broker: String,
    /// Address by broker id; 0 is the master.
    pub addresses: BTreeMap<i64, String>,
}

impl TopicRoute {
    /// The master's address of a broker.
    #[must_use]
    pub fn master(&self, broker: &str) -> Option<&str> {
        self.address(broker, 0)
    }

    /// The address of a broker with this id.
    #[must_use]
    pub fn address(&self, broker: &str, id: i64) -> Option<&str> {
        let found = self.brokers.iter().find(|entry| entry.broker == broker)?;
        found.addresses.get(&id).map(String::as_str)
    }
}

impl AdminClient {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// When nobody listens there, or does not accept within 5 seconds.
    pub fn connect(address: &str) -> Result<Self, AdminError> {
        Ok(Self {
            connection: Connection::open(address, LIMIT)?,
        })
    }

    /// Where it is connected to.
    #[must_use]
    pub fn address(&self) -> &str {
        self.connection.address()
    }

    /// Any request: the answer whatever its code, for what has no method here and for tests of refusals.
    ///
    /// # Errors
    /// When the connection breaks, or no answer comes within 5 seconds.
    pub fn request(&mut self, code: i32, fields: Fields<'_>, body: &[u8]) -> Result<Reply, AdminError> {
        self.connection.request(code, fields, body)
    }

    /// As [`Self::request`], but a code that is neither success nor in `also` is an error.
    fn call(
        &mut self,
        code: i32,
        fields: Fields<'_>,
        body: &[u8],
        also: &[i32],
    ) -> Result<Reply, AdminError> {
        let reply = self.request(code, fields, body)?;
        if reply.code == SUCCESS || also.contains(&reply.code) {
            return Ok(reply);
        }
        Err(AdminError::Refused {
            address: self.address().into(),
            request: code,
            code: reply.code,
            remark: reply.remark.chars().take(200).collect(),
        })
    }

    /// Creates or changes a topic on this broker (code 17). The name server knows it within half a second.
    ///
    /// # Errors
    /// As every request here: the connection's, or [`AdminError::Refused`].
    pub fn create_topic(&mut self, topic: &TopicConfig) -> Result<(), AdminError> {
        let mut fields: Vec<(&str, &dyn std::fmt::Display)> = vec![
            ("topic", &topic.name),
            ("defaultTopic", &"TBW102"),
            ("readQueueNums", &topic.read_queues),
            ("writeQueueNums", &topic.write_queues),
            ("perm", &topic.perm),
            ("topicFilterType", &"SINGLE_TAG"),
            ("topicSysFlag", &0),
            ("order", &topic.order),
        ];
        if !topic.attributes.is_empty() {
            fields.push(("attributes", &topic.attributes));
        }
        self.call(UPDATE_AND_CREATE_TOPIC, &fields, &[], &[]).map(drop)
    }

    /// Creates or changes a subscription group on this broker (code 200).
    ///
    /// # Errors
    /// As every request here.
    pub fn create_group(&mut self, group: &GroupConfig) -> Result<(), AdminError> {
        let body = json!({
            "groupName": group.name,
            "consumeEnable": group.consume_enable,
            "consumeFromMinEnable": true,
            "consumeBroadcastEnable": group.broadcast_enable,
            "retryQueueNums": group.retry_queues,
            "retryMaxTimes": group.retry_max_times,
            "notifyConsumerIdsChangedEnable": group.notify_ids_changed,
        });
        self.call(
            UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            &[],
            body.to_string().as_bytes(),
            &[],
        )
        .map(drop)
    }

    /// The committed offset of a group (code 14); `None` when none is stored.
    ///
    /// # Errors
    /// As every request here.
    pub fn query_offset(
        &mut self,
        group: &str,
        topic: &str,
        queue_id: u32,
    ) -> Result<Option<i64>, AdminError> {
        let fields: Fields<'_> = &[
            ("consumerGroup", &group),
            ("topic", &topic),
            ("queueId", &queue_id),
            // Otherwise a young queue without an offset looks like one that was committed at 0.
            ("setZeroIfNotFound", &false),
        ];
        let reply = self.call(QUERY_CONSUMER_OFFSET, fields, &[], &[QUERY_NOT_FOUND])?;
        if reply.code == QUERY_NOT_FOUND {
            Ok(None)
        } else {
            self.offset(&reply).map(Some)
        }
    }

    /// Overwrites the committed offset of a group (code 15). The broker accepts any number.
    ///
    /// # Errors
    /// As every request here.
    pub fn update_offset(
        &mut self,
        group: &str,
        topic: &str,
        queue_id: u32,
        offset: i64,
    ) -> Result<(), AdminError> {
        let fields: Fields<'_> = &[
            ("consumerGroup", &group),
            ("topic", &topic),
            ("queueId", &queue_id),
            ("commitOffset", &offset),
        ];
        self.call(UPDATE_CONSUMER_OFFSET, fields, &[], &[]).map(drop)
    }

    /// The offset that the next message of a queue will get (code 30). Follows a send after some milliseconds;
    /// 0 for an unknown queue.
    ///
    /// # Errors
    /// As every request here.
    pub fn max_offset(&mut self, topic: &str, queue_id: u32) -> Result<i64, AdminError> {
        let reply = self.call(
            GET_MAX_OFFSET,
            &[("topic", &topic), ("queueId", &queue_id)],
            &[],
            &[],
        )?;
        self.offset(&reply)
    }

    /// The lowest offset a queue still has (code 31); 0 for an unknown queue.
    ///
    /// # Errors
    /// As every request here.
    pub fn min_offset(&mut self, topic: &str, queue_id: u32) -> Result<i64, AdminError> {
        let reply = self.call(
            GET_MIN_OFFSET,
            &[("topic", &topic), ("queueId", &queue_id)],
            &[],
            &[],
        )?;
        self.offset(&reply)
    }

    /// The client ids of a group's members, sorted, one per connection (code 38); empty when none is online.
    ///
    /// # Errors
    /// As every request here.
    pub fn consumer_ids(&mut self, group: &str) -> Result<Vec<String>, AdminError> {
        let reply = self.call(
            GET_CONSUMER_LIST_BY_GROUP,
            &[("consumerGroup", &group)],
            &[],
            &[SYSTEM_ERROR],
        )?;
        if reply.code == SYSTEM_ERROR {
            // The broker's way of saying that nobody is there.
            return Ok(Vec::new());
        }
        let body = self.json(&reply)?;
        let mut ids: Vec<String> = items(&body["consumerIdList"])
            .filter_map(|id| id.as_str().map(str::to_owned))
            .collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The connections of a group on this broker, sorted (code 203); empty when none is online.
    ///
    /// # Errors
    /// As every request here.
    pub fn consumer_connections(&mut self, group: &str) -> Result<Vec<ConsumerConnection>, AdminError> {
        let reply = self.call(
            GET_CONSUMER_CONNECTION_LIST,
            &[("consumerGroup", &group)],
            &[],
            &[CONSUMER_NOT_ONLINE],
        )?;
        if reply.code == CONSUMER_NOT_ONLINE {
            return Ok(Vec::new());
        }
        let body = self.json(&reply)?;
        let mut connections: Vec<ConsumerConnection> = items(&body["connectionSet"])
            .map(|entry| ConsumerConnection {
                client_id: string(&entry["clientId"]),
                address: string(&entry["clientAddr"]),
                language: string(&entry["language"]),
                version: entry["version"].as_i64().unwrap_or_default(),
            })
            .collect();
        connections.sort_unstable();
        Ok(connections)
    }

    /// Where a topic lives, as this name server knows it (code 105); `None` when it does not. A broker's name
    /// in place of a topic gives the route of that broker.
    ///
    /// # Errors
    /// As every request here.
    pub fn route(&mut self, topic: &str) -> Result<Option<TopicRoute>, AdminError> {
        let reply = self.call(
            GET_ROUTEINFO_BY_TOPIC,
            &[("topic", &topic)],
            &[],
            &[TOPIC_NOT_EXIST],
        )?;
        if reply.code == TOPIC_NOT_EXIST {
            return Ok(None);
        }
        let body = self.json(&reply)?;
        let count = |value: &Value| {
            value
                .as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or_default()
        };
        let queues = items(&body["queueDatas"]).map(|entry| BrokerQueues {
            broker: string(&entry["brokerName"]),
            read_queues: count(&entry["readQueueNums"]),
            write_queues: count(&entry["writeQueueNums"]),
            perm: count(&entry["perm"]),
        });
        let brokers = items(&body["brokerDatas"]).map(|entry| BrokerAddresses {
            broker: string(&entry["brokerName"]),
            addresses: entry["brokerAddrs"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(id, address)| Some((id.parse().ok()?, address.as_str()?.to_owned())))
                .collect(),
        });
        Ok(Some(TopicRoute {
            queues: queues.collect(),
            brokers: brokers.collect(),
        }))
    }

    /// Changes settings of this broker while it runs (code 25), and reads them back: the request itself
    /// succeeds also for what the broker ignores. Useful: `brokerPermission` (`4` refuses send backs with code
    /// 16, `2` refuses pulls), `autoCreateSubscriptionGroup`, `useServerSideResetOffset`, `maxMessageSize`.
    ///
    /// # Errors
    /// As every request here; [`AdminError::Malformed`] when a setting did not take.
    pub fn update_broker_config(&mut self, settings: &[(&str, &str)]) -> Result<(), AdminError> {
        let text: String = settings
            .iter()
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect();
        self.call(UPDATE_BROKER_CONFIG, &[], text.as_bytes(), &[])?;
        let now = self.broker_config()?;
        for (key, wanted) in settings {
            let got = now.get(*key).map(String::as_str);
            if got != Some(*wanted) {
                return Err(self
                    .connection
                    .malformed(format!("{key} is {got:?} after setting it to {wanted}")));
            }
        }
        Ok(())
    }

    /// Every setting of this broker (code 26).
    ///
    /// # Errors
    /// As every request here.
    pub fn broker_config(&mut self) -> Result<BTreeMap<String, String>, AdminError> {
        let reply = self.call(GET_BROKER_CONFIG, &[], &[], &[])?;
        Ok(String::from_utf8_lossy(&reply.body)
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect())
    }

    fn offset(&self, reply: &Reply) -> Result<i64, AdminError> {
        reply
            .number("offset")
            .ok_or_else(|| self.connection.malformed("an answer without offset"))
    }

    fn json(&self, reply: &Reply) -> Result<Value, AdminError> {
        serde_json::from_slice(&reply.body)
            .map_err(|e| self.connection.malformed(format!("a body that is not JSON: {e}")))
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
