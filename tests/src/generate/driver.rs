//! A machine and the account of what it waits for: who feeds it generated events needs to know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::action::{Action, AppAction, NetAction};
use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, Event, FlowScope, NetEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{ConnId, ConsumeId, PeerAddr};
use rocketmq_consumer_core::message::{Batch, Message, Outcome};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame};
use rocketmq_consumer_core::wire::link::Reassembler;

use super::events::{Step, View, step};
use super::shelf::Shelf;
use crate::world::{Asked, Link, ORIGIN, Recorder};

/// A run of messages that is with handlers.
#[derive(Clone, Debug)]
pub struct OpenRun {
    /// Its name.
    pub id: ConsumeId,
    /// The batch.
    pub batch: Arc<Batch>,
    /// Which part of it was handed out.
    pub range: RunRange,
    /// The positions that were not reported.
    pub open: BTreeSet<u32>,
}

/// What a step showed, in this order: what went in, then what came out.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A request was answered that waited on a connection that stands.
    Answered {
        /// The request.
        asked: Asked,
        /// The answer, readable or not.
        frame: Frame,
    },
    /// A message that was with a handler was reported.
    Reported {
        /// The message.
        message: Message,
        /// What became of it.
        verdict: Verdict,
    },
    /// A broker has asked something of the machine, or told it.
    Requested(Frame),
    /// The application wishes for something else than it has wished for so far.
    Wished(AppEvent),
    /// The machine has sent a request.
    Asked(Asked),
    /// The machine has handed out a run.
    Delivered(OpenRun),
    /// Anything else that came out for the application.
    Told(AppAction),
}

/// A machine with one group, its peers' shelf, and what is under way between them.
///
/// The driver writes what the machine sends at once, and stores on the shelf what a request carries.
/// Everything else is up to the events it is given.
#[derive(Clone, Debug)]
pub struct Driver {
    machine: Recorder,
    now: Instant,
    shelf: Shelf,
    conns: BTreeMap<ConnId, Conn>,
    waiting: Vec<Asked>,
    runs: Vec<OpenRun>,
}

#[derive(Clone, Debug)]
struct Conn {
    addr: PeerAddr,
    stands: bool,
    inbound: Reassembler,
}

impl Driver {
    /// A machine whose group has been told to start.
    ///
    /// # Panics
    ///
    /// When the settings are refused.
    #[must_use]
    pub fn new(shelf: Shelf, group: GroupConfig) -> (Self, Vec<Seen>) {
        group.check().expect("settings that work");
        let machine = Recorder::new(shelf.client(), Seed(1), Instant::ZERO, ORIGIN);
        let mut driver = Self {
            machine,
            now: Instant::ZERO,
            shelf,
            conns: BTreeMap::new(),
            waiting: Vec::new(),
            runs: Vec::new(),
        };
        let event = AppEvent::StartGroup(Arc::new(group)).into();
        let seen = driver.feed(Step {
            after: Duration::ZERO,
            event,
        });
        (driver, seen)
    }

    /// A machine with generated settings and peers.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub fn generate(u: &mut Unstructured<'_>) -> Result<(Self, Vec<Seen>)> {
        let shelf = Shelf::generate(u)?;
        let group = shelf.group(u)?;
        Ok(Self::new(shelf, group))
    }

    /// Feeds one generated event.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub fn step(&mut self, u: &mut Unstructured<'_>) -> Result<Vec<Seen>> {
        let (dialling, standing) = (self.conns(false), self.conns(true));
        let view = View {
            now: self.now,
            wakeup: self.state().poll_timeout().map(|wakeup| wakeup.at),
            dialling: &dialling,
            standing: &standing,
            waiting: &self.waiting,
            runs: &self.runs,
            shelf: &self.shelf,
        };
        let next = step(u, &view)?;
        Ok(self.feed(next))
    }

    /// Feeds one event.
    pub fn feed(&mut self, Step { after, event }: Step) -> Vec<Seen> {
        self.now = self.now + after;
        let mut seen = Vec::new();
        self.note(&event, &mut seen);
        let actions = self.machine.handle(self.now, event);
        for action in actions {
            self.perform(action, &mut seen);
        }
        seen
    }

    /// Lets time pass in which everybody is well: connections are made, requests answered, messages
    /// handled, and no other member is there. Ends early when all messages are settled and committed.
    ///
    /// # Panics
    ///
    /// When the machine keeps its driver busy without end.
    pub fn calm(&mut self, time: Duration) -> Vec<Seen> {
        let end = self.now + time;
        let mut seen = self.let_flow();
        for _ in 0..100_000 {
            if self.now >= end || self.is_settled() {
                return seen;
            }
            let next = self.calm_step(end);
            seen.extend(self.feed(next));
        }
        panic!("busy without end at {:?}: {:?}", self.now, self.state().status());
    }

    /// Takes back every pause and rate.
    fn let_flow(&mut self) -> Vec<Seen> {
        let group = || "g".into();
        let scope = FlowScope::Group;
        let events = [
            AppEvent::Resume {
                group: group(),
                scope,
            },
            AppEvent::RateLimit {
                group: group(),
                topic: None,
                rate: None,
            },
        ];
        let mut seen = Vec::new();
        for event in events {
            let after = Duration::ZERO;
            seen.extend(self.feed(Step {
                after,
                event: event.into(),
            }));
        }
        seen
    }

    /// Whether every message is settled and its broker knows.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.runs.is_empty() && self.shelf.logs.values().all(|log| log.stored == Some(log.max))
    }

    /// The machine.
    #[must_use]
    pub const fn state(&self) -> &ConsumerState {
        self.machine.state()
    }

    /// Everything that went in and came out.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder {
        &self.machine
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// What the peers have.
    #[must_use]
    pub const fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// Requests that wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> &[Asked] {
        &self.waiting
    }

    /// Runs that are with handlers.
    #[must_use]
    pub fn runs(&self) -> &[OpenRun] {
        &self.runs
    }

    fn calm_step(&self, end: Instant) -> Step {
        let at_once = |event| Step {
            after: Duration::ZERO,
            event,
        };
        if let Some(conn) = self.conns(false).first() {
            return at_once(NetEvent::Connected { conn: *conn }.into());
        }
        let mut next = self
            .state()
            .poll_timeout()
            .map_or(end, |wakeup| wakeup.at.min(end));
        for asked in &self.waiting {
            match self.shelf.honest(asked, self.now) {
                Ok(bytes) => {
                    return at_once(
                        NetEvent::Received {
                            conn: asked.link.conn,
                            bytes,
                        }
                        .into(),
                    );
                }
                Err(until) => next = next.min(until),
            }
        }
        if let Some(run) = self.runs.first() {
            let report = Report::All(Verdict::Handled(Outcome::Done));
            return at_once(
                AppEvent::Consumed {
                    id: run.id,
                    range: run.range,
                    report,
                }
                .into(),
            );
        }
        Step {
            after: next.saturating_since(self.now),
            event: Event::Wakeup,
        }
    }

    fn conns(&self, stands: bool) -> Vec<ConnId> {
        let wanted = self.conns.iter().filter(|(_, conn)| conn.stands == stands);
        wanted.map(|(id, _)| *id).collect()
    }

    /// Books an event before the machine sees it.
    fn note(&mut self, event: &Event, seen: &mut Vec<Seen>) {
        match event {
            Event::Net(NetEvent::Connected { conn }) => {
                if let Some(conn) = self.conns.get_mut(conn) {
                    conn.stands = true;
                }
            }
            Event::Net(NetEvent::ConnectFailed { conn, .. } | NetEvent::Closed { conn, .. }) => {
                self.forget(*conn)
            }
            Event::Net(NetEvent::Received { conn, bytes }) => {
                if let Some(link) = self.conns.get_mut(conn).filter(|conn| conn.stands) {
                    link.inbound.push(bytes.clone());
                    while let Ok(Some(frame)) = link.inbound.next_frame() {
                        let header = Header::of(&frame).ok();
                        let is_request = header.as_ref().is_some_and(|header| !header.is_response());
                        let answers = header.filter(Header::is_response).map(|header| header.opaque);
                        if is_request {
                            seen.push(Seen::Requested(frame));
                            continue;
                        }
                        let about = |asked: &Asked| asked.link.conn == *conn && Some(asked.opaque) == answers;
                        if let Some(place) = self.waiting.iter().position(about) {
                            let asked = self.waiting.remove(place);
                            seen.push(Seen::Answered { asked, frame });
                        }
                    }
                }
            }
            Event::App(AppEvent::Consumed { id, range, report }) => self.reported(*id, *range, report, seen),
            Event::App(wish @ (AppEvent::Subscribe { .. } | AppEvent::Unsubscribe { .. })) => {
                seen.push(Seen::Wished(wish.clone()));
            }
            Event::Wakeup | Event::Net(_) | Event::App(_) | Event::Store(_) | _ => {}
        }
    }

    fn reported(&mut self, id: ConsumeId, range: RunRange, report: &Report, seen: &mut Vec<Seen>) {
        let Some(run) = self.runs.iter_mut().find(|run| run.id == id) else {
            return;
        };
        let named: Vec<u32> = run
            .open
            .iter()
            .copied()
            .filter(|at| (range.start..range.end).contains(at))
            .collect();
        for position in named {
            run.open.remove(&position);
            let verdict = report.of(position - range.start).unwrap_or(Verdict::NotStarted);
            let message = Message::new(Arc::clone(&run.batch), position).expect("it was handed out");
            seen.push(Seen::Reported { message, verdict });
        }
        self.runs.retain(|run| !run.open.is_empty());
    }

    fn perform(&mut self, action: Action, seen: &mut Vec<Seen>) {
        match action {
            Action::Net(NetAction::Connect { conn, addr, .. }) => {
                let inbound = Reassembler::new(FRAME_LEN_MAX);
                self.conns.insert(
                    conn,
                    Conn {
                        addr,
                        stands: false,
                        inbound,
                    },
                );
            }
            Action::Net(NetAction::Send { conn, frame }) => {
                let known = self.conns.get(&conn).filter(|conn| conn.stands);
                let to = known
                    .expect("a machine writes where a connection stands")
                    .addr
                    .clone();
                let bytes = u32::try_from(frame.len()).expect("a frame is small");
                // Written at once; nothing comes of it but room in the queue of what is to be sent.
                let written = self
                    .machine
                    .handle(self.now, NetEvent::Sent { conn, bytes }.into());
                let link = Link {
                    member: self.shelf.own.clone(),
                    life: 0,
                    conn,
                };
                if let Some(asked) = Asked::read(self.now, &link, &to, frame) {
                    self.shelf.arrived(&asked);
                    if !is_oneway(&asked.frame) {
                        self.waiting.push(asked.clone());
                    }
                    seen.push(Seen::Asked(asked));
                }
                for action in written {
                    self.perform(action, seen);
                }
            }
            Action::Net(NetAction::Close { conn }) => self.forget(conn),
            Action::App(AppAction::Consume { id, batch, range, .. }) => {
                let run = OpenRun {
                    id,
                    batch,
                    range,
                    open: (range.start..range.end).collect(),
                };
                self.runs.push(run.clone());
                seen.push(Seen::Delivered(run));
            }
            Action::App(action) => seen.push(Seen::Told(action)),
            // Peers are known by address here.
            Action::Net(_) | Action::Store(_) | _ => {}
        }
    }

    fn forget(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
        self.waiting.retain(|asked| asked.link.conn != conn);
    }
}

fn is_oneway(frame: &Frame) -> bool {
    Header::of(frame).is_ok_and(|header| header.is_oneway())
}
