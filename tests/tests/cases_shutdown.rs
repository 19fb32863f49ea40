//! Real bugs of other clients in shutdown, one test each; `cases` tells their stories.

use std::sync::Arc;

use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::event::{AppEvent, NetCause, NetEvent, RunRange, Verdict};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_core::wire::request::heartbeat::HeartbeatRequest;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_testing::world::{Asked, Bench, Dial, Run, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const COMMIT: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const BACK: RequestCode = RequestCode::CONSUMER_SEND_MSG_BACK;
const UNREGISTER: RequestCode = RequestCode::UNREGISTER_CLIENT;

/// Four queues, the first with 64 messages of which 8 are with handlers; four pulls at the broker.
fn busy() -> (Bench, Run) {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*").set_concurrency(8);
    });
    bench.set_queues("T", &[("a", 4)]);
    for id in 0..4 {
        bench.store("T", id, 0);
    }
    bench.settle();
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, 0..64, 10, 64);
    let run = bench.take_runs().remove(0);
    assert_eq!((run.offsets().len(), bench.outstanding(PULL).len()), (8, 4));
    (bench, run)
}

#[test]
fn sd_01_a_shutdown_drains_commits_unregisters_and_then_closes() {
    let (mut bench, run) = busy();
    let (started, before) = (bench.now(), bench.sent(COMMIT).len());
    let (conns, stale) = (bench.connections(), bench.status().counters.stale_answers);
    let held = |bench: &Bench| -> Vec<_> {
        let queues = (0..4).filter_map(|id| bench.queue(id));
        queues
            .map(|queue| (queue.next_offset, queue.unfinished))
            .collect()
    };
    let before_answers = held(&bench);
    bench.withhold(UNREGISTER);
    bench.tell(AppEvent::Shutdown { drain: secs(5) });
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    while !bench.outstanding(PULL).is_empty() {
        let (pull, request) = bench.expect_pull();
        let first = request.offset.0;
        bench.found_at(&pull, first..first + 32, 10, first + 32);
    }
    assert!(bench.take_runs().is_empty(), "answers that come now are nobody's");
    assert_eq!(bench.status().counters.stale_answers, stale + 4);
    assert_eq!(held(&bench), before_answers);
    for index in 0..4 {
        bench.sleep(secs(1));
        let start = run.range.start + index;
        let outcome = if index == 2 { Outcome::Retry } else { Outcome::Done };
        bench.report_part(
            &run,
            RunRange {
                start,
                end: start + 1,
            },
            Verdict::Handled(outcome),
        );
        if index == 2 {
            let back = bench.expect_request(BACK);
            bench.answer(&back, &Done);
        }
        assert_eq!(bench.sent(COMMIT).len(), before, "not while handlers run");
    }
    bench.sleep(secs(1));
    // One for each queue; the offsets of those that stood still are repeated 5 s after they came.
    let commits: Vec<_> = bench.sent(COMMIT)[before..].to_vec();
    let value = |asked: &Asked| asked.request::<CommitOffsetRequest>();
    let mut offsets: Vec<_> = commits
        .iter()
        .map(|asked| (value(asked).queue.queue.0, value(asked).offset.0))
        .collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [(0, 4), (1, 0), (2, 0), (3, 0)]);
    assert!(commits.iter().all(|asked| asked.at == started + secs(5)));
    assert_eq!(bench.outstanding(UNREGISTER).len(), 1);
    assert_eq!(bench.connections(), conns, "closed last");
    assert!(!bench.is_closed());
    bench.serve(UNREGISTER);
    assert!(bench.is_closed() && bench.connections().is_empty());
    // What the other handlers say now changes nothing.
    bench.report(&run, Verdict::Handled(Outcome::Done));
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    bench.sleep(secs(10));
    assert_eq!(bench.sent(COMMIT).len(), before + 4);
    let report = bench.report_of_end().expect("it has ended");
    assert_eq!(
        (report.finished, report.abandoned, report.timed_out),
        (4, 4, true)
    );
    bench.machine().assert_replays();
}

/// The broker has to have it before the offset passes it.
#[test]
fn sd_01_a_message_on_its_way_back_is_waited_for() {
    let (mut bench, run) = busy();
    let before = bench.sent(COMMIT).len();
    bench.tell(AppEvent::Shutdown { drain: secs(5) });
    bench.report(&run, Verdict::Handled(Outcome::Retry));
    let backs = bench.drop_requests(BACK);
    assert_eq!(backs.len(), 8);
    for back in &backs {
        bench.sleep(secs(1) / 10);
        assert_eq!(bench.sent(COMMIT).len(), before, "not while the broker is asked");
        bench.answer(back, &Done);
    }
    let commits = bench.sent(COMMIT);
    let of_first = commits[before..]
        .iter()
        .map(|asked| asked.request::<CommitOffsetRequest>())
        .filter(|commit| commit.queue.queue.0 == 0)
        .map(|commit| commit.offset.0);
    assert_eq!(of_first.collect::<Vec<_>>(), [8]);
    assert!(bench.is_closed());
    let report = bench.report_of_end().expect("it has ended");
    assert_eq!((report.abandoned, report.timed_out), (0, false));
}

fn close_all(bench: &mut Bench) {
    for (conn, _) in bench.connections() {
        bench.close(conn);
    }
}

#[test]
fn sd_02_connections_that_break_during_a_shutdown_never_hang_it() {
    // In which phase they break: while draining, committing, leaving, after the end, or in all.
    for phase in 0..5 {
        for dial in [Dial::Accept, Dial::Refuse, Dial::Hang] {
            let (mut bench, run) = busy();
            let (now, all) = (bench.now(), phase == 4);
            let conns = bench.connections();
            bench.withhold(COMMIT);
            bench.withhold(UNREGISTER);
            bench.dials(dial);
            let dials = bench.dialled().len();
            bench.tell(AppEvent::Shutdown { drain: secs(5) });
            if phase == 0 || all {
                close_all(&mut bench);
            }
            bench.sleep(secs(1));
            bench.report(&run, Verdict::Handled(Outcome::Done));
            if phase == 1 || all {
                close_all(&mut bench);
            }
            bench.sleep(secs(2));
            bench.serve(COMMIT);
            bench.sleep(secs(1));
            if phase == 2 || all {
                close_all(&mut bench);
            }
            bench.sleep(secs(1));
            bench.serve(UNREGISTER);
            bench.sleep(secs(13));
            if phase == 3 || all {
                for (conn, _) in conns {
                    let cause = NetCause::Reset;
                    bench.feed(NetEvent::Closed { conn, cause });
                }
            }
            assert!(bench.is_closed(), "phase {phase}, {dial:?}: {:?}", bench.status());
            assert!(bench.now() <= now + secs(20));
            assert_eq!(bench.wakeup(), None, "nothing is left to do");
            assert_eq!(bench.connections(), []);
            let mut dialled: Vec<_> = bench.dialled()[dials..].iter().map(|(_, _, to)| to).collect();
            let count = dialled.len();
            dialled.sort();
            dialled.dedup();
            assert_eq!(
                dialled.len(),
                count,
                "at most one dial each: {:?}",
                &bench.dialled()[dials..]
            );
            bench.machine().assert_replays();
        }
    }
}

#[test]
fn the_last_commit_survives_a_connection_that_breaks_during_the_drain() {
    let (mut bench, run) = busy();
    bench.tell(AppEvent::Shutdown { drain: secs(5) });
    let (old, dials) = (bench.connections(), bench.dialled().len());
    close_all(&mut bench);
    bench.sleep(secs(1));
    assert_eq!(bench.dialled().len(), dials, "nothing to say yet");
    bench.report(&run, Verdict::Handled(Outcome::Done));
    bench.sleep(secs(4));
    assert!(bench.is_closed());
    let commits = bench.sent(COMMIT);
    let last = commits
        .iter()
        .find(|asked| asked.request::<CommitOffsetRequest>().offset.0 == 8);
    let last = last.expect("what the handlers did is stored");
    assert!(old.iter().all(|(conn, _)| *conn != last.link.conn));
    assert_eq!(bench.dialled().len(), dials + 1);
}

/// A group that has said good-bye is not introduced again by the heartbeat its neighbour needs: the
/// broker would list it for as long as the connection lives.
#[test]
fn a_group_that_leaves_is_missing_from_later_heartbeats() {
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let mut other = GroupConfig::new("H".into());
    other.subscribe("T".into(), "*");
    bench.tell(AppEvent::StartGroup(Arc::new(other)));
    bench.idle(secs(28));
    bench.withhold(UNREGISTER);
    let drain = secs(1);
    bench.tell(AppEvent::StopGroup {
        group: "G".into(),
        drain,
    });
    let said = bench
        .all_sent()
        .iter()
        .position(|asked| asked.code == UNREGISTER)
        .expect("it said good-bye");
    bench.sleep(secs(3));
    let groups = |beat: &Asked| -> Vec<String> {
        let data: HeartbeatRequest = beat.request();
        data.consumers.iter().map(|data| data.group.to_string()).collect()
    };
    let later = bench.all_sent()[said..].iter();
    let later: Vec<_> = later
        .filter(|asked| asked.code == RequestCode::HEART_BEAT)
        .map(groups)
        .collect();
    assert!(!later.is_empty());
    assert!(later.iter().all(|groups| groups == &["H"]), "{later:?}");
}
