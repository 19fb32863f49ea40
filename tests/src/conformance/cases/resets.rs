//! All connections are reset each second while messages flow. Takes four seconds of waiting.

use std::time::Duration;

use crate::conformance::scene::Scene;
use crate::conformance::time::{pause, until};
use crate::conformance::{Cluster, Host};

/// Resets, one each second.
const RESETS: u64 = 4;

/// Messages are sent so often in between.
const STEPS: u64 = 20;

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
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
