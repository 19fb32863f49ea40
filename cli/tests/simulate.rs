//! `simulate`: worlds in virtual time, and what scripts can rely on.

mod support;

use std::fs;

use support::{Ran, run};

fn hash(args: &[&str]) -> String {
    let ran = run([&["simulate"], args].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
    let hash = ran.stdout.strip_suffix('\n').expect("one line");
    let is_hex = |char: char| matches!(char, '0'..='9' | 'a'..='f');
    assert!(hash.len() == 16 && hash.chars().all(is_hex), "{hash:?}");
    hash.to_owned()
}

fn refused(args: &[&str]) -> String {
    let ran = run([&["simulate"], args].concat());
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(2), ""),
        "{args:?}: {}",
        ran.stderr
    );
    ran.stderr
}

#[test]
fn a_seed_has_one_hash_and_each_restriction_another() {
    assert_eq!(hash(&["--seed", "7"]), hash(&["--seed", "7", "--faults", "all"]));
    let some = hash(&["--seed", "7", "--faults", "network,crash"]);
    assert_eq!(
        some,
        hash(&["--seed", "7", "--faults", "crash,disconnect,cut,weather"])
    );
    let all = [
        hash(&["--seed", "7"]),
        hash(&["--seed", "8"]),
        some,
        hash(&["--seed", "7", "--faults", "none"]),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "{all:?}");
    // The greatest seed is one too.
    hash(&["--seed", "18446744073709551615"]);
}

#[test]
fn the_story_and_the_summary_are_told_to_who_asks_and_change_nothing() {
    let told = run(["simulate", "--seed", "7", "-v"]);
    assert_eq!(told.code, Some(0));
    assert_eq!(told.stdout.trim_end(), hash(&["--seed", "7"]));
    for words in [
        "Begun",
        " owns ",
        "settles",
        "---- Healed",
        "rocketcat: info: seed 7: ",
        " faults, ",
    ] {
        assert!(told.stderr.contains(words), "{words}");
    }
    let json = run(["simulate", "--seed", "7", "-v", "--log-format", "json"]);
    let lines: Vec<_> = json.stderr.lines().map(support::json).collect();
    let plain = told.stderr.lines().count();
    assert_eq!(lines.len(), plain, "a line of JSON for each of the story");
    assert!(lines.iter().all(|line| line["level"] == "info"));
    let last = json.last_error_line();
    assert!(
        last["message"].as_str().expect("text").starts_with("seed 7: "),
        "{last}"
    );
}

#[test]
fn many_seeds_are_a_distribution() {
    let table = run(["simulate", "--seed", "3", "--seeds", "6"]);
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    for words in ["MEDIAN", "virtual minutes", "6 seeds from 3 on", "seeds/s/core"] {
        assert!(table.stdout.contains(words), "{words}:\n{}", table.stdout);
    }
    let lines = |args: &[&str]| -> Vec<_> {
        let ran: Ran = run([&["simulate", "--seed", "3", "--seeds", "6", "-o", "json"], args].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.lines()
    };
    let all = lines(&[]);
    let [line] = all.as_slice() else {
        panic!("one object: {all:?}")
    };
    assert_eq!((&line["first_seed"], &line["seeds"]), (&3.into(), &6.into()));
    for measure in ["members", "queues", "messages", "faults", "virtual_minutes"] {
        let at = |percent| line[measure][percent].as_f64().expect("a number");
        assert!(
            0.0 < at("p10") && at("p10") <= at("median") && at("median") <= at("p90"),
            "{line}"
        );
    }
    for speed in [
        "seconds",
        "cores",
        "seeds_per_second",
        "seeds_per_second_per_core",
    ] {
        assert!(line[speed].as_f64().is_some_and(|speed| speed > 0.0), "{line}");
    }
    let calm = lines(&["--faults", "none"]);
    assert_eq!(
        (&calm[0]["faults"]["p90"], &calm[0]["faults_allowed"]),
        (&0.into(), &"none".into())
    );
}

#[test]
fn a_report_is_one_page() {
    let file = std::env::temp_dir().join(format!("rocketcat-simulate-{}.html", std::process::id()));
    let path = support::arg(&file);
    assert_eq!(hash(&["--seed", "7", "--report", path]), hash(&["--seed", "7"]));
    let page = fs::read_to_string(&file).expect("it was written");
    let _ = fs::remove_file(&file);
    for words in [
        "<!doctype html>",
        "World of seed 7",
        "<rect",
        "class=\"fault\"",
        "class=\"healed\"",
        "</html>",
    ] {
        assert!(page.contains(words), "{words}");
    }
    for outside in ["http:", "https:", "<script", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    let ran = run(["simulate", "--seed", "7", "--report", "/no/such/folder/x.html"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(
        ran.stderr.contains("cannot write /no/such/folder/x.html"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_advice() {
    let table: [(&[&str], &str); 10] = [
        (&[], "--seed <S>"),
        (&["--seed", "x"], "--seed"),
        (&["--seed", "-1"], "--seed"),
        (&["--seed", "18446744073709551616"], "--seed"),
        (&["--seed", "1", "--seeds", "0"], "from 1 to 1000000"),
        (&["--seed", "1", "--seeds", "1000001"], "from 1 to 1000000"),
        (
            &["--seed", "18446744073709551615", "--seeds", "1"],
            "the last seed would be",
        ),
        (&["--seed", "1", "-o", "json"], "--seeds"),
        (
            &["--seed", "1", "--seeds", "2", "--report", "x"],
            "cannot be used with",
        ),
        (
            &["--seed", "1", "--faults", "crash,moon"],
            "\"moon\" is no kind of fault",
        ),
    ];
    for (args, advice) in table {
        let error = refused(args);
        assert!(error.contains(advice), "{args:?}: {error}");
    }
    let names = refused(&["--seed", "1", "--faults", ""]);
    for name in [
        "disconnect",
        "broker-crash",
        "slaves",
        "clock",
        "twins",
        "network",
        "answers",
        "none",
    ] {
        assert!(names.contains(name), "{name}: {names}");
    }
}
