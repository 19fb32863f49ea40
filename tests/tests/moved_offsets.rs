//! Where a queue goes on after its broker has called an offset none of its own.

use bytes::Bytes;
use rocketmq_consumer_core::event::{RunRange, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullStatus};
use rocketmq_consumer_testing::world::Bench;

/// Ten messages, of which all but number 3 are finished; then the pull from 10 is answered so. Where the next
/// pull begins.
fn goes_on_at(to: i64, min: i64, max: i64) -> i64 {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..10, 1, 10);
    for run in bench.take_runs() {
        for (position, offset) in (0..).zip(run.offsets()) {
            if offset != 3 {
                let range = RunRange {
                    start: position,
                    end: position + 1,
                };
                bench.report_part(&run, range, Verdict::Handled(Outcome::Done));
            }
        }
    }
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.offset, QueueOffset(10));
    bench.answer(
        &pull,
        &PullAnswer {
            status: PullStatus::OffsetMoved,
            next_begin_offset: QueueOffset(to),
            min_offset: Some(QueueOffset(min)),
            max_offset: Some(QueueOffset(max)),
            suggest_broker_id: None,
            offset_delta: None,
            reset: false,
            messages: Bytes::new(),
        },
    );
    let (_, request) = bench.expect_pull();
    request.offset.0
}

/// A slave that lags named its own end, and what was unfinished below it was never delivered again.
#[test]
fn a_broker_that_ends_earlier_takes_nothing_unfinished_along() {
    for ((to, min, max), want) in [
        // It ends before what was asked for: a slave that lags, or a log that lost its end.
        ((8, 0, 8), 3),
        ((2, 0, 2), 2),
        ((8, 5, 8), 5),
        ((0, 0, 9), 0),
        // It has what was asked for: somebody has decided, forwards or backwards.
        ((8, 0, 10), 8),
        ((1, 0, 20), 1),
        ((20, 0, 20), 20),
    ] {
        assert_eq!(goes_on_at(to, min, max), want, "to {to} of {min}..{max}");
    }
}
