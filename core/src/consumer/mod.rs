//! The consumer: one client instance with its links, routes, heartbeat and groups.
//!
//! This floor only routes between the self. What comes in goes to the part it is for; what a part
//! wishes is carried to the part that can grant it, until nobody wishes anything: within one event,
//! and always in the same order.
//!
//! ```text
//!   Event ──► rpc ──answers, signals──► routes, heartbeats, groups, calls
//!    │                                       │ wishes
//!    └──► groups                             ▼
//!                          rpc, routes, heartbeats, groups ──► Action
//! ```

mod calls;
mod cx;
mod group;
mod heartbeat;
mod notices;
mod peers;
mod routes;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::action::{Action, AppAction, CallError, Refusal, RefusalReason};
use crate::config::{ClientConfig, ConfigError, GroupConfig};
use crate::event::{AppEvent, Call, Event, NetEvent, Target};
use crate::ids::{ConnId, ConsumerGroup, GroupKey, PeerAddr, QueueKey, Topic};
use crate::notice::{LinkTrouble, NoticeKind};
use crate::rpc::{Outgoing, Patience, Rpc, RpcSignal, RpcTimer};
use crate::status::{Counters, Status};
use crate::step::{Machine, Outbox, Rng, Seed, Slab, Timers};
use crate::time::{Instant, WallTime};
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::Header;
use crate::wire::frame::HeaderForm;
use crate::wire::request::heartbeat::{HeartbeatAnswer, HeartbeatRequest, UnregisterRequest};
use crate::wire::request::members::{MemberList, MembersChanged};
use crate::wire::request::offsets::{OffsetAnswer, StoredOffset};
use crate::wire::request::pull::PullAnswer;
use crate::wire::request::route::TopicRoute;
use crate::wire::request::{Answer, AnswerError, Done, Request as _, encode_refusal, encode_request};

use calls::Calls;
use cx::{
    Cx, Destination, GroupTimer, Purpose, Question, QuestionBody, QueueAsk, QueueTimer, Replica, TimerKey,
    Wish,
};
use group::Group;
use heartbeat::Heartbeats;
use notices::Notices;
use peers::Peers;
use routes::Routes;

/// The earliest deadline, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wakeup {
    /// When the machine wants to be woken.
    pub at: Instant,
    /// What for.
    pub reason: WakeReason,
}

/// What a wake-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WakeReason {
    /// A request may be past its deadline.
    RequestDeadline,
    /// A link is to be dialled again, given up or checked for silence.
    Link,
    /// A route is to be asked again.
    Route,
    /// A broker is to be told that we live.
    Heartbeat,
    /// A group is to rebalance.
    Rebalance,
    /// Offsets are to be committed.
    Commit,
    /// A send back is to be tried again.
    SendBack,
    /// A group's way out goes on.
    Shutdown,
    /// A queue's offset is to be asked.
    Acquire,
    /// A queue's pause ends.
    Pull,
    /// A delivery may be past its deadline.
    DeliveryDeadline,
    /// The grace of a revoked queue ends.
    RevokeGrace,
}

/// A push consumer's client instance as a pure state machine.
///
/// Several groups may share its connections and routes. The contract: the same configuration, seed
/// and list of `(Instant, Event)` give the same actions, byte for byte, on any machine; calling
/// [`Self::handle`] again before draining [`Self::poll_action`] changes nothing; `now` going backwards
/// is clamped and counted; deadlines fire only in [`Event::Wakeup`], and after one at `t`,
/// [`Self::poll_timeout`] lies after `t`.
#[derive(Clone, Debug)]
pub struct ConsumerState {
    config: ClientConfig,
    ground: Ground,
    rpc: Rpc<Purpose>,
    routes: Routes,
    beats: Heartbeats,
    groups: Slab<GroupKey, Group>,
    by_name: BTreeMap<ConsumerGroup, GroupKey>,
    calls: Calls,
    notices: Notices,
    /// Brokers that have not answered a group's farewell yet.
    farewells: BTreeMap<GroupKey, usize>,
    life: Life,
}

/// What every step stands on.
#[derive(Clone, Debug)]
struct Ground {
    now: Instant,
    /// A pair of the same moment: where wall time stood at which instant.
    clock: (Instant, WallTime),
    timers: Timers<TimerKey>,
    out: Outbox<Action>,
    rng: Rng,
    wishes: VecDeque<Wish>,
    counters: Counters,
}

/// Where the client is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    ShuttingDown,
    Closed,
}

impl ConsumerState {
    /// A client that does nothing until a group is started. `now` is any instant of the driver's
    /// clock, `wall` the same moment.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn new(config: ClientConfig, seed: Seed, now: Instant, wall: WallTime) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            ground: Ground {
                now,
                clock: (now, wall),
                timers: Timers::new(),
                out: Outbox::new(),
                rng: Rng::new(seed),
                wishes: VecDeque::new(),
                counters: Counters::default(),
            },
            rpc: Rpc::new(&config),
            routes: Routes::new(&config),
            beats: Heartbeats::new(&config),
            groups: Slab::new(),
            by_name: BTreeMap::new(),
            calls: Calls::default(),
            notices: Notices::new(config.notice_interval),
            farewells: BTreeMap::new(),
            life: Life::Running,
            config,
        })
    }

    /// The only way in. Total: every event has a defined answer in every state.
    pub fn handle(&mut self, now: Instant, event: Event) {
        self.advance_clock(now);
        if self.life == Life::Closed {
            return;
        }
        match event {
            Event::Wakeup => self.expire(),
            Event::Net(event) => self.on_net(event),
            Event::App(event) => self.on_app(event),
            // Nothing was asked of a store yet.
            Event::Store(_) => self.ground.counters.stale_answers += 1,
        }
        self.settle();
    }

    /// The only way out: the oldest action not taken yet.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.ground.out.pop()
    }

    /// The earliest deadline and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Wakeup> {
        let (at, key) = self.ground.timers.next()?;
        Some(Wakeup {
            at: *at,
            reason: key.reason(),
        })
    }

    /// Bytes missing for the frame in progress on a connection: a hint for the size of a read.
    #[must_use]
    pub fn want(&self, conn: ConnId) -> usize {
        self.rpc.want(conn)
    }

    /// A snapshot for operators.
    #[must_use]
    pub fn status(&self) -> Status {
        let rpc = self.rpc.counters();
        let links = self.rpc.status().map(|mut link| {
            link.heartbeat_acknowledged = self.beats.is_acknowledged(&link.addr);
            link
        });
        Status {
            at: self.ground.now,
            client_id: self.config.client_id.clone(),
            links: links.collect(),
            topics: self.routes.status(),
            groups: self.groups.iter().map(|(_, group)| group.status()).collect(),
            counters: Counters {
                stale_net_events: rpc.stale_net_events,
                late_answers: rpc.late_answers,
                ..self.ground.counters
            },
        }
    }

    /// Time does not go backwards here, whatever the driver says.
    fn advance_clock(&mut self, now: Instant) {
        if now < self.ground.now {
            self.ground.counters.clock_went_back += 1;
            let by = self.ground.now.saturating_since(now);
            self.ground
                .wishes
                .push_back(Wish::Notice(None, NoticeKind::ClockWentBack { by }));
        } else {
            self.ground.now = now;
        }
    }

    fn expire(&mut self) {
        while let Some(key) = self.ground.timers.pop_due(self.ground.now) {
            let mut cx = self.ground.cx();
            match key {
                TimerKey::Rpc(timer) => self.rpc.on_timer(&mut cx.step(), timer),
                TimerKey::Route(topic) => self.routes.on_timer(&mut cx, &topic),
                TimerKey::Heartbeat(addr) => self.beats.on_timer(&mut cx, &addr),
                TimerKey::Group(key, timer) => {
                    if let Some(group) = self.groups.get_mut(key) {
                        group.on_timer(
                            &mut cx,
                            Peers {
                                routes: &self.routes,
                                beats: &self.beats,
                            },
                            timer,
                        );
                    }
                }
                TimerKey::Queue(group, queue, timer) => {
                    if let Some(group) = self.groups.get_mut(group) {
                        group.on_queue_timer(
                            &mut cx,
                            Peers {
                                routes: &self.routes,
                                beats: &self.beats,
                            },
                            queue,
                            timer,
                        );
                    }
                }
            }
            self.settle();
        }
    }

    // ---- the network ----------------------------------------------------------------------------

    fn on_net(&mut self, event: NetEvent) {
        let received = if let NetEvent::Received { conn, .. } = &event {
            Some(*conn)
        } else {
            None
        };
        let mut cx = self.ground.cx();
        self.rpc.on_net(&mut cx.step(), event);
        let Some(conn) = received else { return };
        loop {
            let mut cx = self.ground.cx();
            let Some(frame) = self.rpc.next_frame(&mut cx.step(), conn) else {
                break;
            };
            match Header::decode(frame.form, &frame.header) {
                Ok(header) if header.is_response() => {
                    let purpose = self.rpc.complete(&mut cx.step(), conn, header.opaque);
                    if let Some(purpose) = purpose {
                        self.on_answer(purpose, &header, &frame.body);
                    }
                }
                Ok(header) => self.on_request(conn, &header, &frame.body),
                Err(error) => self.rpc.misbehaved(&mut cx.step(), conn, format!("{error}")),
            }
            self.settle();
        }
    }

    /// An answer has come, whatever it says.
    fn on_answer(&mut self, purpose: Purpose, header: &Header<'_>, body: &Bytes) {
        let mut cx = self.ground.cx();
        match purpose {
            Purpose::Route(topic) => match TopicRoute::decode(header, body) {
                Ok(route) => self.routes.on_route(&mut cx, &topic, &route),
                Err(AnswerError::Refused {
                    code: ResponseCode::TOPIC_NOT_EXIST,
                    ..
                }) => {
                    let expected = topic.as_str().starts_with("%RETRY%");
                    self.routes
                        .on_unknown(&mut cx, &topic, "the topic does not exist".into(), expected);
                }
                Err(error) => self.routes.on_unknown(&mut cx, &topic, format!("{error}"), false),
            },
            Purpose::Heartbeat { addr, revision } => match HeartbeatAnswer::decode(header, body) {
                Ok(_) => self.beats.on_acknowledged(&mut cx, &addr, revision),
                Err(error) => self.beats.on_failed(&mut cx, &addr, &error.into()),
            },
            Purpose::Members { group, round, broker } => {
                let members = decode::<MemberList>(header, body).map(|list| list.client_ids);
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_members(
                        &mut cx,
                        Peers {
                            routes: &self.routes,
                            beats: &self.beats,
                        },
                        round,
                        &broker,
                        members,
                    );
                }
            }
            Purpose::Queue { group, queue, ask } => {
                if let Some(group) = self.groups.get_mut(group) {
                    on_queue_answer(
                        &mut cx,
                        Peers {
                            routes: &self.routes,
                            beats: &self.beats,
                        },
                        group,
                        queue,
                        ask,
                        header,
                        body,
                    );
                }
            }
            Purpose::SendBack { group, back } => {
                let answer = decode::<Done>(header, body).map(|_| ());
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_send_back(
                        &mut cx,
                        Peers {
                            routes: &self.routes,
                            beats: &self.beats,
                        },
                        back,
                        answer,
                    );
                }
            }
            Purpose::Unregister(group) => self.told_farewell(group),
            Purpose::Call(id) => self.calls.answered(&mut cx, id, header, body),
        }
    }

    /// A request has ended without an answer.
    fn on_failure(&mut self, purpose: Purpose, error: CallError) {
        let mut cx = self.ground.cx();
        match purpose {
            Purpose::Route(topic) => {
                if let Some((addr, _)) = self.routes.server() {
                    let cause = LinkTrouble::NoAnswer;
                    if error == CallError::Timeout {
                        cx.client_notice(NoticeKind::NameServerUnreachable {
                            addr: addr.clone(),
                            cause,
                        });
                    }
                }
                self.routes.on_failed(&mut cx, &topic, &error);
            }
            Purpose::Heartbeat { addr, .. } => self.beats.on_failed(&mut cx, &addr, &error),
            Purpose::Members { group, round, broker } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_members(
                        &mut cx,
                        Peers {
                            routes: &self.routes,
                            beats: &self.beats,
                        },
                        round,
                        &broker,
                        Err(error),
                    );
                }
            }
            Purpose::Queue { group, queue, ask } => {
                if let Some(group) = self.groups.get_mut(group) {
                    match ask {
                        QueueAsk::Pull { serial } => {
                            group.on_pull(
                                &mut cx,
                                Peers {
                                    routes: &self.routes,
                                    beats: &self.beats,
                                },
                                queue,
                                serial,
                                Err(error),
                            );
                        }
                        QueueAsk::StoredOffset => group.on_stored_offset(
                            &mut cx,
                            Peers {
                                routes: &self.routes,
                                beats: &self.beats,
                            },
                            queue,
                            Err(error),
                        ),
                        QueueAsk::StartOffset => group.on_start_offset(
                            &mut cx,
                            Peers {
                                routes: &self.routes,
                                beats: &self.beats,
                            },
                            queue,
                            Err(error),
                        ),
                        QueueAsk::Commit(offset) => group.on_committed(&mut cx, queue, offset, Err(error)),
                        QueueAsk::Recheck => group.on_recheck(&mut cx, queue, Err(error)),
                    }
                }
            }
            Purpose::SendBack { group, back } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_send_back(
                        &mut cx,
                        Peers {
                            routes: &self.routes,
                            beats: &self.beats,
                        },
                        back,
                        Err(error),
                    );
                }
            }
            Purpose::Unregister(group) => self.told_farewell(group),
            Purpose::Call(id) => self.calls.failed(&mut cx, id, error),
        }
    }

    /// A peer asks something of us.
    fn on_request(&mut self, conn: ConnId, header: &Header<'_>, body: &Bytes) {
        let code = RequestCode(header.code);
        let mut cx = self.ground.cx();
        if code == MembersChanged::CODE {
            if let Ok(notice) = MembersChanged::decode(&header.ext, body)
                && let Some(group) = self
                    .by_name
                    .get(&notice.group)
                    .and_then(|key| self.groups.get_mut(*key))
            {
                group.on_notified(&mut cx);
            }
            return;
        }
        if let Some(addr) = self.rpc.addr(conn).cloned() {
            cx.client_notice(NoticeKind::UnexpectedRequest { addr, code: code.0 });
        }
        if !header.is_oneway() {
            let remark = format!("request type {} not supported", code.0);
            let unsupported = ResponseCode::REQUEST_CODE_NOT_SUPPORTED;
            if let Ok(frame) = encode_refusal(HeaderForm::Json, header.opaque, unsupported, &remark) {
                self.rpc.send(&mut cx.step(), conn, frame);
            }
        }
    }

    fn on_signal(&mut self, signal: RpcSignal<Purpose>) {
        match signal {
            RpcSignal::Failed { purpose, error } => self.on_failure(purpose, error),
            RpcSignal::Up { addr, again, .. } => {
                let mut cx = self.ground.cx();
                self.routes.link_works(&addr);
                if again {
                    self.beats.redialled(cx.now);
                    cx.client_notice(NoticeKind::LinkUp { addr });
                }
            }
            RpcSignal::Down { addr, trouble, .. } => {
                let mut cx = self.ground.cx();
                self.beats.on_link_down(&mut cx, &addr);
                self.routes.link_failed(&mut cx, &addr);
                let kind = if self.routes.is_name_server(&addr) {
                    NoticeKind::NameServerUnreachable { addr, cause: trouble }
                } else {
                    NoticeKind::LinkDown { addr, cause: trouble }
                };
                cx.client_notice(kind);
            }
            RpcSignal::Misbehaved { addr, why } => {
                let mut cx = self.ground.cx();
                cx.client_notice(NoticeKind::PeerMisbehaved { addr, why });
            }
        }
    }

    // ---- the application ------------------------------------------------------------------------

    fn on_app(&mut self, event: AppEvent) {
        match event {
            AppEvent::StartGroup(config) => self.start_group(config),
            AppEvent::StopGroup { group, drain } => {
                let mut cx = self.ground.cx();
                match self.by_name.get(&group).and_then(|key| self.groups.get_mut(*key)) {
                    Some(group) => group.drain(&mut cx, drain),
                    None => self.refuse(Some(group), "stop", RefusalReason::UnknownGroup),
                }
            }
            AppEvent::Shutdown { drain } => self.shut_down(drain),
            AppEvent::Consumed { id, range, report } => {
                let mut cx = self.ground.cx();
                match self.groups.get_mut(id.group) {
                    Some(group) => group.on_consumed(
                        &mut cx,
                        Peers {
                            routes: &self.routes,
                            beats: &self.beats,
                        },
                        id.run,
                        range,
                        &report,
                    ),
                    None => cx.counters.late_reports += u64::from(range.len()),
                }
            }
            AppEvent::Extend { id, position, by } => {
                let mut cx = self.ground.cx();
                match self.groups.get_mut(id.group) {
                    Some(group) => group.on_extend(&mut cx, id.run, position, by),
                    None => cx.counters.late_reports += 1,
                }
            }
            AppEvent::Concurrency { group, permits } => {
                let mut cx = self.ground.cx();
                match self.by_name.get(&group).and_then(|key| self.groups.get_mut(*key)) {
                    Some(_) if !(1..=1000).contains(&permits) => {
                        let why = "use 1 to 1000".to_string();
                        self.refuse(
                            Some(group),
                            "concurrency",
                            RefusalReason::BadConfig("concurrency", why),
                        );
                    }
                    Some(group) => group.set_permits(&mut cx, permits),
                    None => self.refuse(Some(group), "concurrency", RefusalReason::UnknownGroup),
                }
            }
            AppEvent::NameServers(servers) => self.replace_name_servers(&servers),
            AppEvent::Clock(wall) => self.ground.clock = (self.ground.now, wall),
            AppEvent::Call(call) => self.call(*call),
            AppEvent::Subscribe { group, .. } => self.not_yet(group, "subscribe"),
            AppEvent::Unsubscribe { group, .. } => self.not_yet(group, "unsubscribe"),
            AppEvent::Pause { group } => self.not_yet(group, "pause"),
            AppEvent::Resume { group } => self.not_yet(group, "resume"),
            AppEvent::Seek { group, .. } => self.not_yet(group, "seek"),
            AppEvent::Allocated { group, .. } => self.not_yet(group, "allocated"),
            AppEvent::Credentials { .. } => self.refuse(None, "credentials", RefusalReason::NotSupportedYet),
        }
    }

    fn start_group(&mut self, config: Arc<GroupConfig>) {
        let name = config.group.clone();
        if self.life != Life::Running {
            return self.refuse(Some(name), "start", RefusalReason::ShuttingDown);
        }
        if self.by_name.contains_key(&name) {
            return self.refuse(Some(name), "start", RefusalReason::AlreadyRegistered);
        }
        if let Err(ConfigError { key, why }) = config.check() {
            return self.refuse(Some(name), "start", RefusalReason::BadConfig(key, why));
        }
        let client = self.config.clone();
        let mut cx = self.ground.cx();
        let key = self.groups.insert_with(|key| {
            Group::new(&mut cx, key, config, &client).expect("the configuration was checked above")
        });
        self.by_name.insert(name.clone(), key);
        let topics: Vec<Topic> = self
            .groups
            .get(key)
            .into_iter()
            .flat_map(Group::topics)
            .cloned()
            .collect();
        cx.tell(AppAction::GroupStarted { group: name });
        cx.wishes.push_back(Wish::Subscriptions(key));
        for topic in topics {
            self.watch(&topic);
        }
    }

    fn watch(&mut self, topic: &Topic) {
        self.routes.watch(&mut self.ground.cx(), topic);
    }

    fn shut_down(&mut self, drain: Duration) {
        if self.life != Life::Running {
            return;
        }
        self.life = Life::ShuttingDown;
        self.rpc.leave();
        for key in self.groups.keys() {
            let mut cx = self.ground.cx();
            if let Some(group) = self.groups.get_mut(key) {
                group.drain(&mut cx, drain);
            }
        }
        self.close_if_empty();
    }

    fn close_if_empty(&mut self) {
        if self.life != Life::ShuttingDown || !self.groups.is_empty() {
            return;
        }
        self.life = Life::Closed;
        let mut cx = self.ground.cx();
        self.calls.fail_all(&mut cx);
        self.rpc.close_all(&mut cx.step());
        cx.tell(AppAction::Closed);
        self.ground.timers.clear();
        self.ground.wishes.clear();
    }

    fn replace_name_servers(&mut self, servers: &[PeerAddr]) {
        if servers.is_empty() {
            let why = "give at least one".to_string();
            return self.refuse(
                None,
                "name servers",
                RefusalReason::BadConfig("name_servers", why),
            );
        }
        let gone = self.routes.set_servers(servers);
        for addr in gone {
            let mut cx = self.ground.cx();
            self.rpc.forget(&mut cx.step(), &addr);
        }
    }

    fn call(&mut self, call: Call) {
        let to = match &call.to {
            Target::NameServer => Destination::NameServer,
            Target::Master(broker) => Destination::Broker(broker.clone(), Replica::Master),
            Target::Address(addr) => Destination::Address(addr.clone()),
        };
        let id = call.id;
        let mut cx = self.ground.cx();
        if !self.calls.begin(id) {
            return cx.tell(calls::answer(id, Err(CallError::Overloaded)));
        }
        let deadline = cx.now + call.timeout;
        self.send(&to, Purpose::Call(id), deadline, |opaque| {
            calls::encode(&call, opaque)
        });
    }

    fn not_yet(&mut self, group: ConsumerGroup, wish: &'static str) {
        self.refuse(Some(group), wish, RefusalReason::NotSupportedYet);
    }

    fn refuse(&mut self, group: Option<ConsumerGroup>, wish: &'static str, why: RefusalReason) {
        self.ground
            .out
            .push(AppAction::Refused(Box::new(Refusal { group, wish, why })));
    }

    // ---- wishes ---------------------------------------------------------------------------------

    /// Grants wishes until there is none. Bounded: a wish is a step of a protocol that waits for an
    /// answer, or an edge.
    fn settle(&mut self) {
        loop {
            while let Some(signal) = self.rpc.pop_signal() {
                self.on_signal(signal);
            }
            let Some(wish) = self.ground.wishes.pop_front() else {
                break;
            };
            self.grant(wish);
        }
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Ask(question) => self.ask(question),
            Wish::Beat { addr, revision } => self.beat(addr, revision),
            Wish::BrokerReady { broker, new } => self.each_group(|group, cx, peers| {
                group.on_broker_ready(cx, peers, &broker, new);
            }),
            Wish::TellAgain(broker) => {
                let mut cx = self.ground.cx();
                self.beats.tell_again(&mut cx, &broker);
            }
            Wish::RouteSuspect(topic) => {
                let mut cx = self.ground.cx();
                self.routes.suspect(&mut cx, &topic);
            }
            Wish::Subscriptions(group) => {
                let anything = !self.groups.is_empty();
                let mut cx = self.ground.cx();
                let revision = self.beats.subscriptions_changed(&mut cx, anything);
                if let Some(group) = self.groups.get_mut(group) {
                    group.set_revision(revision);
                }
            }
            Wish::Route(topic) => {
                self.use_addresses();
                self.each_group(|group, cx, peers| group.on_route(cx, peers, &topic));
            }
            Wish::Leave(group) => self.say_farewell(group),
            Wish::Stopped(group) => self.stopped(group),
            Wish::Notice(group, kind) => self.notices.tell(&mut self.ground.cx(), group, kind),
        }
    }

    fn ask(&mut self, question: Question) {
        let Question {
            to,
            body,
            timeout,
            purpose,
        } = question;
        let deadline = self.ground.now + timeout;
        self.send(&to, purpose, deadline, |opaque| body.encode(opaque));
    }

    fn send(
        &mut self,
        to: &Destination,
        purpose: Purpose,
        deadline: Instant,
        encode: impl FnOnce(i32) -> Result<Bytes, crate::wire::frame::FrameError>,
    ) {
        let mut cx = self.ground.cx();
        let (addr, patience) = match to {
            Destination::NameServer => match self.routes.server() {
                Some((addr, true)) => (Some(addr), Patience::FailFast),
                Some((addr, false)) => (Some(addr), Patience::UntilDeadline),
                None => (None, Patience::FailFast),
            },
            Destination::Broker(broker, replica) => (
                self.routes.address(broker, *replica).map(|(_, addr)| addr),
                Patience::UntilDeadline,
            ),
            Destination::Address(addr) => (Some(addr), Patience::UntilDeadline),
        };
        match addr {
            Some(addr) => {
                let out = Outgoing {
                    to: addr,
                    deadline,
                    patience,
                    purpose,
                };
                self.rpc.request(&mut cx.step(), out, encode);
            }
            None => self.on_failure(purpose, CallError::NoRoute),
        }
    }

    fn beat(&mut self, addr: PeerAddr, revision: u64) {
        let request = HeartbeatRequest {
            client_id: self.config.client_id.clone(),
            consumers: self
                .groups
                .iter()
                .map(|(_, group)| group.consumer_data())
                .collect(),
            producers: Vec::new(),
            fingerprint: 0,
            without_sub: false,
        };
        let deadline = self.ground.now + self.config.request_timeout;
        let purpose = Purpose::Heartbeat {
            addr: addr.clone(),
            revision,
        };
        let to = Destination::Address(addr);
        self.send(&to, purpose, deadline, |opaque| {
            encode_request(HeaderForm::Json, opaque, false, &request)
        });
    }

    /// The routes name these addresses; whoever is not among them is forgotten.
    fn use_addresses(&mut self) {
        let addresses = self.routes.addresses();
        let mut cx = self.ground.cx();
        let gone = self.beats.set_addresses(&mut cx, addresses);
        for addr in gone {
            if !self.routes.is_name_server(&addr) {
                self.rpc.forget(&mut cx.step(), &addr);
            }
        }
    }

    fn each_group(&mut self, mut visit: impl FnMut(&mut Group, &mut Cx<'_>, Peers<'_>)) {
        for key in self.groups.keys() {
            let mut cx = self.ground.cx();
            if let Some(group) = self.groups.get_mut(key) {
                visit(
                    group,
                    &mut cx,
                    Peers {
                        routes: &self.routes,
                        beats: &self.beats,
                    },
                );
            }
        }
    }

    // ---- farewell -------------------------------------------------------------------------------

    fn say_farewell(&mut self, group: GroupKey) {
        let Some(name) = self.groups.get(group).map(|group| group.name().clone()) else {
            return;
        };
        let told = self.beats.acknowledged();
        self.farewells.insert(group, told.len());
        for addr in told {
            let body = QuestionBody::Unregister(UnregisterRequest {
                client_id: self.config.client_id.clone(),
                consumer_group: Some(name.clone()),
                producer_group: None,
            });
            let timeout = self.config.request_timeout;
            self.ask(Question {
                to: Destination::Address(addr),
                body,
                timeout,
                purpose: Purpose::Unregister(group),
            });
        }
        if self.farewells.get(&group) == Some(&0) {
            self.everybody_told(group);
        }
    }

    fn told_farewell(&mut self, group: GroupKey) {
        if let Some(left) = self.farewells.get_mut(&group) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.everybody_told(group);
            }
        }
    }

    fn everybody_told(&mut self, key: GroupKey) {
        self.farewells.remove(&key);
        let mut cx = self.ground.cx();
        if let Some(group) = self.groups.get_mut(key) {
            group.on_everybody_told(&mut cx);
        }
    }

    fn stopped(&mut self, key: GroupKey) {
        self.farewells.remove(&key);
        let Some(group) = self.groups.remove(key) else {
            return;
        };
        self.by_name.remove(group.name());
        let report = Box::new(group.report().clone());
        self.ground.out.push(AppAction::GroupStopped {
            group: group.name().clone(),
            report,
        });
        let used: BTreeSet<Topic> = self
            .groups
            .iter()
            .flat_map(|(_, group)| group.topics())
            .cloned()
            .collect();
        let mut cx = self.ground.cx();
        self.routes.keep_only(&mut cx, &used);
        if !used.is_empty() {
            self.beats.subscriptions_changed(&mut cx, true);
        } else {
            self.beats.stop(&mut cx);
        }
        self.use_addresses();
        self.close_if_empty();
    }
}

impl Ground {
    const fn cx(&mut self) -> Cx<'_> {
        let (at, wall) = self.clock;
        Cx {
            now: self.now,
            wall: wall.plus(self.now.saturating_since(at)),
            timers: &mut self.timers,
            out: &mut self.out,
            rng: &mut self.rng,
            wishes: &mut self.wishes,
            counters: &mut self.counters,
        }
    }
}

impl Machine for ConsumerState {
    type Event = Event;
    type Action = Action;
    type Wakeup = Wakeup;

    fn handle(&mut self, now: Instant, event: Event) {
        Self::handle(self, now, event);
    }

    fn poll_action(&mut self) -> Option<Action> {
        Self::poll_action(self)
    }

    fn poll_timeout(&self) -> Option<Wakeup> {
        Self::poll_timeout(self)
    }
}

fn on_queue_answer(
    cx: &mut Cx<'_>,
    peers: Peers<'_>,
    group: &mut Group,
    queue: QueueKey,
    ask: QueueAsk,
    header: &Header<'_>,
    body: &Bytes,
) {
    match ask {
        QueueAsk::Pull { serial } => {
            group.on_pull(cx, peers, queue, serial, decode::<PullAnswer>(header, body));
        }
        QueueAsk::StoredOffset => {
            let stored = decode::<StoredOffset>(header, body).map(|stored| stored.0);
            group.on_stored_offset(cx, peers, queue, stored);
        }
        QueueAsk::StartOffset => {
            let start = decode::<OffsetAnswer>(header, body).map(|answer| answer.offset);
            group.on_start_offset(cx, peers, queue, start);
        }
        QueueAsk::Commit(offset) => {
            group.on_committed(cx, queue, offset, decode::<Done>(header, body).map(|_| ()));
        }
        QueueAsk::Recheck => {
            group.on_recheck(
                cx,
                queue,
                decode::<StoredOffset>(header, body).map(|stored| stored.0),
            );
        }
    }
}

fn decode<A: Answer>(header: &Header<'_>, body: &Bytes) -> Result<A, CallError> {
    A::decode(header, body).map_err(CallError::from)
}

impl From<AnswerError> for CallError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Refused { code, remark } => Self::Broker { code: code.0, remark },
            AnswerError::Malformed(why) => Self::Malformed(format!("{why}")),
        }
    }
}

impl TimerKey {
    const fn reason(&self) -> WakeReason {
        match self {
            Self::Rpc(RpcTimer::Deadline(_)) => WakeReason::RequestDeadline,
            Self::Rpc(RpcTimer::Redial(_) | RpcTimer::DialTimeout(_) | RpcTimer::Silence(_)) => {
                WakeReason::Link
            }
            Self::Route(_) => WakeReason::Route,
            Self::Heartbeat(_) => WakeReason::Heartbeat,
            Self::Group(_, GroupTimer::Rebalance) => WakeReason::Rebalance,
            Self::Group(_, GroupTimer::Commit) => WakeReason::Commit,
            Self::Group(_, GroupTimer::SendBack(_)) => WakeReason::SendBack,
            Self::Group(_, GroupTimer::Phase) => WakeReason::Shutdown,
            Self::Queue(_, _, QueueTimer::Acquire) => WakeReason::Acquire,
            Self::Queue(_, _, QueueTimer::Pull) => WakeReason::Pull,
            Self::Queue(_, _, QueueTimer::Delivery) => WakeReason::DeliveryDeadline,
            Self::Queue(_, _, QueueTimer::Grace) => WakeReason::RevokeGrace,
        }
    }
}
