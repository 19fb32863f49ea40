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

mod application;
#[cfg(test)]
mod bench;
mod calls;
mod cx;
mod farewell;
mod group;
mod heartbeat;
mod loading;
mod network;
mod notices;
mod operator;
mod peers;
mod reply;
mod routes;
mod storing;
mod wakeup;
mod wishes;

use alloc::collections::{BTreeMap, VecDeque};

use crate::action::Action;
use crate::config::{ClientConfig, ConfigError};
use crate::event::Event;
use crate::ids::{ConnId, ConsumerGroup, GroupKey};
use crate::notice::NoticeKind;
use crate::rpc::Rpc;
use crate::status::{Counters, Status};
use crate::step::{Machine, Outbox, Rng, Seed, Slab, Timers};
use crate::time::{Instant, WallTime};

use calls::Calls;
use cx::{Cx, Purpose, TimerKey, Wish};
use farewell::Farewells;
use group::Group;
use heartbeat::Heartbeats;
use loading::Loads;
use notices::Notices;
use peers::Peers;
use routes::Routes;
pub use wakeup::{WakeReason, Wakeup};
use wishes::GRANTS_MAX;

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
    loads: Loads,
    calls: Calls,
    notices: Notices,
    farewells: Farewells,
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
    /// How many of them the event under way may still have granted.
    grants_left: u32,
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
                grants_left: GRANTS_MAX,
                counters: Counters::default(),
            },
            rpc: Rpc::new(&config),
            routes: Routes::new(&config),
            beats: Heartbeats::new(&config),
            groups: Slab::new(),
            by_name: BTreeMap::new(),
            loads: Loads::default(),
            calls: Calls::default(),
            notices: Notices::new(config.notice_interval),
            farewells: Farewells::default(),
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
        self.ground.grants_left = GRANTS_MAX;
        match event {
            Event::Wakeup => self.expire(),
            Event::Net(event) => self.on_net(event),
            Event::App(event) => self.on_app(event),
            Event::Store(event) => self.on_store(event),
        }
        self.settle();
        let is_settled = self.note_settled();
        debug_assert!(is_settled, "wishes that never end");
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
        let peers = Peers::of(&self.routes, &self.beats);
        Status {
            at: self.ground.now,
            client_id: self.config.client_id.clone(),
            links: links.collect(),
            topics: self.routes.status(),
            groups: self
                .groups
                .iter()
                .map(|(_, group)| group.status(peers, self.ground.now))
                .collect(),
            counters: Counters {
                stale_net_events: rpc.stale_net_events,
                late_answers: rpc.late_answers,
                ..self.ground.counters
            },
            timers: self.ground.timers.len(),
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
                TimerKey::Presence(addr) => self.beats.on_presence_timer(&mut cx, &addr),
                TimerKey::Group(key, timer) => {
                    if let Some(group) = self.groups.get_mut(key) {
                        group.on_timer(&mut cx, Peers::of(&self.routes, &self.beats), timer);
                    }
                }
                TimerKey::Queue(group, queue, timer) => {
                    if let Some(group) = self.groups.get_mut(group) {
                        group.on_queue_timer(&mut cx, Peers::of(&self.routes, &self.beats), queue, timer);
                    }
                }
            }
            self.settle();
        }
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
