//! Apache RocketMQ's own tool, asked about members of ours: what it shows is true, and what it orders is done.
#![cfg(unix)]

#[path = "support/outage_tools.rs"]
mod outage_tools;
mod support;

use std::time::Duration;

use outage_tools::{Answer, Member, now, wait_for};
use rocketmq_consumer_testing::rocketmq::{Cluster, Producer};
use rocketmq_consumer_tokio::NoticeKind;
use serde_json::json;
use support::{run, side_by_side};

/// For what has no limit of its own, on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);
/// What a reset may take where the broker tells of it with the next pull: that one's hold, and its sweep.
const RESET: Duration = Duration::from_secs(25);
/// The same where the members are told at once, on a busy machine.
const RESET_AT_ONCE: Duration = Duration::from_secs(5);
const INVOKE_BROKER_TO_GET_CONSUMER_STATUS: i32 = 223;
const QUEUES: u32 = 2;
const MESSAGES: u64 = 20;

/// Steps have topics and groups of their own, so they share one cluster; the last one changes the broker.
#[test]
fn the_real_tool_sees_and_moves_our_members() {
    let cluster = Cluster::builder().brokers(1).start().expect("a cluster starts");
    let bench = Bench { cluster };
    let steps: [fn(&Bench); 3] = [
        Bench::a_reset_moves_a_running_group,
        Bench::every_view_shows_what_is_true,
        Bench::a_message_is_consumed_by_hand,
    ];
    side_by_side(&bench, &steps);
    bench.a_reset_that_the_broker_leaves_to_the_members();
}

struct Bench {
    cluster: Cluster,
}

impl Bench {
    /// A member that has handled and committed every message of its topic.
    fn member(&self, topic: &str) -> Member {
        self.cluster
            .create_topic(topic, &[(0, QUEUES)])
            .expect("a topic can be created");
        let mut producer = Producer::new(self.cluster.name_server(), topic).expect("the topic has a route");
        producer.send_many(MESSAGES).expect("messages are stored");
        let name_server = self.cluster.name_server();
        let member = Member::start(name_server, topic, |builder| builder, |_| Answer::Done);
        let count = || member.sightings().len() as u64;
        wait_for("all messages", LIMIT, || (count() == MESSAGES).then_some(()));
        wait_for("the commits", LIMIT, || {
            (self.committed(topic) == MESSAGES).then_some(())
        });
        member
    }

    /// What the broker has of the group's progress, over both queues.
    fn committed(&self, topic: &str) -> u64 {
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        let offset = |queue| {
            admin
                .query_offset(topic, topic, queue)
                .expect("an answer")
                .unwrap_or(0)
        };
        let sum: i64 = (0..QUEUES).map(offset).sum();
        sum.unsigned_abs()
    }

    /// What the tool prints.
    fn mqadmin(&self, args: &[&str]) -> String {
        let output = self.cluster.mqadmin(args).expect("Java starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout);
        println!("mqadmin {}\n{said}{}", args.join(" "), text(&output.stderr));
        said
    }

    fn reset(&self, topic: &str) {
        let said = self.mqadmin(&[
            "resetOffsetByTime",
            "-g",
            topic,
            "-t",
            topic,
            "-s",
            "0",
            "-f",
            "true",
        ]);
        assert!(said.contains(topic) && said.contains("broker-a"), "{said}");
    }

    /// Everything comes again within the limit, and then counts as finished again.
    fn comes_again(&self, member: &Member, topic: &str, limit: Duration) {
        let begun = now();
        let count = || member.sightings().len() as u64;
        wait_for("all of it again", limit, || {
            (count() >= 2 * MESSAGES).then_some(())
        });
        println!("{topic}: all of it again after {:?}", begun.elapsed());
        let resets = |kind: &NoticeKind| matches!(kind, NoticeKind::OffsetReset { to, .. } if to.0 == 0);
        let told = member
            .notices()
            .iter()
            .filter(|(_, notice)| resets(&notice.kind))
            .count();
        assert_eq!((count(), told), (2 * MESSAGES, QUEUES as usize));
        wait_for("the commits", LIMIT, || {
            (self.committed(topic) == MESSAGES).then_some(())
        });
    }

    fn a_reset_moves_a_running_group(&self) {
        const TOPIC: &str = "ResetByBroker";
        let member = self.member(TOPIC);
        self.reset(TOPIC);
        self.comes_again(&member, TOPIC, RESET);
        member.shutdown();
    }

    /// As all brokers did before 5.2, and those do that are set to.
    fn a_reset_that_the_broker_leaves_to_the_members(&self) {
        const TOPIC: &str = "ResetByMembers";
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        admin
            .update_broker_config(&[("useServerSideResetOffset", "false")])
            .expect("a setting that can be changed");
        let member = self.member(TOPIC);
        self.reset(TOPIC);
        self.comes_again(&member, TOPIC, RESET_AT_ONCE);
        member.shutdown();
    }

    fn every_view_shows_what_is_true(&self) {
        const TOPIC: &str = "Views";
        let member = self.member(TOPIC);
        let id = member.status().client_id.to_string();

        let connection = self.mqadmin(&["consumerConnection", "-g", TOPIC]);
        for words in [
            id.as_str(),
            "RUST",
            "V5_5_0",
            "CONSUME_PASSIVELY",
            "CLUSTERING",
            "CONSUME_FROM_FIRST_OFFSET",
        ] {
            assert!(connection.contains(words), "{words} is not in {connection}");
        }

        let progress = self.mqadmin(&["consumerProgress", "-g", TOPIC, "-s", "true"]);
        let rows: Vec<&str> = progress.lines().filter(|line| line.starts_with(TOPIC)).collect();
        let ip = id.split('@').next().expect("an id");
        assert_eq!(rows.len(), QUEUES as usize, "{progress}");
        assert!(
            rows.iter().all(|row| row.contains(ip)),
            "{ip} owns them: {progress}"
        );

        let status = self.mqadmin(&["consumerStatus", "-g", TOPIC, "-i", &id, "-s"]);
        for words in [
            "PROP_CONSUME_TYPE",
            "CONSUME_PASSIVELY",
            "PROP_CLIENT_VERSION",
            "V5_5_0",
            "PROP_THREADPOOL_CORE_SIZE",
            "rocketmqConsumerVersion",
            "%RETRY%Views",
            "#Consumer jstack#",
            "group Views is Running",
        ] {
            assert!(status.contains(words), "{words} is not in {status}");
        }
        let offsets: Vec<&str> = status
            .lines()
            .skip_while(|line| !line.starts_with("#Consumer Offset#"))
            .take_while(|line| !line.starts_with("#Consumer MQ Detail#"))
            .filter(|line| line.starts_with(TOPIC))
            .collect();
        assert!(offsets.len() == QUEUES as usize, "{offsets:?}");
        assert!(
            offsets.iter().all(|row| row.trim_end().ends_with("10")),
            "{offsets:?}"
        );

        // The tool of 5.5.0 has no command for it any more; its library and its broker have.
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        let fields: [(&str, &dyn std::fmt::Display); 2] = [("group", &TOPIC), ("topic", &TOPIC)];
        let told = admin
            .request(INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &fields, &[])
            .expect("the broker answers");
        let told = String::from_utf8_lossy(&told.body).into_owned();
        let of_queues = (0..QUEUES).map(|queue| format!(r#""queueId":{queue},"topic":"Views"}}:10"#));
        for words in of_queues.chain([id.clone()]) {
            assert!(told.contains(&words), "{words} is not in {told}");
        }

        let ran = run([
            "lag",
            "-g",
            TOPIC,
            "-t",
            TOPIC,
            "-o",
            "json",
            "-n",
            self.cluster.name_server(),
        ]);
        let owners: Vec<_> = ran.lines().iter().map(|line| line["owner"].clone()).collect();
        assert_eq!(
            (ran.code, owners),
            (Some(0), vec![json!(id); QUEUES as usize]),
            "{}",
            ran.stderr
        );
        member.shutdown();
    }

    fn a_message_is_consumed_by_hand(&self) {
        const TOPIC: &str = "ByHand";
        let member = self.member(TOPIC);
        let id = member.status().client_id.to_string();
        let first = member.sightings().remove(0);
        let said = self.mqadmin(&[
            "queryMsgByUniqueKey",
            "-t",
            TOPIC,
            "-i",
            &first.msg_id,
            "-g",
            TOPIC,
            "-d",
            &id,
        ]);
        assert!(said.contains("CR_SUCCESS"), "{said}");
        let last = member.sightings().pop().expect("one more");
        assert_eq!(
            (last.body.as_str(), last.queue_offset),
            (first.body.as_str(), first.queue_offset)
        );
        assert_eq!(member.sightings().len() as u64, MESSAGES + 1, "once");
        assert_eq!(self.committed(TOPIC), MESSAGES, "no offset has moved");
        let by_hand = |kind: &NoticeKind| matches!(kind, NoticeKind::ConsumedDirectly { result, .. } if *result == "CR_SUCCESS");
        assert!(member.notices().iter().any(|(_, notice)| by_hand(&notice.kind)));
        member.shutdown();
    }
}
