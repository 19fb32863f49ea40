//! Where a queue goes on after its broker has called an offset none of its own.

use bytes::Bytes;
use rocketmq_consumer_core::config::IllegalOffsetPolicy;
use rocketmq_consumer_core::event::{RunRange, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::{NoticeKind, OffsetTrouble};
use rocketmq_consumer_core::status::HoldReason;
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::offsets::StoredOffset;
use rocketmq_consumer_core::wire::request::offsets::{
    CommitOffsetRequest, OffsetAnswer, SearchOffsetRequest,
};
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullStatus};
use rocketmq_consumer_testing::world::{Bench, ms, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const SEARCH: RequestCode = RequestCode::SEARCH_OFFSET_BY_TIMESTAMP;

/// Where to go on, and what the queue has.
const fn moved(to: i64, min: i64, max: i64) -> PullAnswer {
    PullAnswer {
        status: PullStatus::OffsetMoved,
        next_begin_offset: QueueOffset(to),
        min_offset: Some(QueueOffset(min)),
        max_offset: Some(QueueOffset(max)),
        suggest_broker_id: None,
        offset_delta: None,
        reset: false,
        messages: Bytes::new(),
    }
}

/// Ten messages, of which all but number 3 are finished; the pull from 10 is at the broker.
fn all_but_3(policy: IllegalOffsetPolicy) -> Bench {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_illegal_offset(policy);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..10, 1, 10);
    for run in bench.take_runs() {
        for (position, offset) in (0..).zip(run.offsets()) {
            if offset != 3 {
                let range = RunRange {
                    start: position,
                    end: position + 1,
                };
                bench.report_part(&run, range, Verdict::Handled(Outcome::Done));
            }
        }
    }
    bench
}

/// Answers every pull from 10 so until another offset is asked for; how many that took, and which one it is.
fn answer_10(bench: &mut Bench, answer: &PullAnswer) -> (u32, i64) {
    for times in 0..9 {
        let (pull, request) = bench.expect_pull();
        if request.offset != QueueOffset(10) {
            return (times, request.offset.0);
        }
        bench.answer(&pull, answer);
        // What was stored after the newest message that was seen: the rest of the queue from 2 on.
        for search in bench.drop_requests(SEARCH) {
            let offset = QueueOffset(2);
            bench.answer(&search, &OffsetAnswer { offset });
        }
        if bench.outstanding(PULL).is_empty() {
            bench.sleep(secs(1));
        }
    }
    (9, 10)
}

/// Where it was told to go on because of illegal offsets, and why.
fn illegal(bench: &Bench) -> Vec<(i64, OffsetTrouble)> {
    let of = |kind: &NoticeKind| {
        if let NoticeKind::OffsetIllegal { to, why, .. } = kind {
            Some((to.0, *why))
        } else {
            None
        }
    };
    bench
        .notices()
        .iter()
        .filter_map(|notice| of(&notice.kind))
        .collect()
}

/// A master that has lost its end once named that end, and what was unfinished below it was never delivered again.
#[test]
fn a_broker_that_ends_earlier_takes_nothing_unfinished_along() {
    use OffsetTrouble::{BeyondEnd, Unconfirmed};
    for ((to, min, max), want) in [
        // It ends before what was asked for: three times, for it may have just come back.
        ((8, 0, 8), 2),
        ((2, 0, 2), 2),
        ((8, 5, 8), 2),
        ((0, 0, 0), 0),
    ] {
        let mut bench = all_but_3(IllegalOffsetPolicy::Resume);
        assert_eq!(
            answer_10(&mut bench, &moved(to, min, max)),
            (3, want),
            "to {to} of {min}..{max}"
        );
        assert_eq!(illegal(&bench), [(10, Unconfirmed), (want, BeyondEnd)]);
    }
    for ((to, min, max), want) in [((8, 0, 8), 3), ((2, 0, 2), 2), ((8, 5, 8), 5), ((0, 0, 9), 0)] {
        let mut bench = all_but_3(IllegalOffsetPolicy::Follow);
        assert_eq!(
            answer_10(&mut bench, &moved(to, min, max)),
            (3, want),
            "to {to} of {min}..{max}"
        );
    }
}

#[test]
fn somebodys_decision_is_followed_at_once_whatever_the_policy() {
    for ((to, min, max), reset) in [
        ((8, 0, 10), false),
        ((1, 0, 20), false),
        ((20, 0, 20), false),
        ((4, 0, 9), true),
        ((12, 12, 20), true),
    ] {
        for policy in [IllegalOffsetPolicy::Resume, IllegalOffsetPolicy::Hold] {
            let mut bench = all_but_3(policy);
            let answer = PullAnswer {
                reset,
                ..moved(to, min, max)
            };
            assert_eq!(answer_10(&mut bench, &answer), (1, to));
            let told = |kind: &NoticeKind| matches!(kind, NoticeKind::OffsetReset { asked, to: at, .. } if (asked.0, at.0) == (10, to));
            assert_eq!((bench.count_notices(told), illegal(&bench)), (1, vec![]));
            let commits = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET);
            let last = commits
                .last()
                .map(|asked| asked.request::<CommitOffsetRequest>().offset.0);
            assert_eq!(last, Some(to), "durable at once");
        }
    }
}

#[test]
fn messages_that_have_expired_are_passed_as_the_policy_says() {
    for (policy, want) in [
        (IllegalOffsetPolicy::Resume, 12),
        (IllegalOffsetPolicy::Follow, 12),
        (IllegalOffsetPolicy::Earliest, 12),
        (IllegalOffsetPolicy::Latest, 20),
    ] {
        let mut bench = all_but_3(policy);
        assert_eq!(answer_10(&mut bench, &moved(12, 12, 20)), (1, want), "{policy:?}");
        assert_eq!(illegal(&bench), [(want, OffsetTrouble::BelowMin)]);
    }
}

/// What was fetched in time and has expired since is all there is of it: another owner could not fetch it.
#[test]
fn what_expires_at_the_broker_while_we_have_it_is_handled_and_retried() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_concurrency(2);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..5, 1, 5);
    let with_handlers = bench.take_runs();
    let (pull, _) = bench.expect_pull();
    bench.answer(&pull, &moved(100, 100, 120));
    assert_eq!(illegal(&bench), [(100, OffsetTrouble::BelowMin)]);
    assert_eq!(bench.expect_pull().1.offset, QueueOffset(100));
    bench.serve(RequestCode::CONSUMER_SEND_MSG_BACK);
    for run in &with_handlers {
        bench.report(run, Verdict::Handled(Outcome::Retry));
    }
    let mut later = Vec::new();
    for _ in 0..3 {
        for run in bench.take_runs() {
            later.extend(run.offsets());
            bench.done(&run);
        }
    }
    assert_eq!(later, [2, 3, 4]);
    assert_eq!(bench.sent(RequestCode::CONSUMER_SEND_MSG_BACK).len(), 2);
    bench.sleep(secs(6));
    let commits = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET);
    let last = commits
        .last()
        .map(|asked| asked.request::<CommitOffsetRequest>().offset.0);
    assert_eq!(last, Some(100));
}

/// As above, from a broker that says so of every offset.
#[test]
fn expiry_without_end_is_paced_while_something_is_unfinished() {
    let mut bench = all_but_3(IllegalOffsetPolicy::Resume);
    let started = bench.now();
    for round in 0..20 {
        let (pull, request) = bench.expect_pull();
        let min = request.offset.0 + 1;
        bench.answer(&pull, &moved(min, min, min + 10));
        if round > 0 {
            assert!(bench.outstanding(PULL).is_empty());
            bench.sleep(secs(1));
        }
    }
    assert!(bench.now().saturating_since(started) >= secs(19));
}

/// Pauses for its flow control say nothing of where the queue ends.
#[test]
fn a_broker_that_was_busy_is_doubted_as_often_as_any_other() {
    let mut bench = all_but_3(IllegalOffsetPolicy::Follow);
    for _ in 0..5 {
        let (pull, _) = bench.expect_pull();
        bench.nothing(&pull, PullStatus::RetryImmediately, 10);
        bench.sleep(secs(1));
    }
    assert_eq!(answer_10(&mut bench, &moved(0, 0, 0)), (3, 0));
}

#[test]
fn a_held_queue_waits_visibly_until_it_is_reset_or_the_offset_is_legal_again() {
    for reset in [true, false] {
        let mut bench = all_but_3(IllegalOffsetPolicy::Hold);
        let (pull, _) = bench.expect_pull();
        bench.answer(&pull, &moved(12, 12, 20));
        let held = bench.queue(0).and_then(|queue| queue.hold);
        assert_eq!(held, Some(HoldReason::OffsetIllegal));
        assert_eq!(illegal(&bench), [(10, OffsetTrouble::BelowMin)]);
        bench.sleep(secs(29));
        assert!(bench.outstanding(PULL).is_empty());
        bench.sleep(secs(1));
        let (pull, request) = bench.expect_pull();
        assert_eq!(request.offset, QueueOffset(10));
        let answer = if reset {
            PullAnswer {
                reset,
                ..moved(15, 12, 20)
            }
        } else {
            PullAnswer {
                status: PullStatus::NotFound,
                ..moved(10, 0, 10)
            }
        };
        bench.answer(&pull, &answer);
        assert_eq!(bench.expect_pull().1.offset.0, if reset { 15 } else { 10 });
    }
}

#[test]
fn what_is_new_is_asked_for_by_the_time_of_the_newest_message_that_was_seen() {
    let mut bench = all_but_3(IllegalOffsetPolicy::Resume);
    for _ in 0..3 {
        let (pull, _) = bench.expect_pull();
        bench.answer(&pull, &moved(5, 0, 5));
        bench.sleep(secs(1));
    }
    let search = bench.expect_request(SEARCH);
    let newest = bench
        .sent(SEARCH)
        .last()
        .map(|asked| asked.request::<SearchOffsetRequest>().timestamp);
    // Messages of the bench were all stored at the beginning of time.
    let stored_at = WallTime::default();
    assert_eq!(newest, Some(stored_at.minus(secs(1))));
    // The answer is lost, and the stored offset, 3, is legal now.
    bench.answer(
        &search,
        &OffsetAnswer {
            offset: QueueOffset(4),
        },
    );
    assert_eq!(bench.expect_pull().1.offset, QueueOffset(3), "3 is not finished");
}

/// A broker that moves us, and moves us again, sets the pace of nobody but itself.
#[test]
fn moves_without_end_are_paced() {
    let mut bench = Bench::owning_one_queue(10, |_, _| {});
    let started = bench.now();
    for round in 0..20 {
        let (pull, request) = bench.expect_pull();
        let min = request.offset.0 + 1;
        bench.answer(&pull, &moved(min, min, min + 10));
        if round > 0 {
            assert!(bench.outstanding(PULL).is_empty());
            bench.sleep(secs(1));
        }
    }
    assert!(bench.now().saturating_since(started) >= secs(19));
    let (pull, _) = bench.expect_pull();
    bench.nothing(&pull, PullStatus::NotFound, 40);
    let (pull, _) = bench.expect_pull();
    bench.answer(&pull, &moved(50, 50, 60));
    bench.sleep(ms(1));
    assert_eq!(
        bench.expect_pull().1.offset.0,
        50,
        "one that serves is followed at once"
    );
}

/// The end of all numbers is a position like any other, and a negative one is none.
#[test]
fn absurd_positions_are_survived_and_negative_ones_are_asked_for_again() {
    let mut bench = Bench::owning_one_queue(i64::MAX, |_, _| {});
    for _ in 0..3 {
        let (pull, request) = bench.expect_pull();
        assert_eq!(request.offset.0, i64::MAX);
        bench.answer(&pull, &moved(7, 0, 7));
        bench.sleep(secs(1));
    }
    assert_eq!(bench.expect_pull().1.offset.0, 7, "nothing was seen: its end");

    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.withhold(RequestCode::QUERY_CONSUMER_OFFSET);
    bench.settle();
    for _ in 0..3 {
        let asked = bench.expect_request(RequestCode::QUERY_CONSUMER_OFFSET);
        bench.answer(&asked, &StoredOffset(Some(QueueOffset(-5))));
        assert!(
            bench.sent(PULL).is_empty() && bench.outstanding(RequestCode::QUERY_CONSUMER_OFFSET).is_empty()
        );
        bench.sleep(secs(1));
    }
    let told = bench.count_notices(|kind| {
        matches!(
            kind,
            NoticeKind::RequestRefused {
                request: "query offset",
                ..
            }
        )
    });
    assert_eq!(told, 1);
}
