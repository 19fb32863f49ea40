//! The generator itself: it can do with any bytes, and it reaches what it promises.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rocketmq_consumer_core::ids::ClientId;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::stored::{Scanned, Scanner, UndecodableReason as Reason};
use rocketmq_consumer_testing::generate::{self, Driver, Seen, Unstructured};
use rocketmq_consumer_testing::strategies::{self, Tape};

/// Bytes of one seed: SplitMix64, so that what is counted here does not change from run to run.
fn tape(seed: u64, len: usize) -> Tape {
    let words = (1..).map(|step: u64| {
        let mut z = seed
            .wrapping_mul(0xD129_42B2_9C3D_4A05)
            .wrapping_add(step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
    });
    Tape::new(words.flat_map(u64::to_le_bytes).take(len).collect())
}

proptest! {
    #[test]
    fn any_bytes_are_enough(tape in strategies::tapes(30)) {
        fn makes<T>(tape: &Tape, make: impl Fn(&mut Unstructured<'_>) -> generate::Result<T>) -> bool {
            make(&mut tape.unstructured()).is_ok()
        }
        let own = ClientId::from("me");
        prop_assert!(makes(&tape, generate::subscription) && makes(&tape, generate::expression));
        prop_assert!(makes(&tape, generate::topic_route) && makes(&tape, generate::queue_set));
        prop_assert!(makes(&tape, |u| generate::member_list(u, &own)));
        prop_assert!(makes(&tape, generate::stored_list) && makes(&tape, generate::torn_list));
        prop_assert!(makes(&tape, generate::stream) && makes(&tape, generate::pull_answer));
        prop_assert!(makes(&tape, generate::heartbeat_request) && makes(&tape, generate::send_request));
        prop_assert!(makes(&tape, generate::consumer_running_info) && makes(&tape, generate::cluster_info));
        let lives = makes(&tape, |u| {
            let (mut driver, _) = Driver::generate(u)?;
            (0..30).try_for_each(|_| driver.step(u).map(drop))
        });
        prop_assert!(lives);
    }
}

#[test]
fn records_are_damaged_in_every_way() {
    let mut kinds = BTreeSet::new();
    let mut intact = 0_u32;
    for seed in 0..1_500 {
        let tape = tape(seed, 600);
        let list = generate::stored_list(&mut tape.unstructured()).expect("the generator is total");
        let bytes: Vec<u8> = list.into_iter().flat_map(|stored| stored.bytes).collect();
        for scanned in Scanner::new(&bytes) {
            match scanned {
                Scanned::Message(_) => intact += 1,
                Scanned::Undecodable(bad) => {
                    kinds.insert(match bad.reason {
                        Reason::UnknownMagic(_) => "magic",
                        Reason::NegativeQueueOffset => "queue offset",
                        Reason::NegativePhysicalOffset => "physical offset",
                        Reason::HostPort => "port",
                        Reason::BodyLength => "body",
                        Reason::TopicLength => "topic",
                        Reason::TopicText => "topic text",
                        Reason::PropertiesLength => "properties",
                        Reason::LeftOver(_) => "left over",
                        other => panic!("a reason this test does not know: {other}"),
                    });
                }
                Scanned::Broken { .. } => panic!("size words hold"),
            }
        }
    }
    assert_eq!(kinds.len(), 9, "{kinds:?}");
    assert!(intact > 1_000, "{intact} could be read");
}

#[test]
fn lives_reach_every_part_of_a_consumer() {
    let mut answered = BTreeSet::new();
    let (mut delivered, mut reported, mut steps) = (0_u32, 0_u32, 0_u32);
    for seed in 0..150 {
        let tape = tape(seed, 1_500);
        let mut u = tape.unstructured();
        let (mut driver, _) = Driver::generate(&mut u).expect("the generator is total");
        for _ in 0..60 {
            steps += 1;
            for seen in driver.step(&mut u).expect("the generator is total") {
                match seen {
                    Seen::Answered { asked, .. } => {
                        answered.insert(asked.code);
                    }
                    Seen::Delivered(_) => delivered += 1,
                    Seen::Reported { .. } => reported += 1,
                    Seen::Requested(_) | Seen::Wished(_) | Seen::Asked(_) | Seen::Told(_) => {}
                }
            }
        }
    }
    for code in [
        RequestCode::GET_ROUTEINFO_BY_TOPIC,
        RequestCode::HEART_BEAT,
        RequestCode::GET_CONSUMER_LIST_BY_GROUP,
        RequestCode::QUERY_CONSUMER_OFFSET,
        RequestCode::GET_MIN_OFFSET,
        RequestCode::PULL_MESSAGE,
        RequestCode::UPDATE_CONSUMER_OFFSET,
        RequestCode::CONSUMER_SEND_MSG_BACK,
    ] {
        assert!(
            answered.contains(&code),
            "{code} was never answered: {answered:?}"
        );
    }
    assert!(
        delivered > steps / 40 && reported > steps / 10,
        "{delivered} runs, {reported} reports in {steps} steps"
    );
}
