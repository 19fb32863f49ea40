//! Queues that stand still: that it is told, why, and that they go on.

use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::config::{GroupConfig, UndecodablePolicy};
use rocketmq_consumer_core::event::Verdict;
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::{NoticeKind, StallReason};
use rocketmq_consumer_core::status::{HoldReason, QueueState};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_testing::world::{Bench, Run, ms, pull_answer, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;

fn delivered(offsets: std::ops::Range<i64>, set_up: impl FnOnce(&mut GroupConfig)) -> (Bench, Run) {
    let mut bench = Bench::owning_one_queue(offsets.start, |_, group| set_up(group));
    let (pull, _) = bench.expect_pull();
    let next = offsets.end;
    bench.found_at(&pull, offsets, 3, next);
    let run = bench.take_runs().remove(0);
    (bench, run)
}

/// When stalls were told, and why.
fn stalls(bench: &Bench) -> Vec<(u64, StallReason)> {
    let stalled = |kind: &NoticeKind| {
        if let NoticeKind::QueueStalled { reason, .. } = kind {
            Some(*reason)
        } else {
            None
        }
    };
    let notices = bench.notices().iter();
    notices
        .filter_map(|notice| Some((notice.at.as_millis() / 1000, stalled(&notice.kind)?)))
        .collect()
}

fn moves(bench: &Bench) -> usize {
    bench.count_notices(|kind| matches!(kind, NoticeKind::QueueMoves { .. }))
}

#[test]
fn a_handler_that_hangs_is_told_after_a_minute_and_once_a_minute() {
    let (mut bench, run) = delivered(5..7, |_| {});
    bench.idle(ms(59_999));
    assert_eq!(stalls(&bench), []);
    bench.idle(secs(80));
    let reason = StallReason::Handlers {
        running: 2,
        oldest: Some(Instant::ZERO),
    };
    let times = stalls(&bench);
    assert_eq!(times.len(), 2);
    assert!(times.iter().all(|(_, told)| *told == reason), "{times:?}");
    assert!((60..=75).contains(&times[0].0) && times[1].0 == times[0].0 + 60);
    let queue = bench.queue(0).expect("it is owned");
    assert!(queue.stalled_since.is_some());
    assert_eq!(queue.delivered, 2);
    assert_eq!(moves(&bench), 0);
    bench.done(&run);
    assert_eq!(moves(&bench), 1, "at once");
    idle_at_the_end(&mut bench, secs(200));
    assert_eq!((stalls(&bench).len(), moves(&bench)), (2, 1));
    assert_eq!(bench.queue(0).and_then(|queue| queue.stalled_since), None);
}

/// Time passes; pulls are answered with the truth, that there is nothing more.
fn idle_at_the_end(bench: &mut Bench, time: Duration) {
    let end = bench.now() + time;
    while bench.now() < end {
        bench.sleep(secs(10));
        for pull in bench.drop_requests(PULL) {
            let next = pull.request::<PullRequest>().offset;
            let answer = PullAnswer {
                max_offset: Some(next),
                ..pull_answer(PullStatus::NotFound, next.0, Bytes::new())
            };
            bench.answer(&pull, &answer);
        }
    }
}

#[test]
fn a_queue_that_is_empty_or_moves_is_not_told_of() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    idle_at_the_end(&mut bench, secs(200));
    assert_eq!((stalls(&bench), moves(&bench)), (vec![], 0));
    assert_eq!(bench.queue(0).and_then(|queue| queue.lag()), Some(0));
    for round in 0..10 {
        let mut pulls = bench.drop_requests(PULL);
        let pull = pulls.pop().expect("it is pulled");
        bench.found_at(&pull, [round], 3, round + 1);
        let run = bench.take_runs().remove(0);
        idle_at_the_end(&mut bench, secs(40));
        assert_eq!(bench.queue(0).and_then(|queue| queue.lag()), Some(1));
        bench.done(&run);
    }
    assert_eq!((stalls(&bench), moves(&bench)), (vec![], 0));
}

/// Its broker says that there is more and gives nothing.
#[test]
fn pulls_that_bring_nothing_of_what_there_is_are_a_stall() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    bench.idle(secs(95));
    assert!(matches!(stalls(&bench)[..], [(60..=95, StallReason::Unanswered)]));
}

#[test]
fn the_reason_is_what_the_lowest_message_waits_for() {
    let reasons = |bench: &Bench| -> Vec<StallReason> { stalls(bench).into_iter().map(|s| s.1).collect() };
    // A message that nobody takes back.
    let (mut bench, run) = delivered(5..7, |group| {
        group.set_send_back_retries(64);
    });
    bench.refuse_all(RequestCode::CONSUMER_SEND_MSG_BACK, ResponseCode::SYSTEM_ERROR);
    bench.report(&run, Verdict::Handled(Outcome::Retry));
    bench.idle(secs(90));
    assert_eq!(reasons(&bench), [StallReason::Retrying { messages: 2 }]);

    // A record that is not to be passed.
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_undecodable(UndecodablePolicy::Hold);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [0], 3, 1);
    let run = bench.take_runs().remove(0);
    bench.report(&run, Verdict::Undecodable);
    bench.idle(secs(90));
    assert_eq!(reasons(&bench), [StallReason::Held(HoldReason::Undecodable)]);
}

#[test]
fn a_window_that_is_full_behind_a_record_that_cannot_be_read_says_so() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group
            .set_undecodable(UndecodablePolicy::Hold)
            .set_queue_count_max(1);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [0], 3, 1);
    let run = bench.take_runs().remove(0);
    let held = |bench: &Bench| bench.queue(0).expect("it is owned").hold;
    assert_eq!(held(&bench), Some(HoldReason::CountFull));
    bench.report(&run, Verdict::Undecodable);
    assert_eq!(held(&bench), Some(HoldReason::Undecodable));
    let queue = bench.queue(0).expect("it is owned");
    assert_eq!(
        (queue.held_record, queue.state),
        (Some(QueueOffset(0)), QueueState::Held)
    );
}

#[test]
fn a_refused_pull_is_shown_with_the_brokers_words() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.refuse(&pull, ResponseCode::NO_PERMISSION, "pulling is forbidden");
    let queue = bench.queue(0).expect("it is owned");
    let error = queue.last_error.expect("something went wrong");
    assert_eq!(queue.hold, Some(HoldReason::Refused));
    assert_eq!(
        (error.request, error.code, &*error.why),
        (
            "pull",
            Some(ResponseCode::NO_PERMISSION.0),
            "pulling is forbidden"
        )
    );
    assert_eq!(queue.reads_from.map(|replica| replica.id), Some(0));
    // A broker that is busy will soon answer; that is no refusal.
    bench.sleep(secs(1));
    let (pull, _) = bench.expect_pull();
    bench.refuse(&pull, ResponseCode::SYSTEM_BUSY, "busy");
    let queue = bench.queue(0).expect("it is owned");
    assert_eq!(queue.hold, Some(HoldReason::BackingOff));
}
