//! What an operator's tool asks of brokers and name servers.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::ids::{MessageQueue, PhysicalOffset, QueueId, QueueOffset};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::request::check::CheckSubscriptionRequest;
use rocketmq_consumer_core::wire::request::find::{QueryMessageRequest, ViewMessageRequest};
use rocketmq_consumer_core::wire::request::groups::{
    DeleteGroupRequest, GroupConfigRequest, GroupListRequest, SubscriptionGroupConfig, UpdateGroupRequest,
};
use rocketmq_consumer_core::wire::request::locks::{LockRequest, QueueLocks, UnlockRequest};
use rocketmq_consumer_core::wire::request::offsets::EarliestStoreTimeRequest;
use rocketmq_consumer_core::wire::request::reset::{GroupStatusRequest, OperatorResetRequest};
use rocketmq_consumer_core::wire::request::stats::{
    ConnectionsRequest, ConsumeStatsRequest, TopicGroupsRequest, TopicStatsRequest,
};
use rocketmq_consumer_core::wire::request::topics::{
    ClusterTopicsRequest, DeleteTopicRequest, ForgetTopicRequest, TopicConfigRequest, TopicFilterType,
    UpdateTopicRequest,
};

use super::dice::{maybe, offset, pick, several};
use super::names::{broker_name, client_id, consumer_group, text, topic, word};
use super::requests::{queue_ref, subscription_data};

/// Sets the offsets of a group.
pub fn operator_reset_request(u: &mut Unstructured<'_>) -> Result<OperatorResetRequest> {
    Ok(OperatorResetRequest {
        group: consumer_group(u)?,
        topic: topic(u)?,
        timestamp: WallTime::from_unix_millis(u.arbitrary()?),
        force: u.arbitrary()?,
        queue: maybe(u, |u| u.int_in_range(0..=i32::MAX).map(QueueId))?,
        offset: maybe(u, |u| offset(u).map(QueueOffset))?,
    })
}

/// Asks how far the members of a group are.
pub fn group_status_request(u: &mut Unstructured<'_>) -> Result<GroupStatusRequest> {
    Ok(GroupStatusRequest {
        group: consumer_group(u)?,
        topic: topic(u)?,
        client_id: maybe(u, client_id)?,
    })
}

/// Asks for the message at a place of the commit log.
pub fn view_message_request(u: &mut Unstructured<'_>) -> Result<ViewMessageRequest> {
    Ok(ViewMessageRequest {
        offset: PhysicalOffset(u.arbitrary()?),
        topic: maybe(u, topic)?,
    })
}

/// Asks for the messages with a key.
pub fn query_message_request(u: &mut Unstructured<'_>) -> Result<QueryMessageRequest> {
    Ok(QueryMessageRequest {
        topic: topic(u)?,
        key: word(u)?,
        max: u.arbitrary()?,
        begin: WallTime::from_unix_millis(u.arbitrary()?),
        end: WallTime::from_unix_millis(u.arbitrary()?),
        unique_key: u.arbitrary()?,
    })
}

/// Asks whether a subscription can be used.
pub fn check_subscription_request(u: &mut Unstructured<'_>) -> Result<CheckSubscriptionRequest> {
    Ok(CheckSubscriptionRequest {
        client_id: client_id(u)?,
        group: consumer_group(u)?,
        namespace: maybe(u, text)?,
        subscription: subscription_data(u)?,
    })
}

/// Locks queues.
pub fn lock_request(u: &mut Unstructured<'_>) -> Result<LockRequest> {
    queue_locks(u).map(LockRequest)
}

/// Gives locks back.
pub fn unlock_request(u: &mut Unstructured<'_>) -> Result<UnlockRequest> {
    queue_locks(u).map(UnlockRequest)
}

fn queue_locks(u: &mut Unstructured<'_>) -> Result<QueueLocks> {
    Ok(QueueLocks {
        client_id: client_id(u)?,
        group: consumer_group(u)?,
        queues: queues(u)?,
        only_this_broker: u.arbitrary()?,
    })
}

/// Up to five queues of any topic.
pub(super) fn queues(u: &mut Unstructured<'_>) -> Result<BTreeSet<MessageQueue>> {
    several(u, 5, queue)
}

pub(super) fn queue(u: &mut Unstructured<'_>) -> Result<MessageQueue> {
    Ok(MessageQueue {
        topic: topic(u)?,
        broker: broker_name(u)?,
        id: QueueId(u.arbitrary()?),
    })
}

/// Asks when the oldest message of a queue was stored.
pub fn earliest_store_time_request(u: &mut Unstructured<'_>) -> Result<EarliestStoreTimeRequest> {
    Ok(EarliestStoreTimeRequest { queue: queue_ref(u)? })
}

/// Makes or changes a topic.
pub fn update_topic_request(u: &mut Unstructured<'_>) -> Result<UpdateTopicRequest> {
    Ok(UpdateTopicRequest {
        topic: topic(u)?,
        default_topic: topic(u)?,
        read_queues: u.arbitrary()?,
        write_queues: u.arbitrary()?,
        perm: u.arbitrary()?,
        filter_type: pick(u, &[TopicFilterType::SingleTag, TopicFilterType::MultiTag])?,
        sys_flag: u.arbitrary()?,
        order: u.arbitrary()?,
        attributes: maybe(u, word)?,
    })
}

/// Asks for the settings of a topic.
pub fn topic_config_request(u: &mut Unstructured<'_>) -> Result<TopicConfigRequest> {
    Ok(TopicConfigRequest { topic: topic(u)? })
}

/// Deletes a topic on a broker.
pub fn delete_topic_request(u: &mut Unstructured<'_>) -> Result<DeleteTopicRequest> {
    Ok(DeleteTopicRequest { topic: topic(u)? })
}

/// Deletes the route of a topic.
pub fn forget_topic_request(u: &mut Unstructured<'_>) -> Result<ForgetTopicRequest> {
    Ok(ForgetTopicRequest {
        topic: topic(u)?,
        cluster: maybe(u, word)?,
    })
}

/// Asks for the topics of a cluster.
pub fn cluster_topics_request(u: &mut Unstructured<'_>) -> Result<ClusterTopicsRequest> {
    Ok(ClusterTopicsRequest { cluster: word(u)? })
}

/// Settings of a group, those that this build knows.
pub fn subscription_group_config(u: &mut Unstructured<'_>) -> Result<SubscriptionGroupConfig> {
    let mut config = SubscriptionGroupConfig::new(consumer_group(u)?);
    config.attributes = several(u, 3, |u| Ok((text(u)?, text(u)?)))?;
    config.broker_id = u.arbitrary()?;
    config.consume_broadcast_enable = u.arbitrary()?;
    config.consume_enable = u.arbitrary()?;
    config.consume_from_min_enable = u.arbitrary()?;
    config.consume_message_orderly = u.arbitrary()?;
    config.consume_timeout_minute = u.arbitrary()?;
    config.group_sys_flag = u.arbitrary()?;
    config.notify_consumer_ids_changed_enable = u.arbitrary()?;
    config.retry_max_times = u.arbitrary()?;
    config.retry_queue_nums = u.arbitrary()?;
    config.which_broker_when_consume_slowly = u.arbitrary()?;
    Ok(config)
}

/// Makes or changes a group.
pub fn update_group_request(u: &mut Unstructured<'_>) -> Result<UpdateGroupRequest> {
    subscription_group_config(u).map(UpdateGroupRequest)
}

/// Asks for the settings of a group.
pub fn group_config_request(u: &mut Unstructured<'_>) -> Result<GroupConfigRequest> {
    Ok(GroupConfigRequest {
        group: consumer_group(u)?,
    })
}

/// Asks for the settings of all groups.
pub fn group_list_request(u: &mut Unstructured<'_>) -> Result<GroupListRequest> {
    Ok(GroupListRequest {
        skip: u.arbitrary()?,
        limit: u.arbitrary()?,
    })
}

/// Deletes a group.
pub fn delete_group_request(u: &mut Unstructured<'_>) -> Result<DeleteGroupRequest> {
    Ok(DeleteGroupRequest {
        group: consumer_group(u)?,
        clean_offset: u.arbitrary()?,
    })
}

/// Asks for the ends of a topic's queues.
pub fn topic_stats_request(u: &mut Unstructured<'_>) -> Result<TopicStatsRequest> {
    Ok(TopicStatsRequest { topic: topic(u)? })
}

/// Asks for the progress of a group.
pub fn consume_stats_request(u: &mut Unstructured<'_>) -> Result<ConsumeStatsRequest> {
    Ok(ConsumeStatsRequest {
        group: consumer_group(u)?,
        topic: maybe(u, topic)?,
        topics: several(u, 3, topic)?,
    })
}

/// Asks for the connections of a group.
pub fn connections_request(u: &mut Unstructured<'_>) -> Result<ConnectionsRequest> {
    Ok(ConnectionsRequest {
        group: consumer_group(u)?,
    })
}

/// Asks who consumes a topic.
pub fn topic_groups_request(u: &mut Unstructured<'_>) -> Result<TopicGroupsRequest> {
    Ok(TopicGroupsRequest { topic: topic(u)? })
}
