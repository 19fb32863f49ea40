//! What operators ask and change, on the embedded broker: no Java is needed.
#![cfg(unix)]

#[path = "support/embedded_broker.rs"]
mod embedded_broker;
mod support;

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use embedded_broker::Broker;
use serde_json::{Value, json};
use support::{Ran, rocketcat};

/// A member in the background. Dropped, it is killed.
struct Member(Child);

impl Member {
    fn start(broker: &Broker, args: &[&str]) -> Self {
        let base = ["consume", "-n", broker.name_server(), "-o", "none"];
        let child = rocketcat([&base, args].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("the binary starts"))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command and gives its lines.
fn lines(broker: &Broker, args: &[&str]) -> Vec<Value> {
    let ran = broker.run(&[args, &["-o", "json"]].concat(), b"");
    assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr);
    ran.lines()
}

/// Runs a command that fails with this code, saying this.
fn fails(broker: &Broker, args: &[&str], code: i32, words: &str) -> Ran {
    let ran = broker.run(args, b"");
    assert_eq!(ran.code, Some(code), "{args:?}: {}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    ran
}

/// Asks until the answer is as it should be.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..100 {
        if let Some(found) = ask() {
            return found;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("{what} did not come true");
}

fn produce(broker: &Broker, topic: &str, text: &str) {
    let sent = broker.run(&["produce", topic, "--key", "k%n"], text.as_bytes());
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
}

fn consume(broker: &Broker, args: &[&str]) -> Ran {
    let base = ["consume", "--from", "earliest", "--idle-exit", "10"];
    let ran = broker.run(&[&base, args].concat(), b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran
}

#[test]
fn groups_and_topics_show_who_is_there_and_what() {
    let broker = Broker::start(&["--listen=127.0.0.1:0", "--topic=orders:2"]);
    produce(&broker, "orders", "one\ntwo\nthree\nfour\nfive\n");
    let _member = Member::start(&broker, &["orders:a||b", "-g", "billing", "--client-id", "me@1"]);
    let billing = until("a member known to both brokers", || {
        let groups = lines(&broker, &["groups"]);
        groups
            .into_iter()
            .find(|group| group["group"] == "billing" && group["brokers"] == json!(["broker-a", "broker-b"]))
    });
    assert_eq!(
        billing,
        json!({"group": "billing", "members": 1, "consume_type": "push", "message_model": "clustering",
               "subscriptions": ["orders"], "brokers": ["broker-a", "broker-b"], "enabled": true})
    );
    let one = until("both connections", || {
        let one = lines(&broker, &["groups", "-g", "billing"]).remove(0);
        (one["members"][0]["brokers"] == json!(["broker-a", "broker-b"])).then_some(one)
    });
    assert_eq!(one["members"][0]["client_id"], "me@1");
    assert_eq!(one["members"][0]["release"], "5.5.0");
    let subscription = json!([{"topic": "orders", "expression": "a||b", "expression_type": "TAG"}]);
    assert_eq!(one["subscriptions"], subscription);
    let orders = one["queues"].as_array().expect("a list").iter();
    assert_eq!(orders.filter(|queue| queue["topic"] == "orders").count(), 4);
    fails(&broker, &["groups", "-g", "nobody"], 1, "group nobody is unknown");

    let topics = lines(&broker, &["topics"]);
    assert_eq!(
        topics,
        [
            json!({"topic": "orders", "brokers": ["broker-a", "broker-b"], "read_queues": 4, "write_queues": 4,
                "perm": "rw"})
        ],
        "what is RocketMQ's own is hidden"
    );
    let queues = lines(&broker, &["topics", "orders"]);
    let messages: i64 = queues.iter().filter_map(|queue| queue["messages"].as_i64()).sum();
    assert_eq!((queues.len(), messages), (4, 5));
    fails(&broker, &["topics", "nothing"], 1, "topic nothing is unknown");
}

#[test]
fn a_topic_is_made_once_and_replaced_only_when_asked_to() {
    let broker = Broker::start(&["--listen=127.0.0.1:0"]);
    let create = ["topics", "create", "fresh", "--queues"];
    let made = lines(&broker, &[&create[..], &["3"]].concat());
    let row = |broker: &str, queues, status: &str| {
        json!({"topic": "fresh", "broker": broker, "read_queues": queues, "write_queues": queues, "perm": "rw",
               "status": status})
    };
    assert_eq!(
        made,
        [row("broker-a", 3, "created"), row("broker-b", 3, "created")]
    );
    let again = lines(&broker, &[&create[..], &["3", "--broker", "broker-b"]].concat());
    assert_eq!(again, [row("broker-b", 3, "unchanged")]);
    let other = [&create[..], &["8"]].concat();
    fails(
        &broker,
        &other,
        1,
        "(broker-a: 3 queues, rw; broker-b: 3 queues, rw); nothing is changed",
    );
    let replaced = lines(&broker, &[&other[..], &["--update", "--yes"]].concat());
    assert_eq!(
        replaced,
        [row("broker-a", 8, "updated"), row("broker-b", 8, "updated")]
    );
    let unknown = [&create[..], &["3", "--broker", "broker-z"]].concat();
    fails(&broker, &unknown, 2, "known are broker-a, broker-b");
}

#[test]
fn a_group_continues_where_it_is_told_to() {
    let broker = Broker::start(&["--topic=orders:1"]);
    produce(&broker, "orders", "one\ntwo\nthree\nfour\n");
    consume(&broker, &["orders", "-g", "billing", "-c", "4"]);
    let reset = |more: &[&'static str]| {
        let base = ["offset", "reset", "-g", "billing", "-t", "orders", "--to"];
        [&base, more].concat()
    };
    let mut row = json!({"topic": "orders", "broker": "broker-a", "queue_id": 0, "min_offset": 0, "max_offset": 4,
                         "from": 4, "to": 0});
    assert_eq!(lines(&broker, &reset(&["earliest", "--dry-run"])), [row.clone()]);
    fails(&broker, &reset(&["earliest"]), 2, "add --yes");
    fails(
        &broker,
        &reset(&["5", "--yes"]),
        1,
        "offset 5 lies outside of broker-a:0, which has 0 to 4",
    );
    fails(
        &broker,
        &reset(&["1", "--queue", "broker-a:7", "--yes"]),
        2,
        "has no such queue",
    );
    row["now"] = json!(0);
    row["way"] = json!("server");
    row["done"] = json!(true);
    assert_eq!(lines(&broker, &reset(&["earliest", "--yes"])), [row]);
    let again = consume(&broker, &["orders", "-g", "billing", "-c", "4"]);
    assert_eq!(again.stdout.lines().count(), 4, "all of them once more");

    // One queue: the broker does not say whether it would reset all, and nobody runs.
    let one = lines(&broker, &reset(&["2", "--queue", "broker-a:0", "--yes"]));
    assert_eq!((&one[0]["way"], &one[0]["now"]), (&json!("commit"), &json!(2)));
    let member = Member::start(&broker, &["orders", "-g", "billing"]);
    until("a member", || {
        let groups = lines(&broker, &["groups"]);
        groups.iter().any(|group| group["members"] == 1).then_some(())
    });
    let running = fails(&broker, &reset(&["1", "--yes"]), 1, "stop the members first");
    assert!(running.stdout.contains("not done"), "{}", running.stdout);
    drop(member);

    let base = ["offset", "reset", "--to", "latest", "--dry-run"];
    let unknown = [&base[..], &["-g", "nobody", "-t", "orders"]].concat();
    fails(&broker, &unknown, 1, "group nobody is unknown");
    let unknown = [&base[..], &["-g", "billing", "-t", "nothing"]].concat();
    fails(&broker, &unknown, 1, "topic nothing is unknown");
}

#[test]
fn dead_letters_are_looked_at_and_sent_again_once() {
    let broker = Broker::start(&["--topic=orders:1"]);
    let group = ["-g", "billing"];
    let none = broker.run(&["dlq", "ls", "-g", "billing", "-v"], b"");
    assert_eq!(
        (none.code, none.stderr.contains("has no dead letters")),
        (Some(0), true),
        "{}",
        none.stderr
    );

    produce(&broker, "orders", "one\ntwo\nthree\n");
    let member = Member::start(
        &broker,
        &[
            "orders", "-g", "billing", "--from", "earliest", "--exec", "exit 65",
        ],
    );
    let ls = || lines(&broker, &[&["dlq", "ls"], &group[..]].concat());
    let row = until("three dead letters", || {
        ls().into_iter().find(|row| row["messages"] == 3)
    });
    drop(member);
    assert_eq!(
        (&row["topic"], &row["requeued_to"]),
        (&json!("%DLQ%billing"), &Value::Null)
    );
    assert!(
        row["first_stored_at"].as_i64() > Some(0)
            && row["first_stored_at"].as_i64() <= row["last_stored_at"].as_i64()
    );

    let peek = broker.run(&["dlq", "peek", "-g", "billing", "-c", "2", "-v"], b"");
    assert_eq!(peek.stdout.lines().count(), 2, "{}", peek.stdout);
    assert!(peek.stderr.contains("there are 3 in all"), "{}", peek.stderr);
    let records = lines(&broker, &["dlq", "peek", "-g", "billing"]);
    let shown: BTreeSet<_> = records
        .iter()
        .map(|record| {
            format!(
                "{} {} {}",
                record["topic"], record["stored_topic"], record["body"]
            )
        })
        .collect();
    let want = ["one", "two", "three"].map(|body| format!("\"orders\" \"%DLQ%billing\" \"{body}\""));
    assert_eq!(shown, want.into());

    let requeue = |more: &[&str]| lines(&broker, &[&["dlq", "requeue", "-g", "billing"], more].concat());
    let would = requeue(&["--dry-run"]);
    assert_eq!(
        (would.len(), &would[0]["topic"], would[0].get("broker")),
        (3, &json!("orders"), None)
    );
    let first = requeue(&["--count", "1", "--yes"]);
    assert_eq!(
        (&first[0]["from_offset"], &first[0]["broker"]),
        (&json!(0), &json!("broker-a"))
    );
    assert_eq!(ls()[0]["requeued_to"], 1);
    let rest = requeue(&["--yes"]);
    let offsets: Vec<_> = rest.iter().map(|line| line["from_offset"].as_i64()).collect();
    assert_eq!(offsets, [Some(1), Some(2)], "nothing twice");
    assert_eq!(requeue(&["--yes"]), Vec::<Value>::new());
    // What is sent again on purpose does not move the position back.
    assert_eq!(
        requeue(&["--queue", "broker-a:0", "--from", "0", "--count", "1", "--yes"]).len(),
        1
    );
    assert_eq!(requeue(&["--yes"]), Vec::<Value>::new());

    let all = consume(&broker, &["orders", "-g", "audit", "-c", "7", "-o", "json"]).lines();
    let (old, new) = all.split_at(3);
    let seen = |record: &Value| format!("{} {} {}", record["keys"], record["msg_id"], record["body"]);
    let once: BTreeSet<_> = old.iter().map(seen).collect();
    assert_eq!(
        new.iter().map(seen).collect::<BTreeSet<_>>(),
        once,
        "keys and ids are kept"
    );
    assert!(
        new.iter()
            .all(|record| record["properties"].get("RETRY_TOPIC").is_none()),
        "{new:?}"
    );
}

#[test]
fn dead_letters_can_be_sent_to_their_group_alone() {
    let broker = Broker::start(&["--topic=orders:1"]);
    produce(&broker, "orders", "one\n");
    let member = Member::start(
        &broker,
        &[
            "orders", "-g", "billing", "--from", "earliest", "--exec", "exit 65",
        ],
    );
    until("a dead letter", || {
        let rows = lines(&broker, &["dlq", "ls", "-g", "billing"]);
        rows.into_iter().find(|row| row["messages"] == 1)
    });
    drop(member);
    let sent = lines(
        &broker,
        &["dlq", "requeue", "-g", "billing", "--to", "group", "--yes"],
    );
    assert_eq!(sent[0]["topic"], "%RETRY%billing");
    // The member was killed, so the order itself may come once more.
    let back = consume(&broker, &["orders", "-g", "billing", "-c", "2", "-o", "json"]).lines();
    let is_back = |record: &Value| {
        (&record["topic"], &record["body"], &record["stored_topic"])
            == (&json!("orders"), &json!("one"), &json!("%RETRY%billing"))
    };
    assert_eq!(
        back.iter().filter(|record| is_back(record)).count(),
        1,
        "{back:?}"
    );
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let broker = Broker::start(&["--topic=orders:1"]);
    fails(&broker, &["doctor", "-g", "nobody"], 1, "group nobody is unknown");
    produce(&broker, "orders", "one\ntwo\n");
    consume(&broker, &["orders", "-g", "billing", "-c", "1"]);
    let look = ["doctor", "-g", "billing", "--watch", "0"];
    let ran = broker.run(&[&look[..], &["-o", "json"]].concat(), b"");
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(
        ran.lines(),
        [json!({"group": "billing", "check": "member", "about": "billing",
                "finding": "has no member, and 1 messages wait for it", "advice": "start one"})]
    );
    let ran = broker.run(&look, b"");
    assert_eq!(
        ran.stdout,
        "member: billing has no member, and 1 messages wait for it; start one\n"
    );
    consume(&broker, &["orders", "-g", "billing", "-c", "1"]);
    let well = broker.run(&look, b"");
    assert_eq!(
        (well.code, well.stdout.as_str()),
        (Some(0), ""),
        "{}",
        well.stderr
    );
}

#[test]
fn two_members_with_one_id_are_found() {
    let broker = Broker::start(&["--topic=orders:1"]);
    let args = ["orders", "-g", "billing", "--client-id", "same@1"];
    let _members = [Member::start(&broker, &args), Member::start(&broker, &args)];
    until("the finding", || {
        let ran = broker.run(&["doctor", "-g", "billing", "--watch", "0", "-o", "json"], b"");
        let found = ran
            .stdout
            .lines()
            .map(support::json)
            .any(|line| line["check"] == "client-id");
        (found && ran.code == Some(3)).then_some(())
    });
}

#[test]
fn a_watch_ends_when_too_much_waits() {
    let broker = Broker::start(&["--topic=orders:1"]);
    produce(&broker, "orders", "one\n");
    let args = [
        "-g",
        "billing",
        "-t",
        "orders",
        "--watch",
        "0.2",
        "--fail-above",
        "2",
        "-n",
        broker.name_server(),
    ];
    let watch = rocketcat([&["lag"], &args[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let watch = watch.expect("the binary starts");
    thread::sleep(Duration::from_secs(1));
    produce(&broker, "orders", "two\nthree\n");
    let ran = Ran::new(watch.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("3 messages are waiting for group billing, more than 2"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stdout.matches("TOPIC").count() > 2,
        "a block each time: {}",
        ran.stdout
    );
}
