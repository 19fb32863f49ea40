use bytes::Bytes;
use rocketmq_consumer_core::ids::{BrokerName, Topic};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::request::send::{
    DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUES, SendKind, SendRequest,
};

use crate::clock::Clock;

/// The producer group. Brokers only count by it: messages without transactions need none.
const GROUP: &str = "rocketcat";

/// A message for a broker, without anything in it, for whichever queue.
pub(crate) fn request(topic: &Topic, broker: &BrokerName, clock: Clock) -> SendRequest {
    SendRequest {
        kind: SendKind::Short,
        producer_group: GROUP.into(),
        topic: topic.clone(),
        default_topic: DEFAULT_TOPIC.into(),
        default_topic_queues: DEFAULT_TOPIC_QUEUES,
        queue: None,
        sys_flag: 0,
        born_timestamp: WallTime::from_unix_millis(clock.unix_ms()),
        flag: 0,
        properties: None,
        reconsume_times: Some(0),
        unit_mode: Some(false),
        max_reconsume_times: None,
        broker: Some(broker.clone()),
        body: Bytes::new(),
    }
}
