//! Whoever waits to be ready, for a notice, or for the status may give up at any point.

use crate::conformance::polls::{Point, at_every_point};
use crate::conformance::proxy::Side;
use crate::conformance::scene::Scene;
use crate::conformance::time::ends;
use crate::conformance::{Cluster, Host};

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        scene.name_server.hold(Side::ToConsumer);
        let consumer = scene.noting().await;
        let (mut whole, mut given_up) = (consumer.notices(), consumer.notices());
        for polls in 0..50 {
            let point = if polls % 5 == 0 {
                Point::late(polls)
            } else {
                Point::at_once(polls % 2)
            };
            let ready = point.give_up(runtime, consumer.ready());
            let ready =
                crate::conformance::time::at_most(runtime, std::time::Duration::from_millis(20), ready).await;
            assert!(matches!(ready, None | Some(None)), "{ready:?} without a route");
        }
        scene.name_server.go_on(Side::ToConsumer);
        let ready = at_every_point("readiness", async |point| {
            point.give_up(runtime, consumer.ready()).await
        });
        // It need not be there yet: then nobody wakes who has given up.
        let ready = crate::conformance::time::at_most(runtime, crate::conformance::time::LIMIT, ready).await;
        assert_eq!(ready.map(|(ready, _)| ready), Some(Ok(())));
        let (status, points) = at_every_point("the status", async |point| {
            point.give_up(runtime, consumer.status()).await
        })
        .await;
        assert!(status.is_ok() && points >= 1, "{status:?}");

        scene.send(40);
        scene.all_seen().await;
        scene.leave(consumer).await;
        // No notice was lost by that, and the end is told.
        loop {
            let wanted = ends(runtime, "a notice", whole.next()).await;
            let (got, _) = at_every_point("a notice", async |point| {
                point.give_up(runtime, given_up.next()).await
            })
            .await;
            assert_eq!(got, wanted);
            if wanted.is_none() {
                break;
            }
        }
    });
}
