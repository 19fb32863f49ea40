//! The rebalance thread: one run at a time, one request at a time.
//!
//! Each topic of a run asks for the members, gives back what is not its own any more, and asks for the offset
//! of each queue it adds. Runs are 20 s apart, or 1 s when the last did not come out as computed; a wake-up
//! brings the next one forward, but never closer than 1 s behind the last.
//= rocketmq: RebalanceService.run, RebalanceImpl.rebalanceByTopic, RebalanceImpl.updateProcessQueueTableInRebalance

use std::collections::VecDeque;
use std::time::Duration;

use rocketmq_consumer_core::allocate::sort_members;
use rocketmq_consumer_core::ids::{ClientId, MessageQueue, QueueOffset, Topic};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::frame::Frame;
use rocketmq_consumer_core::wire::request::decode_answer;
use rocketmq_consumer_core::wire::request::members::MemberListRequest;
use rocketmq_consumer_core::wire::request::offsets::{MaxOffsetRequest, QueryOffsetRequest, QueueRef};

use super::ground::Timer;
use super::links::Patience;
use super::process_queue::ProcessQueue;
use super::{JavaMember, JavaOutput, JavaStart, Purpose};

/// `waitInterval`, `minInterval`.
const BALANCED: Duration = Duration::from_secs(20);
const SPACING: Duration = Duration::from_secs(1);
/// A queue without an attempt to pull for longer than this is taken for dead.
const PULL_EXPIRY: Duration = Duration::from_secs(120);
/// The first pull of a queue comes this long after it was added: its brokers must have heard of it first.
const FIRST_PULL: Duration = Duration::from_millis(500);
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_OFFSET_TIMEOUT: Duration = Duration::from_secs(6);
const MEMBERS_TIMEOUT: Duration = Duration::from_secs(3);

/// Where the thread is.
#[derive(Debug)]
pub(super) struct Rebalance {
    /// When the last run ended; at first, when the thread was made.
    last: Instant,
    armed: Option<Instant>,
    running: bool,
    woken: bool,
    balanced: bool,
    steps: VecDeque<Step>,
    changed: bool,
}

#[derive(Debug)]
enum Step {
    Topic(Topic),
    Add(MessageQueue),
    /// The topic is done: this is the share it should have now.
    Settle(Topic, Vec<MessageQueue>),
}

impl Rebalance {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            last: now,
            armed: None,
            running: false,
            woken: false,
            balanced: true,
            steps: VecDeque::new(),
            changed: false,
        }
    }
}

impl JavaMember {
    /// Brings the next run forward. One that comes during a run is remembered.
    pub(super) fn wake_rebalance(&mut self) {
        if self.rebalance.running {
            self.rebalance.woken = true;
            return;
        }
        let earliest = self.rebalance.last + SPACING;
        self.arm_rebalance(earliest.max(self.ground.now));
    }

    fn arm_rebalance(&mut self, at: Instant) {
        if self.rebalance.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        if let Some(armed) = self.rebalance.armed {
            self.ground.disarm(armed, Timer::Rebalance);
        }
        let after = at.saturating_since(self.ground.now);
        self.rebalance.armed = Some(self.ground.arm(after, Timer::Rebalance));
    }

    pub(super) fn begin_rebalance(&mut self) {
        self.rebalance.armed = None;
        self.rebalance.running = true;
        self.rebalance.balanced = true;
        self.rebalance.steps = self.topics().map(Step::Topic).collect();
        self.next_step();
    }

    pub(super) fn next_step(&mut self) {
        while let Some(step) = self.rebalance.steps.pop_front() {
            let asked = match step {
                Step::Topic(topic) => self.ask_members(topic),
                Step::Add(queue) if self.config.orderly => self.ask_lock_to_add(queue),
                Step::Add(queue) => self.ask_stored(queue),
                Step::Settle(topic, share) => {
                    self.settle_topic(&topic, &share);
                    false
                }
            };
            if asked {
                return;
            }
        }
        let now = self.ground.now;
        self.rebalance.running = false;
        self.rebalance.last = now;
        let soon = std::mem::take(&mut self.rebalance.woken) || !self.rebalance.balanced;
        self.arm_rebalance(now + if soon { SPACING } else { BALANCED });
    }

    /// A topic without a route, or whose members cannot be had, stays as it is, and counts as balanced.
    fn ask_members(&mut self, topic: Topic) -> bool {
        if self.directory.queues(&topic).is_none() {
            return false;
        }
        let Some(broker) = self.directory.any_broker(&topic) else {
            return false;
        };
        let request = MemberListRequest {
            group: self.config.group.clone(),
        };
        let patience = Patience::Sync(MEMBERS_TIMEOUT);
        self.links.ask(
            &mut self.ground,
            &broker,
            &request,
            patience,
            Purpose::Members(topic),
        );
        true
    }

    pub(super) fn on_members(&mut self, topic: Topic, answer: Option<&Frame>) {
        let members = answer.and_then(|frame| decode_answer::<MemberListRequest>(frame).ok());
        if let Some(members) = members {
            self.share_out(topic, members.client_ids);
        }
        self.next_step();
    }

    fn share_out(&mut self, topic: Topic, mut members: Vec<ClientId>) {
        sort_members(&mut members);
        let queues = self.directory.queues(&topic).unwrap_or_default();
        let share = self
            .config
            .strategy
            .allocate(queues, &members, &self.config.client_id);
        let Ok(share) = share else {
            if !members.is_empty() {
                self.rebalance.balanced = false;
            }
            return;
        };
        let now = self.ground.now;
        let leaves = |queue: &&ProcessQueue| {
            queue.name.topic == topic
                && (!share.contains(&queue.name) || now.saturating_since(queue.last_pull) > PULL_EXPIRY)
        };
        let gone: Vec<MessageQueue> = self
            .queues
            .values()
            .filter(leaves)
            .map(|queue| queue.name.clone())
            .collect();
        self.rebalance.changed = false;
        for name in gone {
            self.rebalance.changed |= self.release(&name);
        }
        let new = share.iter().filter(|name| !self.queues.contains_key(*name));
        let adds: Vec<Step> = new.cloned().map(Step::Add).collect();
        self.rebalance.steps.push_front(Step::Settle(topic, share));
        for add in adds.into_iter().rev() {
            self.rebalance.steps.push_front(add);
        }
    }

    fn settle_topic(&mut self, topic: &Topic, share: &[MessageQueue]) {
        if std::mem::take(&mut self.rebalance.changed) {
            self.assignment_changed(topic);
        }
        let owned = self.owned().filter(|name| &name.topic == topic).count();
        if owned != share.len() {
            self.rebalance.balanced = false;
        }
    }

    pub(super) fn ask_stored(&mut self, queue: MessageQueue) -> bool {
        let Some((_, broker)) = self.directory.replica(&queue.broker, 0) else {
            return false;
        };
        let request = QueryOffsetRequest {
            group: self.config.group.clone(),
            queue: reference(&queue),
            set_zero_if_not_found: None,
        };
        let patience = Patience::Sync(QUERY_TIMEOUT);
        self.links.ask(
            &mut self.ground,
            &broker.clone(),
            &request,
            patience,
            Purpose::Stored(queue),
        );
        true
    }

    /// "None" and "no answer" are two things: only the first one chooses a start.
    //= rocketmq: RebalancePushImpl.computePullFromWhereWithException
    pub(super) fn on_stored(&mut self, queue: MessageQueue, answer: Option<&Frame>) {
        let stored = answer.and_then(|frame| decode_answer::<QueryOffsetRequest>(frame).ok());
        match stored.map(|stored| stored.0) {
            Some(Some(offset)) => self.add(queue, offset),
            Some(None) if queue.topic == self.retry_topic || self.config.start == JavaStart::First => {
                self.add(queue, QueueOffset(0));
            }
            Some(None) => {
                if let Some(master) = self.directory.master(&queue.broker).cloned() {
                    let request = MaxOffsetRequest {
                        queue: reference(&queue),
                        committed: None,
                    };
                    let patience = Patience::Sync(MAX_OFFSET_TIMEOUT);
                    self.links
                        .ask(&mut self.ground, &master, &request, patience, Purpose::Max(queue));
                    return;
                }
            }
            None => {}
        }
        self.next_step();
    }

    pub(super) fn on_max(&mut self, queue: MessageQueue, answer: Option<&Frame>) {
        if let Some(answer) = answer.and_then(|frame| decode_answer::<MaxOffsetRequest>(frame).ok()) {
            self.add(queue, answer.offset);
        }
        self.next_step();
    }

    fn add(&mut self, name: MessageQueue, from: QueueOffset) {
        self.epochs += 1;
        let epoch = self.epochs;
        let mut queue = ProcessQueue::new(name.clone(), epoch, from, self.ground.now);
        queue.timer = Some(self.ground.arm(FIRST_PULL, Timer::Pull(epoch)));
        self.by_epoch.insert(epoch, name.clone());
        self.ground.out.push_back(JavaOutput::Assigned {
            queue: name.clone(),
            epoch,
            from,
        });
        self.queues.insert(name, queue);
        self.rebalance.changed = true;
    }

    /// Gives a queue back. Whether it is gone from the table.
    fn release(&mut self, name: &MessageQueue) -> bool {
        if self.config.orderly {
            return self.release_in_order(name);
        }
        self.remove(name);
        true
    }

    /// A queue leaves the table: one last one-way commit, and whatever comes for it from now on finds nothing.
    //= rocketmq: RebalancePushImpl.removeUnnecessaryMessageQueue
    pub(super) fn remove(&mut self, name: &MessageQueue) {
        self.persist(name);
        let Some(queue) = self.queues.remove(name) else {
            return;
        };
        if let Some(at) = queue.timer {
            self.ground.disarm(at, Timer::Pull(queue.epoch));
        }
        self.by_epoch.remove(&queue.epoch);
        self.ground.out.push_back(JavaOutput::Revoked {
            queue: queue.name.clone(),
            epoch: queue.epoch,
            committed: queue.entry(),
        });
        if self.config.orderly {
            self.after_removal(&queue);
        }
    }
}

/// A queue as offset requests name it.
pub(super) fn reference(queue: &MessageQueue) -> QueueRef {
    QueueRef {
        topic: queue.topic.clone(),
        queue: queue.id,
        broker: Some(queue.broker.clone()),
    }
}
