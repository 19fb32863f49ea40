//! A master and its slave of the real Apache RocketMQ: the master is killed under load and comes back.
#![cfg(unix)]

#[path = "support/outage_tools.rs"]
mod outage_tools;
#[path = "support/replica_tools.rs"]
mod replica_tools;
mod support;

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use outage_tools::{Answer, Load, Member, bodies_of, now, wait_for};
use replica_tools::{OffsetWatch, messages_read};
use rocketmq_consumer_testing::rocketmq::{Cluster, Producer, Replication};

const SECOND: Duration = Duration::from_secs(1);
const TOPIC: &str = "Replicated";
const QUEUES: u32 = 4;
/// Stored before anything is read: at the pace of the handler more than both outages take.
const STORED: u64 = 40_000;
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
        // What a killed master forgets is what it had not written: every 5 seconds by default.
        .broker_config("flushConsumerOffsetInterval", "200")
        .start()
        .expect("a cluster starts");
    cluster
        .create_topic(TOPIC, &[(0, QUEUES)])
        .expect("a topic can be created");
    let name_server = cluster.name_server();
    let mut producer = Producer::new(name_server, TOPIC).expect("the topic has a route");
    let runs = producer.fill(STORED).expect("messages are stored");
    let mut wanted: BTreeSet<String> = runs
        .iter()
        .flat_map(|run| (run.first_number..run.first_number + run.count).map(|number| format!("{number}:")))
        .collect();

    let member = Member::start(
        name_server,
        TOPIC,
        |builder| builder.group_config(|group| group.set_queue_count_max(WINDOW)),
        |_| {
            thread::sleep(Duration::from_millis(4));
            Answer::Done
        },
    );
    let (master, slave) = (cluster.broker(0), cluster.slave(0));
    let watch = OffsetWatch::start(master.address(), TOPIC, QUEUES);
    let load = Load::start(name_server, TOPIC, 100, 1, None);
    // A broker writes offsets down from its tenth second on.
    thread::sleep(15 * SECOND);
    assert_eq!(messages_read(slave), Some(0), "nobody asks a slave without need");

    let known = watch.highest_until(now() - SECOND);
    assert!(known.values().sum::<i64>() > 1_000, "{known:?} are committed");
    master.kill().expect("it runs");
    let killed_at = now();
    // An answer may be under way when the status is taken, and one is all there can be.
    let fetched = fetched(&member) + 32 * i64::from(QUEUES);
    let took = wait_for("more messages than the master had given", PATIENCE, || {
        (delivered(&member) > fetched).then(|| killed_at.elapsed())
    });
    let from_slave = messages_read(slave).expect("it answers");
    println!("killed: more than the master had given after {took:?}, {from_slave} read from the slave");
    assert!(took <= TURN, "{took:?}");
    assert!(from_slave > 0);
    thread::sleep(12 * SECOND);

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
    println!(
        "back: the master is read after {took:?}, the slave no more after {:?}, with {} of {STORED} still to come",
        back_at.elapsed(),
        STORED as usize - member.bodies().len().min(STORED as usize),
    );
    assert!(back_at.elapsed() <= TURN, "{:?}", back_at.elapsed());

    wanted.extend(bodies_of(&load.stop()));
    member.wait_for_all(&wanted, PATIENCE);
    let repeats = member.sightings().len() - wanted.len();
    member.shutdown();
    let lives = watch.stop();
    println!(
        "{} messages, none lost, {repeats} repeated; commits seen on the master: {lives}",
        wanted.len()
    );
    lives.assert_never_backwards(&known);
    let mut admin = master.admin().expect("it listens");
    for queue in 0..QUEUES {
        assert_eq!(
            admin.query_offset(TOPIC, TOPIC, queue).expect("an answer"),
            Some(admin.max_offset(TOPIC, queue).expect("an answer")),
            "everything is committed"
        );
    }
    // One member that keeps its queues has no reason to repeat anything but what it held when the master died.
    assert!(repeats <= (WINDOW * QUEUES) as usize, "{repeats}");
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
