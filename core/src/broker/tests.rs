//! The cluster as a whole, over its wire.

use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::BrokerState;
use super::bench::*;
use super::config::{ClusterConfig, TopicConfig};
use super::event::{BrokerAction, BrokerEvent, Control, NewMessage, ServerEvent};
use super::observation::Observation;
use super::rule::{Effect, Nth, Rule};
use crate::ids::{ConnId, PeerAddr, QueueOffset};
use crate::step::Seed;
use crate::time::Instant;
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::{Command, FLAG_ONEWAY, Header, Language, VERSION};
use crate::wire::frame::{Frame, HeaderForm};
use crate::wire::request::offsets::{CommitOffsetRequest, MaxOffsetRequest};
use crate::wire::request::pull::{PullRequest, PullStatus};
use crate::wire::request::topics::DeleteTopicRequest;
use crate::wire::request::{self, Request, decode_answer};

const SECOND: Duration = Duration::from_secs(1);
const BEAT: RequestCode = RequestCode::HEART_BEAT;

fn ruled(effect: Effect) -> Bench {
    let mut bench = Bench::new();
    bench.control(Control::AddRule(Rule::on(BEAT, effect)));
    bench
}

fn members(bench: &Bench) -> usize {
    bench.state.members(&broker(), &"G".into()).count()
}

/// The codes of the answers that have come to a connection.
fn answers(bench: &mut Bench, conn: ConnId) -> Vec<i32> {
    let codes = bench.frames(conn).into_iter().filter_map(|frame| {
        let header = Header::of(&frame).expect("a header");
        header.is_response().then_some(header.code)
    });
    codes.collect()
}

#[test]
fn each_effect_of_a_rule() {
    let later = 3 * SECOND;
    // Answers at once, members at once, answers later, members later.
    for (effect, want) in [
        (Effect::Pass, (1, 1, 0, 1)),
        (
            Effect::Fail {
                code: ResponseCode::SYSTEM_BUSY,
                remark: "no".into(),
            },
            (1, 0, 0, 0),
        ),
        (Effect::Delay(later), (0, 0, 1, 1)),
        (Effect::DelayAnswer(later), (0, 1, 1, 1)),
        (Effect::Drop, (0, 0, 0, 0)),
        (Effect::LoseAnswer, (0, 1, 0, 1)),
        (Effect::Twice, (1, 1, 0, 1)),
        (Effect::Close, (0, 0, 0, 0)),
        (
            Effect::Reply {
                code: ResponseCode(77),
                body: Bytes::new(),
            },
            (1, 0, 0, 0),
        ),
    ] {
        let closes = effect == Effect::Close;
        let name = alloc::format!("{effect:?}");
        let mut bench = ruled(effect);
        let conn = bench.client();
        bench.send(conn, &heartbeat("a@1"));
        let at_once = (answers(&mut bench, conn).len(), members(&bench));
        bench.pass(later - Duration::from_micros(1));
        assert_eq!(
            (answers(&mut bench, conn).len(), members(&bench)),
            (0, at_once.1),
            "{name}"
        );
        bench.pass(Duration::from_micros(1));
        let afterwards = (answers(&mut bench, conn).len(), members(&bench));
        assert_eq!((at_once.0, at_once.1, afterwards.0, afterwards.1), want, "{name}");
        assert_eq!(bench.closed.len(), usize::from(closes), "{name}");
    }
}

#[test]
fn what_a_rule_answers_is_what_comes() {
    for (effect, code) in [
        (
            Effect::Fail {
                code: ResponseCode(2),
                remark: "no".into(),
            },
            2,
        ),
        (
            Effect::Reply {
                code: ResponseCode(77),
                body: Bytes::from_static(b"body"),
            },
            77,
        ),
    ] {
        let mut bench = ruled(effect);
        let conn = bench.client();
        bench.send(conn, &heartbeat("a@1"));
        let frames = bench.frames(conn);
        let header = Header::of(&frames[0]).expect("a header");
        assert_eq!(header.code, code);
        assert_eq!(header.remark.as_deref() == Some("no"), code == 2);
        assert_eq!(&frames[0].body[..] == b"body", code == 77);
    }
}

#[test]
fn a_request_that_is_carried_out_twice_leaves_two_marks() {
    let mut bench = Bench::new();
    bench.control(Control::AddRule(Rule::on(
        RequestCode::SEND_MESSAGE_V2,
        Effect::Twice,
    )));
    let conn = bench.client();
    bench.do_it(conn, &send_to("T", ""));
    assert_eq!(bench.state.max_offset(&queue(0)).0, 2);
}

#[test]
fn the_answer_of_a_pull_that_waited_has_the_fate_its_rule_decided() {
    for (effect, comes) in [
        (Effect::LoseAnswer, None),
        (Effect::DelayAnswer(2 * SECOND), Some(2)),
        (Effect::Pass, Some(0)),
    ] {
        let mut bench = Bench::new();
        let conn = bench.client();
        bench.do_it(conn, &heartbeat("a@1"));
        bench.control(Control::AddRule(Rule::on(
            RequestCode::PULL_MESSAGE,
            effect.clone(),
        )));
        bench.pushed();
        bench.send(conn, &long_pull(0, 15 * SECOND));
        bench.store(&["A"]);
        for second in 0..4 {
            let got = answers(&mut bench, conn).len();
            assert_eq!(got, usize::from(comes == Some(second)), "{effect:?} {second}");
            bench.pass(SECOND);
        }
    }
}

#[test]
fn what_brokers_ask_falls_under_rules_too() {
    for (effect, at_once, later) in [
        (Effect::Drop, 0, 0),
        (Effect::Twice, 2, 0),
        (Effect::Delay(SECOND), 0, 1),
        (Effect::Close, 0, 0),
    ] {
        let mut bench = Bench::new();
        let conn = bench.client();
        let closes = usize::from(effect == Effect::Close);
        let rule = Rule::on(RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, effect.clone());
        bench.control(Control::AddRule(rule.nth(Nth::Only(1))));
        bench.send(conn, &heartbeat("a@1"));
        assert_eq!(bench.pushed().len(), at_once, "{effect:?}");
        bench.pass(SECOND);
        assert_eq!(
            (bench.pushed().len(), bench.closed.len()),
            (later, closes),
            "{effect:?}"
        );
    }
}

#[test]
fn rules_can_be_forgotten_and_have_a_limit() {
    let mut config = config();
    config.settings.rules_max = 1;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    bench.control(Control::AddRule(Rule::on(BEAT, Effect::Drop)));
    bench.control(Control::AddRule(Rule::on(
        RequestCode::PULL_MESSAGE,
        Effect::Drop,
    )));
    assert!(
        bench.ask(conn, &heartbeat("a@1")).is_ok(),
        "the oldest rule made room"
    );
    bench.pushed();
    bench.send(conn, &pull(0));
    assert_eq!(answers(&mut bench, conn).len(), 0);
    bench.control(Control::ClearRules);
    assert_eq!(bench.do_it(conn, &pull(0)).status, PullStatus::NotFound);
}

#[test]
fn what_is_held_back_has_a_limit_and_dies_with_its_connection() {
    let mut config = config();
    config.settings.delayed_max = 1;
    let mut bench = Bench::of(config);
    bench.control(Control::AddRule(Rule::on(BEAT, Effect::DelayAnswer(SECOND))));
    let (a, b) = (bench.client(), bench.client());
    bench.send(a, &heartbeat("a@1"));
    bench.send(b, &heartbeat("b@1"));
    assert_eq!(
        (answers(&mut bench, a).len(), answers(&mut bench, b).len()),
        (0, 1)
    );
    bench.hang_up(a);
    bench.pass(SECOND);
    assert_eq!(answers(&mut bench, a).len(), 0);
}

#[test]
fn a_node_that_is_down_or_unknown_closes_what_comes() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.control(Control::Stop(master()));
    assert_eq!(
        (bench.closed.as_slice(), bench.state.is_up(&master())),
        ([conn].as_slice(), false)
    );
    let refused = [bench.client(), bench.connect(&PeerAddr::new("nowhere", 1))];
    assert_eq!(bench.closed[1..], refused);
    bench.control(Control::Start(master()));
    let conn = bench.client();
    assert!(bench.ask(conn, &heartbeat("a@1")).is_ok());
    bench.control(Control::Disconnect(conn));
    assert_eq!((bench.closed.last(), members(&bench)), (Some(&conn), 0));
    assert_eq!(bench.state.connections(), 0);

    let conn = bench.connect(&name_server());
    bench.control(Control::Crash(name_server()));
    assert_eq!(bench.closed.last(), Some(&conn));
    bench.control(Control::Start(name_server()));
    let conn = bench.connect(&name_server());
    assert_eq!(bench.ask_raw(conn, 206, &()), 0);
}

#[test]
fn a_process_that_is_down_may_come_back_elsewhere() {
    let elsewhere = PeerAddr::new("10.0.0.77", 10911);
    let mut bench = Bench::new();
    let conn = bench.client();
    let commit = CommitOffsetRequest {
        group: "G".into(),
        queue: queue_ref("T", 0),
        offset: QueueOffset(3),
    };
    bench.do_it(conn, &heartbeat("a@1"));
    bench.do_it(conn, &commit);
    bench.control(Control::Stop(master()));
    for to in [name_server(), elsewhere.clone()] {
        bench.control(Control::Move { from: master(), to });
    }
    assert!(
        bench.state.route(&"T".into()).is_none(),
        "it does not run by being moved"
    );
    bench.control(Control::Start(elsewhere.clone()));
    let route = bench.state.route(&"T".into()).expect("it runs");
    assert_eq!(route.brokers[0].addresses, [(0, elsewhere.to_string())].into());
    let refused = bench.client();
    assert_eq!(
        bench.closed.last(),
        Some(&refused),
        "nobody listens there any more"
    );
    let conn = bench.connect(&elsewhere);
    assert!(bench.ask(conn, &heartbeat("a@1")).is_ok());
    assert_eq!(bench.committed("G"), Some(3), "its disk came along");
    bench.store(&[""]);
    let stored = bench
        .state
        .stored_at(&queue(0), QueueOffset(0))
        .expect("it was stored");
    assert_eq!(
        stored.record.store_host().to_string(),
        elsewhere.to_string(),
        "what comes now names it"
    );
}

#[test]
fn connections_have_a_limit() {
    let mut config = config();
    config.settings.connections_max = 1;
    let mut bench = Bench::of(config);
    let (first, second) = (bench.client(), bench.client());
    assert_eq!(bench.closed, [second]);
    bench.hang_up(first);
    let third = bench.client();
    assert!(bench.ask(third, &heartbeat("a@1")).is_ok());
}

#[test]
fn what_one_event_may_be_answered_has_a_limit() {
    let mut config = config();
    config.settings.event_bytes_max = 1_000;
    let mut bench = Bench::of(config);
    let (greedy, modest) = (bench.client(), bench.client());
    bench.do_it(modest, &heartbeat("a@1"));
    bench.store(&["A"; 20]);
    let ask =
        |opaque| request::encode_request(HeaderForm::Json, opaque, false, &pull(0)).expect("a small request");
    bench.receive(greedy, [ask(1), ask(2), ask(3)].concat().into());
    let given = bench.frames(greedy);
    assert_eq!(given.len(), 1, "one frame has no limit");
    assert!(given[0].body.len() > 1_000);
    assert_eq!(bench.closed, [greedy]);
    for _ in 0..2 {
        assert_eq!(bench.do_it(modest, &pull(0)).status, PullStatus::Found);
    }
}

#[test]
fn silence_counts_from_the_connection_and_not_from_the_beginning_of_time() {
    let mut bench = Bench::new();
    bench.now = Instant::ZERO;
    bench.state = BrokerState::new(config(), Seed(7), bench.now, WALL);
    let conn = bench.client();
    bench.pass(119 * SECOND);
    assert_eq!(bench.closed, []);
    bench.pass(SECOND);
    assert_eq!(bench.closed, [conn]);
}

#[test]
fn name_servers_do_not_keep_deleted_topics_without_end() {
    let mut config = config();
    config.settings.topics_max = 10;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    for number in 0..100 {
        let topic = TopicConfig::new(alloc::format!("t{number}").as_str().into(), 1);
        let delete = DeleteTopicRequest {
            topic: topic.name.clone(),
        };
        bench.control(Control::PutTopic(topic));
        assert!(bench.state.route(&delete.topic).is_some());
        bench.do_it(conn, &delete);
        assert!(bench.state.route(&delete.topic).is_some(), "it is not told");
    }
    assert!(bench.state.names.live.topics().len() <= 20);
    assert!(bench.state.route(&"T".into()).is_some());
}

#[test]
fn nobody_configures_the_topic_of_delayed_messages() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let topic = "SCHEDULE_TOPIC_XXXX";
    bench.control(Control::PutTopic(TopicConfig::new(topic.into(), 1)));
    assert_eq!(bench.state.route(&topic.into()), None);
    bench.control(Control::DeleteTopic(topic.into()));
    bench.do_it(conn, &send_to("T", "DELAY\u{1}2\u{2}"));
    bench.pass(5 * SECOND);
    assert_eq!(bench.state.max_offset(&queue(0)).0, 1);
}

#[test]
fn a_delay_of_nothing_is_none() {
    for effect in [Effect::Delay, Effect::DelayAnswer] {
        let mut bench = Bench::new();
        bench.control(Control::AddRule(Rule::on(
            RequestCode::PULL_MESSAGE,
            effect(Duration::from_nanos(999)),
        )));
        let conn = bench.client();
        bench.do_it(conn, &heartbeat("a@1"));
        let opaque = bench.send(conn, &long_pull(0, SECOND));
        assert_eq!(bench.state.held(), 1);
        // Each wake-up on the way has to leave nothing to do at once.
        bench.pass(5 * SECOND);
        assert!(bench.answer::<PullRequest>(opaque).is_some());
    }
}

#[test]
fn the_oldest_messages_make_room() {
    let mut config = config();
    config.settings.store_bytes_max = 500;
    let mut bench = Bench::of(config);
    bench.store(&["A"; 50]);
    assert!(bench.state.stored_bytes() <= 500);
    assert_eq!(bench.state.max_offset(&queue(0)).0, 50);
    let min = bench.state.min_offset(&queue(0)).0;
    assert!((40..50).contains(&min), "{min}");
    assert_eq!(
        bench.state.stored(&broker(), &"T".into(), queue(0).id).count() as i64,
        50 - min
    );
}

#[test]
fn bytes_that_are_no_frames_close_the_connection_and_nothing_behind_them_is_read() {
    let beat =
        request::encode_request(HeaderForm::Json, 1, false, &heartbeat("a@1")).expect("a small request");
    let header = |bytes: &[u8]| {
        let mut frame = [0, 0, 0, 0, 0, 0, 0, 0].to_vec();
        frame.extend_from_slice(bytes);
        let len = u8::try_from(bytes.len()).expect("short");
        (frame[3], frame[7]) = (len + 4, len);
        frame
    };
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        header(b"nonsense"),
        header(b"[]"),
    ] {
        let mut bench = Bench::new();
        let conn = bench.client();
        bench.receive(conn, [&bytes[..], &beat[..]].concat().into());
        assert_eq!(
            (bench.closed.as_slice(), members(&bench)),
            ([conn].as_slice(), 0),
            "{bytes:?}"
        );
        bench.receive(conn, beat.clone());
        assert_eq!(members(&bench), 0, "it is gone");
    }
}

#[test]
fn a_request_may_come_in_pieces() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let beat =
        request::encode_request(HeaderForm::Json, 1, false, &heartbeat("a@1")).expect("a small request");
    for at in 0..beat.len() {
        assert_eq!(members(&bench), 0);
        bench.receive(conn, beat.slice(at..=at));
    }
    assert_eq!((members(&bench), answers(&mut bench, conn)), (1, [0].into()));
}

#[test]
fn unknown_requests_are_refused_and_one_way_ones_passed_over() {
    let mut bench = Bench::new();
    let conn = bench.client();
    assert_eq!(bench.ask_raw(conn, 9_999, &()), 3);
    assert_eq!(bench.ask_raw(conn, 200_050, &()), 3);
    let command = Command {
        code: 9_999,
        language: Language::Java,
        version: VERSION,
        opaque: 1,
        flag: FLAG_ONEWAY,
        remark: None,
        ext: &(),
        body: &[],
    };
    bench.receive(conn, command.encode(HeaderForm::Json).expect("a small request"));
    assert_eq!(bench.frames(conn).len(), 0);
}

#[test]
fn the_brokers_clock_can_jump() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.pass(SECOND);
    bench.control(Control::ClockJump(-3_600_000));
    bench.do_it(conn, &send_to("T", ""));
    let stored = bench.state.stored_at(&queue(0), QueueOffset(0)).expect("stored");
    let wall = WALL.as_unix_millis() - 3_599_000;
    assert_eq!(
        (
            stored.record.store_at().as_unix_millis(),
            bench.state.wall().as_unix_millis()
        ),
        (wall, wall)
    );
}

#[test]
fn time_does_not_go_back() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.pass(10 * SECOND);
    bench.do_it(conn, &heartbeat("a@1"));
    bench.now = Instant::ZERO;
    bench.do_it(conn, &send_to("T", ""));
    let stored = bench.state.stored_at(&queue(0), QueueOffset(0)).expect("stored");
    assert_eq!(stored.record.store_at(), WALL + 10 * SECOND);
}

#[test]
fn controls_that_do_not_apply_change_nothing() {
    let mut bench = Bench::new();
    let nobody = PeerAddr::new("nowhere", 1);
    let elsewhere = crate::ids::MessageQueue {
        broker: "other".into(),
        ..queue(0)
    };
    bench.state.observe(10);
    for control in [
        Control::Crash(nobody.clone()),
        Control::Start(nobody.clone()),
        Control::Start(master()),
        Control::Move {
            from: master(),
            to: nobody.clone(),
        },
        Control::Append {
            queue: elsewhere.clone(),
            message: NewMessage::new("x"),
        },
        Control::Append {
            queue: queue(9),
            message: NewMessage::new("x"),
        },
        Control::Append {
            queue: queue(-1),
            message: NewMessage::new("x"),
        },
        Control::Expire {
            queue: elsewhere,
            min: QueueOffset(5),
        },
        Control::FreezeRoutes {
            name_server: master(),
            frozen: true,
        },
        Control::Notify {
            broker: "other".into(),
            group: "G".into(),
        },
        Control::ExpireLocks("other".into()),
        Control::DeleteTopic("None".into()),
        Control::PutTopicOn {
            broker: "other".into(),
            topic: TopicConfig::new("N".into(), 1),
        },
        Control::PutTopic(TopicConfig::new("Huge".into(), u32::MAX)),
    ] {
        bench.control(control);
    }
    assert_eq!((bench.state.stored_bytes(), bench.observations()), (0, [].into()));
    assert!(bench.state.is_up(&master()) && bench.state.route(&"Huge".into()).is_none());
}

#[test]
fn shrinking_and_growing_a_topic_keeps_its_messages() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.store(&["A"]);
    let put = |queues| Control::PutTopic(TopicConfig::new("T".into(), queues));
    bench.control(put(0));
    assert_eq!(bench.refused(conn, &pull(0)), 29);
    bench.control(put(4));
    assert_eq!(bench.do_it(conn, &pull(0)).status, PullStatus::Found);
}

#[test]
fn what_is_stored_can_be_watched() {
    let mut bench = Bench::new();
    bench.store(&["A"]);
    assert_eq!(bench.observations(), [], "nobody asked for it");
    bench.state.observe(1);
    bench.store(&["A", "A"]);
    let seen = bench.observations();
    let Observation::Stored {
        offset,
        physical_offset,
        ..
    } = &seen[0]
    else {
        panic!("{seen:?}");
    };
    assert_eq!(
        (offset.0, seen.len(), bench.state.observations_missed()),
        (1, 1, 1)
    );
    assert!(physical_offset.0 > 0);
}

#[test]
fn a_cluster_without_brokers_or_with_a_broker_without_replicas_runs() {
    let mut config = ClusterConfig::with_brokers(1);
    config.brokers[0].replicas.clear();
    for config in [ClusterConfig::with_brokers(0), config] {
        let mut bench = Bench::of(config);
        let conn = bench.connect(&name_server());
        assert_eq!(bench.ask_raw(conn, 106, &()), 0);
        bench.store(&["A"]);
        assert_eq!(bench.state.stored_bytes(), 0);
    }
}

/// One thing that may happen to a cluster.
#[derive(Clone, Debug)]
enum Step {
    Ask(u8, Asking),
    Noise(u8, Vec<u8>),
    Control(u8),
    HangUp(u8),
    Pass(u64),
}

#[derive(Clone, Copy, Debug)]
enum Asking {
    Beat,
    LongPull(i64),
    Send,
    Commit(i64),
    Max,
}

fn asking() -> impl Strategy<Value = Asking> {
    prop_oneof![
        Just(Asking::Beat),
        (-1..6_i64).prop_map(Asking::LongPull),
        Just(Asking::Send),
        (-1..6_i64).prop_map(Asking::Commit),
        Just(Asking::Max),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4_u8, asking()).prop_map(|(conn, asking)| Step::Ask(conn, asking)),
        1 => (0..4_u8, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(conn, noise)| Step::Noise(conn, noise)),
        2 => (0..8_u8).prop_map(Step::Control),
        1 => (0..4_u8).prop_map(Step::HangUp),
        3 => (0..20_000_u64).prop_map(Step::Pass),
    ]
}

/// Lets it all happen; what the cluster did and the bytes it wrote.
fn run(steps: &[Step]) -> Vec<(Instant, BrokerAction)> {
    let mut config = with_slave();
    config.settings.held_max = 3;
    let mut state = BrokerState::new(config, Seed(3), Instant::ZERO, WALL);
    let (mut now, mut lives, mut done) = (Instant::ZERO, [1_u32; 4], Vec::new());
    let conn_of = |lives: &[u32; 4], slot: u8| ConnId {
        slot: slot.into(),
        generation: lives[usize::from(slot)],
    };
    let accept = |state: &mut BrokerState, now, conn: ConnId| {
        let at = if conn.slot == 3 { slave() } else { master() };
        let from = core::net::SocketAddr::from(([10, 1, 0, 1], 1));
        state.handle(now, BrokerEvent::Net(ServerEvent::Accepted { conn, at, from }));
    };
    for slot in 0..4 {
        accept(&mut state, now, conn_of(&lives, slot));
    }
    for step in steps {
        match step {
            Step::Ask(slot, asking) => {
                let conn = conn_of(&lives, *slot);
                let bytes = frame_of(*asking, slot.to_string().as_str());
                state.handle(now, BrokerEvent::Net(ServerEvent::Received { conn, bytes }));
            }
            Step::Noise(slot, noise) => {
                let (conn, bytes) = (conn_of(&lives, *slot), Bytes::copy_from_slice(noise));
                state.handle(now, BrokerEvent::Net(ServerEvent::Received { conn, bytes }));
            }
            Step::Control(which) => state.handle(now, BrokerEvent::Control(control(*which))),
            Step::HangUp(slot) => {
                let conn = conn_of(&lives, *slot);
                state.handle(now, BrokerEvent::Net(ServerEvent::Closed { conn }));
                lives[usize::from(*slot)] += 1;
                accept(&mut state, now, conn_of(&lives, *slot));
            }
            Step::Pass(millis) => {
                let end = now + Duration::from_millis(*millis);
                while let Some(at) = state.poll_timeout().filter(|at| *at <= end) {
                    now = now.max(at);
                    state.handle(now, BrokerEvent::Wakeup);
                    assert!(
                        state.poll_timeout().is_none_or(|next| next > now),
                        "woken in vain"
                    );
                }
                now = end;
            }
        }
        assert!(state.held() <= 6, "two replicas hold three each");
        while let Some(action) = state.poll_action() {
            done.push((now, action));
        }
    }
    done
}

fn control(which: u8) -> Control {
    match which {
        0 => Control::Crash(master()),
        1 => Control::Start(master()),
        2 => Control::Stop(slave()),
        3 => Control::Start(slave()),
        4 => Control::AddRule(Rule::on(RequestCode::PULL_MESSAGE, Effect::Delay(SECOND)).nth(Nth::Every(2))),
        5 => Control::ClearRules,
        6 => Control::ReplicationLag {
            broker: broker(),
            lag: SECOND,
        },
        _ => Control::ExpireLocks(broker()),
    }
}

fn frame_of(asking: Asking, client: &str) -> Bytes {
    fn encode<R: Request>(request: &R) -> Bytes {
        request::encode_request(HeaderForm::Rocketmq, 1, false, request).expect("a small request")
    }
    match asking {
        Asking::Beat => encode(&heartbeat(client)),
        Asking::LongPull(offset) => encode(&long_pull(offset, 7 * SECOND)),
        Asking::Send => encode(&send_to("T", "DELAY\u{1}1\u{2}")),
        Asking::Commit(offset) => encode(&CommitOffsetRequest {
            group: "G".into(),
            queue: queue_ref("T", 0),
            offset: QueueOffset(offset),
        }),
        Asking::Max => encode(&MaxOffsetRequest {
            queue: queue_ref("T", 0),
            committed: None,
        }),
    }
}

proptest! {
    #[test]
    fn the_same_events_give_the_same_actions(steps in prop::collection::vec(step(), 0..60)) {
        let first = run(&steps);
        prop_assert_eq!(&first, &run(&steps));
        for (_, action) in first {
            if let BrokerAction::Send { frame, .. } = action {
                let frame = Frame::parse(frame, crate::wire::frame::FRAME_LEN_MAX);
                prop_assert!(frame.is_ok_and(|frame| Header::of(&frame).is_ok()));
            }
        }
    }

    #[test]
    fn requests_with_any_content_are_survived(
        code in prop_oneof![0..400_i32, any::<i32>()],
        fields in prop::collection::vec(("[a-zA-Z]{1,12}", "[-0-9a-z]{0,12}"), 0..8),
        body in prop::collection::vec(any::<u8>(), 0..60),
        to_name_server in any::<bool>(),
    ) {
        let mut ext = crate::wire::command::ExtFields::new();
        for name in ["group", "consumerGroup", "topic", "queueId", "offset", "clientID", "queueOffset"] {
            ext.set(name, "1").expect("few fields");
        }
        for (name, value) in fields {
            ext.set(name, value).expect("few fields");
        }
        let command = Command {
            code, language: Language::Go, version: 1, opaque: 5, flag: 0, remark: None, ext: &ext, body: &body,
        };
        let mut bench = Bench::new();
        let conn = if to_name_server { bench.connect(&name_server()) } else { bench.client() };
        bench.receive(conn, command.encode(HeaderForm::Json).expect("a small request"));
        let frames = bench.frames(conn);
        prop_assert_eq!(frames.len(), 1);
        prop_assert!(Header::of(&frames[0]).is_ok_and(|header| header.opaque == 5 && header.is_response()));
        let _ = decode_answer::<PullRequest>(&frames[0]);
    }
}
