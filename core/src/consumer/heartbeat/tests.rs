//! Heartbeats by their behaviour: who is told what, when again, and who counts as ready.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::consumer::bench::Bench;
use crate::ids::ClientId;

const A: &str = "10.1.0.1:10911";
const B: &str = "10.2.0.1:10911";
const NOTHING: [&str; 0] = [];

fn addr(text: &str) -> PeerAddr {
    text.parse().unwrap()
}

fn timer(of: &str) -> TimerKey {
    TimerKey::Heartbeat(addr(of))
}

/// Brokers `a` and `b`, both being told revision 1.
fn telling() -> (Heartbeats, Bench) {
    let mut beats = Heartbeats::new(&ClientConfig::new(ClientId::from("me"), vec![addr(A)]));
    let mut bench = Bench::new();
    assert_eq!(beats.subscriptions_changed(&mut bench.at(0), true), 1);
    beats.set_addresses(&mut bench.at(0), addresses(&[(A, "a"), (B, "b")]));
    assert_eq!(
        bench.wishes(),
        [format!("beat {A} with 1"), format!("beat {B} with 1")]
    );
    (beats, bench)
}

fn addresses(list: &[(&str, &str)]) -> BTreeMap<PeerAddr, BrokerName> {
    list.iter().map(|(at, name)| (addr(at), (*name).into())).collect()
}

fn refused() -> CallError {
    CallError::Broker {
        code: 1,
        remark: "why".to_owned(),
    }
}

/// The addresses that know us.
fn known(beats: &Heartbeats) -> Vec<PeerAddr> {
    let told = beats.told().into_iter().map(|(addr, _)| addr);
    told.filter(|addr| beats.is_acknowledged(addr)).collect()
}

#[test]
fn a_broker_is_told_at_once_and_again_every_30_s() {
    let (mut beats, mut bench) = telling();
    assert_eq!(bench.armed(timer(A)), Some(30_000));
    assert_eq!(beats.readiness(&addr(A), 1), Err(HoldReason::HeartbeatPending));
    beats.on_acknowledged(&mut bench.at(5), &addr(A), 1);
    assert_eq!(bench.wishes(), ["a ready, new"]);
    assert_eq!(
        (beats.readiness(&addr(A), 1), beats.is_acknowledged(&addr(B))),
        (Ok(()), false)
    );
    assert_eq!(known(&beats), [addr(A)]);
    beats.on_timer(&mut bench.at(30_000), &addr(A));
    assert_eq!(
        (bench.wishes(), bench.armed(timer(A))),
        (vec![format!("beat {A} with 1")], Some(60_000))
    );
    beats.on_acknowledged(&mut bench.at(30_001), &addr(A), 1);
    assert_eq!(
        bench.wishes(),
        ["a ready"],
        "not for the first time on this connection"
    );
}

#[test]
fn changed_subscriptions_are_told_at_once_and_awaited() {
    let (mut beats, mut bench) = telling();
    beats.on_acknowledged(&mut bench.at(5), &addr(A), 1);
    bench.wishes();
    assert_eq!(beats.subscriptions_changed(&mut bench.at(10), true), 2);
    assert_eq!(
        bench.wishes(),
        [format!("beat {A} with 2")],
        "b is still being told the first"
    );
    assert_eq!(beats.readiness(&addr(A), 2), Err(HoldReason::HeartbeatPending));
    assert_eq!(
        beats.readiness(&addr(A), 1),
        Ok(()),
        "for what does not need the newest"
    );
    beats.on_acknowledged(&mut bench.at(15), &addr(B), 1);
    assert_eq!(
        bench.wishes(),
        [format!("beat {B} with 2"), "b ready, new".to_owned()]
    );
    beats.on_acknowledged(&mut bench.at(20), &addr(A), 2);
    assert_eq!(
        (beats.readiness(&addr(A), 2), bench.wishes()),
        (Ok(()), vec!["a ready".to_owned()])
    );
}

#[test]
fn a_refused_or_unanswered_heartbeat_is_told_again_after_a_pause_that_doubles() {
    for (error, notices) in [
        (refused(), 1),
        (CallError::Timeout, 0),
        (CallError::Overloaded, 0),
    ] {
        let (mut beats, mut bench) = telling();
        let mut now = 0;
        for pause in [1_000, 2_000, 4_000, 5_000, 5_000] {
            beats.on_failed(&mut bench.at(now), &addr(A), &error);
            assert_eq!(bench.wishes().len(), notices, "{error}");
            assert_eq!(bench.armed(timer(A)), Some(now + pause), "{error}");
            now += pause;
            beats.on_timer(&mut bench.at(now), &addr(A));
            assert_eq!(bench.wishes(), [format!("beat {A} with 1")]);
        }
        beats.on_acknowledged(&mut bench.at(now), &addr(A), 1);
        beats.on_timer(&mut bench.at(now), &addr(A));
        beats.on_failed(&mut bench.at(now), &addr(A), &error);
        assert_eq!(bench.armed(timer(A)), Some(now + 1_000), "an answer ends the row");
    }
}

#[test]
fn a_refusal_takes_nothing_back_that_was_acknowledged() {
    for (error, readiness) in [
        (refused(), Ok(())),
        (CallError::Timeout, Ok(())),
        (CallError::Closed, Err(HoldReason::LinkDown)),
        (CallError::Connect(addr(A)), Err(HoldReason::LinkDown)),
    ] {
        let (mut beats, mut bench) = telling();
        beats.on_acknowledged(&mut bench.at(0), &addr(A), 1);
        beats.on_timer(&mut bench.at(30_000), &addr(A));
        beats.on_failed(&mut bench.at(30_000), &addr(A), &error);
        assert_eq!(beats.readiness(&addr(A), 1), readiness, "{error}");
    }
}

#[test]
fn a_lost_link_knows_nothing_of_us_and_the_next_one_is_told() {
    let (mut beats, mut bench) = telling();
    beats.on_acknowledged(&mut bench.at(0), &addr(A), 1);
    bench.wishes();
    beats.on_link_down(&mut bench.at(100), &addr(A));
    assert_eq!(beats.readiness(&addr(A), 0), Err(HoldReason::LinkDown));
    assert_eq!(
        bench.wishes(),
        [format!("beat {A} with 1")],
        "it waits for the link"
    );
    beats.on_link_down(&mut bench.at(200), &addr(A));
    assert_eq!(bench.wishes(), NOTHING, "one is enough");
    beats.on_acknowledged(&mut bench.at(300), &addr(A), 1);
    assert_eq!(bench.wishes(), ["a ready, new"]);
}

#[test]
fn addresses_come_and_go_with_the_routes() {
    let (mut beats, mut bench) = telling();
    let gone = beats.set_addresses(&mut bench.at(10), addresses(&[(B, "c"), ("10.3.0.1:1", "d")]));
    assert_eq!(
        (gone, bench.wishes()),
        (vec![addr(A)], vec!["beat 10.3.0.1:1 with 1".to_owned()])
    );
    assert_eq!(
        (bench.armed(timer(A)), beats.readiness(&addr(A), 0)),
        (None, Err(HoldReason::NoBrokerAddress))
    );
    beats.on_acknowledged(&mut bench.at(20), &addr(A), 1);
    beats.on_failed(&mut bench.at(20), &addr(A), &CallError::Closed);
    beats.on_link_down(&mut bench.at(20), &addr(A));
    assert_eq!(
        (bench.wishes(), known(&beats)),
        (vec![], vec![]),
        "what comes late is nobody's"
    );
    beats.on_acknowledged(&mut bench.at(20), &addr(B), 1);
    assert_eq!(bench.wishes(), ["c ready, new"], "an address can change its name");
}

#[test]
fn a_broker_that_forgot_us_is_told_at_once() {
    let (mut beats, mut bench) = telling();
    for at in [A, B] {
        beats.on_acknowledged(&mut bench.at(0), &addr(at), 1);
    }
    bench.wishes();
    beats.tell_again(&mut bench.at(10), &"b".into());
    assert_eq!(
        (bench.wishes(), bench.armed(timer(B))),
        (vec![format!("beat {B} with 1")], Some(30_010))
    );
}

#[test]
fn nothing_is_told_without_a_group_and_after_the_end() {
    let mut beats = Heartbeats::new(&ClientConfig::new(ClientId::from("me"), vec![addr(A)]));
    let mut bench = Bench::new();
    beats.set_addresses(&mut bench.at(0), addresses(&[(A, "a")]));
    assert_eq!((bench.wishes(), bench.armed(timer(A))), (vec![], None));
    let (mut beats, mut bench) = telling();
    beats.stop(&mut bench.at(10));
    beats.on_acknowledged(&mut bench.at(10), &addr(A), 1);
    bench.wishes();
    for at in [A, B] {
        beats.on_timer(&mut bench.at(40_000), &addr(at));
        beats.on_link_down(&mut bench.at(40_000), &addr(at));
    }
    assert_eq!(
        (bench.wishes(), bench.armed(timer(A))),
        (Vec::<String>::new(), None)
    );
}

#[test]
fn a_broker_may_list_our_former_connection_for_130_s() {
    let (mut beats, _) = telling();
    let at = Instant::from_millis;
    assert!(!beats.may_be_listed_twice(at(0)));
    beats.redialled(at(1_000));
    assert!(beats.may_be_listed_twice(at(130_999)) && !beats.may_be_listed_twice(at(131_000)));
}

/// While the client leaves, a link that is down fails a request within the event that makes it.
#[test]
fn a_link_that_cannot_be_made_is_not_asked_for_again_within_the_same_event() {
    let (mut beats, mut bench) = telling();
    beats.on_failed(&mut bench.at(3_000), &addr(A), &CallError::Connect(addr(A)));
    assert_eq!((bench.wishes(), bench.armed(timer(A))), (vec![], Some(3_100)));
    beats.on_timer(&mut bench.at(3_100), &addr(A));
    assert_eq!(bench.wishes(), [format!("beat {A} with 1")]);
}
