//! The way out where there is no way to the broker: it takes its time and ends.

mod machine;

use std::time::Duration;

use machine::{Machine, Setting, record};
use rocketmq_consumer_core::event::{AppEvent, NetCause, NetEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{QueueId, QueueOffset};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::wire::request::pull::PullStatus;

/// A machine that has finished message 0 and not committed it.
fn with_something_to_commit(setting: Setting) -> Machine {
    let mut machine = Machine::start(setting);
    machine.answer_pull(PullStatus::Found, 1, &[record(QueueId(0), 0, "A", b"")]);
    machine.report(Outcome::Done);
    assert_eq!(machine.commits, []);
    machine
}

#[test]
fn last_commits_without_a_master_are_given_up_after_five_seconds() {
    let mut machine = with_something_to_commit(Setting {
        replica: 1,
        ..Setting::default()
    });
    machine.shut_down(Duration::from_secs(30));
    machine.advance(4_999);
    assert!(!machine.is_closed, "a master may still come");
    machine.advance(1);
    assert!(machine.is_closed);
    let report = machine.report.expect("the group has stopped");
    assert_eq!(report.committed[0].1, Some(QueueOffset(0)), "not 1");
}

#[test]
fn a_broker_that_goes_away_while_we_leave_holds_nobody_up() {
    for busy in [false, true] {
        let mut machine = Machine::start(Setting::default());
        let conn = machine.pulls[0].conn;
        machine.answer_pull(PullStatus::Found, 1, &[record(QueueId(0), 0, "A", b"")]);
        if !busy {
            machine.report(Outcome::Done);
        }
        machine.advance(100);
        let cause = NetCause::Reset;
        if busy {
            machine.shut_down(Duration::from_secs(30));
            machine.handle(NetEvent::Closed { conn, cause });
            machine.advance(40_000);
        } else {
            machine.handle(NetEvent::Closed { conn, cause });
            machine.shut_down(Duration::from_secs(30));
            machine.advance(10_000);
        }
        assert!(machine.is_closed, "with a handler that hangs: {busy}");
    }
}

#[test]
fn what_was_finished_is_committed_on_the_way_out() {
    let mut machine = with_something_to_commit(Setting::default());
    machine.shut_down(Duration::from_secs(30));
    assert_eq!((machine.commits.last(), machine.is_closed), (Some(&(0, 1)), true));
}

/// The queue went to another member, a handler of ours still runs, and then the client stops.
#[test]
fn the_next_owner_of_a_queue_is_not_overwritten_on_the_way_out() {
    for (moved_to, commits) in [(0, &[(0, 1)][..]), (7, &[])] {
        let mut machine = Machine::start(Setting::default());
        let records = [0, 1].map(|offset| record(QueueId(0), offset, "A", b""));
        machine.answer_pull(PullStatus::Found, 2, &records);
        machine.members = vec!["another", "me"];
        machine.advance(20_000);
        // The share is lost, 0 is committed, and within the grace one of two handlers ends.
        machine.handle(AppEvent::Consumed {
            id: machine.runs[0].id,
            range: RunRange { start: 0, end: 1 },
            report: Report::All(Verdict::Handled(Outcome::Done)),
        });
        machine.commits.clear();
        machine.stored.insert(0, moved_to);
        machine.shut_down(Duration::ZERO);
        machine.advance(10_000);
        assert!(machine.is_closed);
        assert_eq!(machine.commits, commits, "the other member stored {moved_to}");
    }
}

/// A machine that has finished message 5, and whose pull, sent just before, carries offset 5.
fn with_a_lower_offset_on_its_way() -> Machine {
    let mut machine = Machine::start(Setting {
        stored: 5,
        group: |group| {
            group.set_commit_interval(Duration::from_secs(30));
        },
        ..Setting::default()
    });
    machine.advance(19_900);
    machine.answer_pull(PullStatus::Found, 6, &[record(QueueId(0), 5, "A", b"")]);
    machine.report(Outcome::Done);
    assert_eq!(machine.pulls[0].request.commit, Some(QueueOffset(5)));
    machine
}

/// Brokers have other threads for pulls than for commits.
#[test]
fn the_last_commit_is_not_overtaken_by_what_a_pull_carries() {
    for answered in [false, true] {
        let mut machine = with_a_lower_offset_on_its_way();
        machine.shut_down(Duration::ZERO);
        assert_eq!((&*machine.commits, machine.is_closed), (&[(0, 6)][..], false));
        machine.advance(50);
        if answered {
            machine.answer_pull(PullStatus::NotFound, 6, &[]);
        } else {
            machine.advance(149);
            assert!(!machine.is_closed, "the pull may wait for a thread");
            machine.advance(1);
        }
        assert_eq!(
            (&*machine.commits, machine.is_closed),
            (&[(0, 6), (0, 6)][..], true)
        );
    }
}

#[test]
fn what_overtook_the_commit_of_a_lost_queue_is_overwritten() {
    for (stored, commits) in [
        (5, &[(0, 6), (0, 6)][..]),
        (6, &[(0, 6)]),
        // Another member has gone on.
        (9, &[(0, 6)]),
    ] {
        let mut machine = with_a_lower_offset_on_its_way();
        machine.members = vec!["another", "me"];
        machine.advance(100);
        assert_eq!(machine.commits, [(0, 6)], "at once, for who asks at once");
        machine.stored.insert(0, stored);
        machine.advance(100);
        assert_eq!(machine.commits, commits, "{stored} is stored");
        machine.shut_down(Duration::ZERO);
        machine.advance(1_000);
        assert!(machine.is_closed);
        assert_eq!(machine.commits, commits, "{stored} is stored");
    }
}

/// A broker that has not stored the first commit yet would answer with what it had before.
#[test]
fn a_handler_that_ends_before_the_first_commit_is_stored_is_committed_too() {
    let mut machine = Machine::start(Setting::default());
    machine.answer_pull(PullStatus::Found, 1, &[record(QueueId(0), 0, "A", b"")]);
    machine.advance(19_000);
    machine.members = vec!["another", "me"];
    (machine.hold_commits, machine.stored) = (true, [(0, 3)].into());
    machine.advance(1_000);
    machine.report(Outcome::Done);
    machine.commits.clear();
    machine.answer_commits();
    assert_eq!(machine.commits, [(0, 0), (0, 1)]);
}

/// A handler asks for more time when its queue is given back or its group has stopped waiting, and ends
/// before that time is over. The deadline nobody could meet any more once came due again and again
/// within one event, for ever.
#[test]
fn more_time_that_is_asked_for_too_late_keeps_nobody_busy() {
    for revoked in [false, true] {
        let mut machine = Machine::start(Setting::default());
        let records = [0, 1].map(|offset| record(QueueId(0), offset, "A", b""));
        machine.answer_pull(PullStatus::Found, 2, &records);
        machine.handle(AppEvent::Consumed {
            id: machine.runs[0].id,
            range: RunRange { start: 0, end: 1 },
            report: Report::All(Verdict::Handled(Outcome::Done)),
        });
        machine.hold_commits = true;
        if revoked {
            machine.members = vec!["another", "me"];
            machine.advance(20_500);
        } else {
            machine.shut_down(Duration::ZERO);
            machine.advance(1);
        }
        machine.handle(AppEvent::Extend {
            id: machine.runs[0].id,
            position: 1,
            by: Duration::from_secs(1),
        });
        machine.report(Outcome::Done);
        machine.advance(60_000);
        assert_eq!(machine.is_closed, !revoked);
    }
}
