//! The Java client 5.5.0 produces to the embedded broker and consumes from it, over TCP, in all its modes, alone and
//! beside a consumer of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup};
use rocketmq_consumer_testing::rocketmq::{
    JavaConsumer, JavaConsumerBuilder, JavaProducer, LaunchError, Received,
};
use rocketmq_consumer_tokio::broker::{ClusterConfig, EmbeddedBroker, Settings};
use rocketmq_consumer_tokio::{BoxError, Consumer, Message, Outcome, StartAt};
use tokio::runtime::Runtime;

const MESSAGES: usize = 5_000;
const QUEUES: u32 = 4;
const BROKER: &str = "broker-a";
const SMALL_HEAP: &str = "-Xmx192m";
const LIMIT: Duration = Duration::from_secs(60);
/// What both members of a group need to have seen each other and shared the queues, locks included.
const SHARED: Duration = Duration::from_secs(4);
/// Long enough for a message that comes twice to come.
const QUIET: Duration = Duration::from_secs(2);

#[test]
fn java_consumes_concurrently_what_java_produced() -> Result<(), LaunchError> {
    const FAILED: usize = 20;
    let cluster = Embedded::start("concurrent");
    let mut consumer = cluster
        .java("concurrent")
        .fail_first(FAILED as u64)
        .route_refresh(Duration::from_secs(1))
        .start()?;
    let sent = cluster.produce("concurrent")?;
    let seen = consumer.take(MESSAGES + FAILED, LIMIT)?;
    let retried = seen.iter().filter(|one| one.reconsume_times == 1).count();
    assert_eq!(
        (bodies(&seen), seen.len(), retried),
        (sent, MESSAGES + FAILED, FAILED)
    );
    assert_eq!(consumer.next(QUIET)?, None, "nothing comes twice but what failed");
    consumer.stop()?;
    assert_eq!(cluster.committed("concurrent"), MESSAGES, "committed on stopping");
    report("concurrently", 1, &[seen.len()]);
    Ok(())
}

#[test]
fn two_java_members_share_the_queues_and_consume_each_in_order() -> Result<(), LaunchError> {
    let cluster = Embedded::start("orderly");
    let mut members = [
        cluster.java("orderly").instance("one").orderly().start()?,
        cluster.java("orderly").instance("two").orderly().start()?,
    ];
    cluster.wait_for_members("orderly", 2);
    let sent = cluster.produce("orderly")?;
    let seen = take_all(&mut members, MESSAGES)?;
    assert!(seen.iter().all(|seen| !seen.is_empty()), "both have queues");
    let all: Vec<Received> = seen.concat();
    assert_eq!((bodies(&all), all.len()), (sent, MESSAGES), "each once");
    for seen in &seen {
        let mut last = BTreeMap::new();
        for one in seen {
            let before = last.insert(one.queue_id, one.queue_offset);
            assert!(
                before.is_none_or(|before| before + 1 == one.queue_offset),
                "{one:?} after {before:?}"
            );
        }
    }
    for member in members {
        member.stop()?;
    }
    assert_eq!(cluster.committed("orderly"), MESSAGES, "committed on stopping");
    report("orderly", 2, &seen.each_ref().map(Vec::len));
    Ok(())
}

#[test]
fn each_of_two_java_members_gets_what_is_broadcast() -> Result<(), LaunchError> {
    let cluster = Embedded::start("broadcast");
    let mut members = [
        cluster.java("broadcast").instance("one").broadcasting().start()?,
        cluster.java("broadcast").instance("two").broadcasting().start()?,
    ];
    cluster.wait_for_members("broadcast", 2);
    let sent = cluster.produce("broadcast")?;
    let mut counts = [0; 2];
    for (member, count) in members.iter_mut().zip(&mut counts) {
        let seen = member.take(MESSAGES, LIMIT)?;
        *count = seen.len();
        assert_eq!((&bodies(&seen), seen.len()), (&sent, MESSAGES));
        assert_eq!(member.next(QUIET)?, None, "each once");
    }
    for member in members {
        member.stop()?;
    }
    assert_eq!(
        cluster.committed("broadcast"),
        0,
        "broadcasting members keep their offsets"
    );
    report("broadcasting", 2, &counts);
    Ok(())
}

#[test]
fn java_and_ours_share_a_group() -> Result<(), LaunchError> {
    let cluster = Embedded::start("mixed");
    let java = cluster.java("mixed").start()?;
    let mut members = [java];
    let (consumer, ours) = cluster.ours("mixed");
    cluster.wait_for_members("mixed", 2);
    let sent = cluster.produce("mixed")?;
    let mine = || ours.lock().expect("no handler panics").len();
    let deadline = now() + LIMIT;
    let mut java = Vec::new();
    while java.len() + mine() < MESSAGES && now() < deadline {
        java.extend(members[0].next(Duration::from_millis(50))?);
    }
    java.extend(members[0].take(MESSAGES, QUIET)?);
    let ours_seen = ours.lock().expect("no handler panics").clone();
    assert!(!java.is_empty() && !ours_seen.is_empty(), "both have queues");
    let all: BTreeSet<String> = bodies(&java)
        .into_iter()
        .chain(ours_seen.iter().cloned())
        .collect();
    assert_eq!((all, java.len() + ours_seen.len()), (sent, MESSAGES), "each once");
    let left = cluster
        .runtime
        .block_on(consumer.shutdown(Duration::from_secs(5)));
    assert_eq!(left.finished, ours_seen.len() as u64);
    let [member] = members;
    member.stop()?;
    assert_eq!(cluster.committed("mixed"), MESSAGES, "committed on stopping");
    report("mixed", 2, &[java.len(), ours_seen.len()]);
    Ok(())
}

/// Several JVMs at once disturb each other on few cores.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// An embedded broker with one topic, and the runtime that carries it.
struct Embedded {
    _alone: MutexGuard<'static, ()>,
    runtime: Runtime,
    broker: EmbeddedBroker,
    topic: &'static str,
}

impl Embedded {
    fn start(topic: &'static str) -> Self {
        // One that failed has ended its processes all the same.
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads can be had");
        let mut config = ClusterConfig::with_brokers(1).topic(topic, QUEUES);
        config.settings = Settings {
            delay_levels: vec![Duration::from_secs(1); 18],
            ..config.settings
        };
        let broker = runtime
            .block_on(EmbeddedBroker::start(config))
            .expect("a free port");
        Self {
            _alone: alone,
            runtime,
            broker,
            topic,
        }
    }

    fn java(&self, group: &str) -> JavaConsumerBuilder {
        JavaConsumer::builder(&self.broker.name_server(), group)
            .subscribe(self.topic, "*")
            .from_first()
            .jvm_option(SMALL_HEAP)
    }

    fn ours(&self, group: &str) -> (Consumer, Arc<Mutex<Vec<String>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler = {
            let seen = Arc::clone(&seen);
            move |message: Message| {
                let seen = Arc::clone(&seen);
                async move {
                    let body = String::from_utf8(message.body()?.to_vec())?;
                    seen.lock().expect("no handler panics").push(body);
                    Ok::<_, BoxError>(Outcome::Done)
                }
            }
        };
        let builder = Consumer::builder(group)
            .name_server(self.broker.name_server())
            .subscribe(self.topic, "*")
            .start_at(StartAt::Earliest);
        let consumer = self
            .runtime
            .block_on(builder.start(handler))
            .expect("a good configuration");
        (consumer, seen)
    }

    /// Lets Java send all messages; their bodies.
    fn produce(&self, topic: &str) -> Result<BTreeSet<String>, LaunchError> {
        let producer = JavaProducer::builder(&self.broker.name_server(), topic)
            .count(MESSAGES as u64)
            .tags("A")
            .keys("k")
            .jvm_option(SMALL_HEAP)
            .start()?;
        let summary = producer.wait(LIMIT)?;
        assert_eq!((summary.acknowledged, summary.failed), (MESSAGES as u64, 0));
        let bodies: BTreeSet<String> = summary.bodies.into_iter().collect();
        assert_eq!(bodies.len(), MESSAGES);
        Ok(bodies)
    }

    fn wait_for_members(&self, group: &str, wanted: usize) {
        let deadline = now() + LIMIT;
        loop {
            let group = ConsumerGroup::from(group);
            let members = self
                .broker
                .look(move |state| state.members(&BrokerName::from(BROKER), &group).count());
            if self.runtime.block_on(members).expect("it runs") == wanted {
                return thread::sleep(SHARED);
            }
            assert!(now() < deadline, "the members have not all come");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The sum of what a group has committed.
    fn committed(&self, group: &str) -> usize {
        let (group, topic) = (ConsumerGroup::from(group), self.topic);
        let committed = self.broker.look(move |state| {
            let progress = state.progress(&BrokerName::from(BROKER), &group);
            let of_topic = progress.filter(|(of, ..)| of.as_str() == topic);
            of_topic.map(|(_, _, offset)| offset.0).sum::<i64>()
        });
        let committed = self.runtime.block_on(committed).expect("it runs");
        usize::try_from(committed).expect("offsets of ours")
    }
}

/// Takes until all members together have as many, or nothing comes for a while; then what else comes.
fn take_all<const N: usize>(
    members: &mut [JavaConsumer; N],
    wanted: usize,
) -> Result<[Vec<Received>; N], LaunchError> {
    let mut seen = [const { Vec::new() }; N];
    let deadline = now() + LIMIT;
    while seen.iter().map(Vec::len).sum::<usize>() < wanted && now() < deadline {
        for (member, seen) in members.iter_mut().zip(&mut seen) {
            seen.extend(member.take(wanted, Duration::from_millis(50))?);
        }
    }
    for (member, seen) in members.iter_mut().zip(&mut seen) {
        seen.extend(member.take(wanted, QUIET)?);
    }
    Ok(seen)
}

fn bodies(seen: &[Received]) -> BTreeSet<String> {
    seen.iter().map(|one| one.body.clone()).collect()
}

fn report(mode: &str, members: usize, received: &[usize]) {
    println!("{mode:<14} members {members}  sent {MESSAGES}  received {received:?}");
}

#[allow(
    clippy::disallowed_methods,
    reason = "real processes are waited for in real time"
)]
fn now() -> Instant {
    Instant::now()
}
