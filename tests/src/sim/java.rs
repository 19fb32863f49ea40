//! A member in another language: a small model of the push consumer of Apache RocketMQ 5.5.0 for Java.
//!
//! Mixed groups are everyday life, and a Java member takes queues over and gives them up in its own way: it
//! pulls 500 ms after it added a queue, it commits one-way and never asks again, and it lets nobody finish. This
//! model keeps that timing and those weaknesses, so that our member meets them in every simulated world. It
//! shares the wire and the allocation with our consumer and not one decision. A mistake in an allocation would
//! not be seen here, where both make it; it is in `golden_allocation`, by the answers of the Java classes themselves.
//!
//! ```text
//!  rebalance (20 s, or woken, 1 s apart) ── members ── share ─► give back: commit one-way, forget
//!                                                        └────► add: ask the offset ─ 500 ms ─► pull ⟲
//!  pull ─► cache ─► pool of threads ─► listener ─► finished ─► offset table ─► one-way every 5 s, and with pulls
//!                                          └ failed ─► sent back ── refused ─► listener again in 5 s
//! ```
//!
//! One that consumes in order locks its queues at their brokers, and gives each to one listener at a time
//! ([`JavaConfig::orderly`]).
//!
//! What it is not: it consumes in clustering mode only, and in order it suspends for ever where Java with a limit
//! of attempts would produce a copy. It has no sweep for messages that take longer than 15 minutes, does not produce to the
//! retry topic when a send back fails, does not answer operators' questions, and asks for routes and sends
//! heartbeats side by side where Java's one timer thread does so in turn. A start without a name server, which
//! in Java fails, is tried again every 3 s, as a supervisor would.
//= rocketmq: DefaultMQPushConsumerImpl, MQClientInstance

mod consuming;
mod directory;
mod ground;
mod leaving;
mod links;
mod membership;
mod ordered;
mod process_queue;
mod pulling;
mod rebalance;

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::action::NetAction;
use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::event::NetEvent;
use rocketmq_consumer_core::ids::{
    ClientId, ConnId, ConsumerGroup, MessageQueue, PeerAddr, QueueOffset, Topic,
};
use rocketmq_consumer_core::message::Message;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::Frame;
use rocketmq_consumer_core::wire::request::encode_refusal;
use rocketmq_consumer_core::wire::subscription::Subscription;

use consuming::Pool;
use directory::Directory;
use ground::{Ground, Timer};
use links::{Heard, Links};
use ordered::Ordered;
use process_queue::ProcessQueue;
use rebalance::Rebalance;

const ROUTES: Duration = Duration::from_secs(30);
const START_AGAIN: Duration = Duration::from_secs(3);
const FIRST_HEARTBEAT: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_secs(30);
const FIRST_PERSIST: Duration = Duration::from_secs(10);
const PERSIST: Duration = Duration::from_secs(5);
const API_TIMEOUT: Duration = Duration::from_secs(3);

/// How a Java-like member is set up.
#[derive(Clone, Debug)]
pub struct JavaConfig {
    /// Its client id, `ip@instance`.
    pub client_id: ClientId,
    /// Its group.
    pub group: ConsumerGroup,
    /// What it subscribes to; its own retry topic is added.
    pub subscriptions: Vec<Subscription>,
    /// How its group shares queues. An own strategy of ours it does not have, and then it owns nothing.
    pub strategy: AllocateStrategy,
    /// Where routes are asked.
    pub name_servers: Vec<PeerAddr>,
    /// Where it starts when nothing is stored.
    pub start: JavaStart,
    /// `consumeThreadMax`: listeners that run at once; 20 in Java.
    pub threads: usize,
    /// Whether its listener consumes in order, under the broker's queue locks.
    pub orderly: bool,
    /// `suspendCurrentQueueTimeMillis`: how long a queue pauses whose listener could not finish a message.
    pub suspend: Duration,
}

/// `ConsumeFromWhere`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JavaStart {
    /// Behind the last message, unless the broker answers "0" for a young queue.
    Last,
    /// At the first message.
    First,
}

/// One thing that happens to a member.
#[derive(Clone, Debug)]
pub enum JavaInput {
    /// The time `poll_timeout` named has come.
    Wakeup,
    /// Something happened to a connection.
    Net(NetEvent),
    /// A listener has returned.
    Handled {
        /// What it was given.
        token: u64,
        /// Success; or "again later", in order "suspend".
        ok: bool,
    },
    /// The wall clock has jumped. Only versions of subscriptions come from it here.
    Clock(WallTime),
    /// Leave in order: as Java with its defaults, that is, listeners are interrupted.
    Shutdown,
}

/// One thing a member wants done, or tells.
#[derive(Clone, Debug)]
pub enum JavaOutput {
    /// Do something with a connection.
    Net(NetAction),
    /// Run a listener; answered by [`JavaInput::Handled`].
    Deliver {
        /// Names it.
        token: u64,
        /// What to handle.
        message: Message,
        /// How often it was given to a listener here before.
        attempt: u32,
    },
    /// A queue was added; it is pulled half a second later.
    Assigned {
        /// Which one.
        queue: MessageQueue,
        /// Counts the ownerships of this member.
        epoch: u64,
        /// Where it starts.
        from: QueueOffset,
    },
    /// A queue was given back.
    Revoked {
        /// Which one.
        queue: MessageQueue,
        /// The ownership.
        epoch: u64,
        /// What was sent as progress; nobody knows whether it arrived.
        committed: Option<QueueOffset>,
    },
    /// It has left and does nothing any more.
    Closed,
}

/// What an answer is for.
#[derive(Debug)]
enum Purpose {
    Route {
        topic: Topic,
        /// Which name server was asked.
        turn: usize,
    },
    Heartbeat {
        /// Whether its answer brings the rebalance forward: that of a new channel does.
        wakes: bool,
    },
    Members(Topic),
    Stored(MessageQueue),
    Max(MessageQueue),
    Pull(u64),
    SendBack(u64),
    /// A queue is to be added and must be locked first.
    LockToAdd(MessageQueue),
    /// One more try for the lock of an ownership.
    LockAgain(u64),
    /// These locks are to be kept.
    LockAll(Vec<u64>),
    /// Where an ownership begins, now that it is locked.
    Recheck(u64),
    /// Nobody acts on the answer.
    Unlock,
    Unregister,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// No route has come yet.
    Starting,
    Running,
    Leaving {
        unanswered: usize,
    },
    Closed,
}

/// A Java-like member as a machine: [`handle`](Self::handle) in, [`poll`](Self::poll) out, woken when
/// [`poll_timeout`](Self::poll_timeout) says. The same inputs give the same outputs.
#[derive(Debug)]
pub struct JavaMember {
    config: JavaConfig,
    retry_topic: Topic,
    subscriptions: BTreeMap<Topic, Subscription>,
    versions: BTreeMap<Topic, WallTime>,
    ground: Ground,
    links: Links<Purpose>,
    directory: Directory,
    rebalance: Rebalance,
    queues: BTreeMap<MessageQueue, ProcessQueue>,
    by_epoch: BTreeMap<u64, MessageQueue>,
    epochs: u64,
    pool: Pool,
    ordered: Ordered,
    name_server: usize,
    life: Life,
}

impl JavaMember {
    /// A member that starts at once.
    #[must_use]
    pub fn new(config: JavaConfig, now: Instant, wall: WallTime) -> Self {
        let retry_topic = Topic::from(format!("%RETRY%{}", config.group));
        let subscribed = config.subscriptions.iter().cloned();
        let subscriptions: BTreeMap<Topic, Subscription> = subscribed
            .chain([Subscription::all(retry_topic.clone())])
            .map(|subscription| (subscription.topic.clone(), subscription))
            .collect();
        let mut member = Self {
            versions: subscriptions.keys().map(|topic| (topic.clone(), wall)).collect(),
            pool: Pool::new(config.threads),
            config,
            retry_topic,
            subscriptions,
            ground: Ground::new(now, wall),
            links: Links::new(),
            directory: Directory::default(),
            rebalance: Rebalance::new(now),
            queues: BTreeMap::new(),
            by_epoch: BTreeMap::new(),
            epochs: 0,
            ordered: Ordered::default(),
            name_server: 0,
            life: Life::Starting,
        };
        member.ask_routes();
        member.ground.arm(FIRST_HEARTBEAT, Timer::Heartbeat);
        member.ground.arm(FIRST_PERSIST, Timer::Persist);
        if member.config.orderly {
            member.ground.arm(ordered::FIRST_LOCK_ALL, Timer::LockAll);
        }
        member
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Instant, input: JavaInput) {
        self.ground.now = self.ground.now.max(now);
        if self.life == Life::Closed {
            return;
        }
        match input {
            JavaInput::Wakeup => self.expire(),
            JavaInput::Net(event) => {
                let heard = self.links.on_net(&mut self.ground, event);
                self.hear(heard);
            }
            JavaInput::Handled { token, ok } if self.config.orderly => self.on_listened(token, ok),
            JavaInput::Handled { token, ok } => self.on_handled(token, ok),
            JavaInput::Clock(wall) => self.ground.clock = (self.ground.now, wall),
            JavaInput::Shutdown => self.shut_down(),
        }
    }

    /// Takes the oldest output that was not taken yet.
    pub fn poll(&mut self) -> Option<JavaOutput> {
        self.ground.out.pop_front()
    }

    /// When it wants to be woken.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.ground.next()
    }

    /// The queues it owns, in order.
    pub fn owned(&self) -> impl Iterator<Item = &MessageQueue> {
        let queues = self.queues.values().filter(|queue| !queue.dropped);
        queues.map(|queue| &queue.name)
    }

    /// Messages it has fetched and not finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.queues.values().map(ProcessQueue::len).sum()
    }

    /// Whether it has left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.life == Life::Closed
    }

    fn topics(&self) -> impl Iterator<Item = Topic> + use<> {
        self.subscriptions.keys().cloned().collect::<Vec<_>>().into_iter()
    }

    fn expire(&mut self) {
        while let Some(timer) = self.ground.pop_due() {
            match timer {
                Timer::Dial(slot) => {
                    let heard = self.links.give_up(&mut self.ground, slot);
                    self.hear(heard);
                }
                Timer::Request(opaque) => {
                    let heard = self.links.overdue(&mut self.ground, opaque);
                    self.hear(heard);
                }
                Timer::Routes => self.ask_routes(),
                Timer::Heartbeat => {
                    self.heartbeat_all(false);
                    self.ground.arm(HEARTBEAT, Timer::Heartbeat);
                }
                Timer::Persist => {
                    self.persist_all();
                    self.ground.arm(PERSIST, Timer::Persist);
                }
                Timer::Rebalance => self.begin_rebalance(),
                Timer::Pull(epoch) => self.pull(epoch),
                Timer::Again(token) => self.on_again(token),
                Timer::LockAll => self.lock_all(),
                Timer::LockAgain(epoch) => self.lock_again(epoch),
                Timer::Listen(epoch) => self.listen(epoch),
                Timer::Removal(epoch) => self.give_up_removal(epoch),
            }
        }
    }

    fn hear(&mut self, heard: Vec<Heard<Purpose>>) {
        for heard in heard {
            match heard {
                // `enableHeartbeatChannelEventListener`: a channel that became active is told who we are.
                Heard::Up(addr)
                    if self.life == Life::Running && !self.config.name_servers.contains(&addr) =>
                {
                    self.heartbeat(&addr, true);
                }
                Heard::Up(_) => {}
                Heard::Ended(purpose, frame) => self.on_ended(purpose, frame.as_ref()),
                Heard::Frame(conn, frame) => self.on_frame(conn, &frame),
            }
        }
    }

    fn on_frame(&mut self, conn: ConnId, frame: &Frame) {
        let Ok(header) = Header::of(frame) else {
            return;
        };
        if header.is_response() {
            if let Some(purpose) = self.links.complete(&mut self.ground, conn, header.opaque) {
                self.on_ended(purpose, Some(frame));
            }
        } else if header.code == RequestCode::NOTIFY_CONSUMER_IDS_CHANGED.0 {
            if self.life == Life::Running {
                self.wake_rebalance();
            }
        } else if !header.is_oneway() {
            let code = ResponseCode::REQUEST_CODE_NOT_SUPPORTED;
            if let Ok(refusal) = encode_refusal(frame.form, header.opaque, code, "not modelled") {
                self.links.answer(&mut self.ground, conn, refusal);
            }
        }
    }

    fn on_ended(&mut self, purpose: Purpose, frame: Option<&Frame>) {
        if self.life == Life::Closed {
            return;
        }
        if let Life::Leaving { unanswered } = &mut self.life {
            if matches!(purpose, Purpose::Unregister) {
                *unanswered -= 1;
                self.close_if_told();
            }
            return;
        }
        match purpose {
            Purpose::Route { topic, turn } => self.on_route(&topic, turn, frame),
            Purpose::Heartbeat { wakes: true } if frame.is_some() => self.wake_rebalance(),
            Purpose::Heartbeat { .. } | Purpose::Unregister | Purpose::Unlock => {}
            Purpose::Members(topic) => self.on_members(topic, frame),
            Purpose::Stored(queue) => self.on_stored(queue, frame),
            Purpose::Max(queue) => self.on_max(queue, frame),
            Purpose::Pull(epoch) => self.on_pulled(epoch, frame),
            Purpose::SendBack(token) => self.on_sent_back(token, frame),
            Purpose::LockToAdd(queue) => self.on_locked_to_add(queue, frame),
            Purpose::LockAgain(epoch) => self.on_locked_again(epoch, frame),
            Purpose::LockAll(epochs) => self.on_locked_all(&epochs, frame),
            Purpose::Recheck(epoch) => self.on_rechecked(epoch, frame),
        }
    }
}

#[cfg(test)]
mod tests;
