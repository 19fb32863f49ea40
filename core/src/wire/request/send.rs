//! Storing a message: for producers, and for a consumer that puts a message on its retry topic itself.
//= rocketmq: SendMessageRequestHeader, SendMessageRequestHeaderV2, SendMessageResponseHeader

use alloc::string::String;

use bytes::Bytes;

use super::{Answer, AnswerError, Malformed, Request, offset};
use crate::ids::{BrokerName, QueueId, QueueOffset, Topic};
use crate::time::WallTime;
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::{ExtFields, ExtWriter, FieldError, FieldFault, Header, WriteExt};

/// Which of the three requests that store messages it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendKind {
    /// `SEND_MESSAGE`: one message, field names written out.
    Long,
    /// `SEND_MESSAGE_V2`: one message, one letter for each field name. What clients use.
    Short,
    /// `SEND_BATCH_MESSAGE`: several messages in the body, short field names.
    Batch,
}

/// The topic that every broker has and whose settings a new topic takes over.
//= rocketmq: TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC
pub const DEFAULT_TOPIC: &str = "TBW102";

/// How many queues clients ask for when a topic is new.
//= rocketmq: DefaultMQProducer.defaultTopicQueueNums
pub const DEFAULT_TOPIC_QUEUES: i32 = 4;

/// A request to store a message, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// Which request carries it.
    pub kind: SendKind,
    /// The group of the producer.
    pub producer_group: String,
    /// The topic.
    pub topic: Topic,
    /// The topic whose settings a new topic takes over, usually [`DEFAULT_TOPIC`].
    pub default_topic: Topic,
    /// How many queues a new topic gets.
    pub default_topic_queues: i32,
    /// The queue; `None` leaves it to the broker.
    pub queue: Option<QueueId>,
    /// Compression and transaction bits.
    pub sys_flag: i32,
    /// The producer's time.
    pub born_timestamp: WallTime,
    /// The user's own flag.
    pub flag: i32,
    /// The properties as they are stored.
    pub properties: Option<String>,
    /// How often it has been delivered again; for retry topics.
    pub reconsume_times: Option<i32>,
    /// Marks a topic of a unit.
    pub unit_mode: Option<bool>,
    /// How often it may be delivered again; for retry topics.
    pub max_reconsume_times: Option<i32>,
    /// The broker, for those that serve several (since 5.1).
    pub broker: Option<BrokerName>,
    /// The message's body, compressed if the bits say so; brokers refuse an empty one.
    pub body: Bytes,
}

/// Names of the fields on the wire.
struct Names {
    producer_group: &'static str,
    topic: &'static str,
    default_topic: &'static str,
    default_topic_queues: &'static str,
    queue: &'static str,
    sys_flag: &'static str,
    born_timestamp: &'static str,
    flag: &'static str,
    properties: &'static str,
    reconsume_times: &'static str,
    unit_mode: &'static str,
    max_reconsume_times: &'static str,
    batch: &'static str,
    broker: &'static str,
}

const LONG: Names = Names {
    producer_group: "producerGroup",
    topic: "topic",
    default_topic: "defaultTopic",
    default_topic_queues: "defaultTopicQueueNums",
    queue: "queueId",
    sys_flag: "sysFlag",
    born_timestamp: "bornTimestamp",
    flag: "flag",
    properties: "properties",
    reconsume_times: "reconsumeTimes",
    unit_mode: "unitMode",
    max_reconsume_times: "maxReconsumeTimes",
    batch: "batch",
    broker: "bname",
};

const SHORT: Names = Names {
    producer_group: "a",
    topic: "b",
    default_topic: "c",
    default_topic_queues: "d",
    queue: "e",
    sys_flag: "f",
    born_timestamp: "g",
    flag: "h",
    properties: "i",
    reconsume_times: "j",
    unit_mode: "k",
    max_reconsume_times: "l",
    batch: "m",
    broker: "n",
};

impl WriteExt for SendRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        let names = match self.kind {
            SendKind::Long => LONG,
            SendKind::Short | SendKind::Batch => SHORT,
        };
        out.text(names.producer_group, &self.producer_group);
        out.text(names.topic, self.topic.as_str());
        out.text(names.default_topic, self.default_topic.as_str());
        out.int(names.default_topic_queues, self.default_topic_queues);
        out.int(names.queue, self.queue.map_or(-1, |queue| queue.0));
        out.int(names.sys_flag, self.sys_flag);
        out.int(names.born_timestamp, self.born_timestamp.as_unix_millis());
        out.int(names.flag, self.flag);
        out.opt_text(names.properties, self.properties.as_deref());
        out.opt_int(names.reconsume_times, self.reconsume_times);
        out.opt_bool(names.unit_mode, self.unit_mode);
        out.opt_int(names.max_reconsume_times, self.max_reconsume_times);
        out.bool(names.batch, self.kind == SendKind::Batch);
        out.opt_text(names.broker, self.broker.as_ref().map(BrokerName::as_str));
    }
}

impl Request for SendRequest {
    const CODE: RequestCode = RequestCode::SEND_MESSAGE_V2;
    type Answer = SendAnswer;

    fn code(&self) -> RequestCode {
        match self.kind {
            SendKind::Long => RequestCode::SEND_MESSAGE,
            SendKind::Short => Self::CODE,
            SendKind::Batch => RequestCode::SEND_BATCH_MESSAGE,
        }
    }

    fn body(&self) -> Bytes {
        self.body.clone()
    }

    /// The field names tell which of the three requests it is.
    fn decode(ext: &ExtFields<'_>, body: &Bytes) -> Result<Self, Malformed> {
        let (single, names) = if ext.get(LONG.topic).is_some() {
            (SendKind::Long, LONG)
        } else {
            (SendKind::Short, SHORT)
        };
        let is_batch = ext.get_bool(names.batch) == Some(true);
        let kind = if is_batch { SendKind::Batch } else { single };
        let queue = ext.require_i32(names.queue)?;
        Ok(Self {
            kind,
            // Brokers do not miss it.
            producer_group: ext.get(names.producer_group).unwrap_or_default().into(),
            topic: ext.require(names.topic)?.into(),
            default_topic: ext.require(names.default_topic)?.into(),
            default_topic_queues: ext.require_i32(names.default_topic_queues)?,
            queue: (queue >= 0).then_some(QueueId(queue)),
            sys_flag: ext.require_i32(names.sys_flag)?,
            born_timestamp: WallTime::from_unix_millis(ext.require_i64(names.born_timestamp)?),
            flag: ext.require_i32(names.flag)?,
            properties: ext.get(names.properties).map(Into::into),
            reconsume_times: ext.get_i32(names.reconsume_times)?,
            unit_mode: ext.get_bool(names.unit_mode),
            max_reconsume_times: ext.get_i32(names.max_reconsume_times)?,
            broker: ext.get(names.broker).map(Into::into),
            body: body.clone(),
        })
    }
}

/// How well a message is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendStatus {
    /// As well as the broker is set to.
    Stored,
    /// Stored, but not flushed to disk in time.
    FlushDiskTimeout,
    /// Stored, but there is no slave to copy it to.
    SlaveNotAvailable,
    /// Stored, but not copied to a slave in time.
    FlushSlaveTimeout,
}

/// The answer to a [`SendRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendAnswer {
    /// How well it is stored.
    pub status: SendStatus,
    /// The id that tells where it lies; several with commas between them for a batch.
    pub message_id: String,
    /// The queue it was put into.
    pub queue: QueueId,
    /// Its offset there. Without meaning for a delayed message, which waits in another queue.
    pub offset: Option<QueueOffset>,
    /// The id its producer gave it.
    pub transaction_id: Option<String>,
}

impl WriteExt for SendAnswer {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("msgId", &self.message_id);
        out.int("queueId", self.queue.0);
        out.int("queueOffset", self.offset.map_or(-1, |offset| offset.0));
        out.opt_text("transactionId", self.transaction_id.as_deref());
    }
}

impl Answer for SendAnswer {
    fn code(&self) -> ResponseCode {
        match self.status {
            SendStatus::Stored => ResponseCode::SUCCESS,
            SendStatus::FlushDiskTimeout => ResponseCode::FLUSH_DISK_TIMEOUT,
            SendStatus::SlaveNotAvailable => ResponseCode::SLAVE_NOT_AVAILABLE,
            SendStatus::FlushSlaveTimeout => ResponseCode::FLUSH_SLAVE_TIMEOUT,
        }
    }

    fn decode(header: &Header<'_>, _: &Bytes) -> Result<Self, AnswerError> {
        let status = match ResponseCode(header.code) {
            ResponseCode::SUCCESS => SendStatus::Stored,
            ResponseCode::FLUSH_DISK_TIMEOUT => SendStatus::FlushDiskTimeout,
            ResponseCode::SLAVE_NOT_AVAILABLE => SendStatus::SlaveNotAvailable,
            ResponseCode::FLUSH_SLAVE_TIMEOUT => SendStatus::FlushSlaveTimeout,
            _ => return Err(AnswerError::refused(header)),
        };
        let queue = header.ext.require_i32("queueId")?;
        if queue < 0 {
            return Err(FieldError::new("queueId", FieldFault::OutOfRange).into());
        }
        Ok(Self {
            status,
            message_id: header.ext.require("msgId")?.into(),
            queue: QueueId(queue),
            offset: offset(&header.ext, "queueOffset")?,
            transaction_id: header.ext.get("transactionId").map(Into::into),
        })
    }
}
