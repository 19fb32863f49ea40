//! Queue locks: 41, 42.

use super::bodies::locks;
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("locks");
    let lock = |client: &str, queues: &[(&str, i32)]| locks(41, client, "lockers", queues);
    let unlock = |client: &str, queues: &[(&str, i32)]| locks(42, client, "lockers", queues);
    let (q0, q1, q2) = (("orders", 0), ("orders", 1), ("orders", 2));
    s.ask("b1", "two are granted", lock("first", &[q0, q1]));
    s.ask("b1", "granted again to their owner", lock("first", &[q0, q1]));
    s.ask("b1", "refused to another", lock("second", &[q0]));
    s.ask("b1", "granted in part", lock("second", &[q1, q2]));
    s.ask(
        "b1",
        "another group has locks of its own",
        locks(41, "second", "others", &[q0]),
    );
    s.ask("b1", "unlocked by who does not own it", unlock("second", &[q0]));
    s.ask("b1", "still refused", lock("second", &[q0]));
    s.ask("b1", "unlocked by its owner", unlock("first", &[q0]));
    s.ask("b1", "granted to the other then", lock("second", &[q0]));
    s.ask("b1", "refused to the first owner", lock("first", &[q0, q1]));
    s.ask(
        "b1",
        "a queue that is not there",
        lock("first", &[("nowhere", 99)]),
    );
    s.ask("b1", "no queues", lock("first", &[]));
    s.post("b1", "unlocked one-way", unlock("first", &[q1]).one_way());
    s.wait(100);
    s.ask("b1", "granted after that", lock("second", &[q1]));
    s.ask("b1", "a body that is no JSON", Ask::new(41, "").body("{"));
    s.ask("b1", "no body", Ask::new(41, ""));
}
