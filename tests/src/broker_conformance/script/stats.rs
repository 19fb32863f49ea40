//! What an operator reads: 202, 208, 300. Sums up the chapters before.

use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("stats");
    s.ask("b1", "a topic", Ask::new(202, "topic=single"));
    s.ask("b1", "a topic of four queues", Ask::new(202, "topic=orders"));
    s.ask("b1", "an unknown topic", Ask::new(202, "topic=nowhere"));
    s.ask("b1", "no topic", Ask::new(202, ""));
    s.ask(
        "b1",
        "a group that is offline",
        Ask::new(208, "consumerGroup=keepers"),
    );
    s.ask(
        "b1",
        "a group that is online",
        Ask::new(208, "consumerGroup=pullers"),
    );
    s.ask(
        "b1",
        "a group in one topic",
        Ask::new(208, "consumerGroup=moved topic=single"),
    );
    s.ask(
        "b1",
        "a group in a topic it never read",
        Ask::new(208, "consumerGroup=keepers topic=many"),
    );
    s.ask(
        "b1",
        "a group online in a topic it does not subscribe",
        Ask::new(208, "consumerGroup=relayed topic=many"),
    );
    s.ask(
        "b1",
        "a group in listed topics",
        Ask::new(208, "consumerGroup=moved topicList=single;nowhere"),
    );
    s.ask(
        "b1",
        "a group that never was",
        Ask::new(208, "consumerGroup=never"),
    );
    s.ask(
        "b1",
        "a group that never was in a topic",
        Ask::new(208, "consumerGroup=never topic=single"),
    );
    s.ask("b1", "groups of a topic", Ask::new(300, "topic=tagged"));
    s.ask("b1", "groups of an unknown topic", Ask::new(300, "topic=nowhere"));
}
