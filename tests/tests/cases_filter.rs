//! Faults of tag filters that other clients have had.

use rocketmq_consumer_core::action::{Action, AppAction};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_core::wire::subscription::{Subscription, java_hash};
use rocketmq_consumer_testing::world::{Bench, Run, StoredMessage, queue, secs};

/// A member that owns one queue and has subscribed to its topic by these expressions, one after the other.
fn subscribed(expressions: &[&str]) -> Bench {
    let mut bench = Bench::new(|_, group| {
        for expression in expressions {
            group.subscribe("T".into(), *expression);
        }
    });
    bench.store("T", 0, 0);
    bench.settle();
    bench
}

/// The oldest pull is answered with messages that have these tags.
fn answer(bench: &mut Bench, tags: &[&str]) -> Vec<Run> {
    let messages = (0..).zip(tags);
    let messages = messages.map(|(offset, tag)| StoredMessage::new(queue("T", "a", 0), offset, "", tag));
    let messages: Vec<_> = messages.collect();
    let (pull, _) = bench.expect_pull();
    bench.found(&pull, &messages, tags.len() as i64);
    bench.take_runs()
}

fn offsets(runs: &[Run]) -> Vec<i64> {
    runs.iter().flat_map(Run::offsets).collect()
}

fn commits(bench: &Bench) -> Vec<i64> {
    let commits = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET).into_iter();
    commits
        .map(|asked| asked.request::<CommitOffsetRequest>().offset.0)
        .collect()
}

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
    let tags = ["A", "B", "C"];
    let mut bench = subscribed(&["A", "B"]);
    assert_eq!(offsets(&answer(&mut bench, &tags)), [1]);

    let both = Subscription::tagged("T".into(), "A || B").expect("a good expression");
    assert_eq!(
        tags.map(|tag| both.matches(Some(tag))),
        [true, true, false],
        "one call gives both"
    );
}

#[test]
fn fl_05_what_the_filter_skips_counts_as_consumed() {
    let mut bench = subscribed(&["A"]);
    let runs = answer(&mut bench, &["A"]);
    assert_eq!(offsets(&runs), [0]);
    let (pull, _) = bench.expect_pull();
    bench.nothing(&pull, PullStatus::RetryImmediately, 1_000);
    let (_, request) = bench.expect_pull();
    assert_eq!(request.offset.0, 1_000, "nothing matched: on at once");
    bench.sleep(secs(10));
    assert!(
        commits(&bench).iter().all(|offset| *offset == 0),
        "{:?}",
        commits(&bench)
    );
    bench.done(&runs[0]);
    bench.sleep(secs(5));
    assert_eq!(commits(&bench).last(), Some(&1_000));
    assert!(!commits(&bench).contains(&1), "{:?}", commits(&bench));
}
