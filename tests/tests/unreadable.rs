//! Records that cannot be taken apart, on their way to the dead letters.

mod machine;

use machine::{Machine, Setting, record};
use rocketmq_consumer_core::ids::{QueueId, Topic};
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_core::wire::request::send_back::Delay;

/// Brokers of 5.x count dead letters by the topic they came from, and fail when it is not named.
#[test]
fn a_record_without_a_topic_is_buried_under_the_topic_of_its_queue() {
    let mut machine = Machine::start(Setting::default());
    let mut records = [0, 1, 2].map(|offset| record(QueueId(0), offset, "A", b""));
    let topic_len = records[1].len() - 2 - "TAGS\u{1}A\u{2}".len() - machine::TOPIC.len() - 1;
    records[1][topic_len] = 0xf0;
    machine.back_code = ResponseCode::SYSTEM_ERROR;
    machine.answer_pull(PullStatus::Found, 3, &records);
    assert_eq!(machine.delivered(), [0, 2], "its neighbours come");
    // However often it is refused.
    machine.advance(20_000);
    assert!(machine.backs.len() > 3, "{:?}", machine.backs);
    for back in &machine.backs {
        assert_eq!(
            (&back.topic, back.delay),
            (&Some(Topic::from(machine::TOPIC)), Delay::DeadLetter)
        );
        assert_eq!((back.offset.0, &back.message_id), (1_000, &None));
    }
}
