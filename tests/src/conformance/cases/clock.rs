//! The clock never goes back, and clones share it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq_consumer::{Instant, Runtime as _};

use crate::conformance::Host;
use crate::conformance::time::pause;

/// Readings that are compared.
const READINGS: usize = 10_000;

/// How far the wall clock may be from that of the system.
const WALL_APART: Duration = Duration::from_secs(60);

/// Plays the case.
pub fn run<H: Host>() {
    let host = H::start();
    let runtime = host.runtime();
    let clone = runtime.clone();
    let mut last = Instant::ZERO;
    for reading in 0..READINGS {
        let now = if reading % 2 == 0 {
            runtime.now()
        } else {
            clone.now()
        };
        assert!(now >= last, "{now:?} after {last:?}");
        last = now;
    }
    let elsewhere = clone.clone();
    let there = std::thread::spawn(move || elsewhere.now()).join();
    let there = there.expect("reading a clock does not panic");
    assert!(
        last <= there && there <= runtime.now(),
        "another thread has another clock"
    );

    host.block_on(pause(&runtime, Duration::from_millis(20)));
    assert!(
        clone.now().saturating_since(there) >= Duration::from_millis(20),
        "it stands"
    );

    #[expect(clippy::disallowed_methods, reason = "the clock that it is compared with")]
    let system = SystemTime::now().duration_since(UNIX_EPOCH);
    let system = system.expect("the clock of this machine is set").as_millis();
    let wall = u128::try_from(runtime.wall().as_unix_millis()).expect("it is after 1970");
    assert!(
        system.abs_diff(wall) <= WALL_APART.as_millis(),
        "{wall} where the system says {system}"
    );
}
