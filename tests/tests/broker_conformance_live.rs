//! The real broker still answers the script as it did when it was recorded. With `UPDATE=1` the recording is
//! written anew.

use std::fs;
use std::path::Path;

use rocketmq_consumer_testing::conformance::compare::compare;
use rocketmq_consumer_testing::conformance::{Sockets, recording, run, script};
use rocketmq_consumer_testing::rocketmq::{Cluster, LaunchError};

const RECORDING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/golden/broker_script/real-5.5.0.jsonl"
);

#[test]
fn the_real_broker_answers_as_recorded() -> Result<(), LaunchError> {
    let cluster = Cluster::builder()
        .broker_config("autoCreateTopicEnable", "true")
        .broker_config("messageDelayLevel", script::DELAY_LEVELS)
        .start()?;
    let mut sockets = Sockets::new(cluster.name_server(), cluster.broker(0).address());
    let real = run(&script::whole(), &mut sockets).expect("the script can be carried out");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(Path::new(RECORDING), recording::write(&real)).expect("the recording can be written");
    }
    let text = fs::read_to_string(RECORDING).expect("there is a recording");
    let recorded = recording::read(&text).expect("the recording is ours");
    let report = compare(&recorded, &real, &[]);
    println!("{report}");
    assert!(report.unknown.is_empty(), "{} differences", report.unknown.len());
    Ok(())
}
