//! Finding a message: 33 by its position, 12 by a key.

use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("find");
    let at = |offset: &str| Ask::new(33, &format!("offset={offset}"));
    s.ask("b1", "at a position", at("{physical:one.0}"));
    s.ask("b1", "beyond the log", at("99999999999"));
    s.ask("b1", "at a negative position", at("-1"));
    s.ask("b1", "at no position", Ask::new(33, ""));
    let by = |key: &str| {
        Ask::new(
            12,
            "topic=single maxNum=32 beginTimestamp=0 endTimestamp=9223372036854775807",
        )
        .field("key", key)
    };
    s.ask("b1", "by a key", by("k1"));
    s.ask("b1", "by a key of two", by("shared"));
    s.ask(
        "b1",
        "by a key of two, one is wanted",
        by("shared").field("maxNum", "1"),
    );
    s.ask("b1", "by its unique key", by("unique-1"));
    s.ask(
        "b1",
        "by its unique key, said so",
        by("unique-1").field("_UNIQUE_KEY_QUERY", "true"),
    );
    s.ask("b1", "by a key that nothing has", by("none"));
    s.ask(
        "b1",
        "by a key in another topic",
        by("k1").field("topic", "orders"),
    );
    s.ask(
        "b1",
        "by a key in an unknown topic",
        by("k1").field("topic", "nowhere"),
    );
    s.ask("b1", "by a key, long ago", by("k1").field("endTimestamp", "1000"));
    s.ask("b1", "by no key", by("k1").without("key"));
    s.ask("b1", "by a key, no number", by("k1").without("maxNum"));
}
