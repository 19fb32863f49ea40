//! What the simulator has found, each as the smallest story that shows it.

use std::time::Duration;

use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::ids::{PeerAddr, QueueId};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_testing::sim::Sim;
use rocketmq_consumer_testing::sim::handler::{Delivery, Handler, Handling};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A handler that hangs kept its permit for ever when its queue was given back before its deadline: the deadline
/// ended with the ownership. A group with as many of them as permits delivered nothing any more.
#[test]
fn a_handler_that_hangs_gives_its_permit_back_although_its_queue_is_gone() {
    let mut sim = Sim::seed(1).topic("orders", 2);
    let mut group = GroupConfig::new("billing".into());
    group
        .set_start_at(StartAt::Earliest)
        .subscribe("orders".into(), "*");
    group
        .set_concurrency(1)
        .set_delivery_deadline(secs(10))
        .set_cancel_grace(secs(1));
    let client = ClientConfig::new("a".into(), vec![PeerAddr::new("10.0.1.1", 9876)]);
    let hangs = |delivery: &Delivery<'_>| {
        if delivery.queue().id == QueueId(1) {
            Handling::hangs()
        } else {
            Handling::done()
        }
    };
    let member = sim.member(client.clone(), group.clone(), Handler::new(hangs));
    sim.run_for(secs(1));
    for number in 0..20 {
        sim.send("orders", number.to_string());
    }
    sim.run_for(secs(1));
    let status = sim.status(member).expect("it runs");
    assert_eq!(
        status.groups[0].permits,
        (1, 1),
        "the only permit is with a handler that hangs"
    );

    // Another member takes the second queue over.
    let other = ClientConfig::new("b".into(), client.name_servers().to_vec());
    sim.member(other, group, Handler::new(|_: &Delivery<'_>| Outcome::Done));
    sim.run_for(secs(5));
    let status = sim.status(member).expect("it runs");
    assert!(
        status.groups[0]
            .queues
            .iter()
            .all(|queue| queue.queue.id != QueueId(1))
    );
    assert!(sim.unfinished() > 0);
    sim.run_for(secs(10));
    assert_eq!(sim.unfinished(), 0);
}
