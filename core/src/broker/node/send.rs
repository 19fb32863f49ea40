//! Sends: 10, 310 and 320.
//= rocketmq: SendMessageProcessor, AbstractSendMessageProcessor.msgCheck

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use bytes::Bytes;

use super::super::config::{Settings, TopicConfig};
use super::super::cx::Cx;
use super::super::post::Refusal;
use super::super::store::Stored;
use super::Serving;
use super::names::{
    SCHEDULE_TOPIC, TEMPLATE_TOPIC, TOPIC_MAX, dead_letter_topic, is_legal, is_of_dead_letters, retries_of,
};
use super::offsets::no_topic;
use super::serve::{Asked, read};
use super::storing::{Draft, with_properties};
use crate::ids::{QueueId, Topic};
use crate::wire::code::ResponseCode;
use crate::wire::command::{ExtWriter, Header, WriteExt};
use crate::wire::message_id::OffsetMessageId;
use crate::wire::properties::{self, Properties, name};
use crate::wire::request::send::{SendAnswer, SendKind, SendRequest, SendStatus};
use crate::wire::request::{Answer, AnswerError};
use crate::wire::send_batch::BatchEntries;
use crate::wire::stored::{SysFlag, Transaction};

/// Messages of one batch. Java knows no limit but that of the frame.
const BATCH_MAX: usize = 4_096;
/// Queues a topic gets that is made because somebody sent to it.
const AUTO_QUEUES_MAX: i32 = 8;

/// What every answer to a producer says about its broker (`regionId`, `traceOn`).
const REGION: &str = "DefaultRegion";
const REGION_FIELD: &str = "MSG_REGION";
const TRACE_FIELD: &str = "TRACE_ON";
const CLUSTER_PROPERTY: &str = "CLUSTER";

/// The answer to a send with the broker's region.
struct WithRegion(SendAnswer);

impl WriteExt for WithRegion {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        self.0.write_ext(out);
        out.text(REGION_FIELD, REGION);
        out.bool(TRACE_FIELD, true);
    }
}

impl Answer for WithRegion {
    fn code(&self) -> ResponseCode {
        self.0.code()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        SendAnswer::decode(header, body).map(Self)
    }
}

impl Serving<'_> {
    pub(super) fn on_send(&mut self, asked: &Asked<'_, '_>) {
        let Some(request) = read::<SendRequest>(&mut self.cx, asked) else {
            return;
        };
        let answer = self.send(asked, request);
        let Cx { now, post, .. } = &mut self.cx;
        match answer {
            Ok(answer) => post.answer(*now, asked.to, &WithRegion(answer)),
            // What fails inside a broker is answered by another part of it, which knows no region.
            Err(refusal) if refusal.code == ResponseCode::SYSTEM_ERROR => {
                post.refuse(*now, asked.to, &refusal);
            }
            Err(refusal) => {
                let refusal = refusal.field(REGION_FIELD, REGION).field(TRACE_FIELD, "true");
                post.refuse(*now, asked.to, &refusal);
            }
        }
    }

    fn send(&mut self, asked: &Asked<'_, '_>, request: SendRequest) -> Result<SendAnswer, Refusal> {
        self.must_be_master()?;
        self.check_topic(&request)?;
        check_size(&request, self.cx.settings)?;
        let topic = self.retry_or_grave(&request)?;
        let queue = self.choose_queue(&topic, request.queue)?;
        let is_buried = topic != request.topic;
        // The messages of a batch have their own, and are stored with no others.
        let given = Properties::new(request.properties.as_deref().unwrap_or_default().as_bytes());
        let unique_key = match (given.get(name::UNIQUE_KEY), request.kind) {
            (None, SendKind::Long | SendKind::Short) => Some(self.made_up_key()),
            (given, SendKind::Long | SendKind::Short | SendKind::Batch) => given.map(Cow::into_owned),
        };
        let properties = self.with_own_properties(given, unique_key.as_deref(), is_buried)?;
        let draft = Draft {
            queue,
            flag: request.flag,
            sys_flag: SysFlag(request.sys_flag),
            born_at: request.born_timestamp,
            born_host: asked.from,
            reconsume_times: request.reconsume_times.unwrap_or(0),
            body: &request.body,
            properties: properties.into(),
            topic,
        };
        let stored = match request.kind {
            SendKind::Long | SendKind::Short => [self.disk.take_in(&mut self.cx, &draft)?].into(),
            SendKind::Batch => self.send_batch(&request, &draft)?,
        };
        Ok(SendAnswer {
            status: SendStatus::Stored,
            message_id: self.message_ids(&stored),
            queue,
            offset: stored.first().map(|first| first.queue_offset),
            transaction_id: unique_key,
        })
    }

    /// What a broker says about itself in each message it takes in.
    fn with_own_properties(
        &self,
        given: Properties<'_>,
        unique_key: Option<&str>,
        is_buried: bool,
    ) -> Result<String, Refusal> {
        let mut own = Vec::from([
            (REGION_FIELD, REGION),
            (TRACE_FIELD, "true"),
            (CLUSTER_PROPERTY, self.cx.names.live.cluster()),
        ]);
        own.extend(unique_key.map(|key| (name::UNIQUE_KEY, key)));
        if is_buried {
            own.push((name::DELAY_LEVEL, "-1"));
        }
        with_properties(given, &own)
    }

    /// A key for a message whose producer gave it none: where it is about to lie, which is as unique.
    fn made_up_key(&self) -> String {
        let id = OffsetMessageId {
            store_host: self.disk.host,
            physical_offset: self.disk.store.max_physical(),
        };
        id.to_string()
    }

    fn message_ids(&self, stored: &[Stored]) -> String {
        let id = |stored: &Stored| {
            let id = OffsetMessageId {
                store_host: self.disk.host,
                physical_offset: stored.physical_offset,
            };
            id.to_string()
        };
        stored.iter().map(id).collect::<Vec<_>>().join(",")
    }

    /// Whether there is such a topic, or may be from now on.
    fn check_topic(&mut self, request: &SendRequest) -> Result<(), Refusal> {
        let topic = &request.topic;
        if !is_legal(topic.as_str(), TOPIC_MAX) {
            let remark = format!("The specified topic[{topic}] is illegal");
            return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
        }
        if topic.as_str() == SCHEDULE_TOPIC {
            let remark = format!("Sending message to topic[{topic}] is forbidden.");
            return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
        }
        if self.disk.store.topic(topic).is_some() {
            return Ok(());
        }
        if retries_of(topic).is_some() || is_of_dead_letters(topic) {
            return self.disk.need_topic(&mut self.cx, topic, 1);
        }
        if request.default_topic.as_str() == TEMPLATE_TOPIC && self.cx.settings.auto_create_topic {
            let queues = request.default_topic_queues.clamp(1, AUTO_QUEUES_MAX);
            let queues = u32::try_from(queues).unwrap_or(1);
            return self
                .disk
                .put_topic(&mut self.cx, TopicConfig::new(topic.clone(), queues));
        }
        Err(no_topic(topic))
    }

    /// The topic a message really goes to: one that came back too often, or whose group consumes in
    /// order, is buried.
    fn retry_or_grave(&mut self, request: &SendRequest) -> Result<Topic, Refusal> {
        let Some(group) = retries_of(&request.topic) else {
            return Ok(request.topic.clone());
        };
        if request.kind == SendKind::Batch {
            let remark = "batch request does not support retry group";
            return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
        }
        let retry_max = self.group(&group)?.retry_max_times;
        let most = request.max_reconsume_times.unwrap_or(retry_max);
        let is_over = request.reconsume_times.unwrap_or(0) > most;
        if !is_over && !self.replica.locks.is_any_held(self.cx.now, &group) {
            return Ok(request.topic.clone());
        }
        let grave = dead_letter_topic(&group);
        self.disk.need_topic(&mut self.cx, &grave, 1)?;
        Ok(grave)
    }

    fn choose_queue(&mut self, topic: &Topic, wanted: Option<QueueId>) -> Result<QueueId, Refusal> {
        let config = self.disk.store.topic(topic).ok_or_else(|| no_topic(topic))?;
        let Some(wanted) = wanted else {
            let drawn = self.cx.rng.next() % u64::from(config.write_queues.max(1));
            return Ok(QueueId(i32::try_from(drawn).unwrap_or(0)));
        };
        // The one queue of a grave is meant whatever queue the message was sent to.
        if is_of_dead_letters(topic) {
            return Ok(QueueId(0));
        }
        let queues = config.read_queues.max(config.write_queues);
        if u32::try_from(wanted.0).is_ok_and(|id| id < queues) {
            return Ok(wanted);
        }
        let remark = format!("request queueId[{wanted}] is illegal, topic[{topic}] has {queues}");
        Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark))
    }

    /// All messages of a batch, or none.
    fn send_batch(&mut self, request: &SendRequest, like: &Draft<'_>) -> Result<Vec<Stored>, Refusal> {
        let bad = |remark: String| Refusal::new(ResponseCode::SYSTEM_ERROR, remark);
        let entries: Result<Vec<_>, _> = BatchEntries::new(&request.body).take(BATCH_MAX + 1).collect();
        let entries = entries.map_err(|error| bad(error.to_string()))?;
        if entries.len() > BATCH_MAX {
            return Err(bad(format!("a batch of more than {BATCH_MAX} messages")));
        }
        let mut stored = Vec::with_capacity(entries.len());
        for entry in entries {
            let draft = Draft {
                flag: entry.flag,
                body: entry.body,
                properties: entry.properties.into(),
                ..like.clone()
            };
            // A delay is not for messages of a batch.
            stored.push(self.disk.take_in_now(&mut self.cx, &draft)?);
        }
        Ok(stored)
    }
}

fn check_size(request: &SendRequest, settings: &Settings) -> Result<(), Refusal> {
    let illegal = |remark: &str| Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark);
    if request.body.is_empty() {
        return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "a message needs a body"));
    }
    if request.body.len() > settings.message_bytes_max as usize {
        return Err(illegal("the message is illegal, its body is too large"));
    }
    let properties = request.properties.as_deref().unwrap_or_default();
    if properties.len() > properties::LENGTH_MAX {
        return Err(illegal("the message is illegal, its properties are too long"));
    }
    if SysFlag(request.sys_flag).transaction() != Transaction::None {
        let remark = "transactions are not supported by this broker";
        return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
