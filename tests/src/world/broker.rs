use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{
    BrokerName, ClientId, ConsumerGroup, MessageQueue, PhysicalOffset, QueueId, QueueOffset, Topic,
};
use rocketmq_consumer_core::message::DelayLevel;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::frame::HeaderForm;
use rocketmq_consumer_core::wire::properties::name;
use rocketmq_consumer_core::wire::request::encode_request;
use rocketmq_consumer_core::wire::request::heartbeat::{
    HeartbeatAnswer, HeartbeatRequest, SubscriptionData, UnregisterRequest,
};
use rocketmq_consumer_core::wire::request::members::{MemberList, MemberListRequest, MembersChanged};
use rocketmq_consumer_core::wire::request::offsets::{
    CommitOffsetRequest, MaxOffsetRequest, MinOffsetRequest, OffsetAnswer, QueryOffsetRequest, QueueRef,
    SearchOffsetRequest, StoredOffset,
};
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::send_back::{Delay, SendBackRequest};
use rocketmq_consumer_core::wire::request::{Answer, Done};

use super::asked::{Asked, Link};
use super::log::Log;
use super::stored::{StoredMessage, original_topic};

/// How often a broker writes offsets to its disk; what came later is lost in a crash.
const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// A queue as a broker knows it.
type Place = (Topic, QueueId);

/// The model of one broker: enough of it for a consumer to live with, and written from the broker's
/// side, so that it shares no decision with the machine it answers.
///
/// Not modelled: transactions, delayed sends, several replicas with their own state, permissions.
#[derive(Debug)]
pub struct Broker {
    name: BrokerName,
    logs: BTreeMap<Place, Log>,
    offsets: BTreeMap<(ConsumerGroup, Place), Committed>,
    groups: BTreeMap<ConsumerGroup, Registered>,
    held: Vec<Held>,
    returning: Vec<(Instant, StoredMessage)>,
    next_physical: i64,
    sent_back: Vec<(MessageQueue, QueueOffset, Instant)>,
    out: Vec<(Link, Bytes)>,
    origin: WallTime,
}

/// A stored offset, and the one on disk.
#[derive(Clone, Copy, Debug)]
struct Committed {
    offset: QueueOffset,
    at: Instant,
    flushed: Option<QueueOffset>,
}

/// The members of a group and what they subscribe to.
#[derive(Debug, Default)]
struct Registered {
    members: Vec<(Link, ClientId)>,
    subscriptions: BTreeMap<Topic, SubscriptionData>,
}

/// A pull that waits for a message.
#[derive(Debug)]
struct Held {
    asked: Asked,
    until: Instant,
}

impl Broker {
    pub(super) const fn new(name: BrokerName, origin: WallTime) -> Self {
        Self {
            name,
            logs: BTreeMap::new(),
            offsets: BTreeMap::new(),
            groups: BTreeMap::new(),
            held: Vec::new(),
            returning: Vec::new(),
            next_physical: 0,
            sent_back: Vec::new(),
            out: Vec::new(),
            origin,
        }
    }

    pub(super) fn add_queues(&mut self, topic: &Topic, count: u32) {
        for id in (0..).take(count as usize) {
            self.logs.entry((topic.clone(), QueueId(id))).or_default();
        }
    }

    pub(super) fn queues_of(&self, topic: &Topic) -> u32 {
        let of_topic = self.logs.keys().filter(|(of, _)| of == topic);
        u32::try_from(of_topic.count()).unwrap_or(u32::MAX)
    }

    /// Stores a message and answers the pulls that waited for it.
    pub(super) fn append(&mut self, now: Instant, mut message: StoredMessage) {
        let place = (message.queue.topic.clone(), message.queue.id);
        let log = self.logs.entry(place.clone()).or_default();
        message.offset = QueueOffset(log.max());
        message.physical_offset = PhysicalOffset(self.next_physical);
        message.store_at = self.origin + now.saturating_since(Instant::ZERO);
        self.next_physical += 1_000;
        log.messages.push(message);
        self.answer_held(now, |held| held == &place);
    }

    /// Forgets the messages below `min`, as if they had expired.
    pub(super) fn expire(&mut self, place: &Place, min: i64) {
        if let Some(log) = self.logs.get_mut(place) {
            log.messages.retain(|message| message.offset.0 >= min);
            log.min = min;
        }
    }

    /// Everything stored for a topic.
    pub(super) fn stored(&self, topic: &Topic) -> impl Iterator<Item = &StoredMessage> {
        self.logs
            .iter()
            .filter(move |((of, _), _)| of == topic)
            .flat_map(|(_, log)| &log.messages)
    }

    pub(super) fn max_offset(&self, place: &Place) -> i64 {
        self.logs.get(place).map_or(0, Log::max)
    }

    pub(super) fn offset(&self, group: &ConsumerGroup, place: &Place) -> Option<QueueOffset> {
        let committed = self.offsets.get(&(group.clone(), place.clone()))?;
        Some(committed.offset)
    }

    pub(super) fn set_offset(&mut self, now: Instant, group: &ConsumerGroup, place: &Place, to: QueueOffset) {
        let flush = |at: Instant| at.as_micros() / u64::try_from(FLUSH_EVERY.as_micros()).unwrap_or(1);
        let key = (group.clone(), place.clone());
        let flushed = self.offsets.get(&key).and_then(|old| {
            if flush(old.at) < flush(now) {
                Some(old.offset)
            } else {
                old.flushed
            }
        });
        self.offsets.insert(
            key,
            Committed {
                offset: to,
                at: now,
                flushed,
            },
        );
    }

    /// The messages that were taken back, and when.
    pub(super) fn sent_back(&self) -> &[(MessageQueue, QueueOffset, Instant)] {
        &self.sent_back
    }

    /// The members of a group, one for each connection.
    pub(super) fn members(&self, group: &ConsumerGroup) -> Vec<ClientId> {
        let members = self.groups.get(group).map(|group| &group.members);
        members.into_iter().flatten().map(|(_, id)| id.clone()).collect()
    }

    /// Lists a member that no connection of this world belongs to.
    pub(super) fn add_ghost(&mut self, group: &ConsumerGroup, link: Link, id: ClientId) {
        let registered = self.groups.entry(group.clone()).or_default();
        registered.members.push((link, id));
        self.notify(group);
    }

    pub(super) fn poll(&mut self) -> Vec<(Link, Bytes)> {
        core::mem::take(&mut self.out)
    }

    /// The process dies: connections, members, held pulls and what was not flushed are gone.
    pub(super) fn crash(&mut self, now: Instant) {
        self.groups.clear();
        self.held.clear();
        self.out.clear();
        let flush = |at: Instant| at.as_micros() / u64::try_from(FLUSH_EVERY.as_micros()).unwrap_or(1);
        self.offsets.retain(|_, committed| {
            if flush(committed.at) == flush(now) {
                let Some(flushed) = committed.flushed else {
                    return false;
                };
                committed.offset = flushed;
            }
            true
        });
    }

    /// A connection is gone, and with it the membership that hung on it.
    pub(super) fn forget(&mut self, link: &Link) {
        self.held.retain(|held| &held.asked.link != link);
        let mut left = Vec::new();
        for (name, group) in &mut self.groups {
            let before = group.members.len();
            group.members.retain(|(of, _)| of != link);
            if group.members.len() < before {
                left.push(name.clone());
            }
        }
        for group in left {
            self.notify(&group);
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let holds = self.held.iter().map(|held| held.until);
        holds.chain(self.returning.iter().map(|(at, _)| *at)).min()
    }

    pub(super) fn wake(&mut self, now: Instant) {
        let (due, later) = core::mem::take(&mut self.returning)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.returning = later;
        for (_, message) in due {
            self.append(now, message);
        }
        let (due, later) = core::mem::take(&mut self.held)
            .into_iter()
            .partition(|held| held.until <= now);
        self.held = later;
        for held in due {
            let request = held.asked.request::<PullRequest>();
            self.pull(now, &held.asked, request, false);
        }
    }

    /// Answers a request as a broker does.
    pub(super) fn serve(&mut self, now: Instant, asked: &Asked) {
        match asked.code {
            RequestCode::HEART_BEAT => self.heartbeat(asked, &asked.request()),
            RequestCode::UNREGISTER_CLIENT => self.unregister(asked, &asked.request()),
            RequestCode::GET_CONSUMER_LIST_BY_GROUP => {
                let request: MemberListRequest = asked.request();
                let client_ids = self.members(&request.group);
                if client_ids.is_empty() {
                    self.refuse(asked, ResponseCode::SYSTEM_ERROR, "no consumer for this group");
                } else {
                    self.answer(asked, &MemberList { client_ids });
                }
            }
            RequestCode::PULL_MESSAGE => self.pull(now, asked, asked.request(), true),
            RequestCode::QUERY_CONSUMER_OFFSET => {
                let request: QueryOffsetRequest = asked.request();
                let place = place_of(&request.queue);
                let young = self.logs.get(&place).is_some_and(|log| log.min == 0);
                let or_zero = young && request.set_zero_if_not_found != Some(false);
                let stored = self.offset(&request.group, &place);
                let answer = StoredOffset(stored.or_else(|| or_zero.then_some(QueueOffset(0))));
                if answer.0.is_some() {
                    self.answer(asked, &answer);
                } else {
                    self.refuse(asked, answer.code(), "not found, maybe this group consumes first");
                }
            }
            RequestCode::UPDATE_CONSUMER_OFFSET => {
                let request: CommitOffsetRequest = asked.request();
                self.set_offset(now, &request.group, &place_of(&request.queue), request.offset);
                self.answer(asked, &Done);
            }
            RequestCode::GET_MAX_OFFSET => {
                let queue = asked.request::<MaxOffsetRequest>().queue;
                self.answer_offset(asked, &queue, Log::max);
            }
            RequestCode::GET_MIN_OFFSET => {
                let queue = asked.request::<MinOffsetRequest>().queue;
                self.answer_offset(asked, &queue, |log| log.min);
            }
            RequestCode::SEARCH_OFFSET_BY_TIMESTAMP => {
                let request: SearchOffsetRequest = asked.request();
                self.answer_offset(asked, &request.queue, |log| {
                    let found = log.messages.iter().find(|m| m.store_at >= request.timestamp);
                    found.map_or_else(|| log.max(), |message| message.offset.0)
                });
            }
            RequestCode::CONSUMER_SEND_MSG_BACK => self.take_back(now, asked, &asked.request()),
            _ => self.refuse(
                asked,
                ResponseCode::REQUEST_CODE_NOT_SUPPORTED,
                "not modelled by this test",
            ),
        }
    }

    fn answer<A: Answer>(&mut self, asked: &Asked, answer: &A) {
        self.out.push((asked.link.clone(), asked.answered(answer)));
    }

    fn refuse(&mut self, asked: &Asked, code: ResponseCode, remark: &str) {
        self.out.push((asked.link.clone(), asked.refused(code, remark)));
    }

    fn answer_offset(&mut self, asked: &Asked, queue: &QueueRef, of: impl Fn(&Log) -> i64) {
        match self.logs.get(&place_of(queue)).map(of) {
            Some(offset) => {
                let offset = QueueOffset(offset);
                self.answer(asked, &OffsetAnswer { offset });
            }
            None => self.refuse(asked, ResponseCode::TOPIC_NOT_EXIST, "no such queue"),
        }
    }

    // ---- members --------------------------------------------------------------------------------

    /// Registers; whoever is concerned hears of a change, the newcomer before the answer.
    fn heartbeat(&mut self, asked: &Asked, request: &HeartbeatRequest) {
        for data in &request.consumers {
            let retry = Topic::from(format!("%RETRY%{}", data.group));
            self.add_queues(&retry, 1);
            let group = self.groups.entry(data.group.clone()).or_default();
            let mut changed = false;
            if !group.members.iter().any(|(link, _)| link == &asked.link) {
                group
                    .members
                    .push((asked.link.clone(), request.client_id.clone()));
                changed = true;
            }
            for subscription in &data.subscriptions {
                match group.subscriptions.get(&subscription.topic) {
                    Some(known) if known.sub_version >= subscription.sub_version => {}
                    known => {
                        changed |= known.is_none();
                        let topic = subscription.topic.clone();
                        group.subscriptions.insert(topic, subscription.clone());
                    }
                }
            }
            let before = group.subscriptions.len();
            group
                .subscriptions
                .retain(|topic, _| data.subscriptions.iter().any(|s| &s.topic == topic));
            if changed || group.subscriptions.len() < before {
                self.notify(&data.group);
            }
        }
        let answer = HeartbeatAnswer {
            supports_v2: Some(true),
            sub_changed: Some(true),
        };
        self.answer(asked, &answer);
    }

    fn unregister(&mut self, asked: &Asked, request: &UnregisterRequest) {
        if let Some(name) = &request.consumer_group
            && let Some(group) = self.groups.get_mut(name)
        {
            group.members.retain(|(link, _)| link != &asked.link);
            self.notify(name);
        }
        self.answer(asked, &Done);
    }

    fn notify(&mut self, name: &ConsumerGroup) {
        let members = self.groups.get(name).map(|group| &group.members);
        for (link, _) in members.into_iter().flatten() {
            let word = MembersChanged { group: name.clone() };
            let frame = encode_request(HeaderForm::Json, 0, true, &word).expect("a small request");
            self.out.push((link.clone(), frame));
        }
    }

    // ---- messages -------------------------------------------------------------------------------

    fn pull(&mut self, now: Instant, asked: &Asked, request: PullRequest, may_hold: bool) {
        let place = (request.topic.clone(), request.queue);
        let subscription = self
            .groups
            .get(&request.group)
            .and_then(|group| group.subscriptions.get(&request.topic))
            .cloned();
        let Some(subscription) = subscription else {
            let code = ResponseCode::SUBSCRIPTION_NOT_EXIST;
            return self.refuse(asked, code, "the consumer's group info not exist");
        };
        if subscription.sub_version < request.sub_version {
            let code = ResponseCode::SUBSCRIPTION_NOT_LATEST;
            return self.refuse(asked, code, "the consumer's subscription not latest");
        }
        let Some(log) = self.logs.get(&place) else {
            return self.refuse(asked, ResponseCode::TOPIC_NOT_EXIST, "no such topic or queue");
        };
        let max = usize::try_from(request.max_messages).unwrap_or(0).min(32);
        let answer = log.read(request.offset.0, max, &subscription);
        if let Some(commit) = request.commit {
            self.set_offset(now, &request.group, &place, commit);
        }
        match request.suspend {
            Some(hold) if may_hold && answer.status == PullStatus::NotFound => self.held.push(Held {
                asked: asked.clone(),
                until: now + hold,
            }),
            _ => self.answer(asked, &answer),
        }
    }

    fn answer_held(&mut self, now: Instant, concerned: impl Fn(&Place) -> bool) {
        let (due, later) = core::mem::take(&mut self.held).into_iter().partition(|held| {
            let request: PullRequest = held.asked.request();
            concerned(&(request.topic, request.queue))
        });
        self.held = later;
        for Held { asked, until } in due {
            let request: PullRequest = asked.request();
            // What does not match leaves it waiting, as long as it would have waited anyway.
            let left = until.saturating_since(now);
            let request = PullRequest {
                suspend: Some(left),
                commit: None,
                ..request
            };
            self.pull(now, &asked, request, !left.is_zero());
        }
    }

    fn take_back(&mut self, now: Instant, asked: &Asked, request: &SendBackRequest) {
        let found = self
            .logs
            .values()
            .flat_map(|log| &log.messages)
            .find(|message| message.physical_offset == request.offset);
        let Some(found) = found.cloned() else {
            return self.refuse(asked, ResponseCode::SYSTEM_ERROR, "look message by offset failed");
        };
        self.sent_back.push((found.queue.clone(), found.offset, now));
        let most = request.max_reconsume_times.unwrap_or(16);
        let mut copy = found.clone();
        let original = original_topic(&found).to_string();
        copy.set_property(name::RETRY_TOPIC, original);
        copy.reconsume_times += 1;
        let buried = request.delay == Delay::DeadLetter || found.reconsume_times >= most;
        let (topic, delay) = if buried {
            (format!("%DLQ%{}", request.group), Duration::ZERO)
        } else {
            let level = match request.delay {
                Delay::Level(level) => level,
                Delay::Broker | Delay::DeadLetter => u16::try_from(3 + found.reconsume_times).unwrap_or(18),
            };
            let level = u8::try_from(level).ok().and_then(DelayLevel::new);
            let delay = level.unwrap_or(DelayLevel::MAX).delay();
            (format!("%RETRY%{}", request.group), delay)
        };
        copy.queue = MessageQueue {
            topic: topic.into(),
            broker: self.name.clone(),
            id: QueueId(0),
        };
        if delay.is_zero() {
            self.append(now, copy);
        } else {
            self.returning.push((now + delay, copy));
        }
        self.answer(asked, &Done);
    }
}

fn place_of(queue: &QueueRef) -> Place {
    (queue.topic.clone(), queue.queue)
}
