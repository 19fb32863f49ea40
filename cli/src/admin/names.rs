//! Which names are RocketMQ's own.
//= rocketmq: TopicValidator, MixAll.isSysConsumerGroup

use std::collections::BTreeSet;

use rocketmq_consumer_core::ids::{ConsumerGroup, Topic};
use rocketmq_consumer_core::wire::request::send::DEFAULT_TOPIC;

const RETRY: &str = "%RETRY%";
const DEAD_LETTERS: &str = "%DLQ%";

/// The topic a group's messages are delivered again from.
pub(crate) fn retry_topic(group: &ConsumerGroup) -> Topic {
    format!("{RETRY}{group}").into()
}

/// The topic a group's messages end in that were delivered too often.
pub(crate) fn dead_letters(group: &ConsumerGroup) -> Topic {
    format!("{DEAD_LETTERS}{group}").into()
}

/// Whether a topic is none that an application made. `servers` are the names of clusters and brokers, which
/// have a topic each.
pub(crate) fn is_internal_topic(topic: &Topic, servers: &BTreeSet<String>) -> bool {
    const NAMES: [&str; 5] = [
        DEFAULT_TOPIC,
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        "SELF_TEST_TOPIC",
    ];
    const STARTS: [&str; 4] = [RETRY, DEAD_LETTERS, "rmq_sys_", "RMQ_SYS_"];
    let name = topic.as_str();
    let is_reply = || {
        name.strip_suffix("_REPLY_TOPIC")
            .is_some_and(|cluster| servers.contains(cluster))
    };
    NAMES.contains(&name)
        || STARTS.iter().any(|start| name.starts_with(start))
        || servers.contains(name)
        || is_reply()
}

/// Whether a group is one that every broker has.
pub(crate) fn is_internal_group(group: &ConsumerGroup) -> bool {
    const NAMES: [&str; 3] = ["TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP"];
    const STARTS: [&str; 3] = ["CID_ONS", "CID_RMQ_SYS_", "CID_SYS_RMQ_"];
    let name = group.as_str();
    NAMES.contains(&name) || STARTS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_brokers_make_for_themselves_is_told_from_what_applications_make() {
        let servers = ["DefaultCluster", "broker-a"].map(str::to_owned).into();
        let internal = |topic: &str| is_internal_topic(&topic.into(), &servers);
        for topic in [
            "%RETRY%g",
            "%DLQ%g",
            "rmq_sys_wheel_timer",
            "RMQ_SYS_TRANS_HALF_TOPIC",
            "TBW102",
            "broker-a",
            "DefaultCluster",
            "DefaultCluster_REPLY_TOPIC",
        ] {
            assert!(internal(topic), "{topic}");
        }
        for topic in ["orders", "broker-b", "my_REPLY_TOPIC", "RETRY"] {
            assert!(!internal(topic), "{topic}");
        }
        for (group, is_ours) in [
            ("TOOLS_CONSUMER", true),
            ("CID_ONS-HTTP-PROXY", true),
            ("CID_RMQ_SYS_TRANS", true),
            ("billing", false),
            ("CID_billing", false),
        ] {
            assert_eq!(is_internal_group(&group.into()), is_ours, "{group}");
        }
        assert_eq!(retry_topic(&"g".into()).as_str(), "%RETRY%g");
        assert_eq!(dead_letters(&"g".into()).as_str(), "%DLQ%g");
    }
}
