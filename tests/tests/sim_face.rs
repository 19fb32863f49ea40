//! What somebody writes who wants to know how an own handler fares.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocketmq_consumer_core::config::{ClientConfig, ConsumeMode, GroupConfig, MessageModel, StartAt};
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::message::{OrderlyOutcome, Outcome};
use rocketmq_consumer_testing::sim::Sim;
use rocketmq_consumer_testing::sim::handler::{Delivery, Handler, Handling};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn a_message_that_always_fails_is_tried_17_times_and_then_a_dead_letter() {
    let mut sim = Sim::seed(7).topic("orders", 4);
    let member = sim.consumer("billing", "orders", |_| Outcome::Retry);
    sim.send("orders", "boom");
    sim.run_for(secs(5 * 3600));
    assert_eq!(sim.dead_letters("billing"), ["boom"]);
    assert_eq!(sim.attempts(member, "boom"), 17);
}

#[test]
fn what_a_crashed_member_had_not_finished_comes_to_another() {
    let mut sim = Sim::seed(1).topic("orders", 4);
    let hanging = sim.consumer("billing", "orders", |_| Handling::hangs());
    for number in 0..20 {
        sim.send("orders", number.to_string());
    }
    sim.run_for(secs(10));
    assert_eq!(sim.unfinished(), 20);
    sim.crash(hanging);
    let good = sim.consumer("billing", "orders", |_| Outcome::Done);
    sim.run_for(secs(60));
    assert_eq!(sim.unfinished(), 0);
    assert!((0..20).all(|number| sim.attempts(good, &number.to_string()) == 1));
}

#[test]
fn a_member_that_is_cut_off_goes_on_when_it_is_mended() {
    let mut sim = Sim::seed(2).topic("orders", 2);
    let member = sim.consumer("billing", "orders", |_| Outcome::Done);
    sim.run_for(secs(5));
    sim.cut(member);
    sim.send("orders", "late");
    sim.run_for(secs(60));
    assert_eq!(sim.attempts(member, "late"), 0);
    sim.mend(member);
    sim.run_for(secs(30));
    assert_eq!(sim.attempts(member, "late"), 1);
    sim.leave(member, secs(1));
    sim.run_for(secs(5));
    assert_eq!(sim.status(member), None);
}

#[test]
fn the_same_seed_and_the_same_calls_are_the_same_run() {
    let hash = |seed| {
        let mut sim = Sim::seed(seed).topic("orders", 3);
        for _ in 0..3 {
            sim.consumer("billing", "orders", |delivery| {
                if delivery.reconsume_times() > 0 {
                    Outcome::Done
                } else {
                    Outcome::Retry
                }
            });
        }
        for number in 0..50 {
            sim.send("orders", number.to_string());
            sim.run_for(Duration::from_millis(300));
        }
        sim.run_for(secs(30));
        sim.trace_hash()
    };
    assert_eq!(hash(3), hash(3));
    assert_ne!(hash(3), hash(4));
}

#[test]
fn a_group_leaves_a_client_and_comes_back_while_the_other_goes_on() {
    let mut sim = Sim::seed(5).topic("orders", 4);
    let billing = sim.consumer("billing", "orders", |_| Outcome::Done);
    let audit = sim.consumer_on(billing, "audit", "orders", |_| Outcome::Done);
    let mut number = 0;
    let mut more = |sim: &mut Sim| {
        for _ in 0..20 {
            sim.send("orders", number.to_string());
            number += 1;
        }
        sim.run_for(secs(10));
    };
    more(&mut sim);
    assert_eq!(sim.unfinished(), 0);
    sim.leave(audit, secs(1));
    more(&mut sim);
    assert!(sim.status(audit).is_none() && sim.status(billing).is_some());
    assert_eq!(sim.unfinished(), 20, "those that audit has not seen");
    sim.restart(audit);
    more(&mut sim);
    assert_eq!(sim.unfinished(), 0);
    for member in [billing, audit] {
        assert!((0..60).all(|number| sim.attempts(member, &number.to_string()) == 1));
    }
    // What happens to the client happens to both.
    sim.crash(audit);
    assert!(sim.status(audit).is_none() && sim.status(billing).is_none());
    sim.restart(billing);
    more(&mut sim);
    assert_eq!(sim.unfinished(), 0);
    assert!(
        sim.status(audit).is_some(),
        "it was not asked to leave, so it is back"
    );
}

/// A client of its own, and a group that reads everything.
fn member(name: &str) -> (ClientConfig, GroupConfig) {
    let client = ClientConfig::new(name.into(), vec![PeerAddr::new("10.0.1.1", 9876)]);
    let mut group = GroupConfig::new("billing".into());
    group
        .set_start_at(StartAt::Earliest)
        .subscribe("orders".into(), "*");
    (client, group)
}

#[test]
fn what_is_consumed_in_order_waits_for_what_is_suspended_also_across_members() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut sim = Sim::seed(11).topic("orders", 1);
    let start = |sim: &mut Sim, name: &str| {
        let (client, mut group) = member(name);
        group.set_mode(ConsumeMode::Orderly);
        let order = Arc::clone(&order);
        let handler = Handler::new(move |delivery: &Delivery<'_>| {
            let body = String::from_utf8_lossy(&delivery.body()).into_owned();
            let fails = body == "2" && delivery.attempt() < 2;
            order.lock().expect("nobody panics with it").push(body);
            if fails {
                OrderlyOutcome::Suspend
            } else {
                OrderlyOutcome::Commit
            }
        });
        sim.member(client, group, handler)
    };
    let first = start(&mut sim, "a");
    for number in 0..5 {
        sim.send("orders", number.to_string());
    }
    sim.run_for(secs(10));
    sim.leave(first, secs(1));
    start(&mut sim, "b");
    for number in 5..8 {
        sim.send("orders", number.to_string());
    }
    sim.run_for(secs(10));
    let order = order.lock().expect("nobody panics with it");
    assert_eq!(*order, ["0", "1", "2", "2", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn where_members_broadcast_each_gets_all_and_nothing_twice_over_a_restart() {
    let mut sim = Sim::seed(12).topic("orders", 3);
    let members = ["a", "b"].map(|name| {
        let (client, mut group) = member(name);
        group.set_model(MessageModel::Broadcasting);
        sim.member(client, group, Handler::new(|_: &Delivery<'_>| Outcome::Done))
    });
    for number in 0..20 {
        sim.send("orders", number.to_string());
    }
    sim.run_for(secs(10));
    sim.crash(members[0]);
    for number in 20..30 {
        sim.send("orders", number.to_string());
    }
    sim.restart(members[0]);
    sim.run_for(secs(10));
    assert_eq!(sim.unfinished(), 0);
    for member in members {
        assert!((0..30).all(|number| sim.attempts(member, &number.to_string()) == 1));
    }
}
