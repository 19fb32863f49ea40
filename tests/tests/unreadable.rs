//! Records that cannot be taken apart, on their way to the dead letters.

use rocketmq_consumer_core::ids::Topic;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_core::wire::request::send_back::{Delay, SendBackRequest};
use rocketmq_consumer_testing::world::{Bench, Run, StoredMessage, pull_answer, queue, records, secs};

/// Brokers of 5.x count dead letters by the topic they came from, and fail when it is not named.
#[test]
fn a_record_without_a_topic_is_buried_under_the_topic_of_its_queue() {
    const BACK: RequestCode = RequestCode::CONSUMER_SEND_MSG_BACK;
    let mut bench = Bench::owning_one_queue(0, |_, _| {});
    let mut stored = [0, 1, 2].map(|offset| {
        let message = StoredMessage::new(queue("T", "a", 0), offset, "", "A");
        records([&message]).to_vec()
    });
    // The topic, before the length of the properties and the properties.
    let topic = stored[1].len() - "TAGS\u{1}A\u{2}".len() - 2 - "T".len();
    stored[1][topic] = 0xf0;
    bench.refuse_all(BACK, ResponseCode::SYSTEM_ERROR);
    let (pull, _) = bench.expect_pull();
    bench.answer(&pull, &pull_answer(PullStatus::Found, 3, stored.concat().into()));
    let delivered: Vec<i64> = bench.take_runs().iter().flat_map(Run::offsets).collect();
    assert_eq!(delivered, [0, 2], "its neighbours come");
    // However often it is refused.
    bench.sleep(secs(20));
    let backs: Vec<SendBackRequest> = bench.sent(BACK).iter().map(|asked| asked.request()).collect();
    assert!(backs.len() > 3, "{backs:?}");
    for back in &backs {
        assert_eq!(
            (&back.topic, back.delay),
            (&Some(Topic::from("T")), Delay::DeadLetter)
        );
        assert_eq!((back.offset.0, &back.message_id), (1_000, &None));
    }
}
