use alloc::format;
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

#[test]
fn names_are_read_and_shown() {
    for name in ["AVG", "avg", "AllocateMessageQueueAveragely"] {
        assert_eq!(name.parse(), Ok(AllocateStrategy::Averagely));
    }
    assert_eq!("circle".parse::<AllocateStrategy>(), Err(UnknownStrategy));
    assert_eq!(format!("{}", AllocateStrategy::Averagely), "AVG");
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
