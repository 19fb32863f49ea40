//! The machine driven by hand: one thread, `std::net`, no runtime.
//!
//! It shows all a driver has to do: move bytes, keep a clock, run handlers. There is no protocol
//! here.
//!
//! ```text
//! cargo run -p rocketmq-consumer-core --example blocking -- 127.0.0.1:9876 my-group my-topic
//! ```

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a driver names the actions it performs"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rocketmq_consumer_core::action::{Action, AppAction, NetAction};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, Event, NetCause, NetEvent, Report, Verdict};
use rocketmq_consumer_core::ids::{ClientId, ConnId, ConsumerGroup, Topic};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};

/// The driver's clock: the only place that reads one.
struct Clock(std::time::Instant);

impl Clock {
    #[allow(
        clippy::disallowed_methods,
        reason = "a driver reads the clock so that nobody else has to"
    )]
    fn start() -> (Self, WallTime, Seed) {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = WallTime::from_unix_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(0));
        (
            Self(std::time::Instant::now()),
            wall,
            Seed(u64::from(since_epoch.subsec_nanos())),
        )
    }

    fn now(&self) -> Instant {
        Instant::from_micros(u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

struct Driver {
    clock: Clock,
    consumer: ConsumerState,
    sockets: BTreeMap<ConnId, TcpStream>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: blocking NAME_SERVER GROUP TOPIC";
    let (name_server, group, topic) = (
        args.next().ok_or(usage)?,
        args.next().ok_or(usage)?,
        args.next().ok_or(usage)?,
    );

    let (clock, wall, seed) = Clock::start();
    let client_id = ClientId::from(format!("127.0.0.1@{}#{}", std::process::id(), seed.0));
    let client = ClientConfig::new(client_id, vec![name_server.parse()?]);
    let mut group = GroupConfig::new(ConsumerGroup::from(group));
    group
        .subscribe(Topic::from(topic), "*")
        .set_start_at(StartAt::Earliest);

    let consumer = ConsumerState::new(client, seed, clock.now(), wall)?;
    let mut driver = Driver {
        clock,
        consumer,
        sockets: BTreeMap::new(),
    };
    driver.feed(AppEvent::StartGroup(group.into()));
    loop {
        let moved = driver.read_sockets();
        if driver
            .consumer
            .poll_timeout()
            .is_some_and(|wakeup| wakeup.at <= driver.clock.now())
        {
            driver.feed(Event::Wakeup);
        }
        // A real driver would sleep until a socket or the timeout is ready.
        if !moved {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Driver {
    /// One event in, every action out.
    fn feed(&mut self, event: impl Into<Event>) {
        self.consumer.handle(self.clock.now(), event.into());
        while let Some(action) = self.consumer.poll_action() {
            match action {
                Action::Net(action) => self.network(action),
                Action::App(action) => self.application(action),
                other => eprintln!("not needed here: {other:?}"),
            }
        }
    }

    fn network(&mut self, action: NetAction) {
        match action {
            NetAction::Lookup { conn, name } => {
                let found = (&*name, 0).to_socket_addrs().into_iter().flatten();
                let addresses = found.map(|addr| addr.ip().to_string().into()).collect();
                self.feed(NetEvent::Resolved { conn, addresses });
            }
            NetAction::Connect { conn, addr, .. } => {
                let event = match TcpStream::connect((addr.host(), addr.port())) {
                    Ok(socket) => match socket.set_nonblocking(true).and(socket.set_nodelay(true)) {
                        Ok(()) => {
                            self.sockets.insert(conn, socket);
                            NetEvent::Connected { conn }
                        }
                        Err(_) => NetEvent::ConnectFailed {
                            conn,
                            cause: NetCause::Other,
                        },
                    },
                    Err(_) => NetEvent::ConnectFailed {
                        conn,
                        cause: NetCause::Refused,
                    },
                };
                self.feed(event);
            }
            NetAction::Send { conn, frame } => {
                let written = self
                    .sockets
                    .get_mut(&conn)
                    .is_some_and(|socket| write_all(socket, &frame).is_ok());
                self.feed(if written {
                    NetEvent::Sent {
                        conn,
                        bytes: u32::try_from(frame.len()).unwrap_or(u32::MAX),
                    }
                } else {
                    NetEvent::Closed {
                        conn,
                        cause: NetCause::Reset,
                    }
                });
            }
            NetAction::Close { conn } => drop(self.sockets.remove(&conn)),
            other => eprintln!("not needed here: {other:?}"),
        }
    }

    fn application(&mut self, action: AppAction) {
        match action {
            AppAction::Consume { id, batch, range, .. } => {
                for message in batch
                    .messages()
                    .skip(range.start as usize)
                    .take(range.len() as usize)
                {
                    let body = message.body().unwrap_or_default();
                    println!("{}", String::from_utf8_lossy(&body));
                }
                let report = Report::All(Verdict::Handled(Outcome::Done));
                self.feed(AppEvent::Consumed { id, range, report });
            }
            AppAction::Notice(notice) => eprintln!("{:?}", notice.kind),
            other => eprintln!("{other:?}"),
        }
    }

    /// Hands over whatever has come; true when anything has.
    fn read_sockets(&mut self) -> bool {
        let mut events = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        for (conn, socket) in &mut self.sockets {
            match socket.read(&mut buffer) {
                Ok(0) => events.push(NetEvent::Closed {
                    conn: *conn,
                    cause: NetCause::EndOfStream,
                }),
                Ok(n) => events.push(NetEvent::Received {
                    conn: *conn,
                    bytes: Bytes::copy_from_slice(&buffer[..n]),
                }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => events.push(NetEvent::Closed {
                    conn: *conn,
                    cause: NetCause::Reset,
                }),
            }
        }
        let moved = !events.is_empty();
        for event in events {
            if let NetEvent::Closed { conn, .. } = &event {
                self.sockets.remove(conn);
            }
            self.feed(event);
        }
        moved
    }
}

/// Writes everything to a socket that does not block; a peer that does not read holds this driver up.
fn write_all(socket: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1))
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
