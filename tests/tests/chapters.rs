//! The chapters "Bring your own runtime" and "Drive the machine yourself": their examples consume from the embedded
//! broker, and what they quote is the code of those examples.

#[path = "../../core/examples/blocking.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example has a way to be started, and is read by itself"
)]
mod blocking;
#[path = "../examples/smol/main.rs"]
#[allow(dead_code, reason = "an example has a way to be started")]
mod smol_example;
#[path = "../examples/threads/main.rs"]
#[allow(dead_code, reason = "an example has a way to be started")]
mod threads_example;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use async_std::task::block_on;
use rocketmq_consumer_async_std::broker::{ClusterConfig, Control, EmbeddedBroker, NewMessage};
use rocketmq_consumer_async_std::{ConsumerGroup, MessageQueue, Outcome, QueueId, QueueOffset};

const QUEUES: i32 = 2;
const MESSAGES: u32 = 200;
const SOON: Duration = Duration::from_secs(30);

/// A cluster with numbered messages in two queues.
fn cluster() -> EmbeddedBroker {
    block_on(async {
        let config = ClusterConfig::with_brokers(1).topic("orders", QUEUES.unsigned_abs());
        let broker = EmbeddedBroker::start(config).await.expect("free ports");
        for (number, queue) in (0..MESSAGES).zip(queues().into_iter().cycle()) {
            let message = NewMessage::new(number.to_string());
            let append = Control::Append { queue, message };
            broker.control(append).await.expect("it runs");
        }
        broker
    })
}

fn queues() -> Vec<MessageQueue> {
    let queue = |id| MessageQueue {
        topic: "orders".into(),
        broker: "broker-a".into(),
        id: QueueId(id),
    };
    (0..QUEUES).map(queue).collect()
}

/// Collects bodies until all have been seen.
fn all_numbers(bodies: &mpsc::Receiver<Vec<u8>>) {
    let mut numbers: BTreeSet<u32> = BTreeSet::new();
    while numbers.len() < MESSAGES as usize {
        let body = bodies.recv_timeout(SOON).expect("a message soon");
        numbers.insert(String::from_utf8(body).expect("text").parse().expect("a number"));
    }
    assert!(numbers.into_iter().eq(0..MESSAGES));
}

fn assert_committed(broker: &EmbeddedBroker, group: &'static str) {
    let committed = block_on(broker.look(move |state| {
        let of = |queue| state.committed(&ConsumerGroup::from(group), queue);
        queues().iter().map(of).collect::<Vec<_>>()
    }));
    let each = QueueOffset(i64::from(MESSAGES / QUEUES.unsigned_abs()));
    assert_eq!(committed.expect("it runs"), [Some(each); QUEUES as usize]);
}

#[test]
fn a_runtime_of_ones_own_consumes_and_commits() {
    let broker = cluster();
    let (seen, bodies) = mpsc::channel();
    let see = move |body: &[u8]| seen.send(body.to_vec()).expect("the test waits");
    let all = MESSAGES as usize;
    let finished = smol_example::consume(&broker.name_server(), "on-smol", "orders", all, see);
    assert_eq!(finished.expect("it starts"), u64::from(MESSAGES));
    all_numbers(&bodies);
    assert_committed(&broker, "on-smol");
}

#[test]
fn threads_are_runtime_enough() {
    let broker = cluster();
    let (seen, bodies) = mpsc::channel();
    let see = |body: &[u8]| seen.send(body.to_vec()).expect("the test waits");
    let all = MESSAGES as usize;
    let finished = threads_example::consume(&broker.name_server(), "on-threads", "orders", all, see);
    assert_eq!(finished.expect("it starts"), u64::from(MESSAGES));
    all_numbers(&bodies);
    assert_committed(&broker, "on-threads");
}

#[test]
fn a_machine_driven_by_hand_consumes_and_commits_and_says_farewell() {
    let broker = cluster();
    let (seen, bodies) = mpsc::channel();
    let (report, stopper) = mpsc::channel();
    let name_server = broker.name_server();
    let driving = thread::spawn(move || {
        let driver = blocking::Driver::new(&name_server, "by-hand", "orders", |message| {
            let body = message.body().expect("it is not packed").to_vec();
            seen.send(body).expect("the test waits");
            Outcome::Done
        });
        let driver = driver.expect("settings that are valid");
        report.send(driver.stopper()).expect("the test waits");
        driver.run();
    });
    let stopper = stopper.recv_timeout(SOON).expect("it starts");
    all_numbers(&bodies);
    stopper.stop();
    driving.join().expect("it ends");
    assert_committed(&broker, "by-hand");
    let members = block_on(broker.look(|state| {
        let (broker, group) = ("broker-a".into(), "by-hand".into());
        state.members(&broker, &group).count()
    }));
    assert_eq!(members.expect("it runs"), 0, "nobody is left");
}

/// It has `INPUTS` places for what comes from other threads; this is more.
const MORE_THAN_INPUTS: usize = 100;

#[test]
fn a_handler_may_end_the_machine_driven_by_hand() {
    let broker = cluster();
    let name_server = broker.name_server();
    let (give, stoppers) = mpsc::channel();
    let (report, ended) = mpsc::channel();
    thread::spawn(move || {
        let driver = blocking::Driver::new(&name_server, "ends-itself", "orders", |_| {
            stoppers.try_iter().for_each(blocking::Stopper::stop);
            Outcome::Done
        });
        let driver = driver.expect("settings that are valid");
        for _ in 0..MORE_THAN_INPUTS {
            give.send(driver.stopper()).expect("the driver has the handler");
        }
        driver.run();
        report.send(()).expect("the test waits");
    });
    ended
        .recv_timeout(SOON)
        .expect("no handler waits for its own thread");
}

/// A chapter's pieces of code, one after the other, are these files but for the comments that begin them. So whoever
/// copies all of it has a program. Indentation and empty lines do not count.
fn assert_quotes(chapter: &str, examples: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|_| panic!("{path} is there"));
    let text = read(chapter);
    let pieces = text.split("```rust,ignore\n").skip(1);
    let pieces = pieces.map(|piece| piece.split("```").next().unwrap_or_default());
    let quoted = pieces.collect::<Vec<_>>().join("\n");
    let files: Vec<_> = examples.iter().map(|path| read(path)).collect();
    let code = files.iter().map(|file| from_imports(file));
    let code = code.collect::<Vec<_>>().join("\n");
    for (quoted, line) in lines(&quoted).zip(lines(&code)) {
        assert_eq!(quoted, line, "the chapter has the left, {examples:?} the right");
    }
    assert_eq!(
        lines(&quoted).count(),
        lines(&code).count(),
        "one ends before the other"
    );
}

/// What a reader has to write: the comment and the lints before it are about this project.
fn from_imports(file: &str) -> &str {
    let of = |begin| file.find(begin).map_or(file.len(), |at| at + 1);
    &file[of("\nuse ").min(of("\nmod "))..]
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[test]
fn a_runtime_of_ones_own_is_quoted_whole() {
    assert_quotes(
        "runtime/docs/bring-your-own-runtime.md",
        &[
            "tests/examples/smol/runtime.rs",
            "tests/examples/smol/main.rs",
            "tests/examples/smol/tests.rs",
        ],
    );
}

#[test]
fn the_driver_by_hand_is_quoted_whole() {
    assert_quotes(
        "core/docs/drive-the-machine-yourself.md",
        &["core/examples/blocking.rs"],
    );
}
