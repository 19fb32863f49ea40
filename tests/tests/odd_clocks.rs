//! Wall clocks that are wrong: fields of the protocol come from them, decisions do not.

use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_testing::world::{Bench, secs};

/// Versions of subscriptions come from the wall clock and rise with each change of the share.
#[test]
fn a_clock_at_either_end_of_time_stops_nothing() {
    for millis in [i64::MIN, i64::MAX] {
        let mut bench = Bench::owning_one_queue(0, |_, _| {});
        bench.tell(AppEvent::Clock(WallTime::from_unix_millis(millis)));
        for members in [&["c0", "c1"][..], &["c1"], &["c0", "c1"], &["c1"]] {
            bench.set_members(members);
            bench.drop_requests(RequestCode::PULL_MESSAGE);
            bench.sleep(secs(21));
        }
        let pulls = bench.outstanding(RequestCode::PULL_MESSAGE);
        assert_eq!(pulls.len(), 1, "the queue came back and is pulled");
    }
}
