//! Brokers of other releases: what works on all of them, and what each does in its own way. Every line of the table
//! in COMPATIBILITY.md is a step here.
#![cfg(unix)]

#[path = "support/outage_tools.rs"]
mod outage_tools;
#[path = "support/processes/mod.rs"]
mod processes;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use outage_tools::{Answer, Load, Member, Sighting, bodies_of, now, wait_for};
use processes::{Crowd, Loads};
use rocketmq_consumer_testing::rocketmq::{Cluster, Producer, Version};
use rocketmq_consumer_tokio::{NoticeKind, StartAt};

const SECOND: Duration = Duration::from_secs(1);
/// For what has no limit of its own, on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);
/// Since this one a broker can say that nothing is stored, gives ids to messages that have none, and resets by
/// itself.
const FIVE: Version = Version::new(5, 0, 0);
const INVOKE_BROKER_TO_RESET_OFFSET: i32 = 222;

/// The newest of each line that Maven Central has all servers of. One cluster after the other.
#[test]
fn older_releases_and_the_current_one() {
    for version in [Version::new(4, 9, 7), Version::new(5, 3, 3), Version::CURRENT] {
        let begun = now();
        let bench = Bench::new(version);
        println!("{version}: up after {:?}", begun.elapsed());
        bench.what_differs();
        // The current one has suites of its own for the rest.
        if version < Version::CURRENT {
            bench.what_is_the_same();
        }
        println!("{version}: done after {:?}", begun.elapsed());
    }
}

struct Bench {
    version: Version,
    cluster: Cluster,
}

impl Bench {
    fn new(version: Version) -> Self {
        let cluster = Cluster::builder()
            .version(version)
            .broker_config("messageDelayLevel", ["1s"; 18].join(" "))
            .broker_heap("128m", "256m")
            .start()
            .expect("a cluster starts");
        assert_eq!(cluster.version(), version);
        Self { version, cluster }
    }

    fn what_differs(&self) {
        self.a_start_at_the_end_of_a_young_topic();
        self.the_id_of_a_message_that_was_sent_without_one();
        self.a_reset_while_a_member_is_online();
    }

    fn what_is_the_same(&self) {
        self.a_count_is_exact_and_the_rest_is_for_the_next_run();
        self.failures_come_again_and_end_as_dead_letters();
        self.java_and_ours_share_a_group();
        self.a_killed_broker_comes_back();
    }

    fn topic(&self, name: &str, queues: u32) -> Producer {
        self.cluster
            .create_topic(name, &[(0, queues)])
            .expect("a topic can be created");
        Producer::new(self.cluster.name_server(), name).expect("the topic has a route")
    }

    /// Before 5.0 a broker that still has everything in memory says that 0 is stored for a group it never saw.
    fn a_start_at_the_end_of_a_young_topic(&self) {
        const TOPIC: &str = "Young";
        let mut producer = self.topic(TOPIC, 1);
        producer.send_many(10).expect("messages are stored");
        let member = Member::start(
            self.cluster.name_server(),
            TOPIC,
            |builder| builder.start_at(StartAt::Latest),
            |_| Answer::Done,
        );
        member.ready();
        let new = producer.send_many(5).expect("messages are stored");
        let new: BTreeSet<String> = new
            .into_iter()
            .map(|one| String::from_utf8_lossy(&one.body).into_owned())
            .collect();
        member.wait_for_all(&new, LIMIT);
        thread::sleep(SECOND);
        let seen = member.bodies().len();
        member.shutdown();
        println!(
            "{}: a start at the end of a young topic sees {seen} of 15",
            self.version
        );
        assert_eq!(seen, if self.version < FIVE { 15 } else { 5 });
    }

    /// Java producers give ids; others may leave it to the broker, and before 5.0 that does not care.
    fn the_id_of_a_message_that_was_sent_without_one(&self) {
        const TOPIC: &str = "Nameless";
        let mut producer = self.topic(TOPIC, 1);
        producer.send("x").expect("it is stored");
        let member = Member::start(
            self.cluster.name_server(),
            TOPIC,
            |builder| builder,
            |seen| {
                if seen.reconsume_times < 2 {
                    Answer::Retry
                } else {
                    Answer::Done
                }
            },
        );
        let tries = wait_for("the second retry", LIMIT, || {
            let seen = member.sightings();
            (seen.len() == 3).then_some(seen)
        });
        member.shutdown();
        let ids: BTreeSet<&str> = tries.iter().map(|one| one.msg_id.as_str()).collect();
        println!(
            "{}: a message without id has the ids {ids:?} in its life",
            self.version
        );
        assert_eq!(ids.len(), if self.version < FIVE { 3 } else { 1 });
    }

    /// Since 5.0 the broker moves the offset and tells at the next pull; before that it asks the members to move.
    fn a_reset_while_a_member_is_online(&self) {
        const TOPIC: &str = "Reset";
        let mut producer = self.topic(TOPIC, 1);
        producer.send_many(20).expect("messages are stored");
        let member = Member::start(
            self.cluster.name_server(),
            TOPIC,
            |builder| builder,
            |_| Answer::Done,
        );
        let count = || member.sightings().len();
        wait_for("all messages", LIMIT, || (count() == 20).then_some(()));
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        wait_for("the commit", LIMIT, || {
            (admin.query_offset(TOPIC, TOPIC, 0).expect("an answer") == Some(20)).then_some(())
        });
        let fields: [(&str, &dyn std::fmt::Display); 4] = [
            ("topic", &TOPIC),
            ("group", &TOPIC),
            ("timestamp", &0),
            ("isForce", &true),
        ];
        let reply = admin
            .request(INVOKE_BROKER_TO_RESET_OFFSET, &fields, &[])
            .expect("the broker answers");
        assert_eq!(reply.code, 0, "{}", reply.remark);
        producer.send("a pull ends").expect("it is stored");
        wait_for("what comes after", LIMIT, || (count() > 20).then_some(()));
        thread::sleep(3 * SECOND);
        let moved = member
            .notices()
            .iter()
            .any(|(_, notice)| matches!(notice.kind, NoticeKind::OffsetReset { .. }));
        println!(
            "{}: after a reset {} deliveries, told {moved}",
            self.version,
            count()
        );
        assert_eq!((count(), moved), (41, true));
        member.shutdown();
    }

    fn a_count_is_exact_and_the_rest_is_for_the_next_run(&self) {
        const TOPIC: &str = "Count";
        self.topic(TOPIC, 3).send_many(100).expect("messages are stored");
        let mut seen = BTreeSet::new();
        for count in ["30", "70"] {
            let base = ["consume", TOPIC, "-g", TOPIC, "--from", "earliest", "-o", "json"];
            let more = ["-n", self.cluster.name_server(), "-c", count, "--idle-exit", "10"];
            let ran = support::run([base.as_slice(), &more].concat());
            assert_eq!(
                (ran.code, ran.lines().len().to_string().as_str()),
                (Some(0), count),
                "{}",
                ran.stderr
            );
            seen.extend(ran.lines().into_iter().map(|line| line["body"].to_string()));
        }
        assert_eq!(seen.len(), 100);
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        for queue in 0..3 {
            assert_eq!(
                admin.query_offset(TOPIC, TOPIC, queue).expect("an answer"),
                Some(admin.max_offset(TOPIC, queue).expect("an answer"))
            );
        }
    }

    fn failures_come_again_and_end_as_dead_letters(&self) {
        const TOPIC: &str = "Failing";
        let mut producer = self.topic(TOPIC, 2);
        producer.send_many(20).expect("messages are stored");
        let member = Member::start(
            self.cluster.name_server(),
            TOPIC,
            |builder| builder.max_reconsume(2),
            |seen| match (seen.body.as_str(), seen.reconsume_times) {
                ("7:", 0) => Answer::Retry,
                ("12:", _) => Answer::Fail,
                _ => Answer::Done,
            },
        );
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        let dead = format!("%DLQ%{TOPIC}");
        wait_for("the dead letter", LIMIT, || {
            (admin.max_offset(&dead, 0).ok()? == 1).then_some(())
        });
        let sightings = member.sightings();
        let mut tries = BTreeMap::<&str, Vec<u32>>::new();
        for Sighting {
            body,
            reconsume_times,
            ..
        } in &sightings
        {
            tries.entry(body).or_default().push(*reconsume_times);
        }
        assert_eq!(tries.remove("7:"), Some(vec![0, 1]));
        assert_eq!(tries.remove("12:"), Some(vec![0, 1, 2]));
        assert!(
            tries.len() == 18 && tries.values().all(|tries| tries == &[0]),
            "{tries:?}"
        );
        member.shutdown();
    }

    fn java_and_ours_share_a_group(&self) {
        const TOPIC: &str = "Shared";
        self.topic(TOPIC, 8);
        let loads = Loads::start(self.cluster.name_server(), TOPIC, 400, 2);
        let mut crowd = Crowd::new(&self.cluster, TOPIC, &[8]);
        crowd.ours_joins("10.0.0.10@ours-1");
        crowd.java_joins("10.0.0.1", "java-1");
        type Change = fn(&mut Crowd<'_>) -> Instant;
        let changes: [(&str, Change); 4] = [
            ("ours joins", |crowd| crowd.ours_joins("10.0.0.1@ours-2")),
            ("ours is killed", |crowd| crowd.ours_is_killed("10.0.0.10@ours-1")),
            ("ours joins", |crowd| crowd.ours_joins("10.0.0.100@ours-3")),
            ("ours leaves", |crowd| crowd.ours_leaves("10.0.0.1@ours-2")),
        ];
        for (what, change) in changes {
            let since = change(&mut crowd);
            crowd.agree(&format!("{}: {what}", self.version), since);
        }
        crowd.nothing_is_lost(&loads.stop());
        crowd.everybody_leaves();
    }

    fn a_killed_broker_comes_back(&self) {
        const TOPIC: &str = "Killed";
        self.topic(TOPIC, 4);
        let name_server = self.cluster.name_server();
        let member = Member::start(name_server, TOPIC, |builder| builder, |_| Answer::Done);
        member.ready();
        let load = Load::start(name_server, TOPIC, 200, 2, None);
        thread::sleep(3 * SECOND);
        let broker = self.cluster.broker(0);
        broker.kill().expect("it runs");
        broker.restart().expect("it starts again");
        let back_at = now();
        let first = wait_for("a message of the broker that came back", LIMIT, || {
            let seen = member.sightings();
            seen.iter().map(|one| one.at).find(|at| *at > back_at)
        });
        thread::sleep(2 * SECOND);
        let stored = load.stop();
        member.wait_for_all(&bodies_of(&stored), LIMIT);
        let again = member.sightings().len() - member.bodies().len();
        println!(
            "{}: first message {:?} after the broker was back; {} stored, {again} came twice",
            self.version,
            first - back_at,
            stored.len()
        );
        assert!(first - back_at <= 5 * SECOND, "{:?}", first - back_at);
        member.shutdown();
    }
}
