//! A topic that is deleted and made again while it is consumed, and resets: nothing is skipped but what somebody
//! said should be.

use std::time::Duration;

use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, IllegalOffsetPolicy, StartAt};
use rocketmq_consumer_core::ids::{PeerAddr, Topic};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_testing::sim::fault::Fault;
use rocketmq_consumer_testing::sim::handler::Handler;
use rocketmq_consumer_testing::sim::invariants;
use rocketmq_consumer_testing::sim::{MemberId, Sim};

const SEEDS: std::ops::Range<u64> = 0..40;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A world under all rules, with two members of a group that follow this policy.
fn world(seed: u64, policy: IllegalOffsetPolicy) -> (Sim, [MemberId; 2]) {
    let cluster = rocketmq_consumer_core::broker::config::ClusterConfig::with_brokers(1);
    let mut sim = Sim::with(seed, cluster, invariants::all()).topic("orders", 4);
    let members = [1, 2].map(|number| {
        let id = format!("10.0.2.{number}@{number}");
        let client = ClientConfig::new(id.as_str().into(), vec![PeerAddr::new("10.0.1.1", 9876)]);
        let mut group = GroupConfig::new("billing".into());
        group
            .set_start_at(StartAt::Earliest)
            .subscribe("orders".into(), "*");
        group.set_illegal_offset(policy);
        sim.member(client, group, Handler::new(|_| Outcome::Done))
    });
    (sim, members)
}

fn attempts(sim: &Sim, members: [MemberId; 2], body: &str) -> u32 {
    members.iter().map(|member| sim.attempts(*member, body)).sum()
}

/// Deletes the topic and makes it again so much later, with messages in it at once.
fn made_again(seed: u64, policy: IllegalOffsetPolicy, later: Duration) -> (Sim, [MemberId; 2]) {
    let (mut sim, members) = world(seed, policy);
    for number in 0..200 {
        sim.send("orders", format!("old {number}"));
    }
    sim.run_for(secs(10));
    assert_eq!(sim.unfinished(), 0);
    let topic = Topic::from("orders");
    sim.apply(&Fault::Delete(topic.clone()));
    sim.run_for(later);
    sim.apply(&Fault::Queues(topic, "broker-a".into(), 4));
    for number in 0..20 {
        sim.send("orders", format!("new {number}"));
    }
    sim.run_for(secs(120));
    (sim, members)
}

#[test]
fn what_a_new_topic_of_an_old_name_has_is_not_skipped() {
    for seed in SEEDS {
        let later = secs(seed);
        for policy in [IllegalOffsetPolicy::Resume, IllegalOffsetPolicy::Earliest] {
            let (mut sim, members) = made_again(seed, policy, later);
            assert_eq!(sim.unfinished(), 0, "seed {seed}, {policy:?}, {later:?} later");
            sim.send("orders", "last");
            sim.run_for(secs(30));
            assert_eq!(attempts(&sim, members, "last"), 1, "seed {seed}");
        }
    }
}

/// What the default saves: the Java client's way passes over what was written before it noticed.
#[test]
fn who_follows_the_broker_skips_it() {
    let skipped = |seed| {
        made_again(seed, IllegalOffsetPolicy::Follow, secs(5))
            .0
            .unfinished()
    };
    assert!((0..5).any(|seed| skipped(seed) > 0));
}

#[test]
fn a_reset_is_followed_and_nothing_else_is_skipped() {
    for seed in SEEDS {
        let (mut sim, members) = world(seed, IllegalOffsetPolicy::Hold);
        for number in 0..200 {
            sim.send("orders", number.to_string());
        }
        sim.run_for(secs(10));
        let (group, topic) = ("billing".into(), Topic::from("orders"));
        sim.apply(&Fault::Reset(group, topic, 0));
        sim.run_for(secs(60));
        for number in 0..200 {
            assert_eq!(
                attempts(&sim, members, &number.to_string()),
                2,
                "seed {seed}: {number} once more"
            );
        }
    }
}

#[test]
fn a_reset_forwards_skips_what_lies_between() {
    let (mut sim, members) = world(7, IllegalOffsetPolicy::Resume);
    sim.run_for(secs(5));
    for member in members {
        sim.crash(member);
    }
    for number in 0..40 {
        sim.send("orders", number.to_string());
    }
    sim.apply(&Fault::Reset("billing".into(), "orders".into(), 1000));
    for member in members {
        sim.restart(member);
    }
    sim.send("orders", "after");
    sim.run_for(secs(90));
    assert_eq!(attempts(&sim, members, "after"), 1);
    assert_eq!(
        (0..40)
            .map(|number| attempts(&sim, members, &number.to_string()))
            .sum::<u32>(),
        0
    );
    assert_eq!(sim.unfinished(), 0);
}
