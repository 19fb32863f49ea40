use rocketmq_consumer_core::config::ConsumeMode;

use super::super::invariants::bench::{Bench, Mover, QUEUE, retry};
use super::*;

/// A member that owns the queue from 100 on and has been given 100 to 102.
fn bench() -> Bench<RefConsumer> {
    let mut bench = Bench::new(RefConsumer::default());
    bench
        .ours()
        .query()
        .stored(Some(100))
        .assign(1, 100)
        .step_end(None);
    bench
        .pull(100, None)
        .found(100..103)
        .deliver(1, 100..103)
        .pull(103, None)
        .step_end(None)
        .legal();
    bench
}

#[test]
fn a_queue_starts_where_an_answer_says() {
    let asked = || {
        let mut bench = Bench::new(RefConsumer::default());
        bench.ours().query();
        bench
    };
    asked().stored(Some(100)).assign(1, 100).legal();
    asked().stored(Some(100)).assign(1, 99).breaks("starts");
    asked().stored(None).assign(1, 7).legal();
    asked().assign(1, 0).breaks("starts");
    asked()
        .stored(Some(100))
        .step_end(None)
        .assign(1, 100)
        .breaks("starts");
    asked()
        .stored(None)
        .step_end(None)
        .ask(Ask::Other(RequestCode::GET_MAX_OFFSET))
        .answer_last(Answer::Done)
        .assign(1, 5)
        .legal();
    // What the member has finished itself it need not read again, and what others have finished it must not.
    let left = || {
        let mut bench = bench();
        bench.done(1, 100).done(1, 101).done(1, 102).revoke(1).query();
        bench
    };
    left().stored(Some(90)).assign(2, 103).legal();
    left().stored(Some(90)).assign(2, 104).breaks("starts");
    left().stored(Some(200)).assign(2, 103).breaks("starts");
}

#[test]
fn a_queue_that_is_moved_goes_on_where_the_policy_says() {
    use IllegalOffsetPolicy as P;
    // The pull asked from 103; 101 is not finished.
    let moved = |policy, to, bounds, word| {
        let mut bench = bench();
        bench.world.config.set_illegal_offset(policy);
        bench.done(1, 100).moved(to, bounds, word).revoke(1);
        bench
    };
    for (policy, to, bounds, word, good, bad) in [
        (P::Resume, 40, (0, 200), Mover::Master, [40, 40], 41),
        (P::Hold, 40, (0, 50), Mover::Reset, [40, 40], 103),
        (P::Resume, 150, (150, 200), Mover::Master, [150, 150], 200),
        (P::Earliest, 150, (150, 200), Mover::Master, [150, 150], 200),
        (P::Latest, 150, (150, 200), Mover::Master, [200, 200], 150),
        // Its end lies below what was asked for: nothing unfinished is left out.
        (P::Resume, 102, (0, 102), Mover::Master, [101, 102], 100),
        (P::Follow, 102, (0, 102), Mover::Master, [101, 102], 103),
        (P::Earliest, 102, (60, 102), Mover::Master, [60, 60], 101),
    ] {
        for good in good {
            moved(policy, to, bounds, word).assign(2, good).legal();
        }
        moved(policy, to, bounds, word).assign(2, bad).breaks("starts");
    }
    for (policy, to, bounds, word) in [
        (P::Resume, 102, (0, 102), Mover::Slave),
        (P::Follow, 150, (150, 200), Mover::Slave),
        (P::Hold, 102, (0, 102), Mover::Master),
        (P::Hold, 150, (150, 200), Mover::Master),
    ] {
        moved(policy, to, bounds, word).assign(2, to).breaks("starts");
    }
}

#[test]
fn pulls_go_on_where_the_answer_told() {
    let mut bench = bench();
    bench.pulled(PullStatus::NotFound, 110).pull(110, None).legal();
    bench.found(110..112).pull(111, None).breaks("next is 112");
}

#[test]
fn what_was_fetched_is_delivered_once_an_attempt() {
    bench().deliver(2, 100..101).breaks("the model has");
    bench().deliver(2, 103..104).breaks("the model has None");
    bench()
        .settle(1, 100, retry())
        .deliver_again(2, 100..101, 1)
        .legal();
    bench()
        .settle(1, 100, Verdict::NotStarted)
        .deliver(2, 100..101)
        .legal();
}

#[test]
fn a_commit_names_the_lowest_unfinished_offset_exactly() {
    for (done, commit, right) in [
        (&[][..], 100, true),
        (&[101], 100, true),
        (&[100], 101, true),
        (&[100], 100, false),
        (&[100], 102, false),
        (&[100, 101, 102], 103, true),
        (&[100, 101, 102], 102, false),
    ] {
        let mut bench = bench();
        for offset in done {
            bench.done(1, *offset);
        }
        if right {
            bench.commit(commit).legal();
        } else {
            bench.commit(commit).breaks("lowest unfinished");
        }
    }
}

#[test]
fn what_was_fetched_and_not_delivered_holds_the_offset() {
    let mut bench = bench();
    bench.found(103..105);
    for offset in 100..103 {
        bench.done(1, offset);
    }
    bench.pull(105, Some(105)).breaks("lowest unfinished");
}

#[test]
fn a_send_back_finishes_its_message_when_it_is_accepted() {
    let failed = || {
        let mut bench = bench();
        bench
            .done(1, 101)
            .done(1, 102)
            .settle(1, 100, retry())
            .send_back(100);
        bench
    };
    failed().commit(103).breaks("lowest unfinished");
    failed().answer_last(Answer::Done).commit(103).legal();
    failed()
        .answer_last(Answer::Done)
        .commit(100)
        .breaks("lowest unfinished");
    failed().at(6_000).answer_last(Answer::Done).commit(103).legal();
    failed().at(6_000).answer_last(Answer::Done).commit(100).legal();
}

#[test]
fn an_answer_that_comes_after_its_deadline_was_handled_counts_for_nothing() {
    let mut bench = bench();
    bench
        .at(23_000)
        .woken()
        .found(103..105)
        .deliver(2, 103..104)
        .breaks("None");
    let mut before = self::bench();
    before.at(23_000).found(103..105).deliver(2, 103..104).legal();
}

#[test]
fn a_member_that_leaves_in_time_has_committed_what_is_finished() {
    let leaves = || {
        let mut bench = bench();
        bench.leave(10_000).commit(100).step_end(None);
        bench.done(1, 100).done(1, 101).done(1, 102);
        bench
    };
    leaves().revoke(1).breaks("leaves");
    leaves().commit(103).revoke(1).legal();
    leaves().disconnected().revoke(1).legal();
    // A commit that was on its way before the member was asked to leave waited for a broker that is down.
    let cut_before = |millis: u64| {
        let mut bench = bench();
        bench
            .disconnected()
            .at(millis)
            .leave(10_000)
            .commit(100)
            .step_end(None);
        bench.done(1, 100).done(1, 101).done(1, 102).revoke(1);
        bench
    };
    cut_before(14_000).legal();
    cut_before(16_000).breaks("leaves");
}

#[test]
fn what_is_consumed_in_order_is_not_committed_without_its_lock() {
    for (at, legal) in [(29_000, true), (28_999, false)] {
        let mut bench = bench();
        bench.world.config.set_mode(ConsumeMode::Orderly);
        bench.at(0).locked(true, 0).done(1, 100).done(1, 101).done(1, 102);
        bench.at(at).leave(10_000).revoke(1);
        if legal {
            bench.legal();
        } else {
            bench.breaks("leaves");
        }
    }
}

#[test]
fn what_an_ownership_holds_is_counted() {
    let mut bench = bench();
    let record = super::super::invariants::bench::record(0).len() as u64;
    let held = |bench: &mut Bench<RefConsumer>| bench.rule.book(Life(0), QUEUE, &bench.world).map(Book::held);
    let buffer = 3 * record;
    assert_eq!(
        held(&mut bench),
        Some(Held {
            count: 3,
            bytes: 3,
            buffer
        })
    );
    bench.done(1, 101);
    assert_eq!(
        held(&mut bench),
        Some(Held {
            count: 2,
            bytes: 2,
            buffer
        })
    );
    assert_eq!(
        bench.rule.book(Life(0), QUEUE, &bench.world).map(Book::span),
        Some(2)
    );
    bench.done(1, 100).done(1, 102);
    assert_eq!(held(&mut bench), Some(Held::default()));
    assert_eq!(
        bench.rule.book(Life(0), QUEUE, &bench.world).map(Book::span),
        Some(0)
    );
}

#[test]
fn an_answer_counts_for_sure_once_the_machine_pulls_on() {
    let answered = || {
        let mut bench = bench();
        bench.done(1, 100).done(1, 101).done(1, 102);
        bench.pulled(PullStatus::RetryImmediately, 110);
        bench
    };
    // Given up in the same step, before the answer was looked at.
    answered().commit(103).legal();
    answered().commit(110).legal();
    answered().commit(102).breaks("lowest unfinished");
    answered().commit(111).breaks("lowest unfinished");
    answered().pull(110, None).commit(103).breaks("lowest unfinished");
}
