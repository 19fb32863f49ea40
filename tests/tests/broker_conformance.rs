//! The broker machine answers the script as the real broker did when it was recorded.

use rocketmq_consumer_testing::conformance::compare::{Report, compare};
use rocketmq_consumer_testing::conformance::{Machine, recording, run, script};

/// What Apache RocketMQ 5.5.0 answered; written by `broker_conformance_live`.
const REAL: &str = include_str!("../golden/broker_script/real-5.5.0.jsonl");

fn against_the_machine() -> Report {
    let real = recording::read(REAL).expect("the recording is ours");
    let ours = run(&script::whole(), &mut Machine::new()).expect("the script can be carried out");
    compare(&real, &ours, script::KNOWN)
}

#[test]
fn the_machine_answers_as_the_real_broker() {
    let report = against_the_machine();
    println!("{report}");
    assert!(report.unknown.is_empty(), "{} differences", report.unknown.len());
}

#[test]
fn few_differences_are_known_and_each_is_still_there() {
    let report = against_the_machine();
    for known in script::KNOWN {
        assert!(
            report.met.contains_key(known.name),
            "{} is no difference any more",
            known.name
        );
        assert!(!known.why.is_empty());
    }
    assert!(script::KNOWN.len() <= 10);
}

#[test]
fn the_machine_answers_the_same_twice() {
    let once = || run(&script::whole(), &mut Machine::new()).expect("the script can be carried out");
    assert_eq!(once(), once());
}
