//! What operators ask and change, on the real Apache RocketMQ, with members of Java's and of ours, and as
//! RocketMQ's own tool sees it.
#![cfg(unix)]

mod support;

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use rocketmq_consumer_testing::rocketmq::{Cluster, JavaConsumer};
use serde_json::{Value, json};
use support::{Ran, rocketcat, run_with, side_by_side};

/// How long something may take that waits for a rebalance or a held pull.
const LIMIT: Duration = Duration::from_secs(45);
/// The pause before a question is asked again.
const PAUSE: Duration = Duration::from_millis(250);

#[test]
fn the_real_broker_and_its_own_tool_agree() {
    let cluster = Cluster::builder().brokers(2).start().expect("a cluster starts");
    let bench = Bench { cluster };
    let steps: [fn(&Bench); 4] = [
        Bench::a_java_group_is_shown_as_it_is,
        Bench::a_running_group_continues_where_it_is_told_to,
        Bench::dead_letters_are_sent_again,
        Bench::members_that_differ_are_found,
    ];
    side_by_side(&bench, &steps);
    // It changes the brokers.
    bench.an_older_broker_tells_its_members();
}

struct Bench {
    cluster: Cluster,
}

/// A member of ours in the background. Dropped, it is killed.
struct Member(Child);

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bench {
    fn run(&self, args: &[&str], input: &[u8]) -> Ran {
        run_with([args, &["-n", self.cluster.name_server()]].concat(), input)
    }

    fn lines(&self, args: &[&str]) -> Vec<Value> {
        let ran = self.run(&[args, &["-o", "json"]].concat(), b"");
        assert_eq!(ran.code, Some(0), "{args:?}: {}{}", ran.stdout, ran.stderr);
        ran.lines()
    }

    fn topic(&self, name: &str) {
        let made = self.lines(&["topics", "create", name, "--queues", "2"]);
        assert!(made.iter().all(|row| row["status"] == "created"), "{made:?}");
    }

    fn produce(&self, topic: &str, count: &str) {
        let ran = self.run(&["produce", topic, "--count", count, "--key", "k%n"], b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }

    fn member(&self, args: &[&str]) -> Member {
        let base = [
            "consume",
            "-n",
            self.cluster.name_server(),
            "--from",
            "earliest",
            "-o",
            "none",
        ];
        let child = rocketcat([&base, args].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Member(child.expect("the binary starts"))
    }

    fn mqadmin(&self, args: &[&str]) -> String {
        let output = self.cluster.mqadmin(args).expect("Java starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The group, once all queues of the topic have an owner.
    fn owned(&self, group: &str, topic: &str) -> Value {
        until("every queue has an owner", || {
            let ran = self.run(&["groups", "-g", group, "-o", "json"], b"");
            // A member that has just begun is not known to the brokers yet.
            let one = (ran.code == Some(0))
                .then(|| ran.lines())
                .and_then(|mut lines| lines.pop())?;
            let queues = one["queues"].as_array()?.iter();
            let owners: Vec<_> = queues
                .filter(|queue| queue["topic"] == topic)
                .map(|queue| queue["owners"].as_array().map_or(0, Vec::len))
                .collect();
            (owners == [1; 4]).then_some(one)
        })
    }

    fn a_java_group_is_shown_as_it_is(&self) {
        self.topic("Shown");
        self.produce("Shown", "40");
        let consumer = JavaConsumer::builder(self.cluster.name_server(), "ShownGroup")
            .subscribe("Shown", "*")
            .from_first()
            .start()
            .expect("a Java consumer starts");
        let id = consumer.client_id().to_owned();
        let one = self.owned("ShownGroup", "Shown");
        let member = &one["members"][0];
        assert_eq!(
            (&member["client_id"], &member["language"]),
            (&json!(id), &json!("JAVA"))
        );
        assert_eq!(
            (&member["release"], &member["orderly"]),
            (&json!("5.5.0"), &json!(false))
        );
        assert_eq!(member["brokers"], json!(["broker-a", "broker-b"]));
        let view = self.mqadmin(&["consumerConnection", "-g", "ShownGroup"]);
        for part in [
            id.as_str(),
            "V5_5_0",
            "JAVA",
            "MessageModel: CLUSTERING",
            "ConsumeType: CONSUME_PASSIVELY",
        ] {
            assert!(view.contains(part), "{part}: {view}");
        }
        let topic = self.lines(&["topics", "Shown"]);
        let view = self.mqadmin(&["topicStatus", "-t", "Shown"]);
        for row in &topic {
            let want = [
                &row["broker"],
                &row["queue_id"],
                &row["min_offset"],
                &row["max_offset"],
            ];
            let want: Vec<_> = want
                .iter()
                .map(|cell| cell.to_string().trim_matches('"').to_owned())
                .collect();
            let is_there = |line: &str| {
                line.split_whitespace()
                    .take(4)
                    .eq(want.iter().map(String::as_str))
            };
            assert!(view.lines().any(is_there), "{want:?}: {view}");
        }
        until("nothing waits any more", || {
            let rows = self.lines(&["lag", "-g", "ShownGroup", "-t", "Shown"]);
            rows.iter().all(|row| row["lag"] == 0).then_some(())
        });
        let well = self.run(&["doctor", "-g", "ShownGroup", "--watch", "2", "-v"], b"");
        assert_eq!(
            (well.code, well.stdout.as_str()),
            (Some(0), ""),
            "{}",
            well.stderr
        );
        assert!(!well.stderr.contains("not looked at"), "{}", well.stderr);
        consumer.stop().expect("it leaves");
    }

    fn a_running_group_continues_where_it_is_told_to(&self) {
        self.topic("Reset");
        self.produce("Reset", "40");
        let mut java = JavaConsumer::builder(self.cluster.name_server(), "ResetJava")
            .subscribe("Reset", "*")
            .from_first()
            .start()
            .expect("a Java consumer starts");
        java.take(40, LIMIT).expect("everything is there");
        let _ours = self.member(&["Reset", "-g", "ResetOurs"]);
        for group in ["ResetJava", "ResetOurs"] {
            until("everything is committed", || {
                let rows = self.lines(&["lag", "-g", group, "-t", "Reset"]);
                rows.iter().all(|row| row["lag"] == 0).then_some(())
            });
            let reset = ["offset", "reset", "-g", group, "-t", "Reset", "--to", "earliest"];
            let would = self.lines(&[&reset[..], &["--dry-run"]].concat());
            let from: i64 = would.iter().filter_map(|row| row["from"].as_i64()).sum();
            assert_eq!((would.len(), from), (4, 40), "{would:?}");
            let done = self.lines(&[&reset[..], &["--yes"]].concat());
            let ways: BTreeSet<_> = done.iter().map(|row| row["way"].to_string()).collect();
            assert_eq!(ways, ["\"server\"".to_owned()].into(), "{done:?}");
            assert!(
                done.iter().all(|row| row["done"] == true && row["to"] == 0),
                "{done:?}"
            );
        }
        let again = java.take(40, LIMIT).expect("everything comes again");
        assert_eq!(again.len(), 40);
        // One queue alone: the others stay where they are.
        until("everything is committed again", || {
            let rows = self.lines(&["lag", "-g", "ResetJava", "-t", "Reset"]);
            rows.iter().all(|row| row["lag"] == 0).then_some(())
        });
        let args = [
            "-g",
            "ResetJava",
            "-t",
            "Reset",
            "--to",
            "0",
            "--queue",
            "broker-b:1",
            "--yes",
        ];
        let one = self.lines(&[&["offset", "reset"], &args[..]].concat());
        assert_eq!(
            (one.len(), &one[0]["way"], &one[0]["to"]),
            (1, &json!("server"), &json!(0))
        );
        let count = usize::try_from(one[0]["from"].as_i64().expect("it was consumed")).expect("an offset");
        let again = java.take(count, LIMIT).expect("that queue comes again");
        assert!(
            again
                .iter()
                .all(|one| one.broker == "broker-b" && one.queue_id == 1),
            "{again:?}"
        );
        java.stop().expect("it leaves");
        until("ours has caught up", || {
            let rows = self.lines(&["lag", "-g", "ResetOurs", "-t", "Reset"]);
            rows.iter().all(|row| row["lag"] == 0).then_some(())
        });
    }

    fn dead_letters_are_sent_again(&self) {
        self.topic("Dead");
        self.produce("Dead", "6");
        let member = self.member(&["Dead", "-g", "DeadGroup", "--exec", "exit 65"]);
        let ls = || self.lines(&["dlq", "ls", "-g", "DeadGroup"]);
        let count = |rows: &[Value]| {
            rows.iter()
                .filter_map(|row| row["messages"].as_i64())
                .sum::<i64>()
        };
        until("six dead letters", || (count(&ls()) == 6).then_some(()));
        drop(member);
        for _ in 0..2 {
            let records = self.lines(&["dlq", "peek", "-g", "DeadGroup"]);
            assert_eq!(records.len(), 6, "looking takes nothing");
            assert!(
                records.iter().all(|record| record["topic"] == "Dead"),
                "{records:?}"
            );
        }
        let requeue = ["dlq", "requeue", "-g", "DeadGroup", "--yes"];
        let first = self.lines(&[&requeue[..], &["--count", "2"]].concat());
        let rest = self.lines(&requeue);
        assert_eq!((first.len(), rest.len(), self.lines(&requeue).len()), (2, 4, 0));
        let sent: BTreeSet<_> = first
            .iter()
            .chain(&rest)
            .map(|line| line["keys"].to_string())
            .collect();
        assert_eq!(sent.len(), 6, "each of them once");
        let args = [
            "Dead",
            "-g",
            "DeadAudit",
            "--from",
            "earliest",
            "-c",
            "12",
            "--idle-exit",
            "20",
        ];
        let all = self.lines(&[&["consume"], &args[..]].concat());
        let ids: BTreeSet<_> = all.iter().map(|record| record["msg_id"].to_string()).collect();
        assert_eq!(
            (all.len(), ids.len()),
            (12, 6),
            "the ids are those of the first time"
        );
        // What a member that consumes concurrently gets back, it gets alone.
        let queue = first[0]["from_broker"].as_str().expect("a name").to_owned() + ":0";
        let args = ["--to", "group", "--queue", &queue, "--from", "0", "--count", "1"];
        let back = self.lines(&[&requeue[..], &args].concat());
        assert_eq!(back[0]["topic"], "%RETRY%DeadGroup");
    }

    fn members_that_differ_are_found(&self) {
        self.topic("Differ");
        let member = |instance: &str, expression: &str, strategy: &str| {
            JavaConsumer::builder(self.cluster.name_server(), "DifferGroup")
                .subscribe("Differ", expression)
                .instance(instance)
                .strategy(strategy)
                .start()
                .expect("a Java consumer starts")
        };
        let members = [member("one", "a", "avg"), member("two", "b || c", "circle")];
        let checks = until("both are found", || {
            let ran = self.run(
                &["doctor", "-g", "DifferGroup", "--watch", "0", "-o", "json"],
                b"",
            );
            let checks: BTreeSet<_> = ran
                .stdout
                .lines()
                .map(support::json)
                .filter_map(|line| line["check"].as_str().map(str::to_owned))
                .collect();
            let is_found = checks.contains("subscriptions") && checks.contains("strategy");
            (ran.code == Some(3) && is_found).then_some(checks)
        });
        assert!(!checks.contains("client-id"), "{checks:?}");
        for member in members {
            member.stop().expect("it leaves");
        }
    }

    fn an_older_broker_tells_its_members(&self) {
        for place in 0..2 {
            let mut admin = self.cluster.broker(place).admin().expect("a broker answers");
            admin
                .update_broker_config(&[("useServerSideResetOffset", "false")])
                .expect("it takes the setting");
        }
        self.topic("Old");
        self.produce("Old", "20");
        let mut java = JavaConsumer::builder(self.cluster.name_server(), "OldGroup")
            .subscribe("Old", "*")
            .from_first()
            .start()
            .expect("a Java consumer starts");
        java.take(20, LIMIT).expect("everything is there");
        until("everything is committed", || {
            let rows = self.lines(&["lag", "-g", "OldGroup", "-t", "Old"]);
            rows.iter().all(|row| row["lag"] == 0).then_some(())
        });
        let reset = ["offset", "reset", "-g", "OldGroup", "-t", "Old", "--yes", "--to"];
        let one = self.run(&[&reset[..], &["0"]].concat(), b"");
        assert_eq!(one.code, Some(1), "it would reset all queues: {}", one.stderr);
        assert!(one.stderr.contains("would reset all"), "{}", one.stderr);
        java.stop().expect("it leaves");
        let alone = until("nobody is there any more", || {
            let ran = self.run(&[&reset[..], &["earliest", "-o", "json"]].concat(), b"");
            let lines = ran.stdout.lines().map(support::json).collect::<Vec<_>>();
            (ran.code == Some(0)).then_some(lines)
        });
        let ways: BTreeSet<_> = alone.iter().map(|row| row["way"].to_string()).collect();
        assert_eq!(ways, ["\"commit\"".to_owned()].into(), "{alone:?}");
    }
}

/// Asks until the answer is as it should be.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    // Each question takes a process, so this is no less than the limit.
    for _ in 0..LIMIT.as_millis() / PAUSE.as_millis() {
        if let Some(found) = ask() {
            return found;
        }
        thread::sleep(PAUSE);
    }
    panic!("{what}: not within {LIMIT:?}");
}
