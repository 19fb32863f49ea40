//! Which queues are ours: rounds of asking for the members, the share that follows, and how a queue
//! comes and goes.
//= rocketmq: RebalanceImpl.rebalanceByTopic type=differs
//  reason: the member list is asked only of a broker that knows us; an id that is listed several times
//  owns the shares of all its places.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::action::{AppAction, CallError};
use crate::allocate::{positions_of, sort_members};
use crate::consumer::cx::{Cx, Destination, Purpose, QuestionBody, Wish};
use crate::consumer::peers::Peers;
use crate::ids::{BrokerName, ClientId, ConsumeId, MessageQueue, QueueKey, QueueOffset, Topic};
use crate::notice::NoticeKind;
use crate::status::{GroupPhase, HoldReason};
use crate::wire::code::ResponseCode;
use crate::wire::request::members::MemberListRequest;

use super::Group;
use super::left::Left;
use super::queue::Queue;
use super::subscriptions::Subscribed;

impl Group {
    /// Asks one broker for each topic for the members.
    pub(super) fn begin_rebalance(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        if self.phase != GroupPhase::Running || !self.begun || self.rebalance.is_running() {
            return;
        }
        if self.broadcasts() {
            self.rebalance.begin(cx.now, BTreeMap::new());
            self.take_all_queues(cx, peers);
            return self.settle_rebalance(cx);
        }
        let mut asked: BTreeMap<BrokerName, Vec<Topic>> = BTreeMap::new();
        let topics: Vec<Topic> = self.wanted_topics().cloned().collect();
        for topic in topics {
            match peers.routes.queues(&topic) {
                // Unknown is not empty: what we have of it we keep.
                None => {}
                Some(queues) if queues.is_empty() => self.apply_share(cx, peers, &topic, Vec::new(), false),
                Some(_) => {
                    if let Some(speaker) = peers.speaker(&topic, self.introduced) {
                        asked.entry(speaker).or_default().push(topic);
                    }
                }
            }
        }
        let brokers: Vec<BrokerName> = asked.keys().cloned().collect();
        let round = self.rebalance.begin(cx.now, asked);
        for broker in brokers {
            let purpose = Purpose::Members {
                group: self.key,
                round,
                broker: broker.clone(),
            };
            let body = QuestionBody::Members(MemberListRequest {
                group: self.name.clone(),
            });
            let replica = peers.listener(&broker).replica();
            let to = Destination::Broker(broker, replica);
            cx.ask(to, body, self.request_timeout, purpose);
        }
        self.settle_rebalance(cx);
    }

    pub(super) fn settle_rebalance(&mut self, cx: &mut Cx<'_>) {
        self.rebalance
            .settle(cx, self.config.notify_debounce, self.config.rebalance_interval);
    }

    /// A broker has named the members, or failed to.
    pub(crate) fn on_members(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        round: u64,
        broker: &BrokerName,
        answer: Result<Vec<ClientId>, CallError>,
    ) {
        let Some(topics) = self.rebalance.answered(round, broker) else {
            cx.counters.stale_answers += 1;
            return;
        };
        match answer {
            Ok(members) => self.on_member_list(cx, peers, broker, &topics, members),
            Err(error) => {
                self.rebalance.incomplete();
                // "No consumer for this group": the broker has forgotten us.
                if matches!(error, CallError::Broker { .. }) {
                    cx.wishes.push_back(Wish::TellAgain(broker.clone()));
                }
            }
        }
        self.settle_rebalance(cx);
        self.tell_if_ready(cx, peers);
    }

    fn on_member_list(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        broker: &BrokerName,
        topics: &[Topic],
        mut members: Vec<ClientId>,
    ) {
        sort_members(&mut members);
        self.rebalance.learn_members(&members);
        let times = positions_of(&self.client_id, &members).count();
        if times == 0 {
            cx.notice(
                &self.name,
                NoticeKind::NotInMemberList {
                    broker: broker.clone(),
                },
            );
            cx.wishes.push_back(Wish::TellAgain(broker.clone()));
            self.rebalance.incomplete();
        }
        // Mostly our own former connection that the broker has not missed yet; else another process
        // that took our name.
        if times > 1 && !peers.beats.may_be_listed_twice(cx.now) {
            let times = u32::try_from(times).unwrap_or(u32::MAX);
            cx.notice(
                &self.name,
                NoticeKind::OwnIdRepeated {
                    times,
                    broker: broker.clone(),
                },
            );
        }
        // A broker that has just come back learns of its members one by one: who it names alone is not.
        let others =
            members.iter().any(|member| member != &self.client_id) || peers.beats.may_be_listed_alone(cx.now);
        for topic in topics {
            self.allocate(cx, peers, topic, &members, others);
        }
    }

    /// Gives back what is not ours any more and takes what is.
    pub(super) fn apply_share(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        topic: &Topic,
        share: Vec<MessageQueue>,
        others: bool,
    ) {
        if !self.wants(topic) {
            // It was given back while the members were asked.
            return;
        }
        let share: BTreeSet<MessageQueue> = share.into_iter().collect();
        let lost: Vec<MessageQueue> = self
            .by_name
            .keys()
            .filter(|q| &q.topic == topic && !share.contains(*q))
            .cloned()
            .collect();
        let won: Vec<MessageQueue> = share
            .into_iter()
            .filter(|q| !self.by_name.contains_key(q))
            .collect();
        if lost.is_empty() && won.is_empty() {
            return;
        }
        self.rebalance.changed_something();
        // What a broker has of us is as new as can be until the first share has been pulled.
        let is_first = self
            .subscriptions
            .get_mut(topic)
            .is_some_and(Subscribed::first_share);
        if !is_first {
            self.raise_version(cx, topic);
        }
        for name in lost {
            if let Some(key) = self.by_name.remove(&name) {
                self.revoke(cx, key);
            }
        }
        for name in won {
            self.acquire(cx, peers, name, others);
        }
        self.share_limits(cx, peers, topic);
    }

    /// Limits of a topic are shared by the queues of it that are ours. Where there are fewer now each may hold more.
    fn share_limits(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, topic: &Topic) {
        if self.config.topic_count_max.is_none() && self.config.topic_bytes_max.is_none() {
            return;
        }
        let ours = self.by_name.keys().filter(|queue| &queue.topic == topic).count();
        let ours = u32::try_from(ours).unwrap_or(u32::MAX);
        let before = self.shares.insert(topic.clone(), ours);
        if before.is_some_and(|before| ours < before) {
            self.pump_held(cx, peers, HoldReason::CountFull);
            self.pump_held(cx, peers, HoldReason::BytesFull);
        }
    }

    /// Gives a queue back. What no handler has begun is withdrawn.
    pub(super) fn revoke(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        if queue.is_acquiring() {
            return self.give_up(cx, key);
        }
        self.leave_queue(key);
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        queue.revoke(cx, &self.config, self.offset_timeout);
        self.withdraw(cx, key);
        if self.config.is_orderly() {
            self.call_off_retries_of(cx, key);
            self.end_grace_if_idle(cx, key);
        }
        self.bury_if_gone(cx, key);
    }

    /// Remembers where an ownership comes to.
    pub(super) fn leave_queue(&mut self, key: QueueKey) {
        if let Some(queue) = self.queues.get(key)
            && let Some(tenure) = queue.tenure()
        {
            let left = Left {
                finished: tenure.window.lowest_unfinished(),
                new_since: tenure.seen.new_since(),
                missing: queue.missing,
                back_at: None,
            };
            self.left.leave(queue.name.clone(), left);
        }
    }

    pub(super) fn withdraw(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        for run in self.dispatch.runs_of(key) {
            cx.tell(AppAction::Withdraw {
                id: ConsumeId { group: self.key, run },
            });
        }
    }

    /// The broker told what it has while we give a queue back.
    pub(crate) fn on_recheck(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        answer: Result<Option<QueueOffset>, CallError>,
    ) {
        let Some(queue) = self.queues.get_mut(key) else {
            cx.counters.stale_answers += 1;
            return;
        };
        // Not knowing what it has is reason enough not to write.
        queue.rechecked(cx, &self.name, answer.unwrap_or(None), self.offset_timeout);
        self.bury_if_gone(cx, key);
        self.check_last_commits(cx);
    }

    /// The master told what it has of a queue whose start was the word of a slave.
    pub(crate) fn on_verified(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        answer: Result<Option<QueueOffset>, CallError>,
    ) {
        let Some(queue) = self.queues.get_mut(key) else {
            cx.counters.stale_answers += 1;
            return;
        };
        let name = queue.name.clone();
        let Some(tenure) = queue.tenure_mut() else { return };
        let offset = tenure.window.lowest_unfinished();
        tenure.progress.failed();
        match answer {
            Ok(stored) => {
                tenure.progress.verified(stored);
                queue.commit_if_due(cx, &self.name, self.offset_timeout);
                self.end_grace_if_idle(cx, key);
                self.bury_if_gone(cx, key);
                self.check_last_commits(cx);
            }
            Err(error) => self.commit_failed(cx, key, name, offset, &error),
        }
    }

    /// The broker has stored an offset, or not.
    pub(crate) fn on_committed(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        offset: QueueOffset,
        answer: Result<(), CallError>,
    ) {
        let Some(queue) = self.queues.get_mut(key) else {
            cx.counters.stale_answers += 1;
            return;
        };
        let name = queue.name.clone();
        let Some(tenure) = queue.tenure_mut() else { return };
        match answer {
            Ok(()) => {
                if tenure.progress.acknowledged() != Some(offset) {
                    cx.notice(&self.name, NoticeKind::Committed { queue: name, offset });
                }
                tenure.progress.acknowledged_at(offset, cx.now);
                self.end_grace_if_idle(cx, key);
                self.bury_if_gone(cx, key);
                self.check_last_commits(cx);
            }
            Err(error) => {
                tenure.progress.failed();
                queue.went_wrong(cx.now, "commit", &error);
                Self::on_commit_refused(cx, &name, &error);
                // The broker wants to be asked on another connection, which is being made: a queue that is given
                // back has no later occasion.
                if matches!(error, CallError::Broker { code, .. } if code == ResponseCode::GO_AWAY.0) {
                    queue.commit_if_due(cx, &self.name, self.offset_timeout);
                }
                self.commit_failed(cx, key, name, offset, &error);
            }
        }
    }

    fn commit_failed(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        queue: MessageQueue,
        offset: QueueOffset,
        error: &CallError,
    ) {
        let why = alloc::format!("{error}");
        cx.notice(&self.name, NoticeKind::CommitFailed { queue, offset, why });
        if let Some(queue) = self.queues.get_mut(key) {
            queue.rest_before_last_commit(cx.now);
        }
        self.end_grace_if_idle(cx, key);
        self.bury_if_gone(cx, key);
        self.last_commit_failed(cx);
    }

    /// Forgets a queue when nothing of it is awaited any more.
    pub(super) fn bury_if_gone(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        if self.queues.get(key).is_some_and(Queue::is_gone) {
            self.bury(cx, key);
            self.check_drained(cx);
        }
    }

    /// Ends an ownership: nothing that comes for it finds anything.
    pub(super) fn bury(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        let Some(queue) = self.queues.remove(key) else {
            return;
        };
        queue.disarm(cx);
        if queue
            .tenure()
            .is_some_and(|tenure| tenure.progress.is_in_flight())
        {
            cx.wishes.push_back(Wish::Withdraw(self.key, key));
        }
        self.stray(cx, key, &queue);
        self.leave_running(key, &queue);
        self.keep_end(cx, key, &queue);
        self.give_lock_back(cx, key, &queue);
        for back in self.send_backs.forget(key) {
            cx.timers
                .cancel(self.timer(crate::consumer::cx::GroupTimer::SendBack(back)));
        }
        let committed = queue.tenure().and_then(|tenure| {
            self.buffer_bytes = self.buffer_bytes.saturating_sub(tenure.window.buffer_bytes());
            self.left.finished(&queue.name, tenure.window.lowest_unfinished());
            tenure.progress.acknowledged()
        });
        if self.buffer_was_full {
            cx.wishes.push_back(Wish::Room(self.key));
        }
        let kind = NoticeKind::Revoked {
            queue: queue.name.clone(),
            epoch: queue.epoch,
            committed,
        };
        cx.notice(&self.name, kind);
        self.ended(cx, &queue.name);
    }
}
