//! Ordered consumption, step by step: leases, hand-overs and what is left when a lock is lost.

use rocketmq_consumer_core::action::AppAction;
use rocketmq_consumer_core::config::{ConsumeMode, GroupConfig};
use rocketmq_consumer_core::event::{AppEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{QueueId, QueueOffset};
use rocketmq_consumer_core::message::OrderlyOutcome;
use rocketmq_consumer_core::notice::{LockLoss, NoticeKind};
use rocketmq_consumer_core::status::{HoldReason, QueueState};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_core::wire::request::locks::{LockAnswer, LockRequest};
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::send::{SendAnswer, SendRequest, SendStatus};
use rocketmq_consumer_testing::world::{Asked, Bench, address, ms, pull_answer, secs};

const LOCK: RequestCode = RequestCode::LOCK_BATCH_MQ;
const UNLOCK: RequestCode = RequestCode::UNLOCK_BATCH_MQ;
const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const COMMIT_OFFSET: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const QUERY: RequestCode = RequestCode::QUERY_CONSUMER_OFFSET;
const UNREGISTER: RequestCode = RequestCode::UNREGISTER_CLIENT;

const COMMIT: Verdict = Verdict::Ordered(OrderlyOutcome::Commit);
const SUSPEND: Verdict = Verdict::Ordered(OrderlyOutcome::Suspend);

/// Owns queue 0 of `T` from offset 0, and has sent its first pull.
fn owning(set_up: impl FnOnce(&mut GroupConfig)) -> Bench {
    Bench::owning_one_queue(0, |_, group| {
        group.set_mode(ConsumeMode::Orderly);
        set_up(group);
    })
}

fn fetch(bench: &mut Bench, offsets: std::ops::Range<i64>) {
    let (pull, _) = bench.expect_pull();
    let next = offsets.end;
    bench.found_at(&pull, offsets, 10, next);
}

/// Another member appears, and the broker says so.
fn lose_share(bench: &mut Bench) {
    bench.set_members(&["c0", "c1"]);
    bench.notify("a");
    bench.sleep(ms(50));
}

fn regain_share(bench: &mut Bench) {
    bench.set_members(&["c1"]);
    bench.notify("a");
    bench.sleep(ms(50));
}

/// Codes of what was sent about `T` since then, in order.
fn codes_since(bench: &Bench, since: usize) -> Vec<RequestCode> {
    let codes = bench.all_sent()[since..].iter().map(|asked| asked.code);
    let wanted = [COMMIT_OFFSET, UNLOCK, LOCK, UNREGISTER];
    codes.filter(|code| wanted.contains(code)).collect()
}

fn names_queue_of_t(asked: &Asked) -> bool {
    let LockRequest(names) = asked.request();
    names.queues.iter().any(|queue| queue.topic.as_str() == "T")
}

fn lost(bench: &Bench, how: LockLoss) -> usize {
    bench.count_notices(|kind| matches!(kind, NoticeKind::LockLost { why, .. } if *why == how))
}

// ---- the lease ------------------------------------------------------------------------------------

#[test]
fn a_lock_is_renewed_every_twenty_seconds_with_all_others_of_its_broker() {
    let mut bench = owning(|_| {});
    bench.idle(secs(61));
    let locks = bench.sent(LOCK);
    let at: Vec<u64> = locks
        .iter()
        .filter(|asked| names_queue_of_t(asked))
        .map(|asked| asked.at.as_millis() / 1000)
        .collect();
    assert_eq!(at, [0, 20, 40, 60]);
}

#[test]
fn without_a_renewal_the_queue_stands_still_after_thirty_seconds_and_nothing_is_committed() {
    let mut bench = owning(|group| {
        group.set_delivery_deadline(secs(600));
    });
    fetch(&mut bench, 0..3);
    let running = bench.take_run();
    let granted = bench
        .queue(0)
        .and_then(|queue| queue.lock)
        .and_then(|lock| lock.expires);
    assert_eq!(granted, Some(Instant::ZERO + secs(30)));
    bench.withhold(LOCK);
    bench.idle(ms(29_999).saturating_sub(bench.now().saturating_since(Instant::ZERO)));
    assert_eq!(lost(&bench, LockLoss::Expired), 0);
    bench.sleep(ms(1));
    assert_eq!(lost(&bench, LockLoss::Expired), 1);
    let queue = bench.queue(0).expect("it is wanted still");
    assert_eq!(
        (queue.state, queue.hold),
        (QueueState::Acquiring, Some(HoldReason::WaitsForLock))
    );
    let cancelled = bench
        .told()
        .iter()
        .any(|action| matches!(action, AppAction::Cancel { .. }));
    assert!(cancelled, "the handler has half a minute to come to an end");
    let (commits, pulls) = (bench.sent(COMMIT_OFFSET).len(), bench.sent(PULL).len());
    bench.report(&running, COMMIT);
    bench.sleep(secs(20));
    assert!(bench.take_runs().is_empty());
    assert_eq!(bench.sent(COMMIT_OFFSET).len(), commits);
    assert_eq!(bench.sent(PULL).len(), pulls);
}

/// The broker counts from when the request arrived, this member from when it was sent.
#[test]
fn the_lease_counts_from_the_request_and_not_from_its_answer() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").set_mode(ConsumeMode::Orderly);
    });
    bench.withhold(LOCK);
    bench.settle();
    let lock = bench.expect_request(LOCK);
    bench.sleep(ms(900));
    let LockRequest(names) = lock.request();
    bench.answer(&lock, &LockAnswer { locked: names.queues });
    let expires = bench
        .queue(0)
        .and_then(|queue| queue.lock)
        .and_then(|lock| lock.expires);
    assert_eq!(expires, Some(lock.at + secs(30)));
}

#[test]
fn a_refused_lock_is_asked_for_again_within_a_second_and_told_when_it_lasts() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").set_mode(ConsumeMode::Orderly);
    });
    bench.set_locked_elsewhere(0, true);
    bench.settle();
    bench.sleep(secs(10));
    let refused = |bench: &Bench| bench.count_notices(|kind| matches!(kind, NoticeKind::LockRefused { .. }));
    assert_eq!(refused(&bench), 1);
    assert_eq!(bench.sent(QUERY).len(), 0, "its offset is the other's still");
    bench.set_locked_elsewhere(0, false);
    let before = bench.now();
    bench.sleep(secs(1));
    let (pull, _) = bench.expect_pull();
    assert!(pull.at.saturating_since(before) <= secs(1));
}

#[test]
fn a_lock_that_another_member_has_is_lost_at_once() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0..3);
    let running = bench.take_run();
    bench.set_locked_elsewhere(0, true);
    bench.idle(secs(20));
    assert_eq!(lost(&bench, LockLoss::Refused), 1);
    let commits = bench.sent(COMMIT_OFFSET).len();
    bench.drop_requests(PULL);
    // The lock comes back while the handler of the earlier ownership runs.
    bench.set_locked_elsewhere(0, false);
    bench.sleep(secs(2));
    fetch(&mut bench, 0..3);
    assert!(bench.take_runs().is_empty(), "it must not be overtaken");
    bench.report(&running, COMMIT);
    let again = bench.take_run();
    assert_eq!(again.offsets(), [0], "what it did was another member's to do");
    assert_eq!(bench.sent(COMMIT_OFFSET).len(), commits);
}

/// A broker that restarts gives its locks to whoever asks first, and its links break: what was granted before counts
/// for nothing until it is granted again.
#[test]
fn a_lock_is_not_used_while_its_connection_is_gone() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0..3);
    let first = bench.take_run();
    let conn = bench.conn_to(&address("a"));
    bench.withhold(LOCK);
    bench.close(conn);
    bench.settle();
    bench.report(&first, COMMIT);
    let commits = bench.sent(COMMIT_OFFSET).len();
    bench.sleep(ms(900));
    assert!(bench.take_runs().is_empty());
    assert_eq!(bench.sent(COMMIT_OFFSET).len(), commits);
    assert_eq!(
        bench.queue(0).and_then(|queue| queue.hold),
        Some(HoldReason::WaitsForLock)
    );
    let lock = bench.expect_request(LOCK);
    let LockRequest(names) = lock.request();
    bench.answer(&lock, &LockAnswer { locked: names.queues });
    assert_eq!(bench.take_run().offsets(), [1], "nothing was lost");
    assert_eq!(
        lost(&bench, LockLoss::Expired) + lost(&bench, LockLoss::Refused),
        0
    );
}

// ---- one after another ----------------------------------------------------------------------------

#[test]
fn of_a_batch_those_before_the_failure_are_settled_and_those_behind_come_again() {
    let mut bench = owning(|group| {
        group.set_handler_batch(4);
    });
    fetch(&mut bench, 0..6);
    let first = bench.take_run();
    assert_eq!(first.offsets(), [0, 1, 2, 3]);
    let report = Report::Each([COMMIT, SUSPEND, COMMIT, COMMIT].into());
    let (id, range) = (first.id, first.range);
    bench.tell(AppEvent::Consumed { id, range, report });
    let queue = bench.queue(0).expect("it is owned");
    assert_eq!(
        (queue.lowest_unfinished, queue.attempt),
        (Some(QueueOffset(1)), 1)
    );
    bench.sleep(secs(1));
    let again = bench.take_run();
    assert_eq!((again.offsets(), again.attempt), (vec![1, 2, 3], 1));
    bench.report(&again, COMMIT);
    assert_eq!(bench.take_run().offsets(), [4, 5]);
}

/// The handler need not wait for the last of its tries, and there may be no last one: the copy says for itself that it
/// is dead.
#[test]
fn a_message_that_is_given_up_is_buried_at_its_first_try_before_its_successor_comes() {
    let dead = Verdict::Ordered(OrderlyOutcome::DeadLetter);
    let limits: [(Option<u32>, i32); 2] = [(None, 0), (Some(3), 3)];
    for (limit, most) in limits {
        let mut bench = owning(|group| {
            if let Some(limit) = limit {
                group.set_max_reconsume(limit);
            }
        });
        fetch(&mut bench, 0..2);
        let first = bench.take_run();
        bench.report(&first, dead);
        assert!(bench.take_runs().is_empty(), "not before it is buried");
        let send = bench.expect_request(RequestCode::SEND_MESSAGE_V2);
        let copy: SendRequest = send.request();
        let figures = (copy.reconsume_times, copy.max_reconsume_times);
        assert_eq!(figures, (Some(most + 1), Some(most)), "{limit:?}");
        let stored = SendAnswer {
            status: SendStatus::Stored,
            message_id: "0".into(),
            queue: QueueId(0),
            offset: Some(QueueOffset(0)),
            transaction_id: None,
        };
        bench.answer(&send, &stored);
        assert_eq!(bench.take_run().offsets(), [1]);
        let of_other_kind = |kind: &NoticeKind| matches!(kind, NoticeKind::OutcomeOfOtherKind { .. });
        assert_eq!(bench.count_notices(of_other_kind), 0, "it is one of this kind");
    }
}

/// Nothing is delivered while a part of a run has not been reported, whatever the others say.
#[test]
fn a_run_is_over_when_all_of_it_is_reported() {
    let mut bench = owning(|group| {
        group.set_handler_batch(2);
    });
    fetch(&mut bench, 0..4);
    let first = bench.take_run();
    let part = |at: u32| RunRange {
        start: first.range.start + at,
        end: first.range.start + at + 1,
    };
    bench.report_part(&first, part(0), SUSPEND);
    bench.sleep(secs(2));
    assert!(bench.take_runs().is_empty());
    bench.report_part(&first, part(1), COMMIT);
    bench.settle();
    assert_eq!(
        bench.take_run().offsets(),
        [0, 1],
        "the second lies behind one that failed"
    );
}

#[test]
fn a_queue_that_rests_holds_no_other() {
    let mut bench = Bench::new(|_, group| {
        group
            .subscribe("T".into(), "*")
            .set_mode(ConsumeMode::Orderly)
            .set_concurrency(1);
    });
    bench.set_queues("T", &[("a", 2)]);
    bench.settle();
    fetch(&mut bench, 0..2);
    let first = bench.take_run();
    bench.report(&first, Verdict::Ordered(OrderlyOutcome::SuspendFor(secs(3600))));
    fetch(&mut bench, 0..2);
    for offset in 0..2 {
        let other = bench.take_run();
        assert_ne!(other.batch.queue(), first.batch.queue());
        assert_eq!(other.offsets(), [offset]);
        bench.report(&other, COMMIT);
    }
    bench.sleep(secs(29));
    assert!(bench.take_runs().is_empty());
    bench.sleep(secs(1));
    assert_eq!(bench.take_run().offsets(), [0], "30 s at most");
}

#[test]
fn a_handler_that_hangs_is_cancelled_and_dropped_and_nothing_overtakes_it() {
    let mut bench = owning(|group| {
        group.set_delivery_deadline(secs(10)).set_cancel_grace(secs(5));
    });
    fetch(&mut bench, 0..2);
    let hangs = bench.take_run();
    bench.idle(secs(40));
    assert!(bench.take_runs().is_empty(), "it has not ended");
    let dropped = |action: &AppAction| matches!(action, AppAction::Abandon { .. });
    assert_eq!(bench.told().iter().filter(|action| dropped(action)).count(), 1);
    assert_eq!(bench.status().groups[0].past_deadline, 1);
    bench.report(&hangs, SUSPEND);
    bench.sleep(secs(1));
    assert_eq!(
        (bench.take_run().offsets(), lost(&bench, LockLoss::Expired)),
        (vec![0], 0)
    );
}

#[test]
fn a_body_that_cannot_be_opened_is_buried_in_its_place() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0..2);
    let first = bench.take_run();
    bench.report(&first, Verdict::Undecodable);
    assert!(bench.take_runs().is_empty());
    assert_eq!(bench.sent(RequestCode::SEND_MESSAGE_V2).len(), 1);
}

// ---- hand-over ------------------------------------------------------------------------------------

#[test]
fn a_queue_is_given_back_in_the_order_handler_commit_unlock() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0..3);
    let running = bench.take_run();
    lose_share(&mut bench);
    assert_eq!(
        bench.queue(0).map(|queue| queue.state),
        Some(QueueState::Revoking)
    );
    let locks = bench.sent(LOCK).len();
    bench.idle(secs(25));
    assert!(bench.sent(LOCK).len() > locks, "renewed while its handler runs");
    bench.withhold(COMMIT_OFFSET);
    let before = bench.all_sent().len();
    bench.report(&running, COMMIT);
    bench.sleep(ms(100));
    assert!(
        !codes_since(&bench, before).contains(&UNLOCK),
        "not before the commit"
    );
    let commit = bench.expect_request(COMMIT_OFFSET);
    bench.answer(&commit, &Done);
    let codes = codes_since(&bench, before);
    let at = |code| codes.iter().position(|sent| *sent == code);
    assert!(
        at(COMMIT_OFFSET) < at(UNLOCK) && at(UNLOCK).is_some(),
        "{codes:?}"
    );
    assert!(bench.take_runs().is_empty());
}

#[test]
fn a_last_commit_that_fails_is_sent_again_before_the_queue_is_unlocked() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0..1);
    let running = bench.take_run();
    bench.report(&running, COMMIT);
    bench.refuse_all(COMMIT_OFFSET, ResponseCode::SYSTEM_ERROR);
    lose_share(&mut bench);
    bench.sleep(secs(3));
    assert!(!bench.sent(UNLOCK).iter().any(|asked| names_queue_of_t(asked)));
    bench.serve(COMMIT_OFFSET);
    bench.sleep(ms(500));
    assert!(bench.sent(UNLOCK).iter().any(|asked| names_queue_of_t(asked)));
}

#[test]
fn the_token_of_a_handler_is_cancelled_when_its_queue_has_waited_long_enough() {
    let mut bench = owning(|group| {
        group.set_orderly_revoke_max(secs(3));
    });
    fetch(&mut bench, 0..1);
    let _running = bench.take_run();
    lose_share(&mut bench);
    let cancelled = |bench: &Bench| {
        let told = bench.told().iter();
        told.filter(|action| matches!(action, AppAction::Cancel { .. }))
            .count()
    };
    bench.sleep(ms(2_900));
    assert_eq!(cancelled(&bench), 0);
    bench.sleep(ms(100));
    assert_eq!(cancelled(&bench), 1);
    bench.idle(secs(90));
    assert!(
        !bench.sent(UNLOCK).iter().any(|asked| names_queue_of_t(asked)),
        "it runs"
    );
    assert_eq!(lost(&bench, LockLoss::Expired), 0, "and is ours");
}

/// A queue that comes back while its last handler runs is taken over by the next ownership, without a lock that
/// somebody else could take in between.
#[test]
fn a_queue_that_comes_back_while_it_is_given_back_keeps_its_lock_and_loses_nothing() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0..2);
    let running = bench.take_run();
    lose_share(&mut bench);
    regain_share(&mut bench);
    let queue = bench.queue(0).expect("it is wanted again");
    assert_eq!(queue.hold, Some(HoldReason::WaitsForLock));
    let pulls = bench.sent(PULL).len();
    bench.sleep(secs(2));
    assert_eq!(
        bench.sent(PULL).len(),
        pulls,
        "the earlier ownership has not ended"
    );
    bench.report(&running, COMMIT);
    bench.sleep(ms(100));
    let pull = bench
        .outstanding(PULL)
        .pop()
        .map(Asked::request::<PullRequest>)
        .expect("it is pulled");
    assert_eq!(pull.offset, QueueOffset(1));
    assert!(!bench.sent(UNLOCK).iter().any(|asked| names_queue_of_t(asked)));
}

#[test]
fn the_way_out_is_drain_commit_unlock_good_bye() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0..3);
    let running = bench.take_run();
    let before = bench.all_sent().len();
    bench.tell(AppEvent::Shutdown { drain: secs(10) });
    bench.sleep(secs(2));
    assert!(codes_since(&bench, before).is_empty(), "a handler runs");
    bench.withhold(UNLOCK);
    bench.report(&running, COMMIT);
    bench.sleep(ms(300));
    assert!(
        !codes_since(&bench, before).contains(&UNREGISTER),
        "not before it is unlocked"
    );
    bench.serve(UNLOCK);
    bench.sleep(ms(100));
    let mut codes = codes_since(&bench, before);
    codes.dedup();
    assert_eq!(codes, [COMMIT_OFFSET, UNLOCK, UNREGISTER]);
    assert!(bench.is_closed());
}

/// The next owner must not deliver beside a handler that did not end in time: the broker lets go after a minute.
#[test]
fn a_queue_whose_handler_outlives_the_shutdown_is_not_unlocked() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0..3);
    let _running = bench.take_run();
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    bench.sleep(secs(20));
    assert!(bench.is_closed());
    assert!(!bench.sent(UNLOCK).iter().any(|asked| names_queue_of_t(asked)));
}

#[test]
fn an_offset_that_moves_begins_another_ownership_under_the_same_lock_and_behind_the_handler() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0..3);
    let running = bench.take_run();
    let locks = bench.sent(LOCK).len();
    let (pull, _) = bench.expect_pull();
    let mut reset = pull_answer(PullStatus::OffsetMoved, 0, bytes::Bytes::new());
    reset.reset = true;
    bench.answer(&pull, &reset);
    fetch(&mut bench, 0..3);
    assert!(bench.take_runs().is_empty(), "its handler runs");
    bench.report(&running, COMMIT);
    assert_eq!(bench.take_run().offsets(), [0]);
    assert_eq!((bench.sent(LOCK).len(), bench.sent(UNLOCK).len()), (locks, 0));
}

#[test]
fn a_lock_whose_answer_came_too_late_is_given_back() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").set_mode(ConsumeMode::Orderly);
    });
    bench.withhold(LOCK);
    bench.settle();
    let lock = bench.expect_request(LOCK);
    lose_share(&mut bench);
    assert!(bench.queue(0).is_none());
    assert!(
        !bench.sent(UNLOCK).iter().any(|asked| names_queue_of_t(asked)),
        "first the answer"
    );
    let LockRequest(names) = lock.request();
    bench.answer(&lock, &LockAnswer { locked: names.queues });
    assert!(bench.sent(UNLOCK).iter().any(|asked| names_queue_of_t(asked)));
}
