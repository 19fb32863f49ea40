//! Routes by their behaviour: who is asked, when again, and what an answer changes.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::vec;

use super::*;
use crate::consumer::bench::Bench;
use crate::ids::ClientId;
use crate::wire::request::route::{BrokerData, QueueData};

const NS: [&str; 2] = ["10.0.0.1:9876", "10.0.0.2:9876"];
const NOTHING: [&str; 0] = [];

fn addr(text: &str) -> PeerAddr {
    text.parse().unwrap()
}

fn topic(name: &str) -> Topic {
    name.into()
}

fn timer(name: &str) -> TimerKey {
    TimerKey::Route(topic(name))
}

/// Routes over that many name servers, and topics that have been asked for.
fn watching(servers: usize, topics: &[&str]) -> (Routes, Bench) {
    let servers = NS.iter().take(servers).map(|text| addr(text)).collect();
    let mut routes = Routes::new(&ClientConfig::new(ClientId::from("me"), servers));
    let mut bench = Bench::new();
    for name in topics {
        routes.watch(&mut bench.at(0), &topic(name));
    }
    bench.wishes();
    (routes, bench)
}

/// A broker: its name, its queues, its permissions, its replicas.
type Broker<'a> = (&'a str, u32, i32, &'a [(i64, &'a str)]);

const READ_WRITE: i32 = 6;
const WRITE_ONLY: i32 = 2;
const ALPHA: Broker<'_> = (
    "alpha",
    2,
    READ_WRITE,
    &[(0, "10.1.0.1:10911"), (1, "10.1.0.2:10911")],
);
const BETA: Broker<'_> = ("beta", 1, READ_WRITE, &[(0, "10.2.0.1:10911")]);

fn route(brokers: &[Broker<'_>]) -> TopicRoute {
    let queues = brokers.iter().map(|(name, queues, perm, _)| QueueData {
        broker: (*name).into(),
        read_queues: *queues,
        write_queues: *queues,
        perm: *perm,
        topic_sys_flag: 0,
    });
    let addresses = brokers.iter().map(|(name, _, _, replicas)| BrokerData {
        cluster: String::new(),
        name: (*name).into(),
        addresses: replicas
            .iter()
            .map(|(id, addr)| (*id, (*addr).to_owned()))
            .collect(),
        zone_name: None,
        enable_acting_master: false,
    });
    TopicRoute {
        queues: queues.collect(),
        brokers: addresses.collect(),
        ..TopicRoute::default()
    }
}

fn connect_error() -> CallError {
    CallError::Connect(addr(NS[0]))
}

// ---- when ---------------------------------------------------------------------------------------

#[test]
fn a_topic_is_asked_when_it_is_first_watched_and_once_at_a_time() {
    let (mut routes, mut bench) = watching(1, &[]);
    for _ in 0..2 {
        routes.watch(&mut bench.at(0), &topic("T"));
        routes.on_timer(&mut bench.at(0), &topic("T"));
    }
    assert_eq!(bench.wishes(), ["ask NameServer for Route(\"T\")"]);
    routes.on_route(&mut bench.at(5), &topic("T"), &route(&[ALPHA]));
    assert_eq!(
        (bench.wishes(), bench.armed(timer("T"))),
        (vec!["route T".into()], Some(30_005))
    );
    routes.on_timer(&mut bench.at(30_005), &topic("T"));
    assert_eq!(bench.wishes(), ["ask NameServer for Route(\"T\")"]);
    routes.on_route(&mut bench.at(30_006), &topic("T"), &route(&[ALPHA]));
    assert_eq!(bench.wishes(), NOTHING, "nothing has changed");
}

/// Two name servers that do not agree, or an answer from before a broker moved.
#[test]
fn a_route_that_contradicts_the_last_word_on_a_broker_is_a_change() {
    let (mut routes, mut bench) = watching(1, &["T", "R"]);
    let elsewhere: Broker<'_> = ("beta", 1, READ_WRITE, &[(0, "10.9.0.9:10911")]);
    for (at, name, broker) in [(0, "T", BETA), (1, "R", elsewhere), (2, "T", BETA)] {
        routes.on_route(&mut bench.at(at), &topic(name), &route(&[broker]));
        assert_eq!(bench.wishes(), [format!("route {name}")], "at {at}");
        let master = routes.address(&"beta".into(), Replica::Master);
        assert_eq!(master, Some(&addr(broker.3[0].1)), "at {at}");
    }
    routes.on_route(&mut bench.at(3), &topic("T"), &route(&[BETA]));
    assert_eq!(bench.wishes(), NOTHING, "nothing has changed");
}

#[test]
fn an_unknown_topic_is_urgent_for_two_minutes_and_then_every_five_seconds() {
    let (mut routes, mut bench) = watching(1, &["T"]);
    for (at, pause) in [(0, 1_000), (119_999, 1_000), (120_000, 5_000), (600_000, 5_000)] {
        routes.on_unknown(&mut bench.at(at), &topic("T"), "no".into(), false);
        assert_eq!(bench.armed(timer("T")), Some(at + pause), "at {at}");
        routes.on_timer(&mut bench.at(at), &topic("T"));
    }
    routes.on_route(&mut bench.at(700_000), &topic("T"), &route(&[ALPHA]));
    assert_eq!(bench.armed(timer("T")), Some(730_000), "found");
    routes.on_timer(&mut bench.at(730_000), &topic("T"));
    routes.on_unknown(&mut bench.at(730_000), &topic("T"), "no".into(), false);
    assert_eq!(
        bench.armed(timer("T")),
        Some(731_000),
        "its two minutes begin again"
    );
    assert_eq!(
        routes.queues(&topic("T")).map(|q| q.len()),
        Some(2),
        "unknown is not gone"
    );
}

#[test]
fn a_route_is_urgent_while_something_is_missing() {
    for (what, brokers, queues, pause) in [
        ("everything is there", &[ALPHA, BETA][..], 3, 30_000),
        ("a broker was lost", &[ALPHA], 2, 1_000),
        ("no queue is left", &[], 0, 1_000),
        (
            "no queue may be read",
            &[("alpha", 2, WRITE_ONLY, ALPHA.3), ("beta", 1, 0, BETA.3)],
            0,
            1_000,
        ),
    ] {
        let (mut routes, mut bench) = watching(1, &["T"]);
        routes.on_route(&mut bench.at(0), &topic("T"), &route(&[ALPHA, BETA]));
        bench.wishes();
        routes.on_timer(&mut bench.at(30_000), &topic("T"));
        bench.wishes();
        routes.on_route(&mut bench.at(30_000), &topic("T"), &route(brokers));
        assert_eq!(
            routes.queues(&topic("T")).map(|q| q.len()),
            Some(queues),
            "{what}"
        );
        assert_eq!(bench.armed(timer("T")), Some(30_000 + pause), "{what}");
        let told = bench.wishes();
        assert_eq!(
            told.contains(&"route T".to_owned()),
            queues != 3,
            "{what}: {told:?}"
        );
        let empty = "notice TopicHasNoQueues { topic: \"T\" }".to_owned();
        assert_eq!(told.contains(&empty), queues == 0, "{what}: {told:?}");
    }
}

#[test]
fn a_lost_broker_that_is_back_ends_the_urgency() {
    let (mut routes, mut bench) = watching(1, &["T"]);
    for (at, brokers, pause) in [
        (0, &[ALPHA, BETA][..], 30_000),
        (10, &[ALPHA], 1_000),
        (20, &[ALPHA], 1_000),
        (30, &[BETA, ALPHA], 30_000),
    ] {
        routes.on_timer(&mut bench.at(at), &topic("T"));
        routes.on_route(&mut bench.at(at), &topic("T"), &route(brokers));
        assert_eq!(bench.armed(timer("T")), Some(at + pause), "at {at}");
        let lost = (pause == 1_000).then_some("beta".into());
        let lost: Vec<BrokerName> = lost.into_iter().collect();
        assert_eq!(routes.status()[0].lost_brokers, lost, "at {at}");
    }
}

#[test]
fn a_broken_link_makes_its_topics_urgent_until_it_stands_again() {
    let (mut routes, mut bench) = watching(1, &["T", "U"]);
    routes.on_route(&mut bench.at(0), &topic("T"), &route(&[ALPHA]));
    routes.on_route(&mut bench.at(0), &topic("U"), &route(&[BETA]));
    routes.link_failed(&mut bench.at(7_000), &addr("10.1.0.2:10911"));
    let both = |bench: &Bench| (bench.armed(timer("T")), bench.armed(timer("U")));
    assert_eq!(
        both(&bench),
        (Some(8_000), Some(30_000)),
        "the other topic is not concerned"
    );
    routes.link_failed(&mut bench.at(7_900), &addr("10.1.0.2:10911"));
    assert_eq!(both(&bench).0, Some(8_000), "a second failure puts nothing off");
    routes.on_timer(&mut bench.at(8_000), &topic("T"));
    routes.on_route(&mut bench.at(8_000), &topic("T"), &route(&[ALPHA]));
    assert_eq!(both(&bench).0, Some(9_000), "the same address is no news");
    routes.link_works(&addr("10.1.0.2:10911"));
    routes.on_timer(&mut bench.at(9_000), &topic("T"));
    routes.on_route(&mut bench.at(9_000), &topic("T"), &route(&[ALPHA]));
    assert_eq!(both(&bench).0, Some(39_000));
}

#[test]
fn a_suspect_route_is_asked_soon_and_no_later_than_it_was_due() {
    let (mut routes, mut bench) = watching(1, &["T"]);
    routes.on_route(&mut bench.at(0), &topic("T"), &route(&[ALPHA]));
    routes.suspect(&mut bench.at(10_000), &topic("T"));
    assert_eq!(bench.armed(timer("T")), Some(11_000));
    routes.suspect(&mut bench.at(10_500), &topic("T"));
    routes.suspect(&mut bench.at(10_600), &topic("unwatched"));
    assert_eq!(
        (bench.armed(timer("T")), bench.armed(timer("unwatched"))),
        (Some(11_000), None)
    );
}

#[test]
fn a_topic_nobody_uses_is_forgotten() {
    let (mut routes, mut bench) = watching(1, &["T", "U"]);
    routes.on_route(&mut bench.at(0), &topic("T"), &route(&[ALPHA]));
    routes.on_route(&mut bench.at(0), &topic("U"), &route(&[BETA]));
    routes.keep_only(&mut bench.at(1), &BTreeSet::from([topic("U")]));
    bench.wishes();
    routes.on_route(&mut bench.at(2), &topic("T"), &route(&[ALPHA]));
    assert_eq!(
        (
            bench.wishes(),
            bench.armed(timer("T")),
            routes.queues(&topic("T"))
        ),
        (vec![], None, None)
    );
    assert_eq!(
        routes.addresses(),
        BTreeMap::from([(addr(BETA.3[0].1), "beta".into())])
    );
}

// ---- who ----------------------------------------------------------------------------------------

#[test]
fn what_a_failure_means_for_the_next_question() {
    for (what, servers, error, turn, asked_again_at) in [
        ("the only server, out of reach", 1, connect_error(), 0, Some(150)),
        ("the only server, silent", 1, CallError::Timeout, 0, Some(1_050)),
        ("one of two, out of reach", 2, connect_error(), 1, None),
        ("one of two, silent", 2, CallError::Timeout, 1, Some(1_050)),
        ("one of two, gone", 2, CallError::Closed, 1, Some(1_050)),
    ] {
        let (mut routes, mut bench) = watching(servers, &["T"]);
        routes.on_failed(&mut bench.at(50), &topic("T"), &error);
        let (server, another) = routes.server().unwrap();
        assert_eq!((server, another), (&addr(NS[turn]), servers > 1), "{what}");
        let asked_at_once = asked_again_at.is_none();
        assert_eq!(bench.wishes().len(), usize::from(asked_at_once), "{what}");
        assert_eq!(bench.armed(timer("T")), asked_again_at, "{what}");
    }
}

#[test]
fn when_no_server_can_be_reached_everybody_is_asked_once_and_then_there_is_a_pause() {
    let (mut routes, mut bench) = watching(2, &["T"]);
    for round in 0..3 {
        let at = round * 1_000;
        routes.on_failed(&mut bench.at(at), &topic("T"), &connect_error());
        assert_eq!(bench.wishes().len(), 1, "the second one");
        routes.on_failed(&mut bench.at(at), &topic("T"), &connect_error());
        assert_eq!(
            (bench.wishes().len(), bench.armed(timer("T"))),
            (0, Some(at + 1_000))
        );
        routes.on_timer(&mut bench.at(at + 1_000), &topic("T"));
        assert_eq!(bench.wishes().len(), 1);
    }
}

#[test]
fn new_servers_replace_the_old_ones() {
    let (mut routes, _) = watching(2, &[]);
    let gone = routes.set_servers(&[addr(NS[1]), addr("10.0.0.3:9876")]);
    assert_eq!(gone, [addr(NS[0])]);
    assert_eq!(routes.server(), Some((&addr(NS[1]), true)));
    assert!(routes.is_name_server(&addr("10.0.0.3:9876")) && !routes.is_name_server(&addr(NS[0])));
}

#[test]
fn an_unknown_topic_is_told_once_every_server_was_asked() {
    for (servers, expected, told) in [(1, false, vec![1]), (2, false, vec![0, 1]), (2, true, vec![0, 0])] {
        let (mut routes, mut bench) = watching(servers, &["T"]);
        for count in told {
            routes.on_unknown(&mut bench.at(0), &topic("T"), "unheard of".into(), expected);
            let notices = bench.wishes();
            assert_eq!(notices.len(), count, "{servers} servers, {notices:?}");
            if count > 0 {
                let answers: Vec<_> = NS
                    .iter()
                    .take(servers)
                    .map(|ns| (addr(ns), "unheard of"))
                    .collect();
                let notice = format!("notice TopicUnknown {{ topic: \"T\", answers: {answers:?} }}");
                assert_eq!(notices, [notice]);
            }
            routes.on_timer(&mut bench.at(1_000), &topic("T"));
            bench.wishes();
        }
        assert_eq!(routes.status()[0].refusals.len(), servers);
        routes.on_route(&mut bench.at(2_000), &topic("T"), &route(&[ALPHA]));
        assert_eq!(routes.status()[0].refusals, [], "one that knows it is enough");
    }
}

#[test]
fn a_server_that_gives_no_answer_keeps_nobody_from_being_told_that_a_topic_is_unknown() {
    let (mut routes, mut bench) = watching(2, &["T"]);
    routes.on_failed(&mut bench.at(0), &topic("T"), &connect_error());
    bench.wishes();
    routes.on_unknown(&mut bench.at(1), &topic("T"), "unheard of".into(), false);
    let answers = [(addr(NS[1]), "unheard of")];
    let notice = format!("notice TopicUnknown {{ topic: \"T\", answers: {answers:?} }}");
    assert_eq!(bench.wishes(), [notice]);
    // It answers now, and knows the topic: nothing is left of its silence.
    routes.on_timer(&mut bench.at(1_001), &topic("T"));
    routes.on_route(&mut bench.at(1_001), &topic("T"), &route(&[ALPHA]));
    bench.wishes();
    routes.on_timer(&mut bench.at(31_001), &topic("T"));
    bench.wishes();
    routes.on_unknown(&mut bench.at(31_001), &topic("T"), "unheard of".into(), false);
    assert_eq!(bench.wishes(), [""; 0], "the other one was not asked yet");
}

// ---- where --------------------------------------------------------------------------------------

#[test]
fn replicas_are_found_by_their_ids() {
    use Replica::{Exactly, Master};
    let replicas = [(0, "nonsense"), (1, "10.1.0.2:10911")];
    let (mut routes, mut bench) = watching(1, &["T"]);
    let named = route(&[("alpha", 1, READ_WRITE, &replicas), BETA]);
    routes.on_route(&mut bench.at(0), &topic("T"), &named);
    for (broker, replica, found) in [
        ("alpha", Master, None),
        ("alpha", Exactly(1), Some("10.1.0.2:10911")),
        ("alpha", Exactly(2), None),
        ("beta", Master, Some("10.2.0.1:10911")),
        ("gamma", Master, None),
    ] {
        let found = found.map(addr);
        assert_eq!(
            routes.address(&broker.into(), replica),
            found.as_ref(),
            "{replica:?} of {broker}"
        );
    }
    let ids: Vec<i64> = routes
        .replicas(&"alpha".into())
        .into_iter()
        .flat_map(BTreeMap::keys)
        .copied()
        .collect();
    assert_eq!(ids, [1]);
}

#[test]
fn queues_are_sorted_and_only_the_readable_ones() {
    let (mut routes, mut bench) = watching(1, &["T"]);
    let write_only = ("aaa", 3, WRITE_ONLY, BETA.3);
    routes.on_route(
        &mut bench.at(0),
        &topic("T"),
        &route(&[BETA, write_only, ALPHA, BETA]),
    );
    let queues: Vec<String> = routes
        .queues(&topic("T"))
        .unwrap()
        .iter()
        .map(|q| format!("{q}"))
        .collect();
    assert_eq!(queues, ["T/alpha/0", "T/alpha/1", "T/beta/0"]);
    let brokers: Vec<&str> = routes.brokers_of(&topic("T")).map(BrokerName::as_str).collect();
    assert_eq!(brokers, ["aaa", "alpha", "beta"]);
}

// ---- several topics and one turn -----------------------------------------------------------------

/// A group always asks for two topics, its own and its retry topic.
#[test]
fn two_topics_that_fail_together_pass_the_turn_once() {
    for error in [CallError::Timeout, connect_error()] {
        let (mut routes, mut bench) = watching(2, &["T", "%RETRY%g"]);
        routes.on_failed(&mut bench.at(0), &topic("T"), &error);
        routes.on_failed(&mut bench.at(0), &topic("%RETRY%g"), &error);
        assert_eq!(routes.server().unwrap().0, &addr(NS[1]), "after {error}");
    }
    let (mut routes, mut bench) = watching(2, &["T", "%RETRY%g"]);
    routes.on_unknown(&mut bench.at(0), &topic("T"), "no".into(), false);
    assert_eq!(routes.asked(&topic("%RETRY%g")), Some(&addr(NS[0])));
    routes.on_unknown(&mut bench.at(0), &topic("%RETRY%g"), "no".into(), true);
    assert_eq!(routes.server().unwrap().0, &addr(NS[1]), "after an unknown topic");
}
