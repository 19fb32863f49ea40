//! A shutdown in the middle of it: what handlers have finished is committed, and nothing else is.

use std::time::Duration;

use rocketmq_consumer::{Consumer, Message};

use crate::conformance::scene::{Examined, QUEUES, Scene};
use crate::conformance::time::{LIMIT, ends, pause, until};
use crate::conformance::{Cluster, Host};

/// Messages that wait.
const LOAD: u64 = 2_000;

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        scene.send(LOAD);
        in_order(scene).await;
        at_once(scene).await;
        let last = scene.noting().await;
        scene.all_seen().await;
        scene.leave(last).await;
        assert_eq!(scene.committed().await, lowest_unseen(scene));
    });
}

/// Time enough: what was begun ends, and every end is committed.
async fn in_order<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let consumer = busy(scene).await;
    until(&scene.runtime, "it is busy", || scene.seen.count() >= 200).await;
    let report = ends(&scene.runtime, "the shutdown", consumer.shutdown(LIMIT)).await;
    assert_eq!((report.timed_out, report.abandoned), (false, 0));
    assert_eq!(
        report.finished,
        scene.seen.calls(),
        "the report tells what handlers have done"
    );
    assert!((scene.seen.count() as u64) < LOAD, "it was not under load");
    assert_eq!(scene.committed().await, lowest_unseen(scene));
}

/// No time: what handlers had in their hands comes again.
async fn at_once<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let consumer = busy(scene).await;
    let before = scene.seen.count();
    until(&scene.runtime, "it is busy", || {
        scene.seen.count() >= before + 200
    })
    .await;
    let report = ends(&scene.runtime, "the shutdown", consumer.shutdown(Duration::ZERO)).await;
    until(&scene.runtime, "its tasks", || scene.runtime.counts().tasks == 0).await;
    let committed = scene.committed().await;
    for (stored, unseen) in committed.iter().zip(lowest_unseen(scene)) {
        assert!(
            *stored <= unseen,
            "{stored} is committed, and {unseen} was never handled: {report:?}"
        );
    }
}

/// A consumer whose handlers take their time.
async fn busy<H: Host, C: Cluster>(scene: &Scene<H, C>) -> Consumer<Examined<H>> {
    let (seen, timers) = (scene.seen.clone(), scene.runtime.clone());
    let builder = scene.consumer().concurrency(8).start(move |message: Message| {
        let (seen, timers) = (seen.clone(), timers.clone());
        async move {
            // Neighbours do not end in their order.
            let time = 500 + 700 * (message.queue_offset().0.unsigned_abs() % 4);
            pause(&timers, Duration::from_micros(time)).await;
            seen.note(&message);
        }
    });
    ends(&scene.runtime, "the start", builder)
        .await
        .expect("good settings")
}

fn lowest_unseen<H: Host, C: Cluster>(scene: &Scene<H, C>) -> Vec<i64> {
    (0..QUEUES)
        .map(|queue| {
            scene
                .seen
                .lowest_unseen(i32::try_from(queue).expect("queues are few"))
        })
        .collect()
}
