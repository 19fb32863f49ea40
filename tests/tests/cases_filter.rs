//! Faults of tag filters that other clients have had.

mod machine;

use machine::{Machine, Setting, record};
use rocketmq_consumer_core::action::{Action, AppAction};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::{PeerAddr, QueueId, QueueOffset};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_core::wire::subscription::{Subscription, java_hash};

#[test]
fn fl_02_hash_of_a_tag() {
    for (tag, hash) in [
        ("Aa", 2112),
        ("BB", 2112),
        ("TagA", 2_598_919),
        ("rock_tig", -518_376_264),
        ("标签", 857_175),
        ("😀", 1_772_899),
        ("", 0),
    ] {
        assert_eq!(
            java_hash(tag),
            hash,
            "{tag:?}: 32 bits, signed, over UTF-16 units"
        );
    }
}

#[test]
fn fl_03_a_second_subscription_replaces_the_first_and_says_so() {
    let client = ClientConfig::new("me".into(), vec![PeerAddr::new("10.0.0.1", 9876)]);
    let wall = WallTime::from_unix_millis(0);
    let mut state = ConsumerState::new(client, Seed(1), Instant::ZERO, wall).expect("defaults are good");
    let mut group = GroupConfig::new("g".into());
    group.subscribe("T".into(), "A").subscribe("T".into(), "B");
    state.handle(Instant::ZERO, AppEvent::StartGroup(group.into()).into());
    let mut told = Vec::new();
    while let Some(action) = state.poll_action() {
        if let Action::App(AppAction::Notice(notice)) = action {
            told.push(notice.kind);
        }
    }
    assert_eq!(told, [NoticeKind::SubscriptionReplaced { topic: "T".into() }]);

    // What is delivered is what the second one wants, and not every tag.
    let mut machine = Machine::start(Setting {
        expression: "A",
        group: |group| {
            group.subscribe("T".into(), "B");
        },
        ..Setting::default()
    });
    let tags = ["A", "B", "C"];
    let records: Vec<_> = (0..)
        .zip(tags)
        .map(|(at, tag)| record(QueueId(0), at, tag, b""))
        .collect();
    machine.answer_pull(PullStatus::Found, 3, &records);
    assert_eq!(machine.delivered(), [1]);

    let both = Subscription::tagged("T".into(), "A || B").expect("a good expression");
    assert_eq!(
        tags.map(|tag| both.matches(Some(tag))),
        [true, true, false],
        "one call gives both"
    );
}

#[test]
fn fl_05_what_the_filter_skips_counts_as_consumed() {
    let mut machine = Machine::start(Setting {
        expression: "A",
        ..Setting::default()
    });
    machine.answer_pull(PullStatus::Found, 1, &[record(QueueId(0), 0, "A", b"")]);
    assert_eq!(machine.delivered(), [0]);
    machine.answer_pull(PullStatus::RetryImmediately, 1_000, &[]);
    assert_eq!(
        machine.pulls[0].request.offset,
        QueueOffset(1_000),
        "nothing matched: on at once"
    );
    machine.advance(10_000);
    assert!(
        machine.commits.iter().all(|commit| *commit == (0, 0)),
        "{:?}",
        machine.commits
    );
    machine.report(Outcome::Done);
    machine.advance(5_000);
    assert_eq!(machine.commits.last(), Some(&(0, 1_000)));
    assert!(!machine.commits.contains(&(0, 1)), "{:?}", machine.commits);
}
