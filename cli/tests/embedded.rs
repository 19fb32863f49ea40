//! `broker` and what talks to it: a whole round without Java.
#![cfg(unix)]

#[path = "support/embedded_broker.rs"]
mod embedded_broker;
mod support;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use embedded_broker::Broker;
use rustix::process::Signal;
use support::{Ran, rocketcat, run};

#[test]
fn what_is_produced_is_consumed_and_no_longer_waits() {
    let broker = Broker::start(&["--listen=127.0.0.1:0", "--topic=orders:2"]);
    let sent = broker.run(
        &["produce", "orders", "--key", "k%n", "-o", "json"],
        b"one\ntwo\nthree\nfour\n",
    );
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let places: BTreeSet<_> = sent
        .lines()
        .iter()
        .map(|line| format!("{}{}", line["broker"], line["queue_id"]))
        .collect();
    assert_eq!(places.len(), 4, "two queues on each of two brokers: {places:?}");

    let waiting = broker.run(
        &["lag", "-g", "billing", "-t", "orders", "--fail-above", "3"],
        b"",
    );
    assert_eq!(waiting.code, Some(3), "{}", waiting.stderr);
    let args = [
        "consume",
        "orders",
        "-g",
        "billing",
        "--from",
        "earliest",
        "-c",
        "4",
        "--idle-exit",
        "10",
        "-o",
        "%k %v\\n",
    ];
    let consumed = broker.run(&args, b"");
    assert_eq!(consumed.code, Some(0), "{}", consumed.stderr);
    let lines: BTreeSet<_> = consumed.stdout.lines().collect();
    assert_eq!(lines, ["k0 one", "k1 two", "k2 three", "k3 four"].into());
    let waiting = broker.run(&["lag", "-g", "billing", "-o", "json", "--fail-above", "0"], b"");
    assert_eq!(waiting.code, Some(0), "{}{}", waiting.stdout, waiting.stderr);
    let committed: i64 = waiting
        .lines()
        .iter()
        .filter_map(|line| line["committed"].as_i64())
        .sum();
    assert_eq!(committed, 4);
}

#[test]
fn what_waits_at_a_broker_where_nothing_was_committed_is_counted() {
    let broker = Broker::start(&["--listen=127.0.0.1:0", "--topic=orders:2", "--topic=other:1"]);
    for topic in ["orders", "other"] {
        let sent = broker.run(&["produce", topic, "-c", "8"], b"");
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    }
    // Only a group that is known can be told where to go on.
    let args = ["consume", "other", "-g", "audit", "--from", "earliest", "-c", "8"];
    let began = broker.run(&args, b"");
    assert_eq!(began.code, Some(0), "{}", began.stderr);
    let place = ["--queue", "broker-a:0", "--to", "latest", "--yes"];
    let reset = broker.run(
        &[&["offset", "reset", "-g", "audit", "-t", "orders"], &place[..]].concat(),
        b"",
    );
    assert_eq!(reset.code, Some(0), "{}", reset.stderr);
    let named = broker.run(&["lag", "-g", "audit", "-t", "orders", "-o", "json"], b"");
    let all = broker.run(&["lag", "-g", "audit", "-o", "json"], b"");
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    let places = |ran: &Ran| -> Vec<_> {
        let rows = ran.lines().into_iter().filter(|row| row["topic"] == "orders");
        rows.map(|row| format!("{} {} {}", row["broker"], row["queue_id"], row["lag"]))
            .collect()
    };
    assert_eq!(places(&all), places(&named));
    assert_eq!(places(&all).len(), 4, "{}", all.stdout);
}

#[test]
fn in_order_a_message_that_fails_holds_up_its_queue_and_none_other() {
    let broker = Broker::start(&["--topic=orders:2"]);
    let sent = broker.run(&["produce", "orders"], b"a\nb\nc\nd\ne\nf\n");
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let base = [
        "consume",
        "orders",
        "-g",
        "shipping",
        "--from",
        "earliest",
        "--idle-exit",
        "10",
    ];
    let in_order = [
        "--orderly",
        "--suspend-time",
        "20",
        "-c",
        "6",
        "-o",
        "%q %o %v\\n",
    ];
    for (fails, more) in [
        ("--fail-first=2", &[][..]),
        ("--fail-first=0", &["--exec", "true"]),
    ] {
        let group = ["-g", &format!("shipping{}", more.len())];
        let args = [&base[..2], &group, &base[4..], &in_order, &[fails], more].concat();
        let ran = broker.run(&args, b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for queue in ["0 ", "1 "] {
            let mut lines: Vec<_> = ran
                .stdout
                .lines()
                .filter(|line| line.starts_with(queue))
                .collect();
            let tries = lines.len() / 3;
            assert_eq!(
                (tries, lines.len() % 3),
                (if more.is_empty() { 3 } else { 1 }, 0),
                "{}",
                ran.stdout
            );
            assert!(lines.is_sorted(), "{lines:?}");
            lines.dedup();
            assert_eq!(lines.len(), 3);
        }
    }
}

#[test]
fn in_order_a_message_that_is_given_up_is_buried_at_once() {
    let broker = Broker::start(&["--topic=orders:1"]);
    let sent = broker.run(&["produce", "orders"], b"a\nb\nc\n");
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let args = [
        "consume",
        "orders",
        "-g",
        "packing",
        "--from",
        "earliest",
        "--orderly",
        "-e",
        "--exec",
        "test \"$(cat)\" != b || exit 65",
    ];
    let ran = broker.run(&args, b"");
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "a\nb\nc\n"),
        "{}",
        ran.stderr
    );
    let dead = broker.run(&["dlq", "peek", "-g", "packing", "-o", "json"], b"");
    let bodies: Vec<_> = dead.lines().iter().map(|line| line["body"].clone()).collect();
    assert_eq!(bodies, ["b"], "{}{}", dead.stdout, dead.stderr);
}

#[test]
fn a_signal_ends_it() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 0)] {
        assert_eq!(Broker::start(&[]).end(signal), Some(code));
    }
}

#[test]
fn an_address_that_is_taken_is_named() {
    let broker = Broker::start(&[]);
    let ran = run([
        "broker",
        "--listen=127.0.0.1:0",
        "--name-server-listen",
        broker.name_server(),
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("cannot listen"), "{}", ran.stderr);
}

#[test]
fn the_demo_tells_its_story_and_ends_well() {
    let ran = run(["demo"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    for line in [
        "broker  welcomes anna into group billing",
        "fails order 60",
        "broker  takes order 60 back",
        "handles order 60, which has come back: try 2, done",
        "broker  welcomes carla into group billing",
        "ben     is killed",
        "broker  has lost ben",
        "anna    has queues 0 1 2",
        "carla   has queues 3 4 5",
        "420 orders sent, 420 handled, 0 lost",
    ] {
        assert!(ran.stdout.contains(line), "{line}:\n{}", ran.stdout);
    }
}

/// As `head -1` does.
#[test]
fn a_reader_of_receipts_that_goes_away_stops_no_message() {
    let broker = Broker::start(&[]);
    let args = [
        "produce",
        "orders",
        "--count",
        "3000",
        "-o",
        "json",
        "-n",
        broker.name_server(),
    ];
    let mut producer = rocketcat(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    let stdout = producer.stdout.take().expect("it was asked for");
    BufReader::new(stdout).read_line(&mut line).expect("UTF-8");
    assert!(line.contains("\"number\":0"), "{line}");
    let ended = producer.wait_with_output().expect("it ends");
    let talk = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && talk.contains("\"sent\":3000"), "{talk}");
}
