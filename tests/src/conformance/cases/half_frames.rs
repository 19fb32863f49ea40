//! Connections that end within a frame, or stand still there, are made anew, and nothing is lost by that.

use std::time::Duration;

use crate::conformance::proxy::{Cut, Side, Then};
use crate::conformance::scene::Scene;
use crate::conformance::time::until;
use crate::conformance::{Cluster, Host};

/// Bytes that pass: none, within the length word, after it, within the header, and within what follows. The first
/// frames each way are longer than that.
const AFTER: [u64; 6] = [0, 1, 4, 7, 30, 60];

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        scene.name_server.cut_next(cuts(&[1, 30]));
        scene.broker.cut_next(cuts(&AFTER));
        scene.send(40);
        let builder = scene.consumer().client_config(|config| {
            let short = Duration::from_millis(200);
            // A connection that stands still is found out by a request that is not answered.
            config.set_request_timeout(short).set_silence_min(short)
        });
        let consumer = scene.note_with(builder).await;
        until(
            &scene.runtime,
            "all connections to the name server that break",
            || scene.name_server.cuts_left() == 0,
        )
        .await;
        until(&scene.runtime, "all connections to the broker that break", || {
            scene.broker.cuts_left() == 0
        })
        .await;
        scene.all_seen().await;

        // The same in the middle of messages.
        scene
            .broker
            .cut_next([3_000, 5_000, 10_000, 20_000].map(|after| Cut {
                side: Side::ToConsumer,
                after,
                then: Then::Reset,
            }));
        scene.broker.reset_all();
        scene.send(400);
        scene.all_seen().await;
        scene.leave(consumer).await;
        assert_eq!(scene.committed().await, [110; 4]);
    });
}

/// Each way, and each end; standing still takes its time, so once a way.
fn cuts(places: &[u64]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for side in [Side::FromConsumer, Side::ToConsumer] {
        for &after in places {
            for then in [Then::Close, Then::Reset] {
                cuts.push(Cut { side, after, then });
            }
        }
        let (after, then) = (places.last().copied().unwrap_or_default(), Then::Stall);
        cuts.push(Cut { side, after, then });
    }
    cuts
}
