//! `produce` and `lag` against the real Apache RocketMQ.
#![cfg(unix)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rocketmq_consumer_testing::rocketmq::{Cluster, JavaConsumer};
use serde_json::{Value, json};
use support::{Ran, run_with, side_by_side};

/// Steps have topics and groups of their own, so they share one cluster and run side by side.
#[test]
fn the_real_broker_agrees() {
    let cluster = Cluster::builder()
        .brokers(2)
        .broker_config("messageDelayLevel", "1s 1s 1s 1s")
        .broker_config("autoCreateTopicEnable", "true")
        .start()
        .expect("a cluster starts");
    let bench = Bench { cluster };
    let steps: [fn(&Bench); 8] = [
        Bench::lines_arrive_as_they_are,
        Bench::a_load_is_numbered_and_spread_over_all_queues,
        Bench::a_key_keeps_its_queue_and_its_order,
        Bench::a_topic_is_made_by_its_first_message,
        Bench::a_delayed_message_comes_later,
        Bench::what_no_broker_takes_ends_the_run,
        Bench::lag_falls_as_messages_are_consumed,
        Bench::a_java_member_tells_what_it_owns,
    ];
    side_by_side(&bench, &steps);
}

struct Bench {
    cluster: Cluster,
}

impl Bench {
    /// A topic of two queues on each broker.
    fn topic(&self, name: &str) {
        self.cluster
            .create_topic(name, &[(0, 2), (1, 2)])
            .expect("a topic can be created");
    }

    fn run(&self, args: &[&str], input: &[u8]) -> Ran {
        let base = ["-n", self.cluster.name_server()];
        run_with([args, &base].concat(), input)
    }

    /// Everything in a topic, as a new group sees it.
    fn consumed(&self, topic: &str, count: usize) -> Vec<Value> {
        let count = count.to_string();
        let args = [
            "consume",
            topic,
            "-g",
            topic,
            "--from",
            "earliest",
            "-c",
            &count,
            "--idle-exit",
            "15",
            "-o",
            "json",
        ];
        let ran = self.run(&args, b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.lines()
    }

    fn lines_arrive_as_they_are(&self) {
        self.topic("Lines");
        let args = [
            "produce",
            "Lines",
            "--tag",
            "paid",
            "--key",
            "k%n all",
            "--property",
            "colour=r=d",
            "-o",
            "json",
        ];
        let ran = self.run(&args, "one\n\ntwo \u{1f600}\r\nthree".as_bytes());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let receipts = ran.lines();
        let numbers: Vec<_> = receipts.iter().map(|line| line["number"].as_u64()).collect();
        assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
        let summary = &ran.last_error_line()["summary"];
        assert_eq!(
            (&summary["sent"], &summary["empty_lines"]),
            (&json!(3), &json!(1))
        );
        // What a receipt says about a message is what a consumer sees of it.
        let told: BTreeSet<_> = receipts.iter().map(place).collect();
        let consumed = self.consumed("Lines", 3);
        assert_eq!(consumed.iter().map(place).collect::<BTreeSet<_>>(), told);
        let seen: BTreeSet<_> = consumed
            .iter()
            .map(|line| (text(line, "body"), text(line, "keys"), text(line, "tags")))
            .collect();
        let want = [
            ("one", "k0 all"),
            ("two \u{1f600}\r", "k1 all"),
            ("three", "k2 all"),
        ];
        let want = want.map(|(body, keys)| (body.into(), keys.into(), "paid".into()));
        assert_eq!(seen, want.into());
        assert!(consumed.iter().all(|line| line["properties"]["colour"] == "r=d"));
    }

    fn a_load_is_numbered_and_spread_over_all_queues(&self) {
        self.topic("Load");
        let ran = self.run(
            &["produce", "Load", "-c", "400", "--size", "30", "-o", "none"],
            b"",
        );
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
        let summary = &ran.last_error_line()["summary"];
        let queues = summary["queues"].as_array().expect("a list");
        // A busy broker sends a message on to the next queue.
        let retries = summary["retries"].as_u64().expect("a number");
        let sent: Vec<_> = queues
            .iter()
            .map(|queue| queue["sent"].as_u64().expect("a number"))
            .collect();
        assert!(
            sent.len() == 4 && sent.iter().all(|sent| sent.abs_diff(100) <= retries),
            "{summary}"
        );
        let bodies: BTreeSet<String> = self
            .consumed("Load", 400)
            .iter()
            .map(|line| text(line, "body"))
            .collect();
        let want = (0..400).map(|number| format!("{:x<30}", format!("{number}:")));
        assert_eq!(bodies, want.collect());
    }

    fn a_key_keeps_its_queue_and_its_order(&self) {
        self.topic("Keys");
        let mut places = BTreeMap::new();
        for turn in 0..3 {
            let lines: String = (0..20).map(|line| format!("{turn}-{line}\n")).collect();
            let args = ["produce", "Keys", "--by-key", "--key", "order-7", "-o", "json"];
            let ran = self.run(&args, lines.as_bytes());
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            for receipt in ran.lines() {
                let queue = (text(&receipt, "broker"), receipt["queue_id"].as_i64());
                places
                    .entry(queue)
                    .or_insert_with(Vec::new)
                    .push(receipt["queue_offset"].as_i64());
            }
        }
        // One queue, and in it the order of the lines.
        let offsets: Vec<_> = places.into_values().collect();
        assert_eq!(offsets, [(0..60).map(Some).collect::<Vec<_>>()]);
        let ran = self.run(&["produce", "Keys", "--queue", "1", "-c", "6", "-o", "json"], b"");
        let chosen: BTreeSet<_> = ran.lines().iter().map(|line| line["queue_id"].as_i64()).collect();
        assert_eq!((ran.code, chosen), (Some(0), [Some(1)].into()), "{}", ran.stderr);
    }

    fn a_topic_is_made_by_its_first_message(&self) {
        let ran = self.run(&["produce", "Fresh", "-c", "10", "-o", "json"], b"");
        assert_eq!((ran.code, ran.lines().len()), (Some(0), 10), "{}", ran.stderr);
        assert_eq!(self.consumed("Fresh", 10).len(), 10);
    }

    fn a_delayed_message_comes_later(&self) {
        self.topic("Delayed");
        let ran = self.run(
            &[
                "produce",
                "Delayed",
                "-c",
                "1",
                "--delay-level",
                "2",
                "-o",
                "json",
            ],
            b"",
        );
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(
            ran.lines()[0]["queue_offset"],
            Value::Null,
            "it waits in another queue"
        );
        let line = &self.consumed("Delayed", 1)[0];
        let waited = line["store_at"]
            .as_i64()
            .zip(line["born_at"].as_i64())
            .map(|(stored, born)| stored - born);
        assert!(waited.is_some_and(|waited| waited >= 900), "{line}");
    }

    fn what_no_broker_takes_ends_the_run(&self) {
        self.topic("Refused");
        let long = "x".repeat(5 << 20);
        let ran = self.run(
            &["produce", "Refused", "-o", "none"],
            format!("small\n{long}\n").as_bytes(),
        );
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("message 1 is not stored: "), "{}", ran.stderr);
        let summary = &ran.last_error_line()["summary"];
        assert_eq!((&summary["sent"], &summary["failed"]), (&json!(1), &json!(1)));

        let ran = self.run(&["produce", "SCHEDULE_TOPIC_XXXX", "-c", "1"], b"");
        assert_eq!(ran.code, Some(5), "{}", ran.stderr);

        let broker = self.cluster.broker(0).address().to_string();
        let other = self.cluster.broker(1).address().to_string();
        let away = |addr: &str| format!("--address-map={addr}=127.0.0.1:1");
        // One broker out of reach is a detour, both are the end.
        let ran = self.run(
            &["produce", "Refused", "-c", "1", "-o", "json", &away(&broker)],
            b"",
        );
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(
            (&ran.lines()[0]["broker"], &ran.lines()[0]["tries"]),
            (&json!("broker-b"), &json!(2))
        );
        let ran = self.run(
            &["produce", "Refused", "-c", "1", &away(&broker), &away(&other)],
            b"",
        );
        assert_eq!(ran.code, Some(4), "{}", ran.stderr);
        assert!(ran.stderr.contains("connection refused"), "{}", ran.stderr);
    }

    fn lag(&self, group: &str, more: &[&str]) -> Ran {
        self.run(&[&["lag", "-g", group, "-o", "json"], more].concat(), b"")
    }

    fn lag_falls_as_messages_are_consumed(&self) {
        self.topic("Behind");
        let ran = self.run(&["produce", "Behind", "-c", "40"], b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let unknown = self.lag("Behind", &[]);
        assert_eq!(unknown.code, Some(1), "{}", unknown.stderr);
        assert!(
            unknown.stderr.contains("no member and no stored offset"),
            "{}",
            unknown.stderr
        );

        let args = [
            "consume",
            "Behind",
            "-g",
            "Behind",
            "--from",
            "earliest",
            "-c",
            "15",
            "--idle-exit",
            "15",
            "-o",
            "none",
        ];
        let consumed = self.run(&args, b"");
        assert_eq!(consumed.code, Some(0), "{}", consumed.stderr);
        let ran = self.lag("Behind", &["-t", "Behind", "--fail-above", "25"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let lines = ran.lines();
        assert_eq!((lines.len(), waiting(&lines)), (4, 25), "{}", ran.stdout);
        let committed: i64 = lines.iter().filter_map(|line| line["committed"].as_i64()).sum();
        assert_eq!(committed, 15);
        // Without a topic, what the group has committed in, on brokers too where it has not begun with it.
        let ran = self.lag("Behind", &[]);
        assert_eq!(waiting(&ran.lines()), 25, "{}{}", ran.stdout, ran.stderr);

        let ran = self.lag("Behind", &["--fail-above", "24"]);
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert!(ran.stderr.contains("25 messages are waiting"), "{}", ran.stderr);
        let ran = self.lag("Behind", &["-t", "NoSuchTopic"]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    }

    fn a_java_member_tells_what_it_owns(&self) {
        self.topic("Owned");
        let consumer = JavaConsumer::builder(self.cluster.name_server(), "Owners")
            .subscribe("Owned", "*")
            .start()
            .expect("a Java consumer starts");
        let id = consumer.client_id().to_owned();
        // It has its queues a moment after it says that it runs.
        let owners = (0..40).find_map(|_| {
            std::thread::sleep(Duration::from_millis(250));
            let ran = self.lag("Owners", &["-t", "Owned"]);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            let owners: Vec<_> = ran.lines().iter().map(|line| line["owner"].clone()).collect();
            owners.iter().all(|owner| owner != &Value::Null).then_some(owners)
        });
        assert_eq!(owners, Some(vec![json!(id); 4]));
        consumer.stop().expect("it leaves");
    }
}

/// Where a message lies and what it is called.
fn place(line: &Value) -> String {
    let parts = ["broker", "queue_id", "queue_offset", "msg_id", "offset_msg_id"];
    parts.map(|key| line[key].to_string()).join(" ")
}

fn text(line: &Value, key: &str) -> String {
    line[key].as_str().expect("text").to_owned()
}

fn waiting(lines: &[Value]) -> i64 {
    lines.iter().filter_map(|line| line["lag"].as_i64()).sum()
}
