//! The way out where there is no way to the broker: it takes its time and ends.

use std::ops::Range;
use std::time::Duration;

use rocketmq_consumer_core::config::SendBackFallback;
use rocketmq_consumer_core::event::{AppEvent, RunRange, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::operator::ResetOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};
use rocketmq_consumer_testing::world::{Bench, Run, address, ms, queue, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const COMMIT: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const BACK: RequestCode = RequestCode::CONSUMER_SEND_MSG_BACK;

/// The offsets that were sent to be stored, but for those that rode along with a pull.
fn commits(bench: &Bench) -> Vec<i64> {
    let commits = bench.sent(COMMIT).into_iter();
    commits
        .map(|asked| asked.request::<CommitOffsetRequest>().offset.0)
        .collect()
}

fn reset_to(offset: i64) -> ResetOffsetRequest {
    ResetOffsetRequest {
        group: "G".into(),
        topic: "T".into(),
        timestamp: None,
        force: true,
        offsets: [(queue("T", "a", 0), QueueOffset(offset))].into(),
    }
}

fn shut_down(bench: &mut Bench, drain: Duration) {
    bench.tell(AppEvent::Shutdown { drain });
}

/// The oldest pull is answered with messages at these offsets, which come in one run.
fn deliver(bench: &mut Bench, offsets: Range<i64>) -> Run {
    let (pull, _) = bench.expect_pull();
    let next = offsets.end;
    bench.found_at(&pull, offsets, 0, next);
    bench.take_run()
}

/// One message of a run succeeds.
fn done_one(bench: &mut Bench, run: &Run, index: u32) {
    let start = run.range.start + index;
    let range = RunRange {
        start,
        end: start + 1,
    };
    bench.report_part(run, range, Verdict::Handled(Outcome::Done));
}

/// The queue goes to a member that sorts before us.
fn lose_the_queue(bench: &mut Bench) {
    bench.set_members(&["c0", "c1"]);
}

#[test]
fn last_commits_without_a_master_are_given_up_after_five_seconds() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_addresses("a", &[(1, "10.0.0.21:10911")]);
    bench.store("T", 0, 0);
    bench.settle();
    let run = deliver(&mut bench, 0..1);
    bench.done(&run);
    shut_down(&mut bench, secs(30));
    bench.sleep(ms(4_999));
    assert!(!bench.is_closed(), "a master may still come");
    bench.sleep(ms(1));
    assert!(bench.is_closed());
    let report = bench.report_of_end().expect("the group has stopped");
    assert_eq!(report.committed[0].1, Some(QueueOffset(0)), "not 1");
    assert!(commits(&bench).is_empty());
}

#[test]
fn a_broker_that_goes_away_while_we_leave_holds_nobody_up() {
    for busy in [false, true] {
        let mut bench = Bench::owning_one_queue(0, |_, _| {});
        let run = deliver(&mut bench, 0..1);
        if !busy {
            bench.done(&run);
        }
        bench.sleep(ms(100));
        let conn = bench.conn_to(&address("a"));
        if busy {
            shut_down(&mut bench, secs(30));
            bench.close(conn);
            bench.sleep(secs(40));
        } else {
            bench.close(conn);
            shut_down(&mut bench, secs(30));
            bench.sleep(secs(10));
        }
        assert!(bench.is_closed(), "with a handler that hangs: {busy}");
    }
}

#[test]
fn what_was_finished_is_committed_on_the_way_out() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let run = deliver(&mut bench, 0..1);
    bench.done(&run);
    assert!(commits(&bench).is_empty());
    shut_down(&mut bench, secs(30));
    assert_eq!((commits(&bench).last(), bench.is_closed()), (Some(&1), true));
}

/// The queue went to another member, a handler of ours still runs, and then the client stops.
#[test]
fn the_next_owner_of_a_queue_is_not_overwritten_on_the_way_out() {
    for (moved_to, want) in [(0, &[1][..]), (7, &[])] {
        let mut bench = Bench::owning_one_queue(0, |_, _| {});
        let run = deliver(&mut bench, 0..2);
        lose_the_queue(&mut bench);
        bench.sleep(secs(20));
        // The share is lost, 0 is committed, and within the grace one of two handlers ends.
        done_one(&mut bench, &run, 0);
        let before = commits(&bench).len();
        bench.store("T", 0, moved_to);
        shut_down(&mut bench, Duration::ZERO);
        bench.sleep(secs(10));
        assert!(bench.is_closed());
        assert_eq!(
            commits(&bench)[before..],
            *want,
            "the other member stored {moved_to}"
        );
    }
}

/// An operator moves the group while its last handlers end, and while its last commit is under way.
#[test]
fn a_reset_on_the_way_out_is_what_is_committed_last() {
    for (by_pull, committing) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut bench = Bench::owning_one_queue(0, |_, _| {});
        let run = deliver(&mut bench, 0..2);
        let (pull, _) = bench.expect_pull();
        if committing {
            bench.withhold(COMMIT);
            bench.done(&run);
        }
        shut_down(&mut bench, secs(30));
        if by_pull {
            bench.reset(&pull, 300);
        } else {
            bench.tell_member("a", &reset_to(300));
        }
        if committing {
            bench.serve(COMMIT);
        } else {
            assert_eq!(commits(&bench), [300], "at once, for who dies now");
            bench.sleep(secs(20));
            assert!(!bench.is_closed(), "its handler has thirty seconds");
            bench.done(&run);
        }
        bench.sleep(secs(1));
        assert_eq!(commits(&bench).last(), Some(&300), "{by_pull} {committing}");
        let report = bench.report_of_end().expect("the group has stopped");
        assert_eq!(report.committed[0].1, Some(QueueOffset(300)));
    }
}

/// Nobody else is told of it, and the next owner asks only after the grace.
#[test]
fn a_reset_told_by_the_last_pull_of_a_lost_queue_is_what_it_commits_last() {
    for within_grace in [true, false] {
        let mut bench = Bench::owning_one_queue(0, |_, _| {});
        let run = deliver(&mut bench, 0..2);
        let (pull, _) = bench.expect_pull();
        lose_the_queue(&mut bench);
        bench.notify("a");
        bench.sleep(ms(50));
        assert_eq!(commits(&bench), [0]);
        if !within_grace {
            bench.sleep(ms(250));
        }
        bench.reset(&pull, 300);
        bench.done(&run);
        bench.sleep(secs(1));
        let last: &[_] = if within_grace { &[0, 300] } else { &[0] };
        assert_eq!(commits(&bench), *last);
    }
}

/// Nothing runs, so the grace is over at once; but what was committed may be stored after the reset.
#[test]
fn a_reset_told_while_the_only_commit_of_a_lost_queue_is_under_way_is_committed_after_it() {
    for (after, last) in [(ms(150), &[0, 300][..]), (ms(300), &[0])] {
        let mut bench = Bench::owning_one_queue(0, |_, _| {});
        let (pull, _) = bench.expect_pull();
        bench.sleep(secs(1));
        bench.withhold(COMMIT);
        lose_the_queue(&mut bench);
        bench.notify("a");
        bench.sleep(ms(50) + after);
        bench.reset(&pull, 300);
        bench.serve(COMMIT);
        bench.sleep(secs(1));
        assert_eq!(commits(&bench), last, "{after:?} after it was lost");
    }
}

/// Nobody else has a say of a queue that comes back when its former ownership has ended, and the group leaves before.
#[test]
fn a_reset_between_a_changed_filter_and_the_end_is_what_is_committed_last() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let run = deliver(&mut bench, 0..2);
    bench.tell(AppEvent::Subscribe {
        group: "G".into(),
        topic: "T".into(),
        filter: "a".into(),
    });
    bench.sleep(ms(100));
    shut_down(&mut bench, secs(30));
    bench.tell_member("a", &reset_to(300));
    bench.done(&run);
    bench.sleep(secs(2));
    assert_eq!((commits(&bench).last(), bench.is_closed()), (Some(&300), true));
}

/// A machine that has finished message 5, and whose pull, sent just before, carries offset 5.
fn with_a_lower_offset_on_its_way() -> Bench {
    let mut bench = Bench::owning_one_queue(5, |_, group| {
        group.set_commit_interval(secs(30));
    });
    bench.sleep(ms(19_900));
    let run = deliver(&mut bench, 5..6);
    bench.done(&run);
    let pulls = bench.outstanding(PULL);
    assert_eq!(pulls[0].request::<PullRequest>().commit, Some(QueueOffset(5)));
    bench
}

/// Brokers have other threads for pulls than for commits.
#[test]
fn the_last_commit_is_not_overtaken_by_what_a_pull_carries() {
    for answered in [false, true] {
        let mut bench = with_a_lower_offset_on_its_way();
        shut_down(&mut bench, Duration::ZERO);
        assert_eq!((&*commits(&bench), bench.is_closed()), (&[6][..], false));
        bench.sleep(ms(50));
        if answered {
            let (pull, _) = bench.expect_pull();
            bench.nothing(&pull, PullStatus::NotFound, 6);
        } else {
            bench.sleep(ms(149));
            assert!(!bench.is_closed(), "the pull may wait for a thread");
            bench.sleep(ms(1));
        }
        assert_eq!((&*commits(&bench), bench.is_closed()), (&[6, 6][..], true));
    }
}

#[test]
fn what_overtook_the_commit_of_a_lost_queue_is_overwritten() {
    for (stored, want) in [
        (5, &[6, 6][..]),
        (6, &[6]),
        // Another member has gone on.
        (9, &[6]),
    ] {
        let mut bench = with_a_lower_offset_on_its_way();
        lose_the_queue(&mut bench);
        bench.sleep(ms(100));
        assert_eq!(commits(&bench), [6], "at once, for who asks at once");
        bench.store("T", 0, stored);
        bench.sleep(ms(100));
        assert_eq!(commits(&bench), want, "{stored} is stored");
        shut_down(&mut bench, Duration::ZERO);
        bench.sleep(secs(1));
        assert!(bench.is_closed());
        assert_eq!(commits(&bench), want, "{stored} is stored");
    }
}

/// A broker that has not stored the first commit yet would answer with what it had before.
#[test]
fn a_handler_that_ends_before_the_first_commit_is_stored_is_committed_too() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let run = deliver(&mut bench, 0..1);
    bench.sleep(secs(19));
    lose_the_queue(&mut bench);
    bench.withhold(COMMIT);
    bench.store("T", 0, 3);
    let before = commits(&bench).len();
    bench.sleep(secs(1));
    bench.done(&run);
    assert_eq!(commits(&bench)[before..], [0], "the second waits for the first");
    bench.serve(COMMIT);
    assert_eq!(commits(&bench)[before..], [0, 1]);
}

/// A handler asks for more time when its queue is given back or its group has stopped waiting, and ends
/// before that time is over. The deadline nobody could meet any more once came due again and again
/// within one event, for ever.
#[test]
fn more_time_that_is_asked_for_too_late_keeps_nobody_busy() {
    for revoked in [false, true] {
        let mut bench = Bench::owning_one_queue(0, |_, _| {});
        let run = deliver(&mut bench, 0..2);
        done_one(&mut bench, &run, 0);
        bench.withhold(COMMIT);
        if revoked {
            lose_the_queue(&mut bench);
            bench.sleep(ms(20_500));
        } else {
            shut_down(&mut bench, Duration::ZERO);
            bench.sleep(ms(1));
        }
        bench.tell(AppEvent::Extend {
            id: run.id,
            position: run.range.start + 1,
            by: secs(1),
        });
        bench.done(&run);
        bench.sleep(secs(60));
        assert_eq!(bench.is_closed(), !revoked);
    }
}

/// Messages 0 and 1 are with handlers, 1 fails while we leave.
fn failing_above_a_busy_one(revoked: bool) -> (Bench, Run) {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_concurrency(2);
    });
    let run = deliver(&mut bench, 0..2);
    if revoked {
        lose_the_queue(&mut bench);
        bench.sleep(secs(20));
    } else {
        shut_down(&mut bench, secs(30));
    }
    let range = RunRange { start: 1, end: 2 };
    bench.report_part(&run, range, Verdict::Handled(Outcome::Retry));
    (bench, run)
}

/// The next owner starts at 0 and is given 1 again: a copy of it would double it, at each restart.
#[test]
fn what_the_next_owner_gets_anyway_is_not_sent_back() {
    let (mut bench, _) = failing_above_a_busy_one(false);
    bench.sleep(secs(31));
    assert!(bench.is_closed() && bench.sent(BACK).is_empty());
    let report = bench.report_of_end().expect("the group has stopped");
    assert_eq!(report.committed[0].1, Some(QueueOffset(0)));
    let (mut bench, _) = failing_above_a_busy_one(true);
    bench.sleep(secs(5));
    assert!(bench.sent(BACK).is_empty());
}

#[test]
fn a_failed_message_is_sent_back_on_the_way_out_once_nothing_below_it_is_open() {
    for revoked in [false, true] {
        let (mut bench, run) = failing_above_a_busy_one(revoked);
        done_one(&mut bench, &run, 0);
        let back = bench.expect_request(BACK);
        bench.answer(&back, &Done);
        bench.sleep(secs(1));
        assert_eq!(commits(&bench).last(), Some(&2), "given back: {revoked}");
    }
}

/// A message that waits for its next try here is not waited for.
#[test]
fn a_delivery_here_that_is_due_later_holds_nobody_up() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_send_back_retries(0).set_local_retry(secs(60));
        group.set_send_back_fallback(SendBackFallback::Local);
    });
    let run = deliver(&mut bench, 0..1);
    bench.refuse_all(BACK, ResponseCode::SYSTEM_ERROR);
    bench.report(&run, Verdict::Handled(Outcome::Retry));
    bench.sleep(secs(1));
    shut_down(&mut bench, secs(30));
    bench.sleep(ms(100));
    assert!(bench.is_closed());
    let report = bench.report_of_end().expect("the group has stopped");
    assert_eq!(report.committed[0].1, Some(QueueOffset(0)));
}
