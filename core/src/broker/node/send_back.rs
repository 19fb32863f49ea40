//! Send backs: 36. A copy of the message waits for its delay and comes again on the group's retry topic,
//! or is buried.
//= rocketmq: AbstractSendMessageProcessor.consumerSendMsgBack

use alloc::format;
use alloc::string::ToString as _;

use super::super::observation::{Observation, queue_on};
use super::super::post::Refusal;
use super::super::store::{self, View};
use super::Serving;
use super::names::{dead_letter_topic, retry_topic};
use super::serve::Asked;
use super::storing::{Draft, WAIT, with_properties};
use crate::ids::QueueId;
use crate::wire::code::ResponseCode;
use crate::wire::message_id::OffsetMessageId;
use crate::wire::properties::name;
use crate::wire::request::Done;
use crate::wire::request::send_back::{Delay, SendBackRequest};
use crate::wire::stored::Record;

/// The first level a broker chooses: 10 s.
const FIRST_LEVEL: i32 = 3;

impl Serving<'_> {
    pub(super) fn send_back(&mut self, _: &Asked<'_, '_>, request: SendBackRequest) -> Result<Done, Refusal> {
        self.must_be_master()?;
        let group = self.group(&request.group)?;
        let (retry_max, retry_queues) = (group.retry_max_times, group.retry_queue_nums);
        let Ok(retry_queues @ 1..) = u32::try_from(retry_queues) else {
            // A group without retries: the message is gone, and that is a success.
            return Ok(Done);
        };
        let retry = retry_topic(&request.group);
        self.disk.need_topic(&mut self.cx, &retry, retry_queues)?;
        let Some(bytes) = self.disk.store.by_physical(View::Newest, request.offset).cloned() else {
            let remark = format!("look message by offset failed, {}", request.offset);
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        };
        let record = store::open(&bytes);
        let most = request.max_reconsume_times.unwrap_or(retry_max);
        let dead = record.reconsume_times() >= most || request.delay == Delay::DeadLetter;
        let (topic, queue, level) = if dead {
            if request.topic.is_none() {
                // The broker counts dead letters by it, and fails.
                let remark = "java.lang.NullPointerException: originTopic";
                return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
            }
            let grave = dead_letter_topic(&request.group);
            self.disk.need_topic(&mut self.cx, &grave, 1)?;
            (grave, QueueId(0), 0)
        } else {
            // A group that was given more queues than its retry topic has uses those there are.
            let topic_queues = self
                .disk
                .store
                .topic(&retry)
                .map_or(1, |topic| topic.write_queues);
            let drawn = self.cx.rng.next() % u64::from(retry_queues.min(topic_queues).max(1));
            let level = match request.delay {
                Delay::Level(level) => i32::from(level),
                Delay::Broker | Delay::DeadLetter => FIRST_LEVEL.saturating_add(record.reconsume_times()),
            };
            (retry, QueueId(i32::try_from(drawn).unwrap_or(0)), level)
        };
        let draft = Draft {
            reconsume_times: record.reconsume_times().saturating_add(1),
            ..Draft::copy_of(&record, topic, queue, properties_of_copy(&record, level)?)
        };
        self.disk.take_in(&mut self.cx, &draft)?;
        self.cx.seen.note(|| Observation::SentBack {
            group: request.group.clone(),
            queue: queue_on(&self.disk.name, &record.topic().into(), record.queue_id()),
            offset: record.queue_offset(),
            dead,
        });
        Ok(Done)
    }
}

/// What the copy says of where the message came from.
fn properties_of_copy(record: &Record<'_>, level: i32) -> Result<alloc::string::String, Refusal> {
    let own_id = OffsetMessageId {
        store_host: record.store_host(),
        physical_offset: record.physical_offset(),
    };
    let origin = record.property(name::ORIGIN_MESSAGE_ID);
    let origin = origin.map_or_else(|| own_id.to_string(), |id| id.into_owned());
    let topic = record.property(name::RETRY_TOPIC);
    let topic = topic.map_or_else(|| record.topic().to_string(), |topic| topic.into_owned());
    with_properties(
        record.properties(),
        &[
            (name::RETRY_TOPIC, &topic),
            (name::ORIGIN_MESSAGE_ID, &origin),
            (name::DELAY_LEVEL, &level.to_string()),
            (WAIT, "false"),
        ],
    )
}

#[cfg(test)]
mod tests;
