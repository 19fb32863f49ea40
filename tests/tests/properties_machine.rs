//! The contract of a machine, whatever happens to it.

use proptest::prelude::*;
use rocketmq_consumer_core::action::AppAction;
use rocketmq_consumer_core::event::{AppEvent, Event};
use rocketmq_consumer_testing::generate::{Driver, Seen, Step};
use rocketmq_consumer_testing::strategies;
use std::time::Duration;

const STEPS: usize = 60;

proptest! {
    /// A wake-up at `t` leaves nothing that is due at `t`; fed again and drained late, all is the same.
    #[test]
    fn it_repeats_itself_and_wants_no_wake_up_for_what_is_past(tape in strategies::tapes(STEPS)) {
        let mut u = tape.unstructured();
        let (mut driver, _) = Driver::generate(&mut u).expect("the generator is total");
        for _ in 0..STEPS {
            driver.step(&mut u).expect("the generator is total");
            let now = driver.now();
            if driver.recorder().events().last().is_some_and(|(_, event)| *event == Event::Wakeup) {
                prop_assert!(driver.state().poll_timeout().is_none_or(|wakeup| wakeup.at > now));
            }
        }
        driver.recorder().assert_replays();
    }

    /// Told to close, it closes in time, whoever is silent; and nothing happens to it afterwards.
    #[test]
    fn it_closes_in_time_whatever_came_before(tape in strategies::tapes(STEPS / 2), drain in 0..20_u64) {
        let mut u = tape.unstructured();
        let (mut driver, _) = Driver::generate(&mut u).expect("the generator is total");
        for _ in 0..STEPS / 2 {
            driver.step(&mut u).expect("the generator is total");
        }
        let drain = Duration::from_secs(drain);
        let mut seen = driver.feed(Step { after: Duration::ZERO, event: AppEvent::Shutdown { drain }.into() });
        let (begun, closed) = (driver.now(), |seen: &[Seen]| seen.iter().any(|seen| matches!(seen, Seen::Told(AppAction::Closed))));
        while !closed(&seen) {
            let wakeup = driver.state().poll_timeout();
            prop_assert!(wakeup.is_some(), "it waits for nothing");
            let at = wakeup.map_or(begun, |wakeup| wakeup.at);
            seen = driver.feed(Step { after: at.saturating_since(driver.now()), event: Event::Wakeup });
            // Handlers are waited for, then the last commits, then the farewell.
            let took = driver.now().saturating_since(begun);
            prop_assert!(took <= drain + Duration::from_secs(30), "{took:?} for {drain:?}: {:?}", driver.state().status());
        }
        prop_assert_eq!(driver.state().poll_timeout(), None);
        for _ in 0..5 {
            let seen = driver.step(&mut u).expect("the generator is total");
            prop_assert!(!seen.iter().any(|seen| matches!(seen, Seen::Asked(_) | Seen::Delivered(_) | Seen::Told(_))), "{seen:?}");
        }
    }

    /// Events that were made for another machine are survived.
    #[test]
    fn it_survives_the_events_of_another_life(mine in strategies::tapes(4), theirs in strategies::event_sequences(STEPS)) {
        let (mut driver, _) = Driver::generate(&mut mine.unstructured()).expect("the generator is total");
        for (at, event) in theirs {
            driver.feed(Step { after: at.saturating_since(driver.now()), event });
        }
        driver.recorder().assert_replays();
    }
}
