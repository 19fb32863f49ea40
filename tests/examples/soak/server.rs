//! The broker and its producer, in a process of their own.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rocketmq_consumer::{Message, PeerAddr};
use rocketmq_consumer_testing::conformance::{Cluster as _, Embedded};

use super::Result;

/// The first argument of the process that is the server.
pub(super) const ROLE: &str = "serve";

pub(super) const TOPIC: &str = "soak";

const QUEUES: u32 = 8;

/// Bytes of a body.
const SIZE: usize = 100;

/// Messages are sent so often a second, some at a time.
const STEPS: u64 = 50;

/// The process.
pub(super) struct Server {
    pub(super) name_server: SocketAddr,
    /// The broker, by the address that the name server tells.
    pub(super) broker: PeerAddr,
    child: Child,
    /// It ends when this closes.
    _alive: Option<ChildStdin>,
    says: Mutex<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts it, and with it the producer.
    pub(super) fn start(time: Duration) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([ROLE, &time.as_secs().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let alive = child.stdin.take();
        let says = child.stdout.take().ok_or("it has no output")?;
        let says = Mutex::new(BufReader::new(says));
        let addresses = next_line(&says)?;
        let (name_server, broker) = addresses.split_once(' ').ok_or("it does not run")?;
        Ok(Self {
            name_server: name_server.parse()?,
            broker: broker.parse()?,
            child,
            _alive: alive,
            says,
        })
    }

    /// Waits until everything was sent, and tells how much that was.
    pub(super) fn sent(&self) -> Result<u64> {
        Ok(next_line(&self.says)?.parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn next_line(says: &Mutex<BufReader<ChildStdout>>) -> Result<String> {
    let mut line = String::new();
    let mut says = says.lock().map_err(|_| "the reader has panicked")?;
    says.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// A body without a number: nobody here sends one.
#[derive(Debug)]
pub(super) struct NoNumber;

impl std::fmt::Display for NoNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a message without a number")
    }
}

impl std::error::Error for NoNumber {}

/// The number of a message.
pub(super) fn number(message: &Message) -> std::result::Result<u64, NoNumber> {
    let body = message.body().map_err(|_| NoNumber)?;
    let text = std::str::from_utf8(&body).map_err(|_| NoNumber)?;
    let (number, _) = text.split_once(':').ok_or(NoNumber)?;
    number.parse().map_err(|_| NoNumber)
}

/// Is the server: says where it listens, sends `rate` messages a second for so many seconds, says how many those
/// were, and ends with its parent.
pub(super) fn serve(seconds: &str, rate: u64) -> ExitCode {
    let Ok(seconds) = seconds.parse::<u64>() else {
        return ExitCode::from(2);
    };
    let parent = std::thread::spawn(|| {
        // Until the parent has seen everything, or has died.
        let _ended = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let cluster = Embedded::start();
    cluster.create_topic(TOPIC, QUEUES);
    println!("{} {}", cluster.name_server(), cluster.broker());
    let begin = Instant::now();
    let (each, mut sent) = (rate / STEPS, 0);
    for step in 0..seconds * STEPS {
        let due = begin + Duration::from_micros(step * 1_000_000 / STEPS);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        cluster.send(TOPIC, QUEUES, sent..sent + each, SIZE);
        sent += each;
    }
    println!("{sent}");
    let _ends_the_process = parent.join();
    ExitCode::FAILURE
}
