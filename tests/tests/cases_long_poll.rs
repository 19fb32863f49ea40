//! Real bugs of other clients in long polling, one test each; `cases` tells their stories.

use rocketmq_consumer_core::event::Event;
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::LinkState;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_testing::world::{Asked, Bench, address, ms, pull_answer, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;

/// What a broker is asked besides pulls.
const LOST: [RequestCode; 3] = [
    RequestCode::HEART_BEAT,
    RequestCode::UPDATE_CONSUMER_OFFSET,
    RequestCode::GET_CONSUMER_LIST_BY_GROUP,
];

fn offset(asked: &Asked) -> i64 {
    asked.request::<PullRequest>().offset.0
}

/// All our pulls ask to be held, so all have the long deadline.
#[test]
fn lp_01_a_held_pull_outlives_its_hold() {
    let mut bench = Bench::owning_one_queue(1, |_, _| {});
    bench.sleep(ms(14_900));
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.suspend, Some(secs(15)));
    bench.found_at(&pull, [1], 10, 2);
    assert_eq!(bench.take_runs().len(), 1, "the answer is used");
    // Our deadline is 23 s: the hold, the broker's sweep of 5 s, and 3 s on the way.
    let sent = bench.now();
    bench.sleep(ms(22_999));
    assert_eq!(bench.sent(PULL).len(), 2, "still waiting");
    assert_eq!(bench.queue(0).and_then(|queue| queue.hold), None);
    bench.sleep(secs(3));
    let pulls = bench.sent(PULL);
    assert_eq!((pulls.len(), offset(pulls[2])), (3, 2));
    assert_eq!(pulls[2].at, sent + secs(24), "a second after it was given up");
}

#[test]
fn lp_03_a_peer_that_vanishes_is_noticed_by_deadlines() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_queues("T", &[("a", 4)]);
    for id in 0..4 {
        bench.store("T", id, 0);
    }
    bench.settle();
    let (conn, dials) = (bench.conn_to(&address("a")), bench.dialled().len());
    bench.skip(ms(1));
    // From here on every packet is lost.
    for code in LOST {
        bench.withhold(code);
    }
    assert_eq!(bench.outstanding(PULL).len(), 4);
    let lost = bench.now();
    bench.sleep(secs(40));
    let redialled = bench.dialled()[dials..].iter();
    let redialled = redialled
        .filter(|(_, _, to)| to == &address("a"))
        .map(|(at, ..)| *at);
    // The pulls have 23 s at most, and the link one back-off; a commit may tell earlier.
    let first = redialled.min().expect("closed and dialled again");
    assert!(first <= lost + secs(24), "{first:?}");
    assert!(bench.connections().iter().all(|(known, _)| *known != conn));
    // The peer is back; what was sent to it before is lost for good.
    for code in LOST {
        bench.drop_requests(code);
        bench.serve(code);
    }
    // A heartbeat that was not answered is sent again: 3 s until it is given up, 5 s at the latest until
    // the next one.
    bench.sleep(secs(10));
    assert_eq!(bench.link_state(&address("a")), Some(LinkState::Up));
    let status = bench.status();
    let link = status.links.iter().find(|link| link.addr == address("a"));
    let open = bench.outstanding(PULL).len();
    assert_eq!(
        (link.map(|link| link.requests), open),
        (Some(4), 4),
        "nothing of the old life is left"
    );
    bench.machine().assert_replays();
}

#[test]
fn lp_07_a_pull_that_is_never_answered_is_sent_again() {
    let mut bench = Bench::owning_one_queue(5, |_, _| {});
    let sent = bench.now();
    bench.sleep(secs(24));
    let pulls: Vec<_> = bench.sent(PULL)[1..]
        .iter()
        .map(|pull| (offset(pull), pull.at))
        .collect();
    assert_eq!(pulls, [(5, sent + secs(24))]);
}

/// That numbers wrap and are never used twice is tested where they are given, in the core's `rpc`.
#[test]
fn lp_09_answer_and_deadline_at_one_moment_have_one_outcome() {
    // The answer first.
    let mut bench = Bench::owning_one_queue(5, |_, _| {});
    bench.sleep(ms(22_999));
    let (pull, _) = bench.expect_pull();
    bench.skip(ms(1));
    bench.found_at(&pull, [5], 10, 6);
    bench.feed(Event::Wakeup);
    assert_eq!(bench.take_runs().len(), 1);
    let offsets = |bench: &Bench| -> Vec<i64> { bench.sent(PULL).iter().map(|pull| offset(pull)).collect() };
    assert_eq!(offsets(&bench), [5, 6]);
    let late = bench.status().counters.late_answers;
    bench.found_at(&pull, [5], 10, 6);
    assert_eq!(
        bench.status().counters.late_answers,
        late + 1,
        "the same once more"
    );
    assert!(bench.take_runs().is_empty());
    bench.sleep(secs(2));
    assert_eq!(offsets(&bench), [5, 6], "its deadline is over with it");

    // The deadline first.
    let mut bench = Bench::owning_one_queue(5, |_, _| {});
    bench.sleep(ms(22_999));
    let (pull, _) = bench.expect_pull();
    bench.skip(ms(1));
    bench.feed(Event::Wakeup);
    let late = bench.status().counters.late_answers;
    for again in 1..=3 {
        bench.found_at(&pull, [5], 10, 6);
        assert_eq!(bench.status().counters.late_answers, late + again);
    }
    assert!(bench.take_runs().is_empty());
    bench.sleep(secs(1));
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.offset.0, 5);
    bench.found_at(&pull, [5], 10, 6);
    assert_eq!(bench.take_runs().len(), 1);
}

const MASTER: &str = "10.0.0.1:10911";
const SLAVE: &str = "10.0.0.21:10911";

/// A member that pulls from a slave at offset 10, because the master has said so.
fn reading_from_a_slave() -> (Bench, PeerAddr) {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_addresses("a", &[(0, MASTER), (1, SLAVE)]);
    bench.store("T", 0, 10);
    bench.settle();
    let (pull, _) = bench.expect_pull();
    assert_eq!(pull.to, address("a"));
    suggest(&mut bench, &pull, PullStatus::NotFound, 10, Some(1));
    let slave: PeerAddr = SLAVE.parse().expect("an address");
    assert_eq!(bench.sent(PULL).last().map(|pull| &pull.to), Some(&slave));
    (bench, slave)
}

/// Answers a pull with nothing but a suggestion.
fn suggest(bench: &mut Bench, pull: &Asked, status: PullStatus, next: i64, replica: Option<i64>) {
    let mut answer = pull_answer(status, next, bytes::Bytes::new());
    answer.suggest_broker_id = replica;
    bench.answer(pull, &answer);
}

#[test]
fn lp_05_the_suggestion_of_every_answer_is_followed() {
    for status in [PullStatus::RetryImmediately, PullStatus::NotFound] {
        let (mut bench, _) = reading_from_a_slave();
        let (pull, _) = bench.expect_pull();
        suggest(&mut bench, &pull, status, 10, Some(0));
        bench.sleep(secs(1));
        let (pull, request) = bench.expect_pull();
        assert_eq!((&pull.to, request.offset.0), (&address("a"), 10), "{status:?}");
        // The master's word on the offset is taken.
        let mut answer = pull_answer(PullStatus::OffsetMoved, 40, bytes::Bytes::new());
        answer.min_offset = Some(rocketmq_consumer_core::ids::QueueOffset(40));
        answer.max_offset = Some(rocketmq_consumer_core::ids::QueueOffset(90));
        bench.answer(&pull, &answer);
        bench.sleep(secs(1));
        let (pull, request) = bench.expect_pull();
        assert_eq!((&pull.to, request.offset.0), (&address("a"), 40), "{status:?}");
    }
}

/// A slave that has not copied so far says "at once" and names its own end. That is no fault of its answer, and
/// nobody goes back for it.
#[test]
fn lp_05_a_slave_that_is_behind_is_neither_believed_nor_called_broken() {
    let (mut bench, _) = reading_from_a_slave();
    let (pull, _) = bench.expect_pull();
    suggest(&mut bench, &pull, PullStatus::RetryImmediately, 7, Some(0));
    bench.sleep(secs(1));
    let (pull, request) = bench.expect_pull();
    assert_eq!((&pull.to, request.offset.0), (&address("a"), 10));
    let refused = bench.count_notices(|kind| matches!(kind, NoticeKind::RequestRefused { .. }));
    assert_eq!(refused, 0);
    // The master may not answer so.
    suggest(&mut bench, &pull, PullStatus::RetryImmediately, 7, Some(0));
    let refused = bench.count_notices(|kind| matches!(kind, NoticeKind::RequestRefused { .. }));
    assert_eq!(refused, 1);
}

/// An answer without a suggestion keeps the replica, an error says nothing, and an id that nobody has leads to the
/// master.
#[test]
fn lp_05_what_is_no_suggestion_leads_nowhere_else() {
    let (mut bench, slave) = reading_from_a_slave();
    let (pull, _) = bench.expect_pull();
    suggest(&mut bench, &pull, PullStatus::NotFound, 10, None);
    let (pull, _) = bench.expect_pull();
    assert_eq!(pull.to, slave);
    bench.refuse(
        &pull,
        rocketmq_consumer_core::wire::code::ResponseCode::SYSTEM_BUSY,
        "busy",
    );
    bench.sleep(secs(1));
    let (pull, _) = bench.expect_pull();
    assert_eq!(pull.to, slave);
    assert_eq!(
        bench
            .queue(0)
            .and_then(|queue| queue.reads_from)
            .map(|replica| replica.id),
        Some(1),
        "and the status says so"
    );
    for id in [7, -1, i64::MIN, i64::MAX] {
        let (mut bench, _) = reading_from_a_slave();
        let (pull, _) = bench.expect_pull();
        suggest(&mut bench, &pull, PullStatus::NotFound, 10, Some(id));
        let (pull, _) = bench.expect_pull();
        assert_eq!(pull.to, address("a"), "{id}");
    }
}

/// A slave that is suggested and leaves, or dies, is no reason to stand still.
#[test]
fn a_suggested_slave_that_is_gone_is_done_without() {
    for dies in [true, false] {
        let (mut bench, slave) = reading_from_a_slave();
        if dies {
            bench.kill(&slave);
        } else {
            bench.set_addresses("a", &[(0, MASTER)]);
            bench.sleep(secs(31));
        }
        bench.sleep(ms(10));
        let pulls = bench.outstanding(PULL);
        assert_eq!(pulls.last().map(|pull| &pull.to), Some(&address("a")), "{dies}");
    }
}
