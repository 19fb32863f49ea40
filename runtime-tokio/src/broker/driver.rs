//! The one task that carries a cluster: brings the machine what happens and does what it wants.

use std::io;
use std::pin::Pin;

use rocketmq_consumer::Runtime as _;
use rocketmq_consumer_core::broker::BrokerState;
use rocketmq_consumer_core::broker::config::ClusterConfig;
use rocketmq_consumer_core::broker::event::{BrokerAction, BrokerEvent, Control, ServerEvent};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use super::links::{LinkEvent, Links};
use super::listener::{Accepted, Listeners};
use super::watch::Watch;
use crate::tokio_runtime::TokioRuntime;

/// What readers may have handed over that the machine has not seen: with 64 KiB each, 16 MiB.
const EVENTS: usize = 256;

/// Events that are taken at once, before the machine's actions are.
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

pub(super) struct Driver {
    machine: BrokerState,
    runtime: TokioRuntime,
    listeners: Listeners,
    links: Links,
    events: mpsc::Receiver<LinkEvent>,
    commands: mpsc::Receiver<Command>,
    watch: Option<Watch>,
    alarm: Alarm,
}

impl Driver {
    pub(super) fn new(
        config: &ClusterConfig,
        listeners: Listeners,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        let runtime = TokioRuntime::new();
        let (sender, events) = mpsc::channel(EVENTS);
        Self {
            machine: BrokerState::new(config.clone(), SEED, runtime.now(), runtime.wall()),
            alarm: Alarm::new(&runtime),
            runtime,
            listeners,
            links: Links::new(sender),
            events,
            commands,
            watch: None,
        }
    }

    /// Works until nobody holds the cluster any more.
    pub(super) async fn run(mut self) {
        let mut turn = Vec::with_capacity(TURN);
        loop {
            self.alarm.set(&self.runtime, self.machine.poll_timeout());
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(Command::Control { control, reply }) => {
                        let done = self.control(control).await;
                        let _gone = reply.send(done);
                    }
                    Some(Command::Look(look)) => look(&self.machine),
                    Some(Command::Observe { most, watch }) => {
                        self.machine.observe(most);
                        self.watch = Some(watch);
                    }
                    None => break,
                },
                Some(accepted) = self.listeners.accept() => self.on_accepted(accepted),
                _ = self.events.recv_many(&mut turn, TURN) => {
                    for event in turn.drain(..) {
                        self.on_event(event);
                    }
                }
                () = Watch::room(self.watch.as_ref()) => {}
                () = self.alarm.ring() => {}
            }
            self.expire();
            self.act();
            self.pass_on();
        }
        self.links.cut_all();
        self.listeners.end().await;
    }

    fn on_accepted(&mut self, accepted: Accepted) {
        let Accepted { at, from, stream } = accepted;
        if !self.machine.is_up(&at) {
            // It came just before the node went down.
            return;
        }
        let conn = self.links.open(stream);
        self.tell(ServerEvent::Accepted { conn, at, from });
    }

    fn on_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Received { conn, bytes } if self.links.stands(conn) => {
                self.tell(ServerEvent::Received { conn, bytes });
            }
            LinkEvent::Closed { conn } if self.links.stands(conn) => {
                self.links.close(conn);
                self.tell(ServerEvent::Closed { conn });
            }
            LinkEvent::Received { .. } | LinkEvent::Closed { .. } => {}
        }
    }

    async fn control(&mut self, control: Control) -> io::Result<()> {
        if let Control::Start(addr) = &control {
            self.listeners.start(addr).await?;
        }
        if let Control::Move { from, to } = &control {
            self.listeners.relocate(from, to)?;
        }
        self.machine
            .handle(self.runtime.now(), BrokerEvent::Control(control));
        self.act();
        self.listeners.keep(|addr| self.machine.is_up(addr)).await;
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

    fn pass_on(&mut self) {
        if let Some(watch) = &mut self.watch
            && !watch.pass_on(&mut self.machine)
        {
            self.watch = None;
            self.machine.observe(0);
        }
    }

    fn tell(&mut self, event: ServerEvent) {
        self.machine.handle(self.runtime.now(), BrokerEvent::Net(event));
    }
}

/// The one timer. It may ring early, never late: moving it with each request would cost more than an idle
/// turn now and then.
struct Alarm {
    sleep: Pin<Box<Sleep>>,
    at: Option<Instant>,
}

impl Alarm {
    fn new(runtime: &TokioRuntime) -> Self {
        Self {
            sleep: Box::pin(runtime.sleep_until(runtime.now())),
            at: None,
        }
    }

    fn set(&mut self, runtime: &TokioRuntime, at: Option<Instant>) {
        if let Some(at) = at
            && self.at.is_none_or(|set| at < set)
        {
            self.sleep.set(runtime.sleep_until(at));
            self.at = Some(at);
        }
    }

    async fn ring(&mut self) {
        if self.at.is_none() {
            return std::future::pending().await;
        }
        self.sleep.as_mut().await;
        self.at = None;
    }
}
