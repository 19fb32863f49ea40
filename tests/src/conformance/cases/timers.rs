//! A timer never ends early, ends at once when its time has passed, and one in the far future never.

use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::Duration;

use rocketmq_consumer::{Instant, Runtime};

use crate::conformance::Host;
use crate::conformance::time::{at_most, ends, pause};

/// Timers at a time.
const MANY: u64 = 1_000;

/// Plays the case.
pub fn run<H: Host>() {
    let host = H::start();
    let runtime = host.runtime();
    host.block_on(async {
        never_early(&runtime).await;
        far_away(&runtime).await;
        many(&runtime).await;
        polled_by_another(&runtime).await;
    });
}

async fn never_early<R: Runtime>(runtime: &R) {
    for micros in [0, 1, 999, 1_000, 1_001, 1_500, 20_000] {
        let at = runtime.now() + Duration::from_micros(micros);
        ends(runtime, "a timer", runtime.sleep_until(at)).await;
        assert!(
            runtime.now() >= at,
            "{micros} µs ended {:?} early",
            at.saturating_since(runtime.now())
        );
    }
    ends(
        runtime,
        "a time that has passed",
        runtime.sleep_until(Instant::ZERO),
    )
    .await;
}

/// The machine may ask for any time that can be written.
async fn far_away<R: Runtime>(runtime: &R) {
    let days = |days: u64| runtime.now() + Duration::from_secs(days * 24 * 3600);
    for at in [Instant::from_micros(u64::MAX), days(1), days(100_000)] {
        let ended = at_most(runtime, Duration::from_millis(20), runtime.sleep_until(at)).await;
        assert_eq!(ended, None, "{at:?} has not come");
    }
}

/// Each in a task of its own, and as many that are dropped before their time.
async fn many<R: Runtime>(runtime: &R) {
    let (early, ended) = mpsc::channel();
    for number in 0..MANY {
        // Not in the order of their times.
        let at = runtime.now() + Duration::from_micros(number * 7_919 % 20_000);
        drop(runtime.sleep_until(at));
        let (timers, early) = (runtime.clone(), early.clone());
        runtime.spawn(async move {
            timers.sleep_until(at).await;
            // Who hears of it may be gone already, after a failure.
            let _gone = early.send(at.saturating_since(timers.now()));
        });
    }
    let mut heard = 0;
    ends(runtime, "a thousand timers", async {
        while heard < MANY {
            while let Ok(early) = ended.try_recv() {
                assert_eq!(early, Duration::ZERO);
                heard += 1;
            }
            pause(runtime, Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Whoever polled last is woken.
async fn polled_by_another<R: Runtime>(runtime: &R) {
    let mut timer = pin!(runtime.sleep_until(runtime.now() + Duration::from_millis(20)));
    let earlier = timer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(earlier.is_pending());
    ends(runtime, "a timer that another task has polled", timer).await;
}
