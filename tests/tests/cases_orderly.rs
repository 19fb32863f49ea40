//! Real bugs of other clients in ordered consumption, one test each.

use bytes::Bytes;
use rocketmq_consumer_core::config::{ConsumeMode, GroupConfig, StartAt};
use rocketmq_consumer_core::event::Verdict;
use rocketmq_consumer_core::ids::{QueueId, QueueOffset};
use rocketmq_consumer_core::message::{OrderlyOutcome, Outcome};
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::{HoldReason, QueueState};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::{ExtWriter, Header, WriteExt};
use rocketmq_consumer_core::wire::properties::name;
use rocketmq_consumer_core::wire::request::locks::{LockAnswer, LockRequest, UnlockRequest};
use rocketmq_consumer_core::wire::request::offsets::{CommitOffsetRequest, OffsetAnswer};
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_core::wire::request::send::{SendAnswer, SendRequest, SendStatus};
use rocketmq_consumer_core::wire::request::{Answer, AnswerError};
use rocketmq_consumer_testing::world::{Asked, Bench, Run, ms, queue, secs};

const LOCK: RequestCode = RequestCode::LOCK_BATCH_MQ;
const UNLOCK: RequestCode = RequestCode::UNLOCK_BATCH_MQ;
const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const COMMIT_OFFSET: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const QUERY: RequestCode = RequestCode::QUERY_CONSUMER_OFFSET;
const MAX_OFFSET: RequestCode = RequestCode::GET_MAX_OFFSET;
const SEND: RequestCode = RequestCode::SEND_MESSAGE_V2;

const COMMIT: Verdict = Verdict::Ordered(OrderlyOutcome::Commit);
const SUSPEND: Verdict = Verdict::Ordered(OrderlyOutcome::Suspend);

/// A member of `T`, in order, before anything was answered.
fn member(queues: u32, set_up: impl FnOnce(&mut GroupConfig)) -> Bench {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").set_mode(ConsumeMode::Orderly);
        set_up(group);
    });
    bench.set_queues("T", &[("a", queues)]);
    bench
}

/// One that owns its only queue, where this is stored, and has sent its first pull.
fn owning(stored: i64, set_up: impl FnOnce(&mut GroupConfig)) -> Bench {
    let mut bench = member(1, set_up);
    bench.store("T", 0, stored);
    bench.settle();
    bench
}

/// The next pull brings messages at these offsets.
fn fetch(bench: &mut Bench, offsets: impl IntoIterator<Item = i64>) {
    let offsets: Vec<i64> = offsets.into_iter().collect();
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, offsets.clone(), 10, offsets.last().expect("some") + 1);
}

/// The only run that was handed out.
/// Offsets of the runs that were handed out.
fn offsets(bench: &mut Bench) -> Vec<Vec<i64>> {
    bench.take_runs().iter().map(Run::offsets).collect()
}

fn committed(bench: &Bench) -> Vec<i64> {
    let commits = bench.sent(COMMIT_OFFSET);
    let offsets = commits
        .iter()
        .map(|asked| asked.request::<CommitOffsetRequest>().offset.0);
    offsets.collect()
}

fn locked_ids(asked: &Asked) -> Vec<i32> {
    let LockRequest(names) = asked.request();
    names.queues.iter().map(|queue| queue.id.0).collect()
}

/// An empty list is no list, and changes nothing; one that names others takes the queues, once.
#[test]
fn rb_05_a_list_without_us_costs_the_queues_once_and_they_come_back_by_themselves() {
    for (list, kept) in [(&[][..], true), (&["c0"][..], false)] {
        let mut bench = member(2, |_| {});
        bench.store("T", 0, 10);
        bench.store("T", 1, 8);
        bench.settle();
        bench.sleep(secs(1));
        // A pull fails with its connection.
        let conn = bench.expect_pull().0.link.conn;
        bench.close(conn);
        bench.idle(secs(99));
        bench.set_members(list);
        bench.idle(secs(20));
        assert_eq!(bench.queue(0).is_some(), kept, "{list:?}");
        if !kept {
            // What the earlier ownerships have asked for is nobody's any more.
            bench.drop_requests(PULL);
        }
        bench.set_members(&["c1"]);
        bench.idle(secs(20));
        for (id, stored) in [(0, 10), (1, 8)] {
            let queue = bench.queue(id).expect("it is owned again");
            assert_eq!(queue.state, QueueState::Pulling, "{queue:?}");
            assert!(queue.lock.is_some_and(|lock| lock.held));
            assert_eq!(queue.next_offset, Some(QueueOffset(stored)));
        }
        assert_eq!(bench.outstanding(PULL).len(), 2, "one for each queue");
        stays_and_moves(&mut bench);
    }
}

/// From now on each pull brings two messages: no queue is dropped any more, and offsets rise.
fn stays_and_moves(bench: &mut Bench) {
    let revoked = |bench: &Bench| bench.count_notices(|kind| matches!(kind, NoticeKind::Revoked { .. }));
    let before = revoked(bench);
    for _ in 0..160 {
        for pull in bench.drop_requests(PULL) {
            let first = pull.request::<PullRequest>().offset.0;
            bench.found_at(&pull, [first, first + 1], 10, first + 2);
        }
        loop {
            let runs = bench.take_runs();
            if runs.is_empty() {
                break;
            }
            for run in runs {
                bench.report(&run, COMMIT);
            }
        }
        bench.sleep(secs(1));
    }
    assert_eq!(revoked(bench), before, "no queue is dropped again");
    let queue = bench.queue(0).expect("it is owned");
    assert!(queue.committed >= Some(QueueOffset(300)), "{queue:?}");
}

#[test]
fn fc_02_a_message_that_is_suspended_is_counted_once() {
    let mut bench = owning(7, |group| {
        group.set_queue_count_max(1024);
    });
    fetch(&mut bench, [7]);
    for attempt in 0..2000 {
        let run = bench.take_run();
        assert_eq!((run.offsets(), run.attempt), (vec![7], attempt));
        bench.report(&run, Verdict::Ordered(OrderlyOutcome::SuspendFor(ms(10))));
        let queue = bench.queue(0).expect("it is owned");
        assert_eq!((queue.unfinished, queue.bytes), (1, 10));
        bench.sleep(ms(10));
    }
    let last = bench.take_run();
    bench.report(&last, COMMIT);
    let queue = bench.queue(0).expect("it is owned");
    assert_eq!((queue.unfinished, queue.bytes), (0, 0));
    fetch(&mut bench, [8]);
    assert_eq!(offsets(&mut bench), [[8]]);
}

#[test]
fn of_03_a_start_is_chosen_once_and_after_the_lock() {
    let mut bench = member(1, |group| {
        group.set_start_at(StartAt::Latest);
    });
    bench.withhold(LOCK);
    bench.settle();
    bench.sleep(ms(900));
    let of_t = |bench: &Bench| {
        let asked = bench.sent(MAX_OFFSET).len() + bench.sent(QUERY).len();
        asked + bench.sent(PULL).len()
    };
    assert_eq!(of_t(&bench), 0, "nothing is asked before the lock");
    let lock = bench.drop_requests(LOCK).pop().expect("it is asked for");
    let LockRequest(names) = lock.request();
    bench.answer(&lock, &LockAnswer { locked: names.queues });
    bench.serve(LOCK);
    let max = bench.expect_request(MAX_OFFSET);
    let offset = QueueOffset(9);
    bench.answer(&max, &OffsetAnswer { offset });
    let (_, pull) = bench.expect_pull();
    assert_eq!(pull.offset.0, 9);
    assert_eq!(committed(&bench), [9], "a crash must not choose again");
    // The lock is lost and comes back: the start is what was chosen.
    bench.set_locked_elsewhere(0, true);
    bench.sleep(secs(20));
    assert_eq!(
        bench.queue(0).and_then(|queue| queue.hold),
        Some(HoldReason::WaitsForLock)
    );
    bench.set_locked_elsewhere(0, false);
    bench.sleep(secs(2));
    let (_, pull) = bench.expect_pull();
    assert_eq!((pull.offset.0, bench.sent(MAX_OFFSET).len()), (9, 1));
}

#[test]
fn or_01_a_suspended_message_comes_again_before_its_successor_and_nothing_passes_it() {
    let mut bench = owning(10, |_| {});
    fetch(&mut bench, [10, 11]);
    let first = bench.take_run();
    bench.report(&first, SUSPEND);
    bench.sleep(ms(999));
    assert!(bench.take_runs().is_empty());
    assert!(committed(&bench).is_empty());
    let queue = bench.queue(0).expect("it is owned");
    assert_eq!(queue.suspended_until, Some(bench.now() + ms(1)));
    bench.sleep(ms(1));
    let again = bench.take_run();
    assert_eq!((again.offsets(), again.attempt), (vec![10], 1));
    bench.report(&again, COMMIT);
    bench.sleep(secs(5));
    let next = bench.take_run();
    assert_eq!((next.offsets(), next.attempt), (vec![11], 0));
    bench.report(&next, COMMIT);
    bench.sleep(secs(5));
    assert_eq!(committed(&bench), [11, 12]);
}

#[test]
fn or_02_a_dropped_queue_leaves_nothing_behind_and_is_unlocked_after_its_handler() {
    // Nothing fetched.
    let mut idle = owning(10, |_| {});
    let timers = idle.status().timers;
    idle.set_members(&["c0", "c1"]);
    idle.notify("a");
    idle.sleep(ms(50));
    assert!(idle.queue(0).is_none());
    let LockRequest(names) = idle.sent(LOCK)[0].request();
    let UnlockRequest(unlocked) = idle.sent(UNLOCK)[0].request();
    assert!(names.queues.contains(&queue("T", "a", 0)) && unlocked.queues.contains(&queue("T", "a", 0)));
    assert!(idle.status().timers <= timers);

    // Five fetched, and the handler answers after the drop.
    let mut bench = owning(10, |_| {});
    fetch(&mut bench, 10..15);
    let running = bench.take_run();
    bench.set_members(&["c0", "c1"]);
    bench.notify("a");
    bench.sleep(secs(25));
    assert_eq!(
        bench.queue(0).map(|queue| queue.state),
        Some(QueueState::Revoking)
    );
    assert!(
        bench.sent(UNLOCK).iter().all(|asked| !unlocks(asked, 0)),
        "its handler runs"
    );
    bench.report(&running, SUSPEND);
    bench.settle();
    assert!(bench.queue(0).is_none());
    assert!(bench.sent(UNLOCK).iter().any(|asked| unlocks(asked, 0)));
    let notices = bench.notices().len();
    bench.idle(secs(60));
    assert!(bench.take_runs().is_empty(), "not delivered again");
    assert_eq!(bench.notices().len(), notices, "nothing is told over and over");
    assert!(committed(&bench).iter().all(|offset| *offset == 10));
}

fn unlocks(asked: &Asked, id: i32) -> bool {
    let UnlockRequest(names) = asked.request();
    names.queues.contains(&queue("T", "a", id))
}

#[test]
fn or_03_a_granted_lock_is_put_to_use_at_once() {
    let mut bench = member(2, |_| {});
    bench.withhold(LOCK);
    bench.settle();
    let lock = bench.expect_request(LOCK);
    assert_eq!(locked_ids(&lock), [0, 1], "one request for all");
    bench.skip(ms(13));
    let LockRequest(names) = lock.request();
    bench.answer(&lock, &LockAnswer { locked: names.queues });
    let pulls = bench.outstanding(PULL);
    assert_eq!(pulls.len(), 2);
    assert!(pulls.iter().all(|pull| pull.at == bench.now()));
}

/// An answer whose body is written by hand.
struct Words(&'static str);

impl WriteExt for Words {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for Words {
    fn body(&self) -> Bytes {
        Bytes::from_static(self.0.as_bytes())
    }

    fn decode(header: &Header<'_>, _: &Bytes) -> Result<Self, AnswerError> {
        let (code, remark) = (ResponseCode(header.code), "only written".into());
        Err(AnswerError::Refused { code, remark })
    }
}

#[test]
fn or_05_the_answer_is_matched_by_value_and_foreign_queues_mean_nothing() {
    let mut bench = member(2, |_| {});
    bench.withhold(LOCK);
    bench.settle();
    let lock = bench.expect_request(LOCK);
    // The members of a queue come in another order, and queue 7 was not asked for.
    let body = r#"{"lockOKMQSet":[{"topic":"T","queueId":0,"brokerName":"a"},{"queueId":7,"brokerName":"a","topic":"T"},{"queueId":1,"brokerName":"zz","topic":"T"}]}"#;
    bench.answer(&lock, &Words(body));
    assert_eq!(bench.queue(0).map(|queue| queue.state), Some(QueueState::Pulling));
    assert_eq!(
        bench.queue(1).and_then(|queue| queue.hold),
        Some(HoldReason::WaitsForLock)
    );
    assert!(bench.queue(7).is_none());
}

#[test]
fn or_08_an_outcome_of_the_other_kind_is_taken_for_what_comes_closest_and_told_once() {
    let mut bench = owning(5, |_| {});
    fetch(&mut bench, [5, 6, 7]);
    let told =
        |bench: &Bench| bench.count_notices(|kind| matches!(kind, NoticeKind::OutcomeOfOtherKind { .. }));
    let first = bench.take_run();
    bench.report(&first, Verdict::Handled(Outcome::Retry));
    assert_eq!(told(&bench), 1);
    bench.sleep(secs(1));
    let again = bench.take_run();
    assert_eq!((again.offsets(), again.attempt), (vec![5], 1));
    bench.report(&again, Verdict::Handled(Outcome::RetryAfter(secs(2))));
    bench.sleep(ms(1_999));
    assert!(bench.take_runs().is_empty());
    bench.sleep(ms(1));
    let again = bench.take_run();
    bench.report(&again, Verdict::Handled(Outcome::Done));
    // "Dead letter" has no counterpart in order: it is taken for what it says.
    let next = bench.take_run();
    assert_eq!(next.offsets(), [6]);
    bench.report(&next, Verdict::Handled(Outcome::DeadLetter));
    assert!(bench.take_runs().is_empty(), "not before it is buried");
    let send = bench.expect_request(SEND);
    bench.answer(&send, &stored());
    assert_eq!(offsets(&mut bench), [[7]]);
    assert_eq!(told(&bench), 1, "once");
}

fn stored() -> SendAnswer {
    SendAnswer {
        status: SendStatus::Stored,
        message_id: "0".into(),
        queue: QueueId(0),
        offset: Some(QueueOffset(0)),
        transaction_id: None,
    }
}

/// The limit and the count are one apart when a message has had all its tries, so that every broker buries it: the
/// case's own figures are those of the release in which it circulated.
#[test]
fn or_09_a_message_that_fails_too_often_is_buried_before_its_successor_comes() {
    let mut bench = owning(5, |group| {
        group.set_max_reconsume(1);
    });
    fetch(&mut bench, [5, 6]);
    for attempt in 0..2 {
        let run = bench.take_run();
        assert_eq!((run.offsets(), run.attempt), (vec![5], attempt));
        assert!(bench.sent(SEND).is_empty());
        bench.report(&run, SUSPEND);
        bench.sleep(secs(1));
    }
    let send = bench.expect_request(SEND);
    let copy: SendRequest = send.request();
    assert_eq!(copy.topic.as_str(), "%RETRY%G");
    assert_eq!(
        (copy.reconsume_times, copy.max_reconsume_times),
        (Some(2), Some(1))
    );
    let properties = copy.properties.expect("they say where it came from");
    for (key, value) in [(name::RECONSUME_TIME, "2"), (name::MAX_RECONSUME_TIMES, "1")] {
        let text = format!("{key}\u{1}{value}\u{2}");
        assert!(format!("{properties}\u{2}").contains(&text), "{key} is text");
    }
    // Refused: it stays where it is, nothing passes it and nothing is committed.
    bench.refuse(&send, ResponseCode::SYSTEM_ERROR, "disk full");
    bench.sleep(secs(4));
    assert!(bench.take_runs().is_empty());
    assert!(committed(&bench).iter().all(|offset| *offset <= 5));
    bench.sleep(secs(2));
    let again = bench.take_run();
    assert_eq!(again.offsets(), [5]);
    bench.report(&again, SUSPEND);
    let send = bench.expect_request(SEND);
    assert!(bench.take_runs().is_empty(), "not before that is acknowledged");
    bench.answer(&send, &stored());
    let next = bench.take_run();
    assert_eq!((next.offsets(), next.attempt), (vec![6], 0));
    bench.sleep(secs(5));
    assert_eq!(committed(&bench).last(), Some(&6));
    assert_eq!(bench.sent(SEND).len(), 2);
}

#[test]
fn or_10_from_the_first_message_on_one_is_delivered_at_a_time() {
    let mut bench = owning(1, |group| {
        group.set_concurrency(64);
    });
    fetch(&mut bench, 1..=10);
    for offset in 1..=10 {
        let run = bench.take_run();
        assert_eq!(run.offsets(), [offset]);
        bench.sleep(ms(1));
        assert!(bench.take_runs().is_empty());
        bench.report(&run, COMMIT);
    }
}
