use alloc::vec::Vec;
use core::time::Duration;

use crate::broker::bench::*;
use crate::broker::config::TopicConfig;
use crate::broker::event::Control;
use crate::ids::{ConnId, QueueId, QueueOffset};
use crate::time::WallTime;
use crate::wire::command::Header;
use crate::wire::request::groups::{SubscriptionGroupConfig, UpdateGroupRequest};
use crate::wire::request::heartbeat::MessageModel;
use crate::wire::request::pull::{PullAnswer, PullFilter, PullRequest, PullStatus};
use crate::wire::stored::{Scanned, Scanner};

const SECOND: Duration = Duration::from_secs(1);

/// A bench with a member of `G`, and the connection it is on.
fn member() -> (Bench, ConnId) {
    member_of(Bench::new(), "*")
}

fn member_of(mut bench: Bench, expression: &str) -> (Bench, ConnId) {
    let conn = bench.client();
    bench.do_it(conn, &heartbeat_with("a@1", "T", expression, 1));
    bench.pushed();
    (bench, conn)
}

/// The offsets of the messages in an answer.
fn offsets(answer: &PullAnswer) -> Vec<i64> {
    let scanned = Scanner::new(&answer.messages).map(|item| {
        let Scanned::Message(entry) = item else {
            panic!("{item:?}");
        };
        entry.queue_offset().0
    });
    scanned.collect()
}

fn with_filter(offset: i64, expression: &str, kind: Option<&str>) -> PullRequest {
    PullRequest {
        filter: Some(PullFilter {
            expression: expression.into(),
            expression_type: kind.map(Into::into),
        }),
        ..pull(offset)
    }
}

#[test]
fn the_first_check_that_fails_is_the_answer() {
    let (mut bench, conn) = member();
    bench.control(Control::PutTopic(TopicConfig {
        perm: 2,
        ..TopicConfig::new("W".into(), 1)
    }));
    bench.control(Control::PutTopic(TopicConfig::new("Other".into(), 1)));
    let disabled = SubscriptionGroupConfig {
        consume_enable: false,
        ..SubscriptionGroupConfig::new("Off".into())
    };
    bench.do_it(conn, &UpdateGroupRequest(disabled));
    let of = |group: &str, topic: &str, queue| PullRequest {
        group: group.into(),
        topic: topic.into(),
        queue: QueueId(queue),
        ..pull(0)
    };
    for (request, code) in [
        (of("no good", "T", 0), 26),
        (of("Off", "None", 0), 16),
        (of("G", "None", 9), 17),
        (of("G", "W", 9), 16),
        (of("G", "T", 2), 29),
        (of("G", "T", -1), 29),
        (with_filter(0, "||", None), 23),
        (with_filter(0, "*", Some("JS")), 23),
        (with_filter(0, "a = 1", Some("SQL92")), 1),
        (of("H", "T", 0), 24),
        (of("G", "Other", 0), 24),
        (
            PullRequest {
                sub_version: WallTime::from_unix_millis(2),
                ..pull(0)
            },
            25,
        ),
    ] {
        assert_eq!(bench.refused(conn, &request), code, "{request:?}");
    }
    for (request, forbidden) in [
        (of("Off", "T", 0), "2"),
        (of("G", "W", 0), "3"),
        (of("G", "T", 9), ""),
    ] {
        bench.send(conn, &request);
        let frames = bench.frames(conn);
        let header = Header::of(&frames[0]).expect("a header");
        assert_eq!(header.ext.get("forbiddenType").unwrap_or_default(), forbidden);
    }
}

#[test]
fn a_group_that_may_not_broadcast_is_refused() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let mut config = SubscriptionGroupConfig::new("G".into());
    config.consume_broadcast_enable = false;
    bench.do_it(conn, &UpdateGroupRequest(config));
    let mut beat = heartbeat("a@1");
    beat.consumers[0].message_model = Some(MessageModel::Broadcasting);
    bench.do_it(conn, &beat);
    assert_eq!(bench.refused(conn, &pull(0)), 16);
    beat.consumers[0].message_model = Some(MessageModel::Clustering);
    bench.do_it(conn, &beat);
    assert_eq!(bench.do_it(conn, &pull(0)).status, PullStatus::NotFound);
}

#[test]
fn a_registered_sql_condition_is_not_supported() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let mut beat = heartbeat("a@1");
    beat.consumers[0].subscriptions[0].expression_type = Some("SQL92".into());
    bench.do_it(conn, &beat);
    assert_eq!(bench.refused(conn, &pull(0)), 1);
}

#[test]
fn a_read_ends_as_the_queue_says() {
    let (mut bench, conn) = member_of(Bench::new(), "A");
    for (offset, status, next) in [(0, PullStatus::NotFound, 0), (5, PullStatus::OffsetMoved, 0)] {
        let answer = bench.do_it(conn, &pull(offset));
        assert_eq!(
            (answer.status, answer.next_begin_offset.0),
            (status, next),
            "{offset}"
        );
    }
    bench.store(&["A", "B", "A", "B", "B"]);
    bench.control(Control::Expire {
        queue: queue(0),
        min: QueueOffset(1),
    });
    for (offset, status, next, found) in [
        (-1, PullStatus::OffsetMoved, 1, [].as_slice()),
        (0, PullStatus::OffsetMoved, 1, &[]),
        (1, PullStatus::Found, 5, &[2]),
        (3, PullStatus::RetryImmediately, 5, &[]),
        (5, PullStatus::NotFound, 5, &[]),
        (6, PullStatus::OffsetMoved, 5, &[]),
    ] {
        let answer = bench.do_it(conn, &pull(offset));
        assert_eq!(
            (answer.status, answer.next_begin_offset.0),
            (status, next),
            "{offset}"
        );
        assert_eq!(offsets(&answer), found);
        let bounds = [answer.min_offset, answer.max_offset].map(|offset| offset.map(|offset| offset.0));
        assert_eq!((bounds, answer.suggest_broker_id), ([Some(1), Some(5)], Some(0)));
    }
}

#[test]
fn a_filter_of_its_own_needs_no_registration() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.store(&["A", "B", ""]);
    for (expression, found) in [("*", [0, 1, 2].as_slice()), ("A || C", &[0]), ("", &[0, 1, 2])] {
        let answer = bench.do_it(conn, &with_filter(0, expression, None));
        assert_eq!(offsets(&answer), found, "{expression}");
    }
}

#[test]
fn an_answer_has_no_more_messages_than_were_asked_for_and_one_at_least() {
    let (mut bench, conn) = member();
    bench.store(&[""; 40]);
    for (wanted, got) in [(0, 1), (1, 1), (7, 7), (32, 32), (1_000, 32), (-5, 1)] {
        let request = PullRequest {
            max_messages: wanted,
            ..pull(0)
        };
        assert_eq!(offsets(&bench.do_it(conn, &request)).len(), got, "{wanted}");
    }
}

#[test]
fn a_pull_waits_for_a_message_that_it_wants() {
    let (mut bench, conn) = member_of(Bench::new(), "A");
    let waiting = bench.send(conn, &long_pull(0, 15 * SECOND));
    assert!(bench.answer::<PullRequest>(waiting).is_none());
    assert_eq!(bench.state.held(), 1);
    bench.store(&["B"]);
    assert!(bench.answer::<PullRequest>(waiting).is_none(), "nobody wants B");
    bench.store(&["A"]);
    let answer = bench
        .answer::<PullRequest>(waiting)
        .expect("woken")
        .expect("found");
    assert_eq!((offsets(&answer), answer.next_begin_offset.0), ([1].into(), 2));
    assert_eq!(bench.state.held(), 0);
}

#[test]
fn what_nobody_wants_is_noticed_at_the_next_look() {
    let (mut bench, conn) = member_of(Bench::new(), "A");
    let waiting = bench.send(conn, &long_pull(0, 15 * SECOND));
    bench.store(&["B"]);
    bench.pass(4 * SECOND - Duration::from_micros(1));
    assert!(bench.answer::<PullRequest>(waiting).is_none());
    bench.pass(Duration::from_micros(1));
    let answer = bench
        .answer::<PullRequest>(waiting)
        .expect("looked at")
        .expect("20");
    assert_eq!(
        (answer.status, answer.next_begin_offset.0),
        (PullStatus::RetryImmediately, 1)
    );
}

#[test]
fn a_pull_that_waited_long_enough_is_answered_at_the_next_look() {
    // The bench begins at 1 s, brokers look at multiples of 5 s.
    for (wait, answered) in [(2, 4), (4, 4), (5, 9), (15, 19)] {
        let (mut bench, conn) = member();
        let waiting = bench.send(conn, &long_pull(0, wait * SECOND));
        bench.pass(answered * SECOND - Duration::from_micros(1));
        assert!(bench.answer::<PullRequest>(waiting).is_none(), "{wait}");
        bench.pass(Duration::from_micros(1));
        let answer = bench.answer::<PullRequest>(waiting).expect("its time is over");
        assert_eq!(answer.map(|answer| answer.status), Ok(PullStatus::NotFound));
        assert_eq!(bench.state.held(), 0, "it does not wait again");
    }
}

#[test]
fn without_long_polling_a_pull_waits_a_second_whatever_comes() {
    let mut config = config();
    config.settings.long_polling = false;
    let (mut bench, conn) = member_of(Bench::of(config), "*");
    let waiting = bench.send(conn, &long_pull(0, 15 * SECOND));
    bench.store(&["A"]);
    assert!(
        bench.answer::<PullRequest>(waiting).is_none(),
        "arrivals wake nobody"
    );
    bench.pass(SECOND);
    let answer = bench.answer::<PullRequest>(waiting).expect("after a second");
    assert_eq!(answer.map(|answer| answer.status), Ok(PullStatus::Found));
}

#[test]
fn a_pull_that_finds_no_room_to_wait_is_answered() {
    let mut config = config();
    config.settings.held_max = 1;
    let (mut bench, conn) = member_of(Bench::of(config), "*");
    bench.send(conn, &long_pull(0, 15 * SECOND));
    assert_eq!(
        bench.do_it(conn, &long_pull(0, 15 * SECOND)).status,
        PullStatus::NotFound
    );
    assert_eq!(bench.state.held(), 1);
}

#[test]
fn what_waits_on_a_connection_goes_with_it() {
    let (mut bench, conn) = member();
    bench.send(conn, &long_pull(0, 15 * SECOND));
    bench.hang_up(conn);
    assert_eq!(bench.state.held(), 0);
}

#[test]
fn a_commit_rides_on_the_first_execution_only() {
    let (mut bench, conn) = member();
    let commit = |offset, commit| PullRequest {
        commit: Some(QueueOffset(commit)),
        ..long_pull(offset, 15 * SECOND)
    };
    bench.send(conn, &commit(0, 3));
    assert_eq!(bench.committed("G"), Some(3));
    bench.send(
        conn,
        &PullRequest {
            suspend: None,
            ..commit(0, 2)
        },
    );
    assert_eq!(bench.committed("G"), Some(2), "backwards too");
    bench.store(&["A"]);
    assert_eq!(bench.state.held(), 0);
    assert_eq!(
        bench.committed("G"),
        Some(2),
        "what was held does not commit again"
    );
}

#[test]
fn a_slave_is_careful_while_its_master_runs() {
    let mut bench = Bench::of(with_slave());
    let conn = bench.connect(&slave());
    bench.do_it(conn, &heartbeat("a@1"));
    bench.store(&["A", "A"]);
    bench.control(Control::ReplicationLag {
        broker: broker(),
        lag: 10 * SECOND,
    });
    let ask = |bench: &mut Bench, offset| {
        let request = PullRequest {
            commit: Some(QueueOffset(77)),
            ..long_pull(offset, SECOND)
        };
        let answer = bench.do_it(conn, &request);
        (answer.status, answer.next_begin_offset.0, offsets(&answer).len())
    };
    // Nothing is there yet: the master may have more, so the offset is kept and nobody waits.
    assert_eq!(ask(&mut bench, 0), (PullStatus::RetryImmediately, 0, 0));
    assert_eq!(ask(&mut bench, 9), (PullStatus::RetryImmediately, 9, 0));
    bench.pass(10 * SECOND);
    assert_eq!(ask(&mut bench, 0), (PullStatus::Found, 2, 2));
    assert_eq!(ask(&mut bench, 2), (PullStatus::RetryImmediately, 2, 0));
    assert_eq!(bench.committed("G"), None, "only masters store commits");
}

#[test]
fn a_slave_without_master_shows_what_it_had() {
    let mut bench = Bench::of(with_slave());
    let conn = bench.connect(&slave());
    bench.do_it(conn, &heartbeat("a@1"));
    bench.control(Control::ReplicationLag {
        broker: broker(),
        lag: SECOND,
    });
    bench.store(&["A"]);
    bench.pass(2 * SECOND);
    bench.store(&["A"]);
    bench.control(Control::Crash(master()));
    bench.pass(60 * SECOND);
    let answer = bench.do_it(conn, &pull(0));
    assert_eq!((offsets(&answer), answer.next_begin_offset.0), ([0].into(), 1));
    assert_eq!(bench.do_it(conn, &pull(1)).status, PullStatus::NotFound);
    assert_eq!(bench.do_it(conn, &pull(7)).status, PullStatus::RetryImmediately);
    bench.control(Control::Start(master()));
    bench.pass(2 * SECOND);
    assert_eq!(offsets(&bench.do_it(conn, &pull(0))), [0, 1]);
}

#[test]
fn a_slow_consumer_is_sent_to_a_slave_if_slaves_may_be_read() {
    for (slave_read, behind, suggested) in [(false, 0, 0), (true, 1_000_000, 0), (true, 100, 1)] {
        let mut config = with_slave();
        config.settings.slave_read = slave_read;
        config.settings.in_memory_bytes = behind;
        let (mut bench, conn) = member_of(Bench::of(config), "*");
        bench.store(&["A"; 5]);
        let request = PullRequest {
            max_messages: 1,
            ..pull(0)
        };
        let answer = bench.do_it(conn, &request);
        assert_eq!(answer.suggest_broker_id, Some(suggested), "{slave_read} {behind}");
    }
}
