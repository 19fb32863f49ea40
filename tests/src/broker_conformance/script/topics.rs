//! Topics on a broker: 17, 351, 215, and 216 on a name server. The topics made here are used by all chapters.

use super::REGISTERED;
use super::bodies::{pull_inline, put_topic};
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("topics");
    for (name, queues) in [
        ("orders", 4),
        ("single", 1),
        ("tagged", 1),
        ("many", 1),
        ("empty", 1),
        ("later", 1),
    ] {
        s.ask("b1", &format!("{name} is created"), put_topic(name, queues, 6));
    }
    s.ask("b1", "created again, nothing changes", put_topic("orders", 4, 6));
    s.ask("b1", "a topic is read back", Ask::new(351, "topic=orders"));
    s.ask("b1", "an unknown topic is not", Ask::new(351, "topic=nowhere"));
    s.ask(
        "b1",
        "counts change",
        put_topic("orders", 2, 6).field("readQueueNums", "3"),
    );
    s.ask("b1", "and are read back", Ask::new(351, "topic=orders"));
    s.ask("b1", "counts change back", put_topic("orders", 4, 6));
    s.ask("b1", "an illegal name", put_topic("or#ders", 4, 6));
    s.ask("b1", "a name of the system", put_topic("TBW102", 4, 6));
    s.ask("b1", "a name that is too long", put_topic(&"x".repeat(128), 4, 6));
    s.ask("b1", "no name", put_topic("x", 4, 6).without("topic"));
    s.ask(
        "b1",
        "no queue count",
        put_topic("counted", 4, 6).without("readQueueNums"),
    );
    s.ask(
        "b1",
        "an unknown filter type",
        put_topic("filtered", 4, 6).field("topicFilterType", "SOME"),
    );
    s.ask(
        "b1",
        "no filter type",
        put_topic("filtered", 4, 6).without("topicFilterType"),
    );
    s.ask("b1", "a topic that is not read", put_topic("sealed", 1, 2));
    s.ask(
        "b1",
        "a pull there is forbidden",
        pull_inline("anybody", "sealed", 0, "*"),
    );
    s.ask("b1", "a topic to be deleted", put_topic("doomed", 2, 6));
    s.wait(REGISTERED);
    s.ask(
        "n1",
        "its route",
        Ask::new(105, "topic=doomed acceptStandardJsonOnly=true"),
    );
    s.ask("b1", "it is deleted", Ask::new(215, "topic=doomed"));
    s.ask("b1", "and is unknown", Ask::new(351, "topic=doomed"));
    s.ask("b1", "it is deleted again", Ask::new(215, "topic=doomed"));
    s.ask(
        "b1",
        "a topic of the system is not deleted",
        Ask::new(215, "topic=TBW102"),
    );
    s.wait(REGISTERED);
    s.ask(
        "n1",
        "its route is forgotten by request",
        Ask::new(216, "topic=doomed"),
    );
    s.ask("n1", "and is unknown then", Ask::new(105, "topic=doomed"));
    s.ask(
        "n1",
        "an unknown route is forgotten",
        Ask::new(216, "topic=nowhere"),
    );
}
