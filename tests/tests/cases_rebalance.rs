//! Real bugs of other clients in rebalance, one test each; `cases` tells their stories.

use std::sync::Arc;

use rocketmq_consumer_core::action::{AppAction, RefusalReason};
use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::{ClientId, Topic};
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::QueueState;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::heartbeat::{HeartbeatRequest, SubscriptionData};
use rocketmq_consumer_core::wire::request::members::MemberList;
use rocketmq_consumer_core::wire::request::offsets::{CommitOffsetRequest, QueryOffsetRequest};
use rocketmq_consumer_core::wire::request::operator::RunningInfoRequest;
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::running_info::ConsumerRunningInfo;
use rocketmq_consumer_core::wire::request::stats::{Connection, ConsumerConnections};
use rocketmq_consumer_core::wire::subscription::Subscription;
use rocketmq_consumer_testing::world::{Asked, Bench, Dial, World, address, ms, queue, secs};

const LIST: RequestCode = RequestCode::GET_CONSUMER_LIST_BY_GROUP;
const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const COMMIT: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const QUERY: RequestCode = RequestCode::QUERY_CONSUMER_OFFSET;
const BEAT: RequestCode = RequestCode::HEART_BEAT;

/// A member of `T`, before anything was answered.
fn member(queues: &[(&str, u32)], members: &[&str]) -> Bench {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_queues("T", queues);
    bench.set_members(members);
    bench
}

fn committed(asked: &Asked) -> i64 {
    asked.request::<CommitOffsetRequest>().offset.0
}

/// The version of the subscription to `T` that a heartbeat carries.
fn version(beat: &Asked) -> i64 {
    let data: HeartbeatRequest = beat.request();
    let subscriptions = data.consumers.iter().flat_map(|group| &group.subscriptions);
    let of_t = subscriptions.filter(|subscription| subscription.topic.as_str() == "T");
    let versions: Vec<i64> = of_t.map(|s| s.sub_version.as_unix_millis()).collect();
    assert_eq!(versions.len(), 1);
    versions[0]
}

/// Variant B. That default ids differ is the face's promise: the core is given its id.
#[test]
fn rb_01_a_shared_client_id_is_reported_at_every_rebalance_and_leaves_no_queue_without_reader() {
    // Both instances see the same list and so do the same: one stands for the other.
    let mut bench = member(&[("a", 4), ("b", 4)], &["c1", "c1"]);
    bench.idle(secs(61));
    let owned = bench.status().groups[0].queues.len();
    assert_eq!(owned, 8, "the shares of both places");
    let rounds = bench.sent(LIST).len();
    let told = bench.count_notices(|kind| matches!(kind, NoticeKind::OwnIdRepeated { times: 2, .. }));
    assert!(rounds >= 4, "{rounds}");
    assert_eq!(told, rounds, "said at every rebalance");
}

/// Only a broker lists connections: that a name server was dialled again excuses nothing.
#[test]
fn a_name_server_that_came_back_hides_no_shared_id() {
    let mut bench = member(&[("a", 4)], &["c1", "c1"]);
    bench.dials(Dial::Refuse);
    bench.sleep(secs(2));
    bench.dials(Dial::Accept);
    bench.sleep(secs(5));
    let told = bench.count_notices(|kind| matches!(kind, NoticeKind::OwnIdRepeated { .. }));
    assert_eq!(told, bench.sent(LIST).len());
    assert!(told > 0);
}

#[test]
fn rb_02_a_second_consumer_of_a_group_on_one_client_is_refused() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let mut twin = GroupConfig::new("G".into());
    twin.subscribe("T".into(), "*");
    bench.tell(AppEvent::StartGroup(Arc::new(twin)));
    let refused = bench.told().iter().any(|action| {
        matches!(action, AppAction::Refused(refusal) if refusal.why == RefusalReason::AlreadyRegistered)
    });
    assert!(refused, "{:?}", bench.told());
    assert_eq!(bench.status().groups.len(), 1);
    // The first one keeps working, alone on its queue.
    assert_eq!(bench.outstanding(PULL).len(), 1);
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [0], 10, 1);
    assert_eq!(bench.take_runs().len(), 1);
}

#[test]
fn rb_04_an_id_missing_from_the_list_has_no_share_and_beats_at_once() {
    let queues: Vec<_> = (0..4).map(|id| queue("T", "a", id)).collect();
    let listed = [ClientId::from("c1"), ClientId::from("c2")];
    let strategy = AllocateStrategy::Averagely;
    assert_eq!(strategy.allocate(&queues, &listed, &"c9".into()), Ok(vec![]));

    let mut bench = member(&[("a", 4)], &["b1", "b2"]);
    bench.settle();
    assert!(
        bench.status().groups[0].queues.is_empty(),
        "not the share of the first place"
    );
    let told = bench.count_notices(|kind| matches!(kind, NoticeKind::NotInMemberList { .. }));
    assert_eq!(told, 1);
    let beats = bench.sent(BEAT);
    assert!(beats.len() > 1, "another heartbeat, at the same moment");
    assert!(beats.iter().all(|beat| beat.at == bench.now()));
    // Once it is listed it takes its share.
    bench.set_members(&["b1", "c1"]);
    bench.sleep(secs(2));
    assert_eq!(bench.status().groups[0].queues.len(), 2);
}

#[test]
fn rb_06_quick_drop_and_re_add_leaves_one_pull_loop() {
    let mut bench = Bench::owning_one_queue(100, |_, group| {
        group.set_concurrency(100);
    });
    let mut delivered = Vec::new();
    let mut old = Vec::new();
    for _ in 0..5 {
        assert_eq!(bench.outstanding(PULL).len(), 1);
        old.push(bench.expect_pull().0);
        bench.set_members(&["c0", "c1"]);
        bench.notify("a");
        bench.sleep(ms(50));
        assert_eq!(bench.queue(0), None, "given back");
        assert!(bench.outstanding(PULL).is_empty(), "no pull without an owner");
        bench.set_members(&["c1"]);
        bench.notify("a");
        bench.sleep(ms(50));
        assert_eq!(bench.outstanding(PULL).len(), 1, "one pull of the new ownership");
    }
    let stale = bench.status().counters.stale_answers;
    let (before, commits) = (bench.queue(0), bench.sent(COMMIT).len());
    for pull in &old {
        bench.found_at(pull, 100..132, 10, 132);
        assert!(bench.take_runs().is_empty(), "an answer of an earlier ownership");
        assert_eq!(bench.queue(0), before);
        assert_eq!(bench.sent(COMMIT).len(), commits);
        assert_eq!(bench.outstanding(PULL).len(), 1);
    }
    assert_eq!(bench.status().counters.stale_answers, stale + 5);
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.offset.0, 100);
    bench.found_at(&pull, 100..132, 10, 132);
    for run in bench.take_runs() {
        delivered.extend(run.offsets());
    }
    assert_eq!(delivered, Vec::from_iter(100..132), "each exactly once");
    let pulls = bench.outstanding(PULL);
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0].request::<PullRequest>().offset.0, 132);
    bench.machine().assert_replays();
}

#[test]
fn rb_08_rebalances_wanted_at_once_are_one_round_at_a_time() {
    let mut bench = member(&[("a", 2), ("b", 2)], &["c1"]);
    bench.settle();
    bench.withhold(LIST);
    let asked_before = bench.sent(LIST).len();
    // The timer of the safety net, and both brokers' notifications, in one batch.
    bench.skip(secs(20));
    bench.notify("a");
    bench.notify("b");
    bench.sleep(ms(50));
    assert_eq!(bench.outstanding(LIST).len(), 1, "one question for all three");
    bench.notify("a");
    bench.notify("b");
    bench.sleep(secs(1));
    assert_eq!(
        bench.sent(LIST).len(),
        asked_before + 1,
        "the next round waits for this one"
    );
    let first = bench.expect_request(LIST);
    let both = MemberList {
        client_ids: vec!["c1".into(), "c2".into()],
    };
    bench.answer(&first, &both);
    bench.sleep(secs(2));
    let second = bench.expect_request(LIST);
    let alone = MemberList {
        client_ids: vec!["c1".into()],
    };
    bench.answer(&second, &alone);
    // What comes late, or again, is nobody's.
    bench.answer(&first, &both);
    bench.sleep(secs(1));
    bench.serve(LIST);
    bench.idle(secs(21));
    let status = bench.status();
    assert_eq!(status.groups[0].queues.len(), 4);
    let mut pulled: Vec<_> = bench
        .outstanding(PULL)
        .into_iter()
        .map(|pull| (pull.to.clone(), pull.request::<PullRequest>().queue.0))
        .collect();
    pulled.sort();
    let (a, b) = (address("a"), address("b"));
    assert_eq!(pulled, [(a.clone(), 0), (a, 1), (b.clone(), 0), (b, 1)]);
    for queue in &status.groups[0].queues {
        assert_eq!(
            (queue.state, queue.hold),
            (QueueState::Pulling, None),
            "{queue:?}"
        );
    }
}

#[test]
fn rb_10_a_changed_share_is_told_to_every_broker_before_its_first_pull() {
    let mut bench = member(&[("a", 2), ("b", 0)], &["c1", "c2"]);
    bench.sleep(secs(2));
    assert_eq!(bench.status().groups[0].queues.len(), 1);
    let old = version(bench.sent(BEAT).last().expect("it has beaten"));
    let told_before = bench.sent(BEAT).len();
    // From now on an acknowledgement takes its time.
    bench.withhold(BEAT);
    bench.set_members(&["c1"]);
    bench.notify("a");
    bench.sleep(ms(50));
    let beats: Vec<_> = bench.sent(BEAT)[told_before..].to_vec();
    let mut told: Vec<_> = beats.iter().map(|beat| beat.to.clone()).collect();
    told.sort();
    assert_eq!(told, [address("a"), address("b")], "every broker, at once");
    assert!(
        beats
            .iter()
            .all(|beat| version(beat) > old && beat.at == bench.now())
    );
    let of_new = |bench: &Bench| {
        let pulls = bench.sent(PULL);
        pulls
            .iter()
            .filter(|pull| pull.request::<PullRequest>().queue.0 == 1)
            .count()
    };
    bench.sleep(ms(500));
    assert_eq!(of_new(&bench), 0, "not before the broker knows");
    bench.serve(BEAT);
    assert_eq!(of_new(&bench), 1);
    let pull = bench.sent(PULL);
    let request: PullRequest = pull.last().expect("it was sent").request();
    assert!(request.sub_version.as_unix_millis() > old);
}

#[test]
fn rb_13_queues_added_to_a_topic_are_owned_and_begin_with_their_stored_offsets() {
    let mut bench = member(&[("a", 4)], &["c1"]);
    bench.settle();
    let owned = |bench: &Bench| -> Vec<i32> {
        let queues = bench.status().groups.remove(0).queues.into_iter();
        let of_t = queues.filter(|status| status.queue.topic.as_str() == "T");
        let mut ids: Vec<i32> = of_t.map(|status| status.queue.id.0).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(owned(&bench), [0, 1, 2, 3]);
    bench.set_queues("T", &[("a", 8)]);
    bench.store("T", 5, 77);
    let (asked, pulled) = (bench.sent(QUERY).len(), bench.sent(PULL).len());
    bench.idle(secs(31));
    assert_eq!(owned(&bench), [0, 1, 2, 3, 4, 5, 6, 7]);
    let asked: Vec<i32> = bench.sent(QUERY)[asked..]
        .iter()
        .map(|asked| asked.request::<QueryOffsetRequest>().queue.queue.0)
        .collect();
    assert_eq!(asked, [4, 5, 6, 7], "those that were ours stay as they are");
    let pulls: Vec<PullRequest> = bench.sent(PULL)[pulled..]
        .iter()
        .map(|pull| pull.request())
        .collect();
    for (id, from) in [(4, 0), (5, 77), (6, 0), (7, 0)] {
        let first = pulls
            .iter()
            .find(|pull| pull.queue.0 == id)
            .expect("it is pulled");
        assert_eq!(first.offset.0, from, "queue {id}");
    }
}

#[test]
fn rb_15_a_slow_heartbeat_neither_closes_the_link_nor_starts_a_storm() {
    let mut bench = member(&[("a", 16)], &["c1"]);
    bench.settle();
    let conn = bench.conn_to(&address("a"));
    bench.withhold(BEAT);
    let beats = bench.sent(BEAT).len();
    for _ in 0..40 {
        assert_eq!(bench.outstanding(PULL).len(), 16);
        let (pull, request) = bench.expect_pull();
        bench.nothing(&pull, PullStatus::NotFound, request.offset.0);
        bench.sleep(secs(1));
    }
    assert_eq!(bench.conn_to(&address("a")), conn, "bytes arrive, so it stays");
    assert!(
        bench.sent(BEAT).len() > beats + 1,
        "counted as failed and tried again"
    );
    assert_eq!(
        bench.count_notices(|kind| matches!(kind, NoticeKind::LinkDown { .. })),
        0
    );

    let rounds = bench.sent(LIST).len();
    let until = bench.now() + secs(5);
    while bench.now() < until {
        bench.notify("a");
        bench.sleep(ms(20));
    }
    let rounds = bench.sent(LIST).len() - rounds;
    assert!(
        (1..=6).contains(&rounds),
        "{rounds} rounds in 5 s of notifications"
    );
}

#[test]
fn rb_20_a_queue_that_comes_back_starts_from_the_brokers_offset() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_concurrency(500);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..500, 10, 500);
    for run in bench.take_runs() {
        bench.done(&run);
    }
    bench.sleep(secs(5));
    assert_eq!(bench.sent(COMMIT).last().map(|asked| committed(asked)), Some(500));
    let before = bench.sent(COMMIT).len();
    bench.set_members(&["c0", "c1"]);
    bench.notify("a");
    bench.sleep(ms(50));
    assert_eq!(bench.queue(0), None);
    let last: Vec<_> = bench.sent(COMMIT)[before..]
        .iter()
        .map(|asked| committed(asked))
        .collect();
    assert_eq!(last, [500], "a final commit");
    let (before, asked) = (bench.sent(COMMIT).len(), bench.sent(QUERY).len());
    let pulls = bench.sent(PULL).len();
    // Somebody else goes on to 900.
    bench.store("T", 0, 900);
    bench.idle(secs(30));
    bench.set_members(&["c1"]);
    bench.notify("a");
    bench.idle(secs(61));
    assert_eq!(bench.sent(QUERY).len(), asked + 1, "the broker is asked");
    let first: PullRequest = bench.sent(PULL)[pulls].request();
    assert_eq!(
        (first.offset.0, first.commit.map(|offset| offset.0)),
        (900, Some(900))
    );
    assert!(
        bench.sent(COMMIT)[before..]
            .iter()
            .all(|asked| committed(asked) == 900)
    );
    assert!(bench.sent(COMMIT).len() > before);
}

// ---- members that subscribe differently -----------------------------------------------------------

type Expressions = Vec<(Topic, String)>;

/// Who was named, and how the subscriptions differ: theirs and ours.
fn dissent(kind: &NoticeKind) -> Option<(Option<&str>, Expressions, Expressions)> {
    if let NoticeKind::SubscriptionsDiffer { member, theirs, ours } = kind {
        Some((
            member.as_ref().map(ClientId::as_str),
            theirs.clone(),
            ours.clone(),
        ))
    } else {
        None
    }
}

fn all_of(topic: &str) -> Expressions {
    vec![(topic.into(), "*".into())]
}

#[test]
fn rb_12_members_that_subscribe_to_different_topics_are_named() {
    let mut w = World::new().topic("T1", &[("a", 4)]).topic("T2", &[("a", 4)]);
    for (topic, id) in [
        ("T1", 0),
        ("T1", 1),
        ("T1", 2),
        ("T1", 3),
        ("T2", 0),
        ("T2", 1),
        ("T2", 2),
        ("T2", 3),
    ] {
        w.produce(topic, "a", id, 2);
    }
    w.join("c1", |setup| {
        setup.subscribe("T1", "*");
    });
    w.join("c2", |setup| {
        setup.subscribe("T2", "*");
    });
    w.run_for(secs(120));
    for (member, other, ours, theirs) in [("c1", "c2", "T1", "T2"), ("c2", "c1", "T2", "T1")] {
        let notices = w.notices(member);
        let told: Vec<_> = notices
            .iter()
            .filter_map(|notice| dissent(&notice.kind))
            .collect();
        assert!((1..=3).contains(&told.len()), "{member}: {told:?}");
        let last = told.last().cloned();
        assert_eq!(
            last,
            Some((Some(other), all_of(theirs), all_of(ours))),
            "{member}"
        );
    }
    // Half of the queues belong to a member that does not want them: nobody says that they were consumed.
    let mut unowned = 0;
    for topic in ["T1", "T2"] {
        let owned: Vec<_> = ["c1", "c2"]
            .iter()
            .flat_map(|member| w.queues(member, topic))
            .collect();
        for id in 0..4 {
            let queue = queue(topic, "a", id);
            let ever = ["c1", "c2"]
                .iter()
                .any(|member| !w.offsets(member, &queue).is_empty());
            if !owned.contains(&queue) && !ever {
                unowned += 1;
                assert_eq!(w.stored_offset("G", &queue).unwrap_or(0), 0, "{queue}");
            }
        }
    }
    assert!(unowned > 0, "the condition is there");
}

/// A pull that is refused with 24 now and again.
fn refused(bench: &mut Bench, times: u64) {
    for _ in 0..times {
        let (pull, _) = bench.expect_pull();
        bench.refuse(&pull, ResponseCode::SUBSCRIPTION_NOT_EXIST, "unknown");
        bench.sleep(secs(1));
    }
}

fn subscription(topic: &str, expression: &str) -> SubscriptionData {
    let parsed = Subscription::tagged(topic.into(), expression).expect("a good expression");
    SubscriptionData {
        topic: parsed.topic,
        expression: parsed.expression,
        expression_type: None,
        tags: parsed.tags,
        codes: parsed.codes,
        sub_version: rocketmq_consumer_core::time::WallTime::default(),
        class_filter_mode: false,
    }
}

fn connections(ids: &[&str]) -> ConsumerConnections {
    let connection = |id: &&str| Connection {
        client_addr: String::new(),
        client_id: (*id).into(),
        language: String::new(),
        version: 0,
    };
    ConsumerConnections {
        connections: ids.iter().map(connection).collect(),
        subscriptions: [("U".into(), subscription("U", "*"))].into(),
        ..ConsumerConnections::default()
    }
}

/// The broker can only say who is there; the members say what they want.
#[test]
fn rb_12_of_many_members_the_one_that_differs_is_named() {
    const WHO: RequestCode = RequestCode::GET_CONSUMER_CONNECTION_LIST;
    const HOW: RequestCode = RequestCode::GET_CONSUMER_RUNNING_INFO;
    let mut bench = Bench::owning_one_queue(1, |_, _| {});
    refused(&mut bench, 1);
    assert!(
        bench.sent(WHO).is_empty(),
        "a broker that was started again says so once"
    );
    refused(&mut bench, 2);
    assert_eq!(bench.sent(WHO).len(), 1, "seldom");
    let asked = bench.expect_request(WHO);
    let beat = bench.sent(BEAT).into_iter().rfind(|beat| beat.at == asked.at);
    assert!(
        beat.is_some_and(|beat| beat.opaque > asked.opaque),
        "before our heartbeat hides it"
    );
    bench.answer(&asked, &connections(&["c1", "c2", "c3", "c3", "c4"]));
    let questions: Vec<Asked> = bench.outstanding(HOW).into_iter().cloned().collect();
    let of = |asked: &Asked| asked.request::<RunningInfoRequest>().client_id.to_string();
    assert_eq!(questions.iter().map(of).collect::<Vec<_>>(), ["c2", "c3", "c4"]);
    for (asked, topic) in questions.iter().zip(["T", "U"]) {
        let info = ConsumerRunningInfo {
            subscriptions: vec![subscription(topic, "*"), subscription("%RETRY%G", "*")],
            ..ConsumerRunningInfo::default()
        };
        bench.answer(asked, &info.to_answer());
    }
    bench.refuse(
        &questions[2],
        ResponseCode::REQUEST_CODE_NOT_SUPPORTED,
        "an old one",
    );
    let told: Vec<_> = bench
        .notices()
        .iter()
        .filter_map(|notice| dissent(&notice.kind))
        .collect();
    assert_eq!(told, [(Some("c3"), all_of("U"), all_of("T"))]);

    // A minute later once more; this time nobody tells, so it is one of them.
    let before = bench.now();
    while bench.outstanding(WHO).is_empty() {
        refused(&mut bench, 1);
    }
    assert!(bench.now() >= before + secs(50));
    let asked = bench.expect_request(WHO);
    bench.answer(&asked, &connections(&["c2", "c3"]));
    let questions = bench.drop_requests(HOW);
    for asked in questions.iter().rev().take(2) {
        bench.refuse(asked, ResponseCode::SYSTEM_ERROR, "gone");
    }
    let told: Vec<_> = bench
        .notices()
        .iter()
        .filter_map(|notice| dissent(&notice.kind))
        .collect();
    assert_eq!(told.last(), Some(&(None, all_of("U"), all_of("T"))));
}
