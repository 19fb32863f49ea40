use alloc::vec;

use super::*;

fn addr(host: &str) -> PeerAddr {
    PeerAddr::new(host, 10911)
}

fn owed(entries: &[(&str, &str, Step)]) -> Farewells {
    let owed = entries
        .iter()
        .map(|(host, group, step)| ((addr(host), ConsumerGroup::from(*group)), *step));
    Farewells { owed: owed.collect() }
}

#[test]
fn only_what_is_still_to_be_said_or_confirmed_holds_a_group_up() {
    for (step, waits) in [(Step::AfterBeat, true), (Step::Asked, true), (Step::Again, false)] {
        let farewells = owed(&[("a", "G", step), ("a", "H", Step::Again)]);
        assert_eq!(farewells.waits(&"G".into()), waits, "{step:?}");
        assert!(!farewells.waits(&"H".into()) && !farewells.waits(&"I".into()));
    }
}

#[test]
fn a_heartbeat_that_ended_lets_say_what_waited_for_it_there() {
    let mut farewells = owed(&[
        ("a", "G", Step::AfterBeat),
        ("a", "H", Step::Again),
        ("a", "I", Step::Asked),
        ("b", "G", Step::AfterBeat),
    ]);
    assert_eq!(farewells.due(&addr("a")), ["G".into(), "H".into()]);
    assert!(farewells.due(&addr("a")).is_empty(), "it is said once");
    assert_eq!(farewells.due(&addr("b")), ["G".into()]);
}

#[test]
fn a_lost_link_and_a_new_start_end_what_was_owed() {
    let mut farewells = owed(&[
        ("a", "G", Step::Asked),
        ("a", "H", Step::Again),
        ("b", "G", Step::Again),
    ]);
    assert_eq!(farewells.link_lost(&addr("a")), ["G".into(), "H".into()]);
    assert_eq!(farewells.link_lost(&addr("a")), vec![]);
    farewells.revoke(&"G".into());
    assert!(farewells.owed.is_empty());
}
