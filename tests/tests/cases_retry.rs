//! Real bugs of other clients in retries, one test each, and what follows a send back that is refused.

use std::time::Duration;

use rocketmq_consumer_core::config::{GroupConfig, SendBackFallback};
use rocketmq_consumer_core::event::{AppEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueId, QueueOffset};
use rocketmq_consumer_core::message::{Message, Outcome};
use rocketmq_consumer_core::notice::{NoticeKind, RetryPath};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::properties::{Properties, name};
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_core::wire::request::send::{SendAnswer, SendRequest, SendStatus};
use rocketmq_consumer_core::wire::request::send_back::{Delay, SendBackRequest};
use rocketmq_consumer_testing::world::{
    Asked, Bench, Delivery, Handling, Run, StoredMessage, World, address, ms, queue, secs,
};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const BACK: RequestCode = RequestCode::CONSUMER_SEND_MSG_BACK;
const SEND: RequestCode = RequestCode::SEND_MESSAGE_V2;
const COMMIT: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const BROKEN: ResponseCode = ResponseCode::SYSTEM_ERROR;
const RETRY: Verdict = Verdict::Handled(Outcome::Retry);

/// A machine that has been given messages at these offsets, in one run.
fn delivered(offsets: std::ops::Range<i64>, set_up: impl FnOnce(&mut GroupConfig)) -> (Bench, Run) {
    let mut bench = Bench::owning_one_queue(offsets.start, |_, group| {
        group.set_send_back_retries(0);
        set_up(group);
    });
    let (pull, _) = bench.expect_pull();
    let next = offsets.end;
    bench.found_at(&pull, offsets, 3, next);
    let mut runs = bench.take_runs();
    assert_eq!(runs.len(), 1);
    (bench, runs.remove(0))
}

fn one(bench: &mut Bench, run: &Run, index: u32, verdict: Verdict) {
    let start = run.range.start + index;
    let range = RunRange {
        start,
        end: start + 1,
    };
    bench.report_part(run, range, verdict);
}

fn lowest(bench: &Bench) -> i64 {
    let queue = bench.queue(0).expect("it is owned");
    queue.lowest_unfinished.expect("its start is known").0
}

/// Every offset that was sent to be stored, alone or with a pull.
fn highest_commit(bench: &Bench) -> Option<i64> {
    let offset = |asked: &Asked| match asked.code {
        COMMIT => {
            use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
            Some(asked.request::<CommitOffsetRequest>().offset.0)
        }
        PULL => Some(asked.request::<PullRequest>().commit?.0),
        _ => None,
    };
    bench.all_sent().iter().filter_map(offset).max()
}

fn stored() -> SendAnswer {
    SendAnswer {
        status: SendStatus::Stored,
        message_id: "0".into(),
        queue: QueueId(0),
        offset: Some(QueueOffset(0)),
        transaction_id: None,
    }
}

/// Paths and levels that were told.
fn told(bench: &Bench) -> Vec<(i64, RetryPath, i32)> {
    let retry = |kind: &NoticeKind| {
        if let NoticeKind::Retry {
            offset, path, level, ..
        } = kind
        {
            Some((offset.0, *path, *level))
        } else {
            None
        }
    };
    bench
        .notices()
        .iter()
        .filter_map(|notice| retry(&notice.kind))
        .collect()
}

/// The copy that is asked for next, once its send back was refused.
fn refused_to_copy(bench: &mut Bench) -> (Asked, SendRequest) {
    let back = bench.expect_request(BACK);
    bench.refuse(&back, BROKEN, "look message by offset failed");
    let copy = bench.expect_request(SEND);
    let request = copy.request();
    (copy, request)
}

fn property(copy: &SendRequest, name: &str) -> Option<String> {
    let text = copy.properties.as_deref().unwrap_or_default();
    Properties::new(text.as_bytes()).get(name).map(Into::into)
}

#[test]
fn of_07_a_send_back_that_fails_holds_the_offset_and_comes_again_here() {
    for fallback in [SendBackFallback::Local, SendBackFallback::Produce] {
        let (mut bench, run) = delivered(10..13, |group| {
            group.set_send_back_fallback(fallback);
        });
        bench.report(&run, RETRY);
        for index in 0..3 {
            let back = bench.expect_request(BACK);
            if index == 1 {
                bench.refuse(&back, BROKEN, "the disk is full");
            } else {
                bench.answer(&back, &Done);
            }
        }
        if fallback == SendBackFallback::Produce {
            let copy = bench.expect_request(SEND);
            bench.refuse(
                &copy,
                ResponseCode::NO_PERMISSION,
                "the broker cannot be written to",
            );
        }
        assert_eq!(lowest(&bench), 11);
        bench.sleep(ms(4_999));
        assert!(bench.take_runs().is_empty());
        bench.sleep(ms(1));
        let again = bench.take_runs().remove(0);
        assert_eq!((again.offsets(), again.attempt), (vec![11], 1));
        assert!(highest_commit(&bench) <= Some(11), "a crash now loses nothing");
        assert!(bench.sent(SEND).len() == usize::from(fallback == SendBackFallback::Produce));
        bench.done(&again);
        assert_eq!(lowest(&bench), 13);
    }
}

#[test]
fn rt_01_a_retried_message_shows_its_own_topic_and_goes_back_by_its_new_place() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_queues("%RETRY%G", &[("a", 1)]);
    bench.store("T", 0, 0);
    bench.store("%RETRY%G", 0, 0);
    bench.settle();
    let retry_queue = queue("%RETRY%G", "a", 0);
    let with = |queue, offset, topic: Option<&str>| {
        let mut message = StoredMessage::new(queue, offset, "x", "");
        message.physical_offset = PhysicalOffset(4_711 + offset);
        message
            .properties
            .extend(topic.map(|topic| (name::RETRY_TOPIC.into(), topic.into())));
        message
    };
    let mut topics = Vec::new();
    for _ in 0..2 {
        let (pull, request) = bench.expect_pull();
        if request.topic.as_str() == "T" {
            bench.found(&pull, &[with(queue("T", "a", 0), 0, Some("X"))], 1);
        } else {
            let messages = [
                with(retry_queue.clone(), 0, Some("T")),
                with(retry_queue.clone(), 1, None),
            ];
            bench.found(&pull, &messages, 2);
        }
    }
    let runs = bench.take_runs();
    for run in &runs {
        for position in run.range.start..run.range.end {
            let message = Message::new(run.batch.clone(), position).expect("it is in the run");
            topics.push((message.stored_topic().to_owned(), message.topic().into_owned()));
        }
    }
    topics.sort();
    let pair = |stored: &str, shown: &str| (stored.to_owned(), shown.to_owned());
    assert_eq!(
        topics,
        [
            pair("%RETRY%G", "%RETRY%G"),
            pair("%RETRY%G", "T"),
            pair("T", "T")
        ]
    );
    let of_retry = runs.iter().find(|run| run.batch.queue() == &retry_queue);
    one(&mut bench, of_retry.expect("it was delivered"), 0, RETRY);
    let back: SendBackRequest = bench.expect_request(BACK).request();
    let topic = back.topic.as_ref().map(|topic| topic.as_str());
    assert_eq!(
        (back.group.as_str(), back.offset.0, topic),
        ("G", 4_711, Some("T"))
    );
}

#[test]
fn rt_03_a_copy_keeps_the_delay_that_was_asked_for() {
    for (outcome, level) in [
        (Outcome::RetryAfter(secs(60)), "5"),
        (Outcome::Retry, "3"),
        (Outcome::RetryAfter(Duration::MAX), "18"),
    ] {
        let (mut bench, run) = delivered(10..11, |_| {});
        bench.report(&run, Verdict::Handled(outcome));
        let (asked, copy) = refused_to_copy(&mut bench);
        let message = Message::new(run.batch.clone(), run.range.start).expect("it is there");
        assert_eq!(property(&copy, name::DELAY_LEVEL).as_deref(), Some(level));
        assert_eq!(property(&copy, name::RETRY_TOPIC).as_deref(), Some("T"));
        assert_eq!(property(&copy, name::RECONSUME_TIME).as_deref(), Some("1"));
        assert_eq!(property(&copy, name::MAX_RECONSUME_TIMES).as_deref(), Some("16"));
        assert_eq!(
            property(&copy, name::ORIGIN_MESSAGE_ID).as_deref(),
            Some(&*message.msg_id())
        );
        let times = (copy.reconsume_times, copy.max_reconsume_times);
        assert_eq!((copy.topic.as_str(), times), ("%RETRY%G", (Some(1), Some(16))));
        assert_eq!((&copy.body, copy.queue), (&message.stored_body(), None));
        bench.answer(&asked, &stored());
        assert_eq!(lowest(&bench), 11);
        let level: i32 = level.parse().expect("a number");
        assert_eq!(told(&bench), [(10, RetryPath::Produced, level)]);
        bench.sleep(secs(60));
        assert!(bench.take_runs().is_empty() && bench.sent(BACK).len() == 1);
    }
}

#[test]
fn rt_03_no_ordinary_retry_is_made_of_a_dead_letter() {
    let (mut bench, run) = delivered(10..11, |group| {
        group.set_max_reconsume(4);
    });
    bench.report(&run, Verdict::Handled(Outcome::DeadLetter));
    let (_, copy) = refused_to_copy(&mut bench);
    // Tried once too often: its broker buries it.
    assert_eq!(
        (copy.reconsume_times, copy.max_reconsume_times),
        (Some(5), Some(4))
    );
    assert_eq!(property(&copy, name::DELAY_LEVEL), None);
}

#[test]
fn rt_04_every_request_that_a_proxy_must_route_names_its_broker() {
    let (mut bench, run) = delivered(10..11, |_| {});
    bench.report(&run, RETRY);
    refused_to_copy(&mut bench);
    bench.sleep(secs(6));
    for (code, field) in [
        (BACK, "bname"),
        (PULL, "bname"),
        (RequestCode::QUERY_CONSUMER_OFFSET, "bname"),
        (COMMIT, "bname"),
        (SEND, "n"),
    ] {
        let asked = bench.sent(code);
        assert!(!asked.is_empty(), "{code:?}");
        for asked in asked {
            let header = rocketmq_consumer_core::wire::command::Header::of(&asked.frame).expect("a header");
            assert_eq!(header.ext.get(field), Some("a"), "{code:?}");
        }
    }
}

#[test]
fn rt_06_what_may_be_stored_is_not_stored_again() {
    // An answer within five seconds counts.
    let (mut bench, run) = delivered(9..10, |_| {});
    bench.report(&run, RETRY);
    let back = bench.expect_request(BACK);
    bench.sleep(ms(4_900));
    bench.answer(&back, &Done);
    bench.sleep(secs(30));
    assert_eq!((lowest(&bench), bench.take_runs().len()), (10, 0));

    // One that never comes, or is lost with its link, leads to one delivery here and to no copy.
    for closes in [false, true] {
        let (mut bench, run) = delivered(9..10, |group| {
            group.set_send_back_retries(2);
        });
        bench.report(&run, RETRY);
        let back = bench.expect_request(BACK);
        if closes {
            bench.close(bench.conn_to(&address("a")));
        } else {
            bench.sleep(secs(5));
            bench.answer(&back, &Done);
        }
        assert_eq!(
            (lowest(&bench), told(&bench)),
            (9, vec![(9, RetryPath::Local, 0)])
        );
        bench.sleep(secs(60));
        let runs = bench.take_runs();
        assert_eq!(runs.len(), 1, "one delivery is under way");
        assert_eq!((bench.sent(BACK).len(), bench.sent(SEND).len()), (1, 0));
        assert!(highest_commit(&bench) <= Some(9));
        bench.done(&runs[0]);
        assert_eq!(lowest(&bench), 10);
    }
}

/// The same for a copy: after one that may be stored there is no second one.
#[test]
fn a_copy_goes_to_another_broker_first_and_to_one_only_once_it_may_be_stored() {
    let with_three = || {
        let mut bench = Bench::new(|_, group| {
            group.subscribe("T".into(), "*").set_send_back_retries(0);
        });
        bench.set_queues("%RETRY%G", &[("a", 1), ("b", 1), ("c", 1)]);
        bench.store("T", 0, 0);
        bench.settle();
        let pull = bench.drop_requests(PULL).into_iter();
        let mut of_t = pull.filter(|asked| asked.request::<PullRequest>().topic.as_str() == "T");
        let pull = of_t.next().expect("the queue is pulled");
        bench.found_at(&pull, [0], 3, 1);
        let run = bench.take_runs().remove(0);
        bench.report(&run, RETRY);
        let back = bench.expect_request(BACK);
        bench.refuse(&back, BROKEN, "the disk is full");
        bench
    };
    let mut bench = with_three();
    for broker in ["b", "c", "a"] {
        let copy = bench.expect_request(SEND);
        assert_eq!(copy.to, address(broker));
        bench.refuse(&copy, ResponseCode::NO_PERMISSION, "no");
    }
    assert!(bench.outstanding(SEND).is_empty());
    assert_eq!(told(&bench), [(0, RetryPath::Local, 0)]);

    let mut bench = with_three();
    bench.expect_request(SEND);
    bench.sleep(secs(5));
    assert_eq!(told(&bench), [(0, RetryPath::Local, 0)]);
    bench.sleep(secs(5));
    assert_eq!((bench.sent(SEND).len(), bench.take_runs().len()), (1, 1));
}

#[test]
fn a_copy_is_as_the_message_is_stored_and_keeps_what_it_was() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_send_back_retries(0);
    });
    let (pull, _) = bench.expect_pull();
    let mut message = StoredMessage::new(queue("T", "a", 0), 0, "body", "tag");
    message.reconsume_times = 2;
    for (name, value) in [
        (name::UNIQUE_KEY, "KEY"),
        (name::ORIGIN_MESSAGE_ID, "FIRST"),
        ("mine", "1"),
        (name::TRANSACTION_PREPARED, "true"),
        (name::DELAY_LEVEL, "9"),
    ] {
        message.properties.push((name.into(), value.into()));
    }
    bench.found(&pull, &[message], 1);
    let run = bench.take_runs().remove(0);
    bench.report(&run, RETRY);
    let (_, copy) = refused_to_copy(&mut bench);
    for (name, value) in [
        (name::TAGS, Some("tag")),
        (name::UNIQUE_KEY, Some("KEY")),
        (name::ORIGIN_MESSAGE_ID, Some("FIRST")),
        ("mine", Some("1")),
        (name::TRANSACTION_PREPARED, None),
        (name::DELAY_LEVEL, Some("5")),
        (name::RECONSUME_TIME, Some("3")),
    ] {
        assert_eq!(property(&copy, name).as_deref(), value, "{name}");
    }
}

#[test]
fn rt_07_a_message_that_was_given_up_leaves_once() {
    let minutes = |minutes: u64| secs(60 * minutes);
    let (mut bench, run) = delivered(9..11, |group| {
        group.set_concurrency(2);
    });
    one(&mut bench, &run, 1, Verdict::Handled(Outcome::Done));
    bench.idle(minutes(15) - secs(1));
    assert!(bench.sent(BACK).is_empty());
    bench.idle(secs(7));
    let back = bench.expect_request(BACK);
    bench.answer(&back, &Done);
    assert_eq!(lowest(&bench), 11);
    bench.idle(minutes(1));
    one(&mut bench, &run, 0, RETRY);
    bench.idle(secs(10));
    assert_eq!(bench.sent(BACK).len(), 1, "one copy");
    assert!(bench.take_runs().is_empty());
}

/// Its second handler has the message when the first one, long given up, ends after all.
#[test]
fn rt_07_a_handler_that_was_given_up_has_no_say_over_the_next_one() {
    let (mut bench, first) = delivered(9..10, |group| {
        group.set_concurrency(2).set_delivery_deadline(secs(10));
        group.set_send_back_fallback(SendBackFallback::Local);
    });
    bench.idle(secs(16));
    let back = bench.expect_request(BACK);
    bench.refuse(&back, BROKEN, "no");
    bench.idle(secs(6));
    let second = bench.take_runs().remove(0);
    bench.report(&first, RETRY);
    assert!(bench.outstanding(BACK).is_empty(), "the second one decides");
    bench.done(&second);
    assert_eq!((lowest(&bench), bench.sent(BACK).len()), (10, 1));
}

#[test]
fn rt_09_a_retry_topic_is_served_whatever_its_name() {
    let mut w = World::new()
        .topic("ns1%T", &[("a", 1)])
        .stored("ns1%T", "a", 0, 1)
        .member("c1", |c| {
            c.group("ns1%G")
                .subscribe("ns1%T", "*")
                .handler(|delivery: &Delivery| {
                    if delivery.reconsume_times == 0 {
                        Handling::retry()
                    } else {
                        Handling::done()
                    }
                });
        });
    w.run_for(secs(60));
    let topics: Vec<_> = w.delivered("c1").into_iter().map(|d| d.topic.clone()).collect();
    assert_eq!(topics, ["ns1%T", "ns1%T"], "by way of %RETRY%ns1%G");
    assert_eq!(w.stored_offset("ns1%G", &queue("%RETRY%ns1%G", "a", 0)), Some(1));
}

#[test]
fn rt_11_an_ordinary_retry_leaves_the_delay_to_the_broker() {
    for (outcome, delay, level) in [
        (Outcome::Retry, Delay::Broker, 0),
        (Outcome::DeadLetter, Delay::DeadLetter, -1),
        (Outcome::RetryAfter(Duration::ZERO), Delay::Level(1), 1),
        (Outcome::RetryAfter(secs(30)), Delay::Level(4), 4),
        (Outcome::RetryAfter(Duration::MAX), Delay::Level(18), 18),
    ] {
        let (mut bench, run) = delivered(9..10, |_| {});
        bench.report(&run, Verdict::Handled(outcome));
        let back = bench.expect_request(BACK);
        assert_eq!(back.request::<SendBackRequest>().delay, delay);
        assert_eq!(told(&bench), [], "not before the broker has said yes");
        bench.answer(&back, &Done);
        assert_eq!(told(&bench), [(9, RetryPath::SentBack, level)]);
    }
}

#[test]
fn rt_12_each_message_of_a_batch_has_its_own_outcome() {
    let (mut bench, run) = delivered(0..4, |group| {
        group.set_handler_batch(4);
    });
    let done = Verdict::Handled(Outcome::Done);
    // What Java says with an ack index of 1.
    bench.tell(AppEvent::Consumed {
        id: run.id,
        range: run.range,
        report: Report::Each([done, done, RETRY, RETRY].into()),
    });
    let backs: Vec<i64> = bench
        .sent(BACK)
        .iter()
        .map(|asked| asked.request::<SendBackRequest>().offset.0)
        .collect();
    assert_eq!((lowest(&bench), backs), (2, vec![2_000, 3_000]));
    for _ in 0..2 {
        let back = bench.expect_request(BACK);
        bench.answer(&back, &Done);
    }
    assert_eq!(lowest(&bench), 4);
}

#[test]
fn rt_12_what_a_handler_says_nothing_about_is_retried_and_told() {
    let done = Verdict::Handled(Outcome::Done);
    for (given, taken, told) in [(0, 0, 1), (1, 1, 1), (2, 2, 0), (5, 2, 1)] {
        let (mut bench, run) = delivered(0..2, |group| {
            group.set_handler_batch(2);
        });
        bench.tell(AppEvent::Consumed {
            id: run.id,
            range: run.range,
            report: Report::Each(vec![done; given].into()),
        });
        assert_eq!(lowest(&bench), taken, "{given} outcomes");
        assert_eq!(bench.sent(BACK).len(), usize::try_from(2 - taken).expect("small"));
        let wrong = |kind: &NoticeKind| matches!(kind, NoticeKind::WrongOutcomes { messages: 2, outcomes, .. } if *outcomes as usize == given);
        assert_eq!(bench.count_notices(wrong), told, "{given} outcomes");
    }
}

#[test]
fn tm_04_a_deadline_is_what_it_says() {
    for (deadline, takes, late) in [
        (Some(secs(60)), ms(59_999), false),
        (Some(secs(60)), ms(60_000), true),
        (Some(secs(60)), ms(61_000), true),
        (None, secs(15 * 60) - ms(1), false),
        (None, secs(15 * 60), true),
    ] {
        let (mut bench, run) = delivered(9..10, |group| {
            if let Some(deadline) = deadline {
                group.set_delivery_deadline(deadline);
            }
        });
        bench.idle(takes);
        bench.done(&run);
        let is_late = |kind: &NoticeKind| matches!(kind, NoticeKind::DeliveryDeadline { .. });
        assert_eq!(bench.count_notices(is_late) > 0, late, "{deadline:?} {takes:?}");
    }
}
