//! A day in the life of a member, in seconds.

use std::time::Duration;

use rocketmq_consumer_core::broker::config::ClusterConfig;
use rocketmq_consumer_core::broker::rule::{Effect, Nth, Rule};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_testing::sim::fault::Fault;
use rocketmq_consumer_testing::sim::handler::{Delivery, Handler, Handling};
use rocketmq_consumer_testing::sim::{MemberId, Sim};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A day; without optimisation its first hours, since drift shows in them as well.
const HOURS: u32 = if cfg!(debug_assertions) { 5 } else { 24 };

/// Bytes that a machine keeps: what a copy of it takes.
fn heap(sim: &Sim, member: MemberId) -> u64 {
    let machine = sim.machine(member).expect("it runs");
    let mut copy = None;
    let info = allocation_counter::measure(|| copy = Some(machine.clone()));
    info.bytes_current.unsigned_abs()
}

/// Of 64 queues are idle, a quarter is held by handlers that are slow, and the rest is busy.
fn handling(delivery: &Delivery<'_>) -> Handling {
    match delivery.queue().topic.as_str() {
        "slow" => Handling::done().taking(secs(600)),
        "orders" if delivery.offset().0 % 5 == 0 => Handling::ends(Outcome::Retry),
        _ => Handling::done(),
    }
}

#[test]
fn lk_03_a_day_leaves_nothing_behind() {
    let mut cluster = ClusterConfig::with_brokers(1)
        .topic("idle", 32)
        .topic("slow", 16)
        .topic("orders", 16);
    // A steady state is what is to be seen, not the levels of the delays.
    cluster.settings.delay_levels = vec![secs(1); 18];
    let mut sim = Sim::with(3, cluster, Vec::new());
    let mut client = ClientConfig::new("a".into(), vec![PeerAddr::new("10.0.1.1", 9876)]);
    client
        .set_heartbeat_interval(secs(60))
        .set_route_interval(secs(300));
    let mut group = GroupConfig::new("billing".into());
    group.set_start_at(StartAt::Earliest);
    for topic in ["idle", "slow", "orders"] {
        group.subscribe(topic.into(), "*");
    }
    group.set_queue_count_max(1).set_concurrency(64);
    group.set_pull_hold(secs(280)).set_pull_deadline(secs(300));
    let member = sim.member(client, group, Handler::new(handling));
    let busy = Effect::Fail {
        code: ResponseCode::SYSTEM_BUSY,
        remark: String::new(),
    };
    let one_in_a_hundred = Rule::on(RequestCode::CONSUMER_SEND_MSG_BACK, busy).nth(Nth::Every(100));
    sim.apply(&Fault::Rule(one_in_a_hundred));
    let node = sim.node(&PeerAddr::new("10.0.0.1", 10_911));
    let node = node.expect("the only broker");
    let notified = Fault::Notify("broker-a".into(), "billing".into());
    let (mut number, mut first) = (0_u32, None);
    for hour in 1..=HOURS {
        for round in 0..360 {
            sim.run_for(secs(10));
            sim.apply(&notified);
            if round % 30 == 29 {
                sim.apply(&Fault::DisconnectAll(node));
            }
            if round % 6 == 0 {
                sim.send("slow", format!("slow {number}"));
                sim.send("orders", number.to_string());
                number += 1;
            }
        }
        // Of the same phase each time: a few seconds after the link was made again.
        sim.run_for(secs(60));
        let status = sim.status(member).expect("it runs");
        assert!(
            status.timers <= 3 * 65 + 40,
            "hour {hour}: {} timers",
            status.timers
        );
        let now = heap(&sim, member);
        let first = *first.get_or_insert(now);
        assert!(
            now * 10 <= first * 11,
            "hour {hour}: {now} bytes, and {first} after the first"
        );
    }
    sim.run_for(secs(4 * 3600));
    assert_eq!(sim.unfinished(), 0, "every message was delivered");
}
