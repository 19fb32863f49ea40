//! Groups that broadcast, crossed with stores that fail for long, resets, seeks, pauses and subscriptions that change.

use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, MessageModel};
use rocketmq_consumer_core::event::{AppEvent, FlowScope, RunRange, SeekTo, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::operator::ResetOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_testing::world::{Asked, Bench, ms, queue, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;

const DONE: Verdict = Verdict::Handled(Outcome::Done);

fn member(set_up: impl FnOnce(&mut ClientConfig, &mut GroupConfig)) -> Bench {
    let mut bench = Bench::new(|client, group| {
        group
            .set_model(MessageModel::Broadcasting)
            .subscribe("T".into(), "*");
        set_up(client, group);
    });
    bench.keep(&[(queue("T", "a", 0), 0)]);
    bench.settle();
    bench
}

/// Answers whatever pull of `T` is out with the messages from there to 9.
fn serve(bench: &mut Bench) -> usize {
    let mut served = 0;
    let wanted = |asked: &&Asked| {
        let pull: PullRequest = asked.request();
        pull.topic.as_str() == "T" && pull.offset.0 < 9
    };
    while let Some(pull) = bench.outstanding(PULL).into_iter().find(wanted).cloned() {
        let others: Vec<Asked> = bench.drop_requests(PULL);
        bench.put_back(others.into_iter().filter(|asked| asked != &pull).collect());
        let from = pull.request::<PullRequest>().offset.0;
        bench.found_at(&pull, from..9, 10, 9);
        served += 1;
    }
    served
}

fn kept(bench: &Bench) -> Option<i64> {
    bench.kept().get(&queue("T", "a", 0)).map(|offset| offset.0)
}

fn reset(bench: &mut Bench, to: i64) {
    let request = ResetOffsetRequest {
        group: "G".into(),
        topic: "T".into(),
        timestamp: None,
        force: true,
        offsets: [(queue("T", "a", 0), QueueOffset(to))].into(),
    };
    bench.tell_member("a", &request);
    bench.settle();
}

fn subscribe(bench: &mut Bench, topic: &str, filter: &str) {
    bench.tell(AppEvent::Subscribe {
        group: "G".into(),
        topic: topic.into(),
        filter: filter.into(),
    });
}

fn in_force(bench: &Bench) -> usize {
    bench.count_notices(|kind| matches!(kind, NoticeKind::SubscriptionChanged { .. }))
}

/// What stands on the shelf is what the next ownership begins with, whether it is stored or not: a disk that is full
/// must not keep a filter from coming into force.
#[test]
fn a_filter_comes_into_force_while_nothing_can_be_stored() {
    let mut bench = member(|_, _| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.break_store(Some("disk full"));
    bench.report(&first, DONE);
    bench.sleep(secs(10));
    subscribe(&mut bench, "T", "a");
    bench.sleep(secs(5));
    assert_eq!(in_force(&bench), 1);
    let pull = bench.outstanding(PULL).pop().map(Asked::request::<PullRequest>);
    assert_eq!(pull.map(|pull| pull.offset.0), Some(9));
}

#[test]
fn a_topic_can_be_given_back_while_nothing_can_be_stored() {
    let mut bench = member(|_, group| {
        group.subscribe("U".into(), "*");
    });
    serve(&mut bench);
    let first = bench.take_run();
    bench.break_store(Some("disk full"));
    bench.report(&first, DONE);
    bench.sleep(secs(10));
    bench.tell(AppEvent::Unsubscribe {
        group: "G".into(),
        topic: "T".into(),
    });
    bench.sleep(secs(5));
    assert_eq!(in_force(&bench), 1);
    subscribe(&mut bench, "T", "*");
    bench.sleep(secs(5));
    let pull = bench.outstanding(PULL).pop().map(Asked::request::<PullRequest>);
    assert_eq!(pull.map(|pull| pull.offset.0), Some(9));
    bench.break_store(None);
    bench.sleep(secs(31));
    assert_eq!(kept(&bench), Some(9));
}

#[test]
fn a_reset_and_a_seek_are_kept_while_nothing_can_be_stored_and_stored_as_soon_as_may_be() {
    let mut bench = member(|_, _| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.break_store(Some("disk full"));
    bench.report(&first, DONE);
    bench.sleep(secs(10));
    reset(&mut bench, 4);
    serve(&mut bench);
    let second = bench.take_run();
    assert_eq!(second.offsets(), [4, 5, 6, 7, 8]);
    bench.tell(AppEvent::Seek {
        group: "G".into(),
        queue: Box::new(queue("T", "a", 0)),
        to: SeekTo::Offset(QueueOffset(7)),
    });
    serve(&mut bench);
    let third = bench.take_run();
    assert_eq!(third.offsets(), [7, 8]);
    bench.report(&second, DONE);
    bench.break_store(None);
    bench.sleep(secs(31));
    assert_eq!(kept(&bench), Some(7));
    bench.report(&third, DONE);
    bench.sleep(secs(6));
    assert_eq!(kept(&bench), Some(9));
}

/// A disk that has been full for long: what it takes first is how far the group has come by then.
#[test]
fn the_save_that_works_at_last_carries_what_was_finished_since_the_first_that_did_not() {
    let mut bench = member(|_, _| {});
    bench.break_store(Some("disk full"));
    serve(&mut bench);
    let first = bench.take_run();
    bench.report_part(&first, RunRange { start: 0, end: 1 }, DONE);
    bench.sleep(secs(40));
    bench.report_part(&first, RunRange { start: 1, end: 5 }, DONE);
    bench.break_store(None);
    while kept(&bench) == Some(0) {
        bench.sleep(ms(100));
    }
    assert_eq!(kept(&bench), Some(5));
    bench.report_part(&first, RunRange { start: 5, end: 9 }, DONE);
    bench.sleep(secs(6));
    assert_eq!(kept(&bench), Some(9));
}

#[test]
fn a_shutdown_while_a_save_is_out_waits_for_it_no_longer_than_it_may() {
    let mut bench = member(|_, _| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.withhold_store();
    bench.report(&first, DONE);
    bench.sleep(secs(6));
    assert_eq!(bench.store_questions().len(), 1);
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    bench.sleep(secs(20));
    assert!(bench.is_closed());
    bench.serve_store();
    assert_eq!(kept(&bench), Some(9));
}

#[test]
fn a_shutdown_while_nothing_can_be_stored_ends() {
    let mut bench = member(|_, _| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.break_store(Some("disk full"));
    bench.report(&first, DONE);
    bench.sleep(secs(60));
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    bench.sleep(secs(20));
    assert!(bench.is_closed());
}

#[test]
fn nothing_is_delivered_while_paused_whatever_moves_the_queue() {
    let mut bench = member(|_, _| {});
    serve(&mut bench);
    let first = bench.take_run();
    bench.tell(AppEvent::Pause {
        group: "G".into(),
        scope: FlowScope::Topic("T".into()),
    });
    reset(&mut bench, 4);
    bench.sleep(secs(1));
    subscribe(&mut bench, "T", "*");
    bench.set_queues("T", &[]);
    bench.sleep(secs(31));
    bench.set_queues("T", &[("a", 3)]);
    bench.sleep(secs(31));
    bench.report(&first, DONE);
    bench.drop_requests(PULL);
    bench.sleep(secs(31));
    assert!(bench.take_runs().is_empty());
    assert!(bench.outstanding(PULL).is_empty());
    bench.tell(AppEvent::Resume {
        group: "G".into(),
        scope: FlowScope::Topic("T".into()),
    });
    bench.sleep(ms(100));
    let offsets: Vec<i64> = bench
        .outstanding(PULL)
        .into_iter()
        .map(|asked| asked.request::<PullRequest>().offset.0)
        .collect();
    assert_eq!(offsets, [4, 0, 0]);
}

/// The former ownership keeps where it comes to, and nobody asks whether it may: it must not undo the reset.
#[test]
fn a_reset_while_a_filter_changes_is_not_undone_by_handlers_of_the_former_one() {
    let mut bench = member(|_, _| {});
    serve(&mut bench);
    let first = bench.take_run();
    subscribe(&mut bench, "T", "a");
    bench.sleep(ms(100));
    reset(&mut bench, 4);
    bench.report(&first, DONE);
    bench.sleep(secs(6));
    assert_eq!(kept(&bench), Some(4));
    let pull = bench.outstanding(PULL).pop().map(Asked::request::<PullRequest>);
    assert_eq!(pull.map(|pull| pull.offset.0), Some(4));
}
