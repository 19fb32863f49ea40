//! Members that consume in order and hand queues to each other, with brokers that know of locks.

use rocketmq_consumer_core::config::ConsumeMode;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_testing::world::{Handling, Setup, World, ms, queue, secs};
use std::collections::BTreeSet;

/// A handler takes this long, as some do.
const TAKES_MS: u64 = 7;

fn in_order(setup: &mut Setup) {
    setup.subscribe("T", "*").config().set_mode(ConsumeMode::Orderly);
    setup.handler(|_| Handling::commit().taking(ms(TAKES_MS)));
}

/// 100 messages a second over four queues.
fn produce_for(world: &mut World, seconds: u64) {
    for _ in 0..seconds * 25 {
        for id in 0..4 {
            world.produce("T", "a", id, 1);
        }
        world.run_for(ms(40));
    }
}

/// What handlers were given of one queue, over all members: when, by whom, and which offset.
fn deliveries(world: &World, members: &[&str], id: i32) -> Vec<(Instant, String, i64)> {
    let of_queue = |member: &str| {
        let delivered = world.delivered(member).into_iter();
        let delivered = delivered.filter(|delivery| delivery.queue == queue("T", "a", id));
        let told: Vec<_> = delivered
            .map(|delivery| (delivery.at, member.to_owned(), delivery.offset.0))
            .collect();
        told
    };
    let mut all: Vec<_> = members.iter().flat_map(|member| of_queue(member)).collect();
    all.sort();
    all
}

#[test]
fn queues_change_hands_ten_times_under_load_and_every_message_comes_once_and_in_order() {
    let mut world = World::new().topic("T", &[("a", 4)]).member("c1", in_order);
    let mut members = vec!["c1".to_owned()];
    produce_for(&mut world, 3);
    for round in 0..5 {
        let id = format!("d{round}");
        world.join(&id, in_order);
        produce_for(&mut world, 2);
        world.leave(&id, secs(5));
        produce_for(&mut world, 2);
        members.push(id);
    }
    world.run_for(secs(20));
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    for id in 0..4 {
        let delivered = deliveries(&world, &members, id);
        let offsets: Vec<i64> = delivered.iter().map(|(_, _, offset)| *offset).collect();
        let all: Vec<i64> = (0..world.stored_messages(&queue("T", "a", id))).collect();
        assert_eq!(offsets, all, "queue {id}");
        let hands = delivered.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        assert!(id < 2 || hands == 10, "queue {id} changed hands {hands} times");
        for pair in delivered.windows(2) {
            let gap = pair[1].0.saturating_since(pair[0].0);
            assert!(gap < secs(2), "queue {id} stood still for {gap:?}: {pair:?}");
            assert!(gap >= ms(TAKES_MS), "queue {id}: two at a time: {pair:?}");
        }
    }
    world.assert_replays();
}

#[test]
fn a_queue_of_a_member_that_died_comes_within_65_seconds_and_not_before_its_lock_has_ended() {
    let mut world = World::new()
        .topic("T", &[("a", 4)])
        .member("c1", in_order)
        .member("c2", in_order);
    produce_for(&mut world, 3);
    world.crash("c2");
    let died = world.now();
    for _ in 0..7 {
        produce_for(&mut world, 10);
    }
    // What the dead one had not committed comes again, one after another.
    world.run_for(secs(30));
    for id in 0..4 {
        let delivered = deliveries(&world, &["c1", "c2"], id);
        let was_its = delivered.iter().any(|(_, member, _)| member == "c2");
        let first = delivered
            .iter()
            .find(|(at, member, _)| member == "c1" && *at > died);
        let waited = first
            .expect("every queue is c1's in the end")
            .0
            .saturating_since(died);
        assert!(waited <= secs(65), "queue {id} came after {waited:?}");
        assert!(
            !was_its || waited > secs(30),
            "queue {id} came before its lock had ended"
        );
        let all: BTreeSet<i64> = delivered.iter().map(|(_, _, offset)| *offset).collect();
        let stored = 0..world.stored_messages(&queue("T", "a", id));
        let lost: Vec<i64> = stored.filter(|offset| !all.contains(offset)).collect();
        assert!(lost.is_empty(), "queue {id} lost {lost:?}");
    }
    let refused = |kind: &NoticeKind| matches!(kind, NoticeKind::LockRefused { .. });
    assert!(world.notices("c1").iter().any(|notice| refused(&notice.kind)));
    world.assert_replays();
}

#[test]
fn a_broker_that_restarts_forgets_its_locks_and_nobody_delivers_out_of_order() {
    let mut world = World::new()
        .topic("T", &[("a", 4)])
        .member("c1", in_order)
        .member("c2", in_order);
    produce_for(&mut world, 3);
    world.kill("a");
    world.run_for(secs(3));
    world.revive("a");
    produce_for(&mut world, 5);
    world.run_for(secs(60));
    for id in 0..4 {
        let delivered = deliveries(&world, &["c1", "c2"], id);
        let mut seen = -1;
        for (at, member, offset) in &delivered {
            assert!(
                *offset <= seen + 1,
                "{at:?} {member}: {offset} behind {seen}: a gap"
            );
            seen = *offset;
        }
        assert_eq!(seen + 1, world.stored_messages(&queue("T", "a", id)));
    }
}
