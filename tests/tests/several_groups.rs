//! Several groups on one client: what they share, and that one never disturbs another.

use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::action::{AppAction, CallError, RefusalReason};
use rocketmq_consumer_core::config::{GroupConfig, StartAt};
use rocketmq_consumer_core::event::{AppEvent, Call, Target, Verdict};
use rocketmq_consumer_core::ids::{CallId, ConsumerGroup};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::frame::HeaderForm;
use rocketmq_consumer_core::wire::request::encode_request;
use rocketmq_consumer_core::wire::request::heartbeat::{
    HeartbeatAnswer, HeartbeatRequest, UnregisterRequest,
};
use rocketmq_consumer_core::wire::request::members::MembersChanged;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_core::wire::request::route::RouteRequest;
use rocketmq_consumer_testing::world::{Asked, Bench, address, ms, secs};

const BEAT: RequestCode = RequestCode::HEART_BEAT;
const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const FAREWELL: RequestCode = RequestCode::UNREGISTER_CLIENT;

fn group(name: &str, topic: &str) -> AppEvent {
    let mut config = GroupConfig::new(name.into());
    config
        .set_start_at(StartAt::Earliest)
        .subscribe(topic.into(), "*");
    AppEvent::StartGroup(Arc::new(config))
}

fn stop(name: &str, drain: Duration) -> AppEvent {
    AppEvent::StopGroup {
        group: name.into(),
        drain,
    }
}

/// A client with the groups `G` and `H`, each of which owns the only queue of `T` and has a pull out.
fn two_groups() -> Bench {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    bench.tell(group("H", "T"));
    bench.sleep(ms(100));
    assert_eq!(pulling(&bench), ["G", "H"]);
    bench
}

/// The groups whose pulls of `T` wait for an answer.
fn pulling(bench: &Bench) -> Vec<String> {
    let pulls = bench.outstanding(PULL).into_iter();
    let pulls = pulls.map(Asked::request::<PullRequest>);
    let mut groups: Vec<String> = pulls
        .filter(|pull| pull.topic.as_str() == "T")
        .map(|pull| pull.group.to_string())
        .collect();
    groups.sort_unstable();
    groups
}

/// Takes the pull of `T` that waits for a group.
fn pull_of(bench: &mut Bench, group: &str) -> Asked {
    let (mut others, mut found) = (Vec::new(), None);
    for asked in bench.drop_requests(PULL) {
        let pull: PullRequest = asked.request();
        if found.is_none() && pull.topic.as_str() == "T" && pull.group.as_str() == group {
            found = Some(asked);
        } else {
            others.push(asked);
        }
    }
    bench.put_back(others);
    found.expect("it pulls")
}

/// The groups that each heartbeat named, from this one on.
fn named(bench: &Bench, from: usize) -> Vec<Vec<String>> {
    let beats = bench.sent(BEAT).into_iter().skip(from);
    let groups = |beat: &Asked| {
        let beat: HeartbeatRequest = beat.request();
        beat.consumers.iter().map(|data| data.group.to_string()).collect()
    };
    beats.map(groups).collect()
}

/// The groups of which brokers were told that they have left.
fn farewells(bench: &Bench) -> Vec<String> {
    let said = bench.sent(FAREWELL).into_iter();
    let said = said.map(Asked::request::<UnregisterRequest>);
    said.filter_map(|said| said.consumer_group)
        .map(|group| group.to_string())
        .collect()
}

fn commits(bench: &Bench) -> Vec<(String, i64)> {
    let sent = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET).into_iter();
    let sent = sent.map(Asked::request::<CommitOffsetRequest>);
    sent.map(|commit| (commit.group.to_string(), commit.offset.0))
        .collect()
}

fn stopped(bench: &Bench, name: &str) -> usize {
    let is_it = |action: &&AppAction| matches!(action, AppAction::GroupStopped { group, .. } if group.as_str() == name);
    bench.told().iter().filter(is_it).count()
}

fn refusals(bench: &Bench) -> Vec<RefusalReason> {
    let told = bench.told().iter();
    told.filter_map(|action| {
        let AppAction::Refused(refusal) = action else {
            return None;
        };
        Some(refusal.why.clone())
    })
    .collect()
}

fn running(bench: &Bench) -> Vec<ConsumerGroup> {
    bench
        .status()
        .groups
        .into_iter()
        .map(|group| group.group)
        .collect()
}

#[test]
fn they_share_connections_routes_and_heartbeats() {
    let mut bench = two_groups();
    let routes = |bench: &Bench| {
        let asked = bench.sent(RequestCode::GET_ROUTEINFO_BY_TOPIC);
        asked
            .iter()
            .filter(|asked| asked.request::<RouteRequest>().topic.as_str() == "T")
            .count()
    };
    assert_eq!(routes(&bench), 1, "the second group found the route there");
    assert_eq!(bench.dialled().len(), 2, "a name server and a broker");
    let before = bench.sent(BEAT).len();
    bench.idle(secs(60));
    assert_eq!(
        named(&bench, before),
        [["G", "H"], ["G", "H"]],
        "one heartbeat for both"
    );
    assert_eq!(bench.dialled().len(), 2);
}

#[test]
fn a_group_that_stops_leaves_the_other_alone_and_can_start_again() {
    let mut bench = two_groups();
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..3, 0, 3);
    let run = bench.take_runs().remove(0);
    bench.tell(stop("H", secs(5)));
    assert_eq!(
        (farewells(&bench), stopped(&bench, "H")),
        (vec!["H".to_owned()], 1)
    );
    assert_eq!(running(&bench), ["G".into()]);
    bench.done(&run);
    bench.sleep(secs(6));
    assert_eq!(commits(&bench), [("G".to_owned(), 3)], "G goes on");
    let before = bench.sent(BEAT).len();
    bench.idle(secs(31));
    assert!(!named(&bench, before).is_empty());
    assert!(named(&bench, before).iter().all(|groups| groups == &["G"]));
    bench.tell(group("H", "T"));
    bench.sleep(ms(100));
    assert!(pulling(&bench).contains(&"H".to_owned()));
    assert_eq!(bench.dialled().len(), 2);
}

#[test]
fn one_name_runs_once() {
    let mut bench = two_groups();
    bench.tell(group("H", "T"));
    assert_eq!(refusals(&bench), [RefusalReason::AlreadyRegistered]);
    assert_eq!(running(&bench), ["G".into(), "H".into()]);
}

#[test]
fn a_client_holds_as_many_groups_as_it_may() {
    let mut bench = Bench::owning_one_queue(0, |client, _| {
        client.set_groups_max(2);
    });
    for name in ["H", "I"] {
        bench.tell(group(name, "T"));
    }
    assert_eq!(refusals(&bench), [RefusalReason::TooManyGroups { most: 2 }]);
    assert_eq!(running(&bench), ["G".into(), "H".into()]);
    bench.tell(stop("H", secs(0)));
    bench.tell(group("I", "T"));
    assert_eq!(running(&bench), ["G".into(), "I".into()]);
}

#[test]
fn a_group_whose_topic_nobody_knows_and_one_that_hangs_disturb_nobody() {
    let mut bench = two_groups();
    bench.tell(group("X", "nowhere"));
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.group, "G".into());
    bench.found_at(&pull, 0..40, 0, 40);
    // The handlers of G hang: its permits are out and stay out.
    assert_eq!(
        bench
            .take_runs()
            .iter()
            .map(|run| run.offsets().len())
            .sum::<usize>(),
        20
    );
    bench.tell(stop("G", secs(3600)));
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.group, "H".into());
    bench.found_at(&pull, 0..3, 0, 3);
    let runs = bench.take_runs();
    assert_eq!(runs.len(), 1);
    bench.done(&runs[0]);
    assert!(pulling(&bench).contains(&"H".to_owned()), "it pulls on");
    bench.tell(stop("H", secs(1)));
    bench.tell(stop("X", secs(1)));
    assert_eq!(
        (stopped(&bench, "H"), stopped(&bench, "X"), stopped(&bench, "G")),
        (1, 1, 0)
    );
    assert_eq!(running(&bench), ["G".into()]);
}

#[test]
fn a_farewell_waits_for_the_heartbeat_that_is_under_way() {
    for lost in [false, true] {
        let mut bench = two_groups();
        bench.withhold(BEAT);
        bench.sleep(secs(30));
        let beat = bench.expect_request(BEAT);
        bench.tell(stop("H", secs(0)));
        assert!(farewells(&bench).is_empty() && stopped(&bench, "H") == 0);
        if lost {
            bench.serve(BEAT);
            bench.close(beat.link.conn);
            assert!(
                farewells(&bench).is_empty(),
                "the membership is gone with its connection"
            );
        } else {
            bench.answer(&beat, &HeartbeatAnswer::default());
            assert_eq!(farewells(&bench), ["H"]);
        }
        assert_eq!(stopped(&bench, "H"), 1);
        let later = named(&bench, 0).len();
        bench.serve(BEAT);
        bench.idle(secs(40));
        assert!(
            named(&bench, later).iter().all(|groups| groups == &["G"]),
            "{:?}",
            named(&bench, later)
        );
    }
}

#[test]
fn a_farewell_that_nobody_confirmed_is_said_again_after_the_next_heartbeat() {
    for again in [false, true] {
        let mut bench = two_groups();
        bench.withhold(FAREWELL);
        bench.tell(stop("H", secs(0)));
        bench.idle(ms(2_999));
        assert_eq!((farewells(&bench).len(), stopped(&bench, "H")), (1, 0));
        bench.idle(ms(2));
        // Nobody is waited for any longer. The heartbeat without the group goes out, and is answered.
        assert_eq!((farewells(&bench).len(), stopped(&bench, "H")), (2, 1));
        if again {
            bench.tell(group("H", "T"));
        }
        bench.idle(secs(32));
        assert_eq!(
            farewells(&bench).len(),
            if again { 2 } else { 3 },
            "who is back has nothing to say"
        );
        bench.drop_requests(FAREWELL);
        bench.serve(FAREWELL);
        bench.idle(secs(30));
        let said = farewells(&bench).len();
        assert_eq!(said, if again { 2 } else { 4 });
        bench.idle(secs(95));
        assert_eq!(farewells(&bench).len(), said, "once it is confirmed that is all");
    }
}

#[test]
fn who_takes_us_for_a_member_of_a_group_that_left_is_told_again() {
    let mut bench = two_groups();
    bench.tell(stop("H", secs(0)));
    assert_eq!(farewells(&bench), ["H"]);
    let word = MembersChanged { group: "H".into() };
    let frame = encode_request(HeaderForm::Json, 0, true, &word).unwrap();
    let conn = bench.conn_to(&address("a"));
    bench.receive(conn, frame);
    assert_eq!(farewells(&bench), ["H", "H"]);
    // Nobody makes us remember more than so many strange names.
    bench.withhold(FAREWELL);
    for number in 0..1_000 {
        let word = MembersChanged {
            group: format!("S{number}").into(),
        };
        bench.receive(conn, encode_request(HeaderForm::Json, 0, true, &word).unwrap());
    }
    assert_eq!(bench.outstanding(FAREWELL).len(), 256);
}

#[test]
fn a_call_outlives_the_last_group() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let call = Call {
        id: CallId(7),
        to: Target::Address(address("a")),
        code: 203,
        fields: [].into(),
        body: bytes::Bytes::new(),
        timeout: secs(3),
    };
    bench.tell(AppEvent::Call(Box::new(call)));
    bench.tell(stop("G", secs(0)));
    assert_eq!(stopped(&bench, "G"), 1);
    let asked = bench.expect_request(RequestCode(203));
    bench.refuse(&asked, ResponseCode::SYSTEM_ERROR, "");
    let answers = bench.told().iter().filter_map(|action| {
        let AppAction::Answer { result, .. } = action else {
            return None;
        };
        Some(result.as_ref().as_ref().map(|answer| answer.code))
    });
    assert_eq!(answers.collect::<Vec<_>>(), [Ok::<_, &CallError>(1)]);
}

#[test]
fn a_busy_group_does_not_starve_the_other() {
    let mut bench = two_groups();
    for round in 0..30 {
        // One group's handlers are all busy, and more waits for them with every answer.
        let busy = pull_of(&mut bench, "G");
        bench.found_at(&busy, round * 32..(round + 1) * 32, 0, (round + 1) * 32);
        let runs = bench.take_runs();
        assert_eq!(runs.is_empty(), round > 0, "round {round}");
        // What comes for the other one is handed over in the step that brings it.
        let quiet = pull_of(&mut bench, "H");
        bench.found_at(&quiet, [round], 0, round + 1);
        let runs = bench.take_runs();
        assert_eq!((runs.len(), runs[0].offsets()), (1, vec![round]));
        bench.report(&runs[0], Verdict::Handled(Outcome::Done));
    }
}

#[test]
fn a_heartbeat_after_the_farewell_does_not_name_who_has_left() {
    let mut bench = two_groups();
    bench.withhold(FAREWELL);
    bench.tell(stop("H", secs(0)));
    assert_eq!(
        (farewells(&bench).len(), stopped(&bench, "H")),
        (1, 0),
        "said, not confirmed"
    );
    let before = bench.sent(BEAT).len();
    bench.tell(group("I", "T"));
    assert_eq!(named(&bench, before), [["G", "I"]]);
}
