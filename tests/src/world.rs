//! A small world in virtual time: members, each a machine of its own, and a peer that stands for all
//! name servers and brokers.
//!
//! Nothing here reads a clock. Time jumps from one thing that happens to the next; what happens at
//! the same moment happens in the order it was decided. So a story that is told twice goes the same
//! way twice, and [`World::assert_replays`] can ask each machine to prove its part of it.
//!
//! ```text
//!  machine ──action──► World ──latency──► Peer        handlers, after their time
//!     ▲                                     │                  │
//!     └──────────event── agenda ◄───────────┴──────────────────┘
//! ```
//!
//! [`Bench`] is for a single machine that is fed by hand, step by step.

mod acting;
mod asked;
mod bench;
mod check;
mod cluster;
mod member;
mod node;
mod peer;
mod recorder;
mod stored;
mod story;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::event::{AppEvent, Event, NetCause, NetEvent, Verdict};
use rocketmq_consumer_core::ids::{ConnId, ConsumeId};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};

pub use asked::{Asked, Link};
pub use bench::{Bench, Run, address, pull_answer};
pub use cluster::{Cluster, queue};
pub use member::{Delivery, Handler, Handling, Setup};
pub use node::Node;
pub use peer::{Dial, Peer, PeerAction, Reply};
pub use recorder::Recorder;
pub use stored::{StoredMessage, records};
pub use story::Commit;

use member::Member;

/// Wall time at the origin of every world.
pub const ORIGIN: WallTime = WallTime::from_unix_millis(1_700_000_000_000);

/// Things that may happen at one moment before it counts as a world that stands still.
const STANDSTILL: u32 = 1_000_000;

/// Seconds.
#[must_use]
pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Milliseconds.
#[must_use]
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Members, what is on its way between them and the peer, and what was seen so far.
#[derive(Debug)]
pub struct World<P = Cluster> {
    now: Instant,
    latency: Duration,
    agenda: BTreeMap<(Instant, u64), Due>,
    seq: u64,
    members: Vec<Member>,
    peer: P,
    requests: Vec<Asked>,
    /// Rules that were broken, in words.
    broken: Vec<String>,
}

/// Something that is going to happen.
#[derive(Debug)]
enum Due {
    /// To a machine; `conn` when it is about a connection that must still be wanted.
    Event {
        member: usize,
        conn: Option<ConnId>,
        event: Event,
    },
    /// Bytes reach the peer.
    ToPeer { link: Link, bytes: Bytes },
    /// The peer learns that a connection is closed.
    HungUp { link: Link },
    /// A handler ends.
    Handled {
        member: usize,
        id: ConsumeId,
        position: u32,
        token: u64,
        verdict: Verdict,
    },
}

impl<P: Peer> World<P> {
    /// A world without members round a peer.
    #[must_use]
    pub const fn around(peer: P) -> Self {
        Self {
            now: Instant::ZERO,
            latency: ms(1),
            agenda: BTreeMap::new(),
            seq: 0,
            members: Vec::new(),
            peer,
            requests: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// What time it is.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The other side.
    pub const fn peer(&mut self) -> &mut P {
        &mut self.peer
    }

    /// How long bytes travel, one way. Default 1 ms.
    pub const fn set_latency(&mut self, latency: Duration) {
        self.latency = latency;
    }

    /// Lets time pass.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Lets time pass up to a moment, and everything that is due by then happen.
    ///
    /// # Panics
    /// When time stands still because somebody always finds something more to do.
    pub fn run_until(&mut self, until: Instant) {
        self.collect();
        let mut steps = 0;
        while let Some(at) = self.next_at().filter(|at| *at <= until) {
            steps = if at > self.now { 0 } else { steps + 1 };
            assert!(
                steps < STANDSTILL,
                "the world stands still at {:?}: {:?}",
                self.now,
                self.agenda.first_key_value()
            );
            self.now = self.now.max(at);
            self.step();
        }
        self.now = self.now.max(until);
        self.check_queues();
    }

    fn next_at(&self) -> Option<Instant> {
        let timers = self.members.iter().filter(|member| member.alive);
        let timers = timers.filter_map(|member| member.machine.state().poll_timeout());
        let agenda = self.agenda.keys().map(|(at, _)| *at).take(1);
        agenda
            .chain(timers.map(|wakeup| wakeup.at))
            .chain(self.peer.wake_at())
            .min()
    }

    /// One thing that is due: what arrives goes before timers, as drivers do it.
    fn step(&mut self) {
        if let Some(entry) = self
            .agenda
            .first_entry()
            .filter(|entry| entry.key().0 <= self.now)
        {
            let due = entry.remove();
            return self.happen(due);
        }
        if self.peer.wake_at().is_some_and(|at| at <= self.now) {
            self.peer.wake(self.now);
            return self.collect();
        }
        for member in 0..self.members.len() {
            let state = self.members[member].machine.state();
            let due = state.poll_timeout().is_some_and(|wakeup| wakeup.at <= self.now);
            if due && self.members[member].alive {
                self.feed(member, Event::Wakeup);
                let next = self.members[member].machine.state().poll_timeout();
                if next.is_some_and(|wakeup| wakeup.at <= self.now) {
                    self.broken
                        .push(format!("{:?}: woken, and again at once: {next:?}", self.now));
                }
            }
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Event { member, conn, event } => {
                let concerned = &mut self.members[member];
                if !concerned.alive || conn.is_some_and(|conn| !concerned.links.contains_key(&conn)) {
                    return;
                }
                if let Event::Net(event) = &event {
                    concerned.heard(event);
                }
                self.feed(member, event);
            }
            Due::ToPeer { link, bytes } => {
                self.peer.receive(self.now, &link, bytes);
                self.collect();
            }
            Due::HungUp { link } => {
                self.peer.hung_up(self.now, &link);
                self.collect();
            }
            Due::Handled {
                member,
                id,
                position,
                token,
                verdict,
            } => {
                let key = (id, position);
                if self.members[member].open.get(&key).map(|open| open.token) == Some(token) {
                    self.report(member, id, position, verdict);
                }
            }
        }
    }

    fn later(&mut self, delay: Duration, due: Due) {
        self.seq += 1;
        self.agenda.insert((self.now + delay, self.seq), due);
    }

    /// Carries out what the peer wants.
    fn collect(&mut self) {
        while let Some(action) = self.peer.poll() {
            let (link, event): (Link, fn(ConnId, Bytes) -> NetEvent) = match &action {
                PeerAction::Send { link, .. } => {
                    (link.clone(), |conn, bytes| NetEvent::Received { conn, bytes })
                }
                PeerAction::Close { link } => (link.clone(), |conn, _| NetEvent::Closed {
                    conn,
                    cause: NetCause::EndOfStream,
                }),
            };
            let bytes = match action {
                PeerAction::Send { bytes, .. } => bytes,
                PeerAction::Close { .. } => Bytes::new(),
            };
            let of_link = |member: &Member| (&member.id, member.life) == (&link.member, link.life);
            if let Some(member) = self.members.iter().position(of_link) {
                let event = Event::Net(event(link.conn, bytes));
                let conn = Some(link.conn);
                self.later(self.latency, Due::Event { member, conn, event });
            }
        }
    }

    // ---- members --------------------------------------------------------------------------------

    /// Starts a member.
    pub(crate) fn start(&mut self, setup: Setup) {
        let id = setup.client.client_id().clone();
        let life = self.members.iter().filter(|member| member.id == id).count();
        let seed = Seed(self.members.len() as u64 + 1);
        let wall = ORIGIN + self.now.saturating_since(Instant::ZERO);
        let group = Arc::new(setup.group);
        self.members.push(Member {
            id,
            life: u32::try_from(life).unwrap_or(u32::MAX),
            alive: true,
            machine: Recorder::new(setup.client, seed, self.now, wall),
            group: Arc::clone(&group),
            handler: setup.handler,
            links: BTreeMap::new(),
            open: BTreeMap::new(),
            pulls: BTreeMap::new(),
            deliveries: Vec::new(),
            done: Vec::new(),
            notices: Vec::new(),
            refusals: Vec::new(),
            report: None,
            closed: false,
        });
        self.feed(self.members.len() - 1, AppEvent::StartGroup(group).into());
    }

    /// The newest process with this id.
    fn index(&self, id: &str) -> usize {
        let found = self.members.iter().rposition(|member| member.id.as_str() == id);
        found.unwrap_or_else(|| panic!("no member {id:?}"))
    }

    /// Ends the process of a member without a word; its connections break.
    pub fn crash(&mut self, id: &str) {
        let index = self.index(id);
        self.members[index].alive = false;
        let conns: Vec<ConnId> = self.members[index].links.keys().copied().collect();
        for conn in conns {
            let link = self.members[index].link(conn);
            self.later(self.latency, Due::HungUp { link });
        }
    }

    /// Gives a machine an event of the application.
    pub fn tell(&mut self, id: &str, event: AppEvent) {
        let index = self.index(id);
        self.feed(index, event.into());
    }
}
