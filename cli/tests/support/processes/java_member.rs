//! A Java push consumer that is read as it runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rocketmq_consumer_testing::rocketmq::{AdminClient, JavaConsumer, JavaConsumerBuilder};
use rustix::process::{Pid, Signal, kill_process};

use super::clock::now;
use super::journal::{Journal, Queue};

const GET_CONSUMER_RUNNING_INFO: i32 = 307;

/// How long the reader waits for a message before it waits again.
const TURN: Duration = Duration::from_millis(500);

/// A running `DefaultMQPushConsumer`. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct JavaMember {
    id: Arc<str>,
    pid: u32,
    reader: JoinHandle<()>,
}

impl JavaMember {
    /// Starts it and waits until it says that it has started.
    pub(crate) fn start(journal: &Journal, builder: JavaConsumerBuilder) -> Self {
        let mut consumer = builder.start().expect("a Java consumer starts");
        let (id, pid) = (Arc::<str>::from(consumer.client_id()), consumer.pid());
        let (own_id, journal) = (Arc::clone(&id), journal.clone());
        let reader = thread::spawn(move || {
            loop {
                let begun = now();
                let next = consumer.next(TURN).expect("it prints what it should");
                if let Some(one) = next {
                    let queue = Queue {
                        topic: one.topic,
                        broker: one.broker,
                        id: one.queue_id,
                    };
                    journal.add(&own_id, queue, one.queue_offset, &one.body);
                } else if now().duration_since(begun) < TURN {
                    // Nothing, and sooner than that takes: it has ended.
                    return;
                }
            }
        });
        Self { id, pid, reader }
    }

    /// Its client id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The queues it owns, of all its topics, as it tells this broker; nothing while it cannot be asked.
    pub(crate) fn owned(&self, broker: &mut AdminClient, group: &str) -> Option<BTreeSet<Queue>> {
        let fields: [(&str, &dyn std::fmt::Display); 3] = [
            ("consumerGroup", &group),
            ("clientId", &self.id),
            ("jstackEnable", &false),
        ];
        let reply = broker.request(GET_CONSUMER_RUNNING_INFO, &fields, &[]).ok()?;
        (reply.code == 0).then(|| queues(&String::from_utf8_lossy(&reply.body)))
    }

    /// Ends it without warning (SIGKILL), and says when.
    pub(crate) fn kill(&self) -> Instant {
        self.signal(Signal::KILL)
    }

    /// Asks it to leave (SIGTERM), and says when.
    pub(crate) fn terminate(&self) -> Instant {
        self.signal(Signal::TERM)
    }

    /// Waits until it has ended and everything it said was read.
    pub(crate) fn finish(mut self) {
        let reader = std::mem::replace(&mut self.reader, thread::spawn(|| ()));
        reader.join().expect("what it said can be read");
    }

    fn signal(&self, signal: Signal) -> Instant {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let at = now();
        kill_process(pid.expect("a process number"), signal).expect("it was not waited for yet");
        at
    }
}

impl Drop for JavaMember {
    fn drop(&mut self) {
        // Its process number is its own as long as the reader holds it.
        if !self.reader.is_finished() {
            self.kill();
        }
    }
}

/// The queues in an answer's `mqTable`. Its keys are objects, so it is no JSON that a parser takes.
fn queues(body: &str) -> BTreeSet<Queue> {
    let table = body.split_once("\"mqTable\":").map_or("", |(_, rest)| rest);
    let keys = table.split("\"brokerName\":").skip(1);
    keys.filter_map(|key| {
        let key = key.split('}').next()?;
        let parsed: serde_json::Value = serde_json::from_str(&format!("{{\"brokerName\":{key}}}")).ok()?;
        Some(Queue {
            topic: parsed["topic"].as_str()?.to_owned(),
            broker: parsed["brokerName"].as_str()?.to_owned(),
            id: u32::try_from(parsed["queueId"].as_u64()?).ok()?,
        })
    })
    .collect()
}
