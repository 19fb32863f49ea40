//! One consumer group of this client: its subscriptions, its queues, and what they share.
//!
//! The group owns its queues and the dispatcher and is the only one that lets one of them know of
//! another. It decides which queues are ours ([`assignment`]) and where they begin ([`acquiring`], [`moved`]), feeds
//! them ([`pulling`]), hands out what they hold ([`delivery`]) and says good-bye ([`leaving`]).

mod acquiring;
mod allocation;
mod assignment;
mod broadcasting;
mod changing;
mod deadlines;
mod delivery;
pub(crate) mod dispatch;
mod dissent;
mod filters;
mod flow;
mod leaving;
mod left;
mod locks;
mod moved;
mod operator;
mod orderly;
mod pulling;
pub(crate) mod queue;
pub(crate) mod rebalance;
mod refusals;
mod retrying;
mod seeking;
mod shelf;
mod stalls;
mod status;
mod subscriptions;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use crate::action::ShutdownReport;
use crate::config::{ClientConfig, ConfigError, GroupConfig, MessageModel};
use crate::consumer::cx::{Cx, GroupTimer, QueueTimer, Ready, TimerKey};
use crate::consumer::peers::Peers;
use crate::ids::{
    BrokerName, ClientId, ConsumerGroup, Epoch, GroupKey, MessageQueue, PeerAddr, QueueKey, Topic,
};
use crate::notice::NoticeKind;
use crate::status::GroupPhase;
use crate::step::Slab;
use crate::time::WallTime;
use crate::wire::subscription::Subscription;

pub(crate) use acquiring::Stored;

use dispatch::Dispatch;
use dispatch::send_back::SendBacks;
use dispatch::strays::Strays;
use dissent::Dissent;
use filters::Filters;
use flow::Flow;
use left::LeftQueues;
use locks::Locks;
use operator::direct::Directs;
use operator::tempo::Tempos;
use queue::Queue;
use rebalance::{Rebalance, Why};
pub(crate) use shelf::Kept;
use shelf::Shelf;
use stalls::Stalls;
use subscriptions::Subscribed;

#[derive(Clone, Debug)]
pub(crate) struct Group {
    key: GroupKey,
    name: ConsumerGroup,
    client_id: ClientId,
    config: Arc<GroupConfig>,
    request_timeout: Duration,
    offset_timeout: Duration,
    retry_topic: Topic,
    subscriptions: BTreeMap<Topic, Subscribed>,
    /// Filters that a broker is asked about before they are used.
    filters: Filters,
    /// Topics that were given back, of which brokers are being told; the revision without them, once there is one.
    departed: BTreeMap<Topic, Option<u64>>,
    /// Versions up to this one were those of topics that have been given back.
    retired: WallTime,
    /// Whether brokers may hear of the group: one of them has approved of every filter that it began with.
    begun: bool,
    /// The revision of our subscriptions that a broker must know before it is pulled from.
    revision: u64,
    /// The first revision that names us: a broker that knows an older one does not know the group.
    introduced: u64,
    phase: GroupPhase,
    rebalance: Rebalance,
    queues: Slab<QueueKey, Queue>,
    /// The current ownership of each queue; one that is being given back is not among them.
    by_name: BTreeMap<MessageQueue, QueueKey>,
    /// Where earlier ownerships of queues ended that are not ours now.
    left: LeftQueues,
    /// The offsets that the group keeps itself, if it broadcasts.
    shelf: Option<Shelf>,
    epochs: u64,
    dispatch: Dispatch,
    send_backs: SendBacks,
    strays: Strays,
    dissent: Dissent,
    /// The broker's locks on its queues, where they are consumed in order by one member at a time.
    locks: Option<Locks>,
    /// Ownerships that have ended and whose handlers run, by queue: whoever gets it next is behind them.
    running_on: BTreeMap<MessageQueue, QueueKey>,
    /// Whether it was told that outcomes are of the wrong kind.
    told_other_kind: bool,
    stalls: Stalls,
    /// Messages that operators have handed in.
    directs: Directs,
    tempos: Tempos,
    started_at: WallTime,
    flow: Flow,
    /// How many queues of each topic are ours, where limits of the topic are shared by them.
    shares: BTreeMap<Topic, u32>,
    /// Bytes of batch buffers held, over all queues.
    buffer_bytes: u64,
    /// Whether a queue is held because of that.
    buffer_was_full: bool,
    ready_told: bool,
    finished: u64,
    /// Failed messages that brokers have taken back or stored as copies.
    retries: u64,
    /// Failed messages that nobody has taken back, because the group broadcasts.
    dropped: u64,
    report: ShutdownReport,
}

/// The retry topic of a group.
pub(crate) fn retry_topic(group: &ConsumerGroup) -> Topic {
    Topic::from(format!("%RETRY%{group}"))
}

/// A member that has all queues for itself has nobody to lock out.
fn needs_locks(config: &GroupConfig) -> bool {
    config.is_orderly() && config.model == MessageModel::Clustering
}

impl Group {
    /// # Errors
    /// The first setting that cannot work.
    pub(crate) fn new(
        cx: &mut Cx<'_>,
        key: GroupKey,
        config: Arc<GroupConfig>,
        client: &ClientConfig,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let name = config.group.clone();
        let retry = retry_topic(&name);
        let mut group = Self {
            key,
            client_id: client.client_id.clone(),
            request_timeout: client.request_timeout,
            offset_timeout: client.offset_timeout,
            retry_topic: retry.clone(),
            subscriptions: BTreeMap::new(),
            filters: Filters::default(),
            departed: BTreeMap::new(),
            retired: WallTime::default(),
            begun: false,
            revision: u64::MAX,
            introduced: u64::MAX,
            phase: GroupPhase::Running,
            rebalance: Rebalance::new(key),
            queues: Slab::new(),
            by_name: BTreeMap::new(),
            left: LeftQueues::default(),
            shelf: None,
            epochs: 0,
            dispatch: Dispatch::new(config.concurrency, config.handler_batch),
            send_backs: SendBacks::new(config.send_back_retries, config.local_retry),
            strays: Strays::default(),
            dissent: Dissent::default(),
            locks: needs_locks(&config).then(Locks::default),
            running_on: BTreeMap::new(),
            told_other_kind: false,
            stalls: Stalls::default(),
            directs: Directs::default(),
            tempos: Tempos::new(cx.now),
            started_at: cx.wall,
            flow: Flow::new(&config, cx.now),
            shares: BTreeMap::new(),
            buffer_bytes: 0,
            buffer_was_full: false,
            ready_told: false,
            finished: 0,
            retries: 0,
            dropped: 0,
            report: ShutdownReport::default(),
            name,
            config,
        };
        let config = Arc::clone(&group.config);
        for (topic, filter) in &config.subscriptions {
            let subscription = filter
                .subscription(topic.clone())
                .expect("`check` has parsed every expression");
            group.subscribe(cx, subscription);
        }
        if !group.broadcasts() {
            group.subscribe(cx, Subscription::all(retry));
        }
        cx.timers.set(
            group.timer(GroupTimer::Commit),
            cx.now + group.config.commit_interval,
        );
        group.arm_stalls_timer(cx);
        Ok(group)
    }

    pub(crate) const fn name(&self) -> &ConsumerGroup {
        &self.name
    }

    /// Whether heartbeats name the group. Not before its filters have been looked at; and not when the brokers have
    /// been told good-bye, for that would make it a member again, for as long as the connection lives.
    pub(crate) const fn may_be_named(&self) -> bool {
        self.begun && !matches!(self.phase, GroupPhase::Leaving | GroupPhase::Stopped)
    }

    /// A broker says that the members have changed.
    pub(crate) fn on_notified(&mut self, cx: &mut Cx<'_>, broker: PeerAddr) {
        if self.phase == GroupPhase::Running {
            self.rebalance.notified(cx, broker, self.config.notify_debounce);
        }
    }

    /// The route of a topic of ours has changed.
    pub(crate) fn on_route(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, topic: &Topic) {
        if self.phase != GroupPhase::Running {
            return;
        }
        self.ask_about_filters(cx, peers);
        if !self.subscriptions.contains_key(topic) {
            return;
        }
        self.note_missing(cx, peers, topic);
        self.rebalance
            .wanted(cx, Why::Learned, self.config.notify_debounce);
        // A broker's address may be known only now.
        self.wake_waiting(cx, peers, |_| true);
    }

    /// Which queues of a topic nobody can get any more, and which everybody can get again.
    fn note_missing(&mut self, cx: &Cx<'_>, peers: Peers<'_>, topic: &Topic) {
        let Some(queues) = peers.routes.queues(topic) else {
            return;
        };
        let of_topic = self
            .queues
            .iter_mut()
            .filter(|(_, queue)| &queue.name.topic == topic);
        for (_, queue) in of_topic {
            queue.missing = queues.binary_search(&queue.name).is_err();
        }
        self.left.routed(topic, queues, cx.now);
    }

    /// A broker knows our newest subscriptions.
    pub(crate) fn on_broker_ready(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        broker: &BrokerName,
        ready: Ready,
    ) {
        if ready.is_new() {
            for (_, queue) in self
                .queues
                .iter_mut()
                .filter(|(_, queue)| &queue.name.broker == broker)
            {
                if let Some(tenure) = queue.tenure_mut() {
                    tenure.progress.broker_came_back();
                    tenure.pull.cut_pause(cx);
                }
            }
            self.hasten_locks(cx, broker);
        }
        // A group that begins on a client that runs meets its brokers on connections that stand.
        if (ready.is_new() || ready.meets(self.introduced)) && self.phase == GroupPhase::Running {
            self.rebalance
                .wanted(cx, Why::Learned, self.config.notify_debounce);
        }
        self.wake_waiting(cx, peers, |queue| &queue.name.broker == broker);
        if self.is_changing() {
            self.settle_changes(cx, peers);
        }
    }

    /// Another replica of a broker is read from now, and asked for the members.
    pub(crate) fn on_other_reader(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, broker: &BrokerName) {
        if self.phase == GroupPhase::Running {
            self.rebalance
                .wanted(cx, Why::Learned, self.config.notify_debounce);
        }
        self.wake_waiting(cx, peers, |queue| &queue.name.broker == broker);
    }

    /// Queues that waited for their broker try again.
    fn wake_waiting(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, concerned: impl Fn(&Queue) -> bool) {
        for key in self.queues.keys() {
            let Some(queue) = self.queues.get_mut(key).filter(|queue| concerned(queue)) else {
                continue;
            };
            if queue.waits_for_broker() {
                self.ask_stored(cx, peers, key);
            } else {
                self.pump(cx, peers, key);
            }
        }
        self.tell_if_ready(cx, peers);
    }

    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, timer: GroupTimer) {
        match timer {
            GroupTimer::Rebalance => self.begin_rebalance(cx, peers),
            GroupTimer::Allocate => self.on_allocate_timer(cx, peers),
            GroupTimer::Commit if self.phase == GroupPhase::Committing => self.check_last_commits(cx),
            GroupTimer::Commit => {
                for key in self.queues.keys() {
                    if let Some(queue) = self.queues.get_mut(key).filter(|queue| queue.is_owned()) {
                        queue.commit_if_due(cx, &self.name, self.offset_timeout);
                    }
                }
                self.tempos.retain(|topic| self.subscriptions.contains_key(topic));
                cx.timers.set(
                    self.timer(GroupTimer::Commit),
                    cx.now + self.config.commit_interval,
                );
            }
            GroupTimer::SendBack(back) => self.on_send_back_timer(cx, peers, back),
            GroupTimer::Save => self.on_save_timer(cx),
            GroupTimer::Stalls => self.on_stalls_timer(cx),
            GroupTimer::Filters => self.ask_about_filters(cx, peers),
            GroupTimer::Phase => self.on_phase_timer(cx),
            GroupTimer::Strays => self.on_strays_timer(cx),
            GroupTimer::Locks => self.on_locks_timer(cx, peers),
            GroupTimer::Directs => self.on_directs_timer(cx),
            GroupTimer::Flow => self.take_turns(cx),
        }
    }

    pub(crate) fn on_queue_timer(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        timer: QueueTimer,
    ) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        match timer {
            QueueTimer::Acquire => self.ask_stored(cx, peers, key),
            QueueTimer::Pull => {
                if let Some(tenure) = queue.tenure_mut() {
                    tenure.pull.on_timer(cx.now);
                }
                self.pump(cx, peers, key);
            }
            QueueTimer::Delivery => self.on_delivery_timer(cx, peers, key),
            QueueTimer::Suspend => self.on_suspend_timer(cx, key),
            QueueTimer::Grace => {
                queue.end_grace(cx, &self.name, self.offset_timeout);
                self.bury_if_gone(cx, key);
                self.check_last_commits(cx);
            }
        }
    }

    pub(crate) fn set_permits(&mut self, cx: &mut Cx<'_>, permits: u32) {
        self.dispatch.set_permits(permits);
        self.deliver(cx);
    }

    /// Once every queue of the first complete assignment is on its way, the group is ready.
    fn tell_if_ready(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        let has_share = if self.broadcasts() {
            self.has_all_queues(peers)
        } else {
            !self.rebalance.members().is_empty()
        };
        if self.ready_told || !self.begun || self.rebalance.is_running() || !has_share {
            return;
        }
        let routed = |topic: &Topic| *topic == self.retry_topic || peers.routes.queues(topic).is_some();
        if !self.wanted_topics().all(routed) || self.queues.iter().any(|(_, queue)| queue.is_acquiring()) {
            return;
        }
        self.ready_told = true;
        cx.notice(&self.name, NoticeKind::Ready);
    }

    const fn timer(&self, timer: GroupTimer) -> TimerKey {
        TimerKey::Group(self.key, timer)
    }

    fn refused(&self, cx: &mut Cx<'_>, by: &BrokerName, request: &'static str, code: i32, remark: &str) {
        let kind = NoticeKind::RequestRefused {
            by: String::from(by.as_str()),
            request,
            code,
            remark: remark.into(),
        };
        cx.notice(&self.name, kind);
    }

    const fn next_epoch(&mut self) -> Epoch {
        self.epochs += 1;
        Epoch(self.epochs)
    }
}
