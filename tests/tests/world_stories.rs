//! Stories of small clusters, told in virtual time. Each ends with what must hold whatever happens.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rocketmq_consumer_core::config::SendBackFallback;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_testing::world::{Delivery, Dial, Handling, Reply, Setup, World, ms, queue, secs};

/// A topic of eight queues on two brokers, some messages in each.
fn eight_queues() -> World {
    let mut world = World::new().topic("T", &[("a", 4), ("b", 4)]);
    produce(&mut world, 20);
    world
}

fn produce(world: &mut World, each: usize) {
    for (broker, id) in [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("b", 0),
        ("b", 1),
        ("b", 2),
        ("b", 3),
    ] {
        world.produce("T", broker, id, each);
    }
}

fn on_t(setup: &mut Setup) {
    setup.subscribe("T", "*");
}

/// How many queues of `T` each member has, and that nobody shares one.
fn shares(world: &World, members: &[&str]) -> Vec<usize> {
    let shares: Vec<_> = members.iter().map(|id| world.queues(id, "T")).collect();
    let all: BTreeSet<_> = shares.iter().flatten().collect();
    assert_eq!(
        all.len(),
        shares.iter().flatten().count(),
        "somebody shares: {shares:?}"
    );
    shares.iter().map(Vec::len).collect()
}

#[test]
fn a_lone_member_consumes_what_is_there_and_what_comes() {
    let mut w = World::new()
        .topic("T", &[("a", 1)])
        .stored("T", "a", 0, 100)
        .member("c1", on_t);
    w.run_for(ms(100));
    let queue = queue("T", "a", 0);
    assert_eq!(
        w.offsets("c1", &queue),
        Vec::from_iter(0..100),
        "the first messages within 100 ms"
    );
    w.run_for(secs(60));
    w.produce("T", "a", 0, 1);
    w.run_for(ms(10));
    assert_eq!(
        w.delivered("c1").last().map(|d| d.offset.0),
        Some(100),
        "a held pull is answered"
    );
    w.run_for(secs(6));
    assert_eq!(w.stored_offset("G", &queue), Some(101));
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn two_members_share_eight_queues_four_and_four() {
    let mut w = eight_queues().member("c1", on_t).member("c2", on_t);
    w.run_for(secs(3));
    assert_eq!(shares(&w, &["c1", "c2"]), [4, 4]);
    w.assert_complete("T");
    produce(&mut w, 10);
    w.run_for(secs(10));
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn a_third_member_joins_and_leaves_without_a_message_lost_or_given_twice() {
    let mut w = eight_queues().member("c1", on_t).member("c2", on_t);
    w.run_for(secs(3));
    w.join("c3", on_t);
    w.run_for(secs(2));
    assert_eq!(shares(&w, &["c1", "c2", "c3"]), [3, 3, 2]);
    produce(&mut w, 10);
    w.run_for(secs(1));
    let before = deliveries(&w, &["c1", "c2", "c3"]);
    w.leave("c3", secs(5));
    w.run_for(secs(2));
    assert!(w.is_closed("c3"));
    assert_eq!(shares(&w, &["c1", "c2"]), [4, 4]);
    produce(&mut w, 10);
    w.run_for(secs(1));
    assert_eq!(
        deliveries(&w, &["c1", "c2", "c3"]),
        before + 80,
        "idle handlers: nothing comes twice"
    );
    let report = w.report_of("c3").expect("it has left");
    assert!(!report.timed_out && report.abandoned == 0);
    w.assert_complete("T");
    w.assert_story();
}

fn deliveries(world: &World, members: &[&str]) -> usize {
    members.iter().map(|id| world.delivered(id).len()).sum()
}

#[test]
fn a_member_that_crashes_is_succeeded_within_seconds() {
    let slow = |setup: &mut Setup| {
        setup
            .subscribe("T", "*")
            .handler(|_| Handling::done().taking(ms(200)));
    };
    let mut w = eight_queues().member("c1", slow).member("c2", slow);
    w.run_for(ms(1_500));
    w.crash("c1");
    w.run_for(secs(2));
    assert_eq!(w.queues("c2", "T").len(), 8);
    w.run_for(secs(8));
    w.assert_complete("T");
    // It comes back under its name.
    w.join("c1", slow);
    produce(&mut w, 5);
    w.run_for(secs(3));
    assert_eq!(shares(&w, &["c1", "c2"]), [4, 4]);
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn running_handlers_finish_and_waiting_messages_are_withdrawn_when_a_share_moves() {
    // Handlers take 100 ms; messages wait 300 ms more for a lane.
    let busy = |setup: &mut Setup| {
        setup
            .subscribe("T", "*")
            .handler(|_| Handling::done().beginning_after(ms(300)).taking(ms(100)));
    };
    let mut w = eight_queues().member("c1", busy);
    w.run_for(secs(1));
    w.join("c2", busy);
    w.run_for(secs(15));
    assert_eq!(shares(&w, &["c1", "c2"]), [4, 4]);
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn a_failing_handler_gets_its_message_again_with_growing_pauses() {
    let mut w = World::new()
        .topic("T", &[("a", 1)])
        .stored("T", "a", 0, 3)
        .member("c1", |c| {
            c.subscribe("T", "*").handler(|delivery: &Delivery| {
                if delivery.body.ends_with("#1") && delivery.reconsume_times < 3 {
                    Handling::retry()
                } else {
                    Handling::done()
                }
            });
        });
    w.run_for(secs(200));
    let rounds: Vec<_> = w
        .delivered("c1")
        .into_iter()
        .filter(|d| d.body.ends_with("#1"))
        .collect();
    let times: Vec<_> = rounds.iter().map(|delivery| delivery.reconsume_times).collect();
    assert_eq!(times, [0, 1, 2, 3]);
    assert!(
        rounds.iter().all(|delivery| delivery.topic == "T"),
        "its own topic, not that of retries"
    );
    let pauses: Vec<_> = rounds
        .windows(2)
        .map(|pair| pair[1].at.saturating_since(pair[0].at).as_secs())
        .collect();
    assert_eq!(pauses, [10, 30, 60], "the broker's levels");
    assert_eq!(
        w.stored_offset("G", &queue("T", "a", 0)),
        Some(3),
        "it holds up nobody"
    );
    assert_eq!(w.stored_offset("G", &queue("%RETRY%G", "a", 0)), Some(3));
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn a_message_that_always_fails_is_buried_and_a_refused_send_back_is_produced_or_redelivered_here() {
    for fallback in [SendBackFallback::Produce, SendBackFallback::Local] {
        let mut w = refusing_send_backs(fallback);
        w.run_for(secs(30));
        let queue = queue("T", "a", 0);
        let is_local = fallback == SendBackFallback::Local;
        let here: &[i64] = if is_local { &[0, 1, 1] } else { &[0, 1] };
        assert_eq!(w.offsets("c1", &queue), here);
        assert_eq!(
            w.delivered("c1").len(),
            3,
            "the second one comes again, {fallback:?}"
        );
        assert_eq!(w.stored_offset("G", &queue), Some(2));
        w.assert_story();
    }
}

/// A broker that takes back the first message of two, and a member that fails each of them once.
fn refusing_send_backs(fallback: SendBackFallback) -> World {
    let mut w = World::new()
        .topic("T", &[("a", 1)])
        .stored("T", "a", 0, 2)
        .member("c1", |c| {
            c.config().set_send_back_fallback(fallback);
            c.subscribe("T", "*")
                .handler(|delivery: &Delivery| match &*delivery.body {
                    body if body.ends_with("#0") => Handling::dead_letter(),
                    _ if delivery.attempt + delivery.reconsume_times == 0 => Handling::retry(),
                    _ => Handling::done(),
                });
        });
    w.broker("a").on(RequestCode::CONSUMER_SEND_MSG_BACK, |asked| {
        let request: rocketmq_consumer_core::wire::request::send_back::SendBackRequest = asked.request();
        if request.offset.0 == 0 {
            Reply::Model
        } else {
            Reply::Refuse(ResponseCode::SYSTEM_ERROR, "the disk is full")
        }
    });
    w
}

#[test]
fn at_least_once_whatever_fails() {
    // Every third delivery fails, members come, go and crash, a broker is deaf for a while.
    let counter = Rc::new(Cell::new(0_u32));
    let moody = |counter: &Rc<Cell<u32>>| {
        let counter = Rc::clone(counter);
        move |setup: &mut Setup| {
            setup.subscribe("T", "*").handler(move |delivery| {
                counter.set(counter.get() + 1);
                if counter.get().is_multiple_of(3) && delivery.reconsume_times < 2 {
                    Handling::retry().taking(ms(30))
                } else {
                    Handling::done().taking(ms(50))
                }
            });
        }
    };
    let mut w = eight_queues();
    w.join("c1", moody(&counter));
    w.join("c2", moody(&counter));
    w.run_for(ms(700));
    w.join("c3", moody(&counter));
    w.run_for(ms(900));
    w.crash("c2");
    produce(&mut w, 20);
    w.run_for(secs(3));
    w.broker("b").mute(true);
    w.run_for(secs(20));
    w.broker("b").mute(false);
    w.join("c2", moody(&counter));
    produce(&mut w, 5);
    w.run_for(secs(10));
    w.leave("c1", secs(1));
    w.run_for(secs(180));
    assert_eq!(shares(&w, &["c2", "c3"]), [4, 4]);
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn groups_and_topics_with_different_tastes_do_not_disturb_each_other() {
    let mut w = World::new()
        .topic("orders", &[("a", 2)])
        .topic("events", &[("a", 1), ("b", 1)]);
    for index in 0..90 {
        let tag = ["paid", "refund", "open"][index % 3];
        w.produce_tagged("orders", "a", i32::from(index % 2 == 0), tag);
        w.produce("events", ["a", "b"][index % 2], 0, 1);
    }
    for id in ["c1", "c2"] {
        w.join(id, |c| {
            c.subscribe("orders", "paid || refund").subscribe("events", "*");
        });
    }
    w.join("other", |c| {
        c.group("H").subscribe("orders", "open");
    });
    w.run_for(secs(70));
    let tags = |id: &str| -> BTreeSet<String> {
        let of_orders = w
            .delivered(id)
            .into_iter()
            .filter(|delivery| delivery.topic == "orders");
        of_orders.filter_map(|delivery| delivery.tag.clone()).collect()
    };
    assert_eq!(tags("other"), BTreeSet::from(["open".to_owned()]));
    assert_eq!(
        &tags("c1") | &tags("c2"),
        BTreeSet::from(["paid".to_owned(), "refund".to_owned()])
    );
    assert_eq!(w.delivered("other").len(), 30);
    assert_eq!(deliveries(&w, &["c1", "c2"]), 60 + 90);
    for group in ["G", "H"] {
        for id in 0..2 {
            assert_eq!(
                w.stored_offset(group, &queue("orders", "a", id)),
                Some(45),
                "{group}: all is passed"
            );
        }
    }
    w.assert_complete("orders");
    w.assert_complete("events");
    w.assert_story();
}

#[test]
fn a_broker_that_crashed_hears_the_offsets_again() {
    let mut w = World::new()
        .topic("T", &[("a", 1)])
        .stored("T", "a", 0, 50)
        .member("c1", on_t);
    w.run_for(ms(5_500));
    let queue = queue("T", "a", 0);
    assert_eq!(w.stored_offset("G", &queue), Some(50));
    w.kill("a");
    assert_eq!(
        w.stored_offset("G", &queue),
        Some(32),
        "the last seconds are gone"
    );
    w.run_for(secs(8));
    w.revive("a");
    w.run_for(secs(7));
    assert_eq!(w.stored_offset("G", &queue), Some(50));
    w.produce("T", "a", 0, 5);
    w.run_for(secs(1));
    assert_eq!(
        w.offsets("c1", &queue),
        Vec::from_iter(0..55),
        "nothing comes twice"
    );
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn a_broker_that_comes_back_elsewhere_is_found_there() {
    let mut w = World::new().topic("T", &[("a", 2), ("b", 2)]).member("c1", on_t);
    w.run_for(secs(2));
    w.kill("a");
    w.run_for(secs(20));
    w.produce("T", "b", 0, 3);
    w.run_for(ms(20));
    assert_eq!(
        w.offsets("c1", &queue("T", "b", 0)),
        [0, 1, 2],
        "one dead broker delays nobody else"
    );
    w.revive_at("a", "10.0.0.77:10911".parse().expect("an address"));
    w.run_for(secs(3));
    w.produce("T", "a", 1, 2);
    w.run_for(secs(1));
    assert_eq!(w.offsets("c1", &queue("T", "a", 1)), [0, 1]);
    w.run_for(secs(10));
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn a_name_server_that_is_down_at_the_start_is_waited_for_and_later_not_missed() {
    let mut w = World::new().topic("T", &[("a", 1)]).stored("T", "a", 0, 5);
    w.broker("ns").dials(Dial::Refuse);
    w.join("c1", on_t);
    w.run_for(secs(30));
    assert!(w.delivered("c1").is_empty());
    let unreachable = |kind: &NoticeKind| matches!(kind, NoticeKind::NameServerUnreachable { .. });
    assert!(w.notices("c1").iter().any(|notice| unreachable(&notice.kind)));
    w.broker("ns").dials(Dial::Accept);
    w.run_for(secs(3));
    assert_eq!(w.delivered("c1").len(), 5);
    w.kill("ns");
    w.run_for(secs(120));
    w.produce("T", "a", 0, 5);
    w.run_for(ms(50));
    assert_eq!(w.delivered("c1").len(), 10, "consuming needs none");
    w.revive("ns");
    w.run_for(secs(15));
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn of_two_name_servers_one_is_enough() {
    for dial in [Dial::Refuse, Dial::Hang] {
        let mut w = World::new()
            .name_server()
            .topic("T", &[("a", 1)])
            .stored("T", "a", 0, 5);
        w.broker("ns").dials(dial);
        w.join("c1", on_t);
        w.run_for(secs(10));
        assert_eq!(w.delivered("c1").len(), 5, "{dial:?}");
        w.assert_complete("T");
        w.assert_story();
    }
}

#[test]
fn a_topic_that_appears_later_is_waited_for() {
    let mut w = World::new().topic("T", &[("a", 2)]).stored("T", "a", 1, 5);
    w.peer().hide("T", true);
    w.join("c1", on_t);
    w.run_for(secs(20));
    assert!(
        w.notices("c1")
            .iter()
            .any(|notice| matches!(notice.kind, NoticeKind::TopicUnknown { .. }))
    );
    w.peer().hide("T", false);
    w.run_for(secs(2));
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn an_own_id_listed_twice_leaves_no_queue_without_reader() {
    // The broker lists a connection of an earlier life that it has not missed yet.
    let mut w = eight_queues().member("c1", on_t).member("c2", on_t);
    let ghosts = ["a", "b"].map(|broker| w.add_ghost(broker, "c1"));
    w.run_for(secs(5));
    assert_eq!(shares(&w, &["c1", "c2"]).iter().sum::<usize>(), 8);
    w.assert_complete("T");
    assert!(
        w.notices("c1")
            .iter()
            .any(|notice| matches!(notice.kind, NoticeKind::OwnIdRepeated { times: 2, .. }))
    );
    for ghost in ghosts {
        w.drop_ghost(ghost);
    }
    produce(&mut w, 3);
    w.run_for(secs(3));
    assert_eq!(shares(&w, &["c1", "c2"]), [4, 4]);
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn a_hung_handler_holds_its_message_until_its_deadline_and_nobody_else() {
    let mut w = World::new()
        .topic("T", &[("a", 1)])
        .stored("T", "a", 0, 40)
        .member("c1", |c| {
            c.subscribe("T", "*").handler(|delivery: &Delivery| {
                if delivery.offset.0 == 3
                    && delivery.reconsume_times == 0
                    && delivery.queue.topic.as_str() == "T"
                {
                    Handling::never()
                } else {
                    Handling::done()
                }
            });
            c.config().set_delivery_deadline(secs(30));
        });
    w.run_for(secs(20));
    let queue = queue("T", "a", 0);
    assert_eq!(w.offsets("c1", &queue).len(), 40);
    assert_eq!(w.stored_offset("G", &queue), Some(3));
    w.run_for(secs(60));
    assert_eq!(
        w.stored_offset("G", &queue),
        Some(40),
        "cancelled, abandoned, sent back"
    );
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn an_operator_who_moves_the_offset_is_obeyed() {
    let mut w = World::new()
        .topic("T", &[("a", 1)])
        .stored("T", "a", 0, 100)
        .member("c1", on_t);
    w.run_for(secs(2));
    w.expire("T", "a", 0, 100);
    w.produce("T", "a", 0, 1);
    w.run_for(secs(1));
    let queue = queue("T", "a", 0);
    assert_eq!(w.offsets("c1", &queue).last(), Some(&100));
    // Somebody who starts far below is moved to the oldest message there is.
    w.leave("c1", secs(1));
    w.run_for(secs(1));
    w.store_offset("G", &queue, 7);
    w.join("c1", on_t);
    w.run_for(secs(2));
    assert_eq!(
        w.offsets("c1", &queue)
            .iter()
            .filter(|offset| **offset == 100)
            .count(),
        2
    );
    assert!(
        w.notices("c1")
            .iter()
            .any(|notice| matches!(notice.kind, NoticeKind::OffsetIllegal { .. }))
    );
    w.assert_story();
}

#[test]
fn a_broker_that_talks_nonsense_is_left_and_tried_again() {
    let mut w = World::new().topic("T", &[("a", 1)]).stored("T", "a", 0, 10);
    let times = Cell::new(0);
    w.broker("a").on(RequestCode::PULL_MESSAGE, move |_| {
        times.set(times.get() + 1);
        match times.get() {
            1 => Reply::Raw(bytes::Bytes::from_static(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
            2 => Reply::Close,
            3 => Reply::Refuse(ResponseCode::SYSTEM_BUSY, "flow control"),
            4 => Reply::Refuse(ResponseCode::SUBSCRIPTION_NOT_LATEST, "not latest"),
            5 => Reply::Model.after(secs(2)),
            _ => Reply::Model,
        }
    });
    w.join("c1", on_t);
    w.run_for(secs(15));
    assert!(
        w.notices("c1")
            .iter()
            .any(|notice| matches!(notice.kind, NoticeKind::PeerMisbehaved { .. }))
    );
    assert_eq!(w.offsets("c1", &queue("T", "a", 0)), Vec::from_iter(0..10));
    w.assert_complete("T");
    w.assert_story();
}

#[test]
fn a_whole_group_is_deployed_anew_one_after_the_other() {
    let steady = |setup: &mut Setup| {
        setup
            .subscribe("T", "*")
            .handler(|_| Handling::done().taking(ms(20)));
    };
    let mut w = eight_queues()
        .member("c1", steady)
        .member("c2", steady)
        .member("c3", steady);
    w.run_for(secs(3));
    for id in ["c1", "c2", "c3"] {
        w.leave(id, secs(5));
        produce(&mut w, 4);
        w.run_for(secs(1));
        w.join(id, steady);
        produce(&mut w, 4);
        w.run_for(secs(3));
    }
    w.assert_complete("T");
    let total = 8 * (20 + 3 * 8);
    assert_eq!(
        deliveries(&w, &["c1", "c2", "c3"]),
        total,
        "a clean stop makes no duplicates"
    );
    w.assert_story();
}

#[test]
fn the_same_story_goes_the_same_way_twice() {
    let tell = || {
        let mut w = eight_queues().member("c1", on_t).member("c2", on_t);
        w.run_for(secs(2));
        w.kill("b");
        w.run_for(secs(5));
        w.join("c3", on_t);
        w.revive("b");
        w.run_for(secs(30));
        w.assert_story();
        w
    };
    let (first, second) = (tell(), tell());
    for id in ["c1", "c2", "c3"] {
        assert_eq!(first.machine(id).events(), second.machine(id).events());
        assert_eq!(first.machine(id).actions(), second.machine(id).actions());
    }
    assert_eq!(first.commits(), second.commits());
}

/// Found by the simulator: each new connection brought the question again, ten times a second for each queue.
#[test]
fn a_broker_that_hangs_up_on_a_question_is_not_asked_with_each_new_connection() {
    let mut w = World::new().topic("T", &[("a", 1)]);
    w.broker("a").on(RequestCode::GET_MIN_OFFSET, |_| Reply::Close);
    w.join("c1", on_t);
    w.run_for(secs(20));
    let asked = w.requests("a", RequestCode::GET_MIN_OFFSET).len();
    assert!(
        (10..=45).contains(&asked),
        "{asked}: two queues ask, once a second each"
    );
    w.broker("a").off(RequestCode::GET_MIN_OFFSET);
    w.run_for(secs(5));
    assert_eq!(w.queues("c1", "T"), [queue("T", "a", 0)]);
    w.assert_story();
}
