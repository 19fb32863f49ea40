//! Handlers that stand still: what is fetched stays within the limits, and comes to an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rocketmq_consumer::core::status::QueueState;
use rocketmq_consumer::{GroupConfig, Message};

use crate::conformance::proxy::Side;
use crate::conformance::scene::{QUEUES, Scene};
use crate::conformance::time::{LIMIT, at_most, ends, pause, until};
use crate::conformance::{Cluster, Host};

/// Messages that wait, and the size of their bodies.
const LOAD: u64 = 2_000;
const SIZE: usize = 1_000;

const CONCURRENCY: u32 = 4;

/// Bytes of answers that may be held.
const BUFFER: u64 = 256 << 10;

/// Messages of one answer, and what their records take at most beside the bodies.
const BATCH: u32 = 8;
const ANSWER: u64 = BATCH as u64 * 1_300 + 1_000;

/// Unfinished messages of one queue.
const COUNT: u32 = 50;

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        scene.send_sized(LOAD, SIZE);
        // By count, and by bytes: whichever is less stops it.
        stands_still(
            scene,
            |config| config.set_queue_count_max(COUNT),
            u64::from(COUNT * QUEUES),
        )
        .await;
        stands_still(
            scene,
            |config| config.set_buffer_bytes_max(BUFFER),
            BUFFER / SIZE as u64,
        )
        .await;
        nobody_asks(scene).await;
        let consumer = scene.noting().await;
        scene.all_seen().await;
        scene.leave(consumer).await;
        assert_eq!(
            scene.committed().await,
            [i64::try_from(LOAD / 4).expect("few"); 4]
        );
    });
}

/// Starts a consumer that handles nothing; looks at what it fetches, then lets it go on for a while.
async fn stands_still<H: Host, C: Cluster>(
    scene: &Scene<H, C>,
    limit: impl FnOnce(&mut GroupConfig) -> &mut GroupConfig,
    messages_max: u64,
) {
    let runtime = &scene.runtime;
    let (open, running) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let (gate, count, seen, timers) = (
        Arc::clone(&open),
        Arc::clone(&running),
        scene.seen.clone(),
        runtime.clone(),
    );
    let builder = scene
        .consumer()
        .concurrency(CONCURRENCY)
        .group_config(|config| limit(config.set_pull_batch(BATCH)));
    let before = scene.broker.passed(Side::ToConsumer);
    let started = builder.start(move |message: Message| {
        let (gate, count, seen, timers) = (
            Arc::clone(&gate),
            Arc::clone(&count),
            seen.clone(),
            timers.clone(),
        );
        async move {
            count.fetch_add(1, Ordering::AcqRel);
            while !gate.load(Ordering::Acquire) {
                pause(&timers, Duration::from_millis(5)).await;
            }
            seen.note(&message);
        }
    });
    let consumer = ends(runtime, "the start", started).await.expect("good settings");
    ends(runtime, "readiness", consumer.ready())
        .await
        .expect("it is not refused");
    let held = async {
        loop {
            let status = consumer.status().await.expect("it runs");
            let queues = status.groups.iter().flat_map(|group| &group.queues);
            let mut own = queues.filter(|queue| queue.queue.topic.as_str() == scene.topic);
            if own.all(|queue| queue.state == QueueState::Held) {
                return status;
            }
            pause(runtime, Duration::from_millis(5)).await;
        }
    };
    let status = ends(runtime, "every queue is held", held).await;
    let group = status.groups.first().expect("one group");
    // One answer of each queue may have been under way.
    let (answers, more) = (u64::from(QUEUES) * ANSWER, u64::from(QUEUES * BATCH));
    assert!(
        group.buffer_bytes <= BUFFER + answers,
        "{} bytes are held",
        group.buffer_bytes
    );
    let unfinished: u64 = group.queues.iter().map(|queue| u64::from(queue.unfinished)).sum();
    assert!(
        (1..=messages_max + more).contains(&unfinished),
        "{unfinished} messages, {messages_max} allowed"
    );
    let fetched = scene.broker.passed(Side::ToConsumer) - before;
    assert!(
        fetched <= (messages_max + more) * ANSWER / u64::from(BATCH) + 100_000,
        "{fetched} bytes were fetched"
    );
    assert_eq!(running.load(Ordering::Acquire), CONCURRENCY as usize);

    // Heartbeats are answered, and nothing is fetched.
    pause(runtime, Duration::from_millis(300)).await;
    let later = scene.broker.passed(Side::ToConsumer) - before;
    assert!(
        later - fetched < ANSWER,
        "{} bytes more, though nothing was finished",
        later - fetched
    );
    assert_eq!(running.load(Ordering::Acquire), CONCURRENCY as usize);

    let calls = scene.seen.calls();
    open.store(true, Ordering::Release);
    until(runtime, "it goes on", || scene.seen.calls() >= calls + 300).await;
    scene.leave(consumer).await;
}

/// A stream whose deliveries nobody settles hands out as many as it may, and then none.
async fn nobody_asks<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let runtime = &scene.runtime;
    let started = scene.consumer().concurrency(CONCURRENCY).stream();
    let mut stream = ends(runtime, "the start", started).await.expect("good settings");
    let mut held = Vec::new();
    for _ in 0..CONCURRENCY {
        held.push(ends(runtime, "a delivery", stream.next()).await.expect("it runs"));
    }
    let more = at_most(runtime, Duration::from_millis(100), stream.next()).await;
    assert!(more.is_none(), "{CONCURRENCY} are out");
    if let Some(delivery) = held.pop() {
        scene.seen.note(&delivery.message);
        delivery.done();
    }
    held.push(
        ends(runtime, "the next one", stream.next())
            .await
            .expect("it runs"),
    );
    // They come again from the broker when they are dropped.
    drop(held);
    let report = ends(runtime, "the shutdown", stream.shutdown(LIMIT)).await;
    assert!(!report.timed_out, "{report:?}");
}
