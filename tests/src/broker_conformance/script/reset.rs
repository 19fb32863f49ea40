//! An operator moves a group, on the broker's side: 222. Reads what `sends` stored.

use super::INDEXED;
use super::bodies::{commit, heartbeat, hold, pull, query_offset};
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("reset");
    let reset = |fields: &str| Ask::new(222, &format!("topic=single group=moved isForce=true {fields}"));
    let query = || query_offset("moved", "single", 0);
    let at = |offset| pull("moved", "single", 0, offset);
    s.ask(
        "o1",
        "the member joins",
        heartbeat("mover", "moved", &[("single", "*", 1), ("orders", "*", 1)]),
    );
    s.ask("o1", "it has read all", commit("moved", "single", 0, 3));
    s.post("p2", "a hold", hold("moved", "single", 0, 3, 2_000));
    // Connections are served side by side: the reset must not overtake it.
    s.wait(100);
    s.ask("o2", "to the first", reset("timestamp=0"));
    s.silence("p2", "a hold is not woken", INDEXED);
    s.ask("o1", "it shows at once", query());
    s.ask("o1", "a commit is swallowed", commit("moved", "single", 0, 3));
    s.ask("o1", "and it still shows", query());
    s.answer("p2", "a hold");
    s.ask("o1", "it shows after the hold", query());
    s.ask("o1", "the next pull", at(3));
    s.ask("o1", "the pull after that", at(3));
    s.ask("o1", "a commit counts again", commit("moved", "single", 0, 2));
    s.ask("o1", "it is stored", query());
    s.ask("o2", "to the last", reset("timestamp=-1"));
    s.ask("o1", "to the last: a pull", at(0));
    s.ask("o1", "to the last: the next pull", at(0).field("maxMsgNums", "1"));
    s.ask("o2", "to a time", reset("timestamp={stored:read.0}"));
    s.ask(
        "o1",
        "to a time: a pull that commits",
        at(1).field("sysFlag", "1").field("commitOffset", "1"),
    );
    s.ask("o1", "to a time: it shows", query());
    s.ask(
        "o2",
        "one queue to an offset",
        reset("timestamp=0 queueId=0 offset=2"),
    );
    s.ask("o1", "one queue to an offset: a pull", at(0));
    s.ask(
        "o2",
        "an offset beyond the end",
        reset("timestamp=0 queueId=0 offset=9"),
    );
    s.ask("o2", "no time", reset(""));
    s.ask("o1", "no time: a pull", at(2));
    s.ask("o2", "a queue that is not there", reset("timestamp=0 queueId=7"));
    s.ask(
        "o2",
        "an unknown topic",
        reset("timestamp=0").field("topic", "nowhere"),
    );
    s.ask(
        "o2",
        "a group with an illegal name",
        reset("timestamp=0").field("group", "a#b"),
    );
    s.ask(
        "o2",
        "several queues",
        reset("timestamp=0").field("topic", "orders"),
    );
    s.ask(
        "o2",
        "of nobody, offline",
        reset("timestamp=0").field("group", "strict"),
    );
    s.ask(
        "o2",
        "of nobody, offline: it shows",
        query_offset("strict", "single", 0),
    );
}
