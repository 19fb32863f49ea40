//! No pull at or above a limit, whatever happens; and a pull as soon as there is room.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::event::{AppEvent, Report, Verdict};
use rocketmq_consumer_core::ids::{ConsumeId, Epoch, MessageQueue};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::status::{GroupStatus, HoldReason, QueueState, QueueStatus};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_testing::generate::{Driver, Seen, Shelf, Step, Unstructured};
use rocketmq_consumer_testing::strategies;

const STEPS: usize = 60;

/// Most messages of one answer, the last of which may pass a limit.
const BATCH_MAX: usize = 32;

/// The defaults; a failure prints its tape, which is enough to repeat it.
fn unsaved() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}

fn start(u: &mut Unstructured<'_>) -> (GroupConfig, Driver) {
    let shelf = Shelf::generate(u).expect("the generator is total");
    let group = shelf.group(u).expect("the generator is total");
    let (driver, _) = Driver::new(shelf, group.clone());
    (group, driver)
}

fn group(driver: &Driver) -> GroupStatus {
    driver.state().status().groups.remove(0)
}

/// Whether a queue is at a limit of what it holds.
fn is_full(group: &GroupConfig, queue: &QueueStatus) -> Option<HoldReason> {
    if queue.unfinished >= *group.queue_count_max() {
        Some(HoldReason::CountFull)
    } else if queue.bytes >= *group.queue_bytes_max() {
        Some(HoldReason::BytesFull)
    } else {
        None
    }
}

/// Under which ownership runs were handed out.
#[derive(Default)]
struct Ownerships(BTreeMap<ConsumeId, Epoch>);

impl Ownerships {
    fn book(&mut self, driver: &Driver, seen: &[Seen]) {
        for seen in seen {
            if let Seen::Delivered(run) = seen
                && let Some(queue) = newest(&group(driver), run.batch.queue())
            {
                self.0.insert(run.id, queue.epoch);
            }
        }
    }

    /// How far what is with handlers reaches above the lowest unfinished message: at most the span of
    /// the queue.
    fn span(&self, driver: &Driver, queue: &QueueStatus) -> i64 {
        let runs = driver.runs().iter();
        let of_queue =
            runs.filter(|run| *run.batch.queue() == queue.queue && self.0.get(&run.id) == Some(&queue.epoch));
        let highest = of_queue
            .filter_map(|run| run.batch.entry(*run.open.last()?))
            .map(|entry| entry.queue_offset().0);
        match (highest.max(), queue.lowest_unfinished) {
            (Some(highest), Some(lowest)) => highest - lowest.0,
            _ => 0,
        }
    }
}

/// The ownership that pulls, where an earlier one is still being given back.
fn newest<'a>(group: &'a GroupStatus, name: &MessageQueue) -> Option<&'a QueueStatus> {
    let named = group.queues.iter().filter(|queue| queue.queue == *name);
    named.max_by_key(|queue| queue.epoch)
}

#[test]
fn a_full_queue_is_not_pulled_and_one_with_room_is() {
    let held = Cell::new(0_usize);
    // The same worlds in each run: how often a limit is met must not depend on luck.
    let mut runner = TestRunner::new_with_rng(unsaved(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&strategies::tapes(STEPS), |tape| {
        let mut u = tape.unstructured();
        let (config, mut driver) = start(&mut u);
        let mut ownerships = Ownerships::default();
        for _ in 0..STEPS {
            let seen = driver.step(&mut u).expect("the generator is total");
            ownerships.book(&driver, &seen);
            pulls_pass_the_gate(&config, &driver, &ownerships, &seen)?;
            nothing_held_has_room(&config, &driver)?;
            let full = |queue: &QueueStatus| is_full(&config, queue).is_some();
            held.set(held.get() + usize::from(group(&driver).queues.iter().any(full)));
        }
        room_is_used(&config, &mut driver)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(held.get() > 500, "limits were met {} times only", held.get());
}

/// Each pull of this step was sent for a queue below its limits.
fn pulls_pass_the_gate(
    config: &GroupConfig,
    driver: &Driver,
    ownerships: &Ownerships,
    seen: &[Seen],
) -> Result<(), TestCaseError> {
    let group = group(driver);
    for seen in seen {
        let Seen::Asked(asked) = seen else { continue };
        if asked.code != RequestCode::PULL_MESSAGE {
            continue;
        }
        let request: PullRequest = asked.request();
        let name = driver.shelf().queue(&request.topic, asked, request.queue);
        if let Some(queue) = name.and_then(|name| newest(&group, name)) {
            prop_assert!(
                ownerships.span(driver, queue) <= i64::from(*config.queue_span_max()),
                "{:?}",
                queue
            );
            prop_assert_eq!(is_full(config, queue), None, "{:?}", queue);
            let buffer = group.buffer_bytes < *config.buffer_bytes_max() || queue.unfinished == 0;
            prop_assert!(buffer, "{} bytes held: {:?}", group.buffer_bytes, queue);
        }
    }
    // Nothing is fetched that a limit should have kept away, but for what one answer brings.
    for queue in &group.queues {
        let most = *config.queue_count_max() as usize - 1 + BATCH_MAX;
        prop_assert!(queue.unfinished as usize <= most, "{:?}", queue);
    }
    let (permits, in_use) = group.permits;
    let calls: usize = driver
        .runs()
        .iter()
        .map(|run| run.open.len().div_ceil(*config.handler_batch() as usize))
        .sum();
    prop_assert!(
        calls <= in_use as usize,
        "{calls} calls, {in_use} booked of {permits}"
    );
    Ok(())
}

/// A queue that says it is full is.
fn nothing_held_has_room(config: &GroupConfig, driver: &Driver) -> Result<(), TestCaseError> {
    let group = group(driver);
    for queue in group
        .queues
        .iter()
        .filter(|queue| queue.state == QueueState::Held)
    {
        match queue.hold {
            Some(HoldReason::CountFull | HoldReason::BytesFull) => {
                prop_assert_eq!(is_full(config, queue), queue.hold, "{:?}", queue);
            }
            Some(HoldReason::BufferFull) => {
                prop_assert!(group.buffer_bytes >= *config.buffer_bytes_max(), "{:?}", group);
            }
            Some(_) => {}
            None => prop_assert!(false, "held for no reason: {:?}", queue),
        }
    }
    Ok(())
}

/// When the handlers have ended, no queue is held for room any more, in the very same moment.
fn room_is_used(config: &GroupConfig, driver: &mut Driver) -> Result<(), TestCaseError> {
    while let Some(run) = driver.runs().first() {
        let (id, range) = (run.id, run.range);
        let report = Report::All(Verdict::Handled(Outcome::Done));
        driver.feed(Step {
            after: Duration::ZERO,
            event: AppEvent::Consumed { id, range, report }.into(),
        });
    }
    for queue in group(driver).queues {
        if queue.unfinished == 0 {
            let for_room = matches!(
                queue.hold,
                Some(
                    HoldReason::CountFull
                        | HoldReason::BytesFull
                        | HoldReason::SpanFull
                        | HoldReason::BufferFull
                )
            );
            prop_assert!(!for_room, "{:?} within {:?}", queue, config);
        }
    }
    Ok(())
}
