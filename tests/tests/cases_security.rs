//! Real bugs of other clients where something is not allowed.

use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::HoldReason;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_testing::world::{Bench, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;

/// Ours: the pause doubles from 1 s to 30 s.
#[test]
fn sc_05_what_is_refused_is_asked_again_patiently_and_for_ever() {
    for code in [
        ResponseCode::NO_PERMISSION,
        ResponseCode::SYSTEM_ERROR,
        ResponseCode::TOPIC_NOT_EXIST,
        ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode::INVALID_PARAMETER,
        ResponseCode(9_999),
    ] {
        let mut bench = Bench::owning_one_queue(5, |_, _| {});
        let before = bench.sent(PULL).len();
        bench.refuse_all(PULL, code);
        bench.sleep(secs(600));
        let pulls = bench.sent(PULL);
        let times: Vec<_> = pulls[before - 1..].iter().map(|pull| pull.at).collect();
        let gaps: Vec<_> = times
            .windows(2)
            .map(|pair| pair[1].saturating_since(pair[0]))
            .collect();
        assert_eq!(gaps[..6], [1, 2, 4, 8, 16, 30].map(secs), "{code}");
        assert!(
            gaps[5..].iter().all(|gap| *gap == secs(30)),
            "{code}: never given up"
        );
        let told = bench.count_notices(|kind| matches!(kind, NoticeKind::RequestRefused { .. }));
        assert!((8..=11).contains(&told), "{code}: {told} warnings in ten minutes");
        assert_eq!(
            bench.queue(0).and_then(|queue| queue.hold),
            Some(HoldReason::Refused)
        );

        bench.withhold(PULL);
        while bench.outstanding(PULL).is_empty() {
            bench.sleep(secs(1));
        }
        assert!(bench.now() <= times[0] + secs(631), "{code}");
        let (pull, request) = bench.expect_pull();
        assert_eq!(request.offset.0, 5);
        bench.found_at(&pull, [5], 10, 6);
        assert_eq!(bench.take_runs().len(), 1, "{code}: it works again");
    }
}

/// The route says that the queues of a topic may not be read any more, and then that they may.
#[test]
fn a_topic_that_may_not_be_read_for_a_while_is_given_back_and_taken_again() {
    let mut bench = Bench::owning_one_queue(5, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [5], 10, 6);
    for run in bench.take_runs() {
        bench.done(&run);
    }
    bench.set_permission("T", 2);
    // The broker is the first to say so.
    let (pull, _) = bench.expect_pull();
    bench.refuse(&pull, ResponseCode::NO_PERMISSION, "not readable");
    bench.sleep(secs(2));
    assert!(bench.queue(0).is_none(), "the route was asked at once");
    let rounds = bench.sent(PULL).len();
    bench.idle(secs(60));
    assert_eq!(bench.sent(PULL).len(), rounds);
    bench.set_permission("T", 6);
    bench.idle(secs(31));
    let (_, request) = bench.expect_pull();
    assert_eq!(request.offset.0, 6, "where it was");
}
