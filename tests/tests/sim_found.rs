//! What the simulator has found, each as the smallest story that shows it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocketmq_consumer_core::broker::config::ClusterConfig;
use rocketmq_consumer_core::broker::rule::{Effect, Rule};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::ids::{PeerAddr, QueueId};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::status::QueueState;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_testing::sim::Sim;
use rocketmq_consumer_testing::sim::fault::Fault;
use rocketmq_consumer_testing::sim::handler::{Delivery, Handler, Handling};
use rocketmq_consumer_testing::sim::invariant::{Broken, Invariant, View};
use rocketmq_consumer_testing::sim::seen::{Ask, Deed, Life, Seen, What};

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

/// Breaks when the first process sends a message back later than this.
struct NoSendBackAfter(Arc<Mutex<Option<Instant>>>);

impl Invariant for NoSendBackAfter {
    fn name(&self) -> &'static str {
        "no_send_back_after"
    }

    fn see(&mut self, seen: &Seen<'_>, _: &dyn View) -> Result<(), Broken> {
        let What::Member {
            life: Life(0),
            deed: Deed::Asked {
                ask: Ask::SendBack { .. },
                ..
            },
        } = seen.what
        else {
            return Ok(());
        };
        let latest = *self.0.lock().expect("nobody panics with it");
        match latest {
            Some(latest) if seen.at > latest => Err(Broken(format!("at {:?}", seen.at))),
            Some(_) | None => Ok(()),
        }
    }
}

/// A send back that had failed was tried again after the grace of its queue, as long as the last commit was not
/// acknowledged: the message was the next owner's by then.
#[test]
fn nothing_is_sent_back_once_the_grace_of_its_queue_is_over() {
    let latest = Arc::new(Mutex::new(None));
    let cluster = ClusterConfig::with_brokers(1).topic("orders", 2);
    let mut sim = Sim::with(1, cluster, vec![Box::new(NoSendBackAfter(Arc::clone(&latest)))]);
    let busy = Effect::Fail {
        code: ResponseCode::SYSTEM_BUSY,
        remark: String::new(),
    };
    sim.apply(&Fault::Rule(Rule::on(RequestCode::CONSUMER_SEND_MSG_BACK, busy)));
    let late = Effect::DelayAnswer(secs(4));
    sim.apply(&Fault::Rule(Rule::on(RequestCode::UPDATE_CONSUMER_OFFSET, late)));
    let member = sim.consumer("billing", "orders", |delivery| {
        if delivery.queue().id == QueueId(1) {
            Outcome::Retry
        } else {
            Outcome::Done
        }
    });
    sim.run_for(secs(1));
    for number in 0..10 {
        sim.send("orders", number.to_string());
    }
    sim.run_for(Duration::from_millis(100));
    // The second queue goes to another member, half a second before the failed send backs are tried again.
    sim.consumer("billing", "orders", |_| Outcome::Done);
    *latest.lock().expect("nobody panics with it") = Some(sim.now() + Duration::from_millis(500));
    sim.run_for(Duration::from_millis(800));
    let status = sim.status(member).expect("it runs");
    let mut queues = status.groups[0].queues.iter();
    let last = queues.find(|queue| queue.queue.id == QueueId(1) && queue.queue.topic.as_str() == "orders");
    let state = last.map(|queue| queue.state);
    assert_eq!(
        state,
        Some(QueueState::Revoking),
        "its last commit is not acknowledged yet"
    );
    sim.run_for(secs(10));
}
