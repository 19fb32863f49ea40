//! What this member tells of itself to who asks how it is (307): its settings by Java's names, its subscriptions, its
//! queues, and how its topics are getting on.
//!
//! Every figure is true of this client; where Java's name means something that it does not have, the property is
//! left out. Queues whose start is still being looked for, and those that are being given back, are not among those
//! that are owned.
//= rocketmq: DefaultMQPushConsumerImpl.consumerRunningInfo

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::time::Duration;

use crate::config::{ClientConfig, MessageModel, StartAt};
use crate::consumer::cx::Cx;
use crate::ids::{MessageQueue, PeerAddr, QueueOffset};
use crate::status::LockStatus;
use crate::wire::command::VERSION_NAME;
use crate::wire::request::heartbeat::ConsumeType;
use crate::wire::request::running_info::{ConsumerRunningInfo, QueueInfo, property};

use super::super::Group;
use super::super::locks::LEASE;
use super::super::queue::{Queue, Tenure};

/// The version of this library.
const CRATE_VERSION: (&str, &str) = ("rocketmqConsumerVersion", env!("CARGO_PKG_VERSION"));

const MIB: u64 = 1 << 20;

impl Group {
    /// All of it, but for what somebody else knows better.
    pub(crate) fn running_info(
        &self,
        cx: &Cx<'_>,
        client: &ClientConfig,
        name_servers: &[PeerAddr],
    ) -> ConsumerRunningInfo {
        let topics = self.subscriptions.keys();
        ConsumerRunningInfo {
            jstack: None,
            pop_queues: BTreeMap::new(),
            queues: self.queue_infos(cx),
            properties: self.properties(client, name_servers),
            topics: topics
                .map(|topic| (topic.clone(), self.tempos.status(cx.now, topic)))
                .collect(),
            subscriptions: self.consumer_data().subscriptions,
            user_info: BTreeMap::new(),
        }
    }

    fn queue_infos(&self, cx: &Cx<'_>) -> BTreeMap<MessageQueue, QueueInfo> {
        let is_ordered = self.config.is_orderly();
        let owned = self.by_name.iter().filter_map(|(name, key)| {
            let tenure = self.queues.get(*key).and_then(Queue::tenure)?;
            let lock = self.locks.as_ref().and_then(|locks| locks.status(name, cx.now));
            Some((name.clone(), queue_info(cx, tenure, is_ordered, lock)))
        });
        owned.collect()
    }

    fn properties(&self, client: &ClientConfig, name_servers: &[PeerAddr]) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let mut put = |name: &str, value: String| {
            all.insert(name.to_owned(), value);
        };
        let servers: String = name_servers.iter().map(|server| format!("{server};")).collect();
        let (permits, _) = self.dispatch.permits();
        put(property::CONCURRENCY, permits.to_string());
        put(property::ORDERLY, self.config.is_orderly().to_string());
        put(property::CONSUME_TYPE, ConsumeType::Passively.name().to_owned());
        put(property::CLIENT_VERSION, VERSION_NAME.to_owned());
        put(property::STARTED_AT, self.started_at.as_unix_millis().to_string());
        put(
            "namesrvAddr",
            servers.strip_suffix(';').unwrap_or_default().to_owned(),
        );
        put(property::NAME_SERVERS, servers);
        put(CRATE_VERSION.0, CRATE_VERSION.1.to_owned());
        self.identity(&mut put);
        self.limits(&mut put);
        for (name, every) in [
            ("pollNameServerInterval", client.route_interval),
            ("heartbeatBrokerInterval", client.heartbeat_interval),
            ("persistConsumerOffsetInterval", self.config.commit_interval),
            ("suspendCurrentQueueTimeMillis", self.config.suspend_time),
            ("brokerSuspendMaxTimeMillis", self.config.pull_hold),
        ] {
            put(name, millis(every));
        }
        put("clientId", client.client_id.as_str().to_owned());
        all
    }

    fn identity(&self, put: &mut impl FnMut(&str, String)) {
        let config = &self.config;
        put("consumerGroup", self.name.as_str().to_owned());
        let model = match config.model {
            MessageModel::Clustering => "CLUSTERING",
            MessageModel::Broadcasting => "BROADCASTING",
        };
        put("messageModel", model.to_owned());
        let (from, time) = match config.start_at {
            StartAt::Latest => ("CONSUME_FROM_LAST_OFFSET", None),
            StartAt::Earliest => ("CONSUME_FROM_FIRST_OFFSET", None),
            StartAt::Time(time) => ("CONSUME_FROM_TIMESTAMP", Some(time)),
        };
        put("consumeFromWhere", from.to_owned());
        if let Some(time) = time {
            // Java writes it as a date of its own time zone, which nobody else knows.
            put("consumeTimestamp", time.as_unix_millis().to_string());
        }
        put(
            "allocateMessageQueueStrategy",
            config.strategy.name().into_owned(),
        );
    }

    fn limits(&self, put: &mut impl FnMut(&str, String)) {
        let config = &self.config;
        let (permits, _) = self.dispatch.permits();
        for (name, number) in [
            ("consumeThreadMin", u64::from(permits)),
            ("consumeThreadMax", u64::from(permits)),
            ("consumeMessageBatchMaxSize", config.handler_batch.into()),
            ("pullBatchSize", config.pull_batch.into()),
            ("pullThresholdForQueue", config.queue_count_max.into()),
            ("pullThresholdSizeForQueue", config.queue_bytes_max.div_ceil(MIB)),
            ("consumeConcurrentlyMaxSpan", config.queue_span_max.into()),
            ("maxReconsumeTimes", config.max_reconsume().into()),
            ("consumeTimeout", config.delivery_deadline.as_secs().div_ceil(60)),
        ] {
            put(name, number.to_string());
        }
    }
}

fn queue_info(cx: &Cx<'_>, tenure: &Tenure, is_ordered: bool, lock: Option<LockStatus>) -> QueueInfo {
    let none = QueueOffset(0);
    let (cached_min_offset, cached_max_offset) = tenure.window.cached().unwrap_or((none, none));
    let handed = tenure.window.handed().filter(|_| is_ordered);
    let (handed_min_offset, handed_max_offset) = handed.unwrap_or((none, none));
    let handed_count = if is_ordered { tenure.window.out() } else { 0 };
    let wall = |at| cx.wall.minus(cx.now.saturating_since(at));
    QueueInfo {
        cached_count: count(tenure.window.unfinished()),
        cached_max_offset,
        cached_min_offset,
        cached_mib: i32::try_from(tenure.window.bytes() / MIB).unwrap_or(i32::MAX),
        commit_offset: Some(tenure.window.lowest_unfinished()),
        dropped: false,
        last_consume: tenure.last_run.map(wall),
        last_lock: lock.and_then(|lock| lock.expires).map(|at| wall(at - LEASE)),
        last_pull: tenure.pull.asked_at().map(wall),
        locked: lock.is_some_and(|lock| lock.held),
        handed_count: i32::try_from(handed_count).unwrap_or(i32::MAX),
        handed_max_offset,
        handed_min_offset,
        try_unlock_times: 0,
    }
}

fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}
