//! Faults of configuration that other clients have had.

use std::time::Duration;

use rocketmq_consumer_core::config::{GroupConfig, MessageModel};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::heartbeat::{self, HeartbeatRequest};
use rocketmq_consumer_testing::world::Bench;

fn group() -> GroupConfig {
    let mut group = GroupConfig::new("g".into());
    group.subscribe("T".into(), "*");
    group
}

#[test]
fn of_33_a_group_is_clustering_unless_told_otherwise() {
    assert_eq!(group().model(), &MessageModel::Clustering);
    assert_eq!(MessageModel::default(), MessageModel::Clustering);
    // And says so to brokers.
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    bench.settle();
    let beats = bench.sent(RequestCode::HEART_BEAT);
    let beat: HeartbeatRequest = beats.first().expect("it has beaten").request();
    let models: Vec<_> = beat.consumers.iter().map(|group| group.message_model).collect();
    assert_eq!(models, [Some(heartbeat::MessageModel::Clustering)]);
}

#[test]
fn lp_02_a_pull_that_ends_before_its_hold_is_refused() {
    for (deadline, good) in [(15_000, false), (14_999, false), (15_001, true)] {
        let mut group = group();
        group.set_pull_hold(Duration::from_secs(15));
        group.set_pull_deadline(Duration::from_millis(deadline));
        match group.check() {
            Ok(()) => assert!(good, "{deadline}"),
            Err(error) => {
                let text = error.to_string();
                assert!(
                    !good && text.contains("pull_hold") && text.contains("pull_deadline"),
                    "{text}"
                );
            }
        }
    }
}
