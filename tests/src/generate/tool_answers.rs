//! What brokers and name servers answer to an operator's tool.

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::request::cluster::ClusterInfo;
use rocketmq_consumer_core::wire::request::find::{FoundMessages, ViewedMessage};
use rocketmq_consumer_core::wire::request::groups::{DataVersion, GroupTable};
use rocketmq_consumer_core::wire::request::heartbeat::{ConsumeFrom, ConsumeType, MessageModel};
use rocketmq_consumer_core::wire::request::locks::LockAnswer;
use rocketmq_consumer_core::wire::request::offsets::EarliestStoreTime;
use rocketmq_consumer_core::wire::request::reset::{GroupStatus, ResetOffsets};
use rocketmq_consumer_core::wire::request::running_info::{
    ConsumerRunningInfo, PopQueueInfo, QueueInfo, TopicStatus,
};
use rocketmq_consumer_core::wire::request::stats::{
    Connection, ConsumeStats, ConsumerConnections, GroupList, QueueProgress, QueueStats, TopicStats,
};
use rocketmq_consumer_core::wire::request::topics::{TopicConfig, TopicFilterType, TopicList};

use super::dice::{bytes, maybe, offset, pick, several};
use super::names::{broker_name, client_id, consumer_group, text, topic};
use super::operator::offset_table;
use super::requests::subscription_data;
use super::routes::broker_data;
use super::tools::{queue, queues, subscription_group_config};

/// Offsets that were set.
pub fn reset_offsets(u: &mut Unstructured<'_>) -> Result<ResetOffsets> {
    Ok(ResetOffsets {
        offsets: offset_table(u)?,
    })
}

/// How far the members of a group are.
pub fn group_status(u: &mut Unstructured<'_>) -> Result<GroupStatus> {
    let members = several(u, 3, |u| Ok((client_id(u)?, offset_table(u)?)))?;
    Ok(GroupStatus { members })
}

/// A message that was looked for by its place.
pub fn viewed_message(u: &mut Unstructured<'_>) -> Result<ViewedMessage> {
    Ok(ViewedMessage {
        message: bytes(u, 40)?.into(),
    })
}

/// Messages that were looked for by a key.
pub fn found_messages(u: &mut Unstructured<'_>) -> Result<FoundMessages> {
    Ok(FoundMessages {
        messages: bytes(u, 40)?.into(),
        indexed_until: maybe(u, |u| u.arbitrary().map(WallTime::from_unix_millis))?,
        indexed_offset: maybe(u, |u| offset(u).map(PhysicalOffset))?,
    })
}

/// Queues that are locked now.
pub fn lock_answer(u: &mut Unstructured<'_>) -> Result<LockAnswer> {
    Ok(LockAnswer { locked: queues(u)? })
}

/// When the oldest message of a queue was stored.
pub fn earliest_store_time(u: &mut Unstructured<'_>) -> Result<EarliestStoreTime> {
    maybe(u, time).map(EarliestStoreTime)
}

/// The brokers of a cluster.
pub fn cluster_info(u: &mut Unstructured<'_>) -> Result<ClusterInfo> {
    Ok(ClusterInfo {
        brokers: several(u, 3, |u| {
            let name = broker_name(u)?;
            Ok((name.clone(), broker_data(u, name)?))
        })?,
        clusters: several(u, 2, |u| Ok((text(u)?, several(u, 3, broker_name)?)))?,
    })
}

/// The settings of a topic.
pub fn topic_config(u: &mut Unstructured<'_>) -> Result<TopicConfig> {
    Ok(TopicConfig {
        attributes: several(u, 3, |u| Ok((text(u)?, text(u)?)))?,
        order: u.arbitrary()?,
        perm: u.arbitrary()?,
        read_queues: u.arbitrary()?,
        filter_type: pick(
            u,
            &[
                Some(TopicFilterType::SingleTag),
                Some(TopicFilterType::MultiTag),
                None,
            ],
        )?,
        topic: topic(u)?,
        sys_flag: u.arbitrary()?,
        write_queues: u.arbitrary()?,
    })
}

/// Names of topics.
pub fn topic_list(u: &mut Unstructured<'_>) -> Result<TopicList> {
    Ok(TopicList {
        topics: several(u, 6, topic)?,
    })
}

/// The settings of several groups.
pub fn group_table(u: &mut Unstructured<'_>) -> Result<GroupTable> {
    Ok(GroupTable {
        data_version: DataVersion {
            counter: u.arbitrary()?,
            state_version: u.arbitrary()?,
            timestamp: u.arbitrary()?,
        },
        groups: several(u, 3, |u| Ok((consumer_group(u)?, subscription_group_config(u)?)))?,
        total: u.arbitrary()?,
    })
}

/// The ends of a topic's queues.
pub fn topic_stats(u: &mut Unstructured<'_>) -> Result<TopicStats> {
    let queues = several(u, 4, |u| {
        let stats = QueueStats {
            last_update: maybe(u, time)?,
            max_offset: QueueOffset(offset(u)?),
            min_offset: QueueOffset(offset(u)?),
        };
        Ok((queue(u)?, stats))
    })?;
    Ok(TopicStats {
        queues,
        put_tps: rate(u)?,
    })
}

/// The progress of a group.
pub fn consume_stats(u: &mut Unstructured<'_>) -> Result<ConsumeStats> {
    let queues = several(u, 4, |u| {
        let progress = QueueProgress {
            broker_offset: QueueOffset(offset(u)?),
            consumer_offset: QueueOffset(offset(u)?),
            last_timestamp: maybe(u, time)?,
            pull_offset: maybe(u, |u| offset(u).map(QueueOffset))?,
        };
        Ok((queue(u)?, progress))
    })?;
    Ok(ConsumeStats {
        consume_tps: rate(u)?,
        queues,
    })
}

/// The connections of a group.
pub fn consumer_connections(u: &mut Unstructured<'_>) -> Result<ConsumerConnections> {
    Ok(ConsumerConnections {
        connections: several(u, 3, |u| {
            Ok(Connection {
                client_addr: text(u)?,
                client_id: client_id(u)?,
                language: text(u)?,
                version: u.arbitrary()?,
            })
        })?,
        consume_from_where: pick(u, &[Some(ConsumeFrom::Last), Some(ConsumeFrom::First), None])?,
        consume_type: pick(u, &[Some(ConsumeType::Passively), Some(ConsumeType::Pop), None])?,
        message_model: pick(
            u,
            &[
                Some(MessageModel::Clustering),
                Some(MessageModel::Broadcasting),
                None,
            ],
        )?,
        subscriptions: several(u, 3, |u| Ok((topic(u)?, subscription_data(u)?)))?,
    })
}

/// Names of groups.
pub fn group_list(u: &mut Unstructured<'_>) -> Result<GroupList> {
    Ok(GroupList {
        groups: several(u, 6, consumer_group)?,
    })
}

/// How a member is.
pub fn consumer_running_info(u: &mut Unstructured<'_>) -> Result<ConsumerRunningInfo> {
    Ok(ConsumerRunningInfo {
        jstack: maybe(u, text)?,
        pop_queues: several(u, 2, |u| {
            let info = PopQueueInfo {
                dropped: u.arbitrary()?,
                last_pop: maybe(u, time)?,
                wait_ack_count: u.arbitrary()?,
            };
            Ok((queue(u)?, info))
        })?,
        queues: several(u, 3, |u| Ok((queue(u)?, queue_info(u)?)))?,
        properties: several(u, 3, |u| Ok((text(u)?, text(u)?)))?,
        topics: several(u, 3, |u| Ok((topic(u)?, topic_status(u)?)))?,
        subscriptions: several(u, 3, subscription_data)?,
        user_info: several(u, 3, |u| Ok((text(u)?, text(u)?)))?,
    })
}

fn queue_info(u: &mut Unstructured<'_>) -> Result<QueueInfo> {
    Ok(QueueInfo {
        cached_count: u.arbitrary()?,
        cached_max_offset: QueueOffset(offset(u)?),
        cached_min_offset: QueueOffset(offset(u)?),
        cached_mib: u.arbitrary()?,
        commit_offset: maybe(u, |u| offset(u).map(QueueOffset))?,
        dropped: u.arbitrary()?,
        last_consume: maybe(u, time)?,
        last_lock: maybe(u, time)?,
        last_pull: maybe(u, time)?,
        locked: u.arbitrary()?,
        handed_count: u.arbitrary()?,
        handed_max_offset: QueueOffset(offset(u)?),
        handed_min_offset: QueueOffset(offset(u)?),
        try_unlock_times: u.arbitrary()?,
    })
}

fn topic_status(u: &mut Unstructured<'_>) -> Result<TopicStatus> {
    Ok(TopicStatus {
        failed_messages: u.arbitrary()?,
        failed_tps: rate(u)?,
        ok_tps: rate(u)?,
        consume_millis: rate(u)?,
        pull_millis: rate(u)?,
        pull_tps: rate(u)?,
    })
}

/// A time; the beginning of time is none in these bodies.
fn time(u: &mut Unstructured<'_>) -> Result<WallTime> {
    u.int_in_range(1..=i64::MAX).map(WallTime::from_unix_millis)
}

/// A rate in quarters, which text keeps exactly.
fn rate(u: &mut Unstructured<'_>) -> Result<f64> {
    Ok(f64::from(u.arbitrary::<i32>()?) / 4.0)
}
