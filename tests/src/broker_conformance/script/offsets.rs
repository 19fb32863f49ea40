//! Offsets: 14, 15, 29, 30, 31, 32.

use super::bodies::{commit, query_offset};
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("offsets");
    let query = || query_offset("keepers", "single", 0);
    s.ask("b1", "none is stored, the queue is young", query());
    s.ask(
        "b1",
        "none is stored, and zero is not wanted",
        query().field("setZeroIfNotFound", "false"),
    );
    s.ask(
        "b1",
        "none is stored, and zero is wanted",
        query().field("setZeroIfNotFound", "true"),
    );
    s.ask(
        "b1",
        "none is stored, the queue is empty",
        query_offset("keepers", "orders", 3)
            .field("topic", "sealed")
            .field("queueId", "0"),
    );
    s.ask("b1", "of an unknown topic", query_offset("keepers", "nowhere", 0));
    s.ask(
        "b1",
        "of a queue that is not there",
        query_offset("keepers", "single", 7),
    );
    s.ask("b1", "of no queue", query().without("queueId"));
    s.ask("b1", "of no group", query().without("consumerGroup"));

    s.ask(
        "b1",
        "committed for a group that nobody created",
        commit("keepers", "single", 0, 2),
    );
    s.ask("b1", "not stored", query());
    let group = Ask::new(200, "").body(r#"{"groupName":"keepers"}"#);
    s.ask("b1", "the group is created", group);
    s.ask("b1", "committed", commit("keepers", "single", 0, 2));
    s.ask("b1", "and stored", query());
    s.ask(
        "b1",
        "forwards, beyond the end",
        commit("keepers", "single", 0, 1_000),
    );
    s.ask("b1", "forwards: stored", query());
    s.ask("b1", "backwards", commit("keepers", "single", 0, 1));
    s.ask("b1", "backwards: stored", query());
    s.ask("b1", "negative", commit("keepers", "single", 0, -1));
    s.ask("b1", "negative: stored", query());
    s.ask(
        "b1",
        "negative: stored, and zero is not wanted",
        query().field("setZeroIfNotFound", "false"),
    );
    s.ask(
        "b1",
        "in a queue that is not there",
        commit("keepers", "single", 77, 5),
    );
    s.ask(
        "b1",
        "in a queue that is not there: stored",
        query_offset("keepers", "single", 77),
    );
    s.ask("b1", "in an unknown topic", commit("keepers", "nowhere", 0, 5));
    s.ask(
        "b1",
        "for a group with an illegal name",
        commit("a#b", "single", 0, 5),
    );
    s.ask(
        "b1",
        "no offset",
        commit("keepers", "single", 0, 5).without("commitOffset"),
    );
    s.ask(
        "b1",
        "no queue",
        commit("keepers", "single", 0, 5).without("queueId"),
    );
    s.post("b1", "one-way", commit("keepers", "single", 0, 3).one_way());
    s.wait(100);
    s.ask("b1", "one-way: stored", query());

    bounds(s);
}

fn bounds(s: &mut Script) {
    let search = |time: &str| Ask::new(29, &format!("topic=single queueId=0 timestamp={time}"));
    s.ask("b1", "the first by time", search("0"));
    s.ask("b1", "the first by a negative time", search("-1"));
    s.ask("b1", "by the store time of the first", search("{stored:read.0}"));
    s.ask("b1", "by a time to come", search("4000000000000"));
    s.ask(
        "b1",
        "by a time to come, upper bound",
        search("4000000000000").field("boundaryType", "upper"),
    );
    s.ask(
        "b1",
        "by a time to come, lower bound",
        search("4000000000000").field("boundaryType", "LOWER"),
    );
    s.ask(
        "b1",
        "by time in a queue without messages",
        Ask::new(29, "topic=orders queueId=3 timestamp=5")
            .field("topic", "sealed")
            .field("queueId", "0"),
    );
    s.ask(
        "b1",
        "by time in an unknown topic",
        Ask::new(29, "topic=nowhere queueId=0 timestamp=5"),
    );
    s.ask("b1", "by no time", Ask::new(29, "topic=single queueId=0"));
    for (code, name) in [(30, "the end"), (31, "the beginning"), (32, "the earliest time")] {
        s.ask("b1", name, Ask::new(code, "topic=single queueId=0"));
        s.ask(
            "b1",
            &format!("{name} of a queue without messages"),
            Ask::new(code, "topic=sealed queueId=0"),
        );
        s.ask(
            "b1",
            &format!("{name} of an unknown topic"),
            Ask::new(code, "topic=nowhere queueId=0"),
        );
        s.ask(
            "b1",
            &format!("{name} of a queue that is not there"),
            Ask::new(code, "topic=single queueId=9"),
        );
        s.ask(
            "b1",
            &format!("{name} of no queue"),
            Ask::new(code, "topic=single"),
        );
    }
}
