//! Where a queue begins that has just become ours.
//!
//! | the broker says | begins at |
//! |---|---|
//! | a stored offset | there; see [`left`](super::left) for what this process may know better |
//! | none | where [`StartAt`] says; a queue of the retry topic always with its first message: all of them are ours |
//! | 0, and it cannot say "none" (before 5.0) | 0, with a notice: it may be made up, and may be real |
//! | nothing, an error, a negative number | unknown: asked again after a pause |
//!
//! That last 0 is taken although `Latest` or a time was wanted. Such a broker answers 0 for a group without progress
//! exactly when the queue still has its first message in memory, and then nothing tells it from a 0 that was
//! committed: neither its minimum nor its end. Whoever skipped a real one would lose messages.
//= rocketmq: RebalancePushImpl.computePullFromWhereWithException type=differs
//  reason: brokers are told not to make up a 0; the retry topic is read from its beginning whatever is configured;
//  a start that was chosen is committed at once.

use core::time::Duration;

use crate::action::CallError;
use crate::config::StartAt;
use crate::consumer::cx::{Cx, QuestionBody, QueueAsk, Wish};
use crate::consumer::peers::Peers;
use crate::ids::{MessageQueue, QueueKey, QueueOffset};
use crate::notice::NoticeKind;
use crate::status::HoldReason;
use crate::wire::code::ResponseCode;
use crate::wire::request::offsets::{Boundary, MaxOffsetRequest, MinOffsetRequest, SearchOffsetRequest};

use super::Group;
use super::left::Beginning;
use super::queue::Queue;

/// Pause before a failed question for an offset is asked again.
const ACQUIRE_RETRY: Duration = Duration::from_secs(1);

/// What a broker says of a group's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) offset: Option<QueueOffset>,
    /// The version it states.
    pub(crate) version: i32,
}

impl Stored {
    /// The first release that can be told not to make up a 0.
    const CAN_SAY_NONE: i32 = 413;

    /// Whether this may stand for "none".
    fn may_be_none(self) -> bool {
        self.offset == Some(QueueOffset(0)) && self.version < Self::CAN_SAY_NONE
    }
}

impl Group {
    pub(super) fn acquire(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, name: MessageQueue, others: bool) {
        let needs_lock = self.locks.is_some();
        // Others have the takeover delay, which is longer than a grace of ours; a lock comes after both.
        if !others && !needs_lock && self.is_giving_back(&name) {
            self.acquire_after_giving_back(cx, name);
            return;
        }
        let key = self.insert_queue(cx, name.clone());
        if let Some(queue) = self.queues.get_mut(key).filter(|_| needs_lock) {
            queue.begin_with_lock(cx.now, others);
            self.want_lock(cx, &name);
        } else if others {
            let delay = self.config.takeover_delay;
            if let Some(queue) = self.queues.get_mut(key) {
                queue.wait_for_former_owner(cx, delay);
            }
        } else {
            self.ask_stored(cx, peers, key);
        }
    }

    /// Begins a new ownership when the one before has ended, so that it begins where that one came to.
    pub(super) fn acquire_after_giving_back(&mut self, cx: &Cx<'_>, name: MessageQueue) {
        let key = self.insert_queue(cx, name);
        if let Some(queue) = self.queues.get_mut(key) {
            queue.wait_for_former_self(cx.now);
        }
    }

    pub(super) fn is_giving_back(&self, name: &MessageQueue) -> bool {
        self.queues
            .iter()
            .any(|(_, queue)| queue.is_revoking() && &queue.name == name)
    }

    /// Begins a new ownership.
    pub(super) fn insert_queue(&mut self, cx: &Cx<'_>, name: MessageQueue) -> QueueKey {
        let (group, epoch, now) = (self.key, self.next_epoch(), cx.now);
        let is_retry = name.topic == self.retry_topic;
        let key = self
            .queues
            .insert_with(|key| Queue::new(key, group, name.clone(), epoch, is_retry, now));
        let order = self.order_of(&name);
        if let Some(queue) = self.queues.get_mut(key) {
            queue.order = order;
            queue.is_kept_here = self.shelf.is_some();
        }
        self.follow_whoever_runs(key, &name);
        self.by_name.insert(name, key);
        key
    }

    pub(super) fn ask_stored(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey) {
        let keeps_offsets = self.keeps_offsets();
        let Some(queue) = self.queues.get_mut(key).filter(|queue| queue.is_acquiring()) else {
            return;
        };
        if !queue.may_consume(cx.now) {
            // Its lock was granted on a connection that is gone.
            return queue.begin_with_lock(cx.now, queue.is_beside_others());
        }
        // What is stored is where the application does not want to be.
        if let Some(find) = queue.sought {
            return self.find_start(cx, key, find);
        }
        if keeps_offsets {
            return self.begin_where_left(cx, peers, key);
        }
        // The offset may be asked before the newest subscription is known there.
        let replica = peers.listener(&queue.name.broker);
        queue.ask_stored(cx, &self.config, replica, self.offset_timeout);
    }

    /// The broker told the stored offset, or that there is none, or nothing.
    pub(crate) fn on_stored_offset(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        answer: Result<Stored, CallError>,
    ) {
        let Some(queue) = self
            .queues
            .get_mut(key)
            .filter(|queue| queue.is_asking(QueueAsk::StoredOffset))
        else {
            cx.counters.stale_answers += 1;
            return;
        };
        let stored = match answer {
            Ok(stored) => stored,
            Err(error) => return self.acquire_failed(cx, key, "query offset", &error),
        };
        if stored.offset.is_none() && queue.hears_of_slave() {
            return queue.ask_master(cx, &self.config, self.offset_timeout);
        }
        let first = self.config.rebalance_interval.saturating_mul(2);
        match self.left.begin(&queue.name, stored.offset, cx.now, first) {
            Some(beginning) => self.begin_at(cx, peers, key, stored, beginning),
            None => {
                let body = start_question(queue, self.config.start_at);
                queue.ask_start(cx, body, self.offset_timeout);
            }
        }
    }

    pub(super) fn begin_at(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        stored: Stored,
        beginning: Beginning,
    ) {
        let Some(queue) = self.queues.get(key) else { return };
        let name = queue.name.clone();
        let decides =
            !queue.is_retry && !self.config.latest_like_java && self.config.start_at != StartAt::Earliest;
        let (from, finished) = match beginning {
            Beginning::Stored(from) => (from, None),
            Beginning::Left(from) => (from, Some(from)),
            Beginning::FellBack { stored, finished } => (stored, Some(finished)),
        };
        if let (Some(stored), Some(finished)) = (stored.offset, finished) {
            cx.notice(
                &self.name,
                NoticeKind::ProgressFellBack {
                    queue: name,
                    stored,
                    finished,
                    from,
                },
            );
        } else if decides && stored.may_be_none() {
            let kind = NoticeKind::StartDecidedByBroker {
                queue: name,
                offset: from,
            };
            cx.notice(&self.name, kind);
        }
        // What may be made up is made true: once the broker has dropped the first message it would say "none".
        let known = stored.offset.filter(|_| !stored.may_be_none());
        self.own(cx, peers, key, from, known);
    }

    /// The broker told where to start.
    pub(crate) fn on_start_offset(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        answer: Result<QueueOffset, CallError>,
    ) {
        let Some(queue) = self
            .queues
            .get(key)
            .filter(|queue| queue.is_asking(QueueAsk::StartOffset))
        else {
            cx.counters.stale_answers += 1;
            return;
        };
        match answer {
            Ok(offset) => {
                let start = queue.moved.map_or(offset, |moved| moved.at_most(offset));
                self.own(cx, peers, key, start, None);
            }
            Err(error) => self.acquire_failed(cx, key, "find start offset", &error),
        }
    }

    fn acquire_failed(&mut self, cx: &mut Cx<'_>, key: QueueKey, request: &'static str, error: &CallError) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        queue.acquire_later(cx, ACQUIRE_RETRY);
        queue.went_wrong(cx.now, request, error);
        let by = queue.name.broker.clone();
        match error {
            CallError::Broker { code, remark } if *code != ResponseCode::SYSTEM_BUSY.0 => {
                self.refused(cx, &by, request, *code, remark);
            }
            CallError::Malformed(why) => self.refused(cx, &by, request, 0, why),
            CallError::Broker { .. }
            | CallError::Closed
            | CallError::Connect(_)
            | CallError::NoRoute
            | CallError::Timeout
            | CallError::Overloaded => {}
        }
    }

    /// The start is known. One that was chosen and not stored is committed at once, or a crash before
    /// the first progress would choose again and skip messages.
    pub(super) fn own(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        start: QueueOffset,
        stored: Option<QueueOffset>,
    ) {
        self.begin_tenure(cx, key, start, stored);
        if let Some(queue) = self.queues.get_mut(key).filter(|_| stored.is_none()) {
            queue.commit_if_due(cx, &self.name, self.offset_timeout);
        }
        self.pump(cx, peers, key);
        self.tell_if_ready(cx, peers);
    }

    /// The start is known; nothing goes out yet.
    pub(super) fn begin_tenure(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        start: QueueOffset,
        stored: Option<QueueOffset>,
    ) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        // Who had it meanwhile and came further has seen more than we remember.
        let left = self.left.take(&queue.name).filter(|left| start <= left.finished);
        queue.own(cx, start, stored, left.and_then(|left| left.new_since));
        if let Some(moved) = queue.moved {
            cx.notice(&self.name, moved.notice(queue.name.clone(), start));
            if let Some(tenure) = queue.tenure_mut().filter(|_| moved.again) {
                // A broker that moves us and moves us again: not at the speed of its answers.
                tenure
                    .pull
                    .pause(cx, self.config.pull_retry, HoldReason::OffsetDoubted);
            }
        }
        let kind = NoticeKind::Assigned {
            queue: queue.name.clone(),
            epoch: queue.epoch,
            from: start,
        };
        cx.notice(&self.name, kind);
    }

    /// A commit was refused for a reason that somebody can do something about.
    pub(super) fn on_commit_refused(cx: &mut Cx<'_>, queue: &MessageQueue, error: &CallError) {
        let CallError::Broker { code, .. } = error else {
            return;
        };
        match ResponseCode(*code) {
            // A broker that has lost its groups learns of them with a heartbeat.
            ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST => {
                cx.wishes.push_back(Wish::TellAgain(queue.broker.clone()));
            }
            ResponseCode::TOPIC_NOT_EXIST => cx.wishes.push_back(Wish::RouteSuspect(queue.topic.clone())),
            _ => {}
        }
    }
}

/// What to ask when nothing is stored.
pub(super) fn start_question(queue: &Queue, start_at: StartAt) -> QuestionBody {
    let reference = queue.reference();
    // A message on the retry topic was sent there by this group: none may be skipped.
    match start_at {
        StartAt::Latest if !queue.is_retry => QuestionBody::MaxOffset(MaxOffsetRequest {
            queue: reference,
            committed: None,
        }),
        StartAt::Time(timestamp) if !queue.is_retry => QuestionBody::OffsetAt(SearchOffsetRequest {
            queue: reference,
            timestamp,
            boundary: Some(Boundary::Lower),
        }),
        StartAt::Latest | StartAt::Earliest | StartAt::Time(_) => {
            QuestionBody::MinOffset(MinOffsetRequest { queue: reference })
        }
    }
}
