//! How the members of a drawn group share their queues: one of the strategies, and what the application of
//! members with an own strategy answers.
//!
//! Only strategies are drawn that leave no queue to nobody: of a queue without an owner nothing could be asked.

use std::time::Duration;

use rocketmq_consumer_core::action::AllocateQuestion;
use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::broker::config::ClusterConfig;
use rocketmq_consumer_core::ids::MessageQueue;

use super::dice::Dice;

/// How long the application of a drawn member takes at most, mostly; now and then it forgets to answer.
const THINKS: Duration = Duration::from_millis(300);

/// The strategy of one group. For shares by room, rooms are written into the names of the brokers.
pub(crate) fn draw(dice: &mut Dice, cluster: &mut ClusterConfig) -> AllocateStrategy {
    match dice.number(0..10) {
        0..4 => AllocateStrategy::Averagely,
        4 => AllocateStrategy::Circle,
        5 | 6 => AllocateStrategy::ConsistentHash {
            virtual_nodes: u32::try_from(dice.number(1..20)).unwrap_or(1),
        },
        7 => {
            for (index, broker) in cluster.brokers.iter_mut().enumerate() {
                if !broker.name.as_str().contains('@') {
                    broker.name = format!("r{}@{}", index % 2, broker.name).into();
                }
            }
            AllocateStrategy::MachineRoom {
                rooms: ["r0", "r1"].map(Box::from).into(),
            }
        }
        8 => {
            // Members by the first digit of the last part of their address, brokers by name: some rooms have
            // members and some have none.
            let inner = *dice.pick(&["avg", "circle", "hash:5"]);
            let rule = "10.0.2.1*=r0,10.0.2.2*=r1,r0@*=r0,r1@*=r1,broker-a=r0,broker-b=r1,else=r2";
            format!("near:{rule}/{inner}").parse().expect("written above")
        }
        _ => AllocateStrategy::Own("backwards".into()),
    }
}

/// What the application answers and after how long; `None`: it never does.
pub(crate) fn answer(
    dice: &mut Dice,
    question: &AllocateQuestion,
) -> Option<(Duration, Box<[MessageQueue]>)> {
    let forgets = dice.chance(4);
    let thinks = dice.time(Duration::ZERO..THINKS);
    (!forgets).then(|| (thinks, backwards(question)))
}

/// Queues in turn, the last one first: no strategy of ours shares like that.
fn backwards(question: &AllocateQuestion) -> Box<[MessageQueue]> {
    let members = question.members.iter().cycle();
    let dealt = question.queues.iter().rev().zip(members);
    let mine = dealt.filter(|(_, member)| **member == question.own);
    mine.map(|(queue, _)| queue.clone()).collect()
}
