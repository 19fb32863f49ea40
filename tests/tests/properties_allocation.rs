//! Shares of real lists: several brokers, ids that sort otherwise than they look, ids listed twice.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rocketmq_consumer_core::allocate::{
    AllocateError, AllocateStrategy, positions_of, sort_members, sort_queues,
};
use rocketmq_consumer_core::ids::{ClientId, MessageQueue};
use rocketmq_consumer_testing::generate;
use rocketmq_consumer_testing::strategies;

const STRATEGY: AllocateStrategy = AllocateStrategy::Averagely;
const OWN: &str = "10.0.0.1@7";

/// Sorted as every member sorts for itself.
fn sorted(mut queues: Vec<MessageQueue>, mut members: Vec<ClientId>) -> (Vec<MessageQueue>, Vec<ClientId>) {
    sort_queues(&mut queues);
    sort_members(&mut members);
    (queues, members)
}

proptest! {
    /// Together all members own every queue once, and no place has two more than another.
    #[test]
    fn shares_are_complete_disjoint_and_even(queues in strategies::queue_sets(), members in strategies::member_lists(OWN)) {
        prop_assume!(!queues.is_empty() && !members.is_empty());
        let (queues, members) = sorted(queues, members);
        let each = queues.len() / members.len();
        let mut owned = Vec::new();
        for member in members.iter().collect::<BTreeSet<_>>() {
            let places = positions_of(member, &members).count();
            let share = STRATEGY.allocate_all(&queues, &members, member).expect("legal arguments");
            prop_assert!((places * each..=places * (each + 1)).contains(&share.len()), "{places} places, {share:?}");
            let first = STRATEGY.allocate(&queues, &members, member).expect("legal arguments");
            prop_assert!(first.iter().all(|queue| share.contains(queue)), "the first place is one of them");
            prop_assert!(places > 1 || first == share);
            owned.extend(share);
        }
        sort_queues(&mut owned);
        prop_assert_eq!(owned, queues);
    }

    /// Brokers name members and queues in any order, another one to each member.
    #[test]
    fn shares_do_not_depend_on_the_order_of_lists(
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
        let share = STRATEGY.allocate_all(&queues, &members, &own);
        prop_assert_eq!(&share, &STRATEGY.allocate_all(&other_queues, &other_members, &own));
        prop_assert_eq!(STRATEGY.allocate(&queues, &members, &own), STRATEGY.allocate(&other_queues, &other_members, &own));
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

    /// Sorting is Java's `compareTo`: by 16-bit units, of topic, broker and number in turn.
    #[test]
    fn lists_are_sorted_by_code_units(queues in strategies::queue_sets(), members in strategies::member_lists(OWN)) {
        let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        let (queues, members) = sorted(queues, members);
        prop_assert!(members.is_sorted_by_key(|member| units(member.as_str())));
        prop_assert!(queues.is_sorted_by_key(|queue| (units(queue.topic.as_str()), units(queue.broker.as_str()), queue.id)));
    }
}
