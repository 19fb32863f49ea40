//! What must hold whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::ids::{ConsumerGroup, MessageQueue, QueueOffset, Topic};
use rocketmq_consumer_core::status::{GroupPhase, QueueState};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::subscription::Subscription;

use super::member::Member;
use super::stored::original_topic;
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
            for broker in self.peer.brokers() {
                for message in broker.stored(&topic) {
                    let body = String::from_utf8_lossy(&message.body);
                    let wanted = self.of_group(group).any(|m| wants(m, &topic, message.tag()));
                    assert!(
                        !wanted || done.contains(&*body),
                        "{body} was never handled by {group}"
                    );
                }
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
            let topic = &commit.queue.topic;
            for message in self.peer.broker(commit.queue.broker.as_str()).stored(topic) {
                if message.queue != commit.queue || message.offset >= commit.offset {
                    continue;
                }
                let original = original_topic(message);
                let wanted = member.iter().any(|m| wants(m, &original, message.tag()));
                let at = settled.get(&(message.queue.clone(), message.offset));
                assert!(
                    !wanted || at.is_some_and(|at| *at <= commit.at),
                    "{commit:?} passes {}, settled {at:?}",
                    message.offset
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
        let brokers = self.peer.brokers();
        let back = brokers.flat_map(|broker| broker.sent_back()).cloned();
        for (queue, offset, at) in done.chain(back) {
            let first = settled.entry((queue, offset)).or_insert(at);
            *first = at.min(*first);
        }
        settled
    }

    fn lives_of(&self, id: &rocketmq_consumer_core::ids::ClientId) -> Vec<&Member> {
        self.members.iter().filter(|member| &member.id == id).collect()
    }
}

/// Whether a member subscribes to what this message is.
fn wants(member: &Member, topic: &Topic, tag: Option<&str>) -> bool {
    member.group.subscriptions().iter().any(|(of, expression)| {
        of == topic
            && Subscription::tagged(of.clone(), expression)
                .is_ok_and(|subscription| subscription.matches(tag))
    })
}
