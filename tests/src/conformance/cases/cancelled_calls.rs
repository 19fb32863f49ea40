//! Questions to brokers are given up at any point, and their answers come to nobody.

use std::time::Duration;

use rocketmq_consumer::core::wire::request::offsets::{MaxOffsetRequest, QueueRef};
use rocketmq_consumer::{CallError, QueueOffset, Request, Target};

use crate::conformance::polls::{Point, at_every_point};
use crate::conformance::scene::Scene;
use crate::conformance::time::{LIMIT, ends, pause};
use crate::conformance::{Cluster, Host};

/// Questions that nobody waits for.
const MANY: usize = 200;

/// `GET_MAX_OFFSET`.
const MAX_OFFSET: i32 = 30;

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        scene.send(40);
        let client = scene.client().start().await.expect("good settings");
        let to = || Target::Address(scene.broker_addr());
        let request = || {
            let request = Request::new(MAX_OFFSET).field("topic", scene.topic.as_str());
            request.field("queueId", "3")
        };
        let call = || client.call(to(), request());
        let asked = MaxOffsetRequest {
            queue: QueueRef {
                topic: scene.topic.as_str().into(),
                queue: scene.queue(3).id,
                broker: Some(scene.queue(3).broker),
            },
            committed: None,
        };
        let ask = || client.ask(to(), &asked, LIMIT);

        let called = at_every_point("a call", async |point| point.give_up(runtime, call()).await);
        let (answer, points) = ends(runtime, "a call", called).await;
        assert!(answer.is_ok() && points >= 1, "{answer:?}");
        let answered = at_every_point("a question", async |point| point.give_up(runtime, ask()).await);
        let (end, _) = ends(runtime, "a question", answered).await;
        assert_eq!(end.map(|end| end.offset), Ok(QueueOffset(10)));

        for number in 0..MANY {
            let point = if number % 50 == 0 {
                Point::late(1)
            } else {
                Point::at_once(1)
            };
            assert!(
                point.give_up(runtime, call()).await.is_none(),
                "an answer without a wait"
            );
        }
        ends(runtime, "the answers", async {
            loop {
                let status = client.status().await.expect("it runs");
                if status.links.iter().all(|link| link.requests == 0) {
                    return;
                }
                pause(runtime, Duration::from_millis(5)).await;
            }
        })
        .await;
        assert!(ends(runtime, "one more", ask()).await.is_ok());

        let shut = at_every_point("the shutdown", async |point| {
            point.give_up(runtime, client.shutdown(Duration::ZERO)).await
        });
        ends(runtime, "the shutdown", shut).await;
        assert_eq!(
            ends(runtime, "a call after it", call()).await,
            Err(CallError::Closed)
        );
    });
}
