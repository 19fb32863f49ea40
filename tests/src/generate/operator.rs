//! What an operator asks of a member, through its broker.

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::request::operator::{
    ConsumeDirectlyRequest, ConsumerStatusRequest, OffsetTable, ResetOffsetRequest, RunningInfoRequest,
};

use super::dice::{bytes, maybe, offset, several};
use super::names::{broker_name, client_id, consumer_group, topic, word};
use super::tools::queue;

/// Up to five queues with an offset each.
pub fn offset_table(u: &mut Unstructured<'_>) -> Result<OffsetTable> {
    several(u, 5, |u| Ok((queue(u)?, QueueOffset(offset(u)?))))
}

/// Continue at these offsets.
pub fn reset_offset_request(u: &mut Unstructured<'_>) -> Result<ResetOffsetRequest> {
    Ok(ResetOffsetRequest {
        group: consumer_group(u)?,
        topic: topic(u)?,
        timestamp: maybe(u, |u| u.arbitrary().map(WallTime::from_unix_millis))?,
        force: u.arbitrary()?,
        offsets: offset_table(u)?,
    })
}

/// How far is this member?
pub fn consumer_status_request(u: &mut Unstructured<'_>) -> Result<ConsumerStatusRequest> {
    Ok(ConsumerStatusRequest {
        group: consumer_group(u)?,
        topic: topic(u)?,
        client_addr: maybe(u, word)?,
    })
}

/// How is this member?
pub fn running_info_request(u: &mut Unstructured<'_>) -> Result<RunningInfoRequest> {
    Ok(RunningInfoRequest {
        group: consumer_group(u)?,
        client_id: client_id(u)?,
        jstack: u.arbitrary()?,
    })
}

/// Consume this message now.
pub fn consume_directly_request(u: &mut Unstructured<'_>) -> Result<ConsumeDirectlyRequest> {
    Ok(ConsumeDirectlyRequest {
        group: consumer_group(u)?,
        client_id: maybe(u, client_id)?,
        message_id: maybe(u, word)?,
        broker: maybe(u, broker_name)?,
        topic: maybe(u, topic)?,
        message: bytes(u, 40)?.into(),
    })
}
