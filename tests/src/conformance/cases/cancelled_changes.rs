//! Changes to a consumer that runs are given up at any point: it goes on, whether they were made or not.

use std::future::Future;

use rocketmq_consumer::{Consumer, FlowScope, QueueOffset, Rate, SeekTo, SubscribeError, Topic};

use crate::conformance::polls::at_every_point;
use crate::conformance::scene::{Examined, Scene};
use crate::conformance::time::ends;
use crate::conformance::{Cluster, Host};

/// Plays the case.
pub fn run<H: Host, C: Cluster>() {
    Scene::<H, C>::play(async |scene| {
        let runtime = &scene.runtime;
        let consumer = scene.noting().await;
        ends(runtime, "readiness", consumer.ready())
            .await
            .expect("it is not refused");
        let topic = || Topic::from(scene.topic.as_str());
        for scope in [FlowScope::Group, topic().into(), scene.queue(1).into()] {
            given_up(scene, "pause", || consumer.pause(scope.clone())).await;
            given_up(scene, "resume", || consumer.resume(scope.clone())).await;
            goes_on(scene).await;
        }
        let fast = Rate::per_second(10_000);
        for rate in [Some(fast), None] {
            given_up(scene, "a rate", || consumer.set_rate_limit(rate)).await;
            given_up(scene, "a topic's rate", || {
                consumer.set_topic_rate_limit(topic(), rate)
            })
            .await;
            goes_on(scene).await;
        }
        for to in [SeekTo::Earliest, SeekTo::Offset(QueueOffset(1))] {
            given_up(scene, "a seek", || consumer.seek(scene.queue(2), to)).await;
            goes_on(scene).await;
        }
        subscriptions(scene, &consumer).await;
        scene.leave(consumer).await;
        let each = i64::try_from(scene.sent() / 4).expect("messages are few");
        assert_eq!(scene.committed().await, [each; 4]);
    });
}

/// A filter that fits nothing here, and the one that fits all again: that wishes stand which were given up.
async fn subscriptions<H: Host, C: Cluster>(scene: &Scene<H, C>, consumer: &Consumer<Examined<H>>) {
    let topic = scene.topic.as_str();
    let other = format!("{topic}-other");
    scene.create_topic(&other);
    given_up(scene, "a topic more", || consumer.subscribe(other.as_str(), "*")).await;
    goes_on(scene).await;
    given_up(scene, "a topic given back", || {
        consumer.unsubscribe(other.as_str())
    })
    .await;
    goes_on(scene).await;
    // No broker here looks at properties; whoever hears that or not, the former filter stays.
    let refused = at_every_point("a condition", async |point| {
        let wish = consumer.subscribe_sql(topic, "a > 3");
        point.give_up(&scene.runtime, wish).await
    });
    let (refused, _) = ends(&scene.runtime, "a condition", refused).await;
    assert!(
        matches!(refused, Err(SubscribeError::FilterRefused(_))),
        "{refused:?}"
    );
    goes_on(scene).await;
    given_up(scene, "another filter", || {
        consumer.subscribe(topic, "nobody || *")
    })
    .await;
    given_up(scene, "the first filter", || consumer.subscribe(topic, "*")).await;
    goes_on(scene).await;
}

/// Gives a change up at each of its points, and makes it at last.
async fn given_up<H: Host, C: Cluster, F, E>(scene: &Scene<H, C>, what: &str, change: impl Fn() -> F)
where
    F: Future<Output = Result<(), E>>,
    E: std::fmt::Debug,
{
    let made = at_every_point(what, async |point| point.give_up(&scene.runtime, change()).await);
    let (made, points) = ends(&scene.runtime, what, made).await;
    assert!(made.is_ok() && points >= 1, "{what} after {points}: {made:?}");
}

async fn goes_on<H: Host, C: Cluster>(scene: &Scene<H, C>) {
    scene.send(8);
    scene.all_seen().await;
}
