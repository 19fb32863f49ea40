//! Rates are kept, used up and shared, and hold back nothing but deliveries.

use rocketmq_consumer_core::action::{AppAction, RefusalReason};
use rocketmq_consumer_core::consumer::WakeReason;
use rocketmq_consumer_core::event::Event;
use rocketmq_consumer_core::rate::Rate;
use rocketmq_consumer_core::status::{FlowStatus, HoldReason};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_testing::world::{Bench, Run, ms, secs};

use super::{NONE, PULL, flow, handed_out, hold, limit, queues, refusals, stalls, take_pull};

/// A queue with many messages, whose handlers end at once; returns when each message was handed out.
fn drain_at(rate: Rate, messages: i64, batch: u32) -> (Bench, Vec<Instant>) {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_rate_limit(Some(rate)).set_handler_batch(batch);
    });
    let mut times = Vec::new();
    let (mut put, end) = (0, bench.now() + secs(120));
    while (times.len() as i64) < messages && bench.now() < end {
        for pull in bench.drop_requests(PULL) {
            let first = pull.request::<PullRequest>().offset.0;
            if pull.request::<PullRequest>().topic.as_str() == "T" && put < messages {
                put = first + 32;
                bench.found_at(&pull, first..put, 3, put);
            }
        }
        let runs = bench.take_runs();
        for run in &runs {
            times.extend(run.offsets().iter().map(|_| bench.now()));
            bench.done(run);
        }
        if runs.is_empty() {
            bench.sleep(ms(1));
        }
    }
    (bench, times)
}

#[test]
fn a_rate_is_kept_and_used_up() {
    for (per_second, batch) in [(100, 1), (1_000, 1), (1_000, 32)] {
        let rate = Rate::per_second(per_second);
        let (_, times) = drain_at(rate, 640, batch);
        let (first, last) = (times[0], times[times.len() - 1]);
        for (at, time) in times.iter().enumerate() {
            let micros = u128::from(time.as_micros() - first.as_micros());
            let most = u128::from(rate.burst()) * 1_000_000 + micros * u128::from(per_second);
            assert!(
                (at as u128 + 1) * 1_000_000 <= most,
                "message {at} after {micros} µs"
            );
        }
        let wanted = (times.len() as u64 - u64::from(rate.burst())) * 1_000 / u64::from(per_second);
        let took = last.saturating_since(first).as_millis() as u64;
        assert!(
            (wanted..=wanted + wanted / 20 + 10).contains(&took),
            "{took} ms, {wanted} wanted"
        );
    }
}

#[test]
fn what_waits_for_its_rate_is_bounded_no_stall_and_its_deadline_begins_when_it_is_handed_out() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        let rate = Rate::per_second(1);
        group
            .set_rate_limit(Some(rate))
            .set_queue_count_max(32)
            .set_delivery_deadline(secs(5));
        group.set_stalled_after(secs(1));
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..32, 3, 32);
    assert_eq!(hold(&bench, 0), Some(HoldReason::CountFull));
    let waits = flow(&bench).waits_until;
    assert_eq!(waits, Some(bench.now() + secs(1)));
    assert_eq!(flow(&bench).rate_limit, Some(Rate::per_second(1)));
    for offset in 0..20 {
        let runs = bench.take_runs();
        assert_eq!(runs.iter().flat_map(Run::offsets).collect::<Vec<_>>(), [offset]);
        // Each handler takes most of its time.
        bench.sleep(ms(900));
        bench.done(&runs[0]);
        bench.sleep(ms(100));
    }
    let cancelled = |action: &&AppAction| matches!(action, AppAction::Cancel { .. });
    assert_eq!(bench.told().iter().filter(cancelled).count(), 0);
    assert_eq!(stalls(&bench), 0);
}

#[test]
fn the_timer_runs_only_while_something_waits_for_a_token() {
    let is_armed = |bench: &Bench| {
        let mut state = bench.state().clone();
        let mut reasons = Vec::new();
        for _ in 0..20 {
            let Some(wakeup) = state.poll_timeout().filter(|w| w.at <= bench.now() + secs(1)) else {
                break;
            };
            reasons.push(wakeup.reason);
            state.handle(wakeup.at, Event::Wakeup);
        }
        reasons.contains(&WakeReason::RateLimit)
    };
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group
            .set_rate_limit(Some(Rate::per_second(10)))
            .set_concurrency(1);
    });
    assert!(!is_armed(&bench), "nothing is there");
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..2, 3, 2);
    assert_eq!(handed_out(&mut bench).len(), 1);
    assert!(!is_armed(&bench), "a permit is waited for, no token");
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_rate_limit(Some(Rate::per_second(10)));
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..2, 3, 2);
    assert!(is_armed(&bench));
    bench.sleep(ms(100));
    assert_eq!(handed_out(&mut bench), [0, 1]);
    assert!(!is_armed(&bench));
}

#[test]
fn the_rate_may_change_and_end_at_any_time() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group
            .set_rate_limit(Some(Rate::per_second(1)))
            .set_concurrency(100);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..32, 3, 32);
    assert_eq!(handed_out(&mut bench), [0]);
    bench.sleep(ms(500));
    bench.tell(limit(None, Some(Rate::per_second(10).with_burst(5))));
    assert_eq!(handed_out(&mut bench), NONE, "half a token is none");
    bench.sleep(ms(50));
    assert_eq!(handed_out(&mut bench), [1]);
    bench.sleep(secs(1));
    assert_eq!(handed_out(&mut bench).len(), 10);
    bench.tell(limit(None, Some(Rate::per_second(0))));
    assert!(matches!(
        refusals(&bench)[..],
        [RefusalReason::BadConfig("rate_limit", _)]
    ));
    assert_eq!(handed_out(&mut bench), NONE);
    bench.tell(limit(None, None));
    assert_eq!(handed_out(&mut bench).len(), 20);
    assert_eq!(flow(&bench), FlowStatus::default());
}

#[test]
fn queues_share_a_rate_evenly_however_much_each_has() {
    let mut bench = queues(3, |group| {
        group
            .set_rate_limit(Some(Rate::per_second(30).with_burst(30)))
            .set_concurrency(1000);
    });
    bench.sleep(secs(1));
    // The second queue has as much as the first, in many answers of one message.
    let mut delivered = [0, 0, 0];
    for _ in 0..10 {
        for id in 0..3 {
            if let Some(pull) = take_pull(&mut bench, id) {
                let first = pull.request::<PullRequest>().offset.0;
                let end = first + if id == 1 { 1 } else { 32 };
                bench.found_at(&pull, first..end, 3, end);
            }
        }
        bench.sleep(secs(1));
        for run in bench.take_runs() {
            let id = run.batch.queue().id.0 as usize;
            delivered[id] += run.offsets().len();
            bench.done(&run);
        }
    }
    assert!(
        delivered[1] >= 8,
        "{delivered:?}: one message each time is all it has"
    );
    assert!(delivered[0].abs_diff(delivered[2]) <= 40, "{delivered:?}");
}

#[test]
fn a_topic_that_is_slowed_down_does_not_slow_down_the_others() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").subscribe("U".into(), "*");
        group
            .set_topic_rate_limits(vec![("U".into(), Rate::per_second(2))])
            .set_concurrency(100);
    });
    bench.set_queues("T", &[("a", 1)]);
    bench.set_queues("U", &[("a", 1)]);
    bench.settle();
    for pull in bench.drop_requests(PULL) {
        if pull.request::<PullRequest>().topic.as_str() != "%RETRY%G" {
            bench.found_at(&pull, 0..10, 3, 10);
        }
    }
    let count = |bench: &mut Bench| {
        let mut counts = [0, 0];
        for run in bench.take_runs() {
            let topic = run.batch.queue().topic.clone();
            counts[usize::from(topic.as_str() == "U")] += run.offsets().len();
        }
        counts
    };
    assert_eq!(count(&mut bench), [10, 1]);
    bench.sleep(secs(2));
    assert_eq!(count(&mut bench), [0, 4]);
    bench.tell(limit(Some("U"), None));
    assert_eq!(count(&mut bench), [0, 5]);
    assert_eq!(flow(&bench).waits_until, None);
}
