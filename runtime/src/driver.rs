mod acting;
mod brain;
mod change;
mod conn;
mod groups;
mod inbox;
mod reader;
mod subscribing;
mod telling;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_channel::oneshot;
use rocketmq_consumer_core::action::{CallAnswer, CallError, RefusalReason};
use rocketmq_consumer_core::config::CONCURRENCY;
use rocketmq_consumer_core::event::{AppEvent, Event};
use rocketmq_consumer_core::ids::{CallId, ConnId};
use rocketmq_consumer_core::time::Instant;

use crate::driver::brain::Brain;
use crate::driver::conn::Conn;
use crate::driver::groups::Groups;
pub(crate) use crate::driver::inbox::{Command, Inbox, Settled, StartGroup};
pub(crate) use crate::driver::subscribing::SubscriptionChange;
use crate::machine::Machine;
use crate::notices::NoticeHub;
use crate::record::Recorder;
use crate::runtime::Runtime;
use crate::timer::Timer;

/// Commands in one turn, and events of one connection in one turn, before the task yields.
const BUDGET: usize = 128;

/// Times within one turn that actions may lead to events which lead to actions.
const ROUNDS: usize = 8;

/// How often the machine is told the wall clock.
const CLOCK_INTERVAL: Duration = Duration::from_secs(3600);

/// What the driver of one client is made of.
pub(crate) struct Parts<R, M> {
    pub(crate) runtime: R,
    pub(crate) machine: M,
    pub(crate) inbox: Arc<Inbox>,
    /// For notices of every group and of none.
    pub(crate) notices: Arc<NoticeHub>,
    pub(crate) recorder: Option<Box<dyn Recorder>>,
    /// Largest legal length word of a frame, in bytes.
    pub(crate) frame_len_max: u32,
}

/// The one task that carries a machine: brings it what happens and does what it wants.
///
/// It holds sockets, a timer and the addresses of those who wait for answers, and knows nothing of
/// the protocol. No step waits; whatever cannot go on has registered the task's waker.
pub(crate) struct Driver<R: Runtime, M: Machine> {
    runtime: R,
    brain: Brain<M>,
    inbox: Arc<Inbox>,
    commands: VecDeque<Command>,
    conns: BTreeMap<ConnId, Conn<R::Socket>>,
    /// Connections with something new to begin: they have no waker registered for it yet.
    touched: Vec<ConnId>,
    groups: Groups,
    calls: BTreeMap<CallId, oneshot::Sender<Result<CallAnswer, CallError>>>,
    next_call: u64,
    awaiting_close: Vec<oneshot::Sender<()>>,
    /// What the machine says to the change that is being put to it; `None` while none is.
    putting: Option<Result<(), RefusalReason>>,
    notices: Arc<NoticeHub>,
    timer: Timer<R>,
    next_clock: Instant,
    frame_len_max: u32,
    closed: bool,
}

impl<R: Runtime, M: Machine> Driver<R, M> {
    pub(crate) fn new(parts: Parts<R, M>) -> Self {
        let Parts {
            runtime,
            machine,
            inbox,
            notices,
            recorder,
            frame_len_max,
        } = parts;
        Self {
            next_clock: runtime.now() + CLOCK_INTERVAL,
            runtime,
            brain: Brain { machine, recorder },
            inbox,
            commands: VecDeque::new(),
            conns: BTreeMap::new(),
            touched: Vec::new(),
            groups: Groups::default(),
            calls: BTreeMap::new(),
            next_call: 0,
            awaiting_close: Vec::new(),
            putting: None,
            notices,
            timer: Timer::new(),
            frame_len_max,
            closed: false,
        }
    }

    /// Works until the machine has closed everything.
    pub(crate) async fn run(mut self) {
        poll_fn(|cx| self.turn(cx)).await;
    }

    /// Input first, then expiry by the clock, then actions; the timer is armed last, once.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.inbox.register(cx.waker());
        let mut more = self.take_commands();
        more |= self.poll_conns(cx);
        self.expire();
        self.act();
        for _ in 1..ROUNDS {
            if self.touched.is_empty() {
                break;
            }
            more |= self.poll_touched(cx);
            self.act();
        }
        more |= !self.touched.is_empty();
        if self.closed {
            return Poll::Ready(());
        }
        let at = self
            .brain
            .machine
            .wakeup_at()
            .map_or(self.next_clock, |at| at.min(self.next_clock));
        if more || self.timer.poll_until(&self.runtime, at, cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Whether commands are left for the next turn.
    fn take_commands(&mut self) -> bool {
        if self.commands.is_empty() {
            self.inbox.take(&mut self.commands);
        }
        let now = self.runtime.now();
        for _ in 0..BUDGET {
            let Some(command) = self.commands.pop_front() else {
                return false;
            };
            self.obey(now, command);
        }
        // Whatever came in the meantime woke us; only what is left here would be forgotten.
        true
    }

    fn obey(&mut self, now: Instant, command: Command) {
        match command {
            Command::App(event) => self.brain.handle(now, event),
            Command::Store(event) => self.brain.handle(now, event),
            Command::Start(newcomer) => {
                if let Some(config) = self.groups.admit(*newcomer) {
                    self.brain.handle(now, AppEvent::StartGroup(config));
                }
            }
            Command::Stop { who, drain, reply } => {
                // Without such a group the reply is dropped, which tells as much.
                if let Some(stopping) = self.groups.by_ticket(who) {
                    stopping.awaiting_stop.extend(reply);
                    let group = stopping.name().clone();
                    self.brain.handle(now, AppEvent::StopGroup { group, drain });
                }
            }
            Command::Concurrency { who, permits } => {
                if let Some(resized) = self.groups.by_ticket(who) {
                    // The machine refuses the rest and keeps its number; so must the desk.
                    if CONCURRENCY.contains(&permits) {
                        resized.desk.resize(permits);
                    }
                    let group = resized.name().clone();
                    self.brain.handle(now, AppEvent::Concurrency { group, permits });
                }
            }
            Command::Change { who, change, reply } => self.change(now, who, change, reply),
            Command::AwaitReady { who, reply } => {
                if let Some(group) = self.groups.by_ticket(who) {
                    group.await_ready(reply);
                }
            }
            Command::Subscribe { who, change } => self.subscribe(now, who, change),
            Command::Call { mut call, reply } => {
                call.id = CallId(self.next_call);
                self.next_call += 1;
                self.calls.insert(call.id, reply);
                self.brain.handle(now, AppEvent::Call(call));
            }
            Command::Status { reply } => {
                let _gone = reply.send(self.brain.machine.status());
            }
            Command::Shutdown { drain, reply } => {
                self.awaiting_close.extend(reply);
                self.brain.handle(now, AppEvent::Shutdown { drain });
            }
        }
    }

    /// Whether a connection has more to say than one turn allows.
    fn poll_conns(&mut self, cx: &mut Context<'_>) -> bool {
        let mut more = false;
        self.conns.retain(|_, conn| {
            more |= drain(conn, &mut self.brain, &self.runtime, cx, self.frame_len_max);
            !conn.is_over()
        });
        more
    }

    /// The same for those that actions have just given something to do.
    fn poll_touched(&mut self, cx: &mut Context<'_>) -> bool {
        let mut more = false;
        for id in self.touched.drain(..) {
            let Some(conn) = self.conns.get_mut(&id) else {
                continue;
            };
            more |= drain(conn, &mut self.brain, &self.runtime, cx, self.frame_len_max);
            if conn.is_over() {
                self.conns.remove(&id);
            }
        }
        more
    }

    fn expire(&mut self) {
        let now = self.runtime.now();
        if self.next_clock <= now {
            self.next_clock = now + CLOCK_INTERVAL;
            self.brain.handle(now, AppEvent::Clock(self.runtime.wall()));
        }
        if self.brain.machine.wakeup_at().is_some_and(|at| at <= now) {
            self.brain.handle(now, Event::Wakeup);
        }
    }
}

/// Brings the machine what happened on a connection; true when the budget ended first.
fn drain<R: Runtime, M: Machine>(
    conn: &mut Conn<R::Socket>,
    brain: &mut Brain<M>,
    runtime: &R,
    cx: &mut Context<'_>,
    frame_len_max: u32,
) -> bool {
    for _ in 0..BUDGET {
        let now = runtime.now();
        let Poll::Ready(event) = conn.poll_event(cx, now, frame_len_max) else {
            return false;
        };
        brain.handle(now, event);
    }
    true
}

/// Also when the task is dropped or panics: nobody must wait for an answer that cannot come.
impl<R: Runtime, M: Machine> Drop for Driver<R, M> {
    fn drop(&mut self) {
        self.inbox.close();
        // Names are given free before anybody hears of the end and starts anew.
        std::mem::take(&mut self.groups).end();
        self.notices.end();
        // A recording is whole once its client is known to have ended.
        self.brain.recorder = None;
        for reply in self.awaiting_close.drain(..) {
            let _gone = reply.send(());
        }
        for (_, reply) in std::mem::take(&mut self.calls) {
            let _gone = reply.send(Err(CallError::Closed));
        }
    }
}

#[cfg(test)]
mod tests;
