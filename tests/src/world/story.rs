//! A world round a cluster, as tests tell it.

use std::time::Duration;

use rocketmq_consumer_core::action::{Refusal, ShutdownReport};
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::{ClientId, ConnId, ConsumerGroup, MessageQueue, PeerAddr, QueueOffset};
use rocketmq_consumer_core::notice::Notice;
use rocketmq_consumer_core::status::{QueueStatus, Status};
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::properties::name;
use rocketmq_consumer_core::wire::request::heartbeat::{
    ConsumeType, ConsumerData, HeartbeatRequest, MessageModel, SubscriptionData,
};
use rocketmq_consumer_core::wire::request::offsets::{CommitOffsetRequest, QueueRef};
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_core::wire::subscription::Subscription;

use super::cluster::{Cluster, queue};
use super::member::{Delivery, Member, Setup};
use super::node::Node;
use super::recorder::Recorder;
use super::{ORIGIN, Peer, World};

/// An offset that a member has sent to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// When it was sent.
    pub at: Instant,
    /// By whom.
    pub member: ClientId,
    /// For which group.
    pub group: ConsumerGroup,
    /// Of which queue.
    pub queue: MessageQueue,
    /// The offset.
    pub offset: QueueOffset,
    /// Whether it came along with a pull.
    pub with_pull: bool,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// A world with one name server and nothing else.
    #[must_use]
    pub fn new() -> Self {
        Self::around(Cluster::new(ORIGIN))
    }

    /// One more name server.
    #[must_use]
    pub fn name_server(mut self) -> Self {
        self.peer.add_name_server();
        self
    }

    /// A topic with so many queues on each of these brokers.
    #[must_use]
    pub fn topic(mut self, topic: &str, queues: &[(&str, u32)]) -> Self {
        self.peer.add_topic(self.now, &topic.into(), queues);
        self
    }

    /// A member from the beginning.
    #[must_use]
    pub fn member(mut self, id: &str, set_up: impl FnOnce(&mut Setup)) -> Self {
        self.join(id, set_up);
        self
    }

    /// So many messages in a queue from the beginning.
    #[must_use]
    pub fn stored(mut self, topic: &str, broker: &str, id: i32, count: usize) -> Self {
        self.produce(topic, broker, id, count);
        self
    }

    /// A member joins: of the group `G`, starting at the earliest message, with a handler that
    /// succeeds at once, unless `set_up` says otherwise.
    pub fn join(&mut self, id: &str, set_up: impl FnOnce(&mut Setup)) {
        let mut setup = Setup::new(id, self.peer.name_servers());
        set_up(&mut setup);
        self.start(setup);
    }

    /// A member shuts down and gives its handlers this long.
    pub fn leave(&mut self, id: &str, drain: Duration) {
        self.tell(id, AppEvent::Shutdown { drain });
    }

    /// Stores messages; the body of each is unique and tells where it was stored first.
    pub fn produce(&mut self, topic: &str, broker: &str, id: i32, count: usize) {
        for _ in 0..count {
            self.produce_tagged(topic, broker, id, "");
        }
    }

    /// Stores a message with a tag.
    pub fn produce_tagged(&mut self, topic: &str, broker: &str, id: i32, tag: &str) {
        let tag = (!tag.is_empty()).then_some((name::TAGS, tag));
        self.produce_with(topic, broker, id, tag.as_slice());
    }

    /// Stores a message with these properties.
    pub fn produce_with(&mut self, topic: &str, broker: &str, id: i32, properties: &[(&str, &str)]) {
        let queue = queue(topic, broker, id);
        let body = format!("{queue}#{}", self.stored_messages(&queue));
        self.peer.append(self.now, queue, body, properties);
    }

    /// What is arranged for whoever dials or asks `ns`, `ns2` or a broker.
    pub fn broker(&mut self, name: &str) -> &mut Node {
        self.peer.node(name)
    }

    /// The process behind a name dies. A broker loses its members, held pulls and what it had not
    /// flushed of the offsets.
    pub fn kill(&mut self, name: &str) {
        self.peer.kill(self.now, name);
    }

    /// It runs again.
    pub fn revive(&mut self, name: &str) {
        self.peer.revive(self.now, name);
    }

    /// All offsets of a broker are this much lower: an older file of them was restored.
    pub fn rewind_offsets(&mut self, broker: &str, by: u64) {
        self.peer.rewind_offsets(self.now, broker, by);
    }

    /// A topic is deleted everywhere, with its messages and everybody's progress in it.
    pub fn delete_topic(&mut self, topic: &str) {
        self.peer.delete_topic(self.now, topic);
    }

    /// A topic is made again, or changed.
    pub fn put_topic(&mut self, topic: &str, queues: &[(&str, u32)]) {
        self.peer.add_topic(self.now, &topic.into(), queues);
    }

    /// A broker runs again, at another address.
    pub fn revive_at(&mut self, broker: &str, addr: PeerAddr) {
        self.peer.relocate(self.now, broker, addr);
        self.peer.revive(self.now, broker);
    }

    /// The messages of a queue below this offset expire.
    pub fn expire(&mut self, topic: &str, broker: &str, id: i32, below: i64) {
        self.peer.expire(self.now, queue(topic, broker, id), below);
    }

    /// Stores an offset behind everybody's back, as an operator's tool does.
    pub fn store_offset(&mut self, group: &str, queue: &MessageQueue, offset: i64) {
        let request = CommitOffsetRequest {
            group: group.into(),
            queue: QueueRef {
                topic: queue.topic.clone(),
                queue: queue.id,
                broker: Some(queue.broker.clone()),
            },
            offset: QueueOffset(offset),
        };
        let conn = self.peer.ask(self.now, queue.broker.as_str(), &request);
        self.peer.hang_up(self.now, conn);
    }

    /// A broker lists a connection that a member had in an earlier life and that it has not missed yet.
    /// Returns the connection.
    pub fn add_ghost(&mut self, broker: &str, id: &str) -> ConnId {
        let member = &self.members[self.index(id)];
        let heartbeat = last_words(member);
        self.peer.ask(self.now, broker, &heartbeat)
    }

    /// The broker misses the connection at last.
    pub fn drop_ghost(&mut self, ghost: ConnId) {
        self.peer.hang_up(self.now, ghost);
    }

    /// The offset a broker has stored.
    #[must_use]
    pub fn stored_offset(&self, group: &str, queue: &MessageQueue) -> Option<i64> {
        let committed = self.peer.state().committed(&group.into(), queue);
        committed.map(|offset| offset.0)
    }

    /// How many messages a queue has ever had: the next one gets this offset.
    #[must_use]
    pub fn stored_messages(&self, queue: &MessageQueue) -> i64 {
        self.peer.state().max_offset(queue).0
    }

    /// The members of a group, as a broker lists them.
    #[must_use]
    pub fn listed(&self, broker: &str, group: &str) -> Vec<ClientId> {
        let (broker, group) = (broker.into(), group.into());
        let members = self.peer.state().members(&broker, &group);
        members.map(|(_, client)| client.clone()).collect()
    }

    /// Requests of a kind that were sent to somebody.
    #[must_use]
    pub fn requests(&self, name: &str, code: RequestCode) -> Vec<&super::Asked> {
        let to = self.peer.addr(name);
        self.all_requests(code)
            .into_iter()
            .filter(|asked| asked.to == to)
            .collect()
    }
}

impl<P: Peer> World<P> {
    /// Requests of a kind, in the order they were sent.
    #[must_use]
    pub fn all_requests(&self, code: RequestCode) -> Vec<&super::Asked> {
        self.requests.iter().filter(|asked| asked.code == code).collect()
    }

    /// What a member's handlers were given, over all processes with this id.
    #[must_use]
    pub fn delivered(&self, id: &str) -> Vec<&Delivery> {
        self.lives(id).flat_map(|member| &member.deliveries).collect()
    }

    /// The offsets a member's handlers were given of one queue.
    #[must_use]
    pub fn offsets(&self, id: &str, queue: &MessageQueue) -> Vec<i64> {
        let delivered = self.delivered(id);
        let of_queue = delivered.iter().filter(|delivery| &delivery.queue == queue);
        of_queue.map(|delivery| delivery.offset.0).collect()
    }

    /// What a member was told worth knowing, over all processes with this id.
    #[must_use]
    pub fn notices(&self, id: &str) -> Vec<&Notice> {
        self.lives(id).flat_map(|member| &member.notices).collect()
    }

    /// What was refused to a member.
    #[must_use]
    pub fn refusals(&self, id: &str) -> &[Refusal] {
        &self.members[self.index(id)].refusals
    }

    /// How a member's group ended, once it has.
    #[must_use]
    pub fn report_of(&self, id: &str) -> Option<&ShutdownReport> {
        self.members[self.index(id)].report.as_ref()
    }

    /// Whether a member has closed everything.
    #[must_use]
    pub fn is_closed(&self, id: &str) -> bool {
        self.members[self.index(id)].closed
    }

    /// A member's machine.
    #[must_use]
    pub fn machine(&self, id: &str) -> &Recorder {
        &self.members[self.index(id)].machine
    }

    /// A member's own account of itself.
    #[must_use]
    pub fn status(&self, id: &str) -> Status {
        self.machine(id).state().status()
    }

    /// The queues of a topic that a member has, sorted.
    #[must_use]
    pub fn queues(&self, id: &str, topic: &str) -> Vec<MessageQueue> {
        let status = self.status(id);
        let queues = status.groups.into_iter().flat_map(|group| group.queues);
        let of_topic = |queue: QueueStatus| (queue.queue.topic.as_str() == topic).then_some(queue.queue);
        let mut queues: Vec<_> = queues.filter_map(of_topic).collect();
        queues.sort();
        queues
    }

    /// Every offset that was sent to be stored, alone or with a pull.
    #[must_use]
    pub fn commits(&self) -> Vec<Commit> {
        let commits = self.requests.iter().filter_map(|asked| {
            let (at, member) = (asked.at, asked.link.member.clone());
            match asked.code {
                RequestCode::UPDATE_CONSUMER_OFFSET => {
                    let request: CommitOffsetRequest = asked.request();
                    let queue = MessageQueue {
                        topic: request.queue.topic,
                        broker: request.queue.broker?,
                        id: request.queue.queue,
                    };
                    Some(Commit {
                        at,
                        member,
                        group: request.group,
                        queue,
                        offset: request.offset,
                        with_pull: false,
                    })
                }
                RequestCode::PULL_MESSAGE => {
                    let request: PullRequest = asked.request();
                    let queue = MessageQueue {
                        topic: request.topic,
                        broker: request.broker?,
                        id: request.queue,
                    };
                    Some(Commit {
                        at,
                        member,
                        group: request.group,
                        queue,
                        offset: request.commit?,
                        with_pull: true,
                    })
                }
                _ => None,
            }
        });
        commits.collect()
    }

    fn lives(&self, id: &str) -> impl Iterator<Item = &super::Member> {
        self.members.iter().filter(move |member| member.id.as_str() == id)
    }
}

/// A heartbeat as the member sent it in an earlier life.
fn last_words(member: &Member) -> HeartbeatRequest {
    let group = member.group.group().clone();
    let retry = Subscription::all(format!("%RETRY%{group}").into());
    let subscriptions = member.group.subscriptions().iter();
    let subscriptions = subscriptions
        .map(|(topic, filter)| {
            filter
                .subscription(topic.clone())
                .expect("the member runs with it")
        })
        .chain([retry]);
    let data = |subscription: Subscription| SubscriptionData {
        topic: subscription.topic,
        expression: subscription.expression,
        expression_type: None,
        tags: subscription.tags,
        codes: subscription.codes,
        sub_version: WallTime::default(),
        class_filter_mode: false,
    };
    HeartbeatRequest {
        client_id: member.id.clone(),
        consumers: vec![ConsumerData {
            group,
            consume_type: Some(ConsumeType::Passively),
            message_model: Some(MessageModel::Clustering),
            consume_from_where: None,
            subscriptions: subscriptions.map(data).collect(),
            unit_mode: false,
        }],
        producers: Vec::new(),
        fingerprint: 0,
        without_sub: false,
    }
}
