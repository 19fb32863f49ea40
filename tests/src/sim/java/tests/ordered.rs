//! What is different when a Java-like member consumes in order.

use super::*;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.member.config.orderly = true;
    bench
        .member
        .ground
        .arm(super::super::ordered::FIRST_LOCK_ALL, Timer::LockAll);
    bench
}

/// One that owns its queue and has fetched messages 100 to 102.
fn fetched() -> Bench {
    let mut bench = bench();
    bench.run_to(1_500);
    bench.pulled(PullStatus::Found, 103, 100..103);
    bench
}

fn offsets(bench: &Bench) -> Vec<(i64, u32)> {
    let delivered = bench.delivered.iter();
    delivered
        .map(|(.., offset, attempt)| (*offset, *attempt))
        .collect()
}

fn last_token(bench: &Bench) -> u64 {
    bench.delivered.last().unwrap().1
}

fn listened(bench: &mut Bench, ok: bool) {
    let token = last_token(bench);
    bench.feed(JavaInput::Handled { token, ok });
}

#[test]
fn a_queue_is_locked_before_its_offset_is_asked_for_and_again_before_the_first_pull() {
    let mut bench = bench();
    bench.run_to(1_499);
    let codes = [RequestCode::LOCK_BATCH_MQ, RequestCode::QUERY_CONSUMER_OFFSET];
    let asked = bench.asked.iter().filter(|(_, code)| codes.contains(code));
    let asked: Vec<_> = asked.copied().collect();
    assert_eq!(asked, [(1_000, codes[0]), (1_000, codes[1])]);
    bench.stored = Some(107);
    bench.run_to(1_500);
    assert_eq!(
        bench.pulls[0].1.offset,
        QueueOffset(107),
        "as it is under the lock"
    );
}

#[test]
fn a_refused_lock_is_tried_for_every_second() {
    let mut bench = bench();
    bench.locks = false;
    bench.run_to(3_999);
    assert_eq!(bench.times(RequestCode::LOCK_BATCH_MQ), [1_000, 2_000, 3_000]);
    assert!(bench.told.is_empty() && bench.pulls.is_empty());
    bench.locks = true;
    bench.run_to(4_500);
    assert_eq!(bench.pulls.len(), 1);
}

#[test]
fn messages_are_listened_to_one_by_one_and_a_failed_one_holds_the_others() {
    let mut bench = fetched();
    assert_eq!(offsets(&bench), [(100, 0)]);
    listened(&mut bench, true);
    assert_eq!(offsets(&bench), [(100, 0), (101, 0)]);
    listened(&mut bench, false);
    bench.run_to(2_499);
    assert_eq!(offsets(&bench).len(), 2, "the queue rests");
    bench.run_to(2_500);
    assert_eq!(offsets(&bench)[2..], [(101, 1)]);
    listened(&mut bench, true);
    assert_eq!(offsets(&bench)[3..], [(102, 0)]);
    bench.run_to(10_000);
    assert_eq!(bench.commits.last(), Some(&(10_000, 102)));
}

#[test]
fn without_a_lock_nothing_is_listened_to_until_it_is_granted_again() {
    let mut bench = fetched();
    bench.locks = false;
    bench.run_to(22_000);
    listened(&mut bench, true);
    bench.run_to(24_000);
    assert_eq!(offsets(&bench).len(), 1);
    bench.locks = true;
    bench.run_to(26_000);
    assert_eq!(offsets(&bench)[1..], [(101, 0)]);
}

#[test]
fn a_lock_that_could_not_be_renewed_lasts_30_seconds() {
    for (ends, more) in [(31_000, 1), (31_020, 0)] {
        let mut bench = fetched();
        bench.silent = vec![RequestCode::LOCK_BATCH_MQ];
        bench.run_to(ends);
        listened(&mut bench, true);
        assert_eq!(bench.delivered.len(), 1 + more, "{ends}");
    }
}

#[test]
fn a_queue_that_is_given_back_is_unlocked_when_its_listener_lets_go_in_time() {
    let mut bench = fetched();
    bench.members = vec!["a@1", "b@1"];
    bench.notify();
    bench.run_to(2_200);
    assert!(bench.times(RequestCode::UNLOCK_BATCH_MQ).is_empty());
    listened(&mut bench, true);
    assert_eq!(bench.times(RequestCode::UNLOCK_BATCH_MQ), [2_200]);
    assert_eq!(bench.delivered.len(), 1, "nothing more of it");
    assert_eq!(bench.member.owned().count(), 0);
    let committed = bench.commits.last().map(|(_, offset)| *offset);
    assert_eq!(
        committed, None,
        "the result of a queue that is given back counts for nothing"
    );
}

#[test]
fn a_queue_that_comes_back_before_it_was_gone_is_stuck() {
    let mut bench = fetched();
    bench.members = vec!["a@1", "b@1"];
    bench.notify();
    bench.run_to(3_000);
    bench.members = vec!["b@1"];
    bench.notify();
    bench.run_to(60_000);
    listened(&mut bench, true);
    bench.run_to(100_000);
    assert_eq!((bench.delivered.len(), bench.pulls.len()), (1, 2));
    bench.run_to(145_000);
    assert_eq!(offsets(&bench).len(), 1);
    assert!(
        bench.pulls.len() > 2,
        "two minutes after its last pull it is made anew"
    );
}

#[test]
fn it_leaves_unlocking_before_it_commits() {
    let mut bench = fetched();
    listened(&mut bench, true);
    bench.run_to(2_000);
    let before = bench.asked.len();
    bench.feed(JavaInput::Shutdown);
    let codes: Vec<RequestCode> = bench.asked[before..].iter().map(|(_, code)| *code).collect();
    let want = [
        RequestCode::UNLOCK_BATCH_MQ,
        RequestCode::UPDATE_CONSUMER_OFFSET,
        RequestCode::UNREGISTER_CLIENT,
    ];
    assert_eq!(codes, want);
    assert!(bench.member.is_closed());
}
