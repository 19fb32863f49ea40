//! A message on its way into the store: at once, or into the queue of its delay level until it is due.
//= rocketmq: HookUtils.handleScheduleMessage, ScheduleMessageService

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::net::SocketAddr;
use core::time::Duration;

use super::super::Timer;
use super::super::config::{Settings, TopicConfig};
use super::super::cx::Cx;
use super::super::post::Refusal;
use super::super::store::{self, NewRecord, PutError, Stored, View};
use super::Disk;
use super::names::SCHEDULE_TOPIC;
use crate::ids::{QueueId, Topic};
use crate::time::WallTime;
use crate::wire::code::ResponseCode;
use crate::wire::properties::{Properties, PropertiesWriter, name};
use crate::wire::stored::{Record, SysFlag};

/// Where a delayed message belongs.
const REAL_TOPIC: &str = "REAL_TOPIC";
const REAL_QUEUE: &str = "REAL_QID";
/// Whether a producer waits until it is stored well.
pub(super) const WAIT: &str = "WAIT";

/// A message that is not stored yet.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Draft<'a> {
    pub(in crate::broker) topic: Topic,
    pub(in crate::broker) queue: QueueId,
    pub(in crate::broker) flag: i32,
    pub(in crate::broker) sys_flag: SysFlag,
    pub(in crate::broker) born_at: WallTime,
    pub(in crate::broker) born_host: SocketAddr,
    pub(in crate::broker) reconsume_times: i32,
    pub(in crate::broker) body: &'a [u8],
    pub(in crate::broker) properties: Cow<'a, str>,
}

impl<'a> Draft<'a> {
    /// A copy of a stored message for another place.
    pub(super) fn copy_of(record: &Record<'a>, topic: Topic, queue: QueueId, properties: String) -> Self {
        Self {
            topic,
            queue,
            flag: record.flag(),
            sys_flag: record.sys_flag(),
            born_at: record.born_at(),
            born_host: record.born_host(),
            reconsume_times: record.reconsume_times(),
            body: record.stored_body(),
            properties: properties.into(),
        }
    }

    /// The delay level it asks for, within those there are; 0 for none.
    fn level(&self, settings: &Settings) -> usize {
        let wanted = Properties::new(self.properties.as_bytes()).get(name::DELAY_LEVEL);
        let wanted = wanted.and_then(|level| level.parse::<i64>().ok()).unwrap_or(0);
        usize::try_from(wanted)
            .unwrap_or(0)
            .min(settings.delay_levels.len())
    }
}

/// The same properties with some of them set.
///
/// # Errors
///
/// A refusal when they become longer than a record can say.
pub(super) fn with_properties(old: Properties<'_>, set: &[(&str, &str)]) -> Result<String, Refusal> {
    let mut out = PropertiesWriter::new();
    let kept = old
        .iter()
        .filter(|(name, _)| set.iter().all(|(other, _)| name != other));
    for (name, value) in kept {
        out.push(&name, &value).map_err(|_| too_long())?;
    }
    for (name, value) in set {
        out.push(name, value).map_err(|_| too_long())?;
    }
    Ok(out.finish())
}

fn too_long() -> Refusal {
    Refusal::new(
        ResponseCode::MESSAGE_ILLEGAL,
        "the message is illegal, maybe its properties are too long",
    )
}

impl Disk {
    /// Creates the topic in which delayed messages wait. No name server hears of it.
    pub(in crate::broker) fn put_schedule_topic(&mut self, settings: &Settings) {
        let levels = u32::try_from(settings.delay_levels.len()).unwrap_or(0);
        // Without room for it no message can be delayed, which is refused when one is to be.
        let _full = self
            .store
            .put_topic(TopicConfig::new(SCHEDULE_TOPIC.into(), levels));
    }

    /// Stores a message: now if it has no delay, or with those that wait.
    pub(in crate::broker) fn take_in(
        &mut self,
        cx: &mut Cx<'_>,
        draft: &Draft<'_>,
    ) -> Result<Stored, Refusal> {
        let level = draft.level(cx.settings);
        let delay = level
            .checked_sub(1)
            .and_then(|index| cx.settings.delay_levels.get(index));
        match delay {
            Some(delay) => self.schedule(cx, draft, level, *delay),
            None => self.take_in_now(cx, draft),
        }
    }

    /// Stores a message now, whatever delay it asks for.
    pub(super) fn take_in_now(&mut self, cx: &mut Cx<'_>, draft: &Draft<'_>) -> Result<Stored, Refusal> {
        let record = self.record(cx, draft);
        self.append(cx, &record).map_err(|error| refusal_of(error, draft))
    }

    fn record<'a>(&self, cx: &Cx<'_>, draft: &'a Draft<'a>) -> NewRecord<'a> {
        NewRecord {
            topic: &draft.topic,
            queue_id: draft.queue,
            flag: draft.flag,
            sys_flag: draft.sys_flag,
            born_at: draft.born_at,
            born_host: draft.born_host,
            store_at: cx.wall,
            store_host: self.host,
            reconsume_times: draft.reconsume_times,
            body: draft.body,
            properties: &draft.properties,
            due_at: None,
        }
    }

    fn schedule(
        &mut self,
        cx: &mut Cx<'_>,
        draft: &Draft<'_>,
        level: usize,
        delay: Duration,
    ) -> Result<Stored, Refusal> {
        let full = || {
            Refusal::new(
                ResponseCode::SYSTEM_ERROR,
                "this broker has no room for more delayed messages",
            )
        };
        if !self.schedule.has_room() {
            return Err(full());
        }
        let level = i32::try_from(level).map_err(|_| full())?;
        let properties = with_properties(
            Properties::new(draft.properties.as_bytes()),
            &[
                // A level beyond the last is the last.
                (name::DELAY_LEVEL, &level.to_string()),
                (REAL_TOPIC, draft.topic.as_str()),
                (REAL_QUEUE, &draft.queue.0.to_string()),
            ],
        )?;
        let topic = Topic::from(SCHEDULE_TOPIC);
        let waiting = Draft {
            topic,
            queue: QueueId(level - 1),
            properties: properties.into(),
            ..draft.clone()
        };
        let record = NewRecord {
            due_at: Some(cx.wall + delay),
            ..self.record(cx, &waiting)
        };
        let stored = self
            .store
            .put(cx.now, &record)
            .map_err(|error| refusal_of(error, &waiting))?;
        self.schedule
            .add(level, cx.now + delay, stored.physical_offset)
            .map_err(|_| full())?;
        self.arm_schedule(cx);
        Ok(stored)
    }

    fn arm_schedule(&self, cx: &mut Cx<'_>) {
        if let Some(due) = self.schedule.next_due() {
            cx.timers.set_no_later(Timer::Schedule(self.index), due);
        }
    }

    /// Delivers the messages whose delay is over. While the master is down they wait.
    pub(in crate::broker) fn deliver_due(&mut self, cx: &mut Cx<'_>) {
        if self.master_down_since.is_some() {
            return;
        }
        while let Some(waiting) = self.schedule.pop_due(cx.now) {
            let Some(bytes) = self.store.by_physical(View::Newest, waiting).cloned() else {
                continue;
            };
            // What cannot be delivered any more, because its topic is gone, is not.
            let _gone = self.deliver(cx, &store::open(&bytes));
        }
        self.arm_schedule(cx);
    }

    fn deliver(&mut self, cx: &mut Cx<'_>, waiting: &Record<'_>) -> Option<Stored> {
        let topic = Topic::from(&*waiting.property(REAL_TOPIC)?);
        let queue = QueueId(waiting.property(REAL_QUEUE)?.parse().ok()?);
        let properties = with_properties(waiting.properties(), &[]).ok()?;
        let draft = Draft::copy_of(waiting, topic, queue, properties);
        let record = self.record(cx, &draft);
        self.append(cx, &record).ok()
    }
}

fn refusal_of(error: PutError, draft: &Draft<'_>) -> Refusal {
    let Draft { topic, queue, .. } = draft;
    match error {
        PutError::UnknownTopic => super::offsets::no_topic(topic),
        PutError::UnknownQueue => {
            let remark = format!("request queueId[{queue}] is illegal, topic[{topic}]");
            Refusal::new(ResponseCode::INVALID_PARAMETER, remark)
        }
        PutError::TooLong(_) => too_long(),
    }
}

#[cfg(test)]
mod tests;
