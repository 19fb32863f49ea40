//! All connections are reset each second while messages flow. Takes four seconds of waiting.

use std::time::Duration;

use crate::conformance::proxy::Proxy;
use crate::conformance::scene::Scene;
use crate::conformance::time::{at_most, ends, pause, until};
use crate::conformance::{Cluster, Host};

/// Resets, one each second.
const RESETS: u64 = 4;

/// Messages are sent so often in between.
const STEPS: u64 = 20;

/// Plays the case, with a group for each part: see `half_frames`.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| idle(scene).await);
    Scene::<H, C>::play(async |scene| {
        let consumer = scene.noting().await;
        let before = scene.broker.accepted();
        for _ in 0..RESETS {
            for _ in 0..STEPS {
                scene.send(8);
                pause(&scene.runtime, Duration::from_millis(1_000 / STEPS)).await;
            }
            scene.name_server.reset_all();
            scene.broker.reset_all();
        }
        until(&scene.runtime, "each reset led to a connection", || {
            scene.broker.accepted() >= before + RESETS
        })
        .await;
        scene.all_seen().await;
        scene.leave(consumer).await;
        assert_eq!(
            scene.committed().await,
            [i64::try_from(RESETS * STEPS * 2).expect("few"); 4]
        );
    });
}

/// One that says nothing by itself hears of it all the same, well before it would say anything.
async fn idle<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let runtime = &scene.runtime;
    let late = Duration::from_secs(60);
    let builder = scene
        .consumer()
        .client_config(move |config| config.set_heartbeat_interval(late).set_silence_min(late));
    let builder =
        builder.group_config(|config| config.set_rebalance_interval(late).set_commit_interval(late));
    let consumer = scene.note_with(builder).await;
    ends(runtime, "readiness", consumer.ready())
        .await
        .expect("it is not refused");
    for end in [Proxy::reset_all, Proxy::close_all] {
        let before = scene.broker.accepted();
        until(runtime, "a connection", || scene.broker.standing() > 0).await;
        end(&scene.broker);
        let again = async {
            while scene.broker.accepted() == before {
                pause(runtime, Duration::from_millis(5)).await;
            }
        };
        let heard = at_most(runtime, Duration::from_secs(4), again).await;
        assert!(
            heard.is_some(),
            "it does not hear of an end while it says nothing"
        );
    }
    scene.leave(consumer).await;
}
