//! Wall clocks that are wrong: fields of the protocol come from them, decisions do not.

mod machine;

use machine::{Machine, Setting};
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::time::WallTime;

/// Versions of subscriptions come from the wall clock and rise with each change of the share.
#[test]
fn a_clock_at_either_end_of_time_stops_nothing() {
    for millis in [i64::MIN, i64::MAX] {
        let mut machine = Machine::start(Setting::default());
        machine.handle(AppEvent::Clock(WallTime::from_unix_millis(millis)));
        for members in [&["another", "me"][..], &["me"], &["another", "me"], &["me"]] {
            machine.members = members.to_vec();
            machine.pulls.clear();
            machine.advance(21_000);
        }
        assert_eq!(machine.pulls.len(), 1, "the queue came back and is pulled");
    }
}
