//! Two groups on each of two clients start, stop and crash in any order while brokers refuse, lose and delay what
//! they are asked: all rules hold, and when everything is mended every message has been finished in both groups.

use std::time::Duration;

use rocketmq_consumer_core::broker::config::ClusterConfig;
use rocketmq_consumer_core::broker::rule::{Effect, Nth, Rule};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_testing::sim::fault::Fault;
use rocketmq_consumer_testing::sim::handler::{Delivery, Handler, Handling};
use rocketmq_consumer_testing::sim::{MemberId, Sim, invariants};

/// In these a queue was owned again within the grace of the ownership before, and a rule of the simulator took
/// the send back of one for that of the other.
const SEEDS: [u64; 6] = [51, 163, 168, 178, 205, 219];

const CODES: [RequestCode; 9] = [
    RequestCode::CONSUMER_SEND_MSG_BACK,
    RequestCode::SEND_MESSAGE_V2,
    RequestCode::SEND_MESSAGE,
    RequestCode::UPDATE_CONSUMER_OFFSET,
    RequestCode::QUERY_CONSUMER_OFFSET,
    RequestCode::PULL_MESSAGE,
    RequestCode::HEART_BEAT,
    RequestCode::UNREGISTER_CLIENT,
    RequestCode::GET_CONSUMER_LIST_BY_GROUP,
];

/// Numbers for the story, apart from those of the world.
struct Dice(u64);

impl Dice {
    const fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn rule(&mut self) -> Rule {
        let code = CODES[self.below(9) as usize];
        let nth = match self.below(3) {
            0 => Nth::Every(2),
            1 => Nth::First(self.below(9) as u32 + 1),
            _ => Nth::Always,
        };
        let fail = |code, remark: &str| Effect::Fail {
            code,
            remark: remark.into(),
        };
        let effect = match self.below(9) {
            0 => fail(ResponseCode::SYSTEM_ERROR, "look message failed"),
            1 => fail(ResponseCode::SYSTEM_BUSY, "busy"),
            2 => Effect::Drop,
            3 => Effect::LoseAnswer,
            4 => Effect::Close,
            5 => Effect::DelayAnswer(Duration::from_millis(self.below(8_000))),
            6 => Effect::Delay(Duration::from_millis(self.below(8_000))),
            7 => Effect::Twice,
            _ => fail(ResponseCode::GO_AWAY, "away"),
        };
        let is_vital = [
            RequestCode::UPDATE_CONSUMER_OFFSET,
            RequestCode::PULL_MESSAGE,
            RequestCode::HEART_BEAT,
        ]
        .contains(&code);
        Rule::on(code, effect).nth(if is_vital { Nth::First(3) } else { nth })
    }
}

/// Fails or hangs with one first delivery in three.
fn handler(seed: u64) -> impl FnMut(&Delivery<'_>) -> Handling + Send + 'static {
    let mut dice = Dice(seed | 1);
    move |delivery| {
        if delivery.reconsume_times() > 0 || dice.below(3) > 0 {
            return Handling::done();
        }
        match dice.below(4) {
            0 => Handling::ends(Outcome::RetryAfter(Duration::from_secs(1))),
            1 => Handling::hangs(),
            _ => Handling::ends(Outcome::Retry),
        }
    }
}

/// Two clients with two groups each.
fn members(sim: &mut Sim, seed: u64) -> Vec<MemberId> {
    let mut members = Vec::new();
    for number in 1..=2 {
        let id = format!("10.0.2.{number}@{number}");
        let client = ClientConfig::new(id.as_str().into(), vec![PeerAddr::new("10.0.1.1", 9876)]);
        let mut group = GroupConfig::new("billing".into());
        group
            .set_start_at(StartAt::Earliest)
            .subscribe("orders".into(), "*")
            .set_delivery_deadline(Duration::from_secs(20));
        let billing = sim.member(client, group, Handler::new(handler(seed * 7 + number)));
        let audit = sim.consumer_on(billing, "audit", "orders", handler(seed * 11 + number));
        members.extend([billing, audit]);
    }
    members
}

fn story(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let cluster = ClusterConfig::with_brokers(1 + (seed % 2) as usize);
    let mut sim = Sim::with(seed, cluster, invariants::all()).topic("orders", 4);
    let members = members(&mut sim, seed);
    let mut number = 0;
    for _ in 0..60 {
        for _ in 0..dice.below(6) {
            sim.send("orders", number.to_string());
            number += 1;
        }
        let member = members[dice.below(4) as usize];
        match dice.below(14) {
            0 | 1 => sim.apply(&Fault::Rule(dice.rule())),
            2 => sim.apply(&Fault::NoRules),
            3 | 4 => sim.leave(member, Duration::from_millis(dice.below(3_000))),
            5..=7 => sim.restart(member),
            8 => sim.crash(member),
            _ => {}
        }
        let most = if dice.below(3) == 0 { 12_000 } else { 300 };
        sim.run_for(Duration::from_millis(dice.below(most)));
    }
    sim.apply(&Fault::NoRules);
    for member in members {
        sim.restart(member);
    }
    // Longer than the deadline of a handler of `audit` that hangs, and its retry.
    sim.run_for(Duration::from_secs(2_000));
    assert_eq!((sim.unfinished(), sim.violation()), (0, None), "seed {seed}");
}

#[test]
fn groups_that_come_and_go_lose_nothing_whatever_brokers_do() {
    SEEDS.into_iter().for_each(story);
}
