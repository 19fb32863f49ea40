//! What a group subscribes to changes while it runs, and SQL92 conditions are looked at by a broker first.

use std::sync::Arc;

use rocketmq_consumer_core::action::{AppAction, RefusalReason};
use rocketmq_consumer_core::config::{
    ConsumeMode, FilterExpression, GroupConfig, MessageModel, SUBSCRIPTIONS_MAX,
};
use rocketmq_consumer_core::event::{AppEvent, Verdict};
use rocketmq_consumer_core::ids::Topic;
use rocketmq_consumer_core::message::OrderlyOutcome;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::{HoldReason, QueueState, SubscriptionState};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_core::wire::request::check::CheckSubscriptionRequest;
use rocketmq_consumer_core::wire::request::heartbeat::{HeartbeatAnswer, HeartbeatRequest, SubscriptionData};
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::route::RouteRequest;
use rocketmq_consumer_testing::world::{
    Asked, Bench, Handling, Run, StoredMessage, World, address, ms, queue, secs,
};

const BEAT: RequestCode = RequestCode::HEART_BEAT;
const CHECK: RequestCode = RequestCode::CHECK_CLIENT_CONFIG;
const COMMIT: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const UNLOCK: RequestCode = RequestCode::UNLOCK_BATCH_MQ;
const ROUTE: RequestCode = RequestCode::GET_ROUTEINFO_BY_TOPIC;

fn subscribe(topic: &str, filter: impl Into<FilterExpression>) -> AppEvent {
    AppEvent::Subscribe {
        group: "G".into(),
        topic: topic.into(),
        filter: filter.into(),
    }
}

fn unsubscribe(topic: &str) -> AppEvent {
    AppEvent::Unsubscribe {
        group: "G".into(),
        topic: topic.into(),
    }
}

/// What a heartbeat says of a topic.
fn told(beat: &Asked, topic: &str) -> Option<SubscriptionData> {
    let data: HeartbeatRequest = beat.request();
    let mut subscriptions = data.consumers.into_iter().flat_map(|group| group.subscriptions);
    subscriptions.find(|data| data.topic.as_str() == topic)
}

fn last_told(bench: &Bench, topic: &str) -> Option<SubscriptionData> {
    told(bench.sent(BEAT).last()?, topic)
}

/// The changes that are in force, in the order they were told.
fn in_force(bench: &Bench) -> Vec<(Topic, Option<FilterExpression>)> {
    let kinds = bench.notices().iter().map(|notice| notice.kind.clone());
    let changed = kinds.filter_map(|kind| {
        let NoticeKind::SubscriptionChanged { topic, filter } = kind else {
            return None;
        };
        Some((topic, filter))
    });
    changed.collect()
}

fn state_of(bench: &Bench, topic: &str) -> Vec<SubscriptionState> {
    let status = bench.status();
    let subscriptions = status.groups.into_iter().flat_map(|group| group.subscriptions);
    let of_topic = subscriptions.filter(|of| of.topic.as_str() == topic);
    of_topic.map(|of| of.state).collect()
}

fn refused(bench: &Bench) -> Vec<(&'static str, RefusalReason)> {
    let told = bench.told().iter();
    let refused = told.filter_map(|action| {
        let AppAction::Refused(refusal) = action else {
            return None;
        };
        Some((refusal.wish, refusal.why.clone()))
    });
    refused.collect()
}

fn messages(tags: &[(i64, &str)]) -> Vec<StoredMessage> {
    let message = |(offset, tag): &(i64, &str)| StoredMessage::new(queue("T", "a", 0), *offset, "", tag);
    tags.iter().map(message).collect()
}

fn offsets(runs: &[Run]) -> Vec<i64> {
    runs.iter().flat_map(Run::offsets).collect()
}

/// A member of one queue that handles one message at a time.
fn owner(expression: &str) -> Bench {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), expression).set_concurrency(1);
    });
    bench.store("T", 0, 0);
    bench.settle();
    bench
}

#[test]
fn nothing_that_was_fetched_by_the_former_expression_is_delivered() {
    let mut bench = owner("a");
    let (pull, before) = bench.expect_pull();
    bench.found(&pull, &messages(&[(0, "a"), (1, "a"), (2, "a")]), 3);
    let runs = bench.take_runs();
    assert_eq!(offsets(&runs), [0], "the others wait for the permit");

    bench.tell(subscribe("T", "b"));
    let beat = last_told(&bench, "T").expect("a heartbeat with the topic");
    assert_eq!(beat.expression, "b", "at once");
    assert!(beat.sub_version > before.sub_version);
    let newest = bench.queue(0).expect("it is still ours");
    assert_eq!(
        (newest.state, newest.hold),
        (QueueState::Acquiring, Some(HoldReason::GivingBack))
    );
    assert_eq!(state_of(&bench, "T"), [SubscriptionState::Changing]);
    assert_eq!(in_force(&bench), [], "a handler of the former expression runs");

    // The pull that is still out brings nothing to anybody.
    let (late, _) = bench.expect_pull();
    bench.found(&late, &messages(&[(3, "a")]), 4);
    bench.done(&runs[0]);
    bench.sleep(ms(1));
    assert_eq!(in_force(&bench), [("T".into(), Some("b".into()))]);
    assert_eq!(state_of(&bench, "T"), [SubscriptionState::InForce]);
    let (pull, after) = bench.expect_pull();
    assert_eq!((after.offset.0, after.sub_version), (1, beat.sub_version));
    bench.found(&pull, &messages(&[(1, "a"), (2, "a"), (3, "b")]), 4);
    assert_eq!(offsets(&bench.take_runs()), [3]);
}

#[test]
fn a_handler_that_takes_longer_than_the_grace_holds_the_change_no_longer() {
    let mut bench = owner("a");
    let (pull, _) = bench.expect_pull();
    bench.found(&pull, &messages(&[(0, "a")]), 1);
    let runs = bench.take_runs();
    bench.drop_requests(PULL);
    bench.tell(subscribe("T", "*"));
    bench.sleep(ms(249));
    assert_eq!(in_force(&bench), []);
    bench.sleep(ms(2));
    assert_eq!(in_force(&bench), [("T".into(), Some("*".into()))]);
    let (_, after) = bench.expect_pull();
    assert_eq!(after.offset.0, 0, "unfinished is not finished");
    // Its late report changes nothing.
    bench.done(&runs[0]);
    assert_eq!(bench.status().counters.late_reports, 1);
}

#[test]
fn a_pull_with_a_new_expression_waits_until_its_broker_has_acknowledged_it() {
    let mut bench = owner("a");
    bench.drop_requests(PULL);
    bench.withhold(BEAT);
    bench.tell(subscribe("T", "b"));
    bench.sleep(secs(1));
    assert_eq!((bench.outstanding(PULL).len(), in_force(&bench).len()), (0, 0));
    let hold = bench.queue(0).and_then(|queue| queue.hold);
    assert_eq!(hold, Some(HoldReason::HeartbeatPending));
    let beat = bench.expect_request(BEAT);
    bench.answer(&beat, &HeartbeatAnswer::default());
    let (_, pull) = bench.expect_pull();
    assert_eq!(
        Some(pull.sub_version),
        told(&beat, "T").map(|data| data.sub_version)
    );
    assert_eq!(in_force(&bench).len(), 1);
}

#[test]
fn a_change_is_in_force_when_every_broker_that_knows_us_knows_it() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "a");
    });
    bench.set_queues("T", &[("a", 1), ("b", 1)]);
    bench.settle();
    bench.withhold(BEAT);
    bench.tell(subscribe("T", "b"));
    for expected in [0, 1] {
        let beat = bench.expect_request(BEAT);
        bench.answer(&beat, &HeartbeatAnswer::default());
        assert_eq!(in_force(&bench).len(), expected);
    }
}

#[test]
fn asking_for_what_is_in_force_changes_nothing_and_is_answered() {
    let mut bench = owner("a || b");
    let (beats, pulls) = (bench.sent(BEAT).len(), bench.outstanding(PULL).len());
    bench.tell(subscribe("T", "a || b"));
    assert_eq!(in_force(&bench), [("T".into(), Some("a || b".into()))]);
    bench.tell(unsubscribe("U"));
    assert_eq!(in_force(&bench).last(), Some(&("U".into(), None)));
    assert_eq!(
        (bench.sent(BEAT).len(), bench.outstanding(PULL).len()),
        (beats, pulls)
    );
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut bench = owner("a");
    let beats = bench.sent(BEAT).len();
    let bad = |reason: &RefusalReason| matches!(reason, RefusalReason::BadConfig(..));
    for wish in [
        subscribe("%RETRY%G", "*"),
        subscribe("no topic", "*"),
        subscribe("T", " "),
        subscribe("T", FilterExpression::sql92("")),
        unsubscribe("%RETRY%G"),
    ] {
        let before = refused(&bench).len();
        bench.tell(wish.clone());
        let refusals = refused(&bench);
        assert!(
            refusals.len() == before + 1 && bad(&refusals[before].1),
            "{wish:?}: {refusals:?}"
        );
    }
    bench.tell(unsubscribe("T"));
    assert_eq!(
        refused(&bench).last(),
        Some(&("unsubscribe", RefusalReason::LastTopic))
    );
    let stranger = AppEvent::Unsubscribe {
        group: "nobody".into(),
        topic: "T".into(),
    };
    bench.tell(stranger);
    assert_eq!(
        refused(&bench).last(),
        Some(&("unsubscribe", RefusalReason::UnknownGroup))
    );
    assert_eq!((bench.sent(BEAT).len(), in_force(&bench).len()), (beats, 0));
    let (pull, _) = bench.expect_pull();
    bench.found(&pull, &messages(&[(0, "a")]), 1);
    let (group, drain) = ("G".into(), secs(9));
    bench.tell(AppEvent::StopGroup { group, drain });
    bench.tell(subscribe("U", "*"));
    assert_eq!(
        refused(&bench).last(),
        Some(&("subscribe", RefusalReason::GroupLeaving))
    );
}

#[test]
fn a_group_has_a_limit_of_topics() {
    let mut bench = Bench::new(|_, group| {
        for number in 0..SUBSCRIPTIONS_MAX - 1 {
            group.subscribe(format!("T{number}").into(), "*");
        }
    });
    bench.tell(subscribe("U", "*"));
    bench.tell(subscribe("V", FilterExpression::sql92("a = 1")));
    let most = SUBSCRIPTIONS_MAX;
    assert_eq!(
        refused(&bench),
        [("subscribe", RefusalReason::TooManyTopics { most })]
    );
    bench.tell(unsubscribe("T0"));
    bench.settle();
    bench.tell(subscribe("V", FilterExpression::sql92("a = 1")));
    assert_eq!(refused(&bench).len(), 1, "there is room again");
}

#[test]
fn a_topic_that_is_given_back_is_committed_before_brokers_hear_of_it() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").subscribe("U".into(), "*");
    });
    bench.set_queues("U", &[("a", 1)]);
    bench.store("T", 0, 0);
    bench.store("U", 0, 0);
    bench.settle();
    let pulls = bench.drop_requests(PULL);
    let of_t = pulls
        .iter()
        .find(|pull| pull.request::<PullRequest>().topic.as_str() == "T");
    bench.found_at(of_t.expect("both are pulled"), [0, 1], 0, 2);
    let runs = bench.take_runs();
    let beats = bench.sent(BEAT).len();
    bench.tell(unsubscribe("T"));
    bench.sleep(ms(10));
    assert_eq!(bench.sent(BEAT).len(), beats, "handlers run");
    assert_eq!(state_of(&bench, "T"), [SubscriptionState::Leaving]);
    for run in &runs {
        bench.done(run);
    }
    bench.sleep(ms(1));
    assert_eq!(in_force(&bench), [("T".into(), None)]);
    assert_eq!((last_told(&bench, "T"), state_of(&bench, "T")), (None, vec![]));
    assert!(last_told(&bench, "U").is_some());
    let sent = bench.all_sent();
    let last_commit = sent.iter().rposition(|asked| {
        asked.code == COMMIT && asked.request::<CommitOffsetRequest>().queue.topic.as_str() == "T"
    });
    let farewell = sent.iter().rposition(|asked| asked.code == BEAT);
    assert!(last_commit < farewell, "{last_commit:?} {farewell:?}");
    let last: CommitOffsetRequest = sent[last_commit.expect("it was committed")].request();
    assert_eq!(last.offset.0, 2);

    // It is neither shared nor asked for any more, and comes back where it was left.
    let routes = bench.sent(ROUTE).len();
    bench.idle(secs(61));
    let asked: Vec<RouteRequest> = bench.sent(ROUTE)[routes..]
        .iter()
        .map(|asked| asked.request())
        .collect();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.topic.as_str() != "T"));
    assert_eq!(bench.queue(0), None);
    bench.tell(subscribe("T", "a"));
    bench.settle();
    let version = last_told(&bench, "T").map(|data| data.sub_version);
    let pull = bench
        .sent(PULL)
        .last()
        .map(|asked| asked.request::<PullRequest>());
    let pull = pull.expect("it is pulled");
    assert_eq!(
        (pull.topic.as_str(), pull.offset.0, Some(pull.sub_version)),
        ("T", 2, version)
    );
}

/// Without the topic nobody is known who could acknowledge anything.
#[test]
fn the_only_topic_with_a_route_can_be_given_back() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").subscribe("U".into(), "*");
    });
    bench.settle();
    bench.tell(unsubscribe("T"));
    assert_eq!(in_force(&bench), [("T".into(), None)]);
    bench.sleep(secs(1));
    assert!(bench.connections().iter().all(|(_, addr)| *addr != address("a")));
}

#[test]
fn a_topic_that_is_wanted_again_while_it_is_given_back_stays() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "a").subscribe("U".into(), "*");
    });
    bench.store("T", 0, 0);
    bench.settle();
    let (pull, _) = bench.expect_pull();
    bench.found(&pull, &messages(&[(0, "a")]), 1);
    let runs = bench.take_runs();
    bench.tell(unsubscribe("T"));
    bench.tell(subscribe("T", "b"));
    assert_eq!(
        last_told(&bench, "T").map(|data| data.expression),
        Some("b".into())
    );
    bench.drop_requests(PULL);
    bench.done(&runs[0]);
    bench.sleep(ms(1));
    assert_eq!(
        in_force(&bench),
        [("T".into(), Some("b".into()))],
        "the later wish counts"
    );
    let (_, pull) = bench.expect_pull();
    assert_eq!(pull.offset.0, 1, "nothing is fetched twice");
}

/// The first message of a topic that is subscribed to while others run, on a broker that nobody has met.
#[test]
fn the_first_message_of_a_new_topic_comes_within_a_second() {
    for members in [1, 2] {
        let mut world = World::new()
            .topic("T", &[("a", 4)])
            .topic("U", &[("b", 4)])
            .stored("U", "b", 0, 1)
            .stored("U", "b", 3, 1);
        let ids = &["one", "two"][..members];
        for id in ids {
            world.join(id, |member| {
                member.subscribe("T", "*");
            });
        }
        world.run_for(secs(30));
        let asked_at = world.now();
        for id in ids {
            world.tell(id, subscribe("U", "*"));
        }
        world.run_for(secs(5));
        let mut count = 0;
        for delivery in ids.iter().flat_map(|id| world.delivered(id)) {
            let after = delivery.at.saturating_since(asked_at);
            assert!(after < secs(1), "{delivery:?} came {after:?} later");
            count += 1;
        }
        assert_eq!(count, 2);
        world.assert_no_rule_broken();
    }
}

#[test]
fn a_wider_expression_loses_nothing_and_delivers_nothing_twice() {
    let mut world = World::new().topic("T", &[("a", 2)]).member("me", |member| {
        member
            .subscribe("T", "x || y")
            .handler(|_| Handling::done().taking(ms(20)));
    });
    for round in 0..40 {
        for tag in ["x", "y", "z"] {
            world.produce_tagged("T", "a", round % 2, tag);
        }
        match round {
            10 => world.tell("me", subscribe("T", "x || y || z")),
            20 => world.tell("me", subscribe("T", "*")),
            30 => world.tell("me", subscribe("T", "x || y")),
            _ => {}
        }
        world.run_for(ms(50));
    }
    world.run_for(secs(5));
    world.assert_story();
    world.assert_complete("T");
    let delivered = world.delivered("me");
    let mut bodies: Vec<_> = delivered.iter().map(|delivery| &delivery.body).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), delivered.len(), "each once");
    let of_z = delivered
        .iter()
        .filter(|delivery| delivery.tag.as_deref() == Some("z"));
    assert!((15..=25).contains(&of_z.count()), "those of the rounds 10 to 30");
}

// ---- SQL92 ----------------------------------------------------------------------------------------

const WORDS: &str = "Parse error at line 1, column 3.";

/// A group that begins with a condition.
fn conditional() -> Bench {
    let mut bench = Bench::new(|_, group| {
        group.subscribe_sql("T".into(), "a > 3");
    });
    bench.set_queues("T", &[("a", 1), ("b", 1)]);
    bench.settle();
    bench
}

#[test]
fn brokers_hear_of_a_group_when_one_has_approved_of_its_condition() {
    let mut bench = conditional();
    assert_eq!(bench.sent(BEAT).len(), 0);
    assert_eq!(state_of(&bench, "T"), [SubscriptionState::Checking]);
    let check = bench.expect_request(CHECK);
    let request: CheckSubscriptionRequest = check.request();
    assert_eq!((request.group.as_str(), request.client_id.as_str()), ("G", "c1"));
    let asked = request.subscription;
    assert_eq!(
        (
            &*asked.expression,
            asked.expression_type.as_deref(),
            asked.tags.len(),
            asked.codes.len()
        ),
        ("a > 3", Some("SQL92"), 0, 0)
    );
    bench.answer(&check, &Done);
    let beat = last_told(&bench, "T").expect("a heartbeat");
    assert_eq!(
        (&*beat.expression, beat.expression_type.as_deref()),
        ("a > 3", Some("SQL92"))
    );
    assert!(beat.tags.is_empty() && beat.codes.is_empty() && !beat.class_filter_mode);
    assert_eq!(
        (in_force(&bench), state_of(&bench, "T")),
        (vec![], vec![SubscriptionState::InForce])
    );
    // Whether a message meets the condition is the broker's business alone.
    let (pull, request) = bench.expect_pull();
    assert_eq!((request.sub_version, request.filter), (beat.sub_version, None));
    bench.found(&pull, &messages(&[(0, ""), (1, "any")]), 2);
    assert_eq!(offsets(&bench.take_runs()), [0, 1]);
}

#[test]
fn a_group_with_a_refused_condition_stays_out_and_asks_again() {
    let mut bench = conditional();
    let check = bench.expect_request(CHECK);
    bench.refuse(&check, ResponseCode::SUBSCRIPTION_PARSE_FAILED, WORDS);
    let told = NoticeKind::FilterRefused {
        topic: "T".into(),
        filter: FilterExpression::sql92("a > 3"),
        by: "a".into(),
        code: 23,
        remark: WORDS.into(),
    };
    assert_eq!(bench.count_notices(|kind| *kind == told), 1);
    assert_eq!(state_of(&bench, "T"), [SubscriptionState::Refused]);
    bench.sleep(ms(29_999));
    assert_eq!(bench.sent(CHECK).len(), 1);
    bench.sleep(ms(1));
    let check = bench.expect_request(CHECK);
    assert_eq!(
        state_of(&bench, "T"),
        [SubscriptionState::Refused],
        "until it is approved of"
    );
    bench.refuse(
        &check,
        ResponseCode::SYSTEM_ERROR,
        "The broker does not support …",
    );
    assert_eq!(
        bench.count_notices(|kind| matches!(kind, NoticeKind::FilterRefused { .. })),
        1,
        "told once"
    );
    assert_eq!(bench.sent(BEAT).len(), 0);
    // Somebody switches property filters on.
    bench.serve(CHECK);
    bench.sleep(secs(30));
    assert_eq!(bench.outstanding(PULL).len(), 2);
}

#[test]
fn another_condition_lets_a_group_join_that_was_refused() {
    let mut bench = conditional();
    let check = bench.expect_request(CHECK);
    bench.refuse(&check, ResponseCode::SUBSCRIPTION_PARSE_FAILED, WORDS);
    bench.tell(subscribe("T", "a"));
    assert_eq!(
        last_told(&bench, "T").map(|data| data.expression),
        Some("a".into())
    );
    assert_eq!(in_force(&bench), [("T".into(), Some("a".into()))]);
    assert_eq!(bench.outstanding(PULL).len(), 2);
    bench.idle(secs(61));
    assert_eq!(bench.sent(CHECK).len(), 1, "the old one is forgotten");

    let mut bench = conditional();
    let check = bench.expect_request(CHECK);
    bench.refuse(&check, ResponseCode::SUBSCRIPTION_PARSE_FAILED, WORDS);
    let better = FilterExpression::sql92("a > 4");
    bench.tell(subscribe("T", better.clone()));
    // What else is wished meanwhile does not keep it out.
    bench.set_queues("U", &[("a", 1)]);
    bench.tell(subscribe("U", FilterExpression::sql92("b >")));
    let (check, other) = (bench.expect_request(CHECK), bench.expect_request(CHECK));
    bench.refuse(&other, ResponseCode::SUBSCRIPTION_PARSE_FAILED, WORDS);
    assert_eq!((bench.sent(BEAT).len(), state_of(&bench, "U")), (0, vec![]));
    bench.answer(&check, &Done);
    assert_eq!(
        in_force(&bench),
        [("T".into(), Some(better))],
        "whoever wished for it is told"
    );
    assert_eq!(bench.outstanding(PULL).len(), 2);
}

#[test]
fn who_does_not_answer_is_replaced_and_who_does_not_know_the_question_has_no_objection() {
    let mut bench = conditional();
    let first = bench.expect_request(CHECK);
    bench.refuse(&first, ResponseCode::SYSTEM_BUSY, "later");
    bench.sleep(secs(1));
    let second = bench.expect_request(CHECK);
    assert_ne!(first.to, second.to, "another broker");
    bench.sleep(secs(4));
    let third = bench.expect_request(CHECK);
    assert_eq!(
        (third.to.clone(), third.at),
        (first.to.clone(), second.at + secs(4)),
        "3 s and a pause"
    );
    // Answers that come too late count for nothing.
    bench.refuse(&second, ResponseCode::SUBSCRIPTION_PARSE_FAILED, WORDS);
    assert_eq!(state_of(&bench, "T"), [SubscriptionState::Checking]);
    bench.refuse(
        &third,
        ResponseCode::REQUEST_CODE_NOT_SUPPORTED,
        "request type 46 not supported",
    );
    assert_eq!(state_of(&bench, "T"), [SubscriptionState::InForce]);
}

#[test]
fn a_condition_waits_for_its_topic_and_a_known_route_is_enough() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.settle();
    bench.tell(subscribe("U", FilterExpression::sql92("b = 'x'")));
    assert_eq!(bench.sent(CHECK).len(), 0, "nobody knows the topic");
    bench.set_queues("U", &[("a", 1)]);
    bench.sleep(secs(2));
    let check = bench.expect_request(CHECK);
    bench.answer(&check, &Done);
    let pulls = bench.outstanding(PULL).into_iter();
    let topics: Vec<_> = pulls.map(|pull| pull.request::<PullRequest>().topic).collect();
    assert_eq!(topics, [Topic::from("T"), "U".into()]);

    // A second group of the client whose topics are all known.
    let mut other = GroupConfig::new("H".into());
    other.subscribe_sql("T".into(), "a > 3");
    bench.tell(AppEvent::StartGroup(Arc::new(other)));
    let check = bench.expect_request(CHECK);
    let beat: HeartbeatRequest = bench.sent(BEAT).last().expect("a heartbeat").request();
    assert_eq!(beat.consumers.len(), 1, "only the first group is named");
    bench.answer(&check, &Done);
    let beat: HeartbeatRequest = bench.sent(BEAT).last().expect("a heartbeat").request();
    assert_eq!(beat.consumers.len(), 2);
}

#[test]
fn the_former_filter_stays_when_a_new_one_is_refused() {
    let mut bench = owner("a");
    let beats = bench.sent(BEAT).len();
    bench.tell(subscribe("T", FilterExpression::sql92("a >")));
    assert_eq!(
        state_of(&bench, "T"),
        [SubscriptionState::InForce, SubscriptionState::Checking]
    );
    let check = bench.expect_request(CHECK);
    bench.refuse(&check, ResponseCode::SUBSCRIPTION_PARSE_FAILED, WORDS);
    assert_eq!(
        bench.count_notices(|kind| matches!(kind, NoticeKind::FilterRefused { code: 23, .. })),
        1
    );
    assert_eq!(state_of(&bench, "T"), [SubscriptionState::InForce]);
    bench.idle(secs(61));
    assert_eq!(bench.sent(CHECK).len(), 1, "nobody wants it any more");
    let since = &bench.sent(BEAT)[beats..];
    assert!(
        !since.is_empty()
            && since
                .iter()
                .all(|beat| told(beat, "T").is_some_and(|t| t.expression == "a"))
    );

    // One that is approved of takes its place, and messages with any tag come.
    bench.serve(CHECK);
    bench.tell(subscribe("T", FilterExpression::sql92("a > 3")));
    let condition = FilterExpression::sql92("a > 3");
    assert_eq!(in_force(&bench), [("T".into(), Some(condition))]);
    let asked = bench.drop_requests(PULL);
    bench.found(asked.last().expect("it is pulled"), &messages(&[(0, "b")]), 1);
    assert_eq!(offsets(&bench.take_runs()), [0]);
}

#[test]
fn a_refused_condition_of_a_new_topic_leaves_nothing_behind() {
    let mut bench = owner("a");
    bench.set_queues("U", &[("c", 1)]);
    bench.tell(subscribe("U", FilterExpression::sql92("a >")));
    let check = bench.expect_request(CHECK);
    bench.refuse(&check, ResponseCode::SUBSCRIPTION_PARSE_FAILED, WORDS);
    bench.settle();
    assert_eq!(state_of(&bench, "U"), []);
    assert!(
        bench
            .status()
            .topics
            .iter()
            .all(|topic| topic.topic.as_str() != "U")
    );
    assert!(
        bench.connections().iter().all(|(_, addr)| *addr != check.to),
        "its broker is left alone"
    );
}

#[test]
fn a_later_wish_takes_the_place_of_a_condition_that_is_being_looked_at() {
    let mut bench = owner("a");
    bench.tell(subscribe("T", FilterExpression::sql92("a > 3")));
    let check = bench.expect_request(CHECK);
    bench.tell(subscribe("T", "b"));
    bench.answer(&check, &Done);
    bench.settle();
    assert_eq!(in_force(&bench), [("T".into(), Some("b".into()))]);
    assert_eq!(
        last_told(&bench, "T").map(|data| data.expression),
        Some("b".into())
    );
    // Back to what is in force.
    bench.tell(subscribe("T", FilterExpression::sql92("a > 3")));
    bench.tell(subscribe("T", "b"));
    let check = bench.expect_request(CHECK);
    bench.answer(&check, &Done);
    assert_eq!(in_force(&bench).len(), 2);
    assert_eq!(state_of(&bench, "T"), [SubscriptionState::InForce]);
}

#[test]
fn a_broker_without_property_filters_refuses_in_its_own_words() {
    let mut world = World::new().topic("T", &[("a", 1)]).member("me", |member| {
        member.config().subscribe_sql("T".into(), "a > 3");
    });
    world.run_for(secs(5));
    let words = "The broker does not support consumer to filter message by SQL92";
    let refused = world.notices("me").into_iter().filter(
        |notice| matches!(&notice.kind, NoticeKind::FilterRefused { code: 1, remark, .. } if remark == words),
    );
    assert_eq!(refused.count(), 1);
    assert_eq!(world.listed("a", "G"), [], "it is no member");
}

#[test]
fn a_group_that_leaves_while_it_is_refused_ends() {
    let mut bench = conditional();
    let check = bench.expect_request(CHECK);
    bench.tell(AppEvent::Shutdown { drain: secs(5) });
    bench.settle();
    assert!(bench.is_closed());
    let _late = check;
    let mut bench = conditional();
    let check = bench.expect_request(CHECK);
    bench.refuse(&check, ResponseCode::SYSTEM_ERROR, WORDS);
    bench.tell(AppEvent::Shutdown { drain: secs(5) });
    bench.sleep(secs(60));
    assert!(bench.is_closed());
}

#[test]
fn an_empty_answer_moves_a_queue_with_a_condition_as_any_other() {
    let mut bench = conditional();
    bench.serve(CHECK);
    bench.settle();
    let (pull, _) = bench.expect_pull();
    bench.nothing(&pull, PullStatus::RetryImmediately, 700);
    let next: Vec<i64> = bench
        .outstanding(PULL)
        .iter()
        .map(|pull| pull.request::<PullRequest>().offset.0)
        .collect();
    assert!(next.contains(&700), "{next:?}");
}

// ---- in order, and broadcasting -------------------------------------------------------------------

/// A member of `T` and `U` in order, with one message of `T` at its handler.
fn in_order() -> (Bench, Run) {
    let mut bench = Bench::new(|_, group| {
        group
            .subscribe("T".into(), "a")
            .subscribe("U".into(), "*")
            .set_mode(ConsumeMode::Orderly);
    });
    bench.store("T", 0, 0);
    bench.settle();
    let (pull, _) = bench.expect_pull();
    bench.found(&pull, &messages(&[(0, "a"), (1, "a")]), 2);
    let run = bench.take_runs().remove(0);
    assert_eq!(run.offsets(), [0]);
    bench.drop_requests(PULL);
    (bench, run)
}

const IN_ORDER: Verdict = Verdict::Ordered(OrderlyOutcome::Commit);

#[test]
fn a_changed_filter_keeps_the_lock_and_the_order() {
    let (mut bench, run) = in_order();
    bench.tell(subscribe("T", "b"));
    bench.sleep(secs(2));
    assert_eq!(
        (bench.outstanding(PULL).len(), in_force(&bench).len()),
        (0, 0),
        "its handler runs"
    );
    bench.report(&run, IN_ORDER);
    bench.sleep(ms(1));
    assert_eq!(in_force(&bench), [("T".into(), Some("b".into()))]);
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.offset.0, 1);
    assert_eq!(bench.sent(UNLOCK).len(), 0, "nobody else could have had it");
    bench.found(&pull, &messages(&[(1, "a"), (2, "b"), (3, "b")]), 4);
    assert_eq!(offsets(&bench.take_runs()), [2]);
}

#[test]
fn a_topic_in_order_is_unlocked_behind_its_last_commit() {
    let (mut bench, run) = in_order();
    bench.set_queues("U", &[("a", 1)]);
    bench.sleep(secs(2));
    let beats = bench.sent(BEAT).len();
    bench.tell(unsubscribe("T"));
    bench.sleep(secs(1));
    assert_eq!((bench.sent(UNLOCK).len(), bench.sent(BEAT).len()), (0, beats));
    bench.report(&run, IN_ORDER);
    bench.sleep(ms(1));
    assert_eq!(in_force(&bench), [("T".into(), None)]);
    let sent = bench.all_sent();
    let place = |code| {
        sent.iter()
            .rposition(|asked| asked.code == code)
            .expect("it was sent")
    };
    assert!(place(COMMIT) < place(UNLOCK) && place(COMMIT) < place(BEAT));
    let last: CommitOffsetRequest = sent[place(COMMIT)].request();
    assert_eq!(last.offset.0, 1);
    assert_eq!(last_told(&bench, "T"), None);
}

/// It would have all queues of the topics that it has, which are none.
#[test]
fn a_group_that_broadcasts_is_not_ready_before_its_condition_is_approved_of() {
    let mut bench = Bench::new(|_, group| {
        group
            .set_model(MessageModel::Broadcasting)
            .subscribe("T".into(), "*")
            .subscribe_sql("U".into(), "a > 3");
    });
    bench.set_queues("U", &[("a", 1)]);
    bench.settle();
    bench.sleep(secs(2));
    let is_ready = |bench: &Bench| bench.count_notices(|kind| *kind == NoticeKind::Ready) > 0;
    assert_eq!(
        (bench.status().groups[0].queues.len(), is_ready(&bench)),
        (0, false)
    );
    let check = bench.expect_request(CHECK);
    bench.answer(&check, &Done);
    bench.settle();
    assert!(is_ready(&bench));
    assert_eq!(bench.outstanding(PULL).len(), 2);
    // One that is given back is not waited for either.
    bench.tell(unsubscribe("U"));
    bench.settle();
    assert_eq!(in_force(&bench), [("U".into(), None)]);
    assert_eq!(bench.status().groups[0].queues.len(), 1);
}
