//! Real bugs of other clients in failover, one test each; `cases/spine.jsonl` tells their stories.

use std::time::Duration;

use rocketmq_consumer_core::action::{AppAction, CallError};
use rocketmq_consumer_core::config::{GroupConfig, StartAt};
use rocketmq_consumer_core::event::{AppEvent, Verdict};
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::QueueState;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_testing::world::{Bench, Dial, address, ms, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const BEAT: RequestCode = RequestCode::HEART_BEAT;
const COMMIT: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const BACK: RequestCode = RequestCode::CONSUMER_SEND_MSG_BACK;

#[test]
fn fo_03_a_broker_that_comes_back_elsewhere_is_found_there() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_queues("%RETRY%G", &[("a", 1)]);
    bench.store("T", 0, 3);
    bench.settle();
    let (old, new) = (address("a"), PeerAddr::new("10.0.0.9", 10911));
    bench.dials(Dial::Refuse);
    bench.set_addresses("a", &[(0, "10.0.0.9:10911")]);
    bench.close(bench.conn_to(&old));
    bench.sleep(secs(1));
    bench.dials(Dial::Accept);
    bench.sleep(secs(2));
    assert_eq!(
        bench.link_state(&old),
        None,
        "its link and its back-off are forgotten"
    );
    let moved = bench.now();
    bench.idle(secs(60));
    let late_dials = bench
        .dialled()
        .iter()
        .filter(|(at, _, to)| *at > moved && to == &old);
    assert_eq!(late_dials.count(), 0);
    for code in [PULL, BEAT, COMMIT] {
        let sent = bench.sent(code);
        assert_eq!(sent.last().map(|asked| &asked.to), Some(&new), "{code}");
    }
    assert_eq!(bench.queue(0).map(|queue| queue.state), Some(QueueState::Pulling));
}

/// The longest time without an attempt to reach an address.
fn longest_gap(bench: &Bench, to: &PeerAddr, from: Instant) -> Duration {
    let attempts = bench
        .dialled()
        .iter()
        .filter(|(at, _, addr)| addr == to && *at >= from);
    let mut times: Vec<Instant> = attempts.map(|(at, _, _)| *at).collect();
    times.push(bench.now());
    let gaps = times.windows(2).map(|pair| pair[1].saturating_since(pair[0]));
    gaps.max().unwrap_or_default()
}

#[test]
fn fo_07_dialling_never_ends() {
    // Ours: 100 ms doubling to 1 s for five minutes, then to 10 s, each ± 20 %.
    const CAP: Duration = secs(12);
    let server = PeerAddr::new("10.0.1.1", 9876);
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.dials(Dial::Refuse);
    bench.sleep(secs(600));
    // A name server is dialled when it is to be asked something: by then every 5 s at the latest.
    let gap = longest_gap(&bench, &server, Instant::ZERO);
    assert!(gap <= CAP + secs(5), "{gap:?}");
    bench.dials(Dial::Accept);
    bench.sleep(CAP + secs(5));
    assert_eq!(bench.outstanding(PULL).len(), 1, "it runs within one back-off");

    // The same for a broker, while its name server lives.
    bench.dials(Dial::Refuse);
    let lost = bench.now();
    bench.close(bench.conn_to(&address("a")));
    bench.sleep(secs(600));
    assert!(longest_gap(&bench, &address("a"), lost) <= CAP);
    bench.dials(Dial::Accept);
    bench.sleep(CAP);
    assert_eq!(bench.outstanding(PULL).len(), 1);

    // A connect that neither succeeds nor fails is given up after 3 s.
    bench.dials(Dial::Hang);
    let lost = bench.now();
    bench.close(bench.conn_to(&address("a")));
    bench.sleep(secs(60));
    assert!(longest_gap(&bench, &address("a"), lost) <= secs(3) + ms(1_200));
    bench.dials(Dial::Accept);
    bench.sleep(secs(5));
    assert_eq!(bench.outstanding(PULL).len(), 1);
    bench.machine().assert_replays();
}

#[test]
fn fo_08_what_needs_a_master_waits_for_one() {
    let slave = PeerAddr::new("10.0.0.21", 10911);
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_addresses("a", &[(1, "10.0.0.21:10911")]);
    bench.store("T", 0, 0);
    bench.settle();
    let (pull, _) = bench.expect_pull();
    assert_eq!(pull.to, slave, "reading is allowed");
    bench.found_at(&pull, [0, 1], 10, 2);
    let run = bench.take_runs().remove(0);
    bench.report(&run, Verdict::Handled(Outcome::Retry));
    bench.idle(secs(6));
    assert!(
        bench.sent(COMMIT).is_empty() && bench.sent(BACK).is_empty(),
        "nothing went anywhere"
    );
    let no_way = format!("{}", CallError::NoRoute);
    assert!(
        bench.count_notices(|kind| matches!(kind, NoticeKind::SendBackFailed { why, .. } if *why == no_way))
            > 0
    );
    assert!(
        bench.count_notices(|kind| matches!(kind, NoticeKind::CommitFailed { why, .. } if *why == no_way))
            > 0
    );
    // Both are sent once the route names a master.
    bench.set_addresses("a", &[(0, "10.0.0.1:10911"), (1, "10.0.0.21:10911")]);
    bench.idle(secs(45));
    for run in bench.take_runs() {
        bench.report(&run, Verdict::Handled(Outcome::Retry));
    }
    assert!(bench.sent(COMMIT).iter().all(|asked| asked.to == address("a")));
    assert!(!bench.sent(COMMIT).is_empty());
    while let Some(back) = bench.outstanding(BACK).first().copied().cloned() {
        bench.drop_requests(BACK);
        assert_eq!(back.to, address("a"));
        bench.answer(&back, &Done);
    }
    assert!(!bench.sent(BACK).is_empty());
}

/// Where nothing is stored, only a master can say where the queue begins.
#[test]
fn fo_08_where_to_start_is_asked_of_a_master() {
    let slave = PeerAddr::new("10.0.0.21", 10911);
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_addresses("a", &[(1, "10.0.0.21:10911")]);
    bench.settle();
    bench.sleep(secs(10));
    let asked = bench.sent(RequestCode::QUERY_CONSUMER_OFFSET);
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.to == slave));
    assert!(bench.sent(RequestCode::GET_MIN_OFFSET).is_empty());
    assert!(bench.sent(PULL).is_empty(), "no pull before the start is known");
    bench.set_addresses("a", &[(0, "10.0.0.1:10911"), (1, "10.0.0.21:10911")]);
    bench.sleep(secs(45));
    let asked = bench.sent(RequestCode::GET_MIN_OFFSET);
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.to == address("a")));
    assert!(!bench.sent(PULL).is_empty());
}

/// A shutdown without a master cannot commit. It must end all the same.
#[test]
fn a_shutdown_without_a_master_ends() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_addresses("a", &[(1, "10.0.0.21:10911")]);
    bench.store("T", 0, 0);
    bench.settle();
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [0], 10, 1);
    let run = bench.take_runs().remove(0);
    bench.done(&run);
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    bench.sleep(secs(10));
    assert_eq!(bench.told().last(), Some(&AppAction::Closed));
}

#[test]
fn fo_09_a_closed_connection_is_replaced_by_one() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_queues("T", &[("a", 1000)]);
    bench.settle();
    assert_eq!(bench.outstanding(PULL).len(), 1000);
    let (conn, dials) = (bench.conn_to(&address("a")), bench.dialled().len());
    // The bench panics at any byte on a dead connection.
    bench.close(conn);
    bench.sleep(secs(1));
    assert_eq!(
        bench.dialled().len(),
        dials + 1,
        "one dial, not one for each request"
    );
    assert_eq!(bench.outstanding(PULL).len(), 1000);
    assert!(
        bench
            .outstanding(PULL)
            .iter()
            .all(|asked| asked.link.conn != conn)
    );

    // Stopped and started again with the same name on one client.
    let group = bench.status().groups[0].group.clone();
    let drain = secs(1);
    bench.tell(AppEvent::StopGroup {
        group: group.clone(),
        drain,
    });
    bench.sleep(secs(2));
    assert!(bench.status().groups.is_empty());
    let (dials, beats) = (bench.dialled().len(), bench.sent(BEAT).len());
    let mut again = GroupConfig::new(group);
    again.subscribe("T".into(), "*").set_start_at(StartAt::Earliest);
    bench.drop_requests(PULL);
    bench.tell(AppEvent::StartGroup(std::sync::Arc::new(again)));
    bench.sleep(secs(1));
    assert_eq!(
        bench.dialled().len(),
        dials + 1,
        "a fresh connection to the broker"
    );
    assert!(bench.sent(BEAT).len() > beats, "registered again");
    assert_eq!(bench.outstanding(PULL).len(), 1000);
}
