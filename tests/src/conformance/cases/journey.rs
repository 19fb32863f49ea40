//! Messages come once each, by each face, and the next consumer goes on where the last one ended.

use rocketmq_consumer::Message;

use crate::conformance::scene::Scene;
use crate::conformance::time::{ends, until};
use crate::conformance::{Cluster, Host};

/// Messages for each consumer, as many for each queue.
const ROUND: u64 = 40;

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        scene.send(ROUND);
        let consumer = scene.noting().await;
        ends(runtime, "readiness", consumer.ready())
            .await
            .expect("it is not refused");
        scene.all_seen().await;
        scene.leave(consumer).await;
        assert_eq!(scene.committed().await, [10; 4]);

        scene.send(ROUND);
        let seen = scene.seen.clone();
        let blocking = scene
            .consumer()
            .start_blocking(move |message: Message| seen.note(&message));
        let consumer = ends(runtime, "the start", blocking).await.expect("good settings");
        scene.all_seen().await;
        scene.leave(consumer).await;

        scene.send(ROUND);
        let stream = ends(runtime, "the start", scene.consumer().stream()).await;
        let mut stream = stream.expect("good settings");
        for _ in 0..ROUND {
            let delivery = ends(runtime, "a delivery", stream.next()).await.expect("it runs");
            scene.seen.note(&delivery.message);
            delivery.done();
        }
        ends(
            runtime,
            "the shutdown",
            stream.shutdown(crate::conformance::time::LIMIT),
        )
        .await;
        assert!(
            ends(runtime, "the end of the stream", stream.next())
                .await
                .is_none()
        );

        scene.send(ROUND);
        let seen = scene.seen.clone();
        let orderly = scene.consumer().start_orderly(move |message: Message| {
            seen.note(&message);
            async {}
        });
        let consumer = ends(runtime, "the start", orderly).await.expect("good settings");
        until(runtime, "the last ones, in order", || {
            scene.seen.calls() == 4 * ROUND
        })
        .await;
        scene.leave(consumer).await;
        assert_eq!(scene.seen.missing(0..4 * ROUND), [0; 0]);
        assert_eq!(scene.committed().await, [40; 4]);
    });
}
