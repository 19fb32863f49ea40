//! A master and its slave of the real Apache RocketMQ: the master is killed under load and comes back.
#![cfg(unix)]

#[path = "support/outage_tools.rs"]
mod outage_tools;
#[path = "support/replica_tools.rs"]
mod replica_tools;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use outage_tools::{Answer, Load, Member, Stored, bodies_of, now, wait_for};
use replica_tools::{OffsetWatch, Offsets, messages_read, wait_until_copied, wait_until_known};
use rocketmq_consumer_testing::rocketmq::{Cluster, Producer, Replication};

const SECOND: Duration = Duration::from_secs(1);
const TOPIC: &str = "Replicated";
const QUEUES: u32 = 4;
/// Stored before anything is read: at the pace of the handlers more than all of it takes.
const STORED: u64 = 60_000;
/// Unfinished messages of a queue: a reader that is not given more soon has nothing to do.
const WINDOW: u32 = 100;
/// How long anything may take that is not measured.
const PATIENCE: Duration = Duration::from_secs(120);
/// How soon a slave is read, and how soon its master is read again.
const TURN: Duration = Duration::from_secs(35);

#[test]
fn a_slave_is_read_while_its_master_is_away() {
    let cluster = Cluster::builder()
        .slaves(Replication::Sync)
        .broker_heap("128m", "256m")
        // What a killed master forgets is what it had not written: every 5 seconds by default.
        .broker_config("flushConsumerOffsetInterval", "200")
        .start()
        .expect("a cluster starts");
    cluster
        .create_topic(TOPIC, &[(0, QUEUES)])
        .expect("a topic can be created");
    wait_until_copied(&cluster);
    let bench = Bench::new(&cluster);
    let load = Load::start(cluster.name_server(), TOPIC, 100, 1, None);
    let member = bench.member();
    wait_until_known(cluster.slave(0), TOPIC);
    // It asks for the offsets after the topics.
    thread::sleep(2 * SECOND);
    assert_eq!(
        messages_read(cluster.slave(0)),
        Some(0),
        "nobody asks a slave without need"
    );

    let known = bench.watch.highest_until(now() - SECOND);
    assert!(known.values().sum::<i64>() > 1_000, "{known:?} are committed");
    bench.the_slave_is_read_when_the_master_is_killed(&member);
    let (second, uncommitted) = bench.another_joins_meanwhile(&member);
    bench.the_master_is_read_when_it_is_back(&[&member, &second]);
    bench.everything_came(known, load.stop(), [member, second], uncommitted);
}

struct Bench<'a> {
    cluster: &'a Cluster,
    watch: OffsetWatch,
    /// What was stored before anything was read.
    wanted: BTreeSet<String>,
    /// Lets the handlers go as fast as they can.
    hurry: Arc<AtomicBool>,
}

impl<'a> Bench<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let mut producer = Producer::new(cluster.name_server(), TOPIC).expect("the topic has a route");
        let runs = producer.fill(STORED).expect("messages are stored");
        let numbers = runs
            .iter()
            .flat_map(|run| run.first_number..run.first_number + run.count);
        Self {
            cluster,
            watch: OffsetWatch::start(cluster.broker(0).address(), TOPIC, QUEUES),
            wanted: numbers.map(|number| format!("{number}:")).collect(),
            hurry: Arc::default(),
        }
    }

    fn member(&self) -> Member {
        let hurry = Arc::clone(&self.hurry);
        Member::start(
            self.cluster.name_server(),
            TOPIC,
            |builder| builder.group_config(|group| group.set_queue_count_max(WINDOW)),
            move |_| {
                if !hurry.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
                Answer::Done
            },
        )
    }

    fn the_slave_is_read_when_the_master_is_killed(&self, member: &Member) {
        self.cluster.broker(0).kill().expect("it runs");
        let killed_at = now();
        // An answer of each queue may be under way when the status is taken, and that is all.
        let given = fetched(member) + 32 * i64::from(QUEUES);
        while delivered(member) <= given {
            assert!(
                killed_at.elapsed() < PATIENCE,
                "{} were delivered, the master had given {given}: {:#?}",
                delivered(member),
                member.status()
            );
            thread::sleep(Duration::from_millis(10));
        }
        let took = killed_at.elapsed();
        let from_slave = messages_read(self.cluster.slave(0)).expect("it answers");
        println!("killed: more than the master had given after {took:?}, {from_slave} read from the slave");
        assert!(took <= TURN, "{took:?}");
        assert!(from_slave > 0, "{from_slave}");
    }

    /// It takes over queues of which only a slave can say where to begin. One of 5.5.0 cannot: it does not
    /// understand what its master tells of offsets, and so has none. Says how many messages that are done it does
    /// not know of: these may come again.
    fn another_joins_meanwhile(&self, member: &Member) -> (Member, i64) {
        let mut slave = self.cluster.slave(0).admin().expect("it listens");
        let stored: i64 = (0..QUEUES)
            .filter_map(|queue| slave.query_offset(TOPIC, TOPIC, queue).expect("it answers"))
            .sum();
        let second = self.member();
        thread::sleep(10 * SECOND);
        let unknown = delivered(member) - stored;
        println!(
            "joined: the slave did not know of {unknown} messages that were done; {} were given to the second",
            delivered(&second)
        );
        (second, unknown)
    }

    fn the_master_is_read_when_it_is_back(&self, members: &[&Member]) {
        let (master, slave) = (self.cluster.broker(0), self.cluster.slave(0));
        master.restart().expect("it starts again");
        let back_at = now();
        let took = wait_for("reads of the master", PATIENCE, || {
            (messages_read(master)? > i64::from(WINDOW)).then(|| back_at.elapsed())
        });
        wait_for("the slave to be left alone", PATIENCE, || {
            let before = messages_read(slave)?;
            thread::sleep(SECOND);
            (messages_read(slave)? == before).then_some(())
        });
        let left_alone = back_at.elapsed();
        let given: BTreeSet<String> = members.iter().flat_map(|member| member.bodies()).collect();
        println!("back: the master is read after {took:?}, the slave no more after {left_alone:?}");
        assert!(left_alone <= TURN, "{left_alone:?}");
        assert!(
            given.len() < self.wanted.len() * 9 / 10,
            "there was something left to read: {} are given",
            given.len()
        );
    }

    fn everything_came(self, known: Offsets, sent: Vec<Stored>, members: [Member; 2], uncommitted: i64) {
        self.hurry.store(true, Ordering::Relaxed);
        let mut wanted = self.wanted;
        wanted.extend(bodies_of(&sent));
        let given = || -> BTreeSet<String> { members.iter().flat_map(Member::bodies).collect() };
        wait_for("every message", PATIENCE, || {
            wanted.difference(&given()).next().is_none().then_some(())
        });
        assert!(
            members.iter().all(|member| delivered(member) > 0),
            "both take part"
        );
        let deliveries: usize = members.iter().map(|member| member.sightings().len()).sum();
        let repeats = i64::try_from(deliveries - wanted.len()).expect("a test is small");
        for member in members {
            member.shutdown();
        }
        let lives = self.watch.stop();
        println!(
            "{} messages, none lost, {repeats} repeated; commits seen on the master: {lives}",
            wanted.len()
        );
        lives.assert_never_backwards(&known);
        let mut admin = self.cluster.broker(0).admin().expect("it listens");
        for queue in 0..QUEUES {
            assert_eq!(
                admin.query_offset(TOPIC, TOPIC, queue).expect("an answer"),
                Some(admin.max_offset(TOPIC, queue).expect("an answer")),
                "everything is committed"
            );
        }
        // What was held by the one when the other came or the master went, and no more.
        let held = i64::from(2 * WINDOW * QUEUES);
        assert!(repeats <= uncommitted.max(0) + held, "{repeats}");
    }
}

/// How many messages it has asked for and got.
fn fetched(member: &Member) -> i64 {
    let status = member.status();
    let queues = status.groups.iter().flat_map(|group| &group.queues);
    let own = queues.filter(|queue| queue.queue.topic.as_str() == TOPIC);
    own.filter_map(|queue| Some(queue.next_offset?.0)).sum()
}

/// How many different messages its handler was given.
fn delivered(member: &Member) -> i64 {
    i64::try_from(member.bodies().len()).expect("a test is small")
}
