//! A producer that goes on until it is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rocketmq_consumer_testing::rocketmq::Producer;

use super::clock::now;

/// A running producer.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sent>,
}

/// What was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The numbers of the messages, every one of them acknowledged by its broker.
    pub(crate) numbers: Vec<u64>,
    /// From the first message to the last.
    pub(crate) took: Duration,
}

impl Load {
    /// Sends `rate` messages a second of `size` bytes, one after the other; bodies are numbered from
    /// `first`. What is late is caught up.
    pub(crate) fn start(name_server: &str, topic: &str, rate: u32, size: usize, first: u64) -> Self {
        let mut producer = Producer::new(name_server, topic).expect("the topic has a route");
        let stop = Arc::<AtomicBool>::default();
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (begun, pause) = (now(), Duration::from_secs(1) / rate);
            let (mut due, mut numbers) = (begun, Vec::new());
            for number in first.. {
                if told.load(Ordering::Relaxed) {
                    break;
                }
                thread::sleep(due.saturating_duration_since(now()));
                due += pause;
                let body = format!("{:x<size$}", format!("{number}:"));
                producer.send(body).expect("the message is stored");
                numbers.push(number);
            }
            let took = now().duration_since(begun);
            Sent { numbers, took }
        });
        Self { stop, thread }
    }

    /// Stops it.
    pub(crate) fn stop(self) -> Sent {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the producer does not fail")
    }
}

/// Several producers of one topic.
#[derive(Debug)]
pub(crate) struct Loads(Vec<Load>);

impl Loads {
    /// So many messages a second by so many producers; each numbers its own from its own million on.
    pub(crate) fn start(name_server: &str, topic: &str, rate: u32, producers: u32) -> Self {
        let begin = |place| {
            Load::start(
                name_server,
                topic,
                rate / producers,
                0,
                u64::from(place) * 1_000_000,
            )
        };
        Self((0..producers).map(begin).collect())
    }

    /// Stops all of them; what they sent together, in the time of the slowest.
    pub(crate) fn stop(self) -> Sent {
        let sent: Vec<Sent> = self.0.into_iter().map(Load::stop).collect();
        Sent {
            numbers: sent.iter().flat_map(|one| one.numbers.iter().copied()).collect(),
            took: sent.iter().map(|one| one.took).max().unwrap_or_default(),
        }
    }
}

impl Sent {
    /// Messages a second.
    #[allow(clippy::cast_precision_loss, reason = "a test sends less than 2^53 messages")]
    pub(crate) fn rate(&self) -> f64 {
        self.numbers.len() as f64 / self.took.as_secs_f64()
    }
}
