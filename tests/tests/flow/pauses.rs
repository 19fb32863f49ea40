//! What a pause stops, and what it does not.

use rocketmq_consumer_core::action::{AppAction, RefusalReason};
use rocketmq_consumer_core::event::{AppEvent, FlowScope, RunRange, Verdict};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::rate::Rate;
use rocketmq_consumer_core::status::{HoldReason, PauseScope, QueueState};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_testing::world::{Asked, Bench, queue, secs};

use super::{
    NONE, PULL, commits, flow, handed_out, hold, limit, one_queue, pause, queues, refusals, resume, stalls,
    take_pull,
};

#[test]
fn a_pull_under_way_is_kept_and_nothing_of_it_is_delivered_until_it_is_resumed() {
    for (scope, named) in [
        (FlowScope::Group, PauseScope::Group),
        (FlowScope::Topic("T".into()), PauseScope::Topic),
        (one_queue(0), PauseScope::Queue),
    ] {
        let mut bench = Bench::owning_one_queue(5, |_, _| {});
        bench.tell(pause(scope.clone()));
        bench.tell(pause(scope.clone()));
        let status = bench.queue(0).expect("it is owned");
        assert_eq!(
            (status.state, status.hold),
            (QueueState::Pulling, Some(HoldReason::Paused(named)))
        );
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, 5..9, 3, 9);
        assert_eq!(handed_out(&mut bench), NONE, "{scope:?}");
        let status = bench.queue(0).expect("it is owned");
        assert_eq!((status.state, status.unfinished), (QueueState::Held, 4));
        assert_eq!(bench.outstanding(PULL).len(), 0, "{scope:?}");
        bench.tell(resume(scope));
        assert_eq!(handed_out(&mut bench), [5, 6, 7, 8]);
        assert_eq!(bench.expect_pull().1.offset.0, 9);
        assert_eq!(refusals(&bench), []);
    }
}

#[test]
fn what_no_handler_has_begun_comes_back_and_what_runs_may_finish_and_is_committed() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..4, 3, 4);
    let run = bench.take_runs().remove(0);
    bench.tell(pause(FlowScope::Group));
    let withdrawn = |action: &&AppAction| matches!(action, AppAction::Withdraw { id } if *id == run.id);
    assert_eq!(bench.told().iter().filter(withdrawn).count(), 1);
    let part = |start, end| RunRange { start, end };
    bench.report_part(&run, part(2, 4), Verdict::NotStarted);
    bench.report_part(&run, part(0, 1), Verdict::Handled(Outcome::Done));
    bench.report_part(&run, part(1, 2), Verdict::Handled(Outcome::Retry));
    let back = bench.expect_request(RequestCode::CONSUMER_SEND_MSG_BACK);
    bench.answer(&back, &Done);
    bench.sleep(secs(6));
    assert_eq!(commits(&bench).last(), Some(&2), "what came back is unfinished");
    assert_eq!(handed_out(&mut bench), NONE);
    bench.tell(resume(FlowScope::Group));
    assert_eq!(handed_out(&mut bench), [2, 3]);
}

/// One that is paused for itself stays so when the group is resumed; and what is not paused goes on.
#[test]
fn the_switches_are_independent_of_each_other() {
    let mut bench = queues(2, |_| {});
    bench.tell(pause(one_queue(1)));
    bench.tell(pause(FlowScope::Group));
    bench.tell(resume(FlowScope::Group));
    for id in [0, 1] {
        let pull = take_pull(&mut bench, id).expect("it was pulled before");
        bench.found_at(&pull, 0..2, 3, 2);
    }
    let runs = bench.take_runs();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].batch.queue(), &queue("T", "a", 0));
    let pulled = [0, 1].map(|id| take_pull(&mut bench, id).is_some());
    assert_eq!(pulled, [true, false]);
    assert_eq!(flow(&bench).paused_queues, [queue("T", "a", 1)]);
}

#[test]
fn hours_of_pause_are_no_stall_trip_no_deadline_and_wake_nobody_for_it() {
    let mut bench = Bench::owning_one_queue(0, |_, group| {
        group.set_delivery_deadline(secs(60));
    });
    let (pull, _) = bench.expect_pull();
    bench.tell(pause(FlowScope::Group));
    bench.found_at(&pull, 0..3, 3, 3);
    let (pulls, notices) = (bench.sent(PULL).len(), bench.notices().len());
    bench.idle(secs(4 * 3600));
    assert_eq!(stalls(&bench), 0);
    assert_eq!(&bench.notices()[notices..], []);
    let of_queue = |asked: &&&Asked| asked.request::<PullRequest>().topic.as_str() == "T";
    assert_eq!(bench.sent(PULL).iter().skip(pulls).filter(of_queue).count(), 0);
    let heartbeats = bench.sent(RequestCode::HEART_BEAT).len();
    assert!(heartbeats > 400, "{heartbeats}: the member stays one");
    assert_eq!(hold(&bench, 0), Some(HoldReason::Paused(PauseScope::Group)));
    bench.tell(resume(FlowScope::Group));
    assert_eq!(handed_out(&mut bench), [0, 1, 2]);
    bench.sleep(secs(59));
    assert_eq!(stalls(&bench), 0, "its time begins when it is resumed");
    let cancelled = |action: &&AppAction| matches!(action, AppAction::Cancel { .. });
    assert_eq!(bench.told().iter().filter(cancelled).count(), 0);
}

#[test]
fn a_queue_that_goes_and_comes_back_stays_paused_and_shares_are_computed_all_the_while() {
    let mut bench = queues(2, |_| {});
    bench.tell(pause(one_queue(1)));
    bench.set_members(&["c1", "c2"]);
    bench.notify("a");
    bench.sleep(secs(1));
    assert_eq!(bench.queue(1), None, "it is given away");
    bench.set_members(&["c1"]);
    bench.notify("a");
    bench.sleep(secs(1));
    let status = bench.queue(1).expect("it is back");
    assert_eq!(
        (status.state, status.hold),
        (QueueState::Held, Some(HoldReason::Paused(PauseScope::Queue)))
    );
    bench.tell(resume(one_queue(1)));
    assert!(take_pull(&mut bench, 1).is_some(), "at once");
}

/// A pause asks for nothing: W19, where Java computes the share each second while it is paused.
#[test]
fn a_paused_group_rebalances_as_often_as_any() {
    let count = |paused: bool| {
        let mut bench = queues(2, |_| {});
        if paused {
            bench.tell(pause(FlowScope::Group));
        }
        bench.idle(secs(600));
        bench.sent(RequestCode::GET_CONSUMER_LIST_BY_GROUP).len()
    };
    let (paused, flowing) = (count(true), count(false));
    assert!(paused.abs_diff(flowing) <= 1, "{paused} {flowing}");
}

#[test]
fn names_are_remembered_up_to_a_limit_and_a_name_that_is_given_free_makes_room() {
    let mut bench = queues(1, |group| {
        group.set_flow_names_max(3);
    });
    bench.tell(pause(one_queue(7)));
    bench.tell(pause(FlowScope::Topic("not yet".into())));
    bench.tell(limit(Some("U"), Some(Rate::per_second(1))));
    bench.tell(pause(one_queue(7)));
    bench.tell(pause(FlowScope::Group));
    assert_eq!(refusals(&bench), []);
    let full = |bench: &Bench, times| {
        let keys: Vec<_> = refusals(bench)
            .iter()
            .map(|why| matches!(why, RefusalReason::BadConfig("flow_names_max", _)))
            .collect();
        keys == vec![true; times]
    };
    bench.tell(pause(one_queue(8)));
    assert!(full(&bench, 1));
    bench.tell(limit(Some("V"), Some(Rate::per_second(1))));
    assert!(full(&bench, 2));
    bench.tell(limit(Some("U"), None));
    bench.tell(pause(one_queue(8)));
    assert!(full(&bench, 2));
    assert_eq!(
        flow(&bench).paused_queues,
        [queue("T", "a", 7), queue("T", "a", 8)]
    );
}

#[test]
fn wishes_of_an_unknown_group_are_refused() {
    let mut bench = queues(1, |_| {});
    let group = || "nobody".into();
    let scope = FlowScope::Group;
    bench.tell(AppEvent::Pause {
        group: group(),
        scope: scope.clone(),
    });
    bench.tell(AppEvent::Resume {
        group: group(),
        scope,
    });
    bench.tell(AppEvent::RateLimit {
        group: group(),
        topic: None,
        rate: None,
    });
    assert_eq!(refusals(&bench), vec![RefusalReason::UnknownGroup; 3]);
}
