//! What a broker tells about who reads from it, and a watch over the offsets it has stored.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rocketmq_consumer_testing::rocketmq::{AdminClient, Cluster, Producer, Server};

use crate::outage_tools::{now, wait_for};

const GET_ALL_TOPIC_CONFIG: i32 = 21;
const GET_BROKER_RUNTIME_INFO: i32 = 28;
/// How often offsets are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How many messages a broker has given to readers since it started; nothing while it does not answer.
pub(crate) fn messages_read(broker: &Server) -> Option<i64> {
    let reply = broker
        .admin()
        .ok()?
        .request(GET_BROKER_RUNTIME_INFO, &[], &[])
        .ok()?;
    let body: serde_json::Value = serde_json::from_slice(&reply.body).ok()?;
    body["table"]["msgGetTotalTodayNow"].as_str()?.parse().ok()
}

/// Waits until the slave copies what its master stores: it begins to some seconds after both have started, and a
/// synchronous master makes its producers wait until then.
pub(crate) fn wait_until_copied(cluster: &Cluster) {
    const TOPIC: &str = "Copied";
    cluster
        .create_topic(TOPIC, &[(0, 1)])
        .expect("a topic can be created");
    Producer::new(cluster.name_server(), TOPIC)
        .and_then(|mut producer| producer.send("x"))
        .expect("it is stored");
    wait_for("the copy of a message", Duration::from_secs(60), || {
        let mut slave = cluster.slave(0).admin().ok()?;
        (slave.max_offset(TOPIC, 0).ok()? > 0).then_some(())
    });
}

/// Waits until a slave knows a topic: it asks its master once a minute, and refuses pulls of what it does not know.
pub(crate) fn wait_until_known(slave: &Server, topic: &str) {
    wait_for("the topic on the slave", Duration::from_secs(120), || {
        let reply = slave
            .admin()
            .ok()?
            .request(
                GET_ALL_TOPIC_CONFIG,
                &[("topicSeq", &0), ("maxTopicNum", &1_000)],
                &[],
            )
            .ok()?;
        let quoted = format!("\"{topic}\"");
        String::from_utf8_lossy(&reply.body)
            .contains(&quoted)
            .then_some(())
    });
}

/// Committed offsets by queue.
pub(crate) type Offsets = BTreeMap<u32, i64>;

/// Looks at the committed offsets of a group, on one broker, until it is stopped.
pub(crate) struct OffsetWatch {
    stop: Arc<AtomicBool>,
    seen: Arc<std::sync::Mutex<Lives>>,
    thread: JoinHandle<()>,
}

/// What was seen, by life of the broker: it begins when the broker answers again after it did not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lives(Vec<Vec<(Instant, Offsets)>>);

impl OffsetWatch {
    /// Watches the offsets of a group that has the name of its topic.
    pub(crate) fn start(broker: &str, topic: &'static str, queues: u32) -> Self {
        let (stop, seen) = (Arc::<AtomicBool>::default(), Arc::default());
        let (until, into, broker) = (Arc::clone(&stop), Arc::clone(&seen), broker.to_owned());
        let thread = thread::spawn(move || {
            let mut admin = None;
            while !until.load(Ordering::Acquire) {
                if admin.is_none() {
                    admin = AdminClient::connect(&broker).ok();
                    if admin.is_some() {
                        lock(&into).0.push(Vec::new());
                    }
                }
                match admin.as_mut().and_then(|admin| look(admin, topic, queues)) {
                    Some(offsets) => lock(&into).note(offsets),
                    None => admin = None,
                }
                thread::sleep(LOOK);
            }
        });
        Self { stop, seen, thread }
    }

    /// The highest offset of each queue that was seen until then.
    pub(crate) fn highest_until(&self, until: Instant) -> Offsets {
        let mut highest = Offsets::new();
        for (at, offsets) in lock(&self.seen).0.iter().flatten() {
            for (queue, offset) in offsets.iter().filter(|_| *at <= until) {
                let entry = highest.entry(*queue).or_insert(*offset);
                *entry = (*entry).max(*offset);
            }
        }
        highest
    }

    /// Ends it.
    pub(crate) fn stop(self) -> Lives {
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("it does not panic");
        lock(&self.seen).clone()
    }
}

/// What is stored; nothing when the broker does not say.
fn look(admin: &mut AdminClient, topic: &str, queues: u32) -> Option<Offsets> {
    let mut offsets = Offsets::new();
    for queue in 0..queues {
        offsets.extend(
            admin
                .query_offset(topic, topic, queue)
                .ok()?
                .map(|offset| (queue, offset)),
        );
    }
    Some(offsets)
}

impl Lives {
    fn note(&mut self, offsets: Offsets) {
        if let Some(life) = self.0.last_mut() {
            life.push((now(), offsets));
        }
    }

    /// No offset moved backwards while the broker lived, and none of the later lives began below `known`.
    ///
    /// # Panics
    /// When one did, or when there were not two lives to look at.
    pub(crate) fn assert_never_backwards(&self, known: &Offsets) {
        let lives: Vec<_> = self.0.iter().filter(|life| life.len() > 10).collect();
        assert!(lives.len() >= 2, "the broker was away once: {self}");
        for (place, life) in lives.iter().enumerate() {
            let mut highest = if place == 0 { Offsets::new() } else { known.clone() };
            for (at, offsets) in life.iter() {
                for (queue, before) in &highest {
                    let offset = offsets.get(queue);
                    assert!(
                        offset >= Some(before),
                        "queue {queue} moved from {before} to {offset:?} in life {place}, {:?} after it began",
                        life.first().map(|(begun, _)| *at - *begun)
                    );
                }
                highest.extend(offsets);
            }
        }
    }
}

impl fmt::Display for Lives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for life in &self.0 {
            let sum =
                |end: Option<&(Instant, Offsets)>| end.map(|(_, offsets)| offsets.values().sum::<i64>());
            write!(
                f,
                "[{} looks, sum {:?} to {:?}] ",
                life.len(),
                sum(life.first()),
                sum(life.last())
            )?;
        }
        Ok(())
    }
}

fn lock(lives: &std::sync::Mutex<Lives>) -> std::sync::MutexGuard<'_, Lives> {
    lives.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
