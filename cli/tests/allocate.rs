//! `allocate`, against the answers of the Java client.

mod support;

use serde_json::{Value, json};
use support::{arg, golden, golden_rows, run, run_with};

#[test]
fn a_file_is_answered_line_by_line_as_java_answers() {
    let rows = golden_rows("allocation/strategies.jsonl");
    let ran = run(["allocate", "--in", arg(&golden("allocation/strategies.jsonl"))]);
    let lines = ran.lines();
    assert_eq!(lines.len(), rows.len());
    let mut errors = 0;
    for (line, row) in lines.iter().zip(&rows) {
        assert_eq!(line["id"], row["id"]);
        if row.get("exception").is_some() {
            assert!(
                line["error"].is_string() && line.get("result").is_none(),
                "{line}"
            );
            errors += 1;
        } else {
            assert_eq!(line.get("result"), row.get("result"), "{}", row["id"]);
        }
    }
    assert_eq!(ran.code, Some(1), "some lines have no answer");
    assert_eq!(
        ran.stderr,
        format!("rocketcat: error: {errors} lines have no answer; each says why\n")
    );
}

#[test]
fn a_file_without_errors_ends_well() {
    let line = r#"{"id":1,"strategy":"AVG","topic":"T","currentCid":"b","cidAll":["a","b"],"mqAll":[["x",0],["x",1]]}"#;
    let ran = run_with(
        ["allocate", "--in", "-"],
        format!("{line}\n\n{line}\n").as_bytes(),
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(
        ran.lines(),
        [
            json!({"id": 1, "result": [["x", 1]]}),
            json!({"id": 1, "result": [["x", 1]]})
        ]
    );
}

#[test]
fn a_strategy_this_build_does_not_know_is_an_error_of_its_line() {
    let ran = run_with(
        ["allocate", "--in", "-"],
        br#"{"id":"a","strategy":"MOON","cidAll":[],"mqAll":[]}"#,
    );
    assert_eq!(ran.code, Some(1));
    let line = &ran.lines()[0];
    assert_eq!(line["id"], "a");
    assert!(line["error"].as_str().expect("text").contains("MOON"), "{line}");
}

#[test]
fn flags_are_sorted_as_a_rebalance_sorts() {
    let share = |client: &str| {
        let flags = [
            "--members",
            "c,a,b",
            "--queues",
            "broker-b:2,broker-a:3",
            "--topic",
            "T",
            "--group",
            "G",
        ];
        let ran = run(["allocate", "--strategy", "avg", "--client", client]
            .into_iter()
            .chain(flags));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.lines()[0].clone()
    };
    let queues = |pairs: &[(&str, i32)]| -> Value {
        let queues: Vec<_> = pairs
            .iter()
            .map(|(broker, id)| json!({"broker": broker, "queue_id": id}))
            .collect();
        json!({ "queues": queues })
    };
    assert_eq!(share("a"), queues(&[("broker-a", 0), ("broker-a", 1)]));
    assert_eq!(share("b"), queues(&[("broker-a", 2), ("broker-b", 0)]));
    assert_eq!(share("c"), queues(&[("broker-b", 1)]));
    assert_eq!(share("d"), queues(&[]));
}

#[test]
fn a_strategy_has_parameters_and_explains_itself() {
    let flags = [
        "allocate",
        "--client",
        "c1",
        "--members",
        "c2,c1,c2",
        "--queues",
        "r1@b:2,r2@b:1",
        "--topic",
        "T",
        "--explain",
        "--strategy",
    ];
    let ran = run(flags.into_iter().chain(["room:r1"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let want = json!({
        "queues": [{
            "broker": "r1@b",
            "queue_id": 0,
            "why": "queue 0 was left over for place 0"
        }],
        "explain": {
            "strategy": "room:r1",
            "queues": 3,
            "members": [
                {"client_id": "c1", "places": [0], "owns": 1},
                {"client_id": "c2", "places": [1, 2], "owns": 1}
            ],
            "unowned": [{"broker": "r2@b", "queue_id": 0}]
        }
    });
    assert_eq!(ran.lines(), [want]);

    let ran = run(flags.into_iter().chain(["config:r1@b:1,r1@b:5"]));
    assert_eq!(
        ran.lines()[0]["queues"],
        json!([{"broker": "r1@b", "queue_id": 1, "why": "it is on the list"}])
    );
    assert!(
        ran.stderr
            .contains("T/r1@b/5 is named by the strategy and not there"),
        "{}",
        ran.stderr
    );

    for (strategy, why) in [
        ("moon", "unknown allocation strategy"),
        ("hash:0", "1 to 1000 virtual nodes"),
        ("near:r1=a", "Machine room is null for mq"),
    ] {
        let ran = run(flags.into_iter().chain([strategy]));
        assert_eq!(ran.code, Some(2), "{strategy}");
        assert!(ran.stderr.contains(why), "{strategy}: {}", ran.stderr);
    }
}

#[test]
fn help_lists_every_strategy() {
    for command in ["allocate", "consume"] {
        let ran = run([command, "--help"]);
        for word in [
            "circle",
            "hash:20",
            "room:r1,r2",
            "config:broker-a:0",
            "near:RULE/STRATEGY",
        ] {
            assert!(ran.stdout.contains(word), "{command} does not know {word}");
        }
    }
}
