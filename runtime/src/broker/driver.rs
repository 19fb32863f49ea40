//! The one task that carries a cluster: brings the machine what happens and does what it wants.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_channel::{mpsc, oneshot};
use futures_core::Stream as _;
use rocketmq_consumer_core::broker::BrokerState;
use rocketmq_consumer_core::broker::config::ClusterConfig;
use rocketmq_consumer_core::broker::event::{BrokerAction, BrokerEvent, Control, ServerEvent};
use rocketmq_consumer_core::step::Seed;

use super::link::LinkEvent;
use super::links::Links;
use super::listeners::Listeners;
use super::port::Accepted;
use super::watch::Watch;
use crate::listening::Listening;
use crate::timer::Timer;

/// What connections may have handed over that the machine has not seen, besides one piece for each of them: with
/// 64 KiB each, 16 MiB.
const EVENTS: usize = 256;

/// Events that are taken at once, before the machine's actions are; commands and connections too.
const TURN: usize = 64;

/// Drawn from where a broker chooses: which queue takes a message that names none. Clients draw numbers of
/// their own, so nothing is gained by another one each time, and tests are repeatable.
const SEED: Seed = Seed(550);

/// A wish of whoever holds the cluster.
pub(super) enum Command {
    /// Act, and say when it is done.
    Control {
        /// What to do.
        control: Control,
        /// Who waits.
        reply: oneshot::Sender<io::Result<()>>,
    },
    /// Let somebody in to look.
    Look(Box<dyn FnOnce(&BrokerState) + Send>),
    /// Tell somebody what happens, so many things at a time, in place of whoever was told before.
    Observe {
        /// How many things may wait.
        most: usize,
        /// Where to tell them.
        watch: Watch,
    },
}

/// It holds no socket: a task for each connection and each port does, so that reading and writing wait for nobody.
/// No step waits; whatever cannot go on has registered the task's waker.
pub(super) struct Driver<R: Listening> {
    runtime: R,
    machine: BrokerState,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Receiver<LinkEvent>,
    links: Links<R>,
    listeners: Listeners<R>,
    watch: Option<Watch>,
    timer: Timer<R>,
    /// Tells that there is no cluster any more. The last one here, for fields are dropped in their order.
    _ended: oneshot::Sender<()>,
}

/// Nobody holds the cluster any more.
struct Abandoned;

impl<R: Listening> Driver<R> {
    pub(super) fn new(
        runtime: R,
        config: &ClusterConfig,
        listeners: Listeners<R>,
        commands: mpsc::Receiver<Command>,
        ended: oneshot::Sender<()>,
    ) -> Self {
        let (sender, events) = mpsc::channel(EVENTS);
        Self {
            machine: BrokerState::new(config.clone(), SEED, runtime.now(), runtime.wall()),
            commands,
            events,
            links: Links::new(runtime.clone(), sender),
            listeners,
            watch: None,
            timer: Timer::new(),
            runtime,
            _ended: ended,
        }
    }

    /// Works until nobody holds the cluster any more.
    pub(super) async fn run(mut self) {
        poll_fn(|cx| self.turn(cx)).await;
    }

    /// Input first, then expiry by the clock, then actions; the timer is armed last, once.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Ok(mut more) = self.take_commands(cx) else {
            return Poll::Ready(());
        };
        more |= self.take_connections(cx);
        more |= self.take_events(cx);
        self.expire();
        self.act();
        self.pass_on(cx);
        let at = self.machine.poll_timeout();
        if more || at.is_some_and(|at| self.timer.poll_until(&self.runtime, at, cx).is_ready()) {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Whether more may wait than one turn allows; the same below.
    fn take_commands(&mut self, cx: &mut Context<'_>) -> Result<bool, Abandoned> {
        for _ in 0..TURN {
            match Pin::new(&mut self.commands).poll_next(cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Some(command)) => self.obey(command),
                Poll::Ready(None) => return Err(Abandoned),
            }
        }
        Ok(true)
    }

    fn take_connections(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..TURN {
            let Poll::Ready(Some(accepted)) = self.listeners.poll_accepted(cx) else {
                return false;
            };
            self.on_accepted(accepted);
        }
        true
    }

    fn take_events(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..TURN {
            let Poll::Ready(Some(event)) = Pin::new(&mut self.events).poll_next(cx) else {
                return false;
            };
            self.on_event(event);
        }
        true
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Control { control, reply } => {
                let _gone = reply.send(self.control(control));
            }
            Command::Look(look) => look(&self.machine),
            Command::Observe { most, watch } => {
                self.machine.observe(most);
                self.watch = Some(watch);
            }
        }
    }

    fn on_accepted(&mut self, accepted: Accepted<R::Socket>) {
        let Accepted { at, from, socket } = accepted;
        if !self.machine.is_up(&at) {
            // It came just before the node went down.
            return;
        }
        let conn = self.links.open(socket);
        self.tell(ServerEvent::Accepted { conn, at, from });
    }

    fn on_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Received { conn, bytes } if self.links.stands(conn) => {
                self.tell(ServerEvent::Received { conn, bytes });
            }
            LinkEvent::Closed { conn } if self.links.stands(conn) => {
                // Who has nothing more to ask may still want to hear the answers.
                self.act();
                self.links.close(conn);
                self.tell(ServerEvent::Closed { conn });
            }
            LinkEvent::Received { .. } | LinkEvent::Closed { .. } => {}
        }
    }

    fn control(&mut self, control: Control) -> io::Result<()> {
        if let Control::Start(addr) = &control {
            self.listeners.start(addr)?;
        }
        if let Control::Move { from, to } = &control {
            self.listeners.relocate(from, to)?;
        }
        self.machine
            .handle(self.runtime.now(), BrokerEvent::Control(control));
        self.act();
        self.listeners.keep(|addr| self.machine.is_up(addr));
        Ok(())
    }

    fn expire(&mut self) {
        let now = self.runtime.now();
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.handle(now, BrokerEvent::Wakeup);
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                BrokerAction::Send { conn, frame } => {
                    if !self.links.send(conn, frame) {
                        self.tell(ServerEvent::Closed { conn });
                    }
                }
                BrokerAction::Close { conn } => self.links.close(conn),
                other => {
                    unreachable!("this driver is built with the machine and knows all it does: {other:?}")
                }
            }
        }
    }

    fn pass_on(&mut self, cx: &mut Context<'_>) {
        if let Some(watch) = &mut self.watch
            && !watch.pass_on(&mut self.machine, cx)
        {
            self.watch = None;
            self.machine.observe(0);
        }
    }

    fn tell(&mut self, event: ServerEvent) {
        self.machine.handle(self.runtime.now(), BrokerEvent::Net(event));
    }
}
