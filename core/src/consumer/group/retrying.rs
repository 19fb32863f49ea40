//! Failed messages: sent back, else produced as a copy, else delivered again here.
//!
//! | a broker says | what follows |
//! |---|---|
//! | taken, or the copy is stored | the message is settled |
//! | nothing, or that it does not know | delivered again here: a copy may exist already |
//! | no | asked again a few times, then a copy is produced, elsewhere first |
//! | no to every copy | delivered again here |
//!
//! Whoever leaves a queue commits one offset for all of it. So on the way out a message is only sent back
//! when nothing below it stays unfinished: else the next owner gets the message and its copy.
//= rocketmq: DefaultMQPushConsumerImpl.sendMessageBack type=differs
//  reason: a copy keeps the delay level that was asked for and goes to another broker first; what may be
//  stored already is not stored again; nothing is doubled by a restart.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::action::CallError;
use crate::config::SendBackFallback;
use crate::consumer::cx::{Cx, Destination, GroupTimer, Purpose, QuestionBody, Replica};
use crate::consumer::peers::Peers;
use crate::ids::{BrokerName, QueueKey, Topic};
use crate::message::Message;
use crate::notice::{NoticeKind, RetryPath};
use crate::status::GroupPhase;
use crate::wire::request::send_back::{Delay, SendBackRequest};

use super::Group;
use super::dispatch::retry_copy::{self, Plan};
use super::dispatch::send_back::{AfterFailure, Due, SendBack, Stored};
use super::queue::Queue;
use super::queue::window::{Below, SlotState};

/// Send backs that failed within this time of each other are tried again with one wake-up: hundreds fail one by one when
/// a handler always fails and the broker is away.
const TOGETHER: Duration = Duration::from_millis(20);

impl Group {
    /// A message has failed: its broker is to take it back.
    pub(super) fn send_back(&mut self, cx: &mut Cx<'_>, key: QueueKey, seq: u64, delay: Delay) {
        if self.broadcasts() {
            return self.drop_failed(cx, key, seq);
        }
        let Some(message) = self.message(key, seq) else {
            return;
        };
        let is_leaving = self.phase != GroupPhase::Running;
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let is_leaving = is_leaving || queue.is_in_grace();
        let Some(tenure) = queue.tenure_mut() else { return };
        let below = tenure.window.below(seq);
        if is_leaving && below == Below::Stays {
            return tenure.window.ready_again(seq, false);
        }
        tenure.window.set_state(seq, SlotState::Failing);
        let about = (message.msg_id().into_owned(), Topic::from(&*message.topic()));
        let physical = message.physical_offset();
        let back = self.send_backs.start(key, seq, physical, Some(about), delay);
        if is_leaving && below == Below::MayFinish {
            self.send_backs.put_off(back);
        } else {
            self.ask_send_back(cx, back);
        }
    }

    /// On the way out, something of a queue was settled: what waited for it is sent back, or left to the
    /// next owner.
    pub(super) fn send_back_put_off(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        for id in self.send_backs.put_off_of(key) {
            let Some(seq) = self.send_backs.get(id).map(|back| back.seq) else {
                continue;
            };
            let Some(tenure) = self.queues.get_mut(key).and_then(Queue::tenure_mut) else {
                return;
            };
            match tenure.window.below(seq) {
                Below::Settled => {
                    self.send_backs.resume(id);
                    self.ask_send_back(cx, id);
                }
                Below::MayFinish => {}
                Below::Stays => {
                    self.send_backs.acknowledged(id);
                    tenure.window.ready_again(seq, false);
                }
            }
        }
    }

    /// Messages that wait for a delivery here will not get it any more: they are the next owner's.
    pub(super) fn call_off_local_retries(&mut self, cx: &mut Cx<'_>) {
        for (id, back) in self.send_backs.take_waiting() {
            self.call_off(cx, id, &back);
        }
    }

    /// The same for those of one queue.
    pub(super) fn call_off_retries_of(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        for (id, back) in self.send_backs.take_waiting_of(key) {
            self.call_off(cx, id, &back);
        }
    }

    fn call_off(&mut self, cx: &mut Cx<'_>, id: u64, back: &SendBack) {
        cx.timers.cancel(self.timer(GroupTimer::SendBack(id)));
        if let Some(tenure) = self.queues.get_mut(back.queue).and_then(Queue::tenure_mut) {
            tenure.window.ready_again(back.seq, false);
        }
    }

    pub(super) fn ask_send_back(&mut self, cx: &mut Cx<'_>, id: u64) {
        let Some(back) = self.send_backs.get(id) else {
            return;
        };
        let Some(queue) = self.queues.get(back.queue).filter(|queue| may_send(queue)) else {
            return;
        };
        let broker = queue.name.broker.clone();
        let (message_id, topic) = back.about.clone().unzip();
        // Brokers count dead letters by this topic and fail without it, so one that cannot be read has the
        // topic of its queue.
        let topic = topic.unwrap_or_else(|| queue.name.topic.clone());
        let body = QuestionBody::SendBack(SendBackRequest {
            group: self.name.clone(),
            offset: back.physical_offset,
            delay: back.delay,
            message_id,
            topic: Some(topic),
            unit_mode: Some(false),
            max_reconsume_times: Some(i32::try_from(self.config.max_reconsume()).unwrap_or(i32::MAX)),
            broker: Some(broker.clone()),
        });
        let purpose = Purpose::SendBack {
            group: self.key,
            back: id,
        };
        // Only the broker that stores the message can find it, and only its master writes.
        let to = Destination::Broker(broker, Replica::Master);
        cx.ask(to, body, self.offset_timeout, purpose);
    }

    /// The broker has taken a message back, or not.
    pub(crate) fn on_send_back(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        id: u64,
        answer: Result<(), CallError>,
    ) {
        let stored = answer.as_ref().map_or_else(Stored::despite, |()| Stored::Yes);
        match (stored, answer) {
            (Stored::Yes, _) | (_, Ok(())) => self.retried(cx, peers, id, RetryPath::SentBack),
            (Stored::No | Stored::Perhaps, Err(error)) => self.not_retried(cx, peers, id, stored, &error),
        }
    }

    /// A broker has stored the copy of a message, or not.
    pub(crate) fn on_retry_copy(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        id: u64,
        answer: Result<(), CallError>,
    ) {
        match answer {
            Ok(()) => self.retried(cx, peers, id, RetryPath::Produced),
            Err(error) => self.not_retried(cx, peers, id, Stored::despite(&error), &error),
        }
    }

    fn retried(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, id: u64, path: RetryPath) {
        let Some(back) = self.send_backs.acknowledged(id) else {
            cx.counters.stale_answers += 1;
            return;
        };
        self.tell_retry(cx, &back, path);
        if let Some(tenure) = self.queues.get_mut(back.queue).and_then(Queue::tenure_mut) {
            let freed = tenure.window.finish(back.seq);
            self.freed(freed);
        }
        self.retries += 1;
        self.after_settling(cx, peers, back.queue);
    }

    fn not_retried(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, id: u64, stored: Stored, error: &CallError) {
        let brokers = self.copy_brokers(peers, id);
        let copies = u32::try_from(brokers.len()).unwrap_or(u32::MAX);
        let Some(after) = self.send_backs.failed(id, stored, copies) else {
            cx.counters.stale_answers += 1;
            return;
        };
        self.tell_failed(cx, id, error);
        self.go_on(cx, peers, id, after, &brokers);
    }

    /// The message has failed for good where its order is kept: a copy of it is buried.
    pub(super) fn produce_dead(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey, seq: u64) {
        let Some(message) = self.message(key, seq) else {
            return;
        };
        let about = (message.msg_id().into_owned(), Topic::from(&*message.topic()));
        let physical = message.physical_offset();
        let id = self.send_backs.start_copy(key, seq, physical, about);
        let brokers = self.copy_brokers(peers, id);
        self.go_on(cx, peers, id, AfterFailure::CopyTo(0), &brokers);
    }

    /// What follows a failure.
    fn go_on(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        id: u64,
        mut after: AfterFailure,
        brokers: &[BrokerName],
    ) {
        let copies = u32::try_from(brokers.len()).unwrap_or(u32::MAX);
        while let AfterFailure::CopyTo(index) = after {
            let broker = brokers.get(index as usize);
            if broker.is_some_and(|broker| self.produce(cx, id, broker)) {
                return;
            }
            let Some(next) = self.send_backs.failed(id, Stored::No, copies) else {
                return;
            };
            after = next;
        }
        let (AfterFailure::AskAgainIn(pause) | AfterFailure::DeliverAgainIn(pause)) = after else {
            return;
        };
        let due = (cx.now + pause).rounded_up(TOGETHER);
        cx.timers.set(self.timer(GroupTimer::SendBack(id)), due);
        if let (AfterFailure::DeliverAgainIn(_), Some(back)) = (after, self.send_backs.get(id).cloned()) {
            self.tell_retry(cx, &back, RetryPath::Local);
            if self.phase != GroupPhase::Running {
                self.call_off_local_retries(cx);
                self.after_settling(cx, peers, back.queue);
            } else if self.config.is_orderly() && !self.queues.get(back.queue).is_some_and(Queue::is_owned) {
                self.call_off_retries_of(cx, back.queue);
                self.after_settling(cx, peers, back.queue);
            }
        }
    }

    /// Sends a copy to a broker; false when there can be none, or not any more.
    fn produce(&self, cx: &mut Cx<'_>, id: u64, broker: &BrokerName) -> bool {
        let Some(back) = self.send_backs.get(id) else {
            return false;
        };
        if !self.queues.get(back.queue).is_some_and(may_send) {
            return false;
        }
        let plan = self.plan(back, broker.clone(), cx);
        let copy = self
            .message(back.queue, back.seq)
            .and_then(|message| retry_copy::request(&message, &plan).ok());
        let Some(copy) = copy else { return false };
        let purpose = Purpose::RetryCopy {
            group: self.key,
            back: id,
        };
        let to = Destination::Broker(broker.clone(), Replica::Master);
        cx.ask(
            to,
            QuestionBody::RetryCopy(Box::new(copy)),
            self.offset_timeout,
            purpose,
        );
        true
    }

    fn plan(&self, back: &SendBack, broker: BrokerName, cx: &Cx<'_>) -> Plan {
        Plan {
            retry_topic: self.retry_topic.clone(),
            delay: back.delay,
            max_reconsume: self.config.max_reconsume(),
            tried_here: self.tried_here(back),
            broker,
            now: cx.wall,
        }
    }

    /// Deliveries here count as retries where messages are consumed in order: there are no others.
    fn tried_here(&self, back: &SendBack) -> u32 {
        let tenure = self.queues.get(back.queue).and_then(Queue::tenure);
        let in_order = tenure.filter(|_| self.config.is_orderly());
        in_order.map_or(0, |tenure| tenure.window.attempt(back.seq))
    }

    /// Brokers that could store a copy: those of the retry topic that know us, and whose master is there. The
    /// one that has just refused comes last. Where messages are consumed in order none has been asked before, and the
    /// message's own comes first.
    fn copy_brokers(&self, peers: Peers<'_>, id: u64) -> Vec<BrokerName> {
        let in_order = self.config.is_orderly();
        let Some(own) = self.send_backs.get(id).and_then(|back| self.broker_of(back)) else {
            return Vec::new();
        };
        if self.config.send_back_fallback == SendBackFallback::Local && !in_order {
            return Vec::new();
        }
        let others = peers.routes.brokers_of(&self.retry_topic);
        let others = others.filter(|broker| **broker != own).cloned();
        let (first, last) = (in_order.then(|| own.clone()), (!in_order).then(|| own.clone()));
        let brokers = first.into_iter().chain(others).chain(last);
        brokers.filter(|broker| peers.has_master(broker)).collect()
    }

    pub(super) fn on_send_back_timer(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, id: u64) {
        match self.send_backs.due(id) {
            Some(Due::AskAgain) => self.ask_send_back(cx, id),
            Some(Due::DeliverAgain(back)) => {
                let Some(tenure) = self.queues.get_mut(back.queue).and_then(Queue::tenure_mut) else {
                    return;
                };
                if tenure.window.message(back.seq).is_some() {
                    tenure.window.ready_again(back.seq, true);
                    self.after_settling(cx, peers, back.queue);
                } else {
                    // A record that cannot be read cannot be delivered either: keep trying to bury it.
                    let again = self.send_backs.start(
                        back.queue,
                        back.seq,
                        back.physical_offset,
                        back.about,
                        back.delay,
                    );
                    self.ask_send_back(cx, again);
                }
            }
            None => {}
        }
    }

    // ---- what is told -----------------------------------------------------------------------------

    fn tell_retry(&self, cx: &mut Cx<'_>, back: &SendBack, path: RetryPath) {
        let Some(queue) = self.queues.get(back.queue) else {
            return;
        };
        let offset = queue.tenure().and_then(|tenure| tenure.window.offset(back.seq));
        let (Some(offset), queue) = (offset, queue.name.clone()) else {
            return;
        };
        let message = self.message(back.queue, back.seq);
        let reconsume_times = message.as_ref().map_or(0, Message::reconsume_times);
        let reconsume_times = reconsume_times.saturating_add(self.tried_here(back));
        let level = match path {
            RetryPath::Produced => self.plan(back, queue.broker.clone(), cx).level(reconsume_times),
            RetryPath::SentBack | RetryPath::Local => back.delay.to_wire(),
        };
        let kind = NoticeKind::Retry {
            queue,
            offset,
            message_id: back.about.as_ref().map(|(id, _)| id.clone()),
            reconsume_times,
            level,
            path,
        };
        cx.notice(&self.name, kind);
    }

    fn tell_failed(&mut self, cx: &mut Cx<'_>, id: u64, error: &CallError) {
        if let Some(back) = self.send_backs.get(id)
            && let Some(queue) = self.queues.get_mut(back.queue)
            && let Some(offset) = queue.tenure().and_then(|tenure| tenure.window.offset(back.seq))
        {
            queue.went_wrong(cx.now, "send back", error);
            let kind = NoticeKind::SendBackFailed {
                queue: queue.name.clone(),
                offset,
                why: format!("{error}"),
            };
            cx.notice(&self.name, kind);
        }
    }

    fn broker_of(&self, back: &SendBack) -> Option<BrokerName> {
        self.queues.get(back.queue).map(|queue| queue.name.broker.clone())
    }

    /// A message of a window, if it can be read and is not settled.
    pub(super) fn message(&self, key: QueueKey, seq: u64) -> Option<Message> {
        let window = &self.queues.get(key)?.tenure()?.window;
        let (batch, position) = window.message(seq)?;
        Message::new(Arc::clone(batch), position)
    }
}

/// Past its grace a queue may only wait for its last commit any more: its messages are the next owner's.
const fn may_send(queue: &Queue) -> bool {
    queue.is_owned() || queue.is_in_grace()
}
