//! `consume` against the real Apache RocketMQ.
#![cfg(unix)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use rocketmq_consumer_testing::rocketmq::{Cluster, Producer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Ran, rocketcat, side_by_side};

/// Every step has a topic and a group of its own, so they share one cluster and run side by side. A
/// single test owns it: what belongs to a `static` would be left behind.
#[test]
fn the_real_broker_agrees() {
    let cluster = Cluster::builder()
        .brokers(1)
        .broker_config("messageDelayLevel", "1s 1s 1s 1s")
        .start()
        .expect("a cluster starts");
    let bench = Bench { cluster };
    let steps: [fn(&Bench); 9] = [
        Bench::a_count_is_exact_and_the_rest_is_for_the_next_run,
        Bench::the_end_is_where_it_was_at_the_start,
        Bench::a_count_that_is_not_reached_is_a_condition_not_met,
        Bench::an_expression_selects_by_tag,
        Bench::rehearsed_failures_come_again_from_the_retry_topic,
        Bench::a_command_decides_what_becomes_of_a_message,
        Bench::a_reader_that_leaves_loses_nothing,
        Bench::a_signal_drains_and_commits,
        Bench::a_broker_that_cannot_be_reached_is_named,
    ];
    side_by_side(&bench, &steps);
}

struct Bench {
    cluster: Cluster,
}

impl Bench {
    /// A topic of three queues with so many messages.
    fn topic(&self, name: &str, messages: u64) {
        self.cluster
            .create_topic(name, &[(0, 3)])
            .expect("a topic can be created");
        let mut producer = Producer::new(self.cluster.name_server(), name).expect("the topic has a route");
        producer = producer.tags(&["A", "B"]).body_size(8);
        producer.send_many(messages).expect("messages are stored");
    }

    /// `consume` of a topic by a group of the same name, from the beginning.
    fn args<'a>(&'a self, topic: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let base = [
            "consume",
            topic,
            "-g",
            topic,
            "--from",
            "earliest",
            "-n",
            self.cluster.name_server(),
        ];
        [&base, more].concat()
    }

    fn consume(&self, topic: &str, more: &[&str]) -> Ran {
        support::run(self.args(topic, more))
    }

    fn start(&self, topic: &str, more: &[&str]) -> Child {
        rocketcat(self.args(topic, more))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    }

    fn a_count_is_exact_and_the_rest_is_for_the_next_run(&self) {
        self.topic("Count", 100);
        let first = self.consume("Count", &["-c", "30", "-o", "json"]);
        assert_eq!(
            (first.code, first.lines().len(), committed(&first, "Count")),
            (Some(0), 30, 30),
            "{}",
            first.stderr
        );
        let second = self.consume("Count", &["-c", "70", "-o", "json", "--idle-exit", "10"]);
        assert_eq!(
            (second.code, second.lines().len(), committed(&second, "Count")),
            (Some(0), 70, 100),
            "{}",
            second.stderr
        );
        let (first, second) = (bodies(&first.lines()), bodies(&second.lines()));
        assert!(first.is_disjoint(&second));
        assert_eq!(first.len() + second.len(), 100);
    }

    fn the_end_is_where_it_was_at_the_start(&self) {
        self.topic("End", 50);
        let ran = self.consume("End", &["-e", "-o", "%t %b %q %g\\n"]);
        assert_eq!(
            (ran.code, ran.stdout.lines().count()),
            (Some(0), 50),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stdout.lines().all(|line| line.starts_with("End broker-a ")),
            "{}",
            ran.stdout
        );
        let again = self.consume("End", &["-e", "-o", "json"]);
        assert_eq!(
            (again.code, again.stdout.as_str()),
            (Some(0), ""),
            "{}",
            again.stderr
        );
        assert_eq!(committed(&again, "End"), 50);
    }

    fn a_count_that_is_not_reached_is_a_condition_not_met(&self) {
        self.topic("Few", 5);
        let ran = self.consume("Few", &["-c", "6", "--idle-exit", "1", "-o", "none"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains("1 records too few"), "{}", ran.stderr);
        let summary = summary(&ran);
        assert_eq!(
            (&summary["consumed"], &summary["distinct"]),
            (&5.into(), &5.into())
        );
    }

    fn an_expression_selects_by_tag(&self) {
        self.topic("Tags", 20);
        let mut args = self.args("Tags", &["-e", "-o", "%g\\n"]);
        args[1] = "Tags:B || C";
        let ran = support::run(args);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(0), "B\n".repeat(10).as_str()),
            "{}",
            ran.stderr
        );
    }

    fn rehearsed_failures_come_again_from_the_retry_topic(&self) {
        self.topic("Retry", 3);
        let ran = self.consume(
            "Retry",
            &["--fail-first", "1", "-c", "6", "--idle-exit", "20", "-o", "json"],
        );
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let mut tries = BTreeMap::new();
        for line in ran.lines() {
            assert_eq!(line["topic"], "Retry");
            let stored = line["stored_topic"].as_str().expect("text").to_owned();
            *tries
                .entry((stored, line["reconsume_times"].as_i64()))
                .or_insert(0) += 1;
        }
        assert_eq!(
            tries,
            [
                (("%RETRY%Retry".into(), Some(1)), 3),
                (("Retry".into(), Some(0)), 3)
            ]
            .into()
        );
        let summary = summary(&ran);
        assert_eq!(
            (&summary["redelivered"], &summary["failed"]),
            (&3.into(), &3.into())
        );
    }

    fn a_command_decides_what_becomes_of_a_message(&self) {
        self.topic("Exec", 6);
        // One goes to the dead letters, one comes again.
        let command = "echo \"$ROCKETMQ_TOPIC $(cat)\"; case $ROCKETMQ_QUEUE.$ROCKETMQ_OFFSET.$ROCKETMQ_RECONSUME_TIMES in \
                   1.0.0) exit 65;; 2.0.0) exit 75;; esac";
        let ran = self.consume(
            "Exec",
            &["-c", "7", "--idle-exit", "20", "--exec", command, "-o", "none"],
        );
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
        assert_eq!(
            ran.stderr
                .lines()
                .filter(|line| line.starts_with("Exec "))
                .count(),
            7,
            "{}",
            ran.stderr
        );
        assert_eq!(summary(&ran)["failed"], 2);
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        assert_eq!(
            admin.max_offset("%DLQ%Exec", 0).expect("there is a dead letter"),
            1
        );
    }

    fn a_reader_that_leaves_loses_nothing(&self) {
        self.topic("Pipe", 2_000);
        let mut child = self.start("Pipe", &["-o", "json"]);
        let mut lines = BufReader::new(child.stdout.take().expect("it was asked for")).lines();
        let first = lines.next().expect("a record").expect("UTF-8");
        drop(lines);
        let ended = Ran::new(child.wait_with_output().expect("it ends"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        // What reached the pipe may be committed; everything else comes now, each record once.
        let rest = self.consume("Pipe", &["-e", "-o", "json"]);
        let printed = bodies(&rest.lines());
        assert_eq!(printed.len(), rest.lines().len());
        let reached = committed(&ended, "Pipe");
        assert_eq!(
            i64::try_from(printed.len()).expect("small") + reached,
            2_000,
            "{}",
            ended.stderr
        );
        let first: Value = support::json(&first);
        assert!(reached > 0 || printed.contains(first["body"].as_str().expect("text")));
    }

    fn a_signal_drains_and_commits(&self) {
        self.topic("Signal", 10);
        for (signal, code, done) in [(Signal::INT, 130, 2), (Signal::TERM, 0, 4)] {
            let mut child = self.start(
                "Signal",
                &[
                    "--exec",
                    "sleep 0.7; echo done",
                    "--concurrency",
                    "2",
                    "-o",
                    "%o\\n",
                ],
            );
            let mut lines = BufReader::new(child.stdout.take().expect("it was asked for")).lines();
            for _ in 0..2 {
                lines.next().expect("a record").expect("UTF-8");
            }
            // Both commands run: they are waited for, and no third one begins.
            kill(&child, signal);
            let ran = Ran::new(child.wait_with_output().expect("it ends"));
            assert_eq!(ran.code, Some(code), "{}", ran.stderr);
            assert_eq!(
                ran.stderr.lines().filter(|line| *line == "done").count(),
                2,
                "{}",
                ran.stderr
            );
            assert_eq!(lines.count(), 0);
            let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
            let offsets =
                (0..3).filter_map(|id| admin.query_offset("Signal", "Signal", id).expect("an answer"));
            assert_eq!(offsets.sum::<i64>(), done);
        }
    }

    fn a_broker_that_cannot_be_reached_is_named(&self) {
        self.topic("Map", 1);
        let broker = self.cluster.broker(0).address().to_string();
        let map = format!("{broker}=127.0.0.1:1");
        let ran = self.consume("Map", &["--address-map", &map, "--connect-timeout", "1"]);
        assert_eq!(ran.code, Some(4), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("no broker of the topics answered in time"),
            "{}",
            ran.stderr
        );
    }
}

fn kill(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process number");
    kill_process(pid, signal).expect("the process lives");
}

fn bodies(lines: &[Value]) -> BTreeSet<String> {
    lines
        .iter()
        .map(|line| line["body"].as_str().expect("text").to_owned())
        .collect()
}

fn summary(ran: &Ran) -> Value {
    ran.last_error_line()["summary"].clone()
}

/// How much of a topic the summary says is committed.
fn committed(ran: &Ran, topic: &str) -> i64 {
    let summary = summary(ran);
    let queues = summary["queues"].as_array().expect("a list");
    let own = queues.iter().filter(|queue| queue["topic"] == topic);
    own.map(|queue| queue["committed"].as_i64().unwrap_or(0)).sum()
}
