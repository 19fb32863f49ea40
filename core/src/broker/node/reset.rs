//! Resets: 222. The broker stores where to continue and tells it with the next pull, or it tells the
//! members (220) and stores nothing, as older ones do.
//= rocketmq: AdminBrokerProcessor.resetOffset, Broker2Client.resetOffset

use alloc::format;
use alloc::string::String;

use super::super::consume_offsets::Commit;
use super::super::observation::{Observation, queue_on};
use super::super::post::Refusal;
use super::super::store::{Boundary, View};
use super::Serving;
use super::groups::no_group;
use super::offsets::no_topic;
use super::serve::Asked;
use super::stats::queues;
use crate::ids::{ConsumerGroup, MessageQueue, QueueId, QueueOffset};
use crate::wire::code::ResponseCode;
use crate::wire::request::operator::{OffsetTable, ResetOffsetRequest};
use crate::wire::request::reset::{OperatorResetRequest, ResetOffsets};

impl Serving<'_> {
    pub(super) fn reset_offsets(
        &mut self,
        _: &Asked<'_, '_>,
        request: OperatorResetRequest,
    ) -> Result<ResetOffsets, Refusal> {
        if !self.replica.is_master() {
            let remark = "Can not reset offset in slave broker";
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        }
        let offsets = if self.cx.settings.server_side_reset {
            self.reset_here(&request)?
        } else {
            self.reset_there(&request)?
        };
        Ok(ResetOffsets { offsets })
    }

    /// Stores where to continue; members may be offline.
    fn reset_here(&mut self, request: &OperatorResetRequest) -> Result<OffsetTable, Refusal> {
        let failed = |remark: String| Refusal::new(ResponseCode::SYSTEM_ERROR, remark);
        let topic = &request.topic;
        let config = self.disk.store.topic(topic).ok_or_else(|| no_topic(topic))?;
        if !self.disk.groups.contains_key(&request.group) {
            return Err(no_group(&request.group));
        }
        let targets: OffsetTable = match request.queue {
            Some(queue) => [(
                queue_on(&self.disk.name, topic, queue),
                self.target(request, queue)?,
            )]
            .into(),
            None => queues(config.read_queues)
                .map(|queue| {
                    (
                        queue_on(&self.disk.name, topic, queue),
                        self.target_by_time(request, queue),
                    )
                })
                .collect(),
        };
        if targets.is_empty() {
            return Err(failed("No queues to reset.".into()));
        }
        for (queue, offset) in &targets {
            if self.reset_to(&request.group, queue, *offset) == Commit::Full {
                return Err(failed("this broker has no room for more offsets".into()));
            }
        }
        Ok(targets)
    }

    /// Stores where a group is to continue in a queue.
    pub(in crate::broker) fn reset_to(
        &mut self,
        group: &ConsumerGroup,
        queue: &MessageQueue,
        offset: QueueOffset,
    ) -> Commit {
        let done = self
            .disk
            .offsets
            .reset(self.cx.now, group, (&queue.topic, queue.id), offset);
        if done != Commit::Full {
            self.cx.seen.note(|| Observation::Reset {
                group: group.clone(),
                queue: queue.clone(),
                offset,
            });
        }
        done
    }

    fn target(&self, request: &OperatorResetRequest, queue: QueueId) -> Result<QueueOffset, Refusal> {
        let Some(offset) = request.offset else {
            return Ok(self.target_by_time(request, queue));
        };
        let store = &self.disk.store;
        let min = store.min_offset(&request.topic, queue);
        let max = store.max_offset(View::Newest, &request.topic, queue);
        if offset < min || offset.0 > max.0.saturating_add(1) {
            let remark = format!("Target offset {offset} not in consume queue range [{min}-{max}]");
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        }
        Ok(offset)
    }

    /// A time before all times means the end.
    fn target_by_time(&self, request: &OperatorResetRequest, queue: QueueId) -> QueueOffset {
        let (store, topic) = (&self.disk.store, &request.topic);
        if request.timestamp.as_unix_millis() < 0 {
            store.max_offset(View::Newest, topic, queue)
        } else {
            store.search(View::Newest, (topic, queue), request.timestamp, Boundary::Lower)
        }
    }

    /// Tells the members. All queues go to the time, whatever queue was meant, and only backwards unless
    /// it is forced.
    fn reset_there(&mut self, request: &OperatorResetRequest) -> Result<OffsetTable, Refusal> {
        let (group, topic) = (&request.group, &request.topic);
        let config = self.disk.store.topic(topic).ok_or_else(|| no_topic(topic))?;
        let mut offsets = OffsetTable::new();
        for queue in queues(config.write_queues) {
            let current = self.disk.offsets.stored(group, (topic, queue)).ok_or_else(|| {
                let remark = format!("THe consumer group <{group}> not exist");
                Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
            })?;
            let target = self.target_by_time(request, queue);
            let target = if request.force {
                target
            } else {
                target.min(current)
            };
            offsets.insert(queue_on(&self.disk.name, topic, queue), target);
        }
        let members = self.replica.members.conns(group);
        if members.is_empty() {
            let remark =
                format!("Consumer not online, so can not reset offset, Group: {group} Topic: {topic}");
            return Err(Refusal::new(ResponseCode::CONSUMER_NOT_ONLINE, remark));
        }
        let order = ResetOffsetRequest {
            group: group.clone(),
            topic: topic.clone(),
            timestamp: Some(request.timestamp),
            force: request.force,
            offsets: offsets.clone(),
        };
        for conn in members {
            self.cx.post.tell(self.cx.now, self.addr, conn, &order);
        }
        Ok(offsets)
    }
}

#[cfg(test)]
mod tests;
