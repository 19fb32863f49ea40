//! A consumer that writes down what it saw, a load that never gives up, and `rocketcat` with the times of its lines.
#![allow(dead_code, reason = "every suite uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rocketmq_consumer_testing::rocketmq::Producer;
use rocketmq_consumer_tokio::{
    Consumer, ConsumerBuilder, Context, Message, Notice, Outcome, ShutdownReport, StartAt, Status,
};
use tokio::runtime::Runtime;

use crate::support::{Ran, rocketcat};

/// The clock.
#[expect(clippy::disallowed_methods, reason = "these tests measure real processes")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Until `done` gives something; panics with `what` after `limit`.
pub(crate) fn wait_for<T>(what: &str, limit: Duration, mut done: impl FnMut() -> Option<T>) -> T {
    let deadline = now() + limit;
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(now() < deadline, "{what} did not come true within {limit:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One delivery, as the handler saw it.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    /// The body.
    pub(crate) body: String,
    /// The message's id, the same at every delivery.
    pub(crate) msg_id: String,
    /// The broker.
    pub(crate) broker: String,
    /// The queue's own topic, `%RETRY%…` for a retry.
    pub(crate) stored_topic: String,
    /// The queue.
    pub(crate) queue_id: i32,
    /// Its offset there.
    pub(crate) queue_offset: i64,
    /// Deliveries before this one that went through the broker.
    pub(crate) reconsume_times: u32,
    /// Deliveries before this one that did not.
    pub(crate) attempt: u32,
    /// When.
    pub(crate) at: Instant,
}

impl Sighting {
    fn new(message: &Message, context: &Context) -> Self {
        let body = message.body().expect("these bodies can be read");
        Self {
            body: String::from_utf8_lossy(&body).into_owned(),
            msg_id: message.msg_id().into_owned(),
            broker: message.broker().to_string(),
            stored_topic: message.stored_topic().to_owned(),
            queue_id: message.queue_id().0,
            queue_offset: message.queue_offset().0,
            reconsume_times: message.reconsume_times(),
            attempt: context.attempt(),
            at: now(),
        }
    }
}

/// What a handler makes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// `Ok(Outcome::Done)`.
    Done,
    /// `Ok(Outcome::Retry)`.
    Retry,
    /// `Err(…)`.
    Fail,
    /// A panic.
    Panic,
}

/// A member of a group in this process, on a runtime of its own.
pub(crate) struct Member {
    runtime: Runtime,
    consumer: Consumer,
    sightings: Arc<Mutex<Vec<Sighting>>>,
    notices: Arc<Mutex<Vec<(Instant, Notice)>>>,
}

impl Member {
    /// Reads a topic from the beginning, with a group of the same name.
    pub(crate) fn start(
        name_server: &str,
        topic: &str,
        more: impl FnOnce(ConsumerBuilder) -> ConsumerBuilder,
        answer: impl Fn(&Sighting) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let runtime = Runtime::new().expect("threads can be started");
        let sightings = Arc::<Mutex<Vec<_>>>::default();
        let seen = Arc::clone(&sightings);
        let builder = Consumer::builder(topic)
            .name_server(name_server)
            .subscribe(topic, "*")
            .start_at(StartAt::Earliest);
        let handler = move |message: Message, context: Context| {
            let sighting = Sighting::new(&message, &context);
            let answer = answer(&sighting);
            lock(&seen).push(sighting);
            async move {
                match answer {
                    Answer::Done => Ok(Outcome::Done),
                    Answer::Retry => Ok(Outcome::Retry),
                    Answer::Fail => Err("the handler says no"),
                    Answer::Panic => panic!("the handler panics on purpose"),
                }
            }
        };
        let consumer = runtime
            .block_on(more(builder).start_with_context(handler))
            .expect("the settings are valid");
        let notices = Arc::<Mutex<Vec<_>>>::default();
        let (mut heard, told) = (consumer.notices(), Arc::clone(&notices));
        runtime.spawn(async move {
            while let Some(notice) = heard.next().await {
                lock(&told).push((now(), notice));
            }
        });
        Self {
            runtime,
            consumer,
            sightings,
            notices,
        }
    }

    /// Waits until it reads.
    pub(crate) fn ready(&self) {
        let ready = async { tokio::time::timeout(Duration::from_secs(30), self.consumer.ready()).await };
        self.runtime.block_on(ready).expect("in time").expect("it lives");
    }

    /// Everything the handler saw so far.
    pub(crate) fn sightings(&self) -> Vec<Sighting> {
        lock(&self.sightings).clone()
    }

    /// Different bodies seen so far.
    pub(crate) fn bodies(&self) -> BTreeSet<String> {
        lock(&self.sightings)
            .iter()
            .map(|sighting| sighting.body.clone())
            .collect()
    }

    /// Waits until every one of these was seen; panics naming the first that were not.
    pub(crate) fn wait_for_all(&self, bodies: &BTreeSet<String>, limit: Duration) {
        let deadline = now() + limit;
        loop {
            let seen = self.bodies();
            let missing: Vec<_> = bodies.difference(&seen).collect();
            if missing.is_empty() {
                return;
            }
            assert!(
                now() < deadline,
                "{} of {} did not come within {limit:?}, for instance {:?}; {:#?}",
                missing.len(),
                bodies.len(),
                missing.get(..3).unwrap_or(&missing),
                self.status()
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// What it was told so far, and when.
    pub(crate) fn notices(&self) -> Vec<(Instant, Notice)> {
        lock(&self.notices).clone()
    }

    /// What it knows about itself.
    pub(crate) fn status(&self) -> Status {
        self.runtime.block_on(self.consumer.status()).expect("it lives")
    }

    /// Leaves in order; returns every body its handler ever saw.
    pub(crate) fn leave(self) -> BTreeSet<String> {
        let sightings = Arc::clone(&self.sightings);
        self.shutdown();
        lock(&sightings)
            .iter()
            .map(|sighting| sighting.body.clone())
            .collect()
    }

    /// Drains, commits and leaves.
    pub(crate) fn shutdown(self) -> ShutdownReport {
        self.runtime
            .block_on(self.consumer.shutdown(Duration::from_secs(10)))
    }
}

/// A stored message.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Its body.
    pub(crate) body: String,
    /// The broker that acknowledged it.
    pub(crate) broker: String,
    /// When.
    pub(crate) at: Instant,
}

/// Producers that send at an even rate until they are stopped, whatever happens to the brokers.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Stored>>>,
    begun: Instant,
}

/// How often a producer of a [`Load`] asks where the topic lives, so that it soon uses a broker that came back.
const ROUTE_PERIOD: Duration = Duration::from_secs(1);

impl Load {
    /// So many messages a second by so many threads, each with bodies of its own; to all queues, or
    /// to queue 0 of one broker.
    pub(crate) fn start(
        name_server: &str,
        topic: &str,
        per_second: u32,
        threads: u32,
        only: Option<&str>,
    ) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let threads = (0..threads)
            .map(|thread| {
                let (stop, name_server, topic) =
                    (Arc::clone(&stop), name_server.to_owned(), topic.to_owned());
                let only = only.map(str::to_owned);
                let gap = Duration::from_secs(1) * threads / per_second;
                thread::spawn(move || {
                    let make = || {
                        let producer = Producer::new(&name_server, &topic)?;
                        let producer = producer.retry_limit(Duration::ZERO);
                        Ok::<_, rocketmq_consumer_testing::rocketmq::AdminError>(match &only {
                            Some(broker) => producer.only(broker, 0),
                            None => producer,
                        })
                    };
                    send_until(
                        &stop,
                        make,
                        gap,
                        &format!("{}{thread}", only.as_deref().unwrap_or("")),
                    )
                })
            })
            .collect();
        Self {
            stop,
            threads,
            begun: now(),
        }
    }

    /// Since when it sends.
    pub(crate) const fn begun(&self) -> Instant {
        self.begun
    }

    /// Ends it; returns everything that was acknowledged.
    pub(crate) fn stop(self) -> Vec<Stored> {
        self.stop.store(true, Ordering::Release);
        let threads = self.threads.into_iter();
        threads
            .flat_map(|thread| thread.join().expect("a producer does not panic"))
            .collect()
    }
}

/// A message that fails is sent again until it is stored; only then comes the next one.
fn send_until<E>(
    stop: &AtomicBool,
    make: impl Fn() -> Result<Producer, E>,
    gap: Duration,
    name: &str,
) -> Vec<Stored> {
    let mut stored = Vec::new();
    let mut producer: Option<Producer> = None;
    let (mut due, mut refresh) = (now(), now());
    let mut number = 0_u64;
    while !stop.load(Ordering::Acquire) {
        if now() >= refresh {
            // A name server that is down leaves the old route in use.
            if let Ok(fresh) = make() {
                producer = Some(fresh);
            }
            refresh = now() + ROUTE_PERIOD;
        }
        let body = format!("{name}-{number}");
        match producer.as_mut().map(|producer| producer.send(body.as_bytes())) {
            Some(Ok(acknowledged)) => {
                stored.push(Stored {
                    body,
                    broker: acknowledged.broker,
                    at: now(),
                });
                number += 1;
                // Whatever an outage cost is made up for, so that the rate is kept on the whole.
                due += gap;
                thread::sleep(due.saturating_duration_since(now()));
            }
            Some(Err(_)) | None => {
                thread::sleep(Duration::from_millis(20));
                if let Ok(fresh) = make() {
                    producer = Some(fresh);
                }
            }
        }
    }
    stored
}

/// The bodies of what was stored.
pub(crate) fn bodies_of(stored: &[Stored]) -> BTreeSet<String> {
    stored.iter().map(|one| one.body.clone()).collect()
}

/// How long messages of a broker waited at most between their acknowledgement and their first delivery.
pub(crate) fn longest_wait(stored: &[Stored], sightings: &[Sighting], broker: &str) -> Duration {
    let mut first: BTreeMap<&str, Instant> = BTreeMap::new();
    for sighting in sightings {
        let at = first.entry(&sighting.body).or_insert(sighting.at);
        *at = sighting.at.min(*at);
    }
    let waits = stored
        .iter()
        .filter(|one| one.broker == broker)
        .filter_map(|one| Some(first.get(one.body.as_str())?.saturating_duration_since(one.at)));
    waits.max().unwrap_or_default()
}

/// The longest silence of one queue of a broker within a span of time, over all its queues that were seen.
pub(crate) fn longest_pause(
    sightings: &[Sighting],
    broker: &str,
    within: std::ops::Range<Instant>,
) -> Duration {
    let mut last: BTreeMap<i32, Instant> = BTreeMap::new();
    let mut longest = Duration::ZERO;
    let own = sightings
        .iter()
        .filter(|one| one.broker == broker && within.contains(&one.at));
    for one in own {
        let before = last.insert(one.queue_id, one.at).unwrap_or(within.start);
        longest = longest.max(one.at.saturating_duration_since(before));
    }
    for before in last.into_values() {
        longest = longest.max(within.end.saturating_duration_since(before));
    }
    longest
}

/// The longest time between two acknowledgements of a broker.
pub(crate) fn longest_gap(stored: &[Stored], broker: &str) -> Duration {
    let mut times: Vec<Instant> = stored
        .iter()
        .filter(|one| one.broker == broker)
        .map(|one| one.at)
        .collect();
    times.sort_unstable();
    let gaps = times
        .iter()
        .zip(times.iter().skip(1))
        .map(|(one, next)| *next - *one);
    gaps.max().unwrap_or_default()
}

/// A small load and a consumer that have nothing to do with what a test breaks: how long their messages
/// wait is how busy the machine is.
///
/// Without it a limit of a second would say more about the other work of two cores than about us.
pub(crate) struct Yardstick {
    member: Member,
    sent: Arc<Mutex<Vec<Stored>>>,
    stop: Arc<AtomicBool>,
    sender: JoinHandle<()>,
    broker: String,
}

impl Yardstick {
    /// Begins to measure, on a topic that lives on one broker only.
    pub(crate) fn start(name_server: &str, topic: &str, broker: &str) -> Self {
        let member = Member::start(name_server, topic, |builder| builder, |_| Answer::Done);
        member.ready();
        let (sent, stop) = (Arc::<Mutex<Vec<Stored>>>::default(), Arc::<AtomicBool>::default());
        let (into, until) = (Arc::clone(&sent), Arc::clone(&stop));
        let mut producer = Producer::new(name_server, topic).expect("the topic has a route");
        let sender = thread::spawn(move || {
            for number in 0_u64.. {
                if until.load(Ordering::Acquire) {
                    return;
                }
                let body = number.to_string();
                if let Ok(acknowledged) = producer.send(body.as_bytes()) {
                    lock(&into).push(Stored {
                        body,
                        broker: acknowledged.broker,
                        at: now(),
                    });
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            member,
            sent,
            stop,
            sender,
            broker: broker.to_owned(),
        }
    }

    /// What the machine cost at most since then: the longest wait of a message.
    pub(crate) fn slack(&self, since: Instant) -> Duration {
        let sent: Vec<Stored> = lock(&self.sent)
            .iter()
            .filter(|one| one.at >= since)
            .cloned()
            .collect();
        longest_wait(&sent, &self.member.sightings(), &self.broker)
    }

    /// Ends it.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.sender.join().expect("a producer does not panic");
        self.member.shutdown();
    }
}

/// A running `rocketcat`, every line of its two streams with its time.
pub(crate) struct Running {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

/// The lines of one stream.
struct Lines {
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    reader: JoinHandle<()>,
}

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let lines = Arc::<Mutex<Vec<_>>>::default();
        let into = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                lock(&into).push((now(), line.expect("our output is UTF-8")));
            }
        });
        Self { lines, reader }
    }

    fn text(self) -> String {
        self.reader.join().expect("a reader does not panic");
        lock(&self.lines)
            .iter()
            .map(|(_, line)| format!("{line}\n"))
            .collect()
    }
}

impl Running {
    /// Starts it.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = rocketcat(args.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = Lines::of(child.stdout.take().expect("it was asked for"));
        let stderr = Lines::of(child.stderr.take().expect("it was asked for"));
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Lines of standard output so far.
    pub(crate) fn stdout(&self) -> Vec<(Instant, String)> {
        lock(&self.stdout.lines).clone()
    }

    /// Lines of standard error so far.
    pub(crate) fn stderr(&self) -> Vec<(Instant, String)> {
        lock(&self.stderr.lines).clone()
    }

    /// Waits until it ends, at most so long.
    pub(crate) fn wait(mut self, limit: Duration) -> Ran {
        let deadline = now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("it did not end within {limit:?}: {}", self.stderr.text());
            }
            thread::sleep(Duration::from_millis(10));
        };
        Ran {
            code: status.code(),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub(crate) fn terminate(self) -> Ran {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .expect("a process number");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the process lives");
        self.wait(Duration::from_secs(30))
    }
}
