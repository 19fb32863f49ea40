//! Real bugs of other clients in flow control, one test each; `cases` tells their stories.
//!
//! Where a case fires a timer: there is none here. What holds a queue ends by an event.

use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::AppAction;
use rocketmq_consumer_core::consumer::WakeReason;
use rocketmq_consumer_core::event::{AppEvent, Event, FlowScope, RunRange, Verdict};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::status::{HoldReason, QueueState};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};
use rocketmq_consumer_testing::world::{Asked, Bench, StoredMessage, ms, pull_answer, queue, records, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const DONE: Verdict = Verdict::Handled(Outcome::Done);

/// A queue that holds as many messages as it may, all with handlers.
fn full() -> Bench {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_queue_count_max(32).set_concurrency(32);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..32, 10, 32);
    assert_eq!(held(&bench), Some(HoldReason::CountFull));
    bench
}

fn held(bench: &Bench) -> Option<HoldReason> {
    bench.queue(0).and_then(|queue| queue.hold)
}

#[test]
fn fc_01_the_size_account_returns_to_zero_whatever_handlers_do_to_bodies() {
    const MIB: usize = 1 << 20;
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_concurrency(100).set_buffer_bytes_max(1 << 30);
    });
    let body = Bytes::from(vec![0; MIB]);
    let template = StoredMessage::new(queue("T", "a", 0), 0, body, "");
    let template = records([&template]);
    for first in (0..100_i64).step_by(10) {
        let mut body = Vec::with_capacity(10 * template.len());
        for offset in first..first + 10 {
            let at = body.len();
            body.extend_from_slice(&template);
            body[at + 20..at + 28].copy_from_slice(&offset.to_be_bytes());
        }
        let (pull, _) = bench.expect_pull();
        bench.answer(&pull, &pull_answer(PullStatus::Found, first + 10, body.into()));
    }
    let status = bench.queue(0).expect("it is owned");
    assert_eq!((status.unfinished, status.bytes), (100, 100 << 20));
    assert_eq!(status.hold, Some(HoldReason::BytesFull), "no pull at the limit");
    // Handlers see a body and give back an outcome: what they did to their copy cannot be told from
    // here, and nothing is read again when the account is settled.
    for run in bench.take_runs() {
        bench.done(&run);
    }
    let status = bench.queue(0).expect("it is owned");
    assert_eq!((status.unfinished, status.bytes), (0, 0));
    assert_eq!(bench.status().groups[0].buffer_bytes, 0);
    assert_eq!(bench.outstanding(PULL).len(), 1, "at once");
}

#[test]
fn fc_03_the_span_limit_counts_from_the_lowest_unfinished_message() {
    let mut bench = Bench::owning_one_queue(10, |_, _| {});
    let mut next = 10;
    let mut stuck = None;
    while next < 10_000 && !bench.outstanding(PULL).is_empty() {
        let (pull, request) = bench.expect_pull();
        assert_eq!(request.offset.0, next);
        bench.found_at(&pull, next..next + 32, 10, next + 32);
        next += 32;
        loop {
            let runs = bench.take_runs();
            if runs.is_empty() {
                break;
            }
            for run in runs {
                let RunRange { mut start, end } = run.range;
                if run.offsets().first() == Some(&10) {
                    start += 1;
                    stuck = Some(run.clone());
                }
                if start < end {
                    bench.report_part(&run, RunRange { start, end }, DONE);
                }
            }
        }
    }
    let highest = next - 1;
    assert!((2011..=2010 + 32).contains(&highest), "stopped at {highest}");
    let status = bench.queue(0).expect("it is owned");
    assert_eq!((status.hold, status.unfinished), (Some(HoldReason::SpanFull), 1));
    let stuck = stuck.expect("message 10 was delivered");
    let start = stuck.range.start;
    bench.report_part(
        &stuck,
        RunRange {
            start,
            end: start + 1,
        },
        DONE,
    );
    let (_, request) = bench.expect_pull();
    assert_eq!(request.offset.0, next);
}

#[test]
fn fc_05_a_full_queue_is_not_pulled_by_any_timer() {
    let mut bench = full();
    bench.sleep(secs(120));
    assert_eq!(bench.sent(PULL).len(), 1);
    for _ in 0..10 {
        bench.skip(secs(1));
        bench.feed(Event::Wakeup);
        assert_ne!(bench.wakeup().map(|wakeup| wakeup.reason), Some(WakeReason::Pull));
    }
    assert_eq!(bench.sent(PULL).len(), 1, "no way to a pull passes the gate");
    assert_eq!(held(&bench), Some(HoldReason::CountFull));
}

#[test]
fn fc_06_room_is_used_at_once_and_once() {
    let mut bench = full();
    bench.skip(ms(5));
    for run in bench.take_runs() {
        bench.done(&run);
    }
    let pulls = bench.outstanding(PULL);
    assert_eq!(pulls.len(), 1);
    assert_eq!(
        (pulls[0].at, pulls[0].request::<PullRequest>().offset.0),
        (bench.now(), 32)
    );
    bench.skip(ms(45));
    bench.feed(Event::Wakeup);
    bench.sleep(secs(1));
    assert_eq!(bench.outstanding(PULL).len(), 1, "one pull for one pause");
}

#[test]
fn fc_08_what_is_discarded_while_paused_is_not_counted_any_more() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
        group.set_queue_count_max(64).set_concurrency(1000);
    });
    bench.set_queues("T", &[("a", 1)]);
    bench.settle();
    let (group, scope) = ("G".into(), FlowScope::Group);
    bench.tell(AppEvent::Pause { group, scope });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..32, 10, 32);
    let held = |bench: &Bench| bench.status().groups[0].buffer_bytes;
    assert!(held(&bench) > 0 && bench.take_runs().is_empty());
    // The queue goes to another member, and comes back.
    bench.set_queues("T", &[("a", 0)]);
    bench.sleep(secs(31));
    assert_eq!(bench.queue(0), None);
    assert_eq!(held(&bench), 0, "discarding is a removal");
    bench.set_queues("T", &[("a", 1)]);
    bench.sleep(secs(31));
    let (group, scope) = ("G".into(), FlowScope::Group);
    bench.tell(AppEvent::Resume { group, scope });
    for first in [0, 32] {
        let (pull, request) = bench.expect_pull();
        assert_eq!(request.offset.0, first, "nothing was passed over");
        bench.found_at(&pull, first..first + 32, 10, first + 32);
    }
    let status = bench.queue(0).expect("it is owned");
    assert_eq!(
        (status.unfinished, status.hold),
        (64, Some(HoldReason::CountFull))
    );
    for run in bench.take_runs() {
        bench.done(&run);
    }
    assert_eq!(
        (bench.queue(0).map(|queue| queue.unfinished), held(&bench)),
        (Some(0), 0)
    );
}

#[test]
fn fc_09_a_queue_that_never_drains_is_a_state_and_not_a_call() {
    let mut bench = full();
    bench.skip(ms(1));
    bench.feed(Event::Wakeup);
    let mut state = bench.state().clone();
    let (before, timer) = (state.status(), state.poll_timeout());
    // Until something else is due, in a million steps: a timer of the queue's own would show.
    let next = timer.expect("heartbeats and commits have their timers");
    assert_ne!(next.reason, WakeReason::Pull);
    let step = next.at.saturating_since(bench.now()) / 1_000_001;
    assert!(step > Duration::ZERO);
    let mut now = bench.now();
    for _ in 0..1_000_000 {
        now = now + step;
        state.handle(now, Event::Wakeup);
        assert_eq!((state.poll_action(), state.poll_timeout()), (None, timer));
    }
    assert_eq!(state.status(), before);
}

#[test]
fn fc_11_a_queue_is_dropped_although_nobody_takes_its_messages() {
    // Its handler ends within its grace, or not.
    for hangs in [true, false] {
        drop_a_queue_with_messages(hangs);
    }
}

fn drop_a_queue_with_messages(handler_hangs: bool) {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").set_concurrency(1);
    });
    bench.set_queues("T", &[("a", 2)]);
    bench.settle();
    for _ in 0..2 {
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, 0..32, 10, 32);
    }
    let runs = bench.take_runs();
    assert_eq!(runs.len(), 1, "one permit");
    assert_eq!(runs[0].batch.queue(), &queue("T", "a", 0));
    // The share is now queue 1.
    bench.set_members(&["c0", "c1"]);
    bench.notify("a");
    bench.sleep(ms(50));
    let status = bench.queue(0).expect("its handler has a grace");
    assert_eq!(status.state, QueueState::Revoking);
    assert_eq!(
        status.committed.map(|offset| offset.0),
        Some(0),
        "dropped at once"
    );
    let withdrawn = |action: &AppAction| matches!(action, AppAction::Withdraw { id } if *id == runs[0].id);
    assert!(bench.told().iter().any(withdrawn));
    let of_neighbour = |asked: &&Asked| asked.request::<PullRequest>().queue.0 == 1;
    let pulls = bench.outstanding(PULL).into_iter().filter(of_neighbour);
    assert_eq!(pulls.count(), 1, "the neighbour goes on");
    if handler_hangs {
        bench.sleep(ms(250));
        assert_eq!(bench.queue(0), None, "although its handler hangs");
    } else {
        bench.sleep(ms(100));
    }
    bench.done(&runs[0]);
    assert_eq!(bench.queue(0), None, "nothing is awaited any more");
    loop {
        let runs = bench.take_runs();
        let Some(run) = runs.first() else { break };
        assert_eq!(
            run.batch.queue(),
            &queue("T", "a", 1),
            "what was not delivered is discarded"
        );
        bench.done(run);
    }
    assert_eq!(bench.queue(1).map(|queue| queue.unfinished), Some(0));
}
