//! The script in real time: the real broker still answers as it did when it was recorded (with `UPDATE=1` the
//! recording is written anew), and the embedded broker answers over TCP as its machine does.

use std::fs;
use std::sync::{Mutex, PoisonError};

use rocketmq_consumer_testing::broker_conformance::compare::{Known, compare};
use rocketmq_consumer_testing::broker_conformance::{
    Outcome, Sockets, cluster_config, recording, run, script,
};
use rocketmq_consumer_testing::rocketmq::{Cluster, LaunchError, Version};
use rocketmq_consumer_tokio::broker::EmbeddedBroker;

const RECORDING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/golden/broker_script/real-5.5.0.jsonl"
);

/// Each is to answer as quickly as it can.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn the_real_broker_answers_as_recorded() -> Result<(), LaunchError> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = Cluster::builder()
        // The recording is of this one.
        .version(Version::CURRENT)
        .broker_config("autoCreateTopicEnable", "true")
        .broker_config("messageDelayLevel", script::DELAY_LEVELS)
        .start()?;
    let real = answers_of(cluster.name_server(), cluster.broker(0).address());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(RECORDING, recording::write(&real)).expect("the recording can be written");
    }
    as_recorded(&real, &[]);
    Ok(())
}

#[test]
fn the_embedded_broker_answers_as_recorded_over_tcp() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a thread can be had");
    let embedded = runtime
        .block_on(EmbeddedBroker::start(cluster_config()))
        .expect("free ports");
    let broker = embedded
        .config()
        .brokers
        .first()
        .and_then(|broker| broker.replicas.get(&0));
    let broker = broker.expect("there is one").to_string();
    as_recorded(&answers_of(&embedded.name_server(), &broker), script::KNOWN);
    runtime.block_on(embedded.shutdown());
}

fn answers_of(name_server: &str, broker: &str) -> Vec<Outcome> {
    let mut sockets = Sockets::new(name_server, broker);
    run(&script::whole(), &mut sockets).expect("the script can be carried out")
}

fn as_recorded(answers: &[Outcome], known: &[Known]) {
    let text = fs::read_to_string(RECORDING).expect("there is a recording");
    let recorded = recording::read(&text).expect("the recording is ours");
    let report = compare(&recorded, answers, known);
    println!("{report}");
    assert!(report.unknown.is_empty(), "{} differences", report.unknown.len());
}
