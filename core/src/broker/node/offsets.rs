//! Progress of groups and bounds of queues: 14, 15, 29, 30, 31, 32.
//= rocketmq: ConsumerManageProcessor.queryConsumerOffset, ConsumerManageProcessor.updateConsumerOffset

use alloc::format;
use alloc::string::ToString as _;

use super::super::consume_offsets::Commit;
use super::super::observation::{Observation, queue_on};
use super::super::post::Refusal;
use super::super::store;
use super::Serving;
use super::groups::no_group;
use super::serve::Asked;
use crate::ids::{ConnId, ConsumerGroup, QueueId, QueueOffset, Topic};
use crate::wire::code::ResponseCode;
use crate::wire::request::offsets::{
    Boundary, CommitOffsetRequest, EarliestStoreTime, EarliestStoreTimeRequest, MaxOffsetRequest,
    MinOffsetRequest, OffsetAnswer, QueryOffsetRequest, QueueRef, SearchOffsetRequest, StoredOffset,
};
use crate::wire::request::{Done, Request as _};

impl Serving<'_> {
    /// Of all requests this is the one where a missing field is called an illegal parameter.
    pub(super) fn on_commit(&mut self, asked: &Asked<'_, '_>) {
        let done = CommitOffsetRequest::decode(&asked.header.ext, asked.body)
            .map_err(|malformed| Refusal::new(ResponseCode::INVALID_PARAMETER, malformed.to_string()))
            .and_then(|request| self.update_offset(asked.conn(), &request));
        super::serve::reply(&mut self.cx, asked.to, &done);
    }

    fn update_offset(&mut self, conn: ConnId, request: &CommitOffsetRequest) -> Result<Done, Refusal> {
        // The one request about a group that does not create it.
        if !self.disk.groups.contains_key(&request.group) {
            return Err(no_group(&request.group));
        }
        let QueueRef { topic, queue, .. } = &request.queue;
        if self.disk.store.topic(topic).is_none() {
            return Err(no_topic(topic));
        }
        // A slave's offsets are those of its master, which replace whatever it is told.
        if !self.replica.is_master() {
            return Ok(Done);
        }
        let queue = (topic, *queue);
        match self
            .disk
            .offsets
            .update(self.cx.now, &request.group, queue, request.offset)
        {
            Commit::Stored => {
                self.committed(&request.group, queue, request.offset, Some(conn));
                Ok(Done)
            }
            Commit::ResetPending => {
                let remark = "Offset has been previously reset";
                Err(Refusal::new(ResponseCode::SUCCESS, remark))
            }
            Commit::Full => {
                let remark = "this broker has no room for more offsets";
                Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark))
            }
        }
    }

    /// Says that progress was stored.
    pub(super) fn committed(
        &mut self,
        group: &ConsumerGroup,
        (topic, queue): (&Topic, QueueId),
        offset: QueueOffset,
        conn: Option<ConnId>,
    ) {
        self.cx.seen.note(|| Observation::Committed {
            group: group.clone(),
            queue: queue_on(&self.disk.name, topic, queue),
            offset,
            conn,
        });
    }

    pub(super) fn query_offset(
        &mut self,
        _: &Asked<'_, '_>,
        request: QueryOffsetRequest,
    ) -> Result<StoredOffset, Refusal> {
        let queue = (&request.queue.topic, request.queue.queue);
        let stored = self.disk.offsets.query(&request.group, queue);
        let may_be_zero = request.set_zero_if_not_found != Some(false);
        let offset = stored.or_else(|| (may_be_zero && self.is_young(queue)).then_some(QueueOffset(0)));
        let none = || {
            let remark = "Not found, maybe this group consumer boot first";
            Refusal::new(ResponseCode::QUERY_NOT_FOUND, remark)
        };
        offset.map(|offset| StoredOffset(Some(offset))).ok_or_else(none)
    }

    /// Whether a queue still has its first message, and in memory: a new group then begins with it,
    /// whatever it wants.
    fn is_young(&self, (topic, queue): (&Topic, QueueId)) -> bool {
        let store = &self.disk.store;
        let Some(first) = store.at(self.view(), (topic, queue), QueueOffset(0)) else {
            return false;
        };
        let distance = store.max_physical().0 - store::open(first).physical_offset().0;
        u64::try_from(distance).is_ok_and(|distance| distance <= self.cx.settings.in_memory_bytes)
    }

    pub(super) fn search_offset(
        &mut self,
        _: &Asked<'_, '_>,
        request: SearchOffsetRequest,
    ) -> Result<OffsetAnswer, Refusal> {
        let boundary = match request.boundary {
            Some(Boundary::Upper) => store::Boundary::Upper,
            Some(Boundary::Lower) | None => store::Boundary::Lower,
        };
        let queue = (&request.queue.topic, request.queue.queue);
        let offset = self
            .disk
            .store
            .search(self.view(), queue, request.timestamp, boundary);
        Ok(OffsetAnswer { offset })
    }

    pub(super) fn max_offset(
        &mut self,
        _: &Asked<'_, '_>,
        request: MaxOffsetRequest,
    ) -> Result<OffsetAnswer, Refusal> {
        let QueueRef { topic, queue, .. } = &request.queue;
        let offset = self.disk.store.max_offset(self.view(), topic, *queue);
        Ok(OffsetAnswer { offset })
    }

    pub(super) fn min_offset(
        &mut self,
        _: &Asked<'_, '_>,
        request: MinOffsetRequest,
    ) -> Result<OffsetAnswer, Refusal> {
        let QueueRef { topic, queue, .. } = &request.queue;
        let offset = self.disk.store.min_offset(topic, *queue);
        Ok(OffsetAnswer { offset })
    }

    pub(super) fn earliest_store_time(
        &mut self,
        _: &Asked<'_, '_>,
        request: EarliestStoreTimeRequest,
    ) -> Result<EarliestStoreTime, Refusal> {
        let QueueRef { topic, queue, .. } = &request.queue;
        let store = &self.disk.store;
        Ok(EarliestStoreTime(store.earliest_store_time(
            self.view(),
            topic,
            *queue,
        )))
    }
}

/// The refusal of a topic that is not there.
pub(super) fn no_topic(topic: &Topic) -> Refusal {
    let remark = format!("topic[{topic}] not exist, apply first please!");
    Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark)
}

#[cfg(test)]
mod tests;
