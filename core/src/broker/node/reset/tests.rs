use alloc::vec::Vec;
use core::time::Duration;

use crate::broker::bench::*;
use crate::ids::{ConnId, QueueId, QueueOffset};
use crate::time::WallTime;
use crate::wire::request::decode_request;
use crate::wire::request::offsets::{CommitOffsetRequest, QueryOffsetRequest};
use crate::wire::request::operator::ResetOffsetRequest;
use crate::wire::request::pull::{PullRequest, PullStatus};
use crate::wire::request::reset::OperatorResetRequest;

const SECOND: Duration = Duration::from_secs(1);

/// A member of `G`, five messages in queue 0 and what it has stored of them.
fn member(server_side: bool) -> (Bench, ConnId) {
    let mut config = config();
    config.settings.server_side_reset = server_side;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.store(&["A"; 2]);
    bench.pass(10 * SECOND);
    bench.store(&["A"; 3]);
    bench.pushed();
    (bench, conn)
}

fn to_time(millis: i64) -> OperatorResetRequest {
    OperatorResetRequest {
        group: "G".into(),
        topic: "T".into(),
        timestamp: WallTime::from_unix_millis(millis),
        force: true,
        queue: None,
        offset: None,
    }
}

fn to_offset(queue: i32, offset: i64) -> OperatorResetRequest {
    OperatorResetRequest {
        queue: Some(QueueId(queue)),
        offset: Some(QueueOffset(offset)),
        ..to_time(0)
    }
}

fn commit(queue: i32, offset: i64) -> CommitOffsetRequest {
    CommitOffsetRequest {
        group: "G".into(),
        queue: queue_ref("T", queue),
        offset: QueueOffset(offset),
    }
}

fn query() -> QueryOffsetRequest {
    QueryOffsetRequest {
        group: "G".into(),
        queue: queue_ref("T", 0),
        set_zero_if_not_found: Some(false),
    }
}

fn rows(bench: &mut Bench, conn: ConnId, request: &OperatorResetRequest) -> Vec<(i32, i64)> {
    let rows = bench.do_it(conn, request).offsets;
    rows.into_iter()
        .map(|(queue, offset)| (queue.id.0, offset.0))
        .collect()
}

#[test]
fn the_next_pull_is_told_once_and_commits_are_swallowed_until_then() {
    let (mut bench, conn) = member(true);
    bench.do_it(conn, &commit(0, 4));
    assert_eq!(rows(&mut bench, conn, &to_offset(0, 1)), [(0, 1)]);
    assert_eq!(bench.do_it(conn, &query()).0, Some(QueueOffset(1)));
    bench.do_it(conn, &commit(0, 5));
    assert_eq!(bench.do_it(conn, &query()).0, Some(QueueOffset(1)), "swallowed");
    let answer = bench.do_it(conn, &pull(4));
    assert_eq!(
        (answer.status, answer.next_begin_offset.0),
        (PullStatus::OffsetMoved, 1)
    );
    assert_eq!(bench.do_it(conn, &pull(4)).status, PullStatus::Found);
    bench.do_it(conn, &commit(0, 5));
    assert_eq!(bench.committed("G"), Some(5));
}

#[test]
fn a_commit_on_the_pull_that_is_told_overwrites_the_reset() {
    let (mut bench, conn) = member(true);
    bench.do_it(conn, &to_offset(0, 1));
    let stale = PullRequest {
        commit: Some(QueueOffset(4)),
        ..pull(4)
    };
    assert_eq!(bench.do_it(conn, &stale).next_begin_offset.0, 1);
    assert_eq!(bench.committed("G"), Some(4), "the client repairs that");
}

#[test]
fn a_pull_that_waits_hears_of_a_reset_when_its_time_is_over() {
    let (mut bench, conn) = member(true);
    let waiting = bench.send(conn, &long_pull(5, 5 * SECOND));
    bench.do_it(conn, &to_offset(0, 1));
    assert!(bench.answer::<PullRequest>(waiting).is_none());
    bench.pass(10 * SECOND);
    let answer = bench
        .answer::<PullRequest>(waiting)
        .expect("its time is over")
        .expect("21");
    assert_eq!(
        (answer.status, answer.next_begin_offset.0),
        (PullStatus::OffsetMoved, 1)
    );
}

#[test]
fn targets() {
    let second = (WALL + 10 * SECOND).as_unix_millis();
    for (request, want) in [
        (to_time(0), [(0, 0), (1, 0)].as_slice()),
        (to_time(-1), &[(0, 5), (1, 0)]),
        (to_time(second), &[(0, 2), (1, 0)]),
        (to_time(second + 1), &[(0, 5), (1, 0)]),
        (to_offset(0, 6), &[(0, 6)]),
        (to_offset(9, 0), &[(9, 0)]),
        (
            OperatorResetRequest {
                offset: None,
                ..to_offset(0, 0)
            },
            &[(0, 0)],
        ),
    ] {
        let (mut bench, conn) = member(true);
        assert_eq!(rows(&mut bench, conn, &request), want, "{request:?}");
    }
}

#[test]
fn resets_that_are_refused() {
    let (mut bench, conn) = member(true);
    let other = |group: &str, topic: &str| OperatorResetRequest {
        group: group.into(),
        topic: topic.into(),
        ..to_time(0)
    };
    for (request, code) in [
        (other("G", "None"), 17),
        (other("H", "T"), 26),
        (to_offset(0, 7), 1),
        (to_offset(9, 2), 1),
    ] {
        assert_eq!(bench.refused(conn, &request), code, "{request:?}");
    }
    let mut bench = Bench::of(with_slave());
    let conn = bench.connect(&slave());
    assert_eq!(bench.refused(conn, &to_time(0)), 1);
}

#[test]
fn an_older_broker_tells_the_members_and_stores_nothing() {
    let (mut bench, conn) = member(false);
    assert_eq!(bench.refused(conn, &to_time(0)), 1, "nothing is stored yet");
    bench.do_it(conn, &commit(0, 3));
    bench.do_it(conn, &commit(1, 0));
    for (force, time, target) in [(true, -1, 5), (false, -1, 3), (false, 0, 0)] {
        let request = OperatorResetRequest {
            force,
            ..to_time(time)
        };
        bench.send(conn, &request);
        let frames = bench.frames(conn);
        let order = decode_request::<ResetOffsetRequest>(&frames[0]).expect("220");
        let targets: Vec<i64> = order.offsets.values().map(|offset| offset.0).collect();
        assert_eq!((targets, order.force), ([target, 0].into(), force));
        assert_eq!((frames.len(), bench.committed("G")), (2, Some(3)));
    }
    bench.hang_up(conn);
    let conn = bench.client();
    assert_eq!(bench.refused(conn, &to_time(0)), 206);
}

#[test]
fn a_restart_keeps_the_offset_and_forgets_that_nobody_was_told() {
    let (mut bench, conn) = member(true);
    bench.do_it(conn, &to_offset(0, 1));
    bench.control(crate::broker::event::Control::Stop(master()));
    bench.control(crate::broker::event::Control::Start(master()));
    assert_eq!(bench.committed("G"), Some(1));
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    assert_eq!(bench.do_it(conn, &pull(4)).status, PullStatus::Found);
}
