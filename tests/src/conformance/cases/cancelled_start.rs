//! A start that is given up at any point leaves nothing behind, and the next one works.

use std::time::Duration;

use rocketmq_consumer::{Message, StartError};

use crate::conformance::polls::at_every_point;
use crate::conformance::scene::Scene;
use crate::conformance::time::{ends, pause, until};
use crate::conformance::{Cluster, Host};

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        scene.send(40);
        with_its_own_client(scene).await;
        for connect in [None, Some(Duration::from_secs(20))] {
            on_a_shared_client(scene, connect).await;
        }
        as_a_stream(scene).await;
        // What those had begun to handle comes again.
        let consumer = scene.noting().await;
        scene.all_seen().await;
        scene.leave(consumer).await;
        assert_eq!(scene.committed().await, [10; 4]);
    });
}

async fn with_its_own_client<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let runtime = &scene.runtime;
    let started = at_every_point("the start of a consumer", async |point| {
        let builder = scene.consumer().connect_timeout(Duration::from_secs(20));
        let started = point.give_up(runtime, scene.note_with(builder)).await;
        if started.is_none() {
            until(runtime, "the end of what was given up", || {
                runtime.counts().tasks == 0
            })
            .await;
        }
        started
    });
    let (consumer, points) = started.await;
    assert!(points >= 2, "it waits somewhere");
    ends(runtime, "readiness", consumer.ready())
        .await
        .expect("it is not refused");
    scene.leave(consumer).await;
}

async fn on_a_shared_client<H: Host, C: Cluster>(scene: &Scene<H, C>, connect: Option<Duration>) {
    let runtime = &scene.runtime;
    let builder = || scene.client().start();
    let (client, _) = at_every_point("the start of a client", async |point| {
        point.give_up(runtime, builder()).await
    })
    .await;
    let client = client.expect("good settings");
    let started = at_every_point("the start of a group", async |point| {
        ends(runtime, "the name is free again", async {
            loop {
                let mut builder = scene.on(&client);
                if let Some(within) = connect {
                    builder = builder.connect_timeout(within);
                }
                let seen = scene.seen.clone();
                let start = builder.start(move |message: Message| {
                    seen.note(&message);
                    async {}
                });
                match point.give_up(runtime, start).await {
                    Some(Err(StartError::AlreadyRegistered { .. })) => {
                        pause(runtime, Duration::from_millis(5)).await;
                    }
                    other => return other,
                }
            }
        })
        .await
    });
    let (consumer, _) = started.await;
    let consumer = consumer.expect("good settings");
    ends(runtime, "readiness", consumer.ready())
        .await
        .expect("it is not refused");
    scene.leave(consumer).await;
    ends(runtime, "the client", client.shutdown(Duration::ZERO)).await;
}

async fn as_a_stream<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    let runtime = &scene.runtime;
    let started = at_every_point("the start of a stream", async |point| {
        point.give_up(runtime, scene.consumer().stream()).await
    });
    let (stream, _) = started.await;
    drop(stream.expect("good settings"));
    until(runtime, "the end of all of them", || runtime.counts().tasks == 0).await;
}
