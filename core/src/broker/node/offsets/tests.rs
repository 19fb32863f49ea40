use core::time::Duration;

use crate::broker::bench::*;
use crate::broker::event::Control;
use crate::broker::observation::Observation;
use crate::ids::QueueOffset;
use crate::time::WallTime;
use crate::wire::command::{ExtWriter, WriteExt};
use crate::wire::request::offsets::{
    Boundary, CommitOffsetRequest, EarliestStoreTimeRequest, MaxOffsetRequest, MinOffsetRequest,
    QueryOffsetRequest, SearchOffsetRequest,
};

const SECOND: Duration = Duration::from_secs(1);

fn query(topic: &str, zero: Option<bool>) -> QueryOffsetRequest {
    QueryOffsetRequest {
        group: "G".into(),
        queue: queue_ref(topic, 0),
        set_zero_if_not_found: zero,
    }
}

fn commit(group: &str, topic: &str, offset: i64) -> CommitOffsetRequest {
    CommitOffsetRequest {
        group: group.into(),
        queue: queue_ref(topic, 0),
        offset: QueueOffset(offset),
    }
}

#[test]
fn a_new_group_begins_with_the_first_message_of_a_young_queue() {
    let mut config = config();
    config.settings.in_memory_bytes = 1_000;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    let asked = |bench: &mut Bench| {
        [None, Some(true), Some(false)].map(|zero| bench.do_it(conn, &query("T", zero)).0.map(|at| at.0))
    };
    assert_eq!(asked(&mut bench), [None, None, None], "an empty queue");
    bench.store(&["A"]);
    assert_eq!(asked(&mut bench), [Some(0), Some(0), None], "a young one");
    bench.store(&["A"; 20]);
    assert_eq!(
        asked(&mut bench),
        [None, None, None],
        "its first message is far back"
    );
    bench.control(Control::PutTopic(crate::broker::config::TopicConfig::new(
        "U".into(),
        1,
    )));
    assert_eq!(bench.do_it(conn, &query("nothing", None)).0, None);
}

#[test]
fn an_expired_beginning_is_not_young() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.store(&["A", "A"]);
    bench.control(Control::Expire {
        queue: queue(0),
        min: QueueOffset(1),
    });
    assert_eq!(bench.do_it(conn, &query("T", None)).0, None);
}

#[test]
fn a_commit_overwrites_whatever_was_there() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.state.observe(10);
    assert_eq!(
        bench.refused(conn, &commit("G", "T", 5)),
        26,
        "no such group, and none is made"
    );
    bench.do_it(conn, &heartbeat("a@1"));
    assert_eq!(bench.refused(conn, &commit("G", "None", 5)), 17);
    for offset in [5, 1_000, 2] {
        bench.do_it(conn, &commit("G", "T", offset));
        assert_eq!(bench.do_it(conn, &query("T", None)).0, Some(QueueOffset(offset)));
        assert_eq!(bench.committed("G"), Some(offset));
    }
    bench.do_it(conn, &commit("G", "T", -1));
    assert_eq!(bench.do_it(conn, &query("T", None)).0, None);
    let committed = bench.observations().into_iter().filter_map(|seen| {
        let Observation::Committed { offset, conn: by, .. } = seen else {
            return None;
        };
        (by == Some(conn)).then_some(offset.0)
    });
    assert_eq!(committed.collect::<alloc::vec::Vec<_>>(), [5, 1_000, 2, -1]);
}

#[test]
fn one_way_commits_count() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.pushed();
    bench.send_oneway(conn, &commit("G", "T", 5));
    assert_eq!((bench.committed("G"), bench.frames(conn).len()), (Some(5), 0));
}

#[test]
fn a_slave_takes_commits_and_keeps_none() {
    let mut bench = Bench::of(with_slave());
    let conn = bench.connect(&slave());
    bench.do_it(conn, &heartbeat("a@1"));
    bench.do_it(conn, &commit("G", "T", 5));
    assert_eq!(bench.committed("G"), None);
}

#[test]
fn a_crash_takes_back_what_no_tick_has_flushed() {
    for (crash, want) in [(true, Some(3)), (false, Some(4))] {
        let mut bench = Bench::new();
        let conn = bench.client();
        bench.do_it(conn, &heartbeat("a@1"));
        // The bench begins at 1 s; offsets are flushed at multiples of 5 s.
        bench.do_it(conn, &commit("G", "T", 3));
        bench.pass(5 * SECOND);
        bench.do_it(conn, &commit("G", "T", 4));
        bench.pass(SECOND);
        bench.control(if crash {
            Control::Crash(master())
        } else {
            Control::Stop(master())
        });
        bench.control(Control::Start(master()));
        assert_eq!(bench.committed("G"), want, "{crash}");
        assert_eq!(bench.closed, [conn]);
    }
}

#[test]
fn offsets_have_a_limit() {
    let mut config = config();
    config.settings.offsets_max = 1;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.do_it(conn, &commit("G", "T", 3));
    let other = CommitOffsetRequest {
        queue: queue_ref("T", 1),
        ..commit("G", "T", 3)
    };
    assert_eq!(bench.refused(conn, &other), 1);
    bench.do_it(conn, &commit("G", "T", 4));
    assert_eq!(bench.committed("G"), Some(4));
}

#[test]
fn bounds_and_times() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.store(&["A"]);
    bench.pass(10 * SECOND);
    bench.store(&["A", "A"]);
    bench.control(Control::Expire {
        queue: queue(0),
        min: QueueOffset(1),
    });
    for (topic, min, max) in [("T", 1, 3), ("None", 0, 0)] {
        let queue = queue_ref(topic, 0);
        let asked = MaxOffsetRequest {
            queue: queue.clone(),
            committed: None,
        };
        assert_eq!(bench.do_it(conn, &asked).offset.0, max);
        assert_eq!(bench.do_it(conn, &MinOffsetRequest { queue }).offset.0, min);
    }
    let stored = WALL + 10 * SECOND;
    let earliest = EarliestStoreTimeRequest {
        queue: queue_ref("T", 0),
    };
    assert_eq!(bench.do_it(conn, &earliest).0, Some(stored));
    for (time, boundary, offset) in [
        (WALL, None, 1),
        (stored, Some(Boundary::Lower), 1),
        (stored, Some(Boundary::Upper), 2),
        (stored + SECOND, None, 3),
        (WallTime::from_unix_millis(-1), None, 1),
    ] {
        let asked = SearchOffsetRequest {
            queue: queue_ref("T", 0),
            timestamp: time,
            boundary,
        };
        assert_eq!(
            bench.do_it(conn, &asked).offset.0,
            offset,
            "{time:?} {boundary:?}"
        );
    }
}

#[test]
fn a_commit_that_lacks_something_is_an_illegal_parameter_and_a_query_an_error() {
    struct Bare;
    impl WriteExt for Bare {
        fn write_ext(&self, out: &mut ExtWriter<'_>) {
            out.text("consumerGroup", "G");
            out.text("topic", "T");
        }
    }
    let mut bench = Bench::new();
    let conn = bench.client();
    for (code, refusal) in [
        (15, 29),
        (14, 1),
        (11, 1),
        (30, 1),
        (38, 1),
        (36, 1),
        (310, 1),
        (41, 1),
        (34, 1),
    ] {
        let answer = bench.ask_raw(conn, code, &Bare);
        assert_eq!(answer, refusal, "{code}");
    }
}
