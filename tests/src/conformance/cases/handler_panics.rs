//! A handler that panics, wherever it does, costs its own message another try and nothing else.

use std::panic::resume_unwind;
use std::time::Duration;

use rocketmq_consumer::Message;

use crate::conformance::scene::Scene;
use crate::conformance::time::{ends, pause};
use crate::conformance::{Cluster, Host};

/// Messages for each way to run handlers.
const ROUND: u64 = 80;

/// Panics as a handler would, but that no hook prints it.
fn panics() {
    resume_unwind(Box::new("a handler panics"));
}

/// Panics when it is dropped.
struct Destructor;

impl Drop for Destructor {
    fn drop(&mut self) {
        panics();
    }
}

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        scene.send(ROUND);
        let (seen, timers) = (scene.seen.clone(), runtime.clone());
        let first_try = |message: &Message| message.reconsume_times() == 0;
        let lanes = scene.consumer().start(move |message: Message| {
            // Of each queue some: its messages are four apart.
            let place = message.queue_offset().0 % 5;
            let fails = first_try(&message);
            if fails && place == 0 {
                panics();
            }
            let (seen, timers) = (seen.clone(), timers.clone());
            async move {
                if fails && place == 1 {
                    panics();
                }
                pause(&timers, Duration::from_millis(1)).await;
                if fails && place == 2 {
                    panics();
                }
                if fails && place == 3 {
                    drop(Destructor);
                }
                seen.note(&message);
            }
        });
        let consumer = ends(runtime, "the start", lanes).await.expect("good settings");
        scene.all_seen().await;
        scene.leave(consumer).await;
        assert_eq!(scene.seen.calls(), ROUND, "each was handled once");

        scene.send(ROUND);
        let seen = scene.seen.clone();
        let blocking = scene.consumer().start_blocking(move |message: Message| {
            if first_try(&message) && message.queue_offset().0 % 2 == 0 {
                panics();
            }
            seen.note(&message);
        });
        let consumer = ends(runtime, "the start", blocking).await.expect("good settings");
        scene.all_seen().await;
        scene.leave(consumer).await;
        assert_eq!(scene.seen.calls(), 2 * ROUND, "each was handled once");
        assert_eq!(scene.committed().await, [40; 4]);
    });
}
