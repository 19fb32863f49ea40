//! How many handlers run, and how much a topic may hold.

use rocketmq_consumer_core::event::{AppEvent, RunRange, Verdict};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::status::HoldReason;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_testing::world::{Bench, Run, secs};

use super::{NONE, PULL, handed_out, hold, queues, take_pull};

#[test]
fn fewer_permits_than_are_in_use_take_effect_as_handlers_end() {
    let permits = |permits| AppEvent::Concurrency {
        group: "G".into(),
        permits,
    };
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_concurrency(4);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..32, 3, 32);
    let runs = bench.take_runs();
    assert_eq!(runs.iter().flat_map(Run::offsets).count(), 4);
    bench.tell(permits(2));
    assert_eq!(bench.status().groups[0].permits, (2, 4));
    let one = |at| RunRange {
        start: at,
        end: at + 1,
    };
    for at in 0..2 {
        bench.report_part(&runs[0], one(at), Verdict::Handled(Outcome::Done));
        assert_eq!(handed_out(&mut bench), NONE, "{at}: two run still");
    }
    bench.report_part(&runs[0], one(2), Verdict::Handled(Outcome::Done));
    assert_eq!(handed_out(&mut bench), [4]);
    bench.tell(permits(6));
    assert_eq!(handed_out(&mut bench), [5, 6, 7, 8]);
    assert_eq!(bench.status().groups[0].permits, (6, 6));
}

#[test]
fn a_topics_limits_are_shared_by_its_own_queues_that_are_ours_and_shared_anew_when_these_change() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").subscribe("U".into(), "*");
        group.set_topic_count_max(Some(80)).set_concurrency(1);
    });
    bench.set_queues("T", &[("a", 2)]);
    bench.set_queues("U", &[("a", 8)]);
    bench.settle();
    // 40 each, whatever the other topic has: Java would divide by 11.
    let fill = |bench: &mut Bench, id: i32| {
        while let Some(pull) = take_pull(bench, id) {
            let request: PullRequest = pull.request();
            let (first, end) = (
                request.offset.0,
                request.offset.0 + i64::from(request.max_messages),
            );
            bench.found_at(&pull, first..end, 3, end);
        }
        bench.queue(id).expect("it is owned").unfinished
    };
    assert_eq!(
        [fill(&mut bench, 0), fill(&mut bench, 1)],
        [64, 64],
        "two answers of 32 pass 40"
    );
    assert_eq!(hold(&bench, 0), Some(HoldReason::CountFull));
    // Queue 1 goes: what is left may hold all 80.
    bench.set_members(&["c1", "c2"]);
    bench.notify("a");
    bench.sleep(secs(1));
    assert!(bench.queue(1).is_none());
    assert_eq!(fill(&mut bench, 0), 96);
    // Of U there are four queues left: nobody is asked for more than a share at once.
    let asked = bench
        .outstanding(PULL)
        .into_iter()
        .map(|asked| asked.request::<PullRequest>());
    let of_other: Vec<_> = asked
        .filter(|pull| pull.topic.as_str() == "U")
        .map(|p| p.max_messages)
        .collect();
    assert_eq!(of_other.first(), Some(&10), "{of_other:?}");
}

#[test]
fn bytes_of_a_topic_are_shared_likewise() {
    let mut bench = queues(4, |group| {
        group.set_topic_bytes_max(Some(4_000));
    });
    let pull = take_pull(&mut bench, 0).expect("it is pulled");
    bench.found_at(&pull, 0..1, 1_000, 1);
    assert_eq!(hold(&bench, 0), Some(HoldReason::BytesFull));
    let pull = take_pull(&mut bench, 1).expect("it is pulled");
    bench.found_at(&pull, 0..1, 999, 1);
    assert_eq!(hold(&bench, 1), None);
}
