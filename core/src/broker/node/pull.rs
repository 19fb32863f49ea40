//! Pulls: 11 and 361. The checks stand in the broker's order, since the first that fails is the answer.
//!
//! ```text
//! pull ─► may this group read this queue? ─no─► 16, 17, 26, 29
//!           │ the filter: of the request, or of the group's registration ─► 1, 23, 24, 25
//!           │ a reset is pending ─► 21
//!           └► the store ─► 0, 20, 21
//!                        └► 19 ─ first time, may wait ─► held until a message comes or the time is over
//! ```
//= rocketmq: PullMessageProcessor.processRequest, DefaultPullMessageResultHandler

use alloc::format;
use core::time::Duration;

use bytes::Bytes;

use super::super::Timer;
use super::super::cx::Arrival;
use super::super::holds::Held;
use super::super::post::{Asker, Forbidden, Refusal};
use super::super::store::{Read, ReadLimits, ReadStatus, TagFilter};
use super::Serving;
use super::disk::PERM_READ;
use super::offsets::no_topic;
use super::serve::{Asked, read};
use crate::ids::QueueOffset;
use crate::time::Instant;
use crate::wire::code::ResponseCode;
use crate::wire::command::{ExtWriter, WriteExt};
use crate::wire::request::heartbeat::{MessageModel, SubscriptionData};
use crate::wire::request::pull::{PullFilter, PullRequest};
use crate::wire::request::route::MASTER_ID;
use crate::wire::subscription::{ALL, ExpressionType, Subscription};

/// A pull that waits.
#[derive(Clone, Debug)]
pub(in crate::broker) struct HeldPull {
    to: Asker,
    request: PullRequest,
}

/// What a pull is answered, all but the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome {
    code: ResponseCode,
    remark: &'static str,
    next: QueueOffset,
    min: QueueOffset,
    max: QueueOffset,
    suggest: i64,
}

impl WriteExt for Outcome {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.int("suggestWhichBrokerId", self.suggest);
        out.int("nextBeginOffset", self.next.0);
        out.int("minOffset", self.min.0);
        out.int("maxOffset", self.max.0);
        out.int("topicSysFlag", 0);
        out.int("groupSysFlag", 0);
    }
}

/// How a read turns into a code: a queue that has nothing yet is only wrong for who expects something.
fn code_of(status: ReadStatus, asked: QueueOffset) -> ResponseCode {
    match status {
        ReadStatus::Found => ResponseCode::SUCCESS,
        ReadStatus::NoMatchedMessage => ResponseCode::PULL_RETRY_IMMEDIATELY,
        ReadStatus::OffsetOverflowOne => ResponseCode::PULL_NOT_FOUND,
        ReadStatus::NoMatchedLogicQueue | ReadStatus::NoMessageInQueue if asked.0 == 0 => {
            ResponseCode::PULL_NOT_FOUND
        }
        ReadStatus::NoMatchedLogicQueue
        | ReadStatus::NoMessageInQueue
        | ReadStatus::OffsetOverflowBadly
        | ReadStatus::OffsetTooSmall => ResponseCode::PULL_OFFSET_MOVED,
    }
}

impl Serving<'_> {
    pub(super) fn on_pull(&mut self, asked: &Asked<'_, '_>) {
        if let Some(request) = read(&mut self.cx, asked) {
            self.pull(asked.to, request, true);
        }
    }

    /// Carries a pull out, the first time (`is_first`) or after it was held.
    fn pull(&mut self, to: Asker, request: PullRequest, is_first: bool) {
        match self.check(&request) {
            Ok(filter) => self.read_and_answer(to, request, filter, is_first),
            Err(refusal) => self.cx.post.refuse(self.cx.now, to, &refusal),
        }
    }

    /// What this pull may see, if it may see anything.
    fn check(&mut self, request: &PullRequest) -> Result<TagFilter, Refusal> {
        let PullRequest {
            group, topic, queue, ..
        } = request;
        let config = self.group(group)?;
        if !config.consume_enable {
            let remark = format!("subscription group no permission, {group}");
            return Err(Refusal::forbidden(Forbidden::Group, remark));
        }
        let broadcast_enable = config.consume_broadcast_enable;
        let config = self.disk.store.topic(topic).ok_or_else(|| no_topic(topic))?;
        if config.perm & PERM_READ == 0 {
            let remark = format!("the topic[{topic}] pulling message is forbidden");
            return Err(Refusal::forbidden(Forbidden::Topic, remark));
        }
        if u32::try_from(queue.0).map_or(true, |id| id >= config.read_queues) {
            let remark = format!(
                "queueId[{queue}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{}]",
                config.read_queues
            );
            return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
        }
        match &request.filter {
            Some(filter) => own_filter(request, filter),
            None => self.registered_filter(request, broadcast_enable),
        }
    }

    fn registered_filter(&self, request: &PullRequest, broadcast_enable: bool) -> Result<TagFilter, Refusal> {
        let unknown = |remark: &str| Refusal::new(ResponseCode::SUBSCRIPTION_NOT_EXIST, remark);
        let group = self.replica.members.group(&request.group);
        let group = group.ok_or_else(|| unknown("the consumer's group info not exist"))?;
        if !broadcast_enable && group.model == Some(MessageModel::Broadcasting) {
            let remark = format!(
                "the consumer group[{}] can not consume by broadcast way",
                request.group
            );
            return Err(Refusal::forbidden(Forbidden::Broadcasting, remark));
        }
        let registered = group.subscriptions.get(&request.topic);
        let registered = registered.ok_or_else(|| unknown("the consumer's subscription not exist"))?;
        if registered.sub_version < request.sub_version {
            let remark = "the consumer's subscription not latest";
            return Err(Refusal::new(ResponseCode::SUBSCRIPTION_NOT_LATEST, remark));
        }
        filter_of(registered)
    }

    fn read_and_answer(&mut self, to: Asker, request: PullRequest, filter: TagFilter, is_first: bool) {
        let queue = (&request.topic, request.queue);
        let is_master = self.replica.is_master();
        let reset = if is_master {
            self.disk.offsets.take_reset(&request.group, queue)
        } else {
            None
        };
        let wait = request.suspend.filter(|_| is_first);
        let (outcome, wait) = self.read(to, &request, &filter, reset, wait);
        if is_master {
            self.disk.offsets.pulled(&request.group, queue, outcome.next);
        }
        // A commit that rides along is stored even over a reset: the client repairs that.
        let commit = request.commit.filter(|_| is_first && is_master);
        if let Some(offset) = commit {
            self.disk
                .offsets
                .commit(self.cx.now, &request.group, queue, offset);
            self.committed(&request.group, queue, offset, Some(to.conn));
        }
        if let Some(wait) = wait {
            self.hold(to, request, filter, wait, outcome);
        }
    }

    /// Reads and answers, unless there is nothing and the pull may wait: for how long, then.
    fn read(
        &mut self,
        to: Asker,
        request: &PullRequest,
        filter: &TagFilter,
        reset: Option<QueueOffset>,
        wait: Option<Duration>,
    ) -> (Outcome, Option<Duration>) {
        let limits = ReadLimits {
            messages: usize::try_from(request.max_messages).unwrap_or(0),
            ..ReadLimits::default()
        };
        let queue = (&request.topic, request.queue);
        let read = self
            .disk
            .store
            .read(self.view(), queue, request.offset, limits, filter);
        let suggest = self.suggested_replica(request, &read);
        let outcome = match reset {
            Some(next) => Outcome {
                code: ResponseCode::PULL_OFFSET_MOVED,
                remark: "OFFSET_RESET",
                next,
                min: read.min,
                max: read.max,
                suggest,
            },
            None => self.as_replica(request, &read, suggest),
        };
        let wait = wait.filter(|_| outcome.code == ResponseCode::PULL_NOT_FOUND);
        if wait.is_none() {
            let found = outcome.code == ResponseCode::SUCCESS;
            let records: &[&Bytes] = if found { &read.records } else { &[] };
            self.cx
                .post
                .answer_records(self.cx.now, to, (outcome.code, outcome.remark), &outcome, records);
        }
        (outcome, wait)
    }

    /// Masters tell what they see. A slave does not trust itself: what it does not have may be at its
    /// master.
    fn as_replica(&self, request: &PullRequest, read: &Read<'_>, suggest: i64) -> Outcome {
        let mut outcome = Outcome {
            code: code_of(read.status, request.offset),
            remark: read.status.as_str(),
            next: read.next,
            min: read.min,
            max: read.max,
            suggest,
        };
        if self.replica.is_master() {
            return outcome;
        }
        let found_some = matches!(read.status, ReadStatus::Found | ReadStatus::NoMatchedMessage);
        if !self.cx.settings.offset_check_in_slave && !found_some {
            outcome.next = request.offset;
            if outcome.code == ResponseCode::PULL_OFFSET_MOVED {
                outcome.code = ResponseCode::PULL_RETRY_IMMEDIATELY;
            }
        }
        let master_runs = self.disk.master_down_since.is_none();
        if master_runs && suggest == MASTER_ID && outcome.code != ResponseCode::SUCCESS {
            outcome.code = ResponseCode::PULL_RETRY_IMMEDIATELY;
        }
        outcome
    }

    /// Which replica is to be asked next: the master, unless slaves may be read and it says so.
    fn suggested_replica(&self, request: &PullRequest, read: &Read<'_>) -> i64 {
        let Some(config) = self
            .disk
            .groups
            .get(&request.group)
            .filter(|_| self.cx.settings.slave_read)
        else {
            return MASTER_ID;
        };
        let end = self.disk.store.max_physical().0;
        let behind = read.last_physical.map_or(0, |last| end.saturating_sub(last.0));
        if u64::try_from(behind).is_ok_and(|behind| behind > self.cx.settings.in_memory_bytes) {
            config.which_broker_when_consume_slowly
        } else {
            config.broker_id
        }
    }

    fn hold(&mut self, to: Asker, request: PullRequest, filter: TagFilter, wait: Duration, outcome: Outcome) {
        let settings = self.cx.settings;
        let wait = if settings.long_polling {
            wait
        } else {
            settings.short_polling
        };
        let held = Held {
            conn: to.conn,
            topic: request.topic.clone(),
            queue: request.queue,
            offset: request.offset,
            filter,
            until: self.cx.now + wait,
            pull: HeldPull { to, request },
        };
        match self.replica.holds.hold(held) {
            Ok(()) => self.arm_hold_check(),
            Err(_) => {
                let status = (outcome.code, outcome.remark);
                self.cx
                    .post
                    .answer_records(self.cx.now, to, status, &outcome, &[]);
            }
        }
    }

    fn arm_hold_check(&mut self) {
        let settings = self.cx.settings;
        let interval = if settings.long_polling {
            settings.hold_check_interval
        } else {
            settings.short_polling
        };
        let at = next_tick(self.cx.now, interval);
        self.cx.timers.set_no_later(Timer::Holds(self.key), at);
    }

    /// Looks at all held pulls: which have something behind their offset, wanted or not, and which have
    /// waited long enough?
    pub(in crate::broker) fn check_holds(&mut self) {
        let (view, store) = (self.view(), &self.disk.store);
        let due = self
            .replica
            .holds
            .sweep(self.cx.now, |topic, queue| store.max_offset(view, topic, queue));
        for held in due {
            self.pull(held.pull.to, held.pull.request, false);
        }
        if !self.replica.holds.is_empty() {
            self.arm_hold_check();
        }
    }

    /// A message was stored: pulls that wait for it are answered. A slave that is behind sees it later.
    pub(in crate::broker) fn on_arrival(&mut self, arrival: &Arrival) {
        let is_seen = self.replica.is_master() || self.disk.lag.is_zero();
        if !is_seen || !self.cx.settings.long_polling {
            return;
        }
        let queue = (&arrival.topic, arrival.queue);
        let max = QueueOffset(arrival.offset.0.saturating_add(1));
        let woken = self
            .replica
            .holds
            .arrived(self.cx.now, queue, max, arrival.tag_code);
        for held in woken {
            self.pull(held.pull.to, held.pull.request, false);
        }
    }
}

/// The filter that a request brings along.
fn own_filter(request: &PullRequest, filter: &PullFilter) -> Result<TagFilter, Refusal> {
    let failed = || {
        let remark = "parse the consumer's subscription failed";
        Refusal::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED, remark)
    };
    let kind = match filter.expression_type.as_deref() {
        None | Some("") => ExpressionType::Tag,
        Some(kind) => ExpressionType::parse(kind).ok_or_else(failed)?,
    };
    match kind {
        ExpressionType::Sql92 => Err(no_property_filter(kind.as_str())),
        ExpressionType::Tag => Subscription::new(request.topic.clone(), kind, &filter.expression)
            .map(|subscription| TagFilter::of(&subscription))
            .map_err(|_| failed()),
    }
}

/// The filter of a registration: the codes are taken as the client has computed them.
fn filter_of(registered: &SubscriptionData) -> Result<TagFilter, Refusal> {
    let kind = registered
        .expression_type
        .as_deref()
        .filter(|kind| !kind.is_empty());
    if let Some(kind) = kind.filter(|kind| ExpressionType::parse(kind) != Some(ExpressionType::Tag)) {
        return Err(no_property_filter(kind));
    }
    if registered.class_filter_mode || registered.expression == ALL {
        return Ok(TagFilter::All);
    }
    Ok(TagFilter::Codes(registered.codes.iter().copied().collect()))
}

/// A broker as it is delivered does not look at properties (`enablePropertyFilter`).
pub(super) fn no_property_filter(kind: &str) -> Refusal {
    let remark = format!("The broker does not support consumer to filter message by {kind}");
    Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
}

/// The first multiple of `interval` after `now`.
pub(in crate::broker) fn next_tick(now: Instant, interval: Duration) -> Instant {
    let interval = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX).max(1);
    let tick = (now.as_micros() / interval).saturating_add(1);
    Instant::from_micros(tick.saturating_mul(interval))
}

#[cfg(test)]
mod tests;
