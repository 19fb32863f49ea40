//! What a name server says: 105, 106, 206, and what it does not know. Uses the topics of the chapters before.

use super::CLUSTER_NAME;
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("routes");
    s.ask("n1", "a topic", Ask::new(105, "topic=orders"));
    s.ask(
        "n1",
        "in standard JSON",
        Ask::new(105, "topic=orders acceptStandardJsonOnly=true"),
    );
    s.ask(
        "n1",
        "for a client before 4.9.4",
        Ask::new(105, "topic=orders").version(400),
    );
    s.ask(
        "n1",
        "for such a client in standard JSON",
        Ask::new(105, "topic=orders acceptStandardJsonOnly=true").version(400),
    );
    s.ask("n1", "for 4.9.4", Ask::new(105, "topic=orders").version(401));
    s.ask("n1", "a topic that a send created", Ask::new(105, "topic=made"));
    s.ask("n1", "an unknown topic", Ask::new(105, "topic=nowhere"));
    s.ask("n1", "no topic", Ask::new(105, ""));
    s.ask(
        "n1",
        "a retry topic before its group",
        Ask::new(105, "topic=%RETRY%returners"),
    );
    s.ask(
        "n1",
        "the topic that new ones are made after",
        Ask::new(105, "topic=TBW102"),
    );
    s.ask("n1", "the cluster", Ask::new(106, ""));
    s.ask(
        "n1",
        "topics of the cluster",
        Ask::new(224, &format!("cluster={CLUSTER_NAME}")),
    );
    s.ask(
        "n1",
        "topics of an unknown cluster",
        Ask::new(224, "cluster=nowhere"),
    );
    s.ask("n1", "a request for a broker", Ask::new(34, "").body("{}"));
    s.ask("n1", "an unknown request", Ask::new(9_999, ""));
    s.ask("b1", "a broker knows no routes", Ask::new(105, "topic=orders"));
}
