mod change;
mod conn;
mod groups;
mod inbox;
mod reader;
mod subscribing;
mod timer;
mod writer;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_channel::oneshot;
use rocketmq_consumer_core::action::{
    Action, AppAction, CallAnswer, CallError, NetAction, Refusal, ShutdownReport, StoreAction,
};
use rocketmq_consumer_core::config::CONCURRENCY;
use rocketmq_consumer_core::event::{AppEvent, Event, NetCause};
use rocketmq_consumer_core::ids::{CallId, ConnId, ConsumerGroup};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::{Notice, NoticeKind};
use rocketmq_consumer_core::time::Instant;

use crate::allocate;
use crate::answer::Answer as _;
use crate::driver::change::ChangeReply;
use crate::driver::conn::Conn;
use crate::driver::groups::{Group, Groups};
pub(crate) use crate::driver::inbox::{Command, Inbox, Settled, StartGroup};
pub(crate) use crate::driver::subscribing::SubscriptionChange;
use crate::driver::timer::Timer;
use crate::error::{FilterRefusal, StartError};
use crate::machine::Machine;
use crate::notices::{self, NoticeHub};
use crate::record::Recorder;
use crate::registry::Ticket;
use crate::runs::Run;
use crate::runtime::Runtime;
use crate::store;

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
    /// Who waits for what the machine says to the event under way.
    changing: Option<ChangeReply>,
    notices: Arc<NoticeHub>,
    timer: Timer<R>,
    next_clock: Instant,
    frame_len_max: u32,
    closed: bool,
}

/// The machine and who writes down what goes through it.
struct Brain<M> {
    machine: M,
    recorder: Option<Box<dyn Recorder>>,
}

impl<M: Machine> Brain<M> {
    fn handle(&mut self, now: Instant, event: impl Into<Event>) {
        let event = event.into();
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, &event);
        }
        self.machine.handle(now, event);
    }

    fn poll_action(&mut self) -> Option<Action> {
        let action = self.machine.poll_action()?;
        if let Some(recorder) = &mut self.recorder {
            recorder.action(&action);
        }
        Some(action)
    }
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
            changing: None,
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

    fn subscribe(&mut self, now: Instant, who: Ticket, change: SubscriptionChange) {
        // A refusal names no topic: what is refused within this call is this wish.
        self.act();
        let Some(changing) = self.groups.by_ticket(who) else {
            return;
        };
        let (group, topic) = (changing.name().clone(), change.topic.clone());
        let event = match change.filter.clone() {
            Some(filter) => AppEvent::Subscribe { group, topic, filter },
            None => AppEvent::Unsubscribe { group, topic },
        };
        changing.changes.ask(change);
        self.brain.handle(now, event);
        self.act();
        if let Some(changing) = self.groups.by_ticket(who) {
            changing.changes.taken();
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

    fn act(&mut self) {
        while let Some(action) = self.brain.poll_action() {
            match action {
                Action::Net(action) => self.act_net(action),
                Action::App(action) => self.act_app(action),
                Action::Store(action) => self.act_store(action),
                other => {
                    tracing::error!(target: "rocketmq", action = ?other, "this driver does not know the action")
                }
            }
        }
    }

    fn act_net(&mut self, action: NetAction) {
        match action {
            NetAction::Lookup { conn, name } => {
                self.begin(conn, Conn::looking_up(conn, self.runtime.lookup(&name)));
            }
            NetAction::Connect { conn, addr, tls } => {
                let attempt = match addr.host().parse::<IpAddr>() {
                    // TLS is a later feature; in the clear is not what was asked for.
                    _ if tls.is_some() => Conn::failed(conn, NetCause::Tls),
                    Ok(ip) => Conn::connecting(conn, self.runtime.connect(SocketAddr::new(ip, addr.port()))),
                    Err(_) => Conn::failed(conn, NetCause::NameUnknown),
                };
                self.begin(conn, attempt);
            }
            NetAction::Send { conn, frame } => {
                if let Some(standing) = self.conns.get_mut(&conn) {
                    standing.send(frame);
                    self.touched.push(conn);
                }
            }
            NetAction::Close { conn } => {
                self.conns.remove(&conn);
            }
            other => {
                tracing::error!(target: "rocketmq", action = ?other, "this driver does not know the action")
            }
        }
    }

    fn act_store(&mut self, action: StoreAction) {
        let group = match &action {
            StoreAction::Load { key, .. } | StoreAction::Save { key, .. } => self.groups.by_name(&key.group),
            _ => None,
        };
        let storage = group.and_then(|group| group.storage.as_ref());
        store::act(&self.runtime, &self.inbox, storage, action);
    }

    fn begin(&mut self, id: ConnId, conn: Conn<R::Socket>) {
        self.conns.insert(id, conn);
        self.touched.push(id);
    }

    fn act_app(&mut self, action: AppAction) {
        match action {
            AppAction::Consume {
                id,
                batch,
                range,
                attempt,
            } => {
                if let Some(group) = self.groups.by_key(id.group) {
                    group.desk.consume(Run {
                        id,
                        batch,
                        range,
                        attempt,
                    });
                } else {
                    // Never expected. Sent back, so that nothing is lost and nothing spins.
                    tracing::error!(target: "rocketmq", ?id, "a run of an unknown group");
                    self.inbox
                        .report([Settled::all(id, range, Outcome::AGAIN.verdict())]);
                }
            }
            AppAction::Withdraw { id } => {
                if let Some(group) = self.groups.by_key(id.group) {
                    group.desk.withdraw(id);
                }
            }
            AppAction::Cancel { id, position } => {
                if let Some(group) = self.groups.by_key(id.group) {
                    group.desk.cancel(id, position);
                }
            }
            AppAction::Abandon { id, position } => {
                if let Some(group) = self.groups.by_key(id.group) {
                    group.desk.abandon(id, position);
                }
            }
            AppAction::Allocate(question) => {
                let group = self.groups.by_key(question.id.group);
                let strategy = group.and_then(|group| group.allocate.as_ref());
                allocate::ask(&self.runtime, &self.inbox, strategy, question);
            }
            AppAction::GroupStarted { group, key } => self.groups.started(&group, key),
            AppAction::GroupStopped { group, report } => self.forget(&group, &report),
            AppAction::Refused(refusal) => self.refused(*refusal),
            AppAction::Answer { id, result } => {
                if let Some(reply) = self.calls.remove(&id) {
                    let _gone = reply.send(*result);
                }
            }
            AppAction::Notice(notice) => self.notice(&notice),
            AppAction::Closed => self.closed = true,
            other => {
                tracing::error!(target: "rocketmq", action = ?other, "this driver does not know the action")
            }
        }
    }

    fn forget(&mut self, group: &ConsumerGroup, report: &ShutdownReport) {
        let Some(mut stopped) = self.groups.remove(group) else {
            return;
        };
        let waiting = std::mem::take(&mut stopped.awaiting_stop);
        // First its name and its lanes are given free: who is told may start it again at once.
        stopped.end();
        for reply in waiting {
            let _gone = reply.send(report.clone());
        }
    }

    fn refused(&mut self, refusal: Refusal) {
        let Refusal { group, wish, why } = refusal;
        if let Some(asked) = self.changing.take() {
            let _gone = asked.send(Err(why));
            return;
        }
        tracing::warn!(target: "rocketmq", group = group.as_ref().map(tracing::field::display), wish, %why, "refused");
        let Some(name) = group else { return };
        let starting = self
            .groups
            .by_name(&name)
            .is_some_and(|group| group.is_starting());
        if starting && let Some(mut refused) = self.groups.remove(&name) {
            refused.started(Err(StartError::Refused(why)));
            refused.end();
        } else if matches!(wish, "subscribe" | "unsubscribe")
            && let Some(group) = self.groups.by_name(&name)
        {
            group.changes.refused(why);
        }
    }

    fn notice(&mut self, notice: &Notice) {
        notices::log(notice);
        self.notices.publish(notice);
        match &notice.group {
            None => self.groups.iter().for_each(|group| group.notices.publish(notice)),
            Some(name) => {
                if let Some(group) = self.groups.by_name(name) {
                    group.notices.publish(notice);
                    follow(group, &notice.kind);
                }
            }
        }
    }
}

/// What a notice answers of what a group's users wait for.
#[expect(clippy::wildcard_enum_match_arm, reason = "nobody waits for most of them")]
fn follow(group: &mut Group, kind: &NoticeKind) {
    match kind {
        NoticeKind::Ready => group.set_ready(),
        NoticeKind::SubscriptionChanged { topic, filter } => {
            group.subscription_changed(topic, filter.as_ref())
        }
        NoticeKind::FilterRefused {
            topic,
            filter,
            by,
            code,
            remark,
        } => group.filter_refused(FilterRefusal {
            topic: topic.clone(),
            filter: filter.clone(),
            by: by.clone(),
            code: *code,
            remark: remark.clone(),
        }),
        _ => {}
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
