//! Real bugs of other clients in groups that broadcast, one test each; and what holds for such a group.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it expects and passes over anything else"
)]

use std::collections::BTreeSet;

use bytes::Bytes;
use rocketmq_consumer_core::action::{AppAction, RefusalReason};
use rocketmq_consumer_core::config::{
    ClientConfig, DamagedStore, GroupConfig, MessageModel, StartAt, UndecodablePolicy,
};
use rocketmq_consumer_core::event::{AppEvent, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::{GroupStatus, QueueState};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::kept_offsets::{self, KeptOffsets};
use rocketmq_consumer_core::wire::request::heartbeat::{HeartbeatRequest, MessageModel as WireModel};
use rocketmq_consumer_core::wire::request::offsets::OffsetAnswer;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_testing::world::{Bench, ms, queue, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const MAX: RequestCode = RequestCode::GET_MAX_OFFSET;
const ROUTE: RequestCode = RequestCode::GET_ROUTEINFO_BY_TOPIC;

/// A member that broadcasts and has not been answered yet, not by its store either.
fn member(set_up: impl FnOnce(&mut ClientConfig, &mut GroupConfig)) -> Bench {
    Bench::new(|client, group| {
        group
            .set_model(MessageModel::Broadcasting)
            .subscribe("T".into(), "*");
        set_up(client, group);
    })
}

/// One that goes on at this offset of its only queue.
fn going_on_at(offset: i64) -> Bench {
    let mut bench = member(|_, _| {});
    bench.keep(&[(queue("T", "a", 0), offset)]);
    bench.settle();
    bench
}

fn pulls(bench: &Bench) -> Vec<(String, i64)> {
    let pulls = bench.sent(PULL);
    let words = pulls.iter().map(|asked| {
        let request: PullRequest = asked.request();
        let broker = request.broker.as_ref().map_or("", |broker| broker.as_str());
        (format!("{broker}{}", request.queue.0), request.offset.0)
    });
    words.collect()
}

/// What is stored of queue 0 of a broker.
fn kept(bench: &Bench, broker: &str) -> Option<i64> {
    bench.kept().get(&queue("T", broker, 0)).map(|offset| offset.0)
}

fn status(bench: &Bench) -> GroupStatus {
    bench.status().groups.remove(0)
}

fn refusal(bench: &Bench) -> Option<RefusalReason> {
    bench.told().iter().find_map(|action| match action {
        AppAction::Refused(refusal) => Some(refusal.why.clone()),
        _ => None,
    })
}

const fn moved(to: i64, min: i64, max: i64) -> PullAnswer {
    PullAnswer {
        status: PullStatus::OffsetMoved,
        next_begin_offset: QueueOffset(to),
        min_offset: Some(QueueOffset(min)),
        max_offset: Some(QueueOffset(max)),
        suggest_broker_id: None,
        offset_delta: None,
        reset: false,
        messages: Bytes::new(),
    }
}

#[test]
fn of_11_a_corrected_offset_is_stored_and_is_where_the_next_ownership_begins() {
    let mut bench = going_on_at(0);
    let (pull, _) = bench.expect_pull();
    bench.answer(&pull, &moved(172, 172, 200));
    assert_eq!(kept(&bench, "a"), Some(172), "at once");
    // The queue goes and comes back before anything was consumed.
    bench.set_queues("T", &[]);
    bench.sleep(secs(31));
    bench.set_queues("T", &[("a", 1)]);
    bench.sleep(secs(31));
    let begun: Vec<i64> = bench
        .notices()
        .iter()
        .filter_map(|notice| match &notice.kind {
            NoticeKind::Assigned { from, .. } => Some(from.0),
            _ => None,
        })
        .collect();
    assert_eq!(begun, [0, 172, 172]);
    let asked: Vec<i64> = pulls(&bench).into_iter().map(|(_, offset)| offset).collect();
    assert!(
        asked[0] == 0 && asked[1..].iter().all(|offset| *offset == 172),
        "{asked:?}"
    );
    let pull = bench.drop_requests(PULL).pop().expect("it pulls");
    bench.found_at(&pull, [172, 173], 1, 174);
    let run = bench.take_runs().remove(0);
    assert_eq!(run.offsets(), [172, 173]);
    bench.done(&run);
    bench.sleep(secs(5));
    assert_eq!(kept(&bench, "a"), Some(174));
}

/// Whether the group begins and where, the notice in one word, and why not.
fn begun(
    main: Option<&[u8]>,
    backup: Option<&[u8]>,
    policy: DamagedStore,
) -> Result<(i64, &'static str), String> {
    let mut bench = member(|_, group| {
        group.set_damaged_store(policy);
    });
    bench.put_in_store(main, backup);
    bench.settle();
    if let Some(why) = refusal(&bench) {
        assert!(bench.status().groups.is_empty() && bench.all_sent().is_empty());
        assert_eq!(bench.saves(), 0, "what is there stays as it is");
        return Err(why.to_string());
    }
    let (pull, request) = bench.expect_pull();
    let notice = bench.notices().iter().find_map(|notice| match notice.kind {
        NoticeKind::BackupUsed { .. } => Some("backup"),
        NoticeKind::StartedOver { .. } => Some("over"),
        _ => None,
    });
    // What could not be read never becomes the backup.
    let begin = request.offset.0;
    bench.found_at(&pull, [begin, begin + 1], 1, begin + 2);
    for run in bench.take_runs() {
        bench.done(&run);
    }
    bench.sleep(secs(5));
    assert_eq!(kept(&bench, "a"), Some(begin + 2));
    let now = bench.in_store().backup.as_deref();
    assert!(
        now == backup || now.is_some_and(|now| kept_offsets::read(now).is_ok()),
        "{now:?}"
    );
    Ok((begin, notice.unwrap_or_default()))
}

#[test]
fn of_13_a_damaged_store_is_survived_from_its_backup_or_refused_by_its_name() {
    let good = kept_offsets::write(&KeptOffsets::from([(queue("T", "a", 0), QueueOffset(7))]));
    let good = Some(&*good);
    let zeros = Some(&[0; 4096][..]);
    let cut = Some(&b"{\"offsetTable\":{"[..]);
    let empty = Some(&b""[..]);
    use DamagedStore::{Refuse, StartOver};
    for policy in [Refuse, StartOver] {
        for (main, backup, want) in [
            (empty, good, (7, "backup")),
            (zeros, good, (7, "backup")),
            (cut, good, (7, "backup")),
            (None, good, (7, "backup")),
            (good, zeros, (7, "")),
            (good, None, (7, "")),
            // A first start: at the earliest message, as it is configured.
            (None, None, (0, "")),
            (empty, empty, (0, "")),
        ] {
            assert_eq!(begun(main, backup, policy), Ok(want), "{main:?} {backup:?}");
        }
    }
    for (main, backup) in [
        (zeros, zeros),
        (cut, zeros),
        (cut, None),
        (empty, cut),
        (None, cut),
    ] {
        let refused = begun(main, backup, Refuse).expect_err("nothing can be read");
        assert!(refused.contains(Bench::PLACE), "{refused}");
        let over = begun(main, backup, StartOver);
        assert_eq!(over, Ok((0, "over")), "{main:?} {backup:?}");
    }
}

#[test]
fn of_13_what_cannot_be_read_is_kept_aside() {
    let mut bench = member(|_, group| {
        group.set_damaged_store(DamagedStore::StartOver);
    });
    bench.put_in_store(Some(b"\0\0"), Some(b"{"));
    bench.settle();
    bench.sleep(secs(6));
    assert_eq!(
        (bench.saves(), kept(&bench, "a")),
        (1, Some(0)),
        "the start that was chosen"
    );
    assert_eq!(bench.aside().map(|bytes| &**bytes), Some(&b"\0\0"[..]));
}

#[test]
fn of_14_the_backup_is_what_was_stored_before() {
    let mut bench = going_on_at(0);
    for (from, to) in [(0, 10), (10, 20)] {
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, from..to, 1, to);
        for run in bench.take_runs() {
            bench.done(&run);
        }
        bench.sleep(secs(5));
    }
    assert_eq!(kept(&bench, "a"), Some(20));
    let backup = bench
        .in_store()
        .backup
        .as_ref()
        .map(|backup| kept_offsets::read(backup));
    let ten = KeptOffsets::from([(queue("T", "a", 0), QueueOffset(10))]);
    assert_eq!(backup, Some(Ok(ten)));
}

#[test]
fn of_15_a_first_run_without_a_message_ends_without_an_error() {
    // No name server knows the topic: nothing is known, so nothing is stored.
    let mut bench = member(|_, _| {});
    bench.set_queues("T", &[]);
    bench.withhold(ROUTE);
    bench.settle();
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    assert!(bench.is_closed());
    assert_eq!((bench.saves(), bench.in_store().main.is_some()), (0, false));
    // And one that has found its queues has stored where it begins.
    let mut bench = member(|_, _| {});
    bench.settle();
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    bench.settle();
    assert!(bench.is_closed() && refusal(&bench).is_none());
    assert_eq!(kept(&bench, "a"), Some(0));
    bench.machine().assert_replays();
}

#[test]
fn of_17_a_broker_that_is_away_for_a_while_takes_no_offset_along() {
    let mut bench = member(|_, group| {
        group.set_start_at(StartAt::Latest);
    });
    bench.keep(&[(queue("T", "b", 0), 5), (queue("T", "c", 0), 7)]);
    bench.set_queues("T", &[("a", 1), ("b", 1), ("c", 1)]);
    bench.settle();
    let end = bench.expect_request(MAX);
    bench.answer(
        &end,
        &OffsetAnswer {
            offset: QueueOffset(3),
        },
    );
    bench.set_queues("T", &[("a", 1)]);
    bench.sleep(secs(31));
    let all = |bench: &Bench| bench.kept().values().map(|offset| offset.0).collect::<Vec<_>>();
    assert_eq!(
        all(&bench),
        [3, 5, 7],
        "a chosen start is stored, and the others stay"
    );
    assert_eq!(status(&bench).queues.len(), 1);
    bench.drop_requests(PULL);
    bench.set_queues("T", &[("a", 1), ("b", 1), ("c", 1)]);
    bench.sleep(secs(31));
    let again: Vec<(String, i64)> = pulls(&bench).split_off(3);
    let of = |queue: &str| {
        again
            .iter()
            .filter(|(of, _)| of == queue)
            .map(|(_, offset)| *offset)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!((of("b0"), of("c0")), ([5].into(), [7].into()));
    assert_eq!(bench.outstanding(MAX).len(), 0, "nobody is asked where to start");
}

#[test]
fn every_queue_is_ours_and_no_broker_is_told_or_asked_of_it() {
    let mut bench = member(|_, _| {});
    bench.set_members(&["c0", "c1", "c2"]);
    bench.set_queues("T", &[("a", 2), ("b", 1)]);
    bench.settle();
    assert_eq!(
        bench.now(),
        rocketmq_consumer_core::time::Instant::ZERO,
        "and at once"
    );
    let mut pulled = pulls(&bench);
    pulled.sort();
    assert_eq!(pulled, [("a0".into(), 0), ("a1".into(), 0), ("b0".into(), 0)]);
    assert_eq!(bench.count_notices(|kind| matches!(kind, NoticeKind::Ready)), 1);
    for pull in bench.drop_requests(PULL) {
        bench.found_at(&pull, 0..3, 1, 3);
    }
    for run in bench.take_runs() {
        bench.done(&run);
    }
    bench.sleep(secs(60));
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    bench.settle();
    for code in [
        RequestCode::GET_CONSUMER_LIST_BY_GROUP,
        RequestCode::QUERY_CONSUMER_OFFSET,
        RequestCode::UPDATE_CONSUMER_OFFSET,
    ] {
        assert_eq!(bench.sent(code).len(), 0, "{code}");
    }
    let commits = bench.sent(PULL);
    let commits = commits
        .iter()
        .filter_map(|asked| asked.request::<PullRequest>().commit);
    assert_eq!(commits.count(), 0);
    for beat in bench.sent(RequestCode::HEART_BEAT) {
        for consumer in beat.request::<HeartbeatRequest>().consumers {
            assert_eq!(consumer.message_model, Some(WireModel::Broadcasting));
            let topics: Vec<String> = consumer
                .subscriptions
                .iter()
                .map(|data| data.topic.to_string())
                .collect();
            assert_eq!(topics, ["T"], "no retry topic");
        }
    }
    let report = bench.report_of_end().expect("it has ended");
    let committed: Vec<Option<i64>> = report.committed.iter().map(|(_, at)| at.map(|at| at.0)).collect();
    assert_eq!(committed, [Some(3), Some(3), Some(3)]);
    bench.machine().assert_replays();
}

#[test]
fn a_failure_is_told_counted_and_dropped() {
    let mut bench = going_on_at(0);
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..5, 1, 5);
    let run = bench.take_runs().remove(0);
    for (position, verdict) in [
        (0, Outcome::Done),
        (1, Outcome::Retry),
        (2, Outcome::RetryAfter(secs(9))),
        (3, Outcome::DeadLetter),
    ] {
        let range = rocketmq_consumer_core::event::RunRange {
            start: position,
            end: position + 1,
        };
        bench.report_part(&run, range, Verdict::Handled(verdict));
    }
    assert_eq!((status(&bench).dropped, status(&bench).finished), (3, 4));
    let told: Vec<(i64, bool, u64)> = bench
        .notices()
        .iter()
        .filter_map(|notice| match &notice.kind {
            NoticeKind::Dropped {
                offset, message_id, ..
            } => Some((offset.0, message_id.is_some(), notice.repeated)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(1, true, 0)], "the others are counted with the next one");
    bench.sleep(secs(20));
    assert_eq!(bench.take_runs().len(), 0, "nothing comes again");
    assert_eq!(kept(&bench, "a"), Some(4));
    for code in [RequestCode::CONSUMER_SEND_MSG_BACK, RequestCode::SEND_MESSAGE] {
        assert_eq!(bench.sent(code).len(), 0);
    }
    bench.tell(AppEvent::Shutdown { drain: ms(10) });
    bench.sleep(secs(1));
    assert_eq!(
        bench
            .report_of_end()
            .map(|report| (report.dropped, report.abandoned)),
        Some((3, 1))
    );
}

#[test]
fn a_handler_that_hangs_costs_one_message() {
    let mut bench = member(|_, group| {
        group.set_delivery_deadline(secs(1)).set_cancel_grace(secs(1));
    });
    bench.keep(&[(queue("T", "a", 0), 0)]);
    bench.settle();
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [0], 1, 1);
    let run = bench.take_runs().remove(0);
    bench.sleep(secs(8));
    assert_eq!((status(&bench).dropped, kept(&bench, "a")), (1, Some(1)));
    bench.done(&run);
    assert_eq!(bench.status().counters.late_reports, 1);
}

#[test]
fn a_body_that_cannot_be_opened_has_no_dead_letters_to_go_to() {
    for (policy, dropped) in [
        (UndecodablePolicy::DeadLetter, true),
        (UndecodablePolicy::Hold, false),
    ] {
        let mut bench = member(|_, group| {
            group.set_undecodable(policy);
        });
        bench.keep(&[(queue("T", "a", 0), 0)]);
        bench.settle();
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, [0], 1, 1);
        let run = bench.take_runs().remove(0);
        bench.report(&run, Verdict::Undecodable);
        bench.sleep(secs(6));
        assert_eq!(kept(&bench, "a"), Some(i64::from(dropped)));
        assert_eq!(bench.sent(RequestCode::CONSUMER_SEND_MSG_BACK).len(), 0);
    }
}

#[test]
fn no_queue_begins_before_the_store_has_answered() {
    let mut bench = member(|_, _| {});
    bench.withhold_store();
    bench.settle();
    bench.sleep(secs(60));
    assert!(bench.all_sent().is_empty() && bench.status().groups.is_empty());
    // A second consumer of the group is refused meanwhile, and a stop ends it.
    let mut again = GroupConfig::new("G".into());
    again
        .set_model(MessageModel::Broadcasting)
        .subscribe("T".into(), "*");
    bench.tell(AppEvent::StartGroup(again.into()));
    assert_eq!(refusal(&bench), Some(RefusalReason::AlreadyRegistered));
    let (group, drain) = ("G".into(), secs(1));
    bench.tell(AppEvent::StopGroup { group, drain });
    assert!(bench.report_of_end().is_some());
    bench.serve_store();
    assert_eq!(bench.status().counters.stale_answers, 1);
    assert!(bench.status().groups.is_empty() && bench.all_sent().is_empty());
}

#[test]
fn a_shutdown_refuses_what_is_still_loading() {
    let mut bench = member(|_, _| {});
    bench.withhold_store();
    bench.settle();
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    assert_eq!(refusal(&bench), Some(RefusalReason::ShuttingDown));
    assert!(bench.is_closed());
}

#[test]
fn a_second_process_is_refused() {
    let mut bench = member(|_, _| {});
    bench.lock_store();
    bench.settle();
    let place = Bench::PLACE.into();
    assert_eq!(refusal(&bench), Some(RefusalReason::StoreInUse { place }));
    assert!(bench.all_sent().is_empty());
}

#[test]
fn a_store_that_fails_is_told_asked_again_and_awaited_on_the_way_out() {
    let mut bench = going_on_at(0);
    bench.break_store(Some("disk full"));
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..3, 1, 3);
    for run in bench.take_runs() {
        bench.done(&run);
    }
    bench.sleep(secs(40));
    let store = status(&bench).store.expect("it keeps its offsets itself");
    assert_eq!(
        (store.failures, store.behind),
        (6, true),
        "at 5, 6, 8, 12, 20 and 36 s"
    );
    assert_eq!(store.trouble.as_deref(), Some("disk full"));
    assert_eq!(store.place, Bench::PLACE);
    assert!(bench.count_notices(|kind| matches!(kind, NoticeKind::SaveFailed { .. })) > 1);
    assert_eq!(
        bench.queue(0).and_then(|queue| queue.committed),
        Some(QueueOffset(0))
    );

    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    bench.sleep(secs(1));
    assert!(!bench.is_closed(), "the offsets are not safe");
    bench.break_store(None);
    bench.sleep(secs(1));
    assert!(bench.is_closed());
    assert_eq!(kept(&bench, "a"), Some(3));
}

#[test]
fn a_store_that_stays_broken_does_not_hold_a_shutdown_for_ever() {
    let mut bench = going_on_at(0);
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..3, 1, 3);
    for run in bench.take_runs() {
        bench.done(&run);
    }
    bench.withhold_store();
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    bench.sleep(secs(4));
    assert!(!bench.is_closed());
    bench.sleep(secs(2));
    assert!(bench.is_closed());
    let report = bench.report_of_end().expect("it has ended");
    assert_eq!(
        report.committed[0].1,
        Some(QueueOffset(0)),
        "the report says what is stored"
    );
}

#[test]
fn one_save_is_out_at_a_time_and_an_idle_queue_costs_none() {
    let mut bench = member(|_, _| {});
    bench.set_queues("T", &[("a", 8)]);
    bench.settle();
    assert_eq!(
        bench.saves(),
        2,
        "eight starts that were chosen: the first, and those that came meanwhile"
    );
    bench.withhold_store();
    for round in 0..3 {
        for pull in bench.drop_requests(PULL) {
            bench.found_at(&pull, [round], 1, round + 1);
        }
        for run in bench.take_runs() {
            bench.done(&run);
        }
        bench.sleep(secs(5));
        assert_eq!(bench.store_questions().len(), 1, "{round}");
    }
    bench.serve_store();
    bench.sleep(secs(5));
    let all: Vec<i64> = bench.kept().into_values().map(|offset| offset.0).collect();
    assert_eq!(all, [3; 8]);
    let saves = bench.saves();
    bench.idle(secs(300));
    assert_eq!(bench.saves(), saves);
}

#[test]
fn a_queue_that_goes_while_a_handler_runs_is_stored_with_what_it_finished() {
    let mut bench = going_on_at(0);
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [0], 1, 1);
    let run = bench.take_runs().remove(0);
    bench.set_queues("T", &[]);
    while bench
        .queue(0)
        .is_some_and(|queue| queue.state != QueueState::Revoking)
    {
        bench.sleep(ms(100));
    }
    bench.sleep(ms(100));
    bench.done(&run);
    bench.settle();
    assert!(bench.queue(0).is_none());
    assert_eq!(kept(&bench, "a"), Some(1));
}
