use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::ids::QueueId;

fn queues(count: usize) -> Vec<MessageQueue> {
    (0_i32..)
        .take(count)
        .map(|id| MessageQueue {
            topic: "T".into(),
            broker: "a".into(),
            id: QueueId(id),
        })
        .collect()
}

fn members(ids: &[&str]) -> Vec<ClientId> {
    ids.iter().map(|&id| id.into()).collect()
}

fn ids(result: Result<Vec<MessageQueue>, AllocateError>) -> Vec<i32> {
    let queues = result.expect("legal arguments");
    queues.into_iter().map(|queue| queue.id.0).collect()
}

#[test]
fn neighbours_in_shares_that_differ_by_one() {
    let members = members(&["a", "b", "c", "d"]);
    let expected: [(usize, [&[i32]; 4]); 4] = [
        (1, [&[0], &[], &[], &[]]),
        (4, [&[0], &[1], &[2], &[3]]),
        (6, [&[0, 1], &[2, 3], &[4], &[5]]),
        (10, [&[0, 1, 2], &[3, 4, 5], &[6, 7], &[8, 9]]),
    ];
    for (count, shares) in expected {
        for (member, share) in members.iter().zip(shares) {
            let found = AllocateStrategy::Averagely.allocate(&queues(count), &members, member);
            assert_eq!(ids(found), share, "{member} of {count}");
        }
    }
}

/// RB-04: not the share of the first place.
#[test]
fn a_member_that_is_not_listed_gets_nothing() {
    let members = members(&["c1", "c2"]);
    let own = ClientId::from("c9");
    assert!(ids(AllocateStrategy::Averagely.allocate(&queues(4), &members, &own)).is_empty());
    assert!(ids(AllocateStrategy::Averagely.allocate_all(&queues(4), &members, &own)).is_empty());
    assert_eq!(positions_of(&own, &members).count(), 0);
}

#[test]
fn an_id_listed_twice_has_two_shares() {
    let members = members(&["a", "a", "b"]);
    let own = ClientId::from("a");
    let strategy = AllocateStrategy::Averagely;
    assert_eq!(ids(strategy.allocate(&queues(10), &members, &own)), [0, 1, 2, 3]);
    assert_eq!(
        ids(strategy.allocate_all(&queues(10), &members, &own)),
        [0, 1, 2, 3, 4, 5, 6]
    );
    assert_eq!(
        ids(strategy.allocate(&queues(10), &members, &"b".into())),
        [7, 8, 9]
    );
}

#[test]
fn arguments_are_checked_in_the_order_of_java() {
    let strategy = AllocateStrategy::Averagely;
    assert_eq!(
        strategy.allocate(&[], &[], &"".into()),
        Err(AllocateError::EmptyClientId)
    );
    assert_eq!(
        strategy.allocate(&[], &[], &"a".into()),
        Err(AllocateError::NoQueues)
    );
    assert_eq!(
        strategy.allocate_all(&queues(1), &[], &"a".into()),
        Err(AllocateError::NoMembers)
    );
}

/// Ten queues on two brokers, for four members whose ids are traps.
const EVERYBODY: [&str; 4] = ["10.0.0.10@7", "10.0.0.1@7", "10.0.0.1@70", "10.0.0.2@7"];

fn two_brokers() -> Vec<MessageQueue> {
    ["broker-a", "broker-b"]
        .iter()
        .flat_map(|broker| {
            queues(5).into_iter().map(|queue| MessageQueue {
                broker: (*broker).into(),
                ..queue
            })
        })
        .collect()
}

/// `a0 b4`: the last letter of the broker, and the number.
fn short(share: &[MessageQueue]) -> String {
    let name = |queue: &MessageQueue| {
        let broker = queue.broker.as_str();
        format!(
            "{}{}",
            broker.get(broker.len() - 1..).unwrap_or_default(),
            queue.id
        )
    };
    share.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_strategy_shares_as_java_does() {
    let table = [
        ("avg", ["a0 a1 a2", "a3 a4 b0", "b1 b2", "b3 b4"]),
        ("circle", ["a0 a4 b3", "a1 b0 b4", "a2 b1", "a3 b2"]),
        ("hash", ["a2 b1", "a1 b2", "a4 b0 b3", "a0 a3 b4"]),
        ("hash:3", ["a2 a3 a4 b1", "a1", "b0 b3 b4", "a0 b2"]),
        ("config:broker-b:4,broker-a:0", ["b4 a0"; 4]),
    ];
    let (queues, members) = (two_brokers(), members(&EVERYBODY));
    for (strategy, shares) in table {
        let strategy: AllocateStrategy = strategy.parse().unwrap();
        for (member, share) in members.iter().zip(shares) {
            let found = strategy.allocate(&queues, &members, member).unwrap();
            assert_eq!(short(&found), share, "{strategy} of {member}");
        }
    }
}

#[test]
fn rooms_decide_which_brokers_count() {
    let queues: Vec<MessageQueue> = [
        ("r1@b", 4),
        ("r2@b", 2),
        ("plain", 1),
        ("r1@x@y", 1),
        ("r1@", 1),
        ("r1@c@", 1),
    ]
    .into_iter()
    .flat_map(|(broker, count)| {
        queues(count).into_iter().map(move |queue| MessageQueue {
            broker: broker.into(),
            ..queue
        })
    })
    .collect();
    let members = members(&EVERYBODY[..3]);
    let strategy: AllocateStrategy = "room:r1".parse().unwrap();
    let share = |member| {
        let share = strategy.allocate(&queues, &members, member).unwrap();
        let names: Vec<_> = share
            .iter()
            .map(|queue| format!("{}:{}", queue.broker, queue.id))
            .collect();
        names.join(" ")
    };
    let shares: Vec<_> = members.iter().map(share).collect();
    // Empty parts at the end are none: `r1@c@` counts, `r1@` does not.
    assert_eq!(shares, ["r1@b:0 r1@b:3", "r1@b:1 r1@c@:0", "r1@b:2"]);
}

#[test]
fn queues_of_a_room_stay_there_unless_it_is_deserted() {
    let queues: Vec<MessageQueue> = ["R1-b", "R2-b", "R3-b"]
        .iter()
        .flat_map(|broker| {
            queues(4).into_iter().map(|queue| MessageQueue {
                broker: (*broker).into(),
                ..queue
            })
        })
        .collect();
    let members = members(&["R1-c0", "R1-c1", "R2-c0"]);
    let strategy: AllocateStrategy = "near".parse().unwrap();
    let shares: Vec<String> = members
        .iter()
        .map(|member| {
            let share = strategy.allocate(&queues, &members, member).unwrap();
            let names = share.iter().map(|queue| format!("{}{}", queue.broker, queue.id));
            names.collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(
        shares,
        [
            "R1-b0 R1-b1 R3-b0 R3-b1",
            "R1-b2 R1-b3 R3-b2",
            "R2-b0 R2-b1 R2-b2 R2-b3 R3-b3"
        ]
    );
}

#[test]
fn a_rule_tells_rooms_by_name_by_beginning_and_by_separator() {
    let AllocateStrategy::Nearby { rooms, .. } = "near:b-1=r1,10.0.*=r2,before=-,else=r9".parse().unwrap()
    else {
        panic!("rooms nearby were asked for");
    };
    for (name, room) in [
        ("b-1", Some("r1")),
        ("b-12", Some("b")),
        ("10.0.0.1@7-x", Some("r2")),
        ("10.1.0.1", Some("r9")),
        ("-x", None),
    ] {
        assert_eq!(rooms.room_of(name), room, "{name}");
    }
    let strict: AllocateStrategy = "near:b*=r1".parse().unwrap();
    assert_eq!(
        strict.allocate(&queues(1), &members(&["c"]), &"c".into()),
        Err(AllocateError::NoRoom(
            "Machine room is null for mq MessageQueue [topic=T, brokerName=a, queueId=0]".into()
        ))
    );
}

/// Whoever is asked for a share in life gets what is there, once, in order.
#[test]
fn a_list_is_compared_with_the_route_in_a_rebalance() {
    let strategy: AllocateStrategy = "config:a:3,a:0,a:0,a:9,OTHER/a:1".parse().unwrap();
    let members = members(&["x"]);
    let share = strategy.allocate_all(&queues(4), &members, &"x".into());
    assert_eq!(ids(share), [0, 3]);
    let missing = strategy.not_there(&"T".into(), &queues(4));
    assert_eq!(
        ids(Ok(missing)),
        [9],
        "a queue of another topic is nothing to complain of"
    );
    assert_eq!(*strategy.for_retries(), AllocateStrategy::Averagely);
    let inside: AllocateStrategy = "near/config:a:0".parse().unwrap();
    assert_eq!(inside.for_retries().to_string(), "near:before=-,else=*/avg");
}

#[test]
fn a_ring_has_a_limit() {
    let crowd: Vec<ClientId> = (0..1_001).map(|id| format!("{id}").into()).collect();
    let strategy = AllocateStrategy::ConsistentHash { virtual_nodes: 1_000 };
    let share = strategy.allocate(&queues(1), &crowd, &"7".into());
    assert_eq!(share, Err(AllocateError::RingTooLarge));
    let nobody = AllocateStrategy::ConsistentHash { virtual_nodes: 0 };
    assert!(ids(nobody.allocate(&queues(3), &members(&["a"]), &"a".into())).is_empty());
}

#[test]
fn an_own_strategy_is_not_computed_here() {
    let own = AllocateStrategy::Own("mine".into());
    let refused = Err(AllocateError::Own("mine".into()));
    assert_eq!(own.allocate(&queues(1), &members(&["a"]), &"a".into()), refused);
    assert_eq!(
        own.allocate_all(&queues(1), &members(&["a"]), &"a".into()),
        refused
    );
}

#[test]
fn names_are_read_and_shown() {
    for (names, shown, java) in [
        (&["avg", "AVG", "AllocateMessageQueueAveragely"][..], "avg", "AVG"),
        (
            &["circle", "AVG_BY_CIRCLE", "AllocateMessageQueueAveragelyByCircle"],
            "circle",
            "AVG_BY_CIRCLE",
        ),
        (
            &[
                "hash",
                "hash:10",
                "CONSISTENT_HASH",
                "AllocateMessageQueueConsistentHash:10",
            ],
            "hash:10",
            "CONSISTENT_HASH",
        ),
        (
            &[
                "room:r1,r2",
                "MACHINE_ROOM:r2,r1",
                "AllocateMessageQueueByMachineRoom:r1,r2",
            ],
            "room:r1,r2",
            "MACHINE_ROOM",
        ),
        (
            &[
                "config:b-a:0,T/b:a:1",
                "CONFIG:b-a:0,T/b:a:1",
                "AllocateMessageQueueByConfig:b-a:0,T/b:a:1",
            ],
            "config:b-a:0,T/b:a:1",
            "CONFIG",
        ),
        (
            &[
                "near",
                "near/avg",
                "MACHINE_ROOM_NEARBY-AVG",
                "AllocateMachineRoomNearby",
                "near:before=-,else=*",
            ],
            "near:before=-,else=*/avg",
            "MACHINE_ROOM_NEARBY-AVG",
        ),
        (
            &["near:a=r1,10.*=r2,before=@,else=r3/hash:5"],
            "near:a=r1,10.*=r2,before=@,else=r3/hash:5",
            "MACHINE_ROOM_NEARBY-CONSISTENT_HASH",
        ),
    ] {
        for name in names {
            let strategy: AllocateStrategy = name.parse().unwrap();
            assert_eq!(
                (format!("{strategy}").as_str(), &*strategy.name()),
                (shown, java),
                "{name}"
            );
            assert_eq!(shown.parse(), Ok(strategy), "{name}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    for (text, reason) in [
        ("moon", "unknown allocation strategy"),
        ("", "unknown allocation strategy"),
        ("nearly", "unknown allocation strategy"),
        ("avg:1", "avg takes no parameters"),
        ("hash:-1", "hash takes a number"),
        ("hash:0", "takes 1 to 1000 virtual nodes"),
        ("hash:1001", "takes 1 to 1000 virtual nodes"),
        ("room", "room needs rooms"),
        ("room:", "room needs rooms"),
        ("room:r1,,r2", "a room has 1 to 255 bytes"),
        ("config", "config needs queues"),
        ("config:a", "\"a\" is not BROKER:QUEUE"),
        ("config:a:x", "\"a:x\" is not BROKER:QUEUE"),
        ("config::1", "\":1\" is not BROKER:QUEUE"),
        ("config:/a:1", "\"/a:1\" is not BROKER:QUEUE"),
        ("config:a:-1", "queues are numbered from 0"),
        ("near:", "\"\" is not PATTERN=ROOM"),
        ("near:before=ab", "\"before=ab\" is not PATTERN=ROOM"),
        ("near:a=", "a room has 1 to 255 bytes"),
        ("near/near", "unknown allocation strategy"),
    ] {
        let error = text.parse::<AllocateStrategy>().unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn limits_hold_for_what_no_text_says() {
    let near = |inner| AllocateStrategy::Nearby {
        rooms: RoomRule::default(),
        inner: Box::new(inner),
    };
    let rule = |named: usize| AllocateStrategy::Nearby {
        rooms: RoomRule {
            named: (0..named).map(|n| (format!("b{n}").into(), "r".into())).collect(),
            before: None,
            otherwise: Otherwise::Refuse,
        },
        inner: Box::default(),
    };
    let list = |count: i32| AllocateStrategy::Config {
        queues: (0..count)
            .map(|id| ListedQueue {
                topic: None,
                broker: "a".into(),
                id: QueueId(id),
            })
            .collect(),
    };
    let rooms = |count: usize| AllocateStrategy::MachineRoom {
        rooms: (0..count).map(|n| format!("r{n}").into()).collect(),
    };
    for good in [
        rule(1),
        rule(ROOMS_MAX),
        list(1),
        list(65_536),
        rooms(1),
        rooms(ROOMS_MAX),
        AllocateStrategy::Own("x".into()),
    ] {
        assert_eq!(good.check(), Ok(()));
    }
    for bad in [
        near(near(AllocateStrategy::Averagely)),
        near(AllocateStrategy::Own("x".into())),
        rule(0),
        rule(ROOMS_MAX + 1),
        list(0),
        list(65_537),
        rooms(0),
        rooms(ROOMS_MAX + 1),
        AllocateStrategy::Own("".into()),
        AllocateStrategy::Own("x".repeat(256).into()),
    ] {
        assert!(bad.check().is_err(), "{}", bad.name());
    }
}

/// A recording may hold anything: nested ever deeper it would end the stack of who reads it.
#[test]
fn strategies_are_written_and_read_but_not_nested() {
    for text in [
        "avg",
        "circle",
        "hash:3",
        "room:a,b",
        "config:a:0,T/b:1",
        "near/hash:3",
        "near/config:a:0",
        "near:a=r,else=q/room:z",
    ] {
        let strategy: AllocateStrategy = text.parse().unwrap();
        let bytes = postcard::to_allocvec(&strategy).unwrap();
        assert_eq!(postcard::from_bytes(&bytes), Ok(strategy), "{text}");
    }
    let nested = AllocateStrategy::Nearby {
        rooms: RoomRule::default(),
        inner: Box::new("near".parse().unwrap()),
    };
    let bytes = postcard::to_allocvec(&nested).unwrap();
    assert!(postcard::from_bytes::<AllocateStrategy>(&bytes).is_err());
}

#[test]
fn explanations_name_position_and_reason() {
    let (queues, members) = (two_brokers(), members(&EVERYBODY));
    for (strategy, own, reasons) in [
        (
            "avg",
            1,
            &[
                "queue 3 lies in the block 3 to 5 of place 1",
                "queue 4 lies in the block 3 to 5 of place 1",
                "queue 5 lies in the block 3 to 5 of place 1",
            ][..],
        ),
        (
            "avg",
            3,
            &[
                "queue 8 lies in the block 8 to 9 of place 3",
                "queue 9 lies in the block 8 to 9 of place 3",
            ],
        ),
        (
            "circle",
            2,
            &[
                "queue 2 is the turn of place 2, as every 4th is",
                "queue 6 is the turn of place 2, as every 4th is",
            ],
        ),
        ("config:broker-b:4", 0, &["it is on the list"]),
        (
            "near:else=r/avg",
            2,
            &[
                "in the own room \"r\" queue 6 lies in the block 6 to 7 of place 2",
                "in the own room \"r\" queue 7 lies in the block 6 to 7 of place 2",
            ],
        ),
        (
            "near:broker*=q,else=r/circle",
            3,
            &[
                "nobody is in room \"q\", so all share it: queue 3 is the turn of place 3, as every 4th is",
                "nobody is in room \"q\", so all share it: queue 7 is the turn of place 3, as every 4th is",
            ],
        ),
    ] {
        let strategy: AllocateStrategy = strategy.parse().unwrap();
        let told = strategy.explain(&queues, &members, &members[own]).unwrap();
        let found: Vec<String> = told.share.iter().map(|owned| owned.why.to_string()).collect();
        assert_eq!(found, reasons, "{strategy}");
        let owned: Vec<_> = told.share.into_iter().map(|owned| owned.queue).collect();
        assert_eq!(Ok(owned), strategy.allocate_all(&queues, &members, &members[own]));
        assert_eq!((told.queues, told.members.len()), (10, 4));
    }
}

#[test]
fn a_ring_is_explained_by_its_points() {
    let (queues, members) = (two_brokers(), members(&EVERYBODY));
    let strategy: AllocateStrategy = "hash".parse().unwrap();
    let told = strategy.explain(&queues, &members, &members[0]).unwrap();
    // `10.0.0.10@7-1` is the first point of the ring, and a2 lies a little before it.
    assert_eq!(
        told.share[0].why,
        Why::Ring {
            queue_at: 5_127_707,
            point_at: 122_034_273,
            point: 1
        }
    );
    let counts: Vec<_> = told.members.iter().map(|member| member.owns).collect();
    assert_eq!(counts, [Some(2), Some(2), Some(3), Some(3)]);
}

#[test]
fn queues_of_nobody_are_told() {
    let strategy: AllocateStrategy = "room:a".parse().unwrap();
    let told = strategy
        .explain(&queues(2), &members(&["x", "x", "y"]), &"x".into())
        .unwrap();
    assert_eq!((told.share.len(), told.nobodys.len()), (0, 2));
    assert_eq!(told.members[0].places, [0, 1]);
    let listed: AllocateStrategy = "config:a:0".parse().unwrap();
    let told = listed
        .explain(&queues(2), &members(&["x", "y"]), &"x".into())
        .unwrap();
    let counts: Vec<_> = told.members.iter().map(|member| member.owns).collect();
    assert_eq!(
        (counts, told.nobodys),
        (vec![Some(1), None], vec![]),
        "lists of others are unknown"
    );
}

proptest! {
    #[test]
    fn shares_are_complete_disjoint_and_even(count in 1..200_usize, places in 1..40_usize) {
        let queues = queues(count);
        let members: Vec<ClientId> = (0..places).map(|id| format!("{id:03}").into()).collect();
        let shares: Vec<Vec<MessageQueue>> = members
            .iter()
            .map(|own| AllocateStrategy::Averagely.allocate(&queues, &members, own).expect("legal arguments"))
            .collect();
        let sizes = shares.iter().map(Vec::len);
        prop_assert!(sizes.clone().max().unwrap_or(0) - sizes.min().unwrap_or(0) <= 1);
        // One behind the other they are the list again: nothing is missing, nothing is there twice.
        prop_assert_eq!(shares.concat(), queues);
    }

    /// Whoever is listed how often: together the members own every queue exactly once.
    #[test]
    fn all_shares_of_all_ids_cover_every_queue_once(count in 1..60_usize, listed in proptest::collection::vec(0..5_u8, 1..12)) {
        let queues = queues(count);
        let mut members: Vec<ClientId> = listed.iter().map(|id| format!("{id}").into()).collect();
        sort_members(&mut members);
        let mut distinct = members.clone();
        distinct.dedup();
        let mut owned: Vec<MessageQueue> = distinct
            .iter()
            .flat_map(|own| AllocateStrategy::Averagely.allocate_all(&queues, &members, own).expect("legal arguments"))
            .collect();
        sort_queues(&mut owned);
        prop_assert_eq!(owned, queues);
    }
}
