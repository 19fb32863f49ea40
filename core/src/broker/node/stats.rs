//! How full queues are, how far groups are, and who belongs to them: 202, 203, 208, 300.
//= rocketmq: AdminBrokerProcessor.getTopicStatsInfo, AdminBrokerProcessor.getConsumeStats

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString as _;

use super::super::observation::queue_on;
use super::super::post::Refusal;
use super::Serving;
use super::offsets::no_topic;
use super::serve::Asked;
use crate::ids::{ConsumerGroup, QueueId, QueueOffset, Topic};
use crate::wire::code::ResponseCode;
use crate::wire::command::Language;
use crate::wire::request::stats::{
    Connection, ConnectionsRequest, ConsumeStats, ConsumeStatsRequest, ConsumerConnections, GroupList,
    QueueProgress, QueueStats, TopicGroupsRequest, TopicStats, TopicStatsRequest,
};

impl Serving<'_> {
    pub(super) fn topic_stats(
        &mut self,
        _: &Asked<'_, '_>,
        request: TopicStatsRequest,
    ) -> Result<TopicStats, Refusal> {
        let topic = &request.topic;
        let config = self.disk.store.topic(topic).ok_or_else(|| no_topic(topic))?;
        let (store, view) = (&self.disk.store, self.view());
        let stats = |queue| {
            let max = store.max_offset(view, topic, queue);
            let stats = QueueStats {
                last_update: store.store_time(view, (topic, queue), QueueOffset(max.0.saturating_sub(1))),
                max_offset: max,
                min_offset: store.min_offset(topic, queue),
            };
            (queue_on(&self.disk.name, topic, queue), stats)
        };
        Ok(TopicStats {
            queues: queues(config.read_queues.max(config.write_queues))
                .map(stats)
                .collect(),
            put_tps: 0.0,
        })
    }

    pub(super) fn consume_stats(
        &mut self,
        _: &Asked<'_, '_>,
        request: ConsumeStatsRequest,
    ) -> Result<ConsumeStats, Refusal> {
        let group = &request.group;
        let online = self.replica.members.group(group);
        let subscribed = |topic: &&Topic| online.is_none_or(|of| of.subscriptions.contains_key(*topic));
        // A list may name a topic any number of times.
        let topics: BTreeSet<&Topic> = if !request.topics.is_empty() {
            request.topics.iter().collect()
        } else if let Some(topic) = &request.topic {
            [topic].into_iter().filter(subscribed).collect()
        } else {
            self.disk.offsets.topics_of(group).filter(subscribed).collect()
        };
        let mut rows = BTreeMap::new();
        for topic in topics {
            let read_queues = self
                .disk
                .store
                .topic(topic)
                .map_or(0, |config| config.read_queues);
            let row = |queue| {
                (
                    queue_on(&self.disk.name, topic, queue),
                    self.progress(group, topic, queue),
                )
            };
            rows.extend(queues(read_queues).map(row));
        }
        Ok(ConsumeStats {
            consume_tps: 0.0,
            queues: rows,
        })
    }

    /// What is not stored is shown as 0.
    fn progress(&self, group: &ConsumerGroup, topic: &Topic, queue: QueueId) -> QueueProgress {
        let (store, view, offsets) = (&self.disk.store, self.view(), &self.disk.offsets);
        let consumed = offsets.query(group, (topic, queue)).unwrap_or(QueueOffset(0));
        let last = QueueOffset(consumed.0.saturating_sub(1));
        QueueProgress {
            broker_offset: store.max_offset(view, topic, queue),
            consumer_offset: consumed,
            last_timestamp: store.store_time(view, (topic, queue), last),
            pull_offset: Some(
                offsets
                    .pull_offset(group, (topic, queue))
                    .unwrap_or(QueueOffset(0)),
            ),
        }
    }

    pub(super) fn connections(
        &mut self,
        _: &Asked<'_, '_>,
        request: ConnectionsRequest,
    ) -> Result<ConsumerConnections, Refusal> {
        let Some(group) = self.replica.members.group(&request.group) else {
            let remark = format!("the consumer group[{}] not online", request.group);
            return Err(Refusal::new(ResponseCode::CONSUMER_NOT_ONLINE, remark));
        };
        let members = group.by_conn.values().map(|member| Connection {
            client_addr: member.from.to_string(),
            client_id: member.client.clone(),
            language: member.language.unwrap_or(Language::Other).name().into(),
            version: member.version,
        });
        Ok(ConsumerConnections {
            connections: members.collect(),
            consume_from_where: group.from_where,
            consume_type: group.consume_type,
            message_model: group.model,
            subscriptions: group.subscriptions.clone(),
        })
    }

    pub(super) fn topic_groups(
        &mut self,
        _: &Asked<'_, '_>,
        request: TopicGroupsRequest,
    ) -> Result<GroupList, Refusal> {
        let online = self.replica.members.groups();
        let online = online.filter(|(_, of)| of.subscriptions.contains_key(&request.topic));
        let stored = self.disk.offsets.groups_of(&request.topic);
        let groups: BTreeSet<ConsumerGroup> = online.map(|(group, _)| group).chain(stored).cloned().collect();
        Ok(GroupList { groups })
    }
}

/// The queues 0 to this, exclusive.
pub(super) fn queues(count: u32) -> impl Iterator<Item = QueueId> {
    (0..i32::try_from(count).unwrap_or(i32::MAX)).map(QueueId)
}

#[cfg(test)]
mod tests;
