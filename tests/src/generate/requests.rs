//! Requests of a consumer and of a producer, and the word that members have changed.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::ids::{BrokerName, PhysicalOffset, QueueId, QueueOffset, Topic};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::request::heartbeat::{
    ConsumeFrom, ConsumeType, ConsumerData, HeartbeatRequest, MessageModel, ProducerData, SubscriptionData,
    UnregisterRequest,
};
use rocketmq_consumer_core::wire::request::members::{MemberListRequest, MembersChanged};
use rocketmq_consumer_core::wire::request::offsets::{
    Boundary, CommitOffsetRequest, MaxOffsetRequest, MinOffsetRequest, QueryOffsetRequest, QueueRef,
    SearchOffsetRequest,
};
use rocketmq_consumer_core::wire::request::pull::{PullFilter, PullRequest};
use rocketmq_consumer_core::wire::request::route::RouteRequest;
use rocketmq_consumer_core::wire::request::send::{SendKind, SendRequest};
use rocketmq_consumer_core::wire::request::send_back::{Delay, SendBackRequest};

use super::dice::{bytes, maybe, offset, pick, several};
use super::names::{broker_name, client_id, consumer_group, text, topic, word};
use super::subscriptions::{expression, subscription};

/// Asks where a topic lives.
pub fn route_request(u: &mut Unstructured<'_>) -> Result<RouteRequest> {
    Ok(RouteRequest {
        topic: topic(u)?,
        standard_json: u.arbitrary()?,
    })
}

/// Tells a broker up to three groups with up to three subscriptions each.
pub fn heartbeat_request(u: &mut Unstructured<'_>) -> Result<HeartbeatRequest> {
    Ok(HeartbeatRequest {
        client_id: client_id(u)?,
        consumers: several(u, 3, consumer_data)?,
        producers: several(u, 2, |u| Ok(ProducerData { group: text(u)? }))?,
        fingerprint: u.arbitrary()?,
        without_sub: u.arbitrary()?,
    })
}

fn consumer_data(u: &mut Unstructured<'_>) -> Result<ConsumerData> {
    Ok(ConsumerData {
        group: consumer_group(u)?,
        consume_type: pick(
            u,
            &[
                Some(ConsumeType::Passively),
                Some(ConsumeType::Actively),
                Some(ConsumeType::Pop),
                None,
            ],
        )?,
        message_model: pick(
            u,
            &[
                Some(MessageModel::Clustering),
                Some(MessageModel::Broadcasting),
                None,
            ],
        )?,
        consume_from_where: pick(
            u,
            &[
                Some(ConsumeFrom::Last),
                Some(ConsumeFrom::First),
                Some(ConsumeFrom::Timestamp),
                None,
            ],
        )?,
        subscriptions: several(u, 3, subscription_data)?,
        unit_mode: u.arbitrary()?,
    })
}

pub(super) fn subscription_data(u: &mut Unstructured<'_>) -> Result<SubscriptionData> {
    let subscription = subscription(u)?;
    Ok(SubscriptionData {
        topic: subscription.topic,
        expression: subscription.expression,
        expression_type: maybe(u, |_| Ok(subscription.kind.as_str().to_owned()))?,
        tags: subscription.tags,
        codes: subscription.codes,
        sub_version: WallTime::from_unix_millis(u.arbitrary()?),
        class_filter_mode: u.arbitrary()?,
    })
}

/// Leaves a group.
pub fn unregister_request(u: &mut Unstructured<'_>) -> Result<UnregisterRequest> {
    Ok(UnregisterRequest {
        client_id: client_id(u)?,
        consumer_group: maybe(u, consumer_group)?,
        producer_group: maybe(u, word)?,
    })
}

/// Asks for the members of a group.
pub fn member_list_request(u: &mut Unstructured<'_>) -> Result<MemberListRequest> {
    Ok(MemberListRequest {
        group: consumer_group(u)?,
    })
}

/// Says that the members of a group have changed.
pub fn members_changed(u: &mut Unstructured<'_>) -> Result<MembersChanged> {
    Ok(MembersChanged {
        group: consumer_group(u)?,
    })
}

/// Asks for messages.
pub fn pull_request(u: &mut Unstructured<'_>) -> Result<PullRequest> {
    Ok(PullRequest {
        group: consumer_group(u)?,
        topic: topic(u)?,
        queue: QueueId(u.arbitrary()?),
        offset: QueueOffset(u.arbitrary()?),
        max_messages: u.arbitrary()?,
        max_bytes: maybe(u, Unstructured::arbitrary)?,
        commit: maybe(u, |u| u.arbitrary().map(QueueOffset))?,
        suspend: maybe(u, |u| {
            u.arbitrary::<u32>().map(|ms| Duration::from_millis(ms.into()))
        })?,
        sub_version: WallTime::from_unix_millis(u.arbitrary()?),
        filter: maybe(u, |u| {
            Ok(PullFilter {
                expression: expression(u)?,
                expression_type: maybe(u, word)?,
            })
        })?,
        lite: u.arbitrary()?,
        broker: maybe(u, broker_name)?,
    })
}

/// Asks for the progress of a group.
pub fn query_offset_request(u: &mut Unstructured<'_>) -> Result<QueryOffsetRequest> {
    Ok(QueryOffsetRequest {
        group: consumer_group(u)?,
        queue: queue_ref(u)?,
        set_zero_if_not_found: u.arbitrary()?,
    })
}

/// Stores progress.
pub fn commit_offset_request(u: &mut Unstructured<'_>) -> Result<CommitOffsetRequest> {
    Ok(CommitOffsetRequest {
        group: consumer_group(u)?,
        queue: queue_ref(u)?,
        offset: QueueOffset(u.arbitrary()?),
    })
}

/// Asks for the offset that belongs to a time.
pub fn search_offset_request(u: &mut Unstructured<'_>) -> Result<SearchOffsetRequest> {
    Ok(SearchOffsetRequest {
        queue: queue_ref(u)?,
        timestamp: WallTime::from_unix_millis(u.arbitrary()?),
        boundary: pick(u, &[None, Some(Boundary::Lower), Some(Boundary::Upper)])?,
    })
}

/// Asks for the end of a queue.
pub fn max_offset_request(u: &mut Unstructured<'_>) -> Result<MaxOffsetRequest> {
    Ok(MaxOffsetRequest {
        queue: queue_ref(u)?,
        committed: u.arbitrary()?,
    })
}

/// Asks for the beginning of a queue.
pub fn min_offset_request(u: &mut Unstructured<'_>) -> Result<MinOffsetRequest> {
    Ok(MinOffsetRequest { queue: queue_ref(u)? })
}

pub(super) fn queue_ref(u: &mut Unstructured<'_>) -> Result<QueueRef> {
    Ok(QueueRef {
        topic: topic(u)?,
        queue: QueueId(u.arbitrary()?),
        broker: maybe(u, broker_name)?,
    })
}

/// Stores a message.
pub fn send_request(u: &mut Unstructured<'_>) -> Result<SendRequest> {
    Ok(SendRequest {
        kind: pick(u, &[SendKind::Short, SendKind::Long, SendKind::Batch])?,
        producer_group: word(u)?,
        topic: topic(u)?,
        default_topic: topic(u)?,
        default_topic_queues: u.arbitrary()?,
        queue: maybe(u, |u| u.int_in_range(0..=i32::MAX).map(QueueId))?,
        sys_flag: u.arbitrary()?,
        born_timestamp: WallTime::from_unix_millis(u.arbitrary()?),
        flag: u.arbitrary()?,
        properties: maybe(u, word)?,
        reconsume_times: u.arbitrary()?,
        unit_mode: u.arbitrary()?,
        max_reconsume_times: u.arbitrary()?,
        broker: maybe(u, broker_name)?,
        body: bytes(u, 40)?.into(),
    })
}

/// Gives a message back.
pub fn send_back_request(u: &mut Unstructured<'_>) -> Result<SendBackRequest> {
    let delay = match u.int_in_range(0..=2_u8)? {
        0 => Delay::Broker,
        1 => Delay::Level(u.int_in_range(1..=u16::MAX)?),
        _ => Delay::DeadLetter,
    };
    Ok(SendBackRequest {
        group: consumer_group(u)?,
        offset: PhysicalOffset(offset(u)?),
        delay,
        message_id: maybe(u, word)?,
        topic: maybe::<Topic>(u, topic)?,
        unit_mode: u.arbitrary()?,
        max_reconsume_times: u.arbitrary()?,
        broker: maybe::<BrokerName>(u, broker_name)?,
    })
}
