//! Pulling (11): each row of the broker's decision table that a script can reach, holds, and the commit that
//! travels along. Reads what `sends` stored. Connections `p1`, and `p2` for pulls that are held.

use super::INDEXED;
use super::bodies::{heartbeat, hold, pull, pull_inline, query_offset, send};
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("pull");
    let topics = [
        ("single", "*", 5),
        ("many", "*", 5),
        ("tagged", "A", 5),
        ("empty", "*", 5),
        ("sealed", "*", 5),
        ("large", "*", 5),
        ("awaited", "W", 5),
        ("%RETRY%pullers", "*", 5),
    ];
    s.ask("p1", "the member joins", heartbeat("puller", "pullers", &topics));
    let at = |offset| pull("pullers", "single", 0, offset);

    s.ask("p1", "a group without members", pull("strangers", "single", 0, 0));
    s.ask("p1", "a group with an illegal name", pull("a#b", "single", 0, 0));
    s.ask("p1", "an unknown topic", pull("pullers", "nowhere", 0, 0));
    s.ask("p1", "a topic that is not read", pull("pullers", "sealed", 0, 0));
    s.ask("p1", "a queue beyond the last", pull("pullers", "single", 1, 0));
    s.ask("p1", "a negative queue", pull("pullers", "single", -1, 0));
    s.ask(
        "p1",
        "a topic that is not subscribed",
        pull("pullers", "orders", 0, 0),
    );
    s.ask(
        "p1",
        "a subscription newer than the broker's",
        at(0).field("subVersion", "6"),
    );
    s.ask(
        "p1",
        "a subscription older than the broker's",
        at(0).field("subVersion", "4"),
    );
    s.ask(
        "p1",
        "an inline subscription",
        pull_inline("strangers", "single", 0, "*"),
    );
    s.ask(
        "p1",
        "an inline subscription of tags",
        pull_inline("strangers", "tagged", 0, "B || C"),
    );
    s.ask(
        "p1",
        "no inline subscription in spite of the bit",
        pull_inline("strangers", "single", 0, "").without("subscription"),
    );
    s.ask(
        "p1",
        "an inline subscription that splits to nothing",
        pull_inline("strangers", "single", 0, "||"),
    );
    s.ask("p1", "no flags", at(0).without("sysFlag"));
    let sql = pull_inline("strangers", "single", 0, "a = 1").field("expressionType", "SQL92");
    s.ask("p1", "an inline subscription in SQL", sql);
    s.ask("p1", "a lite pull", Ask { code: 361, ..at(1) });
    s.ask("p1", "no offset", at(0).without("queueOffset"));
    s.ask("p1", "a number that is none", at(0).field("queueOffset", "x"));
    s.ask("p1", "no group", at(0).without("consumerGroup"));

    s.ask("p1", "from the first offset", at(0)).learn("read");
    s.ask("p1", "from the middle", at(2));
    s.ask("p1", "at the end", at(3));
    s.ask("p1", "beyond the end", at(4));
    s.ask("p1", "far beyond the end", at(4_000_000_000));
    s.ask("p1", "below the first", at(-1));
    s.ask("p1", "an empty queue from 0", pull("pullers", "empty", 0, 0));
    s.ask("p1", "an empty queue from 5", pull("pullers", "empty", 0, 5));
    s.ask("p1", "an empty queue from -1", pull("pullers", "empty", 0, -1));
    s.ask("p1", "one message", at(0).field("maxMsgNums", "1"));
    s.ask("p1", "no message", at(0).field("maxMsgNums", "0"));
    s.ask(
        "p1",
        "the byte limit is not looked at",
        at(0).field("maxMsgBytes", "1"),
    );
    s.ask(
        "p1",
        "33 are more than one answer holds",
        pull("pullers", "many", 0, 0).field("maxMsgNums", "1024"),
    );
    s.ask("p1", "the 33rd", pull("pullers", "many", 0, 32));
    s.ask("p1", "a tag", pull("pullers", "tagged", 0, 0));
    s.ask(
        "p1",
        "a tag from the end of the queue",
        pull("pullers", "tagged", 0, 2),
    );
    s.ask(
        "p1",
        "a tag that nothing has",
        pull_inline("pullers", "tagged", 0, "C"),
    );
    s.ask(
        "p1",
        "a tag that the rest does not have",
        pull_inline("pullers", "tagged", 2, "B"),
    );

    for n in 0..4 {
        let body = "x".repeat(100 * 1024);
        s.ask("b1", &format!("large message {n}"), send("large", 0, &body, ""));
    }
    s.wait(INDEXED);
    s.ask(
        "p1",
        "large messages, as many as fit",
        pull("pullers", "large", 0, 0),
    );

    held(s);
    committed(s);
}

fn held(s: &mut Script) {
    s.ask("b1", "a topic to wait for", send("awaited", 0, "w0", "TAGS=W"));
    s.wait(INDEXED);
    s.post("p2", "a hold", hold("pullers", "awaited", 0, 1, 15_000));
    s.silence("p2", "a hold lasts", INDEXED);
    s.ask(
        "b1",
        "a hold: what it waits for",
        send("awaited", 0, "w1", "TAGS=W"),
    );
    s.answer("p2", "a hold");

    s.post("p2", "a hold that ends", hold("pullers", "awaited", 0, 2, 500));
    s.silence("p2", "a hold that ends lasts", INDEXED);
    s.answer("p2", "a hold that ends");

    // Whether the other tag or the next look, up to five seconds later, ends it cannot be told apart on a busy machine.
    s.post("p2", "a hold for a tag", hold("pullers", "awaited", 0, 2, 15_000));
    s.ask(
        "b1",
        "a hold for a tag: another tag comes",
        send("awaited", 0, "v2", "TAGS=V"),
    );
    s.answer("p2", "a hold for a tag");

    s.post(
        "p2",
        "a hold of an empty queue",
        hold("pullers", "empty", 0, 0, 15_000),
    );
    s.silence("p2", "a hold of an empty queue lasts", INDEXED);
    s.ask(
        "b1",
        "a hold of an empty queue: what it waits for",
        send("empty", 0, "first", ""),
    );
    s.answer("p2", "a hold of an empty queue");

    let no_bit = hold("pullers", "awaited", 0, 3, 15_000).field("sysFlag", "0");
    s.ask("p2", "no hold without its bit", no_bit);
    s.ask(
        "p2",
        "no hold beyond the end",
        hold("pullers", "awaited", 0, 9, 15_000),
    );
    s.ask(
        "p2",
        "no hold where tags do not match",
        hold("pullers", "awaited", 0, 2, 15_000),
    );
}

fn committed(s: &mut Script) {
    let stored = |s: &mut Script, title: &str| {
        s.ask(
            "p1",
            title,
            query_offset("pullers", "single", 0).field("setZeroIfNotFound", "false"),
        );
    };
    stored(s, "nothing is committed by pulling");
    s.ask(
        "p1",
        "a commit travels along",
        pull("pullers", "single", 0, 2)
            .field("sysFlag", "1")
            .field("commitOffset", "2"),
    );
    stored(s, "it is committed");
    s.ask(
        "p1",
        "without its bit it does not",
        pull("pullers", "single", 0, 2).field("commitOffset", "3"),
    );
    stored(s, "it is not committed");
    s.ask(
        "p1",
        "it travels with a pull that fails, too",
        pull("pullers", "single", 0, 9)
            .field("sysFlag", "1")
            .field("commitOffset", "1"),
    );
    stored(s, "it is committed all the same");
    let commit_and_hold = hold("pullers", "single", 0, 3, 500)
        .field("sysFlag", "3")
        .field("commitOffset", "3");
    s.post("p2", "it travels with a hold", commit_and_hold);
    s.wait(INDEXED);
    stored(s, "it is committed when the hold begins");
    s.answer("p2", "it travels with a hold");
}
