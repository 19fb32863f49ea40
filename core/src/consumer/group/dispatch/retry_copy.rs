//! The copy of a failed message that is produced when its broker does not take it back.
//!
//! It says what a copy says that the broker makes itself: where the message came from, how often it has been
//! tried, and when to try it again. The body goes as it is stored, compressed or not.
//!
//! A dead letter is not produced to the topic of the dead letters, which need not exist, but to the retry
//! topic as a message that was tried once too often: the broker buries it at once and makes the topic if it
//! has to.
//= rocketmq: DefaultMQPushConsumerImpl.sendMessageBackAsNormalMessage type=differs
//  reason: keeps the delay level that was asked for, and the body as it is stored.

use alloc::string::ToString as _;

use crate::ids::{BrokerName, Topic};
use crate::message::Message;
use crate::time::WallTime;
use crate::wire::properties::{PropertiesWriter, PropertyError, name};
use crate::wire::request::send::{DEFAULT_TOPIC, SendKind, SendRequest};
use crate::wire::request::send_back::Delay;

/// The group that Java clients name when they produce on their own account.
const PRODUCER: &str = "CLIENT_INNER_PRODUCER";

/// The level of a first retry, when the choice is the broker's: 10 s. Each further one is one higher.
const FIRST_LEVEL: i32 = 3;

/// Properties that the copy does not take over: they are set anew, or meant the first copy only.
const DROPPED: [&str; 6] = [
    name::TRANSACTION_PREPARED,
    name::RETRY_TOPIC,
    name::ORIGIN_MESSAGE_ID,
    name::RECONSUME_TIME,
    name::MAX_RECONSUME_TIMES,
    name::DELAY_LEVEL,
];

/// Everything about the copy that is not in the message.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) retry_topic: Topic,
    pub(crate) delay: Delay,
    /// The limit; one that nobody can reach is not told.
    pub(crate) max_reconsume: u32,
    /// How often it was delivered again here, where that counts.
    pub(crate) tried_here: u32,
    pub(crate) broker: BrokerName,
    pub(crate) now: WallTime,
}

impl Plan {
    /// The limit the copy tells. A dead letter must be one time beyond, so without a limit it is what was tried.
    fn most(&self, times: u32) -> i32 {
        match i32::try_from(self.max_reconsume) {
            Ok(most) if most < i32::MAX => most,
            Ok(_) | Err(_) if self.delay == Delay::DeadLetter => i32::try_from(times).unwrap_or(i32::MAX - 1),
            Ok(_) | Err(_) => i32::MAX,
        }
    }

    /// How often the copy says it was tried, and its delay level.
    fn fate(&self, times: u32) -> (i32, Option<i32>) {
        let most = self.most(times);
        let times = i32::try_from(times).unwrap_or(i32::MAX).saturating_add(1);
        match self.delay {
            Delay::Broker => (times, Some(FIRST_LEVEL.saturating_add(times - 1))),
            Delay::Level(level) => (times, Some(level.into())),
            Delay::DeadLetter => (times.max(most.saturating_add(1)), None),
        }
    }

    /// The level that is told: what the copy carries, −1 for a dead letter.
    pub(crate) fn level(&self, times: u32) -> i32 {
        self.fate(times).1.unwrap_or(-1)
    }
}

/// The request to store the copy.
///
/// # Errors
/// When the properties have no room for what must be added.
pub(crate) fn request(message: &Message, plan: &Plan) -> Result<SendRequest, PropertyError> {
    let tried = message.reconsume_times().saturating_add(plan.tried_here);
    let (times, level) = plan.fate(tried);
    let most = plan.most(tried);
    let mut properties = PropertiesWriter::new();
    for (name, value) in message.properties() {
        if !DROPPED.contains(&&*name) {
            properties.push(&name, &value)?;
        }
    }
    let origin = message.property(name::ORIGIN_MESSAGE_ID);
    properties.push(
        name::ORIGIN_MESSAGE_ID,
        &origin.unwrap_or_else(|| message.msg_id()),
    )?;
    properties.push(name::RETRY_TOPIC, &message.topic())?;
    properties.push(name::RECONSUME_TIME, &times.to_string())?;
    properties.push(name::MAX_RECONSUME_TIMES, &most.to_string())?;
    if let Some(level) = level {
        properties.push(name::DELAY_LEVEL, &level.to_string())?;
    }
    Ok(SendRequest {
        kind: SendKind::Short,
        producer_group: PRODUCER.into(),
        topic: plan.retry_topic.clone(),
        default_topic: DEFAULT_TOPIC.into(),
        default_topic_queues: 4,
        queue: None,
        sys_flag: message.record().sys_flag().compression_bits().0,
        born_timestamp: plan.now,
        flag: message.flag(),
        properties: Some(properties.finish()),
        reconsume_times: Some(times),
        unit_mode: Some(false),
        max_reconsume_times: Some(most),
        broker: Some(plan.broker.clone()),
        body: message.stored_body(),
    })
}
