//! A line that passes one byte at a time is a slow line and no broken one.

use crate::conformance::scene::Scene;
use crate::conformance::{Cluster, Host};

/// Bytes that pass at a time.
const PIECES: [usize; 3] = [1, 7, 1_000];

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        for pieces in PIECES {
            scene.name_server.pieces(pieces);
            scene.broker.pieces(pieces);
            let (before, calls) = (scene.broker.accepted(), scene.seen.calls());
            let consumer = scene.noting().await;
            scene.send(40);
            scene.all_seen().await;
            assert_eq!(scene.broker.accepted(), before + 1, "the connection was given up");
            assert_eq!(scene.seen.calls(), calls + 40, "each once");
            scene.leave(consumer).await;
        }
        assert_eq!(scene.committed().await, [30; 4]);
    });
}
