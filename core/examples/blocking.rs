//! The machine driven by hand: blocking sockets and threads of the standard library, no runtime.
//!
//! One thread has the machine. Whatever blocks has a thread of its own, and all of them talk to that one through a
//! channel of fixed length. There is no protocol here. The chapter "Drive the machine yourself" of the crate's
//! documentation goes through it line by line.
//!
//! ```text
//! cargo run -p rocketmq-consumer-core --example blocking -- 127.0.0.1:9876 my-group my-topic
//! ```

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a driver names the actions it performs"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rocketmq_consumer_core::action::{Action, AppAction, NetAction};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, Event, NetCause, NetEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{ClientId, ConnId, ConsumerGroup, PeerAddr, Topic};
use rocketmq_consumer_core::message::{Message, Outcome};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};

/// What the machine's thread is told.
enum Input {
    Event(Event),
    /// How an attempt to connect went. The machine need not know what a socket is.
    Connected(ConnId, io::Result<TcpStream>),
    Closed(ConnId, NetCause),
}

/// What may wait for the machine's thread. Whoever finds it full waits, and so do the peers behind them.
const INPUTS: usize = 64;

/// One machine, its clock, its sockets and a handler.
pub struct Driver<H> {
    started: std::time::Instant,
    machine: ConsumerState,
    handler: H,
    dialing: BTreeSet<ConnId>,
    sockets: BTreeMap<ConnId, TcpStream>,
    sender: SyncSender<Input>,
    inputs: Receiver<Input>,
    is_closed: bool,
}

impl<H: FnMut(&Message) -> Outcome> Driver<H> {
    /// A consumer of one topic, from its first message on.
    #[allow(
        clippy::disallowed_methods,
        reason = "a driver reads the clock so that nobody else has to"
    )]
    pub fn new(name_server: &str, group: &str, topic: &str, handler: H) -> Result<Self, Box<dyn Error>> {
        let started = std::time::Instant::now();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let wall = WallTime::from_unix_millis(since_1970.as_millis().try_into()?);
        let seed = Seed(since_1970.subsec_nanos().into());

        let client_id = ClientId::from(format!("127.0.0.1@{}#{}", std::process::id(), seed.0));
        let client = ClientConfig::new(client_id, vec![name_server.parse()?]);
        let mut machine = ConsumerState::new(client, seed, Instant::ZERO, wall)?;
        let mut group = GroupConfig::new(ConsumerGroup::from(group.to_owned()));
        group
            .subscribe(Topic::from(topic.to_owned()), "*")
            .set_start_at(StartAt::Earliest);
        group.check()?;
        machine.handle(Instant::ZERO, AppEvent::StartGroup(group.into()).into());

        let (sender, inputs) = sync_channel(INPUTS);
        Ok(Self {
            started,
            machine,
            handler,
            dialing: BTreeSet::new(),
            sockets: BTreeMap::new(),
            sender,
            inputs,
            is_closed: false,
        })
    }
}

/// When the machine has nothing to wait for.
const NEVER: Instant = Instant::from_micros(u64::MAX);

impl<H: FnMut(&Message) -> Outcome> Driver<H> {
    /// Works until the machine has closed everything.
    pub fn run(mut self) {
        loop {
            self.act();
            if self.is_closed {
                return;
            }
            let wakeup = self.machine.poll_timeout().map_or(NEVER, |wakeup| wakeup.at);
            match self.inputs.recv_timeout(wakeup.saturating_since(self.now())) {
                Ok(Input::Event(event)) => self.feed(event),
                Ok(Input::Connected(conn, result)) => self.connected(conn, result),
                Ok(Input::Closed(conn, cause)) => self.closed(conn, cause),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is kept here"),
            }
            if wakeup <= self.now() {
                self.feed(Event::Wakeup);
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::from_micros(self.started.elapsed().as_micros().try_into().unwrap_or(u64::MAX))
    }

    fn feed(&mut self, event: impl Into<Event>) {
        self.machine.handle(self.now(), event.into());
    }
}

impl<H: FnMut(&Message) -> Outcome> Driver<H> {
    /// Does what the machine wants, until it wants nothing more.
    fn act(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Net(NetAction::Lookup { conn, name }) => self.look_up(conn, name.to_string()),
                Action::Net(NetAction::Connect { conn, addr, .. }) => self.dial(conn, addr),
                Action::Net(NetAction::Send { conn, frame }) => self.send(conn, &frame),
                Action::Net(NetAction::Close { conn }) => self.close(conn),
                Action::App(AppAction::Consume { id, batch, range, .. }) => {
                    let run = batch
                        .messages()
                        .skip(range.start as usize)
                        .take(range.len() as usize);
                    for (position, message) in (range.start..).zip(run) {
                        let range = RunRange {
                            start: position,
                            end: position + 1,
                        };
                        let report = Report::All(Verdict::Handled((self.handler)(&message)));
                        self.feed(AppEvent::Consumed { id, range, report });
                    }
                }
                Action::App(AppAction::Notice(notice)) => eprintln!("{:?}", notice.kind),
                Action::App(AppAction::Closed) => self.is_closed = true,
                _ => {}
            }
        }
    }
}

impl<H: FnMut(&Message) -> Outcome> Driver<H> {
    /// Finds the addresses of a name; none where it has none, or nobody can say.
    fn look_up(&self, conn: ConnId, name: String) {
        let sender = self.sender.clone();
        thread::spawn(move || {
            let found = (name.as_str(), 0).to_socket_addrs().into_iter().flatten();
            let addresses = found.map(|addr| addr.ip().to_string().into()).collect();
            let _ended = sender.send(Input::Event(NetEvent::Resolved { conn, addresses }.into()));
        });
    }

    /// Begins to connect.
    fn dial(&mut self, conn: ConnId, addr: PeerAddr) {
        self.dialing.insert(conn);
        let sender = self.sender.clone();
        thread::spawn(move || {
            let socket = TcpStream::connect((addr.host(), addr.port()));
            let _ended = sender.send(Input::Connected(conn, socket));
        });
    }

    fn connected(&mut self, conn: ConnId, result: io::Result<TcpStream>) {
        if !self.dialing.remove(&conn) {
            return; // The machine was tired of waiting and has closed it.
        }
        match result.and_then(|socket| Ok((socket.try_clone()?, prepared(socket)?))) {
            Ok((input, socket)) => {
                self.sockets.insert(conn, socket);
                let sender = self.sender.clone();
                thread::spawn(move || read(conn, input, &sender));
                self.feed(NetEvent::Connected { conn });
            }
            Err(error) => self.feed(NetEvent::ConnectFailed {
                conn,
                cause: cause_of(&error),
            }),
        }
    }
}

/// How long a peer may take nothing of what is written to it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Requests are small and each is waited for; and whoever writes does not wait for ever.
fn prepared(socket: TcpStream) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Hands over what comes until nothing more does.
fn read(conn: ConnId, mut socket: TcpStream, sender: &SyncSender<Input>) {
    let mut buffer = vec![0; 64 << 10];
    let cause = loop {
        let bytes = match socket.read(&mut buffer) {
            Ok(0) => break NetCause::EndOfStream,
            Ok(read) => Bytes::copy_from_slice(&buffer[..read]),
            Err(error) => break cause_of(&error),
        };
        let received = NetEvent::Received { conn, bytes };
        if sender.send(Input::Event(received.into())).is_err() {
            return;
        }
    };
    let _ended = sender.send(Input::Closed(conn, cause));
}

fn cause_of(error: &io::Error) -> NetCause {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => NetCause::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => NetCause::Reset,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => NetCause::TimedOut,
        _ => NetCause::Other,
    }
}

impl<H: FnMut(&Message) -> Outcome> Driver<H> {
    fn send(&mut self, conn: ConnId, frame: &Bytes) {
        let Some(socket) = self.sockets.get_mut(&conn) else {
            return;
        };
        match socket.write_all(frame) {
            Ok(()) => {
                let bytes = u32::try_from(frame.len()).unwrap_or(u32::MAX);
                self.feed(NetEvent::Sent { conn, bytes });
            }
            Err(error) => self.closed(conn, cause_of(&error)),
        }
    }

    fn closed(&mut self, conn: ConnId, cause: NetCause) {
        self.close(conn);
        self.feed(NetEvent::Closed { conn, cause });
    }

    fn close(&mut self, conn: ConnId) {
        self.dialing.remove(&conn);
        if let Some(socket) = self.sockets.remove(&conn) {
            let _gone_already = socket.shutdown(Shutdown::Both);
        }
    }
}

/// How long a run that was begun may take when the consumer stops.
const DRAIN: Duration = Duration::from_secs(10);

/// Ends a driver from another thread.
pub struct Stopper(SyncSender<Input>);

impl Stopper {
    /// Lets it finish what was begun, commit, say farewell and return. Does not wait, so handlers may call it.
    pub fn stop(self) {
        thread::spawn(move || {
            let shutdown = AppEvent::Shutdown { drain: DRAIN };
            let _ended_already = self.0.send(Input::Event(shutdown.into()));
        });
    }
}

impl<H> Driver<H> {
    /// Who can end it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: blocking NAME_SERVER GROUP TOPIC";
    let [name_server, group, topic] = [args.next(), args.next(), args.next()].map(|arg| arg.ok_or(usage));
    let driver = Driver::new(&name_server?, &group?, &topic?, |message| {
        println!("{}", String::from_utf8_lossy(&message.body().unwrap_or_default()));
        Outcome::Done
    })?;
    let stopper = driver.stopper();
    thread::spawn(move || {
        eprintln!("Enter ends it");
        let _line = io::stdin().read_line(&mut String::new());
        stopper.stop();
    });
    driver.run();
    Ok(())
}
