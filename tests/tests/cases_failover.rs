//! Real bugs of other clients in failover, one test each; `cases` tells their stories.

use std::time::Duration;

use rocketmq_consumer_core::action::{AppAction, CallError};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::event::{AppEvent, Verdict};
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::QueueState;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_testing::world::{Asked, Bench, Dial, address, ms, secs};

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

// ---- slaves ---------------------------------------------------------------------------------------

const MASTER: &str = "10.0.0.1:10911";
const SLAVE: &str = "10.0.0.21:10911";

fn slave() -> PeerAddr {
    SLAVE.parse().expect("an address")
}

/// A member that pulls from the master of a broker with a slave, where this offset is stored.
fn with_a_slave(stored: i64) -> Bench {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_addresses("a", &[(0, MASTER), (1, SLAVE)]);
    bench.store("T", 0, stored);
    bench.settle();
    assert_eq!(
        bench.outstanding(PULL).last().map(|pull| &pull.to),
        Some(&address("a"))
    );
    bench
}

fn replica(bench: &Bench) -> Option<i64> {
    bench
        .queue(0)
        .and_then(|queue| queue.reads_from)
        .map(|replica| replica.id)
}

fn offset_of(commit: &Asked) -> i64 {
    commit.request::<CommitOffsetRequest>().offset.0
}

/// The master dies without a word to the name servers: they go on naming it.
#[test]
fn a_slave_is_read_while_the_master_is_dead_and_the_master_when_it_is_back() {
    let mut bench = with_a_slave(5);
    bench.kill(&address("a"));
    let died = bench.now();
    bench.sleep(secs(4));
    let pulls = bench.outstanding(PULL);
    let pull = pulls
        .last()
        .map(|pull| (*pull).clone())
        .expect("somebody is read");
    assert_eq!((&pull.to, replica(&bench)), (&slave(), Some(1)));
    assert!(pull.at <= died + secs(4), "long before 35 s are over");
    assert_eq!(
        pull.request::<PullRequest>().commit,
        None,
        "a slave stores nothing"
    );
    bench.drop_requests(PULL);
    bench.found_at(&pull, [5, 6], 10, 7);
    for run in bench.take_runs() {
        bench.done(&run);
    }
    bench.idle(secs(60));
    assert!(
        bench
            .sent(COMMIT)
            .iter()
            .all(|asked| asked.to == address("a") && asked.at <= died)
    );

    bench.revive(&address("a"));
    bench.idle(secs(25));
    assert_eq!(
        bench.outstanding(PULL).last().map(|pull| &pull.to),
        Some(&address("a"))
    );
    assert_eq!(replica(&bench), Some(0));
    let last = bench
        .sent(COMMIT)
        .last()
        .map(|asked| (asked.to.clone(), offset_of(asked)));
    assert_eq!(last, Some((address("a"), 7)), "what waited is committed");
    bench.machine().assert_replays();
}

#[test]
fn a_master_that_comes_and_goes_is_not_read_in_turns() {
    let mut bench = with_a_slave(5);
    bench.kill(&address("a"));
    bench.sleep(secs(4));
    let (before, times) = (bench.sent(PULL).len(), 10);
    for _ in 0..times {
        bench.revive(&address("a"));
        bench.idle(secs(2));
        bench.kill(&address("a"));
        bench.idle(secs(4));
    }
    let pulls = bench.sent(PULL);
    assert!(pulls[before..].iter().all(|pull| pull.to == slave()));
    assert!(
        pulls.len() - before <= 5,
        "{}: one for each hold",
        pulls.len() - before
    );
}

/// The slave is behind: what it has stored must not be taken for what the master has.
#[test]
fn a_start_that_a_slave_told_takes_no_offset_back() {
    const QUERY: RequestCode = RequestCode::QUERY_CONSUMER_OFFSET;
    // What the slave says, and what the master has when it is back.
    for (told, stored, floor) in [(Some(90), 100, 100), (None, 100, 100), (Some(90), 80, 0)] {
        let mut bench = Bench::new(|_, group| {
            group.subscribe("T".into(), "*");
        });
        bench.set_addresses("a", &[(0, MASTER), (1, SLAVE)]);
        if let Some(told) = told {
            bench.store("T", 0, told);
        }
        bench.kill(&address("a"));
        bench.settle();
        bench.sleep(secs(4));
        assert!(bench.sent(QUERY).iter().all(|asked| asked.to == slave()));
        match told {
            Some(_) => assert_eq!(
                bench.outstanding(PULL).last().map(|pull| &pull.to),
                Some(&slave())
            ),
            None => assert!(
                bench.sent(PULL).is_empty(),
                "that a slave has nothing is not believed"
            ),
        }
        bench.store("T", 0, stored);
        bench.revive(&address("a"));
        let mut next = told.unwrap_or(stored);
        for _ in 0..12 {
            bench.idle(secs(5));
            if bench.outstanding(PULL).is_empty() {
                continue;
            }
            let (pull, _) = bench.expect_pull();
            bench.found_at(&pull, [next], 10, next + 1);
            next += 1;
            for run in bench.take_runs() {
                bench.done(&run);
            }
        }
        bench.idle(secs(10));
        let offsets: Vec<i64> = bench.sent(COMMIT).into_iter().map(offset_of).collect();
        assert!(
            offsets.iter().all(|offset| *offset >= floor),
            "{told:?} {stored}: {offsets:?}"
        );
        assert_eq!(
            offsets.last(),
            Some(&next).filter(|next| **next > floor),
            "{told:?} {stored}"
        );
        let carried = bench
            .sent(PULL)
            .into_iter()
            .filter_map(|pull| pull.request::<PullRequest>().commit);
        assert!(carried.map(|offset| offset.0).all(|offset| offset >= floor));
    }
}

/// The route loses the master, as when it shuts down in order.
#[test]
fn a_master_that_leaves_the_route_is_followed_by_its_slave_at_once() {
    let mut bench = with_a_slave(5);
    bench.set_addresses("a", &[(1, SLAVE)]);
    bench.kill(&address("a"));
    bench.sleep(ms(1_200));
    assert_eq!(
        bench.outstanding(PULL).last().map(|pull| &pull.to),
        Some(&slave())
    );
    let away = bench.now();
    bench.idle(secs(30));
    let late = bench
        .dialled()
        .iter()
        .filter(|(at, _, to)| *at > away && to == &address("a"));
    assert_eq!(late.count(), 0, "nobody dials it");
    bench.revive(&address("a"));
    bench.set_addresses("a", &[(0, MASTER), (1, SLAVE)]);
    bench.idle(secs(30));
    assert_eq!(replica(&bench), Some(0));
}

/// A member starts while the master is dead.
#[test]
fn the_members_are_asked_of_a_slave_while_there_is_nobody_else() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_addresses("a", &[(0, MASTER), (1, SLAVE)]);
    bench.store("T", 0, 5);
    bench.kill(&address("a"));
    bench.sleep(secs(5));
    assert_eq!(replica(&bench), Some(1));
    let lists = bench.sent(RequestCode::GET_CONSUMER_LIST_BY_GROUP);
    assert!(!lists.is_empty() && lists.iter().all(|asked| asked.to == slave()));
}

// ---- name servers ---------------------------------------------------------------------------------

#[test]
fn fo_01_a_name_server_that_was_taken_off_the_list_is_not_used() {
    const ROUTE: RequestCode = RequestCode::GET_ROUTEINFO_BY_TOPIC;
    let server = |number: u8| PeerAddr::new(format!("10.0.1.{number}"), 9876);
    let mut bench = Bench::new(|client, group| {
        *client = ClientConfig::new("c1".into(), vec![server(1), server(2)]);
        group.subscribe("T".into(), "*");
    });
    bench.withhold(ROUTE);
    bench.settle();
    // The question is under way when the list changes.
    let asked: Vec<Asked> = bench.outstanding(ROUTE).into_iter().cloned().collect();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.to == server(1)));
    bench.tell(AppEvent::NameServers([server(3), server(4)].into()));
    let changed = bench.sent(ROUTE).len();
    let late = bench.status().counters.stale_net_events;
    for asked in &asked {
        bench.refuse(asked, ResponseCode::TOPIC_NOT_EXIST, "no route");
    }
    assert!(
        bench.status().counters.stale_net_events > late,
        "its answer is nobody's"
    );
    assert_eq!(
        bench.count_notices(|kind| matches!(kind, NoticeKind::TopicUnknown { .. })),
        0
    );
    bench.drop_requests(ROUTE);
    bench.serve(ROUTE);
    bench.sleep(secs(120));
    let since = &bench.sent(ROUTE)[changed..];
    assert!(!since.is_empty());
    let is_new = |asked: &&Asked| [server(3), server(4)].contains(&asked.to);
    assert!(since.iter().all(is_new), "{since:?}");
    let old = |addr: &PeerAddr| [server(1), server(2)].contains(addr);
    assert!(bench.connections().iter().all(|(_, addr)| !old(addr)));
    assert!(!bench.sent(PULL).is_empty(), "and the group consumes");
}

// ---- brokers --------------------------------------------------------------------------------------

#[test]
fn fo_04_a_broker_that_was_away_is_used_again() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    let all = [("a", 4), ("b", 4), ("c", 4)];
    bench.set_queues("T", &all);
    for id in 0..4 {
        bench.store("T", id, 0);
    }
    bench.settle();
    assert_eq!(bench.outstanding(PULL).len(), 12);
    bench.set_queues("T", &[("a", 4), ("c", 4)]);
    bench.kill(&address("b"));
    bench.idle(secs(60));
    assert_eq!(bench.outstanding(PULL).len(), 8);
    assert_eq!(
        bench.link_state(&address("b")),
        None,
        "its link is closed and nobody dials it"
    );

    bench.revive(&address("b"));
    bench.set_queues("T", &all);
    let (back, beats) = (bench.now(), bench.sent(BEAT).len());
    bench.idle(secs(31));
    assert_eq!(bench.outstanding(PULL).len(), 12);
    let beat = bench.sent(BEAT)[beats..]
        .iter()
        .find(|beat| beat.to == address("b"))
        .map(|beat| beat.at);
    let pull = bench
        .sent(PULL)
        .into_iter()
        .find(|pull| pull.to == address("b") && pull.at >= back);
    let (beat, pull) = (beat.expect("it is told"), pull.expect("it is pulled from").at);
    assert!(
        beat <= back + secs(6),
        "told when it is named again, not 30 s later: {beat:?}"
    );
    assert!(beat <= pull && pull <= beat + secs(1), "{pull:?}");
}

/// A broker is taken out of service: its queues are given back, and nothing is left of it.
#[test]
fn a_broker_that_is_retired_is_forgotten() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_queues("T", &[("a", 1), ("b", 1)]);
    bench.store("T", 0, 3);
    bench.settle();
    let pull = bench
        .outstanding(PULL)
        .into_iter()
        .find(|pull| pull.to == address("b"))
        .cloned();
    bench.found_at(&pull.expect("b is pulled from"), [3, 4], 10, 5);
    bench.set_queues("T", &[("a", 1)]);
    bench.set_queues("%RETRY%G", &[("a", 1)]);
    bench.idle(secs(40));
    assert_eq!(bench.link_state(&address("b")), None);
    let queues = bench.status().groups[0]
        .queues
        .iter()
        .map(|queue| queue.queue.broker.to_string())
        .collect::<Vec<_>>();
    assert!(queues.iter().all(|broker| broker == "a"), "{queues:?}");
    let retired = bench.now();
    // Its running handlers end without any effect.
    for run in bench.take_runs() {
        bench.report(&run, Verdict::Handled(Outcome::Retry));
    }
    bench.idle(secs(120));
    let late = bench
        .all_sent()
        .iter()
        .filter(|asked| asked.at > retired && asked.to == address("b"));
    assert_eq!(late.count(), 0);
    assert!(
        bench
            .dialled()
            .iter()
            .all(|(at, _, to)| *at <= retired || to != &address("b"))
    );
}

#[test]
fn a_topic_that_grows_and_shrinks_is_followed() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_queues("T", &[("a", 4)]);
    for id in 0..16 {
        bench.store("T", id, 7);
    }
    bench.settle();
    for (queues, pulled) in [(16, 16), (3, 3), (16, 16)] {
        bench.set_queues("T", &[("a", queues)]);
        bench.idle(secs(35));
        // Pulls of ownerships that have ended are still with the broker.
        let status = bench.status();
        let pulling = status.groups[0]
            .queues
            .iter()
            .filter(|queue| queue.queue.topic.as_str() == "T" && queue.state == QueueState::Pulling);
        assert_eq!(pulling.count(), pulled);
    }
    assert!(
        bench
            .sent(COMMIT)
            .into_iter()
            .all(|commit| offset_of(commit) == 7)
    );
}

#[test]
fn fo_06_a_cluster_that_is_gone_is_not_hammered_and_goes_on_where_it_was() {
    const ROUTE: RequestCode = RequestCode::GET_ROUTEINFO_BY_TOPIC;
    let mut bench = Bench::owning_one_queue(5, |_, _| {});
    let (pull, _) = bench.expect_pull();
    bench.found_at(&pull, [5, 6], 10, 7);
    for run in bench.take_runs() {
        bench.done(&run);
    }
    bench.idle(secs(10));
    bench.refuse_all(ROUTE, ResponseCode::TOPIC_NOT_EXIST);
    bench.kill(&address("a"));
    let (gone, routes, dials) = (bench.now(), bench.sent(ROUTE).len(), bench.dialled().len());
    let notices = bench.notices().len();
    bench.idle(secs(300));
    // Two topics, once a second for two minutes and then every five.
    let asked = bench.sent(ROUTE).len() - routes;
    assert!(asked <= 2 * (121 + 37), "{asked} questions in 300 s");
    let dialled = bench.dialled()[dials..]
        .iter()
        .filter(|(at, ..)| *at >= gone)
        .count();
    assert!(dialled <= 400, "{dialled} attempts in 300 s");
    let told = bench.notices().len() - notices;
    assert!(told <= 100, "{told} notices in 300 s");

    bench.serve(ROUTE);
    bench.revive(&address("a"));
    let back = bench.now();
    bench.sleep(secs(12));
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.offset.0, 7, "where it was");
    assert!(pull.at <= back + secs(12));
    assert_eq!(
        bench.count_notices(|kind| matches!(kind, NoticeKind::Assigned { .. })),
        1,
        "one start"
    );
}

/// The link is replaced; what the old one carries is used.
#[test]
fn a_broker_that_goes_away_loses_nothing_that_is_under_way() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_queues("T", &[("a", 2)]);
    bench.store("T", 0, 5);
    bench.store("T", 1, 5);
    bench.settle();
    bench.idle(secs(10));
    let old = bench.conn_to(&address("a"));
    let (held, _) = bench.expect_pull();
    bench.withhold(COMMIT);
    bench.found_at(&held, [5], 10, 6);
    let run = bench.take_runs().remove(0);
    bench.done(&run);
    bench.sleep(secs(5));
    let commits: Vec<Asked> = bench.outstanding(COMMIT).into_iter().cloned().collect();
    bench.drop_requests(COMMIT);
    bench.serve(COMMIT);
    for commit in &commits {
        bench.refuse(commit, ResponseCode::GO_AWAY, "please go away");
    }
    bench.settle();
    let new = bench
        .connections()
        .into_iter()
        .find(|(conn, to)| *conn != old && to == &address("a"));
    let (new, _) = new.expect("another connection");
    let last = bench
        .sent(COMMIT)
        .last()
        .map(|commit| (commit.link.conn, offset_of(commit)));
    assert_eq!(last.map(|(conn, _)| conn), Some(new), "it is committed there");
    // The pull that is held on the old connection brings its messages, the next one goes to the new one.
    let pulls: Vec<Asked> = bench
        .outstanding(PULL)
        .into_iter()
        .filter(|pull| pull.link.conn == old)
        .cloned()
        .collect();
    assert!(!pulls.is_empty(), "still held there");
    for pull in &pulls {
        let next = pull.request::<PullRequest>().offset.0;
        bench.found_at(pull, [next], 10, next + 1);
    }
    assert_eq!(bench.take_runs().len(), pulls.len());
    bench.settle();
    assert!(
        bench.connections().iter().all(|(conn, _)| *conn != old),
        "nothing is left to wait for"
    );
    let beat = bench
        .sent(BEAT)
        .into_iter()
        .find(|beat| beat.link.conn == new)
        .map(|beat| beat.at);
    let since = bench.sent(PULL).into_iter().filter(|pull| pull.link.conn == new);
    let since: Vec<_> = since.map(|pull| pull.at).collect();
    assert!(since.len() >= pulls.len() && since.iter().all(|at| Some(*at) >= beat));
    assert_eq!(
        bench.count_notices(|kind| matches!(kind, NoticeKind::OwnIdRepeated { .. })),
        0
    );
    bench.machine().assert_replays();
}

/// A broker that shuts down answers 1500 to everything, on every connection, for half a minute.
#[test]
fn a_broker_that_sends_everybody_away_is_not_stormed() {
    let mut bench = Bench::owning_one_queue(5, |_, _| {});
    bench.idle(secs(10));
    let dials = bench.dialled().len();
    for code in [BEAT, COMMIT, PULL, RequestCode::GET_CONSUMER_LIST_BY_GROUP] {
        bench.refuse_all(code, ResponseCode::GO_AWAY);
    }
    bench.sleep(secs(30));
    let dialled = bench.dialled().len() - dials;
    assert!((1..=60).contains(&dialled), "{dialled} in 30 s");
    for code in [BEAT, COMMIT, RequestCode::GET_CONSUMER_LIST_BY_GROUP] {
        bench.serve(code);
    }
    bench.withhold(PULL);
    bench.sleep(secs(3));
    assert_eq!(bench.outstanding(PULL).len(), 1);
}
