//! Sending: 10, 310, 320. The messages stored here are read by later chapters.
//!
//! `single`: three messages. `many`: a batch of 33. `tagged`: tags A, B, A. `later`: one delayed message.

use super::bodies::{pull_inline, put_topic, send, send_batch, send_v1};
use super::{INDEXED, REGISTERED};
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("sends");
    s.ask(
        "b1",
        "short names",
        send(
            "single",
            0,
            "zero",
            "TAGS=A;KEYS=k0 shared;UNIQ_KEY=unique-0;WAIT=true",
        ),
    )
    .learn("zero");
    s.ask(
        "b1",
        "long names",
        send_v1("single", 0, "one", "TAGS=B;KEYS=k1 shared;UNIQ_KEY=unique-1"),
    )
    .learn("one");
    s.ask(
        "b1",
        "no properties",
        send("single", 0, "two", "").field("h", "7"),
    )
    .learn("two");
    s.ask(
        "b1",
        "the broker chooses the queue",
        send("tagged", -1, "a0", "TAGS=A"),
    );
    s.ask("b1", "another tag", send("tagged", 0, "b1", "TAGS=B"));
    s.ask("b1", "the first tag again", send("tagged", 0, "a2", "TAGS=A"));
    let bodies: Vec<(String, &str)> = (0..33).map(|n| (format!("m{n}"), "TAGS=M")).collect();
    s.ask("b1", "a batch", send_batch("many", 0, &bodies))
        .learn("many");
    let batch = send_batch("orders", 1, &[("x".into(), "A=1"), ("y".into(), "")]);
    s.ask(
        "b1",
        "a batch with a key of its own",
        batch.field("i", "UNIQ_KEY\u{1}unique-batch\u{2}"),
    );
    s.ask(
        "b1",
        "a compressed body stays as it is",
        send("orders", 0, "pressed", "").field("f", "769"),
    );
    s.ask(
        "b1",
        "properties without a last separator",
        send("orders", 0, "bare", "").field("i", "TAGS\u{1}A"),
    );
    s.ask(
        "b1",
        "a delayed message",
        send("later", 0, "late", "DELAY=2;TAGS=L"),
    );
    s.ask("b1", "is not there yet", pull_inline("anybody", "later", 0, "*"));
    s.post("b1", "one-way", send("orders", 2, "one-way", "").one_way());
    s.wait(1_500 + INDEXED);
    s.ask(
        "b1",
        "the delayed message is there",
        pull_inline("anybody", "later", 0, "*"),
    );
    s.ask(
        "b1",
        "so is the one-way one",
        pull_inline("anybody", "orders", 0, "*").field("queueId", "2"),
    );
    s.ask(
        "b1",
        "and what was kept as it was",
        pull_inline("anybody", "orders", 0, "*"),
    );
    s.ask(
        "b1",
        "and the second batch",
        pull_inline("anybody", "orders", 0, "*").field("queueId", "1"),
    );

    s.ask("b1", "a queue that is not there", send("single", 1, "x", ""));
    s.ask(
        "b1",
        "an unknown topic is created",
        send("made", 0, "first", "TAGS=A"),
    );
    s.ask("b1", "with four queues", Ask::new(351, "topic=made"));
    s.ask(
        "b1",
        "an unknown topic with another default",
        send("unmade", 0, "x", "").field("c", "orders"),
    );
    s.ask(
        "b1",
        "an unknown topic with more queues than the default",
        send("wide", 0, "x", "").field("d", "20"),
    );
    s.ask("b1", "has those of the default", Ask::new(351, "topic=wide"));
    s.ask(
        "b1",
        "an unknown topic, a queue beyond the default",
        send("narrow", 5, "x", ""),
    );
    s.ask(
        "b1",
        "a body that is too large",
        send("single", 0, &"x".repeat(4 * 1024 * 1024 + 1), ""),
    );
    let long = format!("A={}", "x".repeat(32_768));
    s.ask(
        "b1",
        "properties that are too long",
        send("single", 0, "x", &long),
    );
    s.ask("b1", "no body", send("single", 0, "", ""));
    s.ask(
        "b1",
        "an illegal topic",
        send("sin gle", 0, "x", "").field("b", "sin#gle"),
    );
    s.ask(
        "b1",
        "a topic that is too long",
        send(&"x".repeat(128), 0, "x", ""),
    );
    s.ask(
        "b1",
        "a topic of the system",
        send("SCHEDULE_TOPIC_XXXX", 0, "x", ""),
    );
    s.ask("b1", "no queue", send("single", 0, "x", "").without("e"));
    s.ask(
        "b1",
        "no producer group, long names",
        send_v1("orders", 3, "x", "").without("producerGroup"),
    );
    s.ask(
        "b1",
        "no queue, long names",
        send_v1("orders", 3, "x", "").without("queueId"),
    );
    s.ask(
        "b1",
        "a batch that is cut",
        send_batch("many", 0, &[("x".into(), "")]).body([0, 0, 0, 30, 0, 0]),
    );
    s.ask("b1", "an empty batch", send_batch("many", 0, &[]));
    s.ask(
        "b1",
        "a batch to a retry topic",
        send_batch("%RETRY%strict", 0, &[("x".into(), "")]),
    );
    s.ask("b1", "a topic that is not written", put_topic("read-only", 1, 4));
    s.ask("b1", "takes messages all the same", send("read-only", 0, "x", ""));
    s.wait(REGISTERED);
}
