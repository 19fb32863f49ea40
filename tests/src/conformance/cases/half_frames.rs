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
        // An end is heard of, and not found out because nothing comes.
        let ends = cuts(&AFTER, &[Then::Close, Then::Reset]);
        through(scene, ends, Duration::from_secs(3600)).await;
        // Nobody hears of what stands still: that is found out by a request which is not answered.
        let stalls = cuts(&[0, 30], &[Then::Stall]);
        through(scene, stalls, Duration::from_millis(200)).await;

        // The same in the middle of messages.
        let consumer = scene.noting().await;
        let side = Side::ToConsumer;
        let then = Then::Reset;
        let cuts = [3_000, 5_000, 10_000, 20_000].map(|after| Cut { side, after, then });
        scene.broker.cut_next(cuts);
        until(&scene.runtime, "a connection", || scene.broker.standing() > 0).await;
        scene.broker.reset_all();
        scene.send(400);
        scene.all_seen().await;
        scene.leave(consumer).await;
        assert_eq!(scene.committed().await, [120; 4]);
    });
}

/// A consumer whose connections break so, until they are whole; it takes them for broken itself when they are silent
/// for this long.
async fn through<H: Host, C: Cluster>(scene: &Scene<H, C>, cuts: Vec<Cut>, silence: Duration) {
    // The name server is asked once, so it takes as many attempts as it needs.
    scene
        .name_server
        .cut_next(cuts.iter().copied().filter(|cut| cut.after == 30));
    scene.broker.cut_next(cuts);
    scene.send(40);
    let builder = scene.consumer().client_config(move |config| {
        config
            .set_request_timeout(Duration::from_millis(200))
            .set_silence_min(silence)
    });
    let consumer = scene.note_with(builder).await;
    for (proxy, what) in [
        (&scene.name_server, "the name server"),
        (&scene.broker, "the broker"),
    ] {
        let what = format!("all connections to {what} that break");
        until(&scene.runtime, &what, || proxy.cuts_left() == 0).await;
    }
    scene.all_seen().await;
    scene.leave(consumer).await;
}

/// Each way, at each place, each end.
fn cuts(places: &[u64], ends: &[Then]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for side in [Side::FromConsumer, Side::ToConsumer] {
        for &after in places {
            cuts.extend(ends.iter().map(|&then| Cut { side, after, then }));
        }
    }
    cuts
}
