//! A shutdown in the middle of it: what handlers have finished is committed, and nothing else is.

use std::time::Duration;

use rocketmq_consumer::{Consumer, ConsumerBuilder, Message, OrderlyOutcome, Runtime};

use crate::conformance::scene::{Examined, QUEUES, Scene};
use crate::conformance::seen::Seen;
use crate::conformance::time::{LIMIT, ends, pause, until};
use crate::conformance::{Cluster, Host};

/// Messages that wait.
const LOAD: u64 = 2_000;

/// Those that are handled before the shutdown begins.
const BUSY: u64 = 200;

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        scene.send(LOAD);
        in_order(scene, on_lanes).await;
        in_order(scene, on_threads).await;
        in_order(scene, one_after_another).await;
        half_of_them_failing(scene).await;
        at_once(scene).await;
        let last = scene.noting().await;
        scene.all_seen().await;
        scene.leave(last).await;
        assert_eq!(scene.committed().await, unanswered(scene));
    });
}

/// Time enough: what was begun ends, and every end is committed.
async fn in_order<H: Host, C: Cluster>(
    scene: &Scene<H, C>,
    start: impl AsyncFn(ConsumerBuilder<Examined<H>>, Seen, Examined<H>) -> Consumer<Examined<H>>,
) {
    let before = scene.seen.calls();
    let consumer = begin(scene, start).await;
    let report = ends(&scene.runtime, "the shutdown", consumer.shutdown(LIMIT)).await;
    assert_eq!((report.timed_out, report.abandoned), (false, 0));
    let handled = scene.seen.calls() - before;
    assert_eq!(
        report.finished, handled,
        "the report tells what handlers have done"
    );
    assert!(!scene.seen.missing(0..LOAD).is_empty(), "it was not under load");
    assert_eq!(scene.committed().await, unanswered(scene));
}

/// What fails is sent back meanwhile, and comes again.
async fn half_of_them_failing<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let consumer = begin(scene, some_fail).await;
    let report = ends(&scene.runtime, "the shutdown", consumer.shutdown(LIMIT)).await;
    assert_eq!((report.timed_out, report.abandoned), (false, 0));
    let_none_be_passed(scene).await;
}

/// No time: what handlers had in their hands comes again.
async fn at_once<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let consumer = begin(scene, on_lanes).await;
    ends(&scene.runtime, "the shutdown", consumer.shutdown(Duration::ZERO)).await;
    until(&scene.runtime, "its tasks", || scene.runtime.counts().tasks == 0).await;
    let_none_be_passed(scene).await;
}

/// A consumer that has been busy for a while.
async fn begin<H: Host, C: Cluster>(
    scene: &Scene<H, C>,
    start: impl AsyncFn(ConsumerBuilder<Examined<H>>, Seen, Examined<H>) -> Consumer<Examined<H>>,
) -> Consumer<Examined<H>> {
    let (seen, runtime) = (scene.seen.clone(), scene.runtime.clone());
    let before = seen.calls();
    let starting = start(scene.consumer().concurrency(8), seen, runtime);
    let consumer = ends(&scene.runtime, "the start", starting).await;
    until(&scene.runtime, "it is busy", || {
        scene.seen.calls() >= before + BUSY
    })
    .await;
    consumer
}

async fn let_none_be_passed<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    for (stored, lowest) in scene.committed().await.into_iter().zip(unanswered(scene)) {
        assert!(
            stored <= lowest,
            "{stored} is committed, and {lowest} was never handled"
        );
    }
}

fn unanswered<H: Host, C: Cluster>(scene: &Scene<H, C>) -> Vec<i64> {
    let lowest = |queue| {
        scene
            .seen
            .lowest_unanswered(i32::try_from(queue).expect("queues are few"))
    };
    (0..QUEUES).map(lowest).collect()
}

/// Neighbours do not end in their order.
fn time_for(message: &Message) -> Duration {
    Duration::from_micros(500 + 700 * (message.queue_offset().0.unsigned_abs() % 4))
}

async fn on_lanes<R: Runtime>(builder: ConsumerBuilder<R>, seen: Seen, timers: R) -> Consumer<R> {
    let started = builder.start(move |message: Message| {
        let (seen, timers) = (seen.clone(), timers.clone());
        async move {
            pause(&timers, time_for(&message)).await;
            seen.note(&message);
        }
    });
    started.await.expect("good settings")
}

async fn on_threads<R: Runtime>(builder: ConsumerBuilder<R>, seen: Seen, _: R) -> Consumer<R> {
    let started = builder.start_blocking(move |message: Message| {
        std::thread::sleep(time_for(&message));
        seen.note(&message);
    });
    started.await.expect("good settings")
}

async fn one_after_another<R: Runtime>(builder: ConsumerBuilder<R>, seen: Seen, timers: R) -> Consumer<R> {
    let started = builder.start_orderly(move |message: Message| {
        let (seen, timers) = (seen.clone(), timers.clone());
        async move {
            pause(&timers, time_for(&message)).await;
            seen.note(&message);
            OrderlyOutcome::Commit
        }
    });
    started.await.expect("good settings")
}

async fn some_fail<R: Runtime>(builder: ConsumerBuilder<R>, seen: Seen, timers: R) -> Consumer<R> {
    let started = builder.start(move |message: Message| {
        let (seen, timers) = (seen.clone(), timers.clone());
        async move {
            pause(&timers, time_for(&message)).await;
            if message.reconsume_times() == 0 && message.queue_offset().0 % 2 == 0 {
                seen.answer(&message);
                return Err("not this time");
            }
            seen.note(&message);
            Ok(())
        }
    });
    started.await.expect("good settings")
}
