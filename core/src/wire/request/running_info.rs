//! What a member tells about itself: the body of the answer to a
//! [`RunningInfoRequest`](super::operator::RunningInfoRequest).
//= rocketmq: ConsumerRunningInfo, ProcessQueueInfo, PopProcessQueueInfo, ConsumeStatus

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::heartbeat::SubscriptionData;
use super::number::{maybe_offset, maybe_time, non_negative};
use super::operator::RunningInfo;
use super::queue_table::{queue_table, write_table};
use crate::ids::{MessageQueue, QueueOffset, Topic};
use crate::time::WallTime;
use crate::wire::fastjson::{self, BodyError, ObjectWriter};

/// Settings and state of a member. Whatever is absent is empty, and what has no name here is ignored.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ConsumerRunningInfo {
    /// Stack traces, of a Java member that was asked for them.
    pub jstack: Option<String>,
    /// Its queues, with POP.
    #[serde(rename = "mqPopTable", deserialize_with = "queue_table")]
    pub pop_queues: BTreeMap<MessageQueue, PopQueueInfo>,
    /// Its queues.
    #[serde(rename = "mqTable", deserialize_with = "queue_table")]
    pub queues: BTreeMap<MessageQueue, QueueInfo>,
    /// Settings by Java's names, and a few facts; see [`property`].
    pub properties: BTreeMap<String, String>,
    /// How the topics are getting on.
    #[serde(rename = "statusTable")]
    pub topics: BTreeMap<Topic, TopicStatus>,
    /// What it subscribes to, its own retry topic included.
    #[serde(rename = "subscriptionSet")]
    pub subscriptions: Vec<SubscriptionData>,
    /// What the application adds.
    #[serde(rename = "userConsumerInfo")]
    pub user_info: BTreeMap<String, String>,
}

/// Names of the [`properties`](ConsumerRunningInfo::properties) that operators' tools look at.
pub mod property {
    /// The addresses of the name servers, each followed by `;`.
    pub const NAME_SERVERS: &str = "PROP_NAMESERVER_ADDR";
    /// How many threads, or whatever corresponds to them, consume.
    pub const CONCURRENCY: &str = "PROP_THREADPOOL_CORE_SIZE";
    /// `true` for an ordered consumer.
    pub const ORDERLY: &str = "PROP_CONSUMEORDERLY";
    /// The name of a [`ConsumeType`](crate::wire::request::heartbeat::ConsumeType).
    pub const CONSUME_TYPE: &str = "PROP_CONSUME_TYPE";
    /// The version it states, such as `V5_5_0`.
    pub const CLIENT_VERSION: &str = "PROP_CLIENT_VERSION";
    /// When it was started, in Unix milliseconds.
    pub const STARTED_AT: &str = "PROP_CONSUMER_START_TIMESTAMP";
}

/// One queue of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueInfo {
    /// How many messages are fetched and not finished.
    #[serde(rename = "cachedMsgCount")]
    pub cached_count: i32,
    /// The last of them; 0 without any.
    #[serde(rename = "cachedMsgMaxOffset", deserialize_with = "non_negative")]
    pub cached_max_offset: QueueOffset,
    /// The first of them; 0 without any.
    #[serde(rename = "cachedMsgMinOffset", deserialize_with = "non_negative")]
    pub cached_min_offset: QueueOffset,
    /// Their bodies, in MiB.
    #[serde(rename = "cachedMsgSizeInMiB")]
    pub cached_mib: i32,
    /// Where the next commit stands, if that is known.
    #[serde(with = "maybe_offset")]
    pub commit_offset: Option<QueueOffset>,
    /// The member has just lost the queue.
    #[serde(rename = "droped")]
    pub dropped: bool,
    /// When a message was handed to the application last.
    #[serde(rename = "lastConsumeTimestamp", with = "maybe_time")]
    pub last_consume: Option<WallTime>,
    /// When the lock was renewed last.
    #[serde(rename = "lastLockTimestamp", with = "maybe_time")]
    pub last_lock: Option<WallTime>,
    /// When it was asked for messages last.
    #[serde(rename = "lastPullTimestamp", with = "maybe_time")]
    pub last_pull: Option<WallTime>,
    /// Whether the member holds the lock. Java members say so without ordered consumption too.
    pub locked: bool,
    /// How many messages an ordered handler has.
    #[serde(rename = "transactionMsgCount")]
    pub handed_count: i32,
    /// The last of them; 0 without any.
    #[serde(rename = "transactionMsgMaxOffset", deserialize_with = "non_negative")]
    pub handed_max_offset: QueueOffset,
    /// The first of them; 0 without any.
    #[serde(rename = "transactionMsgMinOffset", deserialize_with = "non_negative")]
    pub handed_min_offset: QueueOffset,
    /// How often giving the lock back had to wait for a handler.
    pub try_unlock_times: i64,
}

/// A queue nothing has been fetched from yet.
impl Default for QueueInfo {
    fn default() -> Self {
        let none = QueueOffset(0);
        Self {
            cached_count: 0,
            cached_max_offset: none,
            cached_min_offset: none,
            cached_mib: 0,
            commit_offset: None,
            dropped: false,
            last_consume: None,
            last_lock: None,
            last_pull: None,
            locked: false,
            handed_count: 0,
            handed_max_offset: none,
            handed_min_offset: none,
            try_unlock_times: 0,
        }
    }
}

/// One queue of a member, with POP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PopQueueInfo {
    /// The member has just lost the queue.
    #[serde(rename = "droped")]
    pub dropped: bool,
    /// When it was asked for messages last.
    #[serde(rename = "lastPopTimestamp", with = "maybe_time")]
    pub last_pop: Option<WallTime>,
    /// How many messages are fetched and not finished.
    pub wait_ack_count: i32,
}

/// How a topic is getting on. Times are in milliseconds, rates per second over the last minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStatus {
    /// Messages that failed in the last hour.
    #[serde(rename = "consumeFailedMsgs")]
    pub failed_messages: i64,
    /// Messages that fail.
    #[serde(rename = "consumeFailedTPS")]
    pub failed_tps: f64,
    /// Messages that succeed.
    #[serde(rename = "consumeOKTPS")]
    pub ok_tps: f64,
    /// How long a handler takes.
    #[serde(rename = "consumeRT")]
    pub consume_millis: f64,
    /// How long a pull takes.
    #[serde(rename = "pullRT")]
    pub pull_millis: f64,
    /// Messages that are fetched.
    #[serde(rename = "pullTPS")]
    pub pull_tps: f64,
}

impl ConsumerRunningInfo {
    /// The answer that tells all this.
    #[must_use]
    pub fn to_answer(&self) -> RunningInfo {
        let mut out = Vec::new();
        ObjectWriter::write(&mut out, |info| {
            if let Some(jstack) = &self.jstack {
                info.member("jstack", jstack);
            }
            write_table(info, "mqPopTable", &self.pop_queues);
            write_table(info, "mqTable", &self.queues);
            info.member("properties", &self.properties);
            info.member("statusTable", &self.topics);
            info.member("subscriptionSet", &self.subscriptions);
            info.member("userConsumerInfo", &self.user_info);
        });
        RunningInfo { json: out.into() }
    }
}

impl RunningInfo {
    /// Reads what the member tells.
    ///
    /// # Errors
    ///
    /// [`BodyError`] when it is not JSON or a member of it is of another type.
    pub fn read(&self) -> Result<ConsumerRunningInfo, BodyError> {
        fastjson::from_slice(&self.json)
    }
}
