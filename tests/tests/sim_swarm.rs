//! Worlds of many seeds, with every rule looking on. `SIM_SEEDS=a..b` runs others, or more.

use std::ops::Range;

use rocketmq_consumer_testing::sim::report::Distribution;
use rocketmq_consumer_testing::sim::{invariants, swarm};

/// As many as run in some ten seconds.
const USUALLY: Range<u64> = if cfg!(debug_assertions) { 0..40 } else { 0..300 };

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("SIM_SEEDS") else {
        return USUALLY;
    };
    let ends = text
        .split_once("..")
        .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.unwrap_or_else(|| panic!("SIM_SEEDS is written a..b, not {text:?}"))
}

#[test]
fn no_seed_breaks_a_rule() {
    match swarm::run_many(seeds(), invariants::all, &|_| ()) {
        Ok(reports) => println!("{}", Distribution::of(reports)),
        Err(violation) => panic!("{violation}"),
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 4] {
        let run = || swarm::run(seed, invariants::all).unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(run(), run());
    }
}
