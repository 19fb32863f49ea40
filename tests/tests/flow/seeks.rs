//! Going on from another place in a queue.

use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::RefusalReason;
use rocketmq_consumer_core::event::{AppEvent, SeekTo};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::offsets::{OffsetAnswer, SearchOffsetRequest};
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullStatus};
use rocketmq_consumer_testing::world::{Bench, pull_answer, queue, secs};

use super::{COMMIT, NONE, PULL, commits, handed_out, one_queue, pause, queues, refusals, resume, seek};

#[test]
fn a_seek_begins_a_new_ownership_there_and_commits_it_at_once() {
    let mut bench = Bench::owning_one_queue(100, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 100..110, 3, 110);
    let old = bench.take_runs();
    let (late, _) = bench.expect_pull();
    let epoch = bench.queue(0).expect("it is owned").epoch;
    bench.tell(seek(SeekTo::Offset(QueueOffset(30))));
    assert_eq!(commits(&bench).last(), Some(&30), "at once");
    let status = bench.queue(0).expect("it is owned");
    assert!(status.epoch > epoch);
    assert_eq!(
        status.committed.map(|offset| offset.0),
        Some(30),
        "and acknowledged"
    );
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.offset.0, 30);
    // What handlers and brokers still say of the old ownership counts for nothing.
    for run in &old {
        bench.done(run);
    }
    bench.found_at(&late, 110..120, 3, 120);
    bench.sleep(secs(12));
    assert_eq!(handed_out(&mut bench), NONE);
    assert!(
        commits(&bench).iter().rev().take(3).all(|offset| *offset == 30),
        "{:?}",
        commits(&bench)
    );
    bench.found_at(&pull, 30..32, 3, 32);
    assert_eq!(handed_out(&mut bench), [30, 31]);
    assert_eq!(bench.status().groups[0].permits.1, 2);
}

#[test]
fn a_commit_of_a_seek_that_is_refused_is_sent_again() {
    let mut bench = Bench::owning_one_queue(100, |_, _| {});
    bench.refuse_all(COMMIT, ResponseCode::SYSTEM_BUSY);
    bench.tell(seek(SeekTo::Offset(QueueOffset(30))));
    bench.serve(COMMIT);
    bench.sleep(secs(6));
    assert_eq!(
        bench.queue(0).and_then(|queue| queue.committed),
        Some(QueueOffset(30))
    );
}

#[test]
fn a_place_is_found_first_and_asked_for_again_until_it_is() {
    let time = WallTime::from_unix_millis(1_600_000_000_000);
    for (to, code) in [
        (SeekTo::Earliest, RequestCode::GET_MIN_OFFSET),
        (SeekTo::Latest, RequestCode::GET_MAX_OFFSET),
        (SeekTo::Time(time), RequestCode::SEARCH_OFFSET_BY_TIMESTAMP),
    ] {
        let mut bench = Bench::owning_one_queue(100, |_, _| {});
        bench.drop_requests(PULL);
        bench.withhold(code);
        let questions = bench.sent(RequestCode::QUERY_CONSUMER_OFFSET).len();
        bench.tell(seek(to));
        let asked = bench.expect_request(code);
        if code == RequestCode::SEARCH_OFFSET_BY_TIMESTAMP {
            assert_eq!(asked.request::<SearchOffsetRequest>().timestamp, time);
        }
        assert_eq!(bench.outstanding(PULL).len(), 0, "the start is not known");
        bench.refuse(&asked, ResponseCode::SYSTEM_ERROR, "not now");
        bench.sleep(secs(1));
        let asked = bench.expect_request(code);
        bench.answer(
            &asked,
            &OffsetAnswer {
                offset: QueueOffset(77),
            },
        );
        assert_eq!(bench.expect_pull().1.offset.0, 77, "{to:?}");
        assert_eq!(commits(&bench).last(), Some(&77));
        let again = bench.sent(RequestCode::QUERY_CONSUMER_OFFSET);
        assert_eq!(
            again.len(),
            questions,
            "what is stored is where it should not begin"
        );
    }
}

#[test]
fn a_queue_on_its_way_may_be_sent_elsewhere_and_the_last_wish_wins() {
    let mut bench = Bench::owning_one_queue(100, |_, _| {});
    bench.withhold(RequestCode::GET_MIN_OFFSET);
    bench.drop_requests(PULL);
    bench.tell(seek(SeekTo::Earliest));
    let first = bench.expect_request(RequestCode::GET_MIN_OFFSET);
    bench.tell(seek(SeekTo::Offset(QueueOffset(55))));
    bench.answer(
        &first,
        &OffsetAnswer {
            offset: QueueOffset(3),
        },
    );
    assert_eq!(bench.expect_pull().1.offset.0, 55);
    assert_eq!(
        bench.queue(0).and_then(|queue| queue.next_offset),
        Some(QueueOffset(55))
    );
    assert_eq!(refusals(&bench), []);
}

#[test]
fn only_a_queue_that_is_ours_can_be_sought() {
    let mut bench = queues(1, |_| {});
    let not_ours = queue("T", "a", 5);
    bench.tell(AppEvent::Seek {
        group: "G".into(),
        queue: Box::new(not_ours.clone()),
        to: SeekTo::Earliest,
    });
    bench.tell(seek(SeekTo::Offset(QueueOffset(-1))));
    // Another member may still hold the queue.
    bench.set_queues("T", &[("a", 6)]);
    bench.set_members(&["c1", "c0"]);
    bench.notify("a");
    bench.sleep(secs(1));
    assert!(matches!(
        &refusals(&bench)[..],
        [RefusalReason::NotOwned(queue), RefusalReason::BadConfig("offset", _)] if *queue == not_ours
    ));
    let pulls = bench.sent(PULL).len();
    bench.tell(AppEvent::StopGroup {
        group: "G".into(),
        drain: Duration::ZERO,
    });
    bench.tell(seek(SeekTo::Earliest));
    assert!(refusals(&bench).len() == 3 && bench.sent(PULL).len() == pulls);
}

/// As with any other offset that a queue does not have, the broker's answer decides; it is asked thrice.
#[test]
fn a_place_beyond_the_end_is_judged_by_the_broker() {
    let mut bench = Bench::owning_one_queue(100, |_, _| {});
    bench.drop_requests(PULL);
    bench.tell(seek(SeekTo::Offset(QueueOffset(i64::MAX))));
    for _ in 0..3 {
        let (pull, _) = bench.expect_pull();
        let answer = PullAnswer {
            max_offset: Some(QueueOffset(120)),
            ..pull_answer(PullStatus::OffsetMoved, 120, Bytes::new())
        };
        bench.answer(&pull, &answer);
        bench.sleep(secs(2));
    }
    assert_eq!(bench.expect_pull().1.offset.0, 120);
    assert_eq!(commits(&bench).last(), Some(&120));
}

#[test]
fn a_queue_that_is_paused_may_be_sought_and_stays_paused() {
    let mut bench = Bench::owning_one_queue(100, |_, _| {});
    bench.tell(pause(one_queue(0)));
    bench.drop_requests(PULL);
    bench.tell(seek(SeekTo::Offset(QueueOffset(5))));
    assert_eq!(bench.outstanding(PULL).len(), 0);
    assert_eq!(commits(&bench).last(), Some(&5));
    bench.tell(resume(one_queue(0)));
    assert_eq!(bench.expect_pull().1.offset.0, 5);
}
