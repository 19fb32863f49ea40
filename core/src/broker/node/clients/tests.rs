use alloc::vec::Vec;
use core::time::Duration;

use crate::broker::bench::*;
use crate::broker::event::Control;
use crate::broker::observation::Observation;
use crate::ids::ConnId;
use crate::wire::code::RequestCode;
use crate::wire::command::Header;
use crate::wire::request::groups::{SubscriptionGroupConfig, UpdateGroupRequest};
use crate::wire::request::heartbeat::{HeartbeatRequest, MessageModel, UnregisterRequest};
use crate::wire::request::members::MemberListRequest;
use crate::wire::request::{Request as _, decode_request};

const SECOND: Duration = Duration::from_secs(1);
const TOLD: RequestCode = RequestCode::NOTIFY_CONSUMER_IDS_CHANGED;

fn list() -> MemberListRequest {
    MemberListRequest { group: "G".into() }
}

fn members(bench: &mut Bench, conn: ConnId) -> Vec<alloc::string::String> {
    let list = bench.do_it(conn, &list());
    list.client_ids.iter().map(|id| id.as_str().into()).collect()
}

fn leave(client: &str) -> UnregisterRequest {
    UnregisterRequest {
        client_id: client.into(),
        consumer_group: Some("G".into()),
        producer_group: None,
    }
}

#[test]
fn the_newcomer_hears_of_itself_before_its_heartbeat_is_answered() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.send(conn, &heartbeat("a@1"));
    let codes: Vec<(bool, i32)> = bench
        .frames(conn)
        .iter()
        .map(|frame| {
            let header = Header::of(frame).expect("a header");
            (header.is_response(), header.code)
        })
        .collect();
    assert_eq!(codes, [(false, TOLD.0), (true, 0)]);
}

#[test]
fn a_heartbeat_makes_the_group_and_its_retry_topic() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let retry = "%RETRY%G".into();
    assert_eq!(bench.state.route(&retry), None);
    bench.do_it(conn, &heartbeat("a@1"));
    let route = bench.state.route(&retry).expect("a route");
    assert_eq!((route.queues[0].read_queues, route.queues[0].perm), (1, 6));
}

#[test]
fn changes_are_told_to_all_and_sameness_to_nobody() {
    let mut bench = Bench::new();
    let (a, b) = (bench.client(), bench.client());
    let (only_a, both, nobody) = (&[a][..], &[a, b][..], &[][..]);
    let steps = [
        (a, heartbeat("a@1"), only_a),
        (a, heartbeat("a@1"), nobody),
        (b, heartbeat("b@1"), both),
        // A newer expression for a topic they had is no change; another topic is, and so is its end.
        (b, heartbeat_with("b@1", "T", "A", 9), nobody),
        (a, heartbeat_with("a@1", "Other", "*", 1), both),
        (b, heartbeat("b@1"), both),
        // Another client on the same connection takes the place of the first.
        (b, heartbeat("c@1"), nobody),
    ];
    for (at, (conn, beat, told)) in steps.into_iter().enumerate() {
        bench.send(conn, &beat);
        let want: Vec<(ConnId, RequestCode)> = told.iter().map(|conn| (*conn, TOLD)).collect();
        assert_eq!(bench.pushed(), want, "step {at}");
    }
    assert_eq!(members(&mut bench, a), ["a@1", "c@1"]);
}

#[test]
fn the_highest_version_of_a_subscription_counts() {
    let mut bench = Bench::new();
    let conn = bench.client();
    for (expression, version, registered) in [("A", 5, "A"), ("B", 4, "A"), ("B", 5, "A"), ("B", 6, "B")] {
        bench.do_it(conn, &heartbeat_with("a@1", "T", expression, version));
        let connections = crate::wire::request::stats::ConnectionsRequest { group: "G".into() };
        let table = bench.do_it(conn, &connections).subscriptions;
        assert_eq!(table["T"].expression, registered, "{expression} {version}");
    }
}

#[test]
fn who_leaves_is_gone_and_the_rest_is_told() {
    let mut bench = Bench::new();
    let (a, b) = (bench.client(), bench.client());
    bench.do_it(a, &heartbeat("a@1"));
    bench.do_it(b, &heartbeat("b@1"));
    bench.pushed();
    bench.do_it(b, &leave("whatever: the connection counts"));
    assert_eq!(bench.pushed(), [(a, TOLD)]);
    assert_eq!(members(&mut bench, a), ["a@1"]);
    bench.do_it(b, &leave("b@1"));
    assert_eq!(bench.pushed(), [(a, TOLD)], "told again, as Java does");
    bench.do_it(a, &leave("a@1"));
    assert_eq!((bench.pushed(), bench.refused(a, &list())), ([].into(), 1));
}

#[test]
fn a_client_that_came_back_is_listed_twice_until_its_old_connection_ends() {
    let mut bench = Bench::new();
    let (old, new) = (bench.client(), bench.client());
    bench.do_it(old, &heartbeat("a@1"));
    bench.do_it(new, &heartbeat("a@1"));
    assert_eq!(members(&mut bench, new), ["a@1", "a@1"]);
    bench.pushed();
    bench.hang_up(old);
    assert_eq!(bench.pushed(), [(new, TOLD)]);
    assert_eq!(members(&mut bench, new), ["a@1"]);
}

#[test]
fn broadcasting_groups_are_not_told() {
    let mut bench = Bench::new();
    let (a, b) = (bench.client(), bench.client());
    let broadcasting = |client: &str| {
        let mut beat = heartbeat(client);
        beat.consumers[0].message_model = Some(MessageModel::Broadcasting);
        beat
    };
    bench.do_it(a, &broadcasting("a@1"));
    bench.do_it(b, &broadcasting("b@1"));
    bench.hang_up(b);
    assert_eq!(
        (bench.pushed(), members(&mut bench, a)),
        ([].into(), ["a@1".into()].into())
    );
}

#[test]
fn a_group_that_does_not_want_to_be_told_hears_only_of_lost_connections() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.client(), bench.client(), bench.client());
    let mut config = SubscriptionGroupConfig::new("G".into());
    config.notify_consumer_ids_changed_enable = false;
    bench.do_it(a, &UpdateGroupRequest(config));
    for (conn, client) in [(a, "a@1"), (b, "b@1"), (c, "c@1")] {
        bench.do_it(conn, &heartbeat(client));
    }
    bench.do_it(b, &leave("b@1"));
    assert_eq!(bench.pushed(), []);
    bench.hang_up(c);
    assert_eq!(bench.pushed(), [(a, TOLD)]);
}

#[test]
fn who_sends_no_heartbeat_for_two_minutes_is_forgotten_without_a_word() {
    let mut bench = Bench::new();
    let (a, b) = (bench.client(), bench.client());
    bench.do_it(a, &heartbeat("a@1"));
    bench.do_it(b, &heartbeat("b@1"));
    bench.pushed();
    for _ in 0..4 {
        bench.pass(30 * SECOND);
        bench.do_it(a, &heartbeat("a@1"));
        // The connection is not idle, only the member is silent.
        bench.do_it(b, &list());
    }
    assert_eq!(
        members(&mut bench, a).len(),
        2,
        "exactly two minutes are not too long"
    );
    bench.pass(10 * SECOND);
    assert_eq!(
        (bench.pushed(), bench.closed.as_slice()),
        ([].into(), [b].as_slice())
    );
    assert_eq!(members(&mut bench, a), ["a@1"]);
}

#[test]
fn a_connection_on_which_nothing_comes_is_closed_and_the_others_are_told() {
    let mut bench = Bench::new();
    let (idle, a) = (bench.client(), bench.client());
    bench.do_it(idle, &heartbeat("idle@1"));
    bench.pass(SECOND);
    bench.do_it(a, &heartbeat("a@1"));
    bench.pushed();
    bench.pass(118 * SECOND);
    assert_eq!(bench.closed, []);
    bench.do_it(a, &heartbeat("a@1"));
    bench.pass(SECOND);
    assert_eq!(bench.closed, []);
    bench.pass(10 * SECOND);
    assert_eq!(bench.closed, [idle]);
    assert_eq!(members(&mut bench, a), ["a@1"]);
}

#[test]
fn heartbeats_of_the_second_version_leave_out_what_is_known() {
    let mut bench = Bench::new();
    let (a, b) = (bench.client(), bench.client());
    let beat = |client, fingerprint, without_sub| {
        let mut beat = HeartbeatRequest {
            fingerprint,
            without_sub,
            ..heartbeat(client)
        };
        if without_sub {
            beat.consumers[0].subscriptions.clear();
        }
        beat
    };
    for (at, (conn, request, changed)) in [
        (a, beat("a@1", 0, false), true),
        (a, beat("a@1", 7, false), false),
        (a, beat("a@1", 7, true), false),
        (b, beat("b@1", 8, false), true),
        (a, beat("a@1", 7, true), true),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = bench.do_it(conn, &request);
        let want = (Some(true), Some(changed));
        assert_eq!((answer.supports_v2, answer.sub_changed), want, "step {at}");
    }
    assert_eq!(
        bench.do_it(a, &pull(0)).next_begin_offset.0,
        0,
        "T is still subscribed"
    );
}

#[test]
fn illegal_groups_and_groups_without_room_are_passed_over() {
    let mut config = config();
    config.settings.groups_max = 1;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    let mut beat = heartbeat("a@1");
    beat.consumers = ["no good", "G", "H"].map(|group| consumer(group, &[])).into();
    bench.do_it(conn, &beat);
    let known = |group: &str| MemberListRequest { group: group.into() };
    assert_eq!(bench.do_it(conn, &known("G")).client_ids.len(), 1);
    assert_eq!(bench.refused(conn, &known("H")), 1);
    assert_eq!(bench.refused(conn, &known("no good")), 1);
}

#[test]
fn a_group_has_a_limit_of_topics() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let mut beat = heartbeat("a@1");
    beat.consumers[0].subscriptions = alloc::vec![subscription("T", "*", 1); super::SUBSCRIPTIONS_MAX + 1];
    assert_eq!(bench.refused(conn, &beat), 1);
    beat.consumers[0].subscriptions.pop();
    assert!(bench.ask(conn, &beat).is_ok());
}

#[test]
fn a_notification_can_be_sent_without_a_change() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.pushed();
    bench.control(Control::Notify {
        broker: broker(),
        group: "G".into(),
    });
    let frames = bench.frames(conn);
    assert_eq!(frames.len(), 1);
    let word = decode_request::<crate::wire::request::members::MembersChanged>(&frames[0]);
    assert_eq!(word.map(|word| word.group), Ok("G".into()));
    assert!(Header::of(&frames[0]).is_ok_and(|header| header.is_oneway()));
    assert_eq!(HeartbeatRequest::CODE, RequestCode::HEART_BEAT);
}

#[test]
fn joining_and_leaving_can_be_watched() {
    let mut bench = Bench::new();
    bench.state.observe(10);
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.do_it(conn, &heartbeat("a@1"));
    bench.control(Control::Crash(master()));
    let seen = bench.observations();
    assert!(
        matches!(
            seen.as_slice(),
            [Observation::MemberJoined { .. }, Observation::MemberLeft { .. }]
        ),
        "{seen:?}"
    );
    assert_eq!(bench.state.members(&broker(), &"G".into()).count(), 0);
}
