//! Real bugs of other clients in offsets, one test each; `cases` tells their stories.

use bytes::Bytes;
use rocketmq_consumer_core::action::AppAction;
use rocketmq_consumer_core::config::StartAt;
use rocketmq_consumer_core::event::{AppEvent, FlowScope, RunRange, Verdict};
use rocketmq_consumer_core::ids::{PeerAddr, QueueOffset};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::{NoticeKind, OffsetTrouble};
use rocketmq_consumer_core::status::{HoldReason, QueueState};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::command::{Command, ExtWriter, FLAG_RESPONSE, Header, Language, WriteExt};
use rocketmq_consumer_core::wire::frame::HeaderForm;
use rocketmq_consumer_core::wire::request::offsets::{
    CommitOffsetRequest, OffsetAnswer, QueryOffsetRequest, StoredOffset,
};
use rocketmq_consumer_core::wire::request::operator::ResetOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::{Answer, AnswerError};
use rocketmq_consumer_testing::world::{Asked, Bench, ORIGIN, Run, StoredMessage, World, ms, queue, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const QUERY: RequestCode = RequestCode::QUERY_CONSUMER_OFFSET;
const COMMIT: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const ROUTE: RequestCode = RequestCode::GET_ROUTEINFO_BY_TOPIC;

/// Every offset that was sent to be stored, alone or with a pull.
fn commits(bench: &Bench) -> Vec<i64> {
    bench.all_sent().iter().filter_map(offset_of).collect()
}

/// The offset that a request wants stored.
fn offset_of(asked: &Asked) -> Option<i64> {
    match asked.code {
        COMMIT => Some(asked.request::<CommitOffsetRequest>().offset.0),
        PULL => Some(asked.request::<PullRequest>().commit?.0),
        _ => None,
    }
}

fn pulls(bench: &Bench) -> Vec<i64> {
    let pulls = bench.sent(PULL);
    pulls
        .iter()
        .map(|asked| asked.request::<PullRequest>().offset.0)
        .collect()
}

/// The newest offset that was sent to be stored by itself, and not with a pull.
fn committed(bench: &Bench) -> Option<i64> {
    let last = bench.sent(COMMIT).last().copied()?;
    Some(last.request::<CommitOffsetRequest>().offset.0)
}

fn lowest(bench: &Bench) -> Option<i64> {
    Some(bench.queue(0)?.lowest_unfinished?.0)
}

/// Reports one message of a run.
fn done_one(bench: &mut Bench, run: &Run, index: u32) {
    let start = run.range.start + index;
    let range = RunRange {
        start,
        end: start + 1,
    };
    bench.report_part(run, range, Verdict::Handled(Outcome::Done));
}

#[test]
fn of_01_an_offset_that_is_not_known_is_no_position() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.withhold(QUERY);
    bench.settle();
    let first = bench.expect_request(QUERY);
    bench.sleep(secs(5));
    let late = bench.status().counters.late_answers;
    bench.answer(&first, &StoredOffset(Some(QueueOffset(5_757_922))));
    assert_eq!(bench.status().counters.late_answers, late + 1);
    assert!(pulls(&bench).is_empty(), "nothing is known yet");
    assert!(
        bench.outstanding(QUERY).is_empty(),
        "not again at once: after a pause"
    );
    assert_eq!(
        bench.queue(0).map(|queue| queue.state),
        Some(QueueState::Acquiring)
    );
    bench.sleep(secs(1));
    let second = bench.expect_request(QUERY);
    bench.answer(&second, &StoredOffset(Some(QueueOffset(5_757_922))));
    assert_eq!(pulls(&bench), [5_757_922]);
    bench.sleep(secs(60));
    assert_eq!(committed(&bench), Some(5_757_922));
    assert!(
        commits(&bench).iter().all(|offset| *offset == 5_757_922),
        "{:?}",
        commits(&bench)
    );
}

#[test]
fn of_08_an_empty_answer_moves_the_offset() {
    let start = || {
        let mut bench = Bench::new(|_, group| {
            group.subscribe("T".into(), "A");
        });
        bench.store("T", 0, 0);
        bench.settle();
        bench
    };
    let mut bench = start();
    let (pull, _) = bench.expect_pull();
    bench.nothing(&pull, PullStatus::RetryImmediately, 800);
    let (pull, _) = bench.expect_pull();
    bench.nothing(&pull, PullStatus::NotFound, 2020);
    assert_eq!(pulls(&bench), [0, 800, 2020]);
    bench.sleep(secs(5));
    assert_eq!(committed(&bench), Some(2020), "without another pull");

    // With message 5 in work everything stays at 5.
    let mut bench = start();
    let (pull, _) = bench.expect_pull();
    let message = StoredMessage::new(queue("T", "a", 0), 5, "five", "A");
    bench.found(&pull, &[message], 6);
    let (pull, _) = bench.expect_pull();
    bench.nothing(&pull, PullStatus::RetryImmediately, 800);
    bench.sleep(secs(60));
    assert!(
        commits(&bench).iter().all(|offset| *offset <= 5),
        "{:?}",
        commits(&bench)
    );
    assert_eq!(commits(&bench).last(), Some(&5));
    let run = bench.take_runs().remove(0);
    bench.done(&run);
    bench.sleep(secs(5));
    assert_eq!(lowest(&bench), Some(800));
    assert_eq!(commits(&bench).last(), Some(&800));
}

#[test]
fn of_10_a_shutdown_commits_once_the_handlers_have_ended() {
    let mut bench = Bench::owning_one_queue(20, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 20..26, 10, 26);
    let run = bench.take_runs().remove(0);
    let (started, before) = (bench.now(), bench.sent(COMMIT).len());
    bench.tell(AppEvent::Shutdown { drain: secs(10) });
    // The pull at the broker comes back with more: too late.
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 26..30, 10, 30);
    assert!(bench.take_runs().is_empty(), "no new delivery");
    bench.sleep(secs(2));
    for index in 0..5 {
        done_one(&mut bench, &run, index);
    }
    bench.sleep(secs(1));
    assert_eq!(bench.sent(COMMIT).len(), before, "not before they have ended");
    bench.withhold(RequestCode::UNREGISTER_CLIENT);
    bench.withhold(COMMIT);
    done_one(&mut bench, &run, 5);
    let commit = bench.expect_request(COMMIT);
    assert_eq!(commit.request::<CommitOffsetRequest>().offset, QueueOffset(26));
    assert_eq!(commit.at, started + secs(3));
    assert!(
        bench.outstanding(RequestCode::UNREGISTER_CLIENT).is_empty(),
        "offsets first"
    );
    bench.serve(COMMIT);
    bench.answer(&commit, &rocketmq_consumer_core::wire::request::Done);
    assert_eq!(bench.outstanding(RequestCode::UNREGISTER_CLIENT).len(), 1);
    assert!(!bench.connections().is_empty(), "closed last");
    bench.serve(RequestCode::UNREGISTER_CLIENT);
    assert!(bench.connections().is_empty());
    assert_eq!(bench.told().last(), Some(&AppAction::Closed));
    assert_eq!(bench.now(), started + secs(3), "not the full 10 s");
    bench.machine().assert_replays();
}

/// A route as it stands on the wire, so that the order of its members is ours to choose.
struct RawRoute(String);

impl WriteExt for RawRoute {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for RawRoute {
    fn body(&self) -> Bytes {
        self.0.clone().into()
    }

    fn decode(_: &Header<'_>, _: &Bytes) -> Result<Self, AnswerError> {
        Ok(Self(String::new()))
    }
}

/// A member that was told of these replicas, in this order.
fn with_replicas(replicas: &[(i64, &str)]) -> Bench {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.withhold(ROUTE);
    bench.store("T", 0, 7);
    bench.settle();
    let addresses: Vec<String> = replicas
        .iter()
        .map(|(id, host)| format!("{id}:\"{host}:10911\""))
        .collect();
    let route = RawRoute(format!(
        "{{\"brokerDatas\":[{{\"brokerAddrs\":{{{}}},\"brokerName\":\"a\",\"cluster\":\"C\"}}],\
         \"queueDatas\":[{{\"brokerName\":\"a\",\"perm\":6,\"readQueueNums\":1,\"writeQueueNums\":1}}]}}",
        addresses.join(",")
    ));
    for asked in bench.drop_requests(ROUTE) {
        bench.answer(&asked, &route);
    }
    bench.sleep(secs(6));
    bench
}

#[test]
fn of_18_offsets_live_at_the_master_whatever_the_order_of_the_route() {
    let replicas = [(16, "10.0.0.16"), (0, "10.0.0.1"), (3, "10.0.0.3")];
    let master = PeerAddr::new("10.0.0.1", 10911);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let bench = with_replicas(&order.map(|index| replicas[index]));
        for code in [QUERY, COMMIT] {
            let sent = bench.sent(code);
            assert!(
                !sent.is_empty() && sent.iter().all(|asked| asked.to == master),
                "{order:?}"
            );
        }
    }
    // A slave is read from when there is no master, and never written to.
    let bench = with_replicas(&[(16, "10.0.0.16")]);
    let slave = PeerAddr::new("10.0.0.16", 10911);
    assert!(!bench.sent(QUERY).is_empty() && bench.sent(QUERY).iter().all(|asked| asked.to == slave));
    assert!(bench.sent(COMMIT).is_empty());
    assert!(commits(&bench).is_empty(), "nor with a pull");
}

#[test]
fn of_19_the_highest_offset_counts_and_not_the_last() {
    let mut bench = Bench::owning_one_queue(5, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [10, 5], 10, 11);
    for run in bench.take_runs() {
        bench.done(&run);
    }
    assert_eq!(lowest(&bench), Some(11));
    bench.sleep(secs(5));
    assert_eq!(commits(&bench).last(), Some(&11));
}

#[test]
fn of_24_what_lies_below_the_asked_offset_is_dropped() {
    let mut bench = Bench::owning_one_queue(2_433_064, |_, _| {});
    let started = bench.now();
    for _ in 0..100 {
        // From the second on nothing has moved: a second passes before the same is asked again.
        if bench.outstanding(PULL).is_empty() {
            bench.sleep(secs(1));
        }
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, 843_377..843_381, 10, 2_433_072);
        assert!(bench.take_runs().is_empty(), "nobody asked for them");
    }
    assert_eq!(pulls(&bench)[..2], [2_433_064, 2_433_072]);
    assert!(pulls(&bench)[1..].iter().all(|offset| *offset == 2_433_072));
    assert!(commits(&bench).iter().all(|offset| *offset >= 2_433_064));
    let told = bench.count_notices(|kind| matches!(kind, NoticeKind::OutsideOfAsked { .. }));
    let most = bench.now().saturating_since(started).as_secs() / 10 + 1;
    assert!(
        (1..=most).contains(&(told as u64)),
        "{told} notices, at most {most}"
    );
}

#[test]
fn of_27_a_message_may_be_finished_while_it_is_handed_over() {
    let mut bench = Bench::owning_one_queue(7, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [7, 8], 10, 9);
    let run = bench.take_runs().remove(0);
    done_one(&mut bench, &run, 0);
    assert_eq!(lowest(&bench), Some(8));
    assert_eq!(bench.queue(0).map(|queue| queue.unfinished), Some(1));
    bench.sleep(secs(5));
    assert_eq!(committed(&bench), Some(8));
    done_one(&mut bench, &run, 1);
    assert_eq!(lowest(&bench), Some(9));
    assert_eq!(bench.queue(0).map(|queue| queue.unfinished), Some(0));
    bench.sleep(secs(5));
    assert_eq!(committed(&bench), Some(9));
}

#[test]
fn of_29_a_late_completion_commits_nothing_for_the_next_owner() {
    for (finishes_after, in_grace) in [(ms(100), true), (secs(1), false)] {
        let mut bench = Bench::owning_one_queue(100, |_, _| {});
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, 100..104, 10, 104);
        let run = bench.take_runs().remove(0);
        bench.set_members(&["c0", "c1"]);
        bench.notify("a");
        bench.sleep(ms(50));
        assert_eq!(commits(&bench).last(), Some(&100), "the final commit");
        let (before, late) = (bench.sent(COMMIT).len(), bench.status().counters.late_reports);
        // The next owner is quick.
        bench.store("T", 0, 150);
        bench.sleep(finishes_after);
        bench.done(&run);
        bench.sleep(secs(30));
        assert_eq!(bench.sent(COMMIT).len(), before, "in grace: {in_grace}");
        if !in_grace {
            assert_eq!(bench.status().counters.late_reports, late + 4);
        }
    }
}

/// The offset of a pull that a replica answers so, and where it goes on.
const fn moved(to: i64, max: i64) -> PullAnswer {
    PullAnswer {
        status: PullStatus::OffsetMoved,
        next_begin_offset: QueueOffset(to),
        min_offset: Some(QueueOffset(0)),
        max_offset: Some(QueueOffset(max)),
        suggest_broker_id: None,
        offset_delta: None,
        reset: false,
        messages: Bytes::new(),
    }
}

#[test]
fn of_04_only_the_master_may_correct_an_offset() {
    let (master, slave) = ("10.0.0.1:10911", "10.0.0.21:10911");
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_addresses("a", &[(0, master), (1, slave)]);
    bench.store("T", 0, 15_619);
    bench.settle();
    let (pull, request) = bench.expect_pull();
    assert_eq!((pull.to.host(), request.offset.0), ("10.0.0.1", 15_619));
    // The master is gone, and with the next route only the slave is left.
    bench.set_addresses("a", &[(1, slave)]);
    bench.close(pull.link.conn);
    bench.sleep(secs(3));
    let before = pulls(&bench).len();
    for _ in 0..9 {
        let (pull, request) = bench.expect_pull();
        assert_eq!((pull.to.host(), request.offset.0), ("10.0.0.21", 15_619));
        bench.answer(&pull, &moved(0, 7358));
        assert!(bench.outstanding(PULL).is_empty(), "not at full speed");
        let hold = bench.queue(0).and_then(|queue| queue.hold);
        assert_eq!(hold, Some(HoldReason::OffsetDoubted), "visible");
        bench.sleep(secs(1));
    }
    assert_eq!(pulls(&bench).len(), before + 10 - 1);
    bench.set_addresses("a", &[(0, master), (1, slave)]);
    bench.sleep(secs(6));
    for pull in bench.drop_requests(PULL) {
        bench.answer(&pull, &moved(0, 7358));
    }
    bench.sleep(secs(2));
    let (pull, request) = bench.expect_pull();
    assert_eq!((pull.to.host(), request.offset.0), ("10.0.0.1", 15_619));
    bench.nothing(&pull, PullStatus::NotFound, 15_620);
    bench.sleep(secs(60));
    assert!(
        pulls(&bench).iter().all(|offset| *offset >= 15_619),
        "{:?}",
        pulls(&bench)
    );
    assert!(!commits(&bench).is_empty());
    assert!(
        commits(&bench).iter().all(|offset| *offset >= 15_619),
        "{:?}",
        commits(&bench)
    );
    let doubts = |kind: &NoticeKind| matches!(kind, NoticeKind::OffsetIllegal { to, why: OffsetTrouble::Unconfirmed, .. } if to.0 == 15_619);
    assert!(bench.count_notices(doubts) >= 1);
}

/// The frame of an answer, as a broker of this version sends it.
fn answered_by<A: Answer>(version: i32, asked: &Asked, answer: &A) -> Bytes {
    let command = Command {
        code: answer.code().0,
        language: Language::Java,
        version,
        opaque: asked.opaque,
        flag: FLAG_RESPONSE,
        remark: None,
        ext: answer,
        body: &[],
    };
    command.encode(HeaderForm::Json).expect("a small answer")
}

/// The question for the stored offset of a new group that is to start so.
fn asking_stored(start_at: StartAt, like_java: bool) -> (Bench, Asked) {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
        group.set_start_at(start_at).set_latest_like_java(like_java);
    });
    bench.withhold(QUERY);
    bench.settle();
    let asked = bench.expect_request(QUERY);
    (bench, asked)
}

#[test]
fn of_25_the_latest_is_asked_for_and_a_broker_that_says_0_has_decided() {
    const OF_4_9_8: i32 = 409;
    const OF_5_0_0: i32 = 413;
    // A broker that can say "none" says so.
    let (mut bench, asked) = asking_stored(StartAt::Latest, false);
    assert_eq!(
        asked.request::<QueryOffsetRequest>().set_zero_if_not_found,
        Some(false)
    );
    bench.answer(&asked, &StoredOffset(None));
    let end = bench.expect_request(RequestCode::GET_MAX_OFFSET);
    bench.answer(
        &end,
        &OffsetAnswer {
            offset: QueueOffset(500),
        },
    );
    assert_eq!((pulls(&bench), committed(&bench)), (vec![500], Some(500)));
    let time = StartAt::Time(WallTime::from_unix_millis(7));
    for (start_at, like_java, version, told) in [
        (StartAt::Latest, false, OF_4_9_8, 1),
        (time, false, OF_4_9_8, 1),
        (StartAt::Latest, false, OF_5_0_0, 0),
        (StartAt::Latest, true, OF_4_9_8, 0),
        (StartAt::Earliest, false, OF_4_9_8, 0),
    ] {
        let (mut bench, asked) = asking_stored(start_at, like_java);
        let flag = asked.request::<QueryOffsetRequest>().set_zero_if_not_found;
        assert_eq!(flag, (!like_java).then_some(false));
        let zero = StoredOffset(Some(QueueOffset(0)));
        bench.receive(asked.link.conn, answered_by(version, &asked, &zero));
        bench.sleep(secs(10));
        assert_eq!(pulls(&bench), [0], "{start_at:?} of {version}");
        assert_eq!(bench.sent(QUERY).len(), 1, "not again and again");
        let decided = |kind: &NoticeKind| matches!(kind, NoticeKind::StartDecidedByBroker { offset, .. } if offset.0 == 0);
        assert_eq!(bench.count_notices(decided), told, "{start_at:?} of {version}");
    }
    // Another number is nobody's invention.
    let (mut bench, asked) = asking_stored(StartAt::Latest, false);
    bench.receive(
        asked.link.conn,
        answered_by(OF_4_9_8, &asked, &StoredOffset(Some(QueueOffset(7)))),
    );
    assert_eq!(
        bench.count_notices(|kind| matches!(kind, NoticeKind::StartDecidedByBroker { .. })),
        0
    );
}

#[test]
fn of_34_a_live_member_knows_better_than_a_broker_with_older_offsets() {
    // Before the route forgets the broker, the queue stays ours; later it is lost, to nobody.
    for away in [ms(100), secs(5), secs(300)] {
        let mut w = World::new()
            .topic("T", &[("a", 1), ("b", 1)])
            .stored("T", "a", 0, 50)
            .member("c1", |setup| {
                setup.subscribe("T", "*");
            });
        let queue = queue("T", "a", 0);
        w.run_for(secs(20));
        assert_eq!(w.stored_offset("G", &queue), Some(50));
        w.kill("a");
        w.rewind_offsets("a", 50);
        w.run_for(away);
        assert_eq!(w.stored_offset("G", &queue), Some(0), "an older file");
        w.revive("a");
        w.run_for(secs(8));
        assert_eq!(
            w.stored_offset("G", &queue),
            Some(50),
            "told again though unchanged"
        );
        w.produce("T", "a", 0, 5);
        w.run_for(secs(6));
        assert_eq!(
            w.offsets("c1", &queue),
            (0..55).collect::<Vec<_>>(),
            "after {away:?}"
        );
        assert_eq!(w.stored_offset("G", &queue), Some(55));
        w.assert_story();
    }
}

#[test]
fn tm_05_a_clock_that_is_minutes_off_costs_no_message() {
    const TEN_MINUTES: i64 = 10 * 60 * 1000;
    for start_at in [StartAt::Earliest, StartAt::Latest] {
        for off in [-TEN_MINUTES, TEN_MINUTES] {
            let world = World::new().topic("T", &[("a", 1)]).stored("T", "a", 0, 3);
            let mut w = world.member("c1", |setup| {
                setup.subscribe("T", "*");
                setup.config().set_start_at(start_at);
            });
            let wall = ORIGIN.as_unix_millis() + off;
            w.tell("c1", AppEvent::Clock(WallTime::from_unix_millis(wall)));
            w.run_for(secs(5));
            w.produce("T", "a", 0, 10);
            w.run_for(secs(6));
            let queue = queue("T", "a", 0);
            let first = if start_at == StartAt::Latest { 3 } else { 0 };
            let all: Vec<i64> = (first..13).collect();
            assert_eq!(w.offsets("c1", &queue), all, "{start_at:?}, {off} ms off");
            assert_eq!(w.stored_offset("G", &queue), Some(13));
            w.assert_no_rule_broken();
            w.assert_replays();
        }
    }
}

/// What an operator sends to members where brokers do not reset by themselves.
fn reset_to(offset: i64) -> ResetOffsetRequest {
    ResetOffsetRequest {
        group: "G".into(),
        topic: "T".into(),
        timestamp: None,
        force: true,
        offsets: [(queue("T", "a", 0), QueueOffset(offset))].into(),
    }
}

/// What happens after a reset, in any order.
const AFTER_RESET: [fn(&mut Bench, &Asked, &[Run]); 3] = [
    |bench, _, runs| runs.iter().for_each(|run| bench.done(run)),
    |bench, pull, _| bench.found_at(pull, 1000..1032, 10, 1032),
    |bench, _, _| bench.sleep(secs(5)),
];

#[test]
fn of_20_a_reset_is_not_undone_by_what_was_under_way() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut bench = Bench::owning_one_queue(900, |_, _| {});
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, 900..906, 10, 1000);
        let running = bench.take_runs();
        let (old, request) = bench.expect_pull();
        assert_eq!(request.offset.0, 1000);
        let before = bench.all_sent().len();
        bench.tell_member("a", &reset_to(300));
        let (new, request) = bench.expect_pull();
        assert_eq!(request.offset.0, 300, "{order:?}");
        for step in order {
            AFTER_RESET[step](&mut bench, &old, &running);
        }
        let since = || {
            let sent = &bench.all_sent()[before..];
            sent.iter().filter_map(offset_of).collect::<Vec<_>>()
        };
        assert!(
            since().iter().all(|offset| *offset == 300),
            "{order:?}: {:?}",
            since()
        );
        assert!(since().len() >= 2, "at once, and again: {:?}", since());
        assert!(
            bench.take_runs().is_empty(),
            "what the old pull brought is nobody's"
        );
        // What the new ownership finishes counts.
        bench.found_at(&new, 300..302, 10, 302);
        for run in bench.take_runs() {
            bench.done(&run);
        }
        bench.sleep(secs(5));
        assert_eq!(commits(&bench).last(), Some(&302), "{order:?}");
    }
}

#[test]
fn of_20_what_old_handlers_finish_is_nothing_of_the_new_ownership() {
    let mut bench = Bench::owning_one_queue(900, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 900..906, 10, 1000);
    let old = bench.take_runs();
    bench.drop_requests(PULL);
    bench.tell_member("a", &reset_to(300));
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 300..306, 10, 306);
    for run in &old {
        bench.done(run);
    }
    bench.sleep(secs(5));
    assert_eq!((lowest(&bench), committed(&bench)), (Some(300), Some(300)));
    for run in bench.take_runs() {
        bench.done(&run);
    }
    bench.sleep(secs(5));
    assert_eq!((lowest(&bench), committed(&bench)), (Some(306), Some(306)));
}

#[test]
fn of_20_a_pull_that_carries_the_old_offset_does_not_overtake_the_reset() {
    let mut bench = Bench::owning_one_queue(900, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.nothing(&pull, PullStatus::NotFound, 1000);
    let (_, request) = bench.expect_pull();
    assert_eq!(
        request.commit,
        Some(QueueOffset(1000)),
        "it may reach the store after the commit of 300"
    );
    bench.tell_member("a", &reset_to(300));
    // Who leaves does so with a commit that nothing of ours can overtake any more.
    bench.tell(AppEvent::Shutdown { drain: secs(0) });
    let first = bench.sent(COMMIT).len();
    assert!(
        !bench.is_closed(),
        "the acknowledgement of 300 may be worth nothing yet"
    );
    bench.sleep(secs(1));
    assert!(bench.is_closed());
    assert!(bench.sent(COMMIT).len() > first, "300 is said again");
    assert_eq!(committed(&bench), Some(300));
}

#[test]
fn of_22_a_reset_moves_at_once_and_nobody_leaves_for_it() {
    let mut bench = Bench::owning_one_queue(1000, |_, _| {});
    let at = bench.now();
    bench.tell_member("a", &reset_to(300));
    assert_eq!((pulls(&bench), committed(&bench)), (vec![1000, 300], Some(300)));
    assert_eq!(bench.now(), at, "within the same turn");
    assert!(bench.sent(RequestCode::UNREGISTER_CLIENT).is_empty());
    bench.sleep(secs(5));
    assert_eq!(bench.queue(0).map(|queue| queue.state), Some(QueueState::Pulling));
}

#[test]
fn of_28_a_pause_keeps_the_position_of_a_queue_that_has_nothing() {
    let mut bench = Bench::owning_one_queue(77, |_, _| {});
    let (group, scope) = ("G".into(), FlowScope::Group);
    bench.tell(AppEvent::Pause { group, scope });
    // The pull that was out ends with nothing.
    let (pull, _) = bench.expect_pull();
    bench.nothing(&pull, PullStatus::NotFound, 77);
    let questions = [
        RequestCode::QUERY_CONSUMER_OFFSET,
        RequestCode::GET_MIN_OFFSET,
        RequestCode::GET_MAX_OFFSET,
    ];
    let asked = |bench: &Bench| questions.map(|code| bench.sent(code).len());
    let before = asked(&bench);
    bench.sleep(secs(60));
    assert_eq!(bench.outstanding(RequestCode::PULL_MESSAGE).len(), 0);
    let (group, scope) = ("G".into(), FlowScope::Group);
    bench.tell(AppEvent::Resume { group, scope });
    assert_eq!(bench.expect_pull().1.offset.0, 77);
    assert_eq!(asked(&bench), before, "the policy is not asked");
    let commits = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET).into_iter();
    let commits = commits.map(|asked| asked.request::<CommitOffsetRequest>());
    let mut of_queue = commits.filter(|commit| commit.queue.topic.as_str() == "T");
    assert!(of_queue.all(|commit| commit.offset.0 == 77));
}
