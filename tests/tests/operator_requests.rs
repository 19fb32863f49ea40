//! What brokers ask of a member for an operator: 220, 221, 307 and 309.

use bytes::Bytes;
use rocketmq_consumer_core::action::AppAction;
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig};
use rocketmq_consumer_core::event::{AppEvent, Verdict};
use rocketmq_consumer_core::ids::{ClientId, MessageQueue, QueueOffset, Topic};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::{Command, ExtWriter, Language, VERSION, WriteExt};
use rocketmq_consumer_core::wire::frame::HeaderForm;
use rocketmq_consumer_core::wire::request::AnswerError;
use rocketmq_consumer_core::wire::request::heartbeat::UnregisterRequest;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::operator::{
    ConsumeDirectlyAnswer, ConsumeDirectlyRequest, ConsumerStatusRequest, DirectResult, OffsetTable,
    ResetOffsetRequest, RunningInfoRequest,
};
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_core::wire::request::running_info::{ConsumerRunningInfo, property};
use rocketmq_consumer_testing::world::{Bench, Run, StoredMessage, World, address, ms, queue, records, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;

fn one_queue(stored: i64) -> Bench {
    Bench::owning_one_queue(stored, |_, _| {})
}

fn refusal<A>(answer: Option<Result<A, AnswerError>>) -> (ResponseCode, String) {
    match answer {
        Some(Err(AnswerError::Refused { code, remark })) => (code, remark),
        Some(Err(other)) => panic!("{other}"),
        Some(Ok(_)) => panic!("it was served"),
        None => panic!("nothing was answered"),
    }
}

fn not_served(bench: &Bench) -> usize {
    bench.count_notices(|kind| matches!(kind, NoticeKind::RequestNotServed { .. }))
}

// ---- 220 ------------------------------------------------------------------------------------------

fn reset(topic: &str, to: &[(i32, i64)]) -> ResetOffsetRequest {
    let offsets = to
        .iter()
        .map(|(id, offset)| (queue(topic, "a", *id), QueueOffset(*offset)));
    ResetOffsetRequest {
        group: "G".into(),
        topic: topic.into(),
        timestamp: None,
        force: true,
        offsets: offsets.collect(),
    }
}

fn pulls(bench: &Bench) -> Vec<i64> {
    let pulls = bench.sent(PULL);
    pulls
        .iter()
        .map(|asked| asked.request::<PullRequest>().offset.0)
        .collect()
}

/// The body of a reset as brokers write it: named by queues, or, for an operator whose tool is written in C++, a list.
fn raw_reset(body: &'static str) -> Bytes {
    struct Fields;
    impl WriteExt for Fields {
        fn write_ext(&self, out: &mut ExtWriter<'_>) {
            for (name, value) in [
                ("group", "G"),
                ("topic", "T"),
                ("timestamp", "0"),
                ("isForce", "true"),
            ] {
                out.text(name, value);
            }
            out.text("queueId", "-1");
        }
    }
    let command = Command {
        code: RequestCode::RESET_CONSUMER_CLIENT_OFFSET.0,
        language: Language::Java,
        version: VERSION,
        opaque: 42,
        flag: 2,
        remark: None,
        ext: &Fields,
        body: body.as_bytes(),
    };
    command.encode(HeaderForm::Json).expect("a small frame")
}

#[test]
fn both_forms_of_a_reset_move_the_queue_and_neither_is_answered() {
    for body in [
        r#"{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:300}}"#,
        r#"{"offsetTable":[{"brokerName":"a","offset":300,"queueId":0,"topic":"T"}]}"#,
    ] {
        let mut bench = one_queue(1000);
        let conn = bench.conn_to(&address("a"));
        bench.receive(conn, raw_reset(body));
        assert_eq!(pulls(&bench), [1000, 300], "{body}");
        assert_eq!((bench.answers(), not_served(&bench)), (0, 0), "{body}");
        let moved = |kind: &NoticeKind| {
            let (asked, to) = (QueueOffset(1000), QueueOffset(300));
            kind == &NoticeKind::OffsetReset {
                queue: queue("T", "a", 0),
                asked,
                to,
            }
        };
        assert_eq!(bench.count_notices(moved), 1, "{body}");
    }
}

#[test]
fn queues_that_are_not_ours_and_queues_of_other_topics_stay_where_they_are() {
    let mut bench = one_queue(1000);
    for table in [
        reset("T", &[(1, 5)]),
        reset("T", &[]),
        ResetOffsetRequest {
            topic: "U".into(),
            ..reset("T", &[(0, 5)])
        },
    ] {
        let asked = bench.ask_member("a", &table);
        assert!(
            matches!(bench.take_answer::<ResetOffsetRequest>(asked), Some(Ok(_))),
            "{table:?}"
        );
    }
    assert_eq!((pulls(&bench), not_served(&bench)), (vec![1000], 0));
}

#[test]
fn a_reset_may_come_as_often_as_the_operator_likes() {
    let mut bench = one_queue(1000);
    for to in [300, 0, 2000] {
        bench.tell_member("a", &reset("T", &[(0, to)]));
    }
    assert_eq!(pulls(&bench), [1000, 300, 0, 2000]);
}

/// A broker that has stored nothing of the reset would answer with what was before it.
#[test]
fn a_queue_whose_start_is_being_looked_for_begins_where_the_operator_says() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.withhold(RequestCode::QUERY_CONSUMER_OFFSET);
    bench.settle();
    let question = bench.expect_request(RequestCode::QUERY_CONSUMER_OFFSET);
    bench.tell_member("a", &reset("T", &[(0, 300)]));
    assert_eq!(pulls(&bench), [300]);
    bench.refuse(&question, ResponseCode::QUERY_NOT_FOUND, "none");
    bench.sleep(secs(3));
    assert_eq!(pulls(&bench), [300]);
}

#[test]
fn what_cannot_be_served_is_counted_told_and_refused_with_a_reason() {
    let mut bench = one_queue(0);
    let unknown = ResetOffsetRequest {
        group: "H".into(),
        ..reset("T", &[(0, 3)])
    };
    let asked = bench.ask_member("a", &unknown);
    let words = String::from("The Consumer Group <H> not exist in this consumer");
    assert_eq!(
        refusal(bench.take_answer::<ResetOffsetRequest>(asked)),
        (ResponseCode::SYSTEM_ERROR, words)
    );
    assert_eq!(
        (not_served(&bench), bench.status().counters.refused_requests),
        (1, 1)
    );
    // One-way and malformed: nobody hears, but we say so.
    let conn = bench.conn_to(&address("a"));
    bench.receive(conn, raw_reset(r#"{"offsetTable":{"text":300}}"#));
    bench.receive(
        conn,
        raw_reset(r#"{"offsetTable":[{"brokerName":"a","offset":-7,"queueId":0,"topic":"T"}]}"#),
    );
    assert_eq!(
        (bench.answers(), bench.status().counters.refused_requests),
        (0, 3)
    );
    assert_eq!(pulls(&bench), [0]);
}

#[test]
fn what_nobody_knows_is_refused_unless_nobody_waits() {
    let mut bench = one_queue(0);
    let request = UnregisterRequest {
        client_id: "c1".into(),
        consumer_group: Some("G".into()),
        producer_group: None,
    };
    let asked = bench.ask_member("a", &request);
    let words = String::from("request type 35 not supported");
    assert_eq!(
        refusal(bench.take_answer::<UnregisterRequest>(asked)),
        (ResponseCode::REQUEST_CODE_NOT_SUPPORTED, words)
    );
    bench.tell_member("a", &request);
    assert_eq!(bench.answers(), 0);
}

// ---- 221 ------------------------------------------------------------------------------------------

#[test]
fn progress_is_what_the_next_commit_would_say() {
    let mut bench = one_queue(0);
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..4, 10, 4);
    let run = bench.take_runs().remove(0);
    for (topic, group, want) in [("T", "G", vec![0]), ("U", "G", vec![]), ("T", "H", vec![])] {
        assert_eq!(progress(&mut bench, topic, group), want, "{topic} {group}");
    }
    bench.done(&run);
    assert_eq!(progress(&mut bench, "T", "G"), [4]);
}

fn progress(bench: &mut Bench, topic: &str, group: &str) -> Vec<i64> {
    let request = ConsumerStatusRequest {
        group: group.into(),
        topic: topic.into(),
        client_addr: None,
    };
    let asked = bench.ask_member("a", &request);
    let answer = bench
        .take_answer::<ConsumerStatusRequest>(asked)
        .expect("an answer");
    let offsets: OffsetTable = answer.expect("a table").offsets;
    offsets.values().map(|offset| offset.0).collect()
}

// ---- 307 ------------------------------------------------------------------------------------------

fn running_info(bench: &mut Bench, jstack: bool) -> ConsumerRunningInfo {
    let request = RunningInfoRequest {
        group: "G".into(),
        client_id: "c1".into(),
        jstack,
    };
    let asked = bench.ask_member("a", &request);
    let answer = bench.take_answer::<RunningInfoRequest>(asked).expect("an answer");
    answer.expect("it is served").read().expect("our own body")
}

#[test]
fn a_member_tells_its_queues_and_how_they_are_getting_on() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_concurrency(2);
    });
    bench.sleep(secs(3));
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..3, 1 << 20, 3);
    bench.sleep(ms(500));
    let runs = bench.take_runs();
    bench.report(&runs[0], Verdict::Handled(Outcome::Done));
    bench.sleep(ms(500));
    let info = running_info(&mut bench, false);
    let place = queue("T", "a", 0);
    let of = &info.queues[&place];
    assert_eq!((of.commit_offset, of.dropped), (Some(QueueOffset(2)), false));
    assert_eq!((of.cached_count, of.cached_mib), (1, 1));
    assert_eq!(
        (of.cached_min_offset, of.cached_max_offset),
        (QueueOffset(2), QueueOffset(2))
    );
    // The third message went out when the first two had come back, half a second ago; the pull 1 s ago.
    let ago = |time: Option<rocketmq_consumer_core::time::WallTime>| {
        let now = rocketmq_consumer_testing::world::ORIGIN.as_unix_millis() + 4_000;
        time.map(|time| now - time.as_unix_millis())
    };
    assert_eq!(
        (ago(of.last_consume), ago(of.last_pull)),
        (Some(500), Some(1_000))
    );
    let topic = &info.topics[&Topic::from("T")];
    assert!((topic.ok_tps - 0.5).abs() < 0.001, "{topic:?}");
    assert!((topic.consume_millis - 500.0).abs() < 0.001, "{topic:?}");
    assert!((topic.pull_millis - 3_000.0).abs() < 0.001, "{topic:?}");
    assert!((topic.pull_tps - 0.75).abs() < 0.001, "{topic:?}");
    assert!(info.topics.contains_key(&Topic::from("%RETRY%G")));
    assert_eq!(info.jstack, None);
}

#[test]
fn settings_have_the_names_that_tools_look_for() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_concurrency(7).set_max_reconsume(3);
    });
    let info = running_info(&mut bench, false);
    for (name, value) in [
        (property::NAME_SERVERS, "10.0.1.1:9876;"),
        (property::CONCURRENCY, "7"),
        (property::ORDERLY, "false"),
        (property::CONSUME_TYPE, "CONSUME_PASSIVELY"),
        (property::CLIENT_VERSION, "V5_5_0"),
        (property::STARTED_AT, "1700000000000"),
        ("messageModel", "CLUSTERING"),
        ("consumeFromWhere", "CONSUME_FROM_FIRST_OFFSET"),
        ("consumeThreadMax", "7"),
        ("maxReconsumeTimes", "3"),
        ("pullThresholdForQueue", "1000"),
        ("pullThresholdSizeForQueue", "100"),
        ("consumeTimeout", "15"),
        ("heartbeatBrokerInterval", "30000"),
        ("allocateMessageQueueStrategy", "AVG"),
        ("rocketmqConsumerVersion", env!("CARGO_PKG_VERSION")),
    ] {
        assert_eq!(
            info.properties.get(name).map(String::as_str),
            Some(value),
            "{name}"
        );
    }
    let topics: Vec<_> = info
        .subscriptions
        .iter()
        .map(|data| data.topic.as_str())
        .collect();
    assert_eq!(topics, ["%RETRY%G", "T"]);
}

#[test]
fn who_asks_for_stack_traces_gets_the_status_in_words() {
    let mut bench = one_queue(5);
    let text = running_info(&mut bench, true).jstack.expect("it was asked for");
    for words in [
        "client c1, up",
        "group G is Running: 1 members",
        "queue T/a/0 is Pulling",
        "committed 5",
        "link 10.0.0.1:10911 is Up",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn nobody_is_told_about_a_group_that_is_not_here() {
    let mut bench = one_queue(0);
    let info = RunningInfoRequest {
        group: "H".into(),
        client_id: "c1".into(),
        jstack: true,
    };
    let direct = ConsumeDirectlyRequest {
        group: "H".into(),
        ..direct(&StoredMessage::new(queue("T", "a", 0), 7, "x", ""))
    };
    let asked = [bench.ask_member("a", &info), bench.ask_member("a", &direct)];
    let words = "The Consumer Group <H> not exist in this consumer";
    let answers = [
        refusal(bench.take_answer::<RunningInfoRequest>(asked[0])),
        refusal(bench.take_answer::<ConsumeDirectlyRequest>(asked[1])),
    ];
    for (code, remark) in answers {
        assert_eq!((code, remark.as_str()), (ResponseCode::SYSTEM_ERROR, words));
    }
}

// ---- 309 ------------------------------------------------------------------------------------------

fn direct(message: &StoredMessage) -> ConsumeDirectlyRequest {
    ConsumeDirectlyRequest {
        group: "G".into(),
        client_id: Some("c1".into()),
        message_id: Some("0A0000010000277B0000000000001B58".into()),
        broker: Some("a".into()),
        topic: Some(message.queue.topic.clone()),
        message: records([message]),
    }
}

/// A message that lies in a queue which is nobody's on this bench.
fn message(offset: i64) -> StoredMessage {
    StoredMessage::new(queue("T", "a", 3), offset, "by hand", "")
}

fn directly(bench: &mut Bench, asked: i32) -> Option<Result<ConsumeDirectlyAnswer, AnswerError>> {
    bench.take_answer::<ConsumeDirectlyRequest>(asked)
}

fn ask_directly(bench: &mut Bench, offset: i64) -> (i32, Option<Run>) {
    let asked = bench.ask_member("a", &direct(&message(offset)));
    (asked, bench.take_runs().pop())
}

#[test]
fn a_message_is_handled_once_and_its_result_is_told_in_javas_names() {
    for (verdict, result, remark) in [
        (Verdict::Handled(Outcome::Done), DirectResult::Success, false),
        (Verdict::Handled(Outcome::Retry), DirectResult::Later, false),
        (
            Verdict::Handled(Outcome::RetryAfter(secs(9))),
            DirectResult::Later,
            true,
        ),
        (Verdict::Handled(Outcome::DeadLetter), DirectResult::Later, true),
        (Verdict::Undecodable, DirectResult::ThrowException, true),
        (Verdict::Unsupported, DirectResult::ThrowException, true),
    ] {
        let mut bench = one_queue(0);
        let (asked, run) = ask_directly(&mut bench, 7);
        let run = run.expect("it is handed out at once");
        let MessageQueue { topic, broker, id } = run.batch.queue();
        assert_eq!((topic.as_str(), broker.as_str(), id.0), ("T", "a", 3));
        assert_eq!((run.offsets(), run.attempt), (vec![7], 0));
        assert!(
            directly(&mut bench, asked).is_none(),
            "not before the handler has ended"
        );
        bench.skip(ms(1_234));
        bench.report(&run, verdict);
        let answer = directly(&mut bench, asked)
            .expect("an answer")
            .expect("no refusal");
        assert_eq!(
            (answer.result, answer.spent_millis),
            (Some(result), 1_234),
            "{verdict:?}"
        );
        assert_eq!((answer.order, answer.auto_commit), (false, true));
        assert_eq!(answer.remark.is_some(), remark, "{verdict:?}");
        // Nothing went out for it: no offset, nothing sent back. And the queue is as it was.
        bench.sleep(secs(10));
        let moved = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET);
        let moved = moved
            .iter()
            .map(|asked| asked.request::<CommitOffsetRequest>().offset.0);
        assert!(moved.eq([0, 0]), "the repeats after 5 and 10 s, and nothing else");
        assert!(bench.sent(RequestCode::CONSUMER_SEND_MSG_BACK).is_empty());
        assert_eq!(bench.queue(0).map(|queue| queue.unfinished), Some(0));
        assert_eq!(bench.status().groups[0].permits, (20, 0));
        bench.report(&run, verdict);
        assert_eq!(
            (bench.answers(), bench.status().counters.late_reports),
            (0, 1),
            "once"
        );
    }
}

#[test]
fn a_retried_message_shows_the_topic_it_was_sent_to() {
    let mut bench = one_queue(0);
    let mut message = StoredMessage::new(queue("%RETRY%G", "a", 0), 7, "again", "");
    message.set_property("RETRY_TOPIC", "T");
    bench.ask_member("a", &direct(&message));
    let run = bench.take_runs().remove(0);
    let message = rocketmq_consumer_core::message::Message::new(run.batch, 0).expect("one message");
    assert_eq!(message.topic(), "T");
}

#[test]
fn what_is_no_message_is_refused() {
    let good = message(7);
    let twice = records([&good, &good]);
    for (body, words) in [
        (Bytes::new(), "there is none"),
        (records([&good]).slice(..50), "record size"),
        (twice, "something behind it"),
        (Bytes::from_static(b"\0\0\0\x05abcd"), "too small"),
    ] {
        let mut bench = one_queue(0);
        let asked = bench.ask_member(
            "a",
            &ConsumeDirectlyRequest {
                message: body,
                ..direct(&good)
            },
        );
        let (code, why) = refusal(directly(&mut bench, asked));
        assert!(
            code == ResponseCode::SYSTEM_ERROR && why.contains(words),
            "{why:?}"
        );
        assert!(bench.take_runs().is_empty());
    }
}

#[test]
fn more_than_the_limit_are_refused_until_one_has_ended() {
    for (most, few) in [(0, 0), (1, 1), (3, 3)] {
        let mut bench = Bench::owning_one_queue(0, |_, group| {
            group.set_consume_directly_max(most);
        });
        let mut runs: Vec<Run> = (0..few).filter_map(|n| ask_directly(&mut bench, n).1).collect();
        assert_eq!(runs.len() as i64, few);
        let (asked, none) = ask_directly(&mut bench, 9);
        assert!(none.is_none());
        assert_eq!(refusal(directly(&mut bench, asked)).0, ResponseCode::SYSTEM_BUSY);
        if let Some(run) = runs.pop() {
            bench.done(&run);
            assert!(ask_directly(&mut bench, 10).1.is_some());
        }
    }
}

#[test]
fn it_waits_for_a_permit_and_goes_before_what_the_queues_hold() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_concurrency(1);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..3, 10, 3);
    let first = bench.take_runs().remove(0);
    let (asked, none) = ask_directly(&mut bench, 7);
    assert!(none.is_none(), "the only permit is taken");
    bench.skip(ms(100));
    bench.done(&first);
    let next = bench.take_runs();
    assert_eq!(next.iter().map(Run::offsets).collect::<Vec<_>>(), [[7]]);
    bench.done(&next[0]);
    assert!(matches!(directly(&mut bench, asked), Some(Ok(_))));
    assert_eq!(bench.take_runs()[0].offsets(), [1], "the permit is free again");
}

fn told(bench: &Bench, wanted: impl Fn(&AppAction) -> bool) -> usize {
    bench.told().iter().filter(|action| wanted(action)).count()
}

#[test]
fn an_operator_is_answered_in_time_whatever_the_handler_does() {
    let mut bench = one_queue(0);
    let (asked, run) = ask_directly(&mut bench, 7);
    let run = run.expect("a permit is free");
    bench.sleep(ms(8_999));
    assert!(directly(&mut bench, asked).is_none());
    bench.tell(AppEvent::Extend {
        id: run.id,
        position: 0,
        by: secs(60),
    });
    bench.sleep(ms(1));
    assert_eq!(
        refusal(directly(&mut bench, asked)).0,
        ResponseCode::CONSUME_MSG_TIMEOUT
    );
    let is_cancel =
        |action: &AppAction| matches!(action, AppAction::Cancel { id, position: 0 } if *id == run.id);
    let is_abandon =
        |action: &AppAction| matches!(action, AppAction::Abandon { id, position: 0 } if *id == run.id);
    assert_eq!((told(&bench, is_cancel), told(&bench, is_abandon)), (1, 0));
    assert_eq!(
        bench.status().groups[0].permits,
        (20, 1),
        "a handler that hangs keeps its permit"
    );
    bench.sleep(secs(5));
    assert_eq!(told(&bench, is_abandon), 1);
    bench.done(&run);
    assert_eq!((bench.answers(), bench.status().groups[0].permits), (0, (20, 0)));
    assert_eq!(bench.status().counters.late_reports, 0);
}

#[test]
fn one_that_found_no_permit_in_time_is_never_handed_out() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_concurrency(1);
    });
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..1, 10, 1);
    let busy = bench.take_runs().remove(0);
    let (asked, none) = ask_directly(&mut bench, 7);
    bench.sleep(secs(9));
    let (code, why) = refusal(directly(&mut bench, asked));
    assert!(
        code == ResponseCode::CONSUME_MSG_TIMEOUT && why.contains("no handler was free"),
        "{why}"
    );
    bench.done(&busy);
    assert!(none.is_none() && bench.take_runs().is_empty());
}

#[test]
fn who_leaves_says_so_to_the_operator_and_waits_for_the_handler() {
    let mut bench = one_queue(0);
    let (asked, run) = ask_directly(&mut bench, 7);
    let run = run.expect("a permit is free");
    bench.tell(AppEvent::Shutdown { drain: secs(5) });
    let (late, _) = ask_directly(&mut bench, 8);
    assert_eq!(refusal(directly(&mut bench, late)).0, ResponseCode::SYSTEM_ERROR);
    assert!(!bench.is_closed());
    bench.skip(ms(10));
    bench.done(&run);
    assert!(matches!(directly(&mut bench, asked), Some(Ok(_))));
    bench.sleep(secs(1));
    assert!(bench.is_closed());

    // A handler that hangs, and one that has not begun.
    for hangs in [true, false] {
        let mut bench = one_queue(0);
        let (asked, run) = ask_directly(&mut bench, 7);
        let run = run.expect("a permit is free");
        bench.tell(AppEvent::Shutdown { drain: secs(5) });
        if hangs {
            bench.sleep(secs(5));
        } else {
            bench.report(&run, Verdict::NotStarted);
        }
        assert_eq!(refusal(directly(&mut bench, asked)).0, ResponseCode::SYSTEM_ERROR);
        bench.sleep(secs(1));
        assert!(bench.is_closed());
        assert_eq!(
            bench.report_of_end().map(|report| report.abandoned),
            Some(u64::from(hangs))
        );
    }
}

#[test]
fn an_operator_who_has_hung_up_is_not_answered() {
    let mut bench = one_queue(0);
    let (_, run) = ask_directly(&mut bench, 7);
    let conn = bench.conn_to(&address("a"));
    bench.close(conn);
    bench.settle();
    bench.done(&run.expect("a permit is free"));
    assert_eq!(bench.answers(), 0);
}

/// The settings that the tests above rely on.
#[test]
fn defaults_fit_a_broker_that_waits_ten_seconds() {
    let group = GroupConfig::new("G".into());
    assert_eq!(
        (group.consume_directly_max(), group.consume_directly_deadline()),
        (&2, &secs(9))
    );
    assert_eq!(
        ClientConfig::new("c".into(), vec![]).header_form(),
        &HeaderForm::Json
    );
}

// ---- members ask each other -----------------------------------------------------------------------

/// Members of ours tell each other what they subscribe to, so who differs from the others is named.
#[test]
fn the_one_of_three_that_subscribes_differently_is_named() {
    let mut w = World::new().topic("T1", &[("a", 4)]).topic("T2", &[("a", 4)]);
    for (id, topic) in [("c1", "T1"), ("c2", "T1"), ("c3", "T2")] {
        w.join(id, |setup| {
            setup.subscribe(topic, "*");
        });
    }
    w.run_for(secs(180));
    let mut told = 0;
    for id in ["c1", "c2"] {
        for notice in w.notices(id) {
            if let NoticeKind::SubscriptionsDiffer { member, theirs, .. } = &notice.kind {
                assert_eq!(
                    member.as_ref().map(ClientId::as_str),
                    Some("c3"),
                    "{id}: {theirs:?}"
                );
                told += 1;
            }
        }
    }
    assert!(told > 0, "the condition is there");
    w.assert_no_rule_broken();
    w.assert_replays();
}
