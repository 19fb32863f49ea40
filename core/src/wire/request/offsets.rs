//! Progress of a group, and the bounds of a queue.
//= rocketmq: QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
//= rocketmq: SearchOffsetRequestHeader, GetMaxOffsetRequestHeader, GetMinOffsetRequestHeader
//= rocketmq: GetEarliestMsgStoretimeRequestHeader

use bytes::Bytes;

use super::{
    Answer, AnswerError, Done, Malformed, Request, expect_success, offset, require_offset, wire_names,
};
use crate::ids::{BrokerName, ConsumerGroup, QueueId, QueueOffset, Topic};
use crate::time::WallTime;
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::{ExtFields, ExtWriter, FieldError, FieldFault, Header, WriteExt};

/// One queue as requests name it. The broker's name is for those that serve several (since 5.0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRef {
    /// The topic.
    pub topic: Topic,
    /// The queue within the broker.
    pub queue: QueueId,
    /// The broker.
    pub broker: Option<BrokerName>,
}

impl QueueRef {
    fn decode(ext: &ExtFields<'_>) -> Result<Self, FieldError> {
        Ok(Self {
            topic: ext.require("topic")?.into(),
            queue: QueueId(ext.require_i32("queueId")?),
            broker: ext.get("bname").map(Into::into),
        })
    }
}

impl WriteExt for QueueRef {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("topic", self.topic.as_str());
        out.int("queueId", self.queue.0);
        out.opt_text("bname", self.broker.as_ref().map(BrokerName::as_str));
    }
}

/// `QUERY_CONSUMER_OFFSET`: how far has the group come in a queue?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryOffsetRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// The queue.
    pub queue: QueueRef,
    /// Whether a broker that has stored nothing may answer 0 if the queue is young (since 5.0); it
    /// does unless told not to.
    pub set_zero_if_not_found: Option<bool>,
}

impl WriteExt for QueryOffsetRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("consumerGroup", self.group.as_str());
        self.queue.write_ext(out);
        out.opt_bool("setZeroIfNotFound", self.set_zero_if_not_found);
    }
}

impl Request for QueryOffsetRequest {
    const CODE: RequestCode = RequestCode::QUERY_CONSUMER_OFFSET;
    type Answer = StoredOffset;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            // Brokers take an absent group for one that has stored nothing.
            group: ext.get("consumerGroup").unwrap_or_default().into(),
            queue: QueueRef::decode(ext)?,
            set_zero_if_not_found: ext.get_bool("setZeroIfNotFound"),
        })
    }
}

/// The progress that is stored; `None` is an answer too, unlike a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredOffset(pub Option<QueueOffset>);

impl WriteExt for StoredOffset {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.opt_int("offset", self.0.map(|offset| offset.0));
    }
}

impl Answer for StoredOffset {
    fn code(&self) -> ResponseCode {
        match self.0 {
            Some(_) => ResponseCode::SUCCESS,
            None => ResponseCode::QUERY_NOT_FOUND,
        }
    }

    fn decode(header: &Header<'_>, _: &Bytes) -> Result<Self, AnswerError> {
        if header.code == ResponseCode::QUERY_NOT_FOUND.0 {
            return Ok(Self(None));
        }
        expect_success(header)?;
        header.ext.require("offset")?;
        // −1 can have been stored; to Java as well it is the same as nothing.
        Ok(Self(offset(&header.ext, "offset")?))
    }
}

/// `UPDATE_CONSUMER_OFFSET`: stores progress. The broker takes any number, backwards too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOffsetRequest {
    /// The group.
    pub group: ConsumerGroup,
    /// The queue.
    pub queue: QueueRef,
    /// The offset to continue at.
    pub offset: QueueOffset,
}

impl WriteExt for CommitOffsetRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("consumerGroup", self.group.as_str());
        self.queue.write_ext(out);
        out.int("commitOffset", self.offset.0);
    }
}

impl Request for CommitOffsetRequest {
    const CODE: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
    type Answer = Done;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("consumerGroup")?.into(),
            queue: QueueRef::decode(ext)?,
            offset: QueueOffset(ext.require_i64("commitOffset")?),
        })
    }
}

wire_names! {
    /// Which of several messages of one time is meant.
    Boundary {
        /// The first; also what an absent field means.
        Lower = "LOWER",
        /// The last.
        Upper = "UPPER",
    }
}

/// `SEARCH_OFFSET_BY_TIMESTAMP`: the first offset that was stored at a time or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchOffsetRequest {
    /// The queue.
    pub queue: QueueRef,
    /// The time.
    pub timestamp: WallTime,
    /// Which of several messages of that time.
    pub boundary: Option<Boundary>,
}

impl WriteExt for SearchOffsetRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        self.queue.write_ext(out);
        out.int("timestamp", self.timestamp.as_unix_millis());
        out.opt_text("boundaryType", self.boundary.map(Boundary::name));
    }
}

impl Request for SearchOffsetRequest {
    const CODE: RequestCode = RequestCode::SEARCH_OFFSET_BY_TIMESTAMP;
    type Answer = OffsetAnswer;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        const FIELD: &str = "boundaryType";
        let boundary = ext.get(FIELD).map(|name| {
            Boundary::from_name(&name.to_ascii_uppercase()).ok_or(FieldError::new(FIELD, FieldFault::Unknown))
        });
        Ok(Self {
            queue: QueueRef::decode(ext)?,
            timestamp: WallTime::from_unix_millis(ext.require_i64("timestamp")?),
            boundary: boundary.transpose()?,
        })
    }
}

/// `GET_MAX_OFFSET`: the offset the next message of a queue will get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxOffsetRequest {
    /// The queue.
    pub queue: QueueRef,
    /// Count only what consumers can already see; absent means yes.
    pub committed: Option<bool>,
}

impl WriteExt for MaxOffsetRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        self.queue.write_ext(out);
        out.opt_bool("committed", self.committed);
    }
}

impl Request for MaxOffsetRequest {
    const CODE: RequestCode = RequestCode::GET_MAX_OFFSET;
    type Answer = OffsetAnswer;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            queue: QueueRef::decode(ext)?,
            committed: ext.get_bool("committed"),
        })
    }
}

/// `GET_MIN_OFFSET`: the offset of the oldest message a queue still has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinOffsetRequest {
    /// The queue.
    pub queue: QueueRef,
}

impl WriteExt for MinOffsetRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        self.queue.write_ext(out);
    }
}

impl Request for MinOffsetRequest {
    const CODE: RequestCode = RequestCode::GET_MIN_OFFSET;
    type Answer = OffsetAnswer;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            queue: QueueRef::decode(ext)?,
        })
    }
}

/// `GET_EARLIEST_MSG_STORETIME`: when was the oldest message of a queue stored?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarliestStoreTimeRequest {
    /// The queue.
    pub queue: QueueRef,
}

impl WriteExt for EarliestStoreTimeRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        self.queue.write_ext(out);
    }
}

impl Request for EarliestStoreTimeRequest {
    const CODE: RequestCode = RequestCode::GET_EARLIEST_MSG_STORETIME;
    type Answer = EarliestStoreTime;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            queue: QueueRef::decode(ext)?,
        })
    }
}

/// When the oldest message was stored; `None` for an empty queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarliestStoreTime(pub Option<WallTime>);

impl WriteExt for EarliestStoreTime {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.int("timestamp", self.0.map_or(-1, WallTime::as_unix_millis));
    }
}

impl Answer for EarliestStoreTime {
    fn decode(header: &Header<'_>, _: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        let millis = header.ext.require_i64("timestamp")?;
        Ok(Self((millis >= 0).then_some(WallTime::from_unix_millis(millis))))
    }
}

/// An offset that was asked for. For an unknown topic or queue a broker answers 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAnswer {
    /// The offset.
    pub offset: QueueOffset,
}

impl WriteExt for OffsetAnswer {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.int("offset", self.offset.0);
    }
}

impl Answer for OffsetAnswer {
    fn decode(header: &Header<'_>, _: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(Self {
            offset: require_offset(&header.ext, "offset")?,
        })
    }
}
