use alloc::vec::Vec;
use core::time::Duration;

use crate::broker::bench::*;
use crate::ids::{ConnId, QueueOffset, Topic};
use crate::wire::request::offsets::CommitOffsetRequest;
use crate::wire::request::stats::{
    ConnectionsRequest, ConsumeStatsRequest, QueueProgress, QueueStats, TopicGroupsRequest, TopicStatsRequest,
};

/// A member of `G` that has consumed two of three messages.
fn member() -> (Bench, ConnId) {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.store(&["A"]);
    bench.pass(Duration::from_secs(1));
    bench.store(&["A", "A"]);
    bench.do_it(conn, &pull(0));
    commit(&mut bench, conn, "G", 2);
    (bench, conn)
}

fn commit(bench: &mut Bench, conn: ConnId, group: &str, offset: i64) {
    let request = CommitOffsetRequest {
        group: group.into(),
        queue: queue_ref("T", 0),
        offset: QueueOffset(offset),
    };
    bench.do_it(conn, &request);
}

fn progress(group: &str, topic: Option<&str>, topics: &[&str]) -> ConsumeStatsRequest {
    ConsumeStatsRequest {
        group: group.into(),
        topic: topic.map(Into::into),
        topics: topics.iter().map(|topic| Topic::from(*topic)).collect(),
    }
}

#[test]
fn how_full_a_topic_is() {
    let (mut bench, conn) = member();
    let stats = bench.do_it(conn, &TopicStatsRequest { topic: "T".into() }).queues;
    let full = QueueStats {
        last_update: Some(WALL + Duration::from_secs(1)),
        max_offset: QueueOffset(3),
        min_offset: QueueOffset(0),
    };
    let empty = QueueStats {
        last_update: None,
        max_offset: QueueOffset(0),
        min_offset: QueueOffset(0),
    };
    assert_eq!(stats, [(queue(0), full), (queue(1), empty)].into());
    assert_eq!(
        bench.refused(conn, &TopicStatsRequest { topic: "None".into() }),
        17
    );
}

#[test]
fn how_far_a_group_is() {
    let (mut bench, conn) = member();
    let row = QueueProgress {
        broker_offset: QueueOffset(3),
        consumer_offset: QueueOffset(2),
        last_timestamp: Some(WALL + Duration::from_secs(1)),
        pull_offset: Some(QueueOffset(3)),
    };
    let mut rows = |request: ConsumeStatsRequest| bench.do_it(conn, &request).queues;
    assert_eq!(rows(progress("G", None, &[])).get(&queue(0)), Some(&row));
    for (request, count) in [
        (progress("G", Some("T"), &[]), 2),
        (progress("H", Some("T"), &[]), 2),
        (progress("H", None, &[]), 0),
        (progress("G", Some("TBW102"), &[]), 0),
        (progress("G", None, &["TBW102", "None"]), 8),
    ] {
        let name = alloc::format!("{request:?}");
        assert_eq!(rows(request).len(), count, "{name}");
    }
}

#[test]
fn who_belongs_to_a_group() {
    let (mut bench, conn) = member();
    let found = bench.do_it(conn, &ConnectionsRequest { group: "G".into() });
    let members: Vec<_> = found.connections.iter().map(|of| of.client_id.as_str()).collect();
    assert_eq!(members, ["a@1"]);
    assert_eq!(found.connections[0].language, "RUST");
    assert!(found.connections[0].client_addr.starts_with("10.1.0.1:"));
    let topics: Vec<_> = found.subscriptions.keys().map(Topic::as_str).collect();
    assert_eq!(topics, ["T"]);
    assert_eq!(
        bench.refused(conn, &ConnectionsRequest { group: "H".into() }),
        206
    );
}

#[test]
fn who_consumes_a_topic() {
    let (mut bench, conn) = member();
    let asked = |topic: &str| TopicGroupsRequest { topic: topic.into() };
    assert_eq!(bench.do_it(conn, &asked("T")).groups, ["G".into()].into());
    assert_eq!(bench.do_it(conn, &asked("None")).groups, [].into());
    bench.hang_up(conn);
    let conn = bench.client();
    assert_eq!(
        bench.do_it(conn, &asked("T")).groups,
        ["G".into()].into(),
        "its offsets are there"
    );
}

#[test]
fn naming_something_over_and_over_costs_nothing() {
    let mut bench = Bench::of(config().topic("wide", 1_024));
    let conn = bench.client();
    // Were each looked at, these would be two hundred million queues.
    let request = ConsumeStatsRequest {
        group: "G".into(),
        topic: None,
        topics: alloc::vec!["wide".into(); 200_000],
    };
    assert_eq!(bench.do_it(conn, &request).queues.len(), 1_024);
}
