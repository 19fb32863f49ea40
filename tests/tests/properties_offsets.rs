//! Whatever happens to a machine: no commit passes a message that is not over, nothing is handed out
//! that was not served and subscribed to, and in calm everything is finished and committed.

mod ledger;

use std::cell::Cell;
use std::time::Duration;

use ledger::Ledger;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rocketmq_consumer_testing::generate::Driver;
use rocketmq_consumer_testing::strategies::{self, Tape};

/// Steps of one case.
const STEPS: usize = 60;

/// Longer than every pause of a machine and everything that can hold a queue.
const CALM: Duration = Duration::from_secs(3 * 60);

/// The defaults; a failure prints its tape, which is enough to repeat it.
fn unsaved() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}

/// Feeds events until the tape ends.
fn play(tape: &Tape) -> Result<(Driver, Ledger), TestCaseError> {
    let mut u = tape.unstructured();
    let mut ledger = Ledger::default();
    let (mut driver, seen) = Driver::generate(&mut u).expect("the generator is total");
    ledger.book(&driver, &seen).map_err(TestCaseError::fail)?;
    for _ in 0..STEPS {
        let seen = driver.step(&mut u).expect("the generator is total");
        ledger.book(&driver, &seen).map_err(TestCaseError::fail)?;
    }
    Ok((driver, ledger))
}

#[test]
fn a_commit_never_passes_what_is_not_over_and_calm_settles_everything() {
    let (delivered, commits, cases) = (Cell::new(0), Cell::new(0), Cell::new(0_u32));
    // The same worlds in each run: how often a limit is met must not depend on luck.
    let mut runner = TestRunner::new_with_rng(unsaved(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&strategies::tapes(STEPS), |tape| {
        let (mut driver, mut ledger) = play(&tape)?;
        let seen = driver.calm(CALM);
        ledger.book(&driver, &seen).map_err(TestCaseError::fail)?;
        if ledger.has_other_wishes {
            return Ok(());
        }
        for (queue, log) in &driver.shelf().logs {
            let done = log.stored == Some(log.max) || ledger.held.contains(queue);
            prop_assert!(done, "{queue}: {log:?} in {:#?}", driver.state().status());
        }
        prop_assert_eq!(ledger.unfinished(driver.shelf()), vec![]);
        delivered.set(delivered.get() + ledger.delivered);
        commits.set(commits.get() + ledger.commits);
        cases.set(cases.get() + 1);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // A property of machines that do nothing would prove nothing.
    let per_case = |count: usize| count / usize::try_from(cases.get()).expect("few");
    assert!(per_case(delivered.get()) > 20, "{} messages", delivered.get());
    assert!(per_case(commits.get()) > 4, "{} commits", commits.get());
}
