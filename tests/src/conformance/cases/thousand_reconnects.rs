//! A thousand connections one after the other: neither tasks nor timers nor sockets become more.

use std::time::Duration;

use crate::conformance::gauge::Counts;
use crate::conformance::scene::Scene;
use crate::conformance::time::{at_most, pause};
use crate::conformance::{Cluster, Host};

const RECONNECTS: u64 = 1_000;

/// How long all of them may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        let builder = scene.consumer().client_config(|config| {
            let short = Duration::from_millis(1);
            config.set_dial_backoff(short).set_dial_backoff_max(short)
        });
        let consumer = scene.note_with(builder).await;
        scene.send(40);
        scene.all_seen().await;
        let before = runtime.counts();
        let mut most = Counts::default();
        let reset = async {
            while scene.broker.accepted() < RECONNECTS {
                let made = scene.broker.accepted();
                scene.broker.reset_all();
                while scene.broker.accepted() == made || scene.broker.standing() == 0 {
                    pause(runtime, Duration::from_micros(200)).await;
                }
                let now = runtime.counts();
                most.tasks = most.tasks.max(now.tasks);
                most.timers = most.timers.max(now.timers);
                most.sockets = most.sockets.max(now.sockets);
            }
        };
        let done = at_most(runtime, LIMIT, reset).await;
        assert!(
            done.is_some(),
            "{} connections within {LIMIT:?}",
            scene.broker.accepted()
        );
        assert_eq!(most.tasks, before.tasks, "tasks");
        // The name server's and the broker's, and one more of each that is being replaced.
        assert!(most.sockets <= 4, "{most:?}");
        // Two of these waits, beside what the driver needs.
        assert!(
            most.timers <= before.timers + 4,
            "{most:?} where {before:?} were before"
        );
        scene.send(40);
        scene.all_seen().await;
        scene.leave(consumer).await;
        assert_eq!(scene.committed().await, [20; 4]);
    });
}
