//! The script: what is asked of both clusters, chapter by chapter.
//!
//! It expects a cluster named `testing` of one broker, `broker-a`, that creates topics when asked to
//! (`autoCreateTopicEnable`), with four delay levels of one second ([`DELAY_LEVELS`]). Chapters build on each other
//! where that is said, and each waits for what a broker does in its own time (a consume queue is filled, a route
//! registered, a member noticed as gone) before it goes on, so that an answer does not depend on who is quicker.

mod bodies;
mod find;
mod frames;
mod groups;
mod locks;
mod members;
mod misuse;
mod offsets;
mod pull;
mod relay;
mod reset;
mod routes;
mod send_back;
mod sends;
mod stats;
mod topics;

use super::compare::Known;
use super::step::Script;

/// `messageDelayLevel` of the cluster.
pub const DELAY_LEVELS: &str = "1s 1s 1s 1s";
/// The cluster's name.
pub const CLUSTER_NAME: &str = "testing";
/// Its broker's name.
pub const BROKER_NAME: &str = "broker-a";

/// Where the machine is known to answer otherwise.
pub const KNOWN: &[Known] = &[
    Known {
        name: "language",
        why: "an answer says which language its server is written in",
        steps: &[""],
        paths: &["0/language", "1/language"],
    },
    Known {
        name: "remark of a success",
        why: "a success of Java's may say that no response code was set, which is a slip and means nothing",
        steps: &[
            "topics: ",
            "sends: a topic that is not written",
            "offsets: the beginning",
            "relay: positions",
        ],
        paths: &["0/remark"],
    },
    Known {
        name: "names of the system",
        why: "groups and topics for parts of a broker that the machine does not have",
        steps: &["groups: all groups", "routes: topics of the cluster"],
        paths: &[
            "0/ext/totalGroupNum",
            "0/body/json/subscriptionGroupTable/CID_",
            "0/body/json/subscriptionGroupTable/FILTERSRV_CONSUMER",
            "0/body/json/subscriptionGroupTable/SELF_TEST_C_GROUP",
            "0/body/json/subscriptionGroupTable/TOOLS_CONSUMER",
            "0/body/json/topicList/BenchmarkTest",
            "0/body/json/topicList/OFFSET_MOVED_EVENT",
            "0/body/json/topicList/RMQ_SYS_",
            "0/body/json/topicList/SCHEDULE_TOPIC_XXXX",
            "0/body/json/topicList/SELF_TEST_TOPIC",
            "0/body/json/topicList/rmq_sys_",
            "0/body/json/topicList/testing_REPLY_TOPIC",
        ],
    },
];

/// What a broker needs to index what it has just stored, milliseconds.
const INDEXED: u64 = 300;
/// What a broker needs to register a topic with a name server, milliseconds.
const REGISTERED: u64 = 700;

/// All chapters.
#[must_use]
pub fn whole() -> Script {
    let mut script = Script::default();
    topics::write(&mut script);
    groups::write(&mut script);
    sends::write(&mut script);
    routes::write(&mut script);
    members::write(&mut script);
    pull::write(&mut script);
    offsets::write(&mut script);
    send_back::write(&mut script);
    locks::write(&mut script);
    reset::write(&mut script);
    relay::write(&mut script);
    stats::write(&mut script);
    find::write(&mut script);
    misuse::write(&mut script);
    frames::write(&mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker_conformance::Do;

    #[test]
    fn the_script_is_long_and_each_post_is_awaited_or_shown_to_be_silent() {
        let script = whole();
        assert!(script.steps().len() >= 200, "{}", script.steps().len());
        let posted: Vec<&str> = script
            .steps()
            .iter()
            .filter(|step| matches!(&step.what, Do::Post(ask) if !ask.is_one_way))
            .map(|step| step.title.as_str())
            .collect();
        for title in posted {
            let is_awaited = script
                .steps()
                .iter()
                .any(|step| matches!(&step.what, Do::Await(awaited) if awaited == title));
            assert!(is_awaited, "{title}");
        }
    }
}
