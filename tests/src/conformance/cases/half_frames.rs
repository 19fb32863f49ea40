//! Connections that end within a frame, or stand still there, are made anew, and nothing is lost by that.

use std::time::Duration;

use crate::conformance::proxy::{Cut, Side, Then};
use crate::conformance::scene::Scene;
use crate::conformance::time::until;
use crate::conformance::{Cluster, Host};

/// Bytes that pass: none, within the length word, after it, within the header, and within what follows. The first
/// frames each way are longer than that.
const AFTER: [u64; 6] = [0, 1, 4, 7, 30, 60];

/// Plays the case. Each part has a group of its own: a heartbeat that a broker reads when its connection has ended
/// already leaves a member which is nobody, for two minutes, and would share the queues with the next part's.
pub fn run<H: Host, C: Cluster>() {
    // An end is heard of, and not found out because nothing comes.
    Scene::<H, C>::play(async |scene| {
        let ends = cuts(&AFTER, &[Then::Close, Then::Reset]);
        through(scene, ends, Duration::from_secs(3600)).await;
    });
    // Nobody hears of what stands still: that is found out by a request which is not answered.
    Scene::<H, C>::play(async |scene| {
        let stalls = cuts(&[0, 30], &[Then::Stall]);
        through(scene, stalls, Duration::from_millis(200)).await;
    });
    Scene::<H, C>::play(async |scene| within_messages(scene).await);
}

async fn within_messages<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let consumer = scene.noting().await;
    let (side, then) = (Side::ToConsumer, Then::Reset);
    until(&scene.runtime, "a connection", || scene.broker.standing() > 0).await;
    let cuts = [3_000, 5_000, 10_000, 20_000].map(|after| Cut { side, after, then });
    scene.broker.cut_next(cuts);
    scene.broker.reset_all();
    scene.send(400);
    scene.all_seen().await;
    scene.leave(consumer).await;
    assert_eq!(scene.committed().await, [100; 4]);
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
    assert_eq!(scene.committed().await, [10; 4]);
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
