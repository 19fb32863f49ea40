//! A peer that does not read any more costs a bounded amount of memory and the requests to it, and nothing else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocketmq_consumer::{CallAnswer, CallError, Request, Runtime as _, Target};

use crate::conformance::proxy::Side;
use crate::conformance::scene::Scene;
use crate::conformance::sync::lock;
use crate::conformance::time::{ends, until};
use crate::conformance::{Cluster, Host};

/// Requests that nobody reads, and their size: more than the client and the system hold together.
const CALLS: usize = 48;
const BODY: usize = 1 << 20;

/// What the client may hold of them.
const QUEUE: u64 = 4 << 20;

/// A code that no broker knows.
const UNKNOWN: i32 = 9_999;

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        let builder = scene
            .client()
            .client_config(|config| config.set_send_queue_bytes_max(QUEUE));
        let client = builder.start().await.expect("good settings");
        let consumer = scene.note_with(scene.on(&client)).await;
        scene.send(40);
        scene.all_seen().await;

        scene.broker.hold(Side::FromConsumer);
        let answers = Arc::<Mutex<Vec<Result<CallAnswer, CallError>>>>::default();
        let body = bytes::Bytes::from(vec![0; BODY]);
        for _ in 0..CALLS {
            let (client, answers) = (client.clone(), Arc::clone(&answers));
            let request = Request::new(UNKNOWN).body(body.clone());
            let request = request.timeout(Duration::from_millis(500));
            let to = Target::Address(scene.broker_addr());
            runtime.spawn(async move {
                let answer = client.call(to, request).await;
                lock(&answers).push(answer);
            });
        }
        until(runtime, "every request ends", || lock(&answers).len() == CALLS).await;
        ends(runtime, "it still answers", client.status())
            .await
            .expect("it runs");
        let answers = std::mem::take(&mut *lock(&answers));
        let refused = answers
            .iter()
            .filter(|answer| **answer == Err(CallError::Overloaded));
        assert!(refused.count() > 0, "there is no limit: {answers:?}");
        // Those that the system had room for wait in the proxy, and no peer has heard them.
        let answered = answers.iter().find(|answer| answer.is_ok());
        assert_eq!(answered, None);

        scene.broker.go_on(Side::FromConsumer);
        scene.send(40);
        scene.all_seen().await;
        scene.leave(consumer).await;
        ends(runtime, "the client", client.shutdown(Duration::ZERO)).await;
    });
}
