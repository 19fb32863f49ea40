//! A stream is asked and given up at any point: each message comes once, and what nobody answers for comes again.

use crate::conformance::polls::at_every_point;
use crate::conformance::scene::Scene;
use crate::conformance::time::{LIMIT, ends};
use crate::conformance::{Cluster, Host};

/// Messages before it starts, and while it waits.
const ROUND: u64 = 40;

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        let started = scene.consumer().concurrency(3).stream();
        let mut stream = ends(runtime, "the start", started).await.expect("good settings");
        for round in 0..2 * ROUND {
            if round % 8 == 0 {
                // So that it has to wait now and then.
                scene.send(8);
            }
            let next = at_every_point("a delivery", async |point| {
                point.give_up(runtime, stream.next()).await
            });
            let (delivery, _) = ends(runtime, "a delivery", next).await;
            let delivery = delivery.expect("it runs");
            // Waiting for its end is given up too.
            let cancelled = crate::conformance::polls::Point::late(1);
            assert_eq!(cancelled.give_up(runtime, delivery.cancelled()).await, None);
            assert_eq!(
                delivery.message.reconsume_times(),
                0,
                "it has been somebody's before"
            );
            scene.seen.note(&delivery.message);
            delivery.done();
        }
        assert_eq!(scene.seen.missing(0..2 * ROUND), [0; 0]);
        assert_eq!(scene.seen.calls(), 2 * ROUND, "each once");

        // Dropped in somebody's hands.
        scene.send(1);
        let delivery = ends(runtime, "a delivery", stream.next()).await.expect("it runs");
        drop(delivery);
        let again = ends(runtime, "the same again", stream.next())
            .await
            .expect("it runs");
        scene.seen.note(&again.message);
        assert_eq!(scene.seen.times(2 * ROUND), 1);
        again.done();
        let report = ends(runtime, "the shutdown", stream.shutdown(LIMIT)).await;
        assert!(!report.timed_out, "{report:?}");
        assert_eq!(scene.committed().await, [21, 20, 20, 20]);
    });
}
