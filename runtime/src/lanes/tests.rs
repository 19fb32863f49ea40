use std::collections::BTreeSet;
use std::future::{Future, pending, poll_fn, ready};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::message::OrderlyOutcome::{Commit, Suspend, SuspendFor};
use rocketmq_consumer_core::message::Outcome::{DeadLetter, Done, Retry};
use rocketmq_consumer_core::message::{Message, OrderlyOutcome, Outcome};
use tokio::sync::Notify;

use super::*;
use crate::driver::Command;
use crate::handler::{PerBatch, PerMessage, WithContext};
use crate::testing::opener;
use crate::testing::{TestRuntime, commands, consume_id, eventually, range, reports, run, settled, verdicts};
use rocketmq_consumer_core::event::Verdict;

fn lanes<H: Handler<Answer = Outcome>>(
    handler: H,
    permits: u32,
    cores: usize,
) -> (Lanes<TestRuntime, H>, Arc<Inbox>) {
    lanes_of(handler, permits, cores)
}

fn lanes_of<H: Handler>(handler: H, permits: u32, cores: usize) -> (Lanes<TestRuntime, H>, Arc<Inbox>) {
    let inbox = Arc::<Inbox>::default();
    (
        Lanes::on_cores(TestRuntime::default(), opener(&inbox), handler, permits, cores),
        inbox,
    )
}

/// `PerMessage`, with the compiler's help for closures.
fn each<F, Fut>(handler: F) -> PerMessage<F>
where
    F: Fn(Message) -> Fut,
    Fut: Future,
{
    PerMessage::new(handler)
}

#[tokio::test]
async fn a_run_of_equal_outcomes_is_one_report() {
    let (mut desk, inbox) = lanes(each(|_| ready(())), 20, 1);
    desk.consume(run(1, 3..23));
    let report = eventually(|| reports(&inbox).pop()).await;
    assert_eq!(report, settled(1, 3..23, Done));
}

#[tokio::test]
async fn errors_and_panics_mean_retry_and_stop_nobody() {
    let handler = each(|message: Message| {
        assert!(message.position() != 1, "at the call");
        async move {
            match message.position() {
                0 => Ok(DeadLetter),
                2 => panic!("while polled"),
                3 => Err("no"),
                _ => Ok(Done),
            }
        }
    });
    let (mut desk, inbox) = lanes(handler, 20, 2);
    desk.consume(run(1, 0..5));
    let known = verdicts(&inbox, 5).await;
    let want = [DeadLetter, Retry, Retry, Retry, Done].map(Verdict::Handled);
    assert_eq!(known.into_values().collect::<Vec<_>>(), want);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_end_in_any_order_are_each_reported_once() {
    let handler = each(|message: Message| async move {
        for _ in 0..(message.position() * 7) % 11 {
            tokio::task::yield_now().await;
        }
        if message.position().is_multiple_of(5) {
            Retry
        } else {
            Done
        }
    });
    let (mut desk, inbox) = lanes(handler, 1_000, 2);
    for id in 0..40 {
        desk.consume(run(id, 0..25));
    }
    let known = verdicts(&inbox, 1_000).await;
    for ((_, position), verdict) in known {
        assert_eq!(
            verdict,
            Verdict::Handled(if position.is_multiple_of(5) { Retry } else { Done })
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_blocked_lane_keeps_nothing_from_the_others_and_its_queue_can_be_taken_back() {
    let (unblock, blocked) = mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let handler = each(move |message: Message| {
        if message.position() == 0 {
            let _closed = lock(&blocked).recv();
        }
        ready(())
    });
    let (mut desk, inbox) = lanes(handler, 20, 2);
    desk.consume(run(1, 0..1));
    eventually(|| (lock(&desk.shared.work).runs.messages() == 0).then_some(())).await;
    for id in 2..10 {
        desk.consume(run(id, 1..9));
    }
    let others = verdicts(&inbox, 64).await;
    assert!(others.keys().all(|(run, _)| *run != 1));

    // Both lanes hang now; what nobody has begun is given back all the same.
    desk.consume(run(10, 0..1));
    eventually(|| (lock(&desk.shared.work).runs.messages() == 0).then_some(())).await;
    desk.consume(run(11, 1..4));
    desk.abandon(consume_id(11), 2);
    desk.withdraw(consume_id(11));
    let known = verdicts(&inbox, 3).await;
    let want = [Verdict::NotStarted, Verdict::Handled(Retry), Verdict::NotStarted];
    assert_eq!(known.into_values().collect::<Vec<_>>(), want);
    drop(unblock);
    assert_eq!(
        verdicts(&inbox, 2).await.into_keys().collect::<Vec<_>>(),
        [(1, 0), (10, 0)]
    );
}

#[tokio::test]
async fn a_cancelled_call_hears_it_and_only_that_one() {
    let handler = WithContext::new(|message: Message, context: crate::Context| async move {
        assert!(!context.is_cancelled());
        context.cancelled().await;
        if message.position() == 1 { DeadLetter } else { Done }
    });
    let (mut desk, inbox) = lanes(handler, 20, 1);
    desk.consume(run(1, 0..3));
    tokio::task::yield_now().await;
    desk.cancel(consume_id(1), 1);
    desk.cancel(consume_id(2), 0);
    let known = verdicts(&inbox, 1).await;
    assert_eq!(
        known.into_iter().collect::<Vec<_>>(),
        [((1, 1), Verdict::Handled(DeadLetter))]
    );
    desk.cancel(consume_id(1), 0);
    desk.cancel(consume_id(1), 2);
    verdicts(&inbox, 2).await;
}

/// Counts itself while it lives.
struct Guard(Arc<AtomicU32>);

impl Guard {
    fn new(living: &Arc<AtomicU32>) -> Self {
        living.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(living))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn an_abandoned_call_is_dropped_and_retried_once() {
    let living = Arc::<AtomicU32>::default();
    let seen = Arc::clone(&living);
    let handler = each(move |_| {
        let guard = Guard::new(&seen);
        async move {
            pending::<()>().await;
            drop(guard);
        }
    });
    let (mut desk, inbox) = lanes(handler, 20, 1);
    desk.consume(run(1, 0..2));
    eventually(|| (living.load(Ordering::SeqCst) == 2).then_some(())).await;
    desk.abandon(consume_id(1), 1);
    desk.abandon(consume_id(1), 1);
    let known = verdicts(&inbox, 1).await;
    assert_eq!(
        known.into_iter().collect::<Vec<_>>(),
        [((1, 1), Verdict::Handled(Retry))]
    );
    assert_eq!(living.load(Ordering::SeqCst), 1);

    // With the group everything it still holds goes.
    drop(desk);
    eventually(|| (living.load(Ordering::SeqCst) == 0).then_some(())).await;
}

#[tokio::test]
async fn a_wake_up_that_comes_after_the_end_harms_nobody() {
    let wakers = Arc::<Mutex<Vec<std::task::Waker>>>::default();
    let kept = Arc::clone(&wakers);
    let handler = each(move |_| {
        let kept = Arc::clone(&kept);
        poll_fn(move |cx| {
            lock(&kept).push(cx.waker().clone());
            Poll::<()>::Pending
        })
    });
    let (mut desk, inbox) = lanes(handler, 20, 1);
    desk.consume(run(1, 0..1));
    let late = eventually(|| lock(&wakers).pop()).await;
    desk.abandon(consume_id(1), 0);
    verdicts(&inbox, 1).await;
    late.wake_by_ref();
    tokio::task::yield_now().await;
    // Its slot serves the next call, which hears the old waker as a spurious wake-up.
    desk.consume(run(2, 0..1));
    eventually(|| lock(&wakers).pop()).await;
    late.wake();
    eventually(|| lock(&wakers).pop()).await;
    assert_eq!(reports(&inbox), []);
}

#[tokio::test]
async fn a_busy_lane_lets_others_run() {
    let done = Arc::<AtomicU32>::default();
    let count = Arc::clone(&done);
    let handler = each(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        ready(())
    });
    let (mut desk, inbox) = lanes(handler, 1_000, 1);
    desk.consume(run(1, 0..1_000));
    // A task like any other, which asks to go on as soon as it is its turn again.
    let neighbour = tokio::spawn(async move {
        let (mut longest, mut before) = (0, done.load(Ordering::SeqCst));
        while before < 1_000 {
            let mut asked = false;
            poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::replace(&mut asked, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            let now = done.load(Ordering::SeqCst);
            (longest, before) = (longest.max(now - before), now);
        }
        longest
    });
    let longest = neighbour.await.unwrap();
    assert!(longest <= 64, "{longest} messages without a break");
    verdicts(&inbox, 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn more_permits_open_more_lanes() {
    let together = Arc::new(std::sync::Barrier::new(3));
    let handler = each(move |_| {
        together.wait();
        ready(())
    });
    let (mut desk, inbox) = lanes(handler, 1, 3);
    desk.resize(3);
    desk.consume(run(1, 0..3));
    verdicts(&inbox, 3).await;
}

/// The machine hands out no more than it may; a lane too many rests, and opens again without another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn fewer_permits_end_no_call_and_open_no_lane_when_there_are_more_again() {
    let together = Arc::new(std::sync::Barrier::new(3));
    let handler = each(move |_| {
        together.wait();
        ready(())
    });
    let (mut desk, inbox) = lanes(handler, 3, 3);
    desk.consume(run(1, 0..3));
    desk.resize(1);
    verdicts(&inbox, 3).await;
    for _ in 0..50 {
        desk.resize(1);
        desk.resize(3);
    }
    assert_eq!(lock(&desk.shared.work).lanes.len(), 3);
    desk.consume(run(2, 0..3));
    verdicts(&inbox, 3).await;
}

#[tokio::test]
async fn batches_are_neighbours_of_one_run_and_no_longer_than_asked() {
    let seen = Arc::<Mutex<BTreeSet<Vec<u32>>>>::default();
    let calls = Arc::clone(&seen);
    let handler = move |messages: Vec<Message>, _| {
        let positions: Vec<u32> = messages.iter().map(Message::position).collect();
        let outcomes = positions
            .iter()
            .map(|at| if at.is_multiple_of(2) { Done } else { Retry })
            .collect::<Vec<_>>();
        lock(&calls).insert(positions);
        ready(outcomes)
    };
    let handler = PerBatch::new(handler, 4);
    let (mut desk, inbox) = lanes(handler, 20, 1);
    desk.consume(run(1, 0..6));
    desk.consume(run(2, 8..9));
    let known = verdicts(&inbox, 7).await;
    assert!(
        known
            .iter()
            .all(|((_, at), verdict)| (*verdict == Verdict::Handled(Done)) == (at.is_multiple_of(2)))
    );
    let calls: Vec<_> = lock(&seen).iter().cloned().collect();
    assert_eq!(calls, [vec![0, 1, 2, 3], vec![4, 5], vec![8]]);
}

#[tokio::test]
async fn rt_12_a_batch_that_panics_is_retried_as_a_whole_and_the_next_one_runs() {
    let handler = |messages: Vec<Message>, _| {
        assert!(messages[0].position() != 0, "at the call");
        async move {
            assert!(messages[0].position() != 4, "while polled");
            crate::FirstDone(2)
        }
    };
    let handler = PerBatch::new(handler, 4);
    let (mut desk, inbox) = lanes(handler, 20, 1);
    desk.consume(run(1, 0..12));
    let known = verdicts(&inbox, 12).await;
    let done: Vec<u32> = known
        .iter()
        .filter(|(_, verdict)| **verdict == Verdict::Handled(Done))
        .map(|((_, position), _)| *position)
        .collect();
    assert_eq!(done, [8, 9]);
    assert!(
        known
            .values()
            .all(|verdict| matches!(verdict, Verdict::Handled(Done | Retry)))
    );
}

#[tokio::test]
async fn a_call_can_ask_for_more_time() {
    let (extended, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&extended), Arc::clone(&go_on));
    let handler = WithContext::new(move |_: Message, context: crate::Context| {
        let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
        async move {
            context.extend(Duration::from_secs(60));
            tell.notify_one();
            wait.notified().await;
        }
    });
    let (mut desk, inbox) = lanes(handler, 1, 1);
    desk.consume(run(1, 7..8));
    extended.notified().await;
    let asked = commands(&inbox);
    let [Command::App(AppEvent::Extend { id, position: 7, by })] = &asked[..] else {
        panic!("no extension")
    };
    assert_eq!((*id, by.as_secs()), (consume_id(1), 60));
    go_on.notify_one();
    assert_eq!(eventually(|| reports(&inbox).pop()).await.range, range(7..8));
}

#[test]
fn a_handler_that_is_ready_costs_no_allocation_per_message() {
    const RUNS: u64 = 200;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let handler = WithContext::new(|message: Message, context: crate::Context| {
        ready(if context.is_cancelled() {
            Retry
        } else if message.position() > 99 {
            DeadLetter
        } else {
            Done
        })
    });
    let (mut desk, inbox) = runtime.block_on(async { lanes(handler, 20, 1) });
    let model = run(1, 0..20);
    let mut taken = std::collections::VecDeque::new();
    let mut go = |runs: u64| {
        runtime.block_on(async {
            for _ in 0..runs {
                desk.consume(model.clone());
                while taken.is_empty() {
                    tokio::task::yield_now().await;
                    inbox.take(&mut taken);
                }
                taken.clear();
            }
        });
    };
    go(3);
    let counted = allocation_counter::measure(|| go(RUNS));
    assert!(
        counted.count_total < RUNS,
        "{counted:?} for {} messages",
        RUNS * 20
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn whatever_is_ordered_meanwhile_every_message_is_reported_exactly_once() {
    let handler = each(|message: Message| async move {
        match message.position() % 4 {
            0 => pending().await,
            1 => tokio::task::yield_now().await,
            2 => tokio::time::sleep(Duration::from_micros(300)).await,
            _ => {}
        }
    });
    let (mut desk, inbox) = lanes(handler, 1_000, 3);
    let mut dice = 1u64;
    for id in 0..200 {
        desk.consume(run(id, 0..16));
        for _ in 0..6 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (target, position) = (consume_id(id - (dice >> 40) % (id + 1)), (dice >> 33) as u32 % 16);
            match (dice >> 61) % 4 {
                0 => desk.withdraw(target),
                1 => desk.cancel(target, position),
                2 => desk.abandon(target, position),
                _ => tokio::task::yield_now().await,
            }
        }
    }
    // Those that never end by themselves are given up at last.
    for id in 0..200 {
        for position in (0..16).step_by(4) {
            desk.abandon(consume_id(id), position);
        }
    }
    verdicts(&inbox, 200 * 16).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(reports(&inbox), [], "nothing twice");
}

/// A handler of an ordered queue, with the compiler's help for closures.
fn in_order<F, Fut>(handler: F) -> PerMessage<F, OrderlyOutcome>
where
    F: Fn(Message) -> Fut,
    Fut: Future,
{
    PerMessage::new(handler)
}

#[tokio::test]
async fn in_order_an_error_a_panic_and_being_given_up_suspend() {
    let handler = in_order(|message: Message| {
        assert!(message.position() != 1, "at the call");
        async move {
            match message.position() {
                0 => Ok(SuspendFor(Duration::from_millis(20))),
                2 => panic!("while polled"),
                3 => Err("no"),
                4 => pending().await,
                _ => Ok(Commit),
            }
        }
    });
    let (mut desk, inbox) = lanes_of(handler, 20, 2);
    for position in 0..6 {
        desk.consume(run(u64::from(position), position..position + 1));
    }
    let mut known = verdicts(&inbox, 5).await;
    desk.abandon(consume_id(4), 4);
    known.extend(verdicts(&inbox, 1).await);
    let pause = SuspendFor(Duration::from_millis(20));
    let want = [pause, Suspend, Suspend, Suspend, Suspend, Commit].map(Verdict::Ordered);
    assert_eq!(known.into_values().collect::<Vec<_>>(), want);
}

#[tokio::test]
async fn in_order_what_does_not_fit_in_one_call_goes_back_unbegun() {
    let (calls, seen) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
    let (begun, most) = (Arc::clone(&calls), Arc::clone(&seen));
    let handler = move |messages: Vec<Message>, _| {
        begun.fetch_add(1, Ordering::SeqCst);
        most.fetch_max(u32::try_from(messages.len()).unwrap(), Ordering::SeqCst);
        async {
            tokio::task::yield_now().await;
            Commit
        }
    };
    let (mut desk, inbox) = lanes_of(PerBatch::<_, OrderlyOutcome>::new(handler, 4), 20, 3);
    desk.consume(run(1, 2..11));
    let known = verdicts(&inbox, 9).await;
    let want: Vec<_> = (2..11)
        .map(|at| {
            if at < 6 {
                Verdict::Ordered(Commit)
            } else {
                Verdict::NotStarted
            }
        })
        .collect();
    assert_eq!(known.into_values().collect::<Vec<_>>(), want);
    assert_eq!(
        (calls.load(Ordering::SeqCst), seen.load(Ordering::SeqCst)),
        (1, 4)
    );
}
