//! Names of topics and groups: which are legal, and which have a meaning.
//= rocketmq: TopicValidator, MixAll

use alloc::format;

use crate::ids::{ConsumerGroup, Topic};
use crate::wire::request::send::DEFAULT_TOPIC;

/// The longest topic name, in bytes.
pub(super) const TOPIC_MAX: usize = 127;
/// The longest group name, in bytes.
pub(super) const GROUP_MAX: usize = 255;

/// What retry topics begin with.
const RETRY_PREFIX: &str = "%RETRY%";
/// What topics of dead letters begin with.
const DEAD_PREFIX: &str = "%DLQ%";
/// The topic whose settings new topics take over.
pub(in crate::broker) const TEMPLATE_TOPIC: &str = DEFAULT_TOPIC;
/// Where delayed messages wait, one queue for each level.
pub(in crate::broker) const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

/// The topic a group's messages come back on.
pub(super) fn retry_topic(group: &ConsumerGroup) -> Topic {
    format!("{RETRY_PREFIX}{group}").into()
}

/// The topic a group's dead letters lie on.
pub(super) fn dead_letter_topic(group: &ConsumerGroup) -> Topic {
    format!("{DEAD_PREFIX}{group}").into()
}

/// The group whose retry topic it is.
pub(super) fn retries_of(topic: &Topic) -> Option<ConsumerGroup> {
    topic.as_str().strip_prefix(RETRY_PREFIX).map(ConsumerGroup::from)
}

/// Whether dead letters lie there.
pub(super) fn is_of_dead_letters(topic: &Topic) -> bool {
    topic.as_str().starts_with(DEAD_PREFIX)
}

/// Whether it is one of the topics that brokers have for themselves.
pub(super) fn is_system(topic: &Topic) -> bool {
    [TEMPLATE_TOPIC, SCHEDULE_TOPIC].contains(&topic.as_str())
}

/// Whether Java would take this for the name of a topic or group.
pub(super) fn is_legal(name: &str, most: usize) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"%|-_".contains(&byte);
    !name.is_empty() && name.len() <= most && name.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_names() {
        for (name, legal) in [
            ("orders", true),
            ("%RETRY%a-b_c|d", true),
            ("", false),
            ("a b", false),
            ("a.b", false),
            ("ä", false),
        ] {
            assert_eq!(is_legal(name, TOPIC_MAX), legal, "{name}");
        }
        assert!(is_legal(&"a".repeat(TOPIC_MAX), TOPIC_MAX) && !is_legal(&"a".repeat(128), TOPIC_MAX));
    }

    #[test]
    fn retry_topics_lead_back_to_their_group() {
        let group = ConsumerGroup::from("G");
        assert_eq!(retries_of(&retry_topic(&group)), Some(group.clone()));
        assert_eq!(retries_of(&dead_letter_topic(&group)), None);
        assert!(is_of_dead_letters(&dead_letter_topic(&group)) && is_system(&TEMPLATE_TOPIC.into()));
    }
}
