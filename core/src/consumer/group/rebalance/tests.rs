use alloc::vec;

use super::*;
use crate::consumer::bench::Bench;

const GROUP: GroupKey = GroupKey {
    slot: 0,
    generation: 1,
};
const DEBOUNCE: Duration = Duration::from_millis(50);
const INTERVAL: Duration = Duration::from_secs(20);
const TIMER: TimerKey = TimerKey::Group(GROUP, GroupTimer::Rebalance);

fn asked(brokers: &[&str]) -> BTreeMap<BrokerName, Vec<Topic>> {
    brokers
        .iter()
        .map(|name| ((*name).into(), vec![Topic::from("T")]))
        .collect()
}

fn peer(host: &str) -> PeerAddr {
    PeerAddr::new(host, 10_911)
}

/// A notification is one of broker a.
fn want(rebalance: &mut Rebalance, cx: &mut Cx<'_>, why: Why, debounce: Duration) {
    match why {
        Why::Notified => rebalance.notified(cx, peer("a"), debounce),
        Why::Learned | Why::Retry => rebalance.wanted(cx, why, debounce),
    }
}

/// A round of one broker that is over at once.
fn round(rebalance: &mut Rebalance, bench: &mut Bench, at: u64, changed: bool) {
    bench.at(at).timers.cancel(TIMER);
    let number = rebalance.begin(Instant::from_millis(at), asked(&["a"]));
    assert!(rebalance.answered(number, &"a".into()).is_some());
    if changed {
        rebalance.changed_something();
    }
    rebalance.settle(&mut bench.at(at), DEBOUNCE, INTERVAL);
}

#[test]
fn each_reason_has_its_pace() {
    for (why, at) in [(Why::Notified, 1_050), (Why::Learned, 1_000), (Why::Retry, 2_000)] {
        let mut rebalance = Rebalance::new(GROUP);
        let mut bench = Bench::new();
        want(&mut rebalance, &mut bench.at(1_000), why, DEBOUNCE);
        assert_eq!(bench.armed(TIMER), Some(at), "{why:?}");
        want(&mut rebalance, &mut bench.at(1_020), why, DEBOUNCE);
        assert_eq!(
            bench.armed(TIMER),
            Some(at),
            "{why:?}: the second puts nothing off"
        );
        want(&mut rebalance, &mut bench.at(1_030), Why::Learned, DEBOUNCE);
        assert_eq!(bench.armed(TIMER), Some(at.min(1_030)), "{why:?}");
    }
}

#[test]
fn notifications_that_change_nothing_cost_one_round_a_second() {
    for (changed, next) in [(true, 170), (false, 1_050)] {
        let mut rebalance = Rebalance::new(GROUP);
        let mut bench = Bench::new();
        want(&mut rebalance, &mut bench.at(0), Why::Notified, DEBOUNCE);
        round(&mut rebalance, &mut bench, 50, changed);
        assert_eq!(bench.armed(TIMER), Some(20_050), "the safety net");
        for at in [120, 160, 400] {
            want(&mut rebalance, &mut bench.at(at), Why::Notified, DEBOUNCE);
        }
        assert_eq!(bench.armed(TIMER), Some(next), "something changed: {changed}");
    }
}

/// A member joins: it tells one broker first, and the one that we ask learns of it later.
#[test]
fn a_broker_that_learns_of_a_change_later_is_heard_at_once() {
    for (second, next) in [("b", 170), ("a", 1_050)] {
        let mut rebalance = Rebalance::new(GROUP);
        let mut bench = Bench::new();
        rebalance.notified(&mut bench.at(0), peer("a"), DEBOUNCE);
        round(&mut rebalance, &mut bench, 50, false);
        rebalance.notified(&mut bench.at(120), peer(second), DEBOUNCE);
        assert_eq!(bench.armed(TIMER), Some(next), "{second}");
    }
}

#[test]
fn brokers_that_announce_for_ever_get_a_round_a_second_each() {
    let mut rebalance = Rebalance::new(GROUP);
    let mut bench = Bench::new();
    let mut rounds = 0;
    for at in (0..10_000).step_by(10) {
        if bench.armed(TIMER).is_some_and(|armed| armed <= at) {
            round(&mut rebalance, &mut bench, at, false);
            rounds += 1;
        }
        let host = if at % 20 == 0 { "a" } else { "b" };
        rebalance.notified(&mut bench.at(at), peer(host), DEBOUNCE);
    }
    assert!((10..=20).contains(&rounds), "{rounds}");
}

#[test]
fn a_flapping_link_gets_no_more_than_a_round_a_second() {
    let mut rebalance = Rebalance::new(GROUP);
    let mut bench = Bench::new();
    let mut rounds = 0;
    for at in (0..10_000).step_by(10) {
        if bench.armed(TIMER).is_some_and(|armed| armed <= at) {
            round(&mut rebalance, &mut bench, at, false);
            rounds += 1;
        }
        want(&mut rebalance, &mut bench.at(at), Why::Notified, DEBOUNCE);
    }
    assert_eq!(rounds, 10);
}

#[test]
fn a_round_is_over_when_everybody_has_answered() {
    let mut rebalance = Rebalance::new(GROUP);
    let mut bench = Bench::new();
    let number = rebalance.begin(Instant::ZERO, asked(&["a", "b"]));
    assert_eq!(rebalance.answered(number, &"c".into()), None, "nobody asked c");
    assert_eq!(rebalance.answered(number, &"a".into()), Some(vec!["T".into()]));
    assert_eq!(rebalance.answered(number, &"a".into()), None, "once");
    rebalance.settle(&mut bench.at(0), DEBOUNCE, INTERVAL);
    assert_eq!((rebalance.is_running(), bench.armed(TIMER)), (true, None));
    assert!(rebalance.answered(number, &"b".into()).is_some());
    rebalance.settle(&mut bench.at(5), DEBOUNCE, INTERVAL);
    assert_eq!(
        (rebalance.is_running(), bench.armed(TIMER)),
        (false, Some(20_005))
    );
}

#[test]
fn an_incomplete_round_is_repeated_after_a_second() {
    let mut rebalance = Rebalance::new(GROUP);
    let mut bench = Bench::new();
    let number = rebalance.begin(Instant::ZERO, asked(&["a"]));
    rebalance.answered(number, &"a".into());
    rebalance.incomplete();
    rebalance.settle(&mut bench.at(0), DEBOUNCE, INTERVAL);
    assert_eq!(bench.armed(TIMER), Some(1_000));
    round(&mut rebalance, &mut bench, 1_000, false);
    assert_eq!(bench.armed(TIMER), Some(21_000), "a complete one is not");
}

#[test]
fn answers_of_an_earlier_round_are_nobodys() {
    let mut rebalance = Rebalance::new(GROUP);
    let mut bench = Bench::new();
    let old = rebalance.begin(Instant::ZERO, asked(&["a"]));
    let new = rebalance.begin(Instant::ZERO, asked(&["a"]));
    assert_eq!(rebalance.answered(old, &"a".into()), None);
    rebalance.stop(&mut bench.at(0));
    assert_eq!(
        (rebalance.answered(new, &"a".into()), bench.armed(TIMER)),
        (None, None)
    );
}

#[test]
fn a_round_lasts_until_the_application_has_told_its_shares() {
    const ALLOCATE: TimerKey = TimerKey::Group(GROUP, GroupTimer::Allocate);
    let deciding = |topic: &str| Deciding {
        topic: topic.into(),
        others: true,
    };
    let ask = |rebalance: &mut Rebalance, bench: &mut Bench, at, topic| {
        rebalance.ask(&mut bench.at(at), deciding(topic), Duration::from_secs(5))
    };
    let mut rebalance = Rebalance::new(GROUP);
    let mut bench = Bench::new();
    let number = rebalance.begin(Instant::ZERO, asked(&["a"]));
    rebalance.answered(number, &"a".into());
    let (first, second) = (
        ask(&mut rebalance, &mut bench, 0, "T"),
        ask(&mut rebalance, &mut bench, 10, "U"),
    );
    rebalance.settle(&mut bench.at(10), DEBOUNCE, INTERVAL);
    want(&mut rebalance, &mut bench.at(20), Why::Notified, DEBOUNCE);
    assert_eq!(
        (rebalance.is_running(), bench.armed(TIMER), bench.armed(ALLOCATE)),
        (true, None, Some(5_000)),
        "the first question ends the wait for all"
    );
    assert_eq!(rebalance.decided(&mut bench.at(30), second), Some(deciding("U")));
    assert_eq!(rebalance.decided(&mut bench.at(30), second), None, "once");
    assert_eq!(bench.armed(ALLOCATE), Some(5_000));
    assert_eq!(rebalance.decided(&mut bench.at(40), first), Some(deciding("T")));
    rebalance.settle(&mut bench.at(40), DEBOUNCE, INTERVAL);
    assert_eq!(
        (rebalance.is_running(), bench.armed(TIMER), bench.armed(ALLOCATE)),
        (false, Some(90), None)
    );

    let late = ask(&mut rebalance, &mut bench, 100, "T");
    assert_eq!(rebalance.undecided(), [deciding("T")]);
    assert_eq!(rebalance.decided(&mut bench.at(6_000), late), None);
    let forgotten = ask(&mut rebalance, &mut bench, 6_000, "T");
    rebalance.stop(&mut bench.at(6_001));
    assert_eq!(
        (
            rebalance.decided(&mut bench.at(6_002), forgotten),
            bench.armed(ALLOCATE)
        ),
        (None, None)
    );
}

#[test]
fn what_comes_during_a_round_is_not_lost_and_the_most_urgent_reason_counts() {
    for (reasons, at) in [
        (&[Why::Notified][..], 1_000),
        (&[Why::Retry], 1_100),
        (&[Why::Learned, Why::Notified], 100),
        (&[Why::Retry, Why::Learned], 100),
    ] {
        let mut rebalance = Rebalance::new(GROUP);
        let mut bench = Bench::new();
        want(&mut rebalance, &mut bench.at(0), Why::Notified, Duration::ZERO);
        bench.at(0).timers.cancel(TIMER);
        let number = rebalance.begin(Instant::ZERO, asked(&["a"]));
        for why in reasons {
            want(&mut rebalance, &mut bench.at(50), *why, DEBOUNCE);
        }
        assert_eq!(bench.armed(TIMER), None, "one round at a time");
        rebalance.answered(number, &"a".into());
        rebalance.settle(&mut bench.at(100), DEBOUNCE, INTERVAL);
        assert_eq!(bench.armed(TIMER), Some(at), "{reasons:?}");
    }
}
