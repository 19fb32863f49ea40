use rocketmq_consumer_core::action::{Action, AppAction, ShutdownReport};
use rocketmq_consumer_core::event::Event;
use rocketmq_consumer_core::ids::GroupKey;
use rocketmq_consumer_core::message::Message;
use rocketmq_consumer_core::time::{Instant, WallTime};

use super::*;
use crate::builder::ConsumerBuilder;
use crate::consumer::Consumer;
use crate::testing::{Script, TestRuntime, now_or_never};

#[test]
fn name_servers_come_as_lists_and_a_bad_one_is_named() {
    let parse =
        |lists: &[&str]| parse_name_servers(&lists.iter().map(|&list| list.into()).collect::<Vec<_>>());
    let (a, b) = (PeerAddr::new("127.0.0.1", 9876), PeerAddr::new("::1", 1));
    for lists in [
        &["127.0.0.1:9876;[::1]:1"][..],
        &["127.0.0.1:9876", " [::1]:1 ;;"],
    ] {
        assert_eq!(parse(lists), Ok(vec![a.clone(), b.clone()]));
    }
    let error = parse(&["127.0.0.1:9876;nowhere"]).unwrap_err();
    assert!(
        error.key == "name_server" && error.why.contains("\"nowhere\""),
        "{error}"
    );
}

/// A client whose machine starts and stops groups as it is told, and notes what it is told.
fn client(id: &str) -> (Client<TestRuntime>, Script) {
    let script = Script::default();
    let mut slot = 0;
    script.on_event(move |event| match event {
        Event::App(AppEvent::StartGroup(config)) => {
            slot += 1;
            let key = GroupKey { slot, generation: 1 };
            let group = config.group().clone();
            vec![AppAction::GroupStarted { group, key }.into()]
        }
        Event::App(AppEvent::StopGroup { group, .. }) => {
            let (group, report) = (group.clone(), Box::default());
            vec![AppAction::GroupStopped { group, report }.into()]
        }
        Event::App(AppEvent::Shutdown { .. }) => vec![AppAction::Closed.into()],
        _ => Vec::<Action>::new(),
    });
    let client = Client::carry(TestRuntime::default(), id.into(), script.clone(), None, 1 << 20);
    (client, script)
}

fn builder(client: &Client<TestRuntime>, group: &str) -> ConsumerBuilder<TestRuntime> {
    Consumer::builder(group).client(client).subscribe("orders", "*")
}

async fn start(client: &Client<TestRuntime>, group: &str) -> Consumer<TestRuntime> {
    builder(client, group).start(|_: Message| async {}).await.unwrap()
}

/// Groups that the machine was told to stop.
fn stops(script: &Script) -> Vec<String> {
    let events = std::iter::from_fn(|| script.try_event());
    events
        .filter_map(|event| match event {
            Event::App(AppEvent::StopGroup { group, .. }) => Some(group.to_string()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn an_old_handle_does_nothing_to_who_took_its_name() {
    let (client, script) = client("old-handle");
    let old = start(&client, "billing").await;
    let mut notices = old.notices();
    // The stop is under way when nobody waits for it any more.
    assert!(now_or_never(old.shutdown(Duration::ZERO)).is_none());
    while notices.next().await.is_some() {}
    let new = start(&client, "billing").await;
    assert_eq!(stops(&script), ["billing"]);
    old.set_concurrency(3);
    assert_eq!(old.ready().await, Err(Closed.into()));
    assert_eq!(old.shutdown(Duration::ZERO).await, ShutdownReport::default());
    drop(old);
    client.status().await.unwrap();
    assert_eq!(
        script.try_event(),
        None,
        "the machine has heard nothing of all that"
    );
    drop(new);
    client.status().await.unwrap();
    assert_eq!(stops(&script), ["billing"], "its own handle does");
}

/// Cannot be dropped in peace.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        panic!("a destructor of the application");
    }
}

#[tokio::test]
async fn a_destructor_that_panics_ends_no_other_group() {
    let (client, _script) = client("destructor");
    let other = start(&client, "other").await;
    // A handler is dropped by the last of its lanes, or, when none has one, by the task that carries all groups.
    for blocking in [false, true, true] {
        let mine = Mine;
        let consumer = builder(&client, "mine").concurrency(1).blocking(blocking);
        let consumer = consumer.start(move |_: Message| {
            let _kept = &mine;
            async {}
        });
        consumer.await.unwrap().shutdown(Duration::ZERO).await;
        client.status().await.expect("the client goes on");
    }
    assert_eq!(other.shutdown(Duration::ZERO).await, ShutdownReport::default());
}

#[tokio::test]
async fn settings_of_a_client_are_not_taken_twice() {
    let (client, script) = client("twice");
    let builder = || builder(&client, "billing");
    let recorder: Box<dyn Recorder> = Box::new(Deaf);
    for (builder, key) in [
        (builder().name_server("127.0.0.1:1"), "name_server"),
        (builder().client_id("me"), "client_id"),
        (builder().instance_name("me"), "instance_name"),
        (builder().client_config(|config| config), "client_config"),
        (builder().record(recorder), "record"),
    ] {
        let error = builder.start(|_: Message| async {}).await.unwrap_err();
        let StartError::Config(ConfigError { key: named, why }) = error else {
            panic!("{error:?}");
        };
        assert!(
            named == key && why.contains("belongs to the client"),
            "{named}: {why}"
        );
    }
    assert_eq!(script.try_event(), None, "nothing of it has reached the machine");
}

/// A recorder that writes nothing.
struct Deaf;

impl Recorder for Deaf {
    fn start(&mut self, _: &ClientConfig, _: Seed, _: Instant, _: WallTime) {}
    fn event(&mut self, _: Instant, _: &Event) {}
    fn action(&mut self, _: &Action) {}
}

#[tokio::test]
async fn the_end_of_the_client_is_the_end_of_all_its_groups() {
    let (client, _script) = client("end");
    let (one, two) = (
        start(&client, "one").await,
        builder(&client, "two").stream().await.unwrap(),
    );
    let (mut heard_one, mut heard_two) = (one.notices(), two.consumer().notices());
    client.shutdown(Duration::ZERO).await;
    assert!(heard_one.next().await.is_none() && heard_two.next().await.is_none());
    assert_eq!(
        (one.ready().await, one.status().await.err()),
        (Err(Closed.into()), Some(Closed))
    );
    assert_eq!(two.shutdown(Duration::ZERO).await, ShutdownReport::default());
    let late = builder(&client, "one").start(|_: Message| async {}).await;
    assert_eq!(late.unwrap_err(), StartError::Closed);
}
