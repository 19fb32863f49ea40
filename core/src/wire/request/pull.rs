//! Fetching messages of one queue, with the long poll: a broker that has nothing holds the request.
//= rocketmq: PullMessageRequestHeader, PullMessageResponseHeader, PullSysFlag

use alloc::string::String;
use core::time::Duration;

use bytes::Bytes;

use super::{Answer, AnswerError, Malformed, Request, millis, offset, require_offset};
use crate::ids::{BrokerName, ConsumerGroup, QueueId, QueueOffset, Topic};
use crate::time::WallTime;
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::{ExtFields, ExtWriter, Header, WriteExt};

const COMMIT_OFFSET: i32 = 1;
const SUSPEND: i32 = 1 << 1;
const SUBSCRIPTION: i32 = 1 << 2;
const LITE_PULL: i32 = 1 << 4;

/// The remark of an answer that tells of an operator's reset: the name of the broker's own status.
const OFFSET_RESET: &str = "OFFSET_RESET";

/// `PULL_MESSAGE`, or `LITE_PULL_MESSAGE` when [`PullRequest::lite`] is set. The flags of the wire
/// follow from which fields are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// The group that consumes.
    pub group: ConsumerGroup,
    /// The topic.
    pub topic: Topic,
    /// The queue within the broker.
    pub queue: QueueId,
    /// The first offset wanted.
    pub offset: QueueOffset,
    /// How many messages are wanted at most; brokers send no more than 32.
    pub max_messages: i32,
    /// How many bytes are wanted at most. Brokers do not look at it.
    pub max_bytes: Option<i32>,
    /// Progress to store on arrival. Only a master stores it.
    pub commit: Option<QueueOffset>,
    /// How long the broker may hold the request while there is nothing; `None` asks for an answer at
    /// once. Brokers look every 5 s, so the answer may come that much later.
    pub suspend: Option<Duration>,
    /// The version of the subscription the broker is believed to have from a heartbeat.
    pub sub_version: WallTime,
    /// A filter for this request alone, instead of the one of the heartbeat.
    pub filter: Option<PullFilter>,
    /// The request of a consumer that assigns its queues itself.
    pub lite: bool,
    /// The broker the queue is on, for those that serve several (since 5.0).
    pub broker: Option<BrokerName>,
}

/// A filter that is sent along with a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullFilter {
    /// The expression; `*` for everything.
    pub expression: String,
    /// `TAG` or `SQL92`; absent means `TAG`.
    pub expression_type: Option<String>,
}

impl PullRequest {
    fn sys_flag(&self) -> i32 {
        [
            (self.commit.is_some(), COMMIT_OFFSET),
            (self.suspend.is_some(), SUSPEND),
            (self.filter.is_some(), SUBSCRIPTION),
            (self.lite, LITE_PULL),
        ]
        .into_iter()
        .fold(0, |flags, (set, bit)| if set { flags | bit } else { flags })
    }
}

impl WriteExt for PullRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("consumerGroup", self.group.as_str());
        out.text("topic", self.topic.as_str());
        out.int("queueId", self.queue.0);
        out.int("queueOffset", self.offset.0);
        out.int("maxMsgNums", self.max_messages);
        out.opt_int("maxMsgBytes", self.max_bytes);
        out.int("sysFlag", self.sys_flag());
        out.int("commitOffset", self.commit.map_or(0, |offset| offset.0));
        out.int("suspendTimeoutMillis", self.suspend.map_or(0, millis));
        out.int("subVersion", self.sub_version.as_unix_millis());
        if let Some(filter) = &self.filter {
            out.text("subscription", &filter.expression);
            out.opt_text("expressionType", filter.expression_type.as_deref());
        }
        out.opt_text("bname", self.broker.as_ref().map(BrokerName::as_str));
    }
}

impl Request for PullRequest {
    const CODE: RequestCode = RequestCode::PULL_MESSAGE;
    type Answer = PullAnswer;

    fn code(&self) -> RequestCode {
        if self.lite {
            RequestCode::LITE_PULL_MESSAGE
        } else {
            Self::CODE
        }
    }

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        let flags = ext.require_i32("sysFlag")?;
        let has = |bit| flags & bit != 0;
        let commit = ext.require_i64("commitOffset")?;
        let suspend = ext.require_i64("suspendTimeoutMillis")?;
        Ok(Self {
            group: ext.require("consumerGroup")?.into(),
            topic: ext.require("topic")?.into(),
            queue: QueueId(ext.require_i32("queueId")?),
            offset: QueueOffset(ext.require_i64("queueOffset")?),
            max_messages: ext.require_i32("maxMsgNums")?,
            max_bytes: ext.get_i32("maxMsgBytes")?,
            commit: has(COMMIT_OFFSET).then_some(QueueOffset(commit)),
            suspend: has(SUSPEND).then(|| Duration::from_millis(u64::try_from(suspend).unwrap_or(0))),
            sub_version: WallTime::from_unix_millis(ext.require_i64("subVersion")?),
            filter: has(SUBSCRIPTION).then(|| PullFilter {
                expression: ext.get("subscription").unwrap_or_default().into(),
                expression_type: ext.get("expressionType").map(Into::into),
            }),
            lite: has(LITE_PULL),
            broker: ext.get("bname").map(Into::into),
        })
    }
}

/// How a pull ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PullStatus {
    /// There are messages.
    Found,
    /// Nothing new, or a gap: go on at the next offset.
    NotFound,
    /// Nothing that the filter lets through in this stretch: go on at the next offset at once.
    RetryImmediately,
    /// The offset lies outside the queue, or an operator has reset it: what was fetched so far is to
    /// be dropped and the next offset to be stored.
    OffsetMoved,
}

/// The answer to a [`PullRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullAnswer {
    /// How it ended.
    pub status: PullStatus,
    /// Where to continue. It may lie beyond the last message, because filtered ones are skipped.
    pub next_begin_offset: QueueOffset,
    /// The oldest offset of the queue.
    pub min_offset: Option<QueueOffset>,
    /// The offset the next message of the queue will get.
    pub max_offset: Option<QueueOffset>,
    /// The broker id to ask next time; absent means no change.
    pub suggest_broker_id: Option<i64>,
    /// To be added to the offset of each message; static topics only.
    pub offset_delta: Option<i64>,
    /// Whether the offset moved because an operator has reset the group; said in the remark (since 5.0).
    pub reset: bool,
    /// The messages as they are stored, one after another.
    pub messages: Bytes,
}

impl WriteExt for PullAnswer {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.int("nextBeginOffset", self.next_begin_offset.0);
        out.opt_int("minOffset", self.min_offset.map(|offset| offset.0));
        out.opt_int("maxOffset", self.max_offset.map(|offset| offset.0));
        out.opt_int("suggestWhichBrokerId", self.suggest_broker_id);
        out.opt_int("offsetDelta", self.offset_delta);
    }
}

impl Answer for PullAnswer {
    fn code(&self) -> ResponseCode {
        match self.status {
            PullStatus::Found => ResponseCode::SUCCESS,
            PullStatus::NotFound => ResponseCode::PULL_NOT_FOUND,
            PullStatus::RetryImmediately => ResponseCode::PULL_RETRY_IMMEDIATELY,
            PullStatus::OffsetMoved => ResponseCode::PULL_OFFSET_MOVED,
        }
    }

    fn body(&self) -> Bytes {
        self.messages.clone()
    }

    fn remark(&self) -> Option<&str> {
        self.reset.then_some(OFFSET_RESET)
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        let status = match ResponseCode(header.code) {
            ResponseCode::SUCCESS => PullStatus::Found,
            ResponseCode::PULL_NOT_FOUND => PullStatus::NotFound,
            ResponseCode::PULL_RETRY_IMMEDIATELY => PullStatus::RetryImmediately,
            ResponseCode::PULL_OFFSET_MOVED => PullStatus::OffsetMoved,
            _ => return Err(AnswerError::refused(header)),
        };
        let ext = &header.ext;
        Ok(Self {
            status,
            // Taking an absent one for 0 would rewind the queue.
            next_begin_offset: require_offset(ext, "nextBeginOffset")?,
            min_offset: offset(ext, "minOffset")?,
            max_offset: offset(ext, "maxOffset")?,
            suggest_broker_id: ext.get_i64("suggestWhichBrokerId")?,
            offset_delta: ext.get_i64("offsetDelta")?,
            reset: status == PullStatus::OffsetMoved && header.remark.as_deref() == Some(OFFSET_RESET),
            messages: body.clone(),
        })
    }
}
