//! Answers, whatever was asked. For one that fits a request see [`reply`](super::reply).

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::ids::{QueueId, QueueOffset};
use rocketmq_consumer_core::wire::request::heartbeat::HeartbeatAnswer;
use rocketmq_consumer_core::wire::request::offsets::{OffsetAnswer, StoredOffset};
use rocketmq_consumer_core::wire::request::operator::{
    ConsumeDirectlyAnswer, ConsumerStatus, DirectResult, RunningInfo,
};
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullStatus};
use rocketmq_consumer_core::wire::request::send::{SendAnswer, SendStatus};

use super::dice::{bytes, maybe, offset, pick};
use super::messages::stored_list;
use super::names::{text, word};
use super::operator::offset_table;

/// The answer to a heartbeat.
pub fn heartbeat_answer(u: &mut Unstructured<'_>) -> Result<HeartbeatAnswer> {
    Ok(HeartbeatAnswer {
        supports_v2: u.arbitrary()?,
        sub_changed: u.arbitrary()?,
    })
}

/// Progress that is stored, or none.
pub fn stored_offset(u: &mut Unstructured<'_>) -> Result<StoredOffset> {
    Ok(StoredOffset(maybe(u, |u| offset(u).map(QueueOffset))?))
}

/// An offset that was asked for.
pub fn offset_answer(u: &mut Unstructured<'_>) -> Result<OffsetAnswer> {
    Ok(OffsetAnswer {
        offset: QueueOffset(offset(u)?),
    })
}

/// The answer to a pull, with up to six records that may be damaged.
pub fn pull_answer(u: &mut Unstructured<'_>) -> Result<PullAnswer> {
    let records = stored_list(u)?.into_iter().flat_map(|stored| stored.bytes);
    let messages = records.collect::<Vec<u8>>().into();
    let status = pick(
        u,
        &[
            PullStatus::Found,
            PullStatus::NotFound,
            PullStatus::RetryImmediately,
            PullStatus::OffsetMoved,
        ],
    )?;
    Ok(PullAnswer {
        messages,
        status,
        next_begin_offset: QueueOffset(offset(u)?),
        min_offset: maybe(u, |u| offset(u).map(QueueOffset))?,
        max_offset: maybe(u, |u| offset(u).map(QueueOffset))?,
        suggest_broker_id: u.arbitrary()?,
        offset_delta: u.arbitrary()?,
        reset: status == PullStatus::OffsetMoved && u.arbitrary()?,
    })
}

/// The answer to a send.
pub fn send_answer(u: &mut Unstructured<'_>) -> Result<SendAnswer> {
    Ok(SendAnswer {
        status: pick(
            u,
            &[
                SendStatus::Stored,
                SendStatus::FlushDiskTimeout,
                SendStatus::SlaveNotAvailable,
                SendStatus::FlushSlaveTimeout,
            ],
        )?,
        message_id: word(u)?,
        queue: QueueId(u.int_in_range(0..=i32::MAX)?),
        offset: maybe(u, |u| offset(u).map(QueueOffset))?,
        transaction_id: maybe(u, word)?,
    })
}

/// How far a member is.
pub fn consumer_status(u: &mut Unstructured<'_>) -> Result<ConsumerStatus> {
    Ok(ConsumerStatus {
        offsets: offset_table(u)?,
    })
}

/// How a member is, unread.
pub fn running_info(u: &mut Unstructured<'_>) -> Result<RunningInfo> {
    Ok(RunningInfo {
        json: bytes(u, 40)?.into(),
    })
}

/// What came of consuming a message directly.
pub fn consume_directly_answer(u: &mut Unstructured<'_>) -> Result<ConsumeDirectlyAnswer> {
    Ok(ConsumeDirectlyAnswer {
        order: u.arbitrary()?,
        auto_commit: u.arbitrary()?,
        result: pick(
            u,
            &[
                Some(DirectResult::Success),
                Some(DirectResult::Later),
                Some(DirectResult::Rollback),
                Some(DirectResult::Commit),
                Some(DirectResult::ThrowException),
                Some(DirectResult::ReturnNull),
                None,
            ],
        )?,
        remark: maybe(u, text)?,
        spent_millis: u.arbitrary()?,
    })
}
