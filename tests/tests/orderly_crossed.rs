//! Ordered consumption crossed with everything else that moves a queue: resets, seeks, changed filters, pauses and
//! locks that go while the handler of an earlier ownership still runs.

use rocketmq_consumer_core::config::{ConsumeMode, GroupConfig};
use rocketmq_consumer_core::event::{AppEvent, FlowScope, SeekTo, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::OrderlyOutcome;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_core::wire::request::locks::LockAnswer;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::operator::ResetOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};
use rocketmq_consumer_testing::world::{Asked, Bench, StoredMessage, ms, queue, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const UNLOCK: RequestCode = RequestCode::UNLOCK_BATCH_MQ;
const LOCK: RequestCode = RequestCode::LOCK_BATCH_MQ;
const COMMIT_OFFSET: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;

const COMMIT: Verdict = Verdict::Ordered(OrderlyOutcome::Commit);
const SUSPEND: Verdict = Verdict::Ordered(OrderlyOutcome::Suspend);

/// Owns queue 0 of `T` from offset 0, and has sent its first pull.
fn owning(set_up: impl FnOnce(&mut GroupConfig)) -> Bench {
    Bench::owning_one_queue(0, |_, group| {
        group.set_mode(ConsumeMode::Orderly);
        set_up(group);
    })
}

/// Answers whatever pull of `T` is out with the messages from there to 9.
fn serve(bench: &mut Bench) {
    let wanted = |asked: &&Asked| {
        let pull: PullRequest = asked.request();
        pull.topic.as_str() == "T" && pull.offset.0 < 9
    };
    while let Some(pull) = bench.outstanding(PULL).into_iter().find(wanted).cloned() {
        let mut others = bench.drop_requests(PULL);
        others.retain(|asked| asked != &pull);
        bench.put_back(others);
        let from = pull.request::<PullRequest>().offset.0;
        let message = |offset| StoredMessage::new(queue("T", "a", 0), offset, "x", "a");
        let messages: Vec<_> = (from..9).map(message).collect();
        bench.found(&pull, &messages, 9);
    }
}

fn share(bench: &mut Bench, members: &[&str]) {
    bench.set_members(members);
    bench.notify("a");
    bench.sleep(ms(50));
}

fn reset(bench: &mut Bench, to: i64) {
    let request = ResetOffsetRequest {
        group: "G".into(),
        topic: "T".into(),
        timestamp: None,
        force: true,
        offsets: [(queue("T", "a", 0), QueueOffset(to))].into(),
    };
    bench.tell_member("a", &request);
    bench.settle();
}

fn last_commit(bench: &Bench) -> Option<i64> {
    let commits = bench.sent(COMMIT_OFFSET).into_iter();
    let of_t = commits
        .map(Asked::request::<CommitOffsetRequest>)
        .filter(|commit| commit.queue.topic.as_str() == "T");
    of_t.last().map(|commit| commit.offset.0)
}

/// What was given back and comes again while its last handler runs, and loses its lock on top: whoever comes after
/// waits for that handler all the same.
#[test]
fn a_lock_that_is_lost_while_a_queue_comes_back_lets_nobody_overtake_the_handler() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    share(&mut bench, &["c0", "c1"]);
    share(&mut bench, &["c1"]);
    bench.set_locked_elsewhere(0, true);
    bench.idle(secs(21));
    bench.set_locked_elsewhere(0, false);
    bench.sleep(secs(3));
    serve(&mut bench);
    bench.sleep(secs(1));
    assert!(bench.take_runs().is_empty(), "two handlers of one queue");
    bench.report(&first, COMMIT);
    bench.sleep(ms(200));
    serve(&mut bench);
    assert_eq!(bench.take_run().offsets(), [0]);
}

#[test]
fn a_lock_that_is_lost_while_a_filter_changes_lets_nobody_overtake_the_handler() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.tell(AppEvent::Subscribe {
        group: "G".into(),
        topic: "T".into(),
        filter: "a".into(),
    });
    bench.sleep(secs(1));
    bench.set_locked_elsewhere(0, true);
    bench.idle(secs(21));
    bench.set_locked_elsewhere(0, false);
    bench.sleep(secs(3));
    serve(&mut bench);
    bench.sleep(secs(1));
    assert!(bench.take_runs().is_empty(), "two handlers of one queue");
    bench.report(&first, COMMIT);
}

/// The connection breaks instead, with a handler that outlives the lease.
#[test]
fn a_lease_that_ends_while_a_queue_comes_back_lets_nobody_overtake_the_handler() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    share(&mut bench, &["c0", "c1"]);
    share(&mut bench, &["c1"]);
    bench.withhold(LOCK);
    bench.idle(secs(40));
    bench.serve(LOCK);
    bench.sleep(secs(3));
    serve(&mut bench);
    bench.sleep(secs(1));
    assert!(bench.take_runs().is_empty(), "two handlers of one queue");
    bench.report(&first, COMMIT);
}

/// Its share goes and comes on top: the one that waited for the handler is gone by then.
#[test]
fn a_queue_that_lost_its_lock_and_its_share_waits_for_the_handler_when_it_comes_back() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.set_locked_elsewhere(0, true);
    bench.idle(secs(21));
    share(&mut bench, &["c0", "c1"]);
    assert!(bench.queue(0).is_none(), "it was never locked again");
    bench.set_locked_elsewhere(0, false);
    share(&mut bench, &["c1"]);
    bench.sleep(secs(3));
    serve(&mut bench);
    bench.sleep(secs(1));
    assert!(bench.take_runs().is_empty(), "two handlers of one queue");
    bench.report(&first, COMMIT);
    bench.sleep(ms(200));
    assert_eq!(bench.take_run().offsets(), [0]);
}

/// A broker that answers a lock with nothing, or not at all, or with what nobody asked for.
#[test]
fn answers_that_are_none_give_no_lock_and_take_none() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.withhold(LOCK);
    bench.idle(secs(19));
    let mut asked = 0;
    for _ in 0..100 {
        bench.sleep(ms(100));
        for lock in bench.drop_requests(LOCK) {
            asked += 1;
            match asked % 4 {
                0 => bench.answer(&lock, &Done),
                1 => bench.refuse(&lock, ResponseCode::SYSTEM_ERROR, "no"),
                2 => bench.refuse(&lock, ResponseCode(0), "a remark and no body"),
                _ => bench.refuse(&lock, ResponseCode(i32::MIN), ""),
            }
        }
    }
    assert!((5..60).contains(&asked), "{asked} times");
    bench.report(&first, COMMIT);
    let lock = bench.queue(0).and_then(|queue| queue.lock).expect("it is wanted");
    assert!(
        bench
            .now()
            .saturating_since(rocketmq_consumer_core::time::Instant::ZERO)
            < secs(30)
    );
    assert!(lock.held, "its lease is not over");
    assert_eq!(bench.take_run().offsets(), [1]);
    let locked = (0..5_000).map(|id| queue("zz", "elsewhere", id)).collect();
    bench.sleep(secs(2));
    for lock in bench.drop_requests(LOCK) {
        bench.answer(
            &lock,
            &LockAnswer {
                locked: std::collections::BTreeSet::clone(&locked),
            },
        );
    }
    let lock = bench.queue(0).and_then(|queue| queue.lock).expect("it is wanted");
    assert!(!lock.held, "the broker has named others only");
}

/// An operator's word on a queue that waits for the handler of its former ownership.
#[test]
fn a_reset_of_a_queue_that_comes_back_waits_for_the_handler_and_is_not_undone() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.report(&first, COMMIT);
    let second = bench.take_run();
    share(&mut bench, &["c0", "c1"]);
    share(&mut bench, &["c1"]);
    reset(&mut bench, 5);
    bench.sleep(secs(2));
    serve(&mut bench);
    bench.sleep(secs(1));
    assert!(bench.take_runs().is_empty(), "two handlers of one queue");
    bench.report(&second, COMMIT);
    bench.sleep(secs(1));
    serve(&mut bench);
    bench.sleep(secs(6));
    assert_eq!(bench.take_run().offsets(), [5]);
    assert_eq!(last_commit(&bench), Some(5));
}

#[test]
fn a_reset_while_a_filter_changes_waits_for_the_handler_and_is_not_undone() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.tell(AppEvent::Subscribe {
        group: "G".into(),
        topic: "T".into(),
        filter: "a".into(),
    });
    bench.sleep(secs(1));
    reset(&mut bench, 5);
    bench.sleep(secs(2));
    serve(&mut bench);
    bench.sleep(secs(1));
    assert!(bench.take_runs().is_empty(), "two handlers of one queue");
    bench.report(&first, COMMIT);
    bench.sleep(secs(7));
    assert_eq!(last_commit(&bench), Some(5));
}

/// Who has the lock is told of a reset as everybody is, and nobody else may commit it.
#[test]
fn a_reset_of_a_queue_that_is_given_back_is_what_it_commits_last() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.report(&first, COMMIT);
    let second = bench.take_run();
    share(&mut bench, &["c0", "c1"]);
    reset(&mut bench, 7);
    bench.sleep(secs(1));
    let unlocked = |bench: &Bench| bench.sent(UNLOCK).len();
    let before = unlocked(&bench);
    bench.report(&second, COMMIT);
    bench.sleep(secs(1));
    assert_eq!(last_commit(&bench), Some(7));
    assert!(unlocked(&bench) > before);
    assert!(bench.queue(0).is_none(), "it is gone");
}

/// A broker that resets by itself tells whoever pulls next, once: here with the pull that was out.
#[test]
fn a_reset_told_by_the_last_pull_of_a_queue_that_is_given_back_is_what_it_commits_last() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    let (pull, _) = bench.expect_pull();
    share(&mut bench, &["c0", "c1"]);
    bench.reset(&pull, 7);
    bench.sleep(secs(1));
    assert_eq!(bench.sent(UNLOCK).len(), 0, "its handler runs");
    bench.report(&first, COMMIT);
    bench.sleep(secs(1));
    assert_eq!((last_commit(&bench), bench.sent(UNLOCK).len()), (Some(7), 1));
}

#[test]
fn a_reset_of_a_group_that_leaves_is_committed_and_its_handlers_end_before_it_is_unlocked() {
    for by_pull in [false, true] {
        let mut bench = owning(|_| {});
        serve(&mut bench);
        let first = bench.take_run();
        let (pull, _) = bench.expect_pull();
        bench.tell(AppEvent::Shutdown { drain: secs(30) });
        if by_pull {
            bench.reset(&pull, 7);
        } else {
            reset(&mut bench, 7);
        }
        bench.sleep(secs(1));
        assert_eq!((bench.is_closed(), bench.sent(UNLOCK).len()), (false, 0));
        bench.report(&first, COMMIT);
        bench.sleep(secs(1));
        assert_eq!((last_commit(&bench), bench.sent(UNLOCK).len()), (Some(7), 1));
        assert!(bench.is_closed());
    }
}

/// Its last commit is stored, and its locks are on their way back: the queues are others' from now on.
#[test]
fn a_reset_while_the_locks_are_given_back_is_refused_and_changes_nothing() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.withhold(UNLOCK);
    bench.tell(AppEvent::Shutdown { drain: secs(30) });
    bench.report(&first, COMMIT);
    bench.sleep(ms(10));
    reset(&mut bench, 7);
    bench.serve(UNLOCK);
    bench.sleep(ms(100));
    assert!(bench.is_closed());
    let report = bench.report_of_end().expect("the group has stopped");
    let of_t = report
        .committed
        .iter()
        .find(|(queue, _)| queue.topic.as_str() == "T");
    assert_eq!(of_t.and_then(|(_, committed)| *committed), Some(QueueOffset(1)));
    assert_eq!(last_commit(&bench), Some(1));
}

/// A broker may store what a pull carries after a commit that was sent later, and the next owner would begin there.
#[test]
fn no_pull_carries_an_offset() {
    let mut bench = owning(|_| {});
    for _ in 0..3 {
        serve(&mut bench);
        let next = bench.take_run();
        bench.report(&next, COMMIT);
        bench.sleep(secs(6));
        let (pull, _) = bench.expect_pull();
        bench.nothing(&pull, PullStatus::NotFound, 9);
    }
    assert_eq!(last_commit(&bench), Some(3));
    let pulls = bench.sent(PULL).into_iter().map(Asked::request::<PullRequest>);
    assert_eq!(pulls.filter_map(|pull| pull.commit).count(), 0);
}

#[test]
fn nothing_is_delivered_while_paused_and_a_lock_that_was_lost_meanwhile_costs_nothing() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.tell(AppEvent::Pause {
        group: "G".into(),
        scope: FlowScope::Group,
    });
    bench.report(&first, SUSPEND);
    bench.sleep(secs(5));
    bench.set_locked_elsewhere(0, true);
    bench.idle(secs(21));
    bench.set_locked_elsewhere(0, false);
    bench.sleep(secs(3));
    bench.tell(AppEvent::Seek {
        group: "G".into(),
        queue: Box::new(queue("T", "a", 0)),
        to: SeekTo::Offset(QueueOffset(3)),
    });
    bench.sleep(secs(3));
    assert!(bench.take_runs().is_empty());
    assert!(
        bench.outstanding(PULL).iter().all(|asked| asked.at < bench.now()),
        "no pull"
    );
    bench.tell(AppEvent::Resume {
        group: "G".into(),
        scope: FlowScope::Group,
    });
    bench.sleep(secs(1));
    serve(&mut bench);
    assert_eq!(bench.take_run().offsets(), [3]);
}

#[test]
fn a_seek_while_the_lock_is_in_doubt_is_committed_under_the_new_one() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.withhold(LOCK);
    let conn = bench.conn_to(&rocketmq_consumer_testing::world::address("a"));
    bench.close(conn);
    bench.settle();
    let commits = bench.sent(COMMIT_OFFSET).len();
    bench.tell(AppEvent::Seek {
        group: "G".into(),
        queue: Box::new(queue("T", "a", 0)),
        to: SeekTo::Offset(QueueOffset(3)),
    });
    bench.sleep(ms(500));
    assert_eq!(bench.sent(COMMIT_OFFSET).len(), commits);
    bench.serve(LOCK);
    bench.sleep(secs(3));
    bench.report(&first, COMMIT);
    bench.sleep(secs(6));
    serve(&mut bench);
    assert_eq!(bench.take_run().offsets(), [3]);
    assert_eq!(last_commit(&bench), Some(3));
}

#[test]
fn a_shutdown_while_a_queue_rests_ends_at_once() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.report(&first, Verdict::Ordered(OrderlyOutcome::SuspendFor(secs(30))));
    bench.tell(AppEvent::Shutdown { drain: secs(10) });
    bench.sleep(secs(1));
    assert!(bench.is_closed());
    assert_eq!(last_commit(&bench), None);
}

#[test]
fn a_shutdown_while_a_queue_comes_back_behind_a_handler_ends_in_its_drain() {
    let mut bench = owning(|_| {});
    serve(&mut bench);
    let _first = bench.take_run();
    share(&mut bench, &["c0", "c1"]);
    share(&mut bench, &["c1"]);
    bench.set_locked_elsewhere(0, true);
    bench.idle(secs(21));
    bench.tell(AppEvent::Shutdown { drain: secs(3) });
    bench.sleep(secs(3 + 10));
    assert!(bench.is_closed());
}

#[test]
fn a_topic_that_is_given_back_and_wanted_again_while_its_handler_runs_waits_for_it() {
    let mut bench = owning(|group| {
        group.subscribe("U".into(), "*");
    });
    serve(&mut bench);
    let first = bench.take_run();
    bench.tell(AppEvent::Unsubscribe {
        group: "G".into(),
        topic: "T".into(),
    });
    bench.sleep(secs(1));
    bench.tell(AppEvent::Subscribe {
        group: "G".into(),
        topic: "T".into(),
        filter: "*".into(),
    });
    bench.sleep(secs(2));
    serve(&mut bench);
    assert!(bench.take_runs().is_empty());
    bench.report(&first, COMMIT);
    bench.sleep(secs(1));
    serve(&mut bench);
    assert_eq!(bench.take_run().offsets(), [1]);
    assert_eq!(bench.sent(UNLOCK).len(), 0);
}
