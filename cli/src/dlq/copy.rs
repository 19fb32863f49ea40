use bytes::Bytes;
use rocketmq_consumer_core::ids::{ConsumerGroup, Topic};
use rocketmq_consumer_core::message::Message;
use rocketmq_consumer_core::wire::properties::{PropertiesWriter, name};
use rocketmq_consumer_core::wire::stored::SysFlag;

use crate::admin::retry_topic;
use crate::args::RequeueTo;

/// Tells the broker to answer when the message is as safe as it is set to make it.
const WAIT: &str = "WAIT";
/// The topic a message was sent to, on brokers since 5.0, where nothing else tells.
const DEAD_LETTER_ORIGIN: &str = "DLQ_ORIGIN_TOPIC";

/// A dead letter as it is sent again: body, keys, tag and the properties of the application are what they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    /// Where it goes.
    pub(crate) topic: Topic,
    /// Its properties as they are stored.
    pub(crate) properties: String,
    /// How its body is compressed.
    pub(crate) sys_flag: SysFlag,
    /// The application's own flag.
    pub(crate) flag: i32,
    /// Its body as it is stored.
    pub(crate) body: Bytes,
}

impl Copy {
    /// A copy of a dead letter for its topic, or for the retry topic of the group.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(crate) fn of(message: &Message, to: RequeueTo, group: &ConsumerGroup) -> Result<Self, String> {
        let topic = match to {
            RequeueTo::Group => retry_topic(group),
            RequeueTo::Topic => origin(message)
                .ok_or("it does not say which topic it was sent to; --to group sends it to the group")?,
        };
        let mut properties = PropertiesWriter::new();
        for (name, value) in message.properties().iter() {
            if is_kept(&name, to) {
                let written = properties.push(&name, &value);
                written.map_err(|error| format!("its property {name}: {error}"))?;
            }
        }
        // The broker that buried it did not want to wait for itself.
        properties.push(WAIT, "true").map_err(|error| error.to_string())?;
        let record = message.record();
        Ok(Self {
            topic,
            properties: properties.finish(),
            sys_flag: record.sys_flag().compression_bits(),
            flag: record.flag(),
            body: message.stored_body(),
        })
    }
}

fn origin(message: &Message) -> Option<Topic> {
    let origin = message
        .property(name::RETRY_TOPIC)
        .or_else(|| message.property(DEAD_LETTER_ORIGIN))?;
    Some(Topic::from(&*origin))
}

/// Whether a property belongs to the message, and not to its way into the dead letters.
fn is_kept(property: &str, to: RequeueTo) -> bool {
    const OF_THE_WAY: [&str; 9] = [
        name::DELAY_LEVEL,
        WAIT,
        "CLUSTER",
        name::RECONSUME_TIME,
        name::MAX_RECONSUME_TIMES,
        name::TRANSACTION_PREPARED,
        DEAD_LETTER_ORIGIN,
        "DLQ_ORIGIN_MESSAGE_ID",
        "POP_CK",
    ];
    const STARTS: [&str; 2] = ["TIMER_", "REAL_"];
    // In a retry topic these tell a member where the message came from.
    let is_of_retries = property == name::RETRY_TOPIC || property == name::ORIGIN_MESSAGE_ID;
    let is_of_the_way =
        OF_THE_WAY.contains(&property) || STARTS.iter().any(|start| property.starts_with(start));
    if is_of_retries {
        to == RequeueTo::Group
    } else {
        !is_of_the_way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::message_with;

    const LETTER: &[u8] = b"KEYS\x01k1 k2\x02TAGS\x01paid\x02UNIQ_KEY\x01U\x02RETRY_TOPIC\x01orders\x02\
        ORIGIN_MESSAGE_ID\x01O\x02DELAY\x013\x02WAIT\x01false\x02REAL_TOPIC\x01x\x02REAL_QID\x010\x02\
        TIMER_OUT_MS\x011\x02CLUSTER\x01c\x02colour\x01red\x02MIN_OFFSET_X\x011\x02";

    #[test]
    fn what_belongs_to_the_message_is_kept_and_what_to_its_way_is_not() {
        let message = message_with(7, LETTER);
        let to_topic = Copy::of(&message, RequeueTo::Topic, &"G".into()).unwrap();
        assert_eq!(to_topic.topic.as_str(), "orders");
        assert_eq!(
            to_topic.properties,
            "KEYS\u{1}k1 k2\u{2}TAGS\u{1}paid\u{2}UNIQ_KEY\u{1}U\u{2}colour\u{1}red\u{2}MIN_OFFSET_X\u{1}1\u{2}\
             WAIT\u{1}true\u{2}"
        );
        assert_eq!((to_topic.flag, to_topic.body.as_ref()), (0, &b"hello"[..]));
        let to_group = Copy::of(&message, RequeueTo::Group, &"G".into()).unwrap();
        assert_eq!(to_group.topic.as_str(), "%RETRY%G");
        assert!(
            to_group
                .properties
                .contains("RETRY_TOPIC\u{1}orders\u{2}ORIGIN_MESSAGE_ID\u{1}O\u{2}")
        );
    }

    #[test]
    fn a_letter_without_an_origin_can_only_go_to_the_group() {
        let message = message_with(7, b"KEYS\x01k\x02");
        let refused = Copy::of(&message, RequeueTo::Topic, &"G".into()).unwrap_err();
        assert!(refused.contains("--to group"), "{refused}");
        assert!(Copy::of(&message, RequeueTo::Group, &"G".into()).is_ok());
        let told = message_with(7, b"DLQ_ORIGIN_TOPIC\x01orders\x02");
        let copy = Copy::of(&told, RequeueTo::Topic, &"G".into()).unwrap();
        assert_eq!(copy.topic.as_str(), "orders");
    }
}
