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

impl Sent {
    /// Messages a second.
    #[allow(clippy::cast_precision_loss, reason = "a test sends less than 2^53 messages")]
    pub(crate) fn rate(&self) -> f64 {
        self.numbers.len() as f64 / self.took.as_secs_f64()
    }
}
