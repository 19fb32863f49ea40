//! A shutdown that is given up at any point goes on by itself, loses nothing, and can be waited for again.

use std::time::Duration;

use crate::conformance::polls::{Point, at_every_point};
use crate::conformance::scene::Scene;
use crate::conformance::time::{LIMIT, ends, until};
use crate::conformance::{Cluster, Host};

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        let (_, points) = at_every_point("a shutdown", async |point| {
            let consumer = scene.noting().await;
            scene.send(8);
            scene.all_seen().await;
            let report = point.give_up(runtime, consumer.shutdown(LIMIT)).await;
            // The second time it only waits: also for one that never began.
            ends(runtime, "the shutdown", consumer.shutdown(LIMIT)).await;
            until(runtime, "the end of its tasks", || runtime.counts().tasks == 0).await;
            let each = i64::try_from(scene.sent() / 4).expect("messages are few");
            assert_eq!(scene.committed().await, [each; 4], "{point:?}");
            report
        })
        .await;
        assert!(points >= 1, "it waits somewhere");
        assert_eq!(scene.seen.calls(), scene.sent(), "each once");

        // Given up, and nobody asks again: it goes on.
        for point in [Point::at_once(1), Point::late(1)] {
            let consumer = scene.noting().await;
            let mut notices = consumer.notices();
            assert!(point.give_up(runtime, consumer.shutdown(LIMIT)).await.is_none());
            let last = async { while notices.next().await.is_some() {} };
            ends(runtime, "the end of the group", last).await;
            drop(consumer);
        }

        // Given up, and dropped.
        for point in [Point::at_once(0), Point::at_once(1), Point::late(1)] {
            let consumer = scene.noting().await;
            scene.send(8);
            scene.all_seen().await;
            assert!(point.give_up(runtime, consumer.shutdown(LIMIT)).await.is_none());
            drop(consumer);
            until(runtime, "the end of its tasks", || runtime.counts().tasks == 0).await;
        }

        // The client of several.
        let client = scene.client().start().await.expect("good settings");
        let consumer = scene.note_with(scene.on(&client)).await;
        scene.send(8);
        scene.all_seen().await;
        assert!(
            Point::late(1)
                .give_up(runtime, client.shutdown(LIMIT))
                .await
                .is_none()
        );
        ends(runtime, "the consumer", consumer.shutdown(LIMIT)).await;
        ends(runtime, "the client", client.shutdown(Duration::ZERO)).await;

        let last = scene.noting().await;
        scene.send(8);
        scene.all_seen().await;
        scene.leave(last).await;
        let each = i64::try_from(scene.sent() / 4).expect("messages are few");
        assert_eq!(scene.committed().await, [each; 4]);
    });
}
