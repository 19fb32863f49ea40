//! The broker machine answers the script as the real broker did when it was recorded.

use std::collections::BTreeSet;
use std::time::Duration;

use rocketmq_consumer_core::broker::config::Settings;
use rocketmq_consumer_testing::broker_conformance::compare::{Report, compare};
use rocketmq_consumer_testing::broker_conformance::{Machine, cluster_config, recording, run, script};

/// What Apache RocketMQ 5.5.0 answered; written by `broker_conformance_live`.
const REAL: &str = include_str!("../golden/broker_script/real-5.5.0.jsonl");
/// Most differences that may be known.
const KNOWN_MAX: usize = 10;

fn compare_with_reality(mut machine: Machine) -> Report {
    let real = recording::read(REAL).expect("the recording is ours");
    let ours = run(&script::whole(), &mut machine).expect("the script can be carried out");
    compare(&real, &ours, script::KNOWN)
}

#[test]
fn the_machine_answers_as_the_real_broker() {
    let report = compare_with_reality(Machine::new());
    println!("{report}");
    assert!(report.unknown.is_empty(), "{} differences", report.unknown.len());
}

#[test]
fn few_differences_are_known_and_each_is_still_there() {
    let report = compare_with_reality(Machine::new());
    for known in script::KNOWN {
        assert!(
            report.met.contains_key(known.name),
            "{} is no difference any more",
            known.name
        );
    }
    assert!(script::KNOWN.len() <= KNOWN_MAX);
}

#[test]
fn no_known_difference_is_one_of_codes_offsets_or_next_positions() {
    for known in script::KNOWN {
        let bad = |path: &&&str| {
            ["code", "flag", "ffset", "came"]
                .iter()
                .any(|word| path.contains(word))
        };
        assert_eq!(known.paths.iter().find(bad), None, "{}", known.name);
    }
}

#[test]
fn the_machine_answers_the_same_twice() {
    let once = || run(&script::whole(), &mut Machine::new()).expect("the script can be carried out");
    assert_eq!(once(), once());
}

/// The comparison itself is compared: a cluster that is set otherwise is found out, and where it is.
#[test]
fn a_cluster_that_is_set_otherwise_is_noticed() {
    let settings = || cluster_config().settings;
    let cases: [(&str, Settings, &[&str]); 4] = [
        (
            "no topic is created by a send",
            Settings {
                auto_create_topic: false,
                ..settings()
            },
            &["sends", "routes"],
        ),
        (
            "resets are pushed to members",
            Settings {
                server_side_reset: false,
                ..settings()
            },
            &["reset"],
        ),
        (
            "delays are longer",
            Settings {
                delay_levels: vec![Duration::from_secs(4); 4],
                ..settings()
            },
            &["send back", "sends"],
        ),
        (
            "members are waited for longer",
            Settings {
                relay_timeout: Duration::from_secs(60),
                ..settings()
            },
            &["relay"],
        ),
    ];
    for (what, settings, chapters) in cases {
        let report = compare_with_reality(Machine::with(settings));
        let differing: BTreeSet<&str> = report
            .chapters
            .iter()
            .filter(|(_, count)| count.differ > 0)
            .map(|(chapter, _)| chapter.as_str())
            .collect();
        for chapter in chapters {
            assert!(
                differing.contains(chapter),
                "{what}: {chapter} is not in {differing:?}"
            );
        }
    }
}
