//! Messages that fail: how they come again, where they end, and what is never committed, on the real Apache RocketMQ.
#![cfg(unix)]

#[path = "support/outage_tools.rs"]
mod outage_tools;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use outage_tools::{Answer, Member, Running, Sighting, now, wait_for};
use rocketmq_consumer_testing::rocketmq::{Cluster, Producer, Version};
use rocketmq_consumer_tokio::{NoticeKind, SendBackFallback};
use support::{run, side_by_side};

/// Long enough for every retry of these tests on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// How long the broker takes nothing back.
const REFUSING: Duration = Duration::from_secs(20);

/// Steps share a cluster and run side by side; the one that changes its broker has that broker for itself.
#[test]
fn what_fails_comes_again_and_is_never_lost() {
    let cluster = Cluster::builder()
        .brokers(2)
        // Every retry after one second, however often.
        .broker_config("messageDelayLevel", ["1s"; 18].join(" "))
        .start()
        .expect("a cluster starts");
    let bench = Bench { cluster };
    let steps: [fn(&Bench); 3] = [
        Bench::a_failed_message_comes_again_and_its_neighbours_do_not,
        Bench::after_the_last_retry_it_is_a_dead_letter,
        Bench::while_nothing_is_taken_back_nothing_is_committed_past_it,
    ];
    side_by_side(&bench, &steps);
}

struct Bench {
    cluster: Cluster,
}

impl Bench {
    /// Stores so many messages in two queues of one broker.
    fn topic(&self, name: &str, broker: usize, messages: u64) {
        self.cluster
            .create_topic(name, &[(broker, 2)])
            .expect("a topic can be created");
        Producer::new(self.cluster.name_server(), name)
            .expect("the topic has a route")
            .send_many(messages)
            .expect("messages are stored");
    }

    /// The committed offset of each queue of a topic, for the group of the same name.
    fn committed(&self, topic: &str, broker: usize) -> [i64; 2] {
        let mut admin = self.cluster.broker(broker).admin().expect("the broker listens");
        [0, 1].map(|queue| {
            let offset = admin.query_offset(topic, topic, queue).expect("an answer");
            offset.unwrap_or(0)
        })
    }

    fn a_failed_message_comes_again_and_its_neighbours_do_not(&self) {
        const TOPIC: &str = "Again";
        const TIMES: u32 = 3;
        self.topic(TOPIC, 0, 30);
        let failing = [
            ("7:", Answer::Fail),
            ("12:", Answer::Retry),
            ("21:", Answer::Panic),
        ];
        let member = Member::start(
            self.cluster.name_server(),
            TOPIC,
            |builder| builder,
            move |seen| {
                let failing = failing.iter().find(|(body, _)| *body == seen.body);
                failing.map_or(Answer::Done, |(_, answer)| {
                    if seen.reconsume_times < TIMES {
                        *answer
                    } else {
                        Answer::Done
                    }
                })
            },
        );
        let is_last = |seen: &Sighting| seen.reconsume_times == TIMES;
        wait_for("the last retry of each", LIMIT, || {
            (member.sightings().iter().filter(|seen| is_last(seen)).count() == failing.len()).then_some(())
        });
        // Whoever comes too often comes soon: the delay is a second.
        thread::sleep(Duration::from_secs(3));
        let sightings = member.sightings();
        let report = member.shutdown();
        let mut tries: BTreeMap<&str, Vec<&Sighting>> = BTreeMap::new();
        for seen in &sightings {
            tries.entry(&seen.body).or_default().push(seen);
        }
        assert_eq!(tries.len(), 30);
        for (body, tries) in &tries {
            let times: Vec<u32> = tries.iter().map(|seen| seen.reconsume_times).collect();
            let fails = failing.iter().any(|(failing, _)| failing == body);
            let want: Vec<u32> = if fails { (0..=TIMES).collect() } else { vec![0] };
            assert_eq!(times, want, "deliveries of {body}");
            let ids: BTreeSet<&str> = tries.iter().map(|seen| seen.msg_id.as_str()).collect();
            // Releases before 5.0 give none to a message that was sent without; it has that of its place then.
            let lasting = self.cluster.version() >= Version::new(5, 0, 0);
            let want = if lasting { 1 } else { tries.len() };
            assert_eq!(ids.len(), want, "it keeps its id: {ids:?}");
            for (at, seen) in tries.iter().enumerate() {
                let own = if at == 0 { TOPIC } else { "%RETRY%Again" };
                assert_eq!((seen.stored_topic.as_str(), seen.attempt), (own, 0));
            }
            if let (Some(first), Some(last)) = (tries.first(), tries.last())
                && fails
            {
                println!(
                    "again: {body} reconsume_times {times:?}, the last one after {:?}",
                    last.at - first.at
                );
            }
        }
        assert_eq!(report.abandoned, 0, "{report:?}");
        assert_eq!(self.committed(TOPIC, 0), [15, 15], "nothing is open any more");
    }

    fn after_the_last_retry_it_is_a_dead_letter(&self) {
        const TOPIC: &str = "Dead";
        self.topic(TOPIC, 0, 2);
        let name_server = self.cluster.name_server();
        let begun = now();
        let running = Running::start(&[
            "consume",
            TOPIC,
            "-g",
            TOPIC,
            "--from",
            "earliest",
            "-n",
            name_server,
            "--max-reconsume",
            "3",
            "--exec",
            "false",
            "-o",
            "json",
            "--idle-exit",
            "10",
        ]);
        let ran = running.wait(LIMIT);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let mut tries: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for line in ran.lines() {
            let body = line["body"].as_str().expect("text").to_owned();
            let times = line["reconsume_times"].as_i64().expect("a number");
            tries.entry(body).or_default().push(times);
        }
        let four: Vec<i64> = (0..=3).collect();
        assert_eq!(
            tries,
            [("0:".to_owned(), four.clone()), ("1:".to_owned(), four)].into()
        );
        let summary = ran.last_error_line();
        assert_eq!(
            (&summary["summary"]["consumed"], &summary["summary"]["failed"]),
            (&8.into(), &8.into())
        );
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        assert_eq!(
            admin.max_offset("%DLQ%Dead", 0).expect("there are dead letters"),
            2
        );
        let grave = run([
            "consume",
            "%DLQ%Dead",
            "-g",
            "Undertaker",
            "--from",
            "earliest",
            "-e",
            "-o",
            "json",
            "-n",
            name_server,
        ]);
        let lines = grave.lines();
        let buried: BTreeSet<&str> = lines.iter().filter_map(|line| line["body"].as_str()).collect();
        assert_eq!(
            (grave.code, buried),
            (Some(0), ["0:", "1:"].into()),
            "{}",
            grave.stderr
        );
        println!(
            "dead: four tries each, both in %DLQ%Dead after {:?}",
            begun.elapsed()
        );
    }

    fn while_nothing_is_taken_back_nothing_is_committed_past_it(&self) {
        const TOPIC: &str = "Refused";
        const BROKER: usize = 1;
        self.topic(TOPIC, BROKER, 40);
        let mut admin = self.cluster.broker(BROKER).admin().expect("the broker listens");
        admin
            .update_broker_config(&[("brokerPermission", "4")])
            .expect("a broker can be made read-only");
        let refused_at = now();
        let member = Member::start(
            self.cluster.name_server(),
            TOPIC,
            |builder| builder.send_back_fallback(SendBackFallback::Local),
            |seen| {
                if seen.body == "10:" && seen.reconsume_times == 0 {
                    Answer::Retry
                } else {
                    Answer::Done
                }
            },
        );
        wait_for("the first delivery of everything", LIMIT, || {
            (member.bodies().len() == 40).then_some(())
        });
        let failing = |sightings: Vec<Sighting>| -> Vec<Sighting> {
            sightings.into_iter().filter(|seen| seen.body == "10:").collect()
        };
        let (queue, offset) = {
            let seen = failing(member.sightings());
            let first = seen.first().expect("everything was delivered");
            (
                usize::try_from(first.queue_id).expect("0 or 1"),
                first.queue_offset,
            )
        };
        while refused_at.elapsed() < REFUSING {
            let committed = self.committed(TOPIC, BROKER)[queue];
            assert!(committed <= offset, "{committed} was committed past {offset}");
            thread::sleep(Duration::from_millis(250));
        }
        let meanwhile = failing(member.sightings());
        let attempts: Vec<(u32, u32)> = meanwhile
            .iter()
            .map(|seen| (seen.reconsume_times, seen.attempt))
            .collect();
        let gaps: Vec<Duration> = meanwhile
            .iter()
            .zip(meanwhile.iter().skip(1))
            .map(|(one, next)| next.at - one.at)
            .collect();
        println!("refused: deliveries (reconsume_times, attempt) {attempts:?}, {gaps:?} apart");
        assert!(attempts.len() >= 2, "it is delivered again here");
        assert!(
            attempts
                .iter()
                .enumerate()
                .all(|(at, tried)| *tried == (0, u32::try_from(at).expect("few"))),
            "{attempts:?}"
        );
        let local_retry = Duration::from_secs(5);
        assert!(gaps.iter().all(|gap| *gap >= local_retry), "{gaps:?}");
        let committed = self.committed(TOPIC, BROKER);
        assert_eq!(committed[queue], offset, "everything in front of it is committed");
        assert_eq!(committed[1 - queue], 20, "the other queue is not held up");
        let told = member.notices();
        let whys: BTreeSet<String> = told
            .iter()
            .filter_map(|(_, notice)| {
                if let NoticeKind::SendBackFailed { why, .. } = &notice.kind {
                    Some(why.clone())
                } else {
                    None
                }
            })
            .collect();
        println!("refused: {whys:?}");
        assert!(!whys.is_empty(), "whoever looks is told why");

        admin
            .update_broker_config(&[("brokerPermission", "6")])
            .expect("a broker can be made writable");
        let allowed_at = now();
        let back = wait_for("a delivery through the broker", LIMIT, || {
            failing(member.sightings())
                .into_iter()
                .find(|seen| seen.reconsume_times == 1)
        });
        wait_for("the commit of everything", LIMIT, || {
            (self.committed(TOPIC, BROKER) == [20, 20]).then_some(())
        });
        println!(
            "refused: through the broker {:?} after it was allowed, all settled and committed after {:?}",
            back.at - allowed_at,
            allowed_at.elapsed()
        );
        let report = member.shutdown();
        assert_eq!(report.abandoned, 0, "{report:?}");
    }
}
