//! A handler that hangs holds its own permit and nothing else; at its deadline its message is tried again, and no
//! shutdown waits for it longer than it was given.

use std::future::pending;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rocketmq_consumer::{Context, Message};

use crate::conformance::scene::Scene;
use crate::conformance::sync::lock;
use crate::conformance::time::{ends, until};
use crate::conformance::{Cluster, Host};

const DEADLINE: Duration = Duration::from_millis(200);
const DRAIN: Duration = Duration::from_millis(50);

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        until_the_deadline(scene).await;
        beyond_a_shutdown(scene).await;
        on_a_thread(scene).await;
        // Whatever hung is still there.
        let consumer = scene.noting().await;
        scene.all_seen().await;
        scene.leave(consumer).await;
    });
}

async fn until_the_deadline<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    scene.send(40);
    let seen = scene.seen.clone();
    let builder = scene.consumer().concurrency(4).delivery_deadline(DEADLINE);
    let builder = builder.group_config(|config| config.set_cancel_grace(DEADLINE));
    let started = builder.start_with_context(move |message: Message, context: Context| {
        let seen = seen.clone();
        async move {
            let first = message.reconsume_times() == 0 && context.attempt() == 0;
            match message.queue_offset().0 {
                // Deaf.
                0 if first => pending().await,
                // One that hears, and says that it has failed.
                1 if first => {
                    context.cancelled().await;
                    return Err("cancelled");
                }
                _ => seen.note(&message),
            }
            Ok(())
        }
    });
    let consumer = ends(&scene.runtime, "the start", started)
        .await
        .expect("good settings");
    scene.all_seen().await;
    scene.leave(consumer).await;
    assert_eq!(scene.seen.calls(), 40, "each was handled once");
}

async fn beyond_a_shutdown<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    scene.send(40);
    let begun = Arc::<Mutex<u32>>::default();
    let count = Arc::clone(&begun);
    let started = scene.consumer().concurrency(4).start(move |_: Message| {
        *lock(&count) += 1;
        pending::<()>()
    });
    let consumer = ends(&scene.runtime, "the start", started)
        .await
        .expect("good settings");
    until(&scene.runtime, "four that hang", || *lock(&begun) == 4).await;
    let report = ends(&scene.runtime, "the shutdown", consumer.shutdown(DRAIN)).await;
    assert!(report.timed_out, "{report:?}");
    assert_eq!((report.finished, report.abandoned, *lock(&begun)), (0, 4, 4));
}

/// Nobody can end a thread: it is left, and its end is heard by nobody.
async fn on_a_thread<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let begun = Arc::<Mutex<u32>>::default();
    let count = Arc::clone(&begun);
    let started = scene.consumer().concurrency(4).start_blocking(move |_: Message| {
        *lock(&count) += 1;
        // Ends when the other end is dropped.
        let _dropped = lock(&gate).recv();
    });
    let consumer = ends(&scene.runtime, "the start", started)
        .await
        .expect("good settings");
    until(&scene.runtime, "four that hang", || *lock(&begun) == 4).await;
    let report = ends(&scene.runtime, "the shutdown", consumer.shutdown(DRAIN)).await;
    assert!(report.timed_out && report.finished == 0, "{report:?}");
    assert_eq!(scene.runtime.counts().jobs, 4);
    drop(open);
    until(&scene.runtime, "the threads", || scene.runtime.counts().jobs == 0).await;
}
