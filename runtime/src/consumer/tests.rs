use rocketmq_consumer_core::action::{Action, AppAction, Refusal, RefusalReason};
use rocketmq_consumer_core::event::{
    AppEvent, Event, FlowScope, NetCause, Report, RunRange, SeekTo, Verdict,
};
use rocketmq_consumer_core::ids::{MessageQueue, PeerAddr, QueueId, Topic};
use rocketmq_consumer_core::message::{Message, Outcome};
use rocketmq_consumer_core::notice::{Notice, NoticeKind};
use rocketmq_consumer_core::rate::Rate;
use rocketmq_consumer_core::status::{LinkState, LinkStatus, LinkTrouble, TopicStatus};
use rocketmq_consumer_core::time::Instant;

use super::*;
use crate::error::ChangeError;
use crate::testing::{Script, TestRuntime, batch, consume_id, empty_status};

/// A client whose machine starts and stops groups as asked, and hands out one run of three messages to
/// each.
fn client(id: &str) -> (Client<TestRuntime>, Script) {
    let script = Script::default();
    script.on_event(|event| match event {
        Event::App(AppEvent::StartGroup(config)) => {
            let ready = Notice {
                at: Instant::ZERO,
                group: Some(config.group().clone()),
                repeated: 0,
                kind: NoticeKind::Ready,
            };
            let range = RunRange { start: 0, end: 3 };
            vec![
                AppAction::GroupStarted {
                    group: config.group().clone(),
                    key: consume_id(1).group,
                }
                .into(),
                AppAction::Notice(Box::new(ready)).into(),
                AppAction::Consume {
                    id: consume_id(1),
                    batch: batch(),
                    range,
                    attempt: 0,
                }
                .into(),
            ]
        }
        Event::App(AppEvent::StopGroup { group, .. }) => {
            let report = ShutdownReport {
                finished: 7,
                ..ShutdownReport::default()
            };
            vec![
                AppAction::GroupStopped {
                    group: group.clone(),
                    report: Box::new(report),
                }
                .into(),
            ]
        }
        Event::App(AppEvent::Shutdown { .. }) => vec![AppAction::Closed.into()],
        Event::App(AppEvent::Seek { group, queue, .. }) => {
            let refusal = Refusal {
                group: Some(group.clone()),
                wish: "seek",
                why: RefusalReason::NotOwned((**queue).clone()),
            };
            vec![AppAction::Refused(Box::new(refusal)).into()]
        }
        _ => Vec::<Action>::new(),
    });
    let client = Client::carry(TestRuntime::default(), id.into(), script.clone(), None, 1 << 20);
    (client, script)
}

fn builder(client: &Client<TestRuntime>) -> ConsumerBuilder<TestRuntime> {
    Consumer::builder("billing")
        .client(client)
        .subscribe("orders", "*")
}

/// The next event that is not one of the start or the end.
async fn report(script: &Script) -> (RunRange, Report) {
    loop {
        if let Event::App(AppEvent::Consumed { range, report, .. }) = script.event().await {
            return (range, report);
        }
    }
}

#[tokio::test]
async fn a_consumer_lives_from_start_to_report() {
    let (client, script) = client("life");
    let consumer = builder(&client)
        .start(|_: Message| async { Ok::<_, String>(Outcome::Done) })
        .await
        .unwrap();
    consumer.ready().await.unwrap();
    assert_eq!(
        consumer.notices().next().await.map(|notice| notice.kind),
        Some(NoticeKind::Ready)
    );
    let all_done = Report::All(Verdict::Handled(Outcome::Done));
    assert_eq!(report(&script).await, (RunRange { start: 0, end: 3 }, all_done));
    consumer.set_concurrency(7);
    let event = script.event().await;
    assert_eq!(
        event,
        AppEvent::Concurrency {
            group: "billing".into(),
            permits: 7
        }
        .into()
    );
    assert_eq!(consumer.shutdown(Duration::from_secs(1)).await.finished, 7);
    assert_eq!(
        consumer.shutdown(Duration::from_secs(1)).await,
        ShutdownReport::default()
    );
    assert_eq!(consumer.ready().await, Err(ReadyError::Closed));
    // The client goes on, and the name is free again.
    let _consumer = builder(&client).start(|_: Message| async {}).await.unwrap();
    client.shutdown(Duration::ZERO).await;
    assert_eq!(client.status().await, Err(Closed));
    assert!(matches!(
        builder(&client).start(|_: Message| async {}).await,
        Err(StartError::Closed)
    ));
}

#[tokio::test]
async fn one_name_has_one_consumer_until_it_is_gone() {
    let (first, _script) = client("twice");
    let (second, _other) = client("twice");
    let consumer = builder(&first).start(|_: Message| async {}).await.unwrap();
    for client in [&first, &second] {
        let refused = builder(client).start(|_: Message| async {}).await;
        assert!(
            matches!(refused, Err(StartError::AlreadyRegistered { .. })),
            "{refused:?}"
        );
    }
    let mut notices = consumer.notices();
    drop(consumer);
    // Dropping stops in the background; the stream of notices ends when it is done.
    while notices.next().await.is_some() {}
    let _again = builder(&second).start(|_: Message| async {}).await.unwrap();
}

#[tokio::test]
async fn a_stream_gives_messages_and_ends_with_its_consumer() {
    let (client, script) = client("stream");
    let mut stream = builder(&client).stream().await.unwrap();
    let first = stream.next().await.unwrap();
    assert_eq!(first.message.position(), 0);
    first.done();
    drop(stream.next().await);
    assert_eq!(
        report(&script).await.1,
        Report::All(Verdict::Handled(Outcome::Done))
    );
    assert_eq!(
        report(&script).await.1,
        Report::All(Verdict::Handled(Outcome::Retry))
    );
    assert_eq!(stream.shutdown(Duration::ZERO).await.finished, 7);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_named() {
    let (client, _script) = client("settings");
    let start = async |builder: ConsumerBuilder<TestRuntime>| match builder.start(|_: Message| async {}).await
    {
        Err(StartError::Config(error)) => error.key,
        other => panic!("{other:?}"),
    };
    assert_eq!(start(builder(&client).concurrency(0)).await, "concurrency");
    assert_eq!(
        start(builder(&client).name_server("127.0.0.1:1")).await,
        "name_server"
    );
    assert_eq!(
        start(Consumer::builder("billing").name_server("127.0.0.1:1")).await,
        "subscribe"
    );
    assert_eq!(
        start(Consumer::builder("g").subscribe("t", "*").name_server("nowhere")).await,
        "name_server"
    );
    let ordered = builder(&client).group_config(|config| config.set_mode(crate::ConsumeMode::Orderly));
    assert_eq!(
        start(ordered).await,
        "mode",
        "what is to come in order is not handled side by side"
    );
    let by_key = builder(&client).order(crate::OrderBy::Key);
    assert_eq!(start(by_key).await, "order", "keys neither");
    let own = Consumer::builder("g")
        .subscribe("t", "*")
        .name_server("127.0.0.1:1");
    assert_eq!(
        start(own.client_config(|c| c.set_dial_timeout(Duration::ZERO))).await,
        "dial_timeout"
    );
}

#[tokio::test]
async fn a_machine_that_refuses_a_group_ends_the_start() {
    let (client, script) = client("refusing");
    script.on_event(|event| match event {
        Event::App(AppEvent::StartGroup(config)) => {
            let refusal = rocketmq_consumer_core::action::Refusal {
                group: Some(config.group().clone()),
                wish: "start",
                why: RefusalReason::ShuttingDown,
            };
            vec![AppAction::Refused(Box::new(refusal)).into()]
        }
        _ => Vec::new(),
    });
    let refused = builder(&client).start(|_: Message| async {}).await;
    assert_eq!(
        refused.unwrap_err(),
        StartError::Refused(RefusalReason::ShuttingDown)
    );
}

#[tokio::test(start_paused = true)]
async fn an_absent_cluster_is_an_error_only_for_who_asked() {
    let (client, script) = client("absent");
    let addr = PeerAddr::new("127.0.0.1", 1);
    let link = LinkStatus {
        addr: addr.clone(),
        state: LinkState::BackingOff,
        since: Instant::ZERO,
        requests: 0,
        failed_dials: 3,
        trouble: Some(LinkTrouble::Net(NetCause::Refused)),
        heartbeat_acknowledged: false,
    };
    let mut status = empty_status();
    status.links.push(link);
    script.set_status(status.clone());
    let (within, start) = (Duration::from_secs(3), tokio::time::Instant::now());
    let asked = builder(&client).connect_timeout(within);
    let error = asked.start(|_: Message| async {}).await.unwrap_err();
    let troubles = vec![(addr, LinkTrouble::Net(NetCause::Refused))];
    assert_eq!(
        error,
        StartError::ConnectTimeout {
            after: within,
            troubles
        }
    );
    assert!((within..within * 2).contains(&start.elapsed()));

    // One that answers, if only to say that it knows no such topic, is not absent.
    let refusals = vec![(PeerAddr::new("127.0.0.1", 2), "No topic route info".into())];
    status.topics.push(TopicStatus {
        topic: "orders".into(),
        queues: None,
        refusals,
        lost_brokers: Vec::new(),
    });
    script.set_status(status);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = builder(&client).connect_timeout(within);
    let _consumer = asked.start(|_: Message| async {}).await.unwrap();
}

#[tokio::test]
async fn handlers_of_every_kind_can_be_started() {
    let (client, script) = client("kinds");
    let done = Report::All(Verdict::Handled(Outcome::Done));
    let consumer = builder(&client)
        .start_with_context(|_, cx| async move { assert_eq!(cx.attempt(), 0) })
        .await
        .unwrap();
    assert_eq!(report(&script).await.1, done);
    consumer.shutdown(Duration::ZERO).await;
    let consumer = builder(&client)
        .batch_size(8)
        .start_batch(|all| async move { assert_eq!(all.len(), 3) })
        .await
        .unwrap();
    assert_eq!(report(&script).await.1, done);
    consumer.shutdown(Duration::ZERO).await;
    let consumer = builder(&client)
        .start_blocking(|_| {
            std::thread::sleep(Duration::from_micros(10));
            Ok::<_, std::io::Error>(())
        })
        .await
        .unwrap();
    assert_eq!(report(&script).await.1, done);
    consumer.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn changes_arrive_under_the_groups_name_and_what_is_refused_is_told_to_who_asked() {
    let (client, script) = client("changes");
    let consumer = builder(&client).start(|_: Message| async {}).await.unwrap();
    report(&script).await;
    let queue = MessageQueue {
        topic: "orders".into(),
        broker: "a".into(),
        id: QueueId(1),
    };
    let group = || ConsumerGroup::from("billing");
    let rate = Some(Rate::per_second(5));
    consumer.pause(FlowScope::Group).await.unwrap();
    consumer.pause(Topic::from("orders")).await.unwrap();
    consumer.resume(queue.clone()).await.unwrap();
    consumer.set_rate_limit(rate).await.unwrap();
    consumer.set_topic_rate_limit("orders", None).await.unwrap();
    for want in [
        AppEvent::Pause {
            group: group(),
            scope: FlowScope::Group,
        },
        AppEvent::Pause {
            group: group(),
            scope: FlowScope::Topic("orders".into()),
        },
        AppEvent::Resume {
            group: group(),
            scope: FlowScope::Queue(Box::new(queue.clone())),
        },
        AppEvent::RateLimit {
            group: group(),
            topic: None,
            rate,
        },
        AppEvent::RateLimit {
            group: group(),
            topic: Some("orders".into()),
            rate: None,
        },
    ] {
        assert_eq!(script.event().await, want.into());
    }
    let refused = ChangeError::Refused(RefusalReason::NotOwned(queue.clone()));
    assert_eq!(consumer.seek(queue.clone(), SeekTo::Latest).await, Err(refused));
    // The refusal was one, and not of what follows.
    assert_eq!(consumer.resume(FlowScope::Group).await, Ok(()));
    consumer.shutdown(Duration::ZERO).await;
    assert_eq!(consumer.pause(FlowScope::Group).await, Err(ChangeError::Closed));
    assert_eq!(
        consumer.seek(queue, SeekTo::Latest).await,
        Err(ChangeError::Closed)
    );
}

#[tokio::test]
async fn settings_of_the_flow_arrive_and_the_last_rate_of_a_topic_wins() {
    let (client, script) = client("flow-settings");
    let _consumer = builder(&client)
        .rate_limit(Rate::per_second(7))
        .topic_rate_limit("orders", Rate::per_second(1))
        .topic_rate_limit("others", Rate::per_second(2))
        .topic_rate_limit("orders", Rate::per_second(3))
        .topic_count_max(100)
        .topic_bytes_max(200)
        .start(|_: Message| async {})
        .await
        .unwrap();
    let Event::App(AppEvent::StartGroup(config)) = script.event().await else {
        panic!("no start")
    };
    assert_eq!(config.rate_limit(), &Some(Rate::per_second(7)));
    assert_eq!(
        config.topic_rate_limits()[..],
        [
            ("others".into(), Rate::per_second(2)),
            ("orders".into(), Rate::per_second(3))
        ]
    );
    assert_eq!(
        (config.topic_count_max(), config.topic_bytes_max()),
        (&Some(100), &Some(200))
    );
}

/// A notice about the group `billing`.
fn told(kind: NoticeKind) -> Action {
    let notice = Notice {
        at: Instant::ZERO,
        group: Some("billing".into()),
        repeated: 0,
        kind,
    };
    AppAction::Notice(Box::new(notice)).into()
}

/// A machine that starts groups, and answers their wishes about topics: those about `bad` are refused by a broker,
/// those about `never` by the machine, those about `later` not at all.
fn obliging(id: &str, is_ready: bool) -> (Client<TestRuntime>, Script) {
    let script = Script::default();
    script.on_event(move |event| match event {
        Event::App(AppEvent::StartGroup(config)) => {
            let started = AppAction::GroupStarted {
                group: config.group().clone(),
                key: consume_id(1).group,
            };
            let first = if is_ready {
                told(NoticeKind::Ready)
            } else {
                told(refused_filter("a >"))
            };
            vec![started.into(), first]
        }
        Event::App(AppEvent::Subscribe { topic, filter, .. }) => match topic.as_str() {
            "bad" => vec![told(refused_filter(filter.text()))],
            "never" => vec![
                AppAction::Refused(Box::new(Refusal {
                    group: Some("billing".into()),
                    wish: "subscribe",
                    why: RefusalReason::GroupLeaving,
                }))
                .into(),
            ],
            "later" => vec![],
            _ => vec![told(NoticeKind::SubscriptionChanged {
                topic: topic.clone(),
                filter: Some(filter.clone()),
            })],
        },
        Event::App(AppEvent::Unsubscribe { topic, .. }) => vec![told(NoticeKind::SubscriptionChanged {
            topic: topic.clone(),
            filter: None,
        })],
        Event::App(AppEvent::Shutdown { .. }) => vec![AppAction::Closed.into()],
        _ => Vec::<Action>::new(),
    });
    let client = Client::carry(TestRuntime::default(), id.into(), script.clone(), None, 1 << 20);
    (client, script)
}

fn refused_filter(condition: &str) -> NoticeKind {
    NoticeKind::FilterRefused {
        topic: "bad".into(),
        filter: FilterExpression::sql92(condition),
        by: "broker-a".into(),
        code: 23,
        remark: "Parse error".into(),
    }
}

#[tokio::test]
async fn wishes_about_topics_are_answered_each_with_its_own_answer() {
    let (client, script) = obliging("wishes", true);
    let consumer = builder(&client).start(|_: Message| async {}).await.unwrap();
    let leaving = SubscribeError::Refused(RefusalReason::GroupLeaving);
    let (one, two, three, four, five) = tokio::join!(
        consumer.subscribe("never", "a"),
        consumer.subscribe("orders", ""),
        consumer.subscribe_sql("bad", "a >"),
        consumer.unsubscribe("orders"),
        consumer.subscribe("orders", "b"),
    );
    assert_eq!((one, two, four, five), (Err(leaving), Ok(()), Ok(()), Ok(())));
    let Err(SubscribeError::FilterRefused(refusal)) = three else {
        panic!("{three:?}");
    };
    let words = "broker broker-a does not take the filter \"a >\" of topic bad (code 23): Parse error";
    assert_eq!(refusal.to_string(), words);
    assert_eq!(consumer.ready().await, Ok(()), "it was ready before");
    while let Some(event) = script.try_event() {
        if let Event::App(AppEvent::Subscribe { topic, filter, .. }) = event
            && topic.as_str() == "orders"
        {
            assert_eq!(filter, "*".into(), "nothing is everything");
            break;
        }
    }
    client.shutdown(Duration::ZERO).await;
    assert_eq!(
        consumer.subscribe("orders", "c").await,
        Err(SubscribeError::Closed)
    );
}

#[tokio::test]
async fn a_wish_that_is_not_answered_ends_with_a_later_one_or_the_consumer() {
    let (client, _script) = obliging("waiting", true);
    let consumer = builder(&client).start(|_: Message| async {}).await.unwrap();
    let (earlier, ()) = tokio::join!(consumer.subscribe("later", "a"), async {
        tokio::task::yield_now().await;
        let pending = consumer.subscribe("later", "b");
        assert_eq!(
            tokio::time::timeout(Duration::from_millis(20), pending)
                .await
                .ok(),
            None
        );
    });
    assert_eq!(earlier, Err(SubscribeError::Superseded));
    let (last, ()) = tokio::join!(consumer.subscribe("later", "c"), async {
        tokio::task::yield_now().await;
        client.shutdown(Duration::ZERO).await;
    });
    assert_eq!(last, Err(SubscribeError::Closed));
}

#[tokio::test]
async fn a_group_that_is_refused_is_not_ready_until_something_else_is_wished() {
    let (client, script) = obliging("refused", false);
    let consumer = builder(&client).start(|_: Message| async {}).await.unwrap();
    for _ in 0..2 {
        let Err(ReadyError::FilterRefused(refusal)) = consumer.ready().await else {
            panic!("it is refused");
        };
        assert_eq!((refusal.code, refusal.by.as_str()), (23, "broker-a"));
    }
    let pending = consumer.subscribe_sql("bad", "a > 3").await;
    assert!(
        matches!(pending, Err(SubscribeError::FilterRefused(_))),
        "{pending:?}"
    );
    let Err(ReadyError::FilterRefused(refusal)) = consumer.ready().await else {
        panic!("it is refused again");
    };
    assert_eq!(refusal.filter.text(), "a > 3", "the newest");
    assert_eq!(consumer.unsubscribe("bad").await, Ok(()));
    let waits = tokio::time::timeout(Duration::from_millis(20), consumer.ready()).await;
    assert!(
        waits.is_err(),
        "nothing is refused any more, and it is not ready yet"
    );
    script.act([told(NoticeKind::Ready)]);
    consumer.set_concurrency(7);
    assert_eq!(consumer.ready().await, Ok(()));
}

/// What the machine was told of the next group that starts.
async fn started(script: &Script) -> (crate::ConsumeMode, u32) {
    let config = started_config(script).await;
    (*config.mode(), *config.handler_batch())
}

async fn started_config(script: &Script) -> Arc<crate::GroupConfig> {
    loop {
        if let Event::App(AppEvent::StartGroup(config)) = script.event().await {
            return config;
        }
    }
}

#[tokio::test]
async fn handlers_that_keep_the_order_can_be_started() {
    use crate::OrderlyOutcome::{Commit, Suspend};
    let (client, script) = client("in-order");
    let ordered = |outcome| Report::All(Verdict::Ordered(outcome));
    let (first, rest) = (RunRange { start: 0, end: 1 }, RunRange { start: 1, end: 3 });
    let unbegun = (rest, Report::All(Verdict::NotStarted));
    for one_each in 0..3 {
        // A size that is of no use: the machine hands out one message a call.
        let builder = builder(&client).batch_size(8);
        let consumer = match one_each {
            0 => builder.start_orderly(|_| async { Err::<(), _>("no") }).await,
            1 => builder.start_orderly_with_context(|_, _| async { Suspend }).await,
            _ => builder.start_orderly_blocking(|_| Suspend).await,
        };
        let consumer = consumer.unwrap();
        assert_eq!(started(&script).await, (crate::ConsumeMode::Orderly, 1));
        assert_eq!(report(&script).await, unbegun);
        assert_eq!(report(&script).await, (first, ordered(Suspend)));
        consumer.shutdown(Duration::ZERO).await;
    }
    let consumer = builder(&client)
        .batch_size(8)
        .start_orderly_batch(|all| async move { assert_eq!(all.len(), 3) })
        .await
        .unwrap();
    assert_eq!(started(&script).await, (crate::ConsumeMode::Orderly, 8));
    assert_eq!(report(&script).await.1, ordered(Commit));
    consumer.shutdown(Duration::ZERO).await;

    let mut stream = builder(&client).batch_size(8).stream_orderly().await.unwrap();
    assert_eq!(started(&script).await, (crate::ConsumeMode::Orderly, 1));
    stream.next().await.unwrap().commit();
    assert_eq!(report(&script).await, unbegun);
    assert_eq!(report(&script).await, (first, ordered(Commit)));
    stream.shutdown(Duration::ZERO).await;

    let keyed = builder(&client).order(crate::OrderBy::Key);
    let consumer = keyed.start_orderly(|_| async { Suspend }).await.unwrap();
    let config = started_config(&script).await;
    assert_eq!(*config.order(), crate::OrderBy::Key);
    consumer.shutdown(Duration::ZERO).await;
}
