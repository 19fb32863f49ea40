//! Shares of real lists: several brokers, ids that sort otherwise than they look, ids listed twice.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rocketmq_consumer_core::allocate::{
    AllocateError, AllocateStrategy, Otherwise, RoomRule, Why, positions_of, sort_members, sort_queues,
};
use rocketmq_consumer_core::ids::{ClientId, MessageQueue};
use rocketmq_consumer_testing::generate;
use rocketmq_consumer_testing::strategies;

const OWN: &str = "10.0.0.1@7";

/// Those that leave no queue of the generated lists to nobody.
fn complete() -> impl Strategy<Value = AllocateStrategy> {
    prop_oneof![
        Just("avg"),
        Just("circle"),
        Just("hash"),
        Just("hash:1"),
        Just("near:before=-,else=*/avg"),
        Just("near:broker-a=r1,10.*=r1,else=r2/circle"),
        Just("near:broker*=nowhere,else=r/hash:3"),
    ]
    .prop_map(|text| text.parse().expect("written above"))
}

/// Sorted as every member sorts for itself.
fn sorted(mut queues: Vec<MessageQueue>, mut members: Vec<ClientId>) -> (Vec<MessageQueue>, Vec<ClientId>) {
    sort_queues(&mut queues);
    sort_members(&mut members);
    (queues, members)
}

fn share(
    strategy: &AllocateStrategy,
    queues: &[MessageQueue],
    members: &[ClientId],
    own: &ClientId,
) -> Vec<MessageQueue> {
    strategy
        .allocate_all(queues, members, own)
        .expect("legal arguments")
}

/// Who owns what.
fn owners(
    strategy: &AllocateStrategy,
    queues: &[MessageQueue],
    members: &[ClientId],
) -> BTreeMap<MessageQueue, ClientId> {
    let distinct: BTreeSet<&ClientId> = members.iter().collect();
    let shares = distinct.into_iter().flat_map(|own| {
        let share = share(strategy, queues, members, own);
        share.into_iter().map(move |queue| (queue, own.clone()))
    });
    shares.collect()
}

proptest! {
    // Each case asks every member, and hashing is slow without optimisation.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Together all members own every queue once.
    #[test]
    fn shares_are_complete_and_disjoint(
        strategy in complete(),
        queues in strategies::queue_sets(),
        members in strategies::member_lists(OWN),
    ) {
        prop_assume!(!queues.is_empty() && !members.is_empty());
        let (queues, members) = sorted(queues, members);
        let mut owned = Vec::new();
        for member in members.iter().collect::<BTreeSet<_>>() {
            let share = share(&strategy, &queues, &members, member);
            let first = strategy.allocate(&queues, &members, member).expect("legal arguments");
            prop_assert!(first.iter().all(|queue| share.contains(queue)), "the first place is one of them");
            prop_assert!(share.is_sorted(), "{strategy}");
            if positions_of(member, &members).count() == 1 {
                prop_assert_eq!(share.len(), first.len(), "{}", strategy);
            }
            owned.extend(share);
        }
        sort_queues(&mut owned);
        prop_assert_eq!(owned, queues);
    }

    /// No place has two more than another.
    #[test]
    fn shares_are_even(
        strategy in prop_oneof![Just("avg"), Just("circle")],
        queues in strategies::queue_sets(),
        members in strategies::member_lists(OWN),
    ) {
        prop_assume!(!queues.is_empty() && !members.is_empty());
        let strategy: AllocateStrategy = strategy.parse().expect("written above");
        let (queues, members) = sorted(queues, members);
        let each = queues.len() / members.len();
        for member in &members {
            let places = positions_of(member, &members).count();
            let owned = share(&strategy, &queues, &members, member).len();
            prop_assert!((places * each..=places * (each + 1)).contains(&owned), "{places} places, {owned}");
        }
    }

    /// Rooms that are not configured are left out, the others shared completely and evenly.
    #[test]
    fn rooms_are_shared_among_all_and_others_not_at_all(
        queues in strategies::queue_sets(),
        members in strategies::member_lists(OWN),
        rooms in proptest::collection::vec(0..3_u8, 1..8),
    ) {
        prop_assume!(!queues.is_empty() && !members.is_empty());
        let in_rooms = queues.into_iter().enumerate().map(|(index, queue)| {
            let room = rooms[index % rooms.len()];
            MessageQueue { broker: format!("r{room}@{}", queue.broker.as_str().replace('@', "-")).into(), ..queue }
        });
        let (mut queues, members) = sorted(in_rooms.collect(), members);
        queues.dedup();
        let strategy: AllocateStrategy = "room:r0,r2".parse().expect("two rooms");
        let owned: Vec<MessageQueue> = owners(&strategy, &queues, &members).into_keys().collect();
        let eligible = queues.iter().filter(|queue| !queue.broker.as_str().starts_with("r1@"));
        prop_assert_eq!(owned, eligible.cloned().collect::<Vec<_>>());
    }

    /// On a ring only queues of the one who leaves find another owner.
    #[test]
    fn a_member_that_leaves_a_ring_moves_only_its_own_queues(
        queues in strategies::queue_sets(),
        members in proptest::collection::btree_set(0..200_u16, 2..12),
        leaves in 0..12_usize,
        virtual_nodes in 1..12_u32,
    ) {
        prop_assume!(!queues.is_empty());
        let strategy = AllocateStrategy::ConsistentHash { virtual_nodes };
        let members = members.into_iter().map(|id| format!("10.0.0.{id}@7").into()).collect();
        let (queues, mut members) = sorted(queues, members);
        let before = owners(&strategy, &queues, &members);
        let gone = members.remove(leaves % members.len());
        for (queue, owner) in owners(&strategy, &queues, &members) {
            prop_assert!(before[&queue] == owner || before[&queue] == gone, "{queue} moved from {}", before[&queue]);
        }
    }

    /// Every queue of a share has its reason, and everybody's counts are told.
    #[test]
    fn shares_are_explained_queue_by_queue(
        strategy in complete(),
        queues in strategies::queue_sets(),
        members in strategies::member_lists(OWN),
    ) {
        prop_assume!(!queues.is_empty() && !members.is_empty());
        let (queues, members) = sorted(queues, members);
        let own = &members[members.len() / 2];
        let told = strategy.explain(&queues, &members, own).expect("legal arguments");
        let places: Vec<usize> = positions_of(own, &members).collect();
        for owned in &told.share {
            let mut why = &owned.why;
            let inside = matches!(why, Why::OwnRoom { .. } | Why::DesertedRoom { .. });
            while let Why::OwnRoom { why: inner, .. } | Why::DesertedRoom { why: inner, .. } = why {
                why = inner;
            }
            match why {
                Why::Block { index, place, block: (start, end) } => {
                    prop_assert!((start..end).contains(&index), "{why}");
                    prop_assert!(inside || places.contains(place), "{why}");
                }
                Why::Turn { place, .. } => prop_assert!(inside || places.contains(place), "{why}"),
                Why::Ring { .. } => {}
                other @ (Why::LeftOver { .. } | Why::Listed | Why::OwnRoom { .. } | Why::DesertedRoom { .. } | _) => {
                    prop_assert!(false, "{other}");
                }
            }
        }
        let owned: Vec<MessageQueue> = told.share.into_iter().map(|owned| owned.queue).collect();
        prop_assert_eq!(owned, share(&strategy, &queues, &members, own));
        let total: usize = told.members.iter().filter_map(|member| member.owns).sum();
        prop_assert_eq!((total, told.nobodys.len()), (queues.len(), 0));
    }

    /// Brokers name members and queues in any order, another one to each member.
    #[test]
    fn shares_do_not_depend_on_the_order_of_lists(
        strategy in complete(),
        queues in strategies::queue_sets(),
        members in strategies::member_lists(OWN),
        order in strategies::tapes(20),
    ) {
        let own = ClientId::from(OWN);
        let (mut other_queues, mut other_members) = (queues.clone(), members.clone());
        let mut u = order.unstructured();
        generate::shuffle(&mut u, &mut other_members).expect("the generator is total");
        generate::shuffle(&mut u, &mut other_queues).expect("the generator is total");
        let (queues, members) = sorted(queues, members);
        let (other_queues, other_members) = sorted(other_queues, other_members);
        let share = strategy.allocate_all(&queues, &members, &own);
        prop_assert_eq!(&share, &strategy.allocate_all(&other_queues, &other_members, &own));
        prop_assert_eq!(strategy.allocate(&queues, &members, &own), strategy.allocate(&other_queues, &other_members, &own));
        let refused = if queues.is_empty() {
            Some(AllocateError::NoQueues)
        } else {
            members.is_empty().then_some(AllocateError::NoMembers)
        };
        prop_assert_eq!(share.clone().err(), refused);
        if !members.contains(&own) {
            prop_assert!(share.unwrap_or_default().is_empty(), "who is not listed has nothing");
        }
    }

    /// What is shown is read as the same, whatever was put together by hand.
    #[test]
    fn strategies_are_read_as_they_are_shown(
        named in proptest::collection::vec(("[a-z0-9.]{1,5}[*]?", "[a-z0-9]{1,5}"), 1..4),
        before in proptest::option::of(proptest::char::range('!', '+')),
        otherwise in 0..3_u8,
        inner in prop_oneof![Just("avg"), Just("circle"), Just("hash:7"), Just("room:a,b"), Just("config:a:1,T/b:2")],
    ) {
        let named = named.into_iter().filter(|(pattern, _)| pattern != "before" && pattern != "else");
        let rule = RoomRule {
            named: named.map(|(pattern, room)| (pattern.into(), room.into())).collect(),
            before,
            otherwise: match otherwise {
                0 => Otherwise::Refuse,
                1 => Otherwise::Whole,
                _ => Otherwise::Room("q".into()),
            },
        };
        let strategy = AllocateStrategy::Nearby { rooms: rule, inner: Box::new(inner.parse().expect("a strategy")) };
        prop_assume!(strategy.check().is_ok());
        prop_assert_eq!(strategy.to_string().parse(), Ok(strategy));
    }

    /// Whatever text: it is read or refused, and what is read can be used.
    #[test]
    fn no_text_is_too_odd(text in "(avg|circle|hash|room|config|near|CONFIG|MACHINE_ROOM_NEARBY-)?[:/,=a-z0-9*@ -]{0,20}") {
        if let Ok(strategy) = text.parse::<AllocateStrategy>() {
            prop_assert_eq!(strategy.check(), Ok(()));
        }
    }

    /// Sorting is Java's `compareTo`: by 16-bit units, of topic, broker and number in turn.
    #[test]
    fn lists_are_sorted_by_code_units(queues in strategies::queue_sets(), members in strategies::member_lists(OWN)) {
        let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        let (queues, members) = sorted(queues, members);
        prop_assert!(members.is_sorted_by_key(|member| units(member.as_str())));
        prop_assert!(queues.is_sorted_by_key(|queue| (units(queue.topic.as_str()), units(queue.broker.as_str()), queue.id)));
    }
}
