//! Whole members that are paused, slowed down and sent elsewhere.

use std::collections::BTreeMap;

use rocketmq_consumer_core::event::{AppEvent, FlowScope, SeekTo, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::rate::Rate;
use rocketmq_consumer_testing::world::{Handling, World, ms, queue, secs};

use super::{limit, one_queue, pause, resume};

/// Members join and leave while all of them are paused; what was stored meanwhile comes once, to one of them.
#[test]
fn an_hour_of_pause_loses_nothing_and_doubles_nothing_whoever_comes_and_goes() {
    let world = World::new().topic("T", &[("a", 4)]).stored("T", "a", 0, 40);
    let mut w = world.member("c1", |setup| {
        setup.subscribe("T", "*");
    });
    w.run_for(secs(2));
    w.tell("c1", pause(FlowScope::Group));
    for hour in 0..4 {
        for id in 0..4 {
            w.produce("T", "a", id, 25);
        }
        if hour == 1 {
            w.join("c2", |setup| {
                setup.subscribe("T", "*");
            });
            w.tell("c2", pause(FlowScope::Topic("T".into())));
        }
        w.run_for(secs(900));
    }
    assert_eq!(w.delivered("c1").len(), 40, "what came before");
    assert_eq!(w.delivered("c2").len(), 0);
    assert_eq!(w.queues("c2", "T").len(), 2, "shares are computed all the while");
    w.leave("c2", secs(5));
    w.run_for(secs(5));
    w.tell("c1", resume(FlowScope::Group));
    w.run_for(secs(10));
    let mut times: BTreeMap<_, u32> = BTreeMap::new();
    for delivery in w.delivered("c1") {
        *times
            .entry((delivery.queue.clone(), delivery.offset))
            .or_default() += 1;
    }
    assert_eq!((times.len(), times.values().max()), (440, Some(&1)));
    for id in 0..4 {
        let queue = queue("T", "a", id);
        assert_eq!(w.stored_offset("G", &queue), Some(w.stored_messages(&queue)));
    }
    let stalls = |notices: Vec<&rocketmq_consumer_core::notice::Notice>| {
        let stalled = |kind: &NoticeKind| matches!(kind, NoticeKind::QueueStalled { .. });
        notices.iter().filter(|notice| stalled(&notice.kind)).count()
    };
    assert_eq!(stalls(w.notices("c1")) + stalls(w.notices("c2")), 0);
    w.assert_story();
}

#[test]
fn a_queue_that_is_paused_for_itself_lets_the_others_flow() {
    let world = World::new().topic("T", &[("a", 2)]);
    let mut w = world.member("c1", |setup| {
        setup.subscribe("T", "*");
    });
    w.tell("c1", pause(one_queue(1)));
    w.produce("T", "a", 0, 50);
    w.produce("T", "a", 1, 50);
    w.run_for(secs(20));
    let count = |w: &World, id| w.offsets("c1", &queue("T", "a", id)).len();
    assert_eq!((count(&w, 0), count(&w, 1)), (50, 0));
    w.tell("c1", resume(one_queue(1)));
    w.run_for(secs(1));
    assert_eq!((count(&w, 0), count(&w, 1)), (50, 50));
    w.assert_story();
}

/// Failures and all: what is tried again needs a token as well.
#[test]
fn a_rate_holds_over_all_queues_and_retries_and_is_used_up() {
    let world = World::new().topic("T", &[("a", 3), ("b", 3)]);
    let mut w = world.member("c1", |setup| {
        setup.subscribe("T", "*");
        setup.config().set_rate_limit(Some(Rate::per_second(200)));
        setup.handler(|delivery| {
            if delivery.reconsume_times == 0 && delivery.offset.0 % 10 == 0 {
                Handling::ends(Verdict::Handled(Outcome::Retry))
            } else {
                Handling::done()
            }
        });
    });
    for broker in ["a", "b"] {
        for id in 0..3 {
            w.produce("T", broker, id, 300);
        }
    }
    w.run_for(secs(60));
    let times: Vec<u64> = w
        .delivered("c1")
        .iter()
        .map(|delivery| delivery.at.as_micros())
        .collect();
    assert_eq!(times.len(), 1_800 + 180);
    for (at, time) in times.iter().enumerate() {
        let first = times.partition_point(|earlier| earlier + 1_000_000 <= *time);
        assert!(at + 1 - first <= 200 + 20, "{} within a second", at + 1 - first);
    }
    let within_five = times.partition_point(|time| *time < times[0] + 5_000_000);
    assert!((950..=1_050).contains(&within_five), "{within_five} within 5 s");
    w.assert_story();
}

#[test]
fn a_rate_that_ends_lets_everything_come_at_once() {
    let world = World::new().topic("T", &[("a", 1)]).stored("T", "a", 0, 500);
    let mut w = world.member("c1", |setup| {
        setup.subscribe("T", "*");
        setup.config().set_rate_limit(Some(Rate::per_second(1)));
    });
    w.run_for(secs(10));
    assert!(w.delivered("c1").len() <= 11);
    w.tell("c1", limit(None, None));
    w.run_for(secs(1));
    assert_eq!(w.delivered("c1").len(), 500);
    w.assert_story();
}

/// A seek in full flight, and a crash right behind it: the next life goes on from the new place.
#[test]
fn a_seek_survives_a_crash() {
    for crashes in [false, true] {
        let world = World::new().topic("T", &[("a", 1)]).stored("T", "a", 0, 200);
        let slow = |setup: &mut rocketmq_consumer_testing::world::Setup| {
            setup.subscribe("T", "*");
            setup.handler(|_| Handling::done().taking(ms(20)));
        };
        let mut w = world.member("c1", slow);
        w.run_for(ms(150));
        let before = w.delivered("c1").len();
        assert!((20..200).contains(&before), "{before} in full flight");
        let (group, queue) = ("G".into(), queue("T", "a", 0));
        w.tell(
            "c1",
            AppEvent::Seek {
                group,
                queue: Box::new(queue.clone()),
                to: SeekTo::Offset(QueueOffset(150)),
            },
        );
        if crashes {
            w.run_for(ms(5));
            assert_eq!(w.stored_offset("G", &queue), Some(150), "within a round trip");
            w.crash("c1");
            w.run_for(secs(1));
            w.join("c2", slow);
        }
        w.run_for(secs(10));
        let member = if crashes { "c2" } else { "c1" };
        let first = if crashes { 0 } else { before };
        let offsets = w.offsets(member, &queue);
        assert_eq!(offsets[first..], (150..200).collect::<Vec<_>>());
        assert_eq!(w.stored_offset("G", &queue), Some(200));
        w.assert_replays();
    }
}
