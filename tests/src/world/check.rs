//! What must hold whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::ids::{ConsumerGroup, MessageQueue, QueueOffset, Topic};
use rocketmq_consumer_core::status::{GroupPhase, QueueState};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::properties::name;
use rocketmq_consumer_core::wire::request::send::SendRequest;
use rocketmq_consumer_core::wire::stored::Record;

use super::member::Member;
use super::{Peer, World};

impl<P: Peer> World<P> {
    /// Every machine, fed the same events again, does the same again.
    ///
    /// # Panics
    /// When one does not.
    pub fn assert_replays(&self) {
        for member in &self.members {
            member.machine.assert_replays();
        }
    }

    /// No rule was broken on the way: one pull at a time for each ownership, every queue with
    /// something that moves it or a reason that it does not move, no wake-up without progress, no
    /// byte on a dead connection.
    ///
    /// # Panics
    /// When one was.
    pub fn assert_no_rule_broken(&self) {
        assert!(self.broken.is_empty(), "{:#?}", self.broken);
    }

    /// Every queue is at the broker, or says why not.
    pub(super) fn check_queues(&mut self) {
        let mut broken = Vec::new();
        for member in self
            .members
            .iter()
            .filter(|member| member.alive && !member.closed)
        {
            let state = member.machine.state();
            for group in state.status().groups {
                for queue in &group.queues {
                    let moves = match queue.state {
                        QueueState::Pulling => {
                            let key = (&queue.queue, queue.epoch);
                            member.pulls.values().any(|p| (&p.queue, p.epoch) == key)
                        }
                        QueueState::Held | QueueState::Acquiring => queue.hold.is_some(),
                        QueueState::Revoking | _ => true,
                    };
                    if !moves && group.phase == GroupPhase::Running {
                        broken.push(format!("{:?}: {} stands still: {queue:?}", self.now, member.id));
                    }
                }
            }
            if state.poll_timeout().is_none() {
                broken.push(format!("{:?}: {} waits for nothing", self.now, member.id));
            }
        }
        self.broken.append(&mut broken);
    }
}

impl World {
    /// Everything a story must end with.
    ///
    /// # Panics
    /// When it does not.
    pub fn assert_story(&self) {
        self.assert_no_rule_broken();
        self.assert_commits_safe();
        self.assert_replays();
    }

    /// Every message of a topic that a group subscribes to was handled with success at least once by
    /// that group, by its first delivery or by a later one.
    ///
    /// # Panics
    /// When one was not.
    pub fn assert_complete(&self, topic: &str) {
        let topic = Topic::from(topic);
        let groups: BTreeSet<&ConsumerGroup> = self.members.iter().map(|m| m.group.group()).collect();
        for group in groups {
            let done: BTreeSet<&str> = self
                .of_group(group)
                .flat_map(|member| &member.done)
                .map(|(delivery, _)| delivery.body.as_str())
                .collect();
            for (_, message) in self.peer.stored(&topic) {
                let body = String::from_utf8_lossy(message.body());
                let tag = message.record.tags();
                let wanted = self.of_group(group).any(|m| wants(m, &topic, tag.as_deref()));
                assert!(
                    !wanted || done.contains(&*body),
                    "{body} was never handled by {group}"
                );
            }
        }
    }

    /// No commit passes a message that nobody of its group had finished, and nobody given back, when
    /// it was sent.
    ///
    /// # Panics
    /// When one does.
    pub fn assert_commits_safe(&self) {
        let groups = self.members.iter().map(|m| m.group.group());
        let settled: BTreeMap<_, _> = groups.map(|group| (group, self.settled(group))).collect();
        for commit in self.commits() {
            let settled = &settled[&commit.group];
            let member = self.lives_of(&commit.member);
            let MessageQueue { topic, broker, id } = &commit.queue;
            let stored = self.peer.state().stored(broker, topic, *id);
            for message in stored.take_while(|message| message.offset() < commit.offset) {
                let (original, tag) = (original_topic(&message.record), message.record.tags());
                let wanted = member.iter().any(|m| wants(m, &original, tag.as_deref()));
                let at = settled.get(&(commit.queue.clone(), message.offset()));
                assert!(
                    !wanted || at.is_some_and(|at| *at <= commit.at),
                    "{commit:?} passes {}, settled {at:?}",
                    message.offset()
                );
            }
        }
    }

    fn of_group<'a>(&'a self, group: &'a ConsumerGroup) -> impl Iterator<Item = &'a Member> {
        self.members.iter().filter(move |m| m.group.group() == group)
    }

    /// When each message was finished by a group, or taken back, for the first time.
    fn settled(&self, group: &ConsumerGroup) -> BTreeMap<(MessageQueue, QueueOffset), Instant> {
        let mut settled = BTreeMap::new();
        let done = self.of_group(group).flat_map(|member| &member.done);
        let done = done.map(|(delivery, at)| (delivery.queue.clone(), delivery.offset, *at));
        let back = self.peer.sent_back().iter().filter(|back| &back.group == group);
        let back = back.map(|back| (back.queue.clone(), back.offset, back.at));
        let copied = self.copied(group);
        for (queue, offset, at) in done.chain(back).chain(copied) {
            let first = settled.entry((queue, offset)).or_insert(at);
            *first = at.min(*first);
        }
        settled
    }

    /// Where the messages lie of which a copy was to be stored for a group, and when that was asked for. Whether
    /// it was stored in time is for the simulator to judge, which sees the answers.
    fn copied(&self, group: &ConsumerGroup) -> Vec<(MessageQueue, QueueOffset, Instant)> {
        let retry = Topic::from(format!("%RETRY%{group}"));
        let mut copied = Vec::new();
        for asked in self.all_requests(RequestCode::SEND_MESSAGE_V2) {
            let copy: SendRequest = asked.request();
            if copy.topic != retry {
                continue;
            }
            let topics = self
                .of_group(group)
                .flat_map(|member| member.group.subscriptions());
            let topics: BTreeSet<&Topic> = topics.map(|(topic, _)| topic).chain([&retry]).collect();
            for (queue, message) in topics.into_iter().flat_map(|topic| self.peer.stored(topic)) {
                if message.body() == &*copy.body {
                    copied.push((queue, message.offset(), asked.at));
                }
            }
        }
        copied
    }

    fn lives_of(&self, id: &rocketmq_consumer_core::ids::ClientId) -> Vec<&Member> {
        self.members.iter().filter(|member| &member.id == id).collect()
    }
}

/// The topic a message was sent to first, whatever topic it lies in now.
fn original_topic(record: &Record<'_>) -> Topic {
    let before = record.property(name::RETRY_TOPIC);
    before.map_or_else(|| record.topic().into(), |topic| (&*topic).into())
}

/// Whether a member subscribes to what this message is.
fn wants(member: &Member, topic: &Topic, tag: Option<&str>) -> bool {
    member.group.subscriptions().iter().any(|(of, filter)| {
        of == topic
            && filter
                .subscription(of.clone())
                .is_ok_and(|subscription| subscription.matches(tag))
    })
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::ConnId;
    use rocketmq_consumer_core::wire::frame::HeaderForm;
    use rocketmq_consumer_core::wire::request::encode_request;
    use rocketmq_consumer_core::wire::request::offsets::{CommitOffsetRequest, QueueRef};

    use super::super::{Asked, Handling, Link, Setup, address, queue, secs};
    use super::*;

    /// Five messages, and a member whose handler does this with the fourth.
    fn world(fourth: Handling) -> World {
        let set_up = |setup: &mut Setup| {
            setup.subscribe("T", "*").handler(move |delivery| {
                if delivery.offset.0 == 3 {
                    fourth
                } else {
                    Handling::done()
                }
            });
        };
        let mut world = World::new()
            .topic("T", &[("a", 1)])
            .stored("T", "a", 0, 5)
            .member("c1", set_up);
        world.run_for(secs(6));
        world
    }

    /// The member says that it has finished everything below this offset.
    fn commit(world: &mut World, offset: i64) {
        let queue = queue("T", "a", 0);
        let request = CommitOffsetRequest {
            group: "G".into(),
            queue: QueueRef {
                topic: queue.topic,
                queue: queue.id,
                broker: Some(queue.broker),
            },
            offset: QueueOffset(offset),
        };
        let link = Link {
            member: "c1".into(),
            life: 0,
            conn: ConnId {
                slot: 0,
                generation: 0,
            },
        };
        let bytes = encode_request(HeaderForm::Json, 1, false, &request).expect("a small request");
        let asked = Asked::read(world.now(), &link, &address("a"), bytes);
        world.requests.extend(asked);
    }

    #[test]
    #[should_panic(expected = "T/a/0#3 was never handled by G")]
    fn a_message_that_was_never_handled_is_found() {
        world(Handling::never()).assert_complete("T");
    }

    #[test]
    fn what_was_finished_or_taken_back_may_be_committed() {
        for fourth in [Handling::done(), Handling::retry()] {
            let mut world = world(fourth);
            commit(&mut world, 5);
            world.assert_story();
        }
        let mut world = world(Handling::never());
        commit(&mut world, 3);
        world.assert_story();
    }

    #[test]
    #[should_panic(expected = "passes 3, settled None")]
    fn a_commit_that_passes_an_unfinished_message_is_found() {
        let mut world = world(Handling::never());
        commit(&mut world, 4);
        world.assert_commits_safe();
    }
}
