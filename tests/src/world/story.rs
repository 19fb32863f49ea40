//! A world round a modelled cluster, as tests tell it.

use std::time::Duration;

use rocketmq_consumer_core::action::{Refusal, ShutdownReport};
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::{ClientId, ConnId, ConsumerGroup, MessageQueue, PeerAddr, QueueOffset};
use rocketmq_consumer_core::notice::Notice;
use rocketmq_consumer_core::status::{QueueStatus, Status};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::PullRequest;

use super::asked::Link;
use super::cluster::{Cluster, Node, queue};
use super::member::{Delivery, Setup};
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
        self.peer.add_topic(&topic.into(), queues);
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
        let queue = queue(topic, broker, id);
        let stored = self.peer.broker(broker).stored(&queue.topic);
        let number = stored.filter(|message| message.queue == queue).count();
        let body = format!("{queue}#{number}");
        self.peer.append(self.now, queue, body, tag);
    }

    /// What listens behind a name, to be scripted: `ns`, `ns2` or a broker.
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
        self.peer.revive(name, None);
    }

    /// It runs again, at another address.
    pub fn revive_at(&mut self, name: &str, addr: PeerAddr) {
        self.peer.revive(name, Some(addr));
    }

    /// The messages of a queue below this offset expire.
    pub fn expire(&mut self, topic: &str, broker: &str, id: i32, below: i64) {
        let queue = queue(topic, broker, id);
        self.peer
            .broker_mut(broker)
            .expire(&(queue.topic, queue.id), below);
    }

    /// Stores an offset behind everybody's back, as an operator's tool does.
    pub fn store_offset(&mut self, group: &str, queue: &MessageQueue, offset: i64) {
        let now = self.now;
        let broker = self.peer.broker_mut(queue.broker.as_str());
        let place = (queue.topic.clone(), queue.id);
        broker.set_offset(now, &group.into(), &place, QueueOffset(offset));
    }

    /// Lists an id that no process of this world stands behind, as a broker does with a connection it
    /// has not missed yet.
    pub fn add_ghost(&mut self, broker: &str, group: &str, id: &str) {
        let conn = ConnId {
            slot: u32::MAX,
            generation: u32::MAX,
        };
        let link = Link {
            member: id.into(),
            life: u32::MAX,
            conn,
        };
        self.peer
            .broker_mut(broker)
            .add_ghost(&group.into(), link, id.into());
    }

    /// The broker misses the connection at last.
    pub fn drop_ghost(&mut self, broker: &str, id: &str) {
        let conn = ConnId {
            slot: u32::MAX,
            generation: u32::MAX,
        };
        let link = Link {
            member: id.into(),
            life: u32::MAX,
            conn,
        };
        self.peer.broker_mut(broker).forget(&link);
    }

    /// The offset a broker has stored.
    #[must_use]
    pub fn stored_offset(&self, group: &str, queue: &MessageQueue) -> Option<i64> {
        let broker = self.peer.broker(queue.broker.as_str());
        let place = (queue.topic.clone(), queue.id);
        broker.offset(&group.into(), &place).map(|offset| offset.0)
    }

    /// How many messages a queue has ever had: the next one gets this offset.
    #[must_use]
    pub fn stored_messages(&self, queue: &MessageQueue) -> i64 {
        let broker = self.peer.broker(queue.broker.as_str());
        broker.max_offset(&(queue.topic.clone(), queue.id))
    }

    /// The members of a group, as a broker lists them.
    #[must_use]
    pub fn listed(&self, broker: &str, group: &str) -> Vec<ClientId> {
        self.peer.broker(broker).members(&group.into())
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
