//! What an operator asks a member through a broker: 223 and 221, 307, 309. The member is `x1`.

use super::bodies::heartbeat;
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("relay");
    let status = |fields: &str| Ask::new(223, &format!("topic=single group=relayed {fields}"));
    let info = || Ask::new(307, "consumerGroup=relayed clientId=member jstackEnable=false");
    let consume =
        || Ask::new(309, "consumerGroup=relayed clientId=member topic=single").field("msgId", "{id:zero.0}");
    s.ask(
        "x1",
        "the member joins",
        heartbeat("member", "relayed", &[("single", "*", 1)]),
    );

    s.post("o1", "positions", status(""));
    s.next("x1", "positions: the member is asked");
    let table = r#"{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"single"}:2}}"#;
    s.reply("x1", "positions: it answers", 0, None, table);
    s.answer("o1", "positions");
    s.post("o1", "positions of one", status("clientAddr=member"));
    s.next("x1", "positions of one: the member is asked");
    s.reply("x1", "positions of one: it refuses", 1, Some("not mine"), "");
    s.answer("o1", "positions of one");
    s.ask("o1", "positions of somebody else", status("clientAddr=stranger"));
    s.ask(
        "o1",
        "positions of a group that is offline",
        status("").field("group", "strict"),
    );

    s.post("o1", "state", info());
    s.next("x1", "state: the member is asked");
    let state = r#"{"properties":{"a":"b"},"mqTable":{{"brokerName":"broker-a","queueId":0,"topic":"single"}:{"droped":false}}}"#;
    s.reply("x1", "state: it answers", 0, None, state);
    s.answer("o1", "state");
    s.post("o1", "state that is refused", info());
    s.next("x1", "state that is refused: the member is asked");
    s.reply("x1", "state that is refused: it answers", 1, Some("not mine"), "");
    s.answer("o1", "state that is refused");
    s.ask(
        "o1",
        "state of somebody else",
        info().field("clientId", "stranger"),
    );
    s.ask(
        "o1",
        "state of a group that is offline",
        info().field("consumerGroup", "strict"),
    );

    s.post("o1", "consuming", consume());
    s.next("x1", "consuming: the member is asked");
    let result = r#"{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":7}"#;
    s.reply("x1", "consuming: it answers", 0, None, result);
    s.answer("o1", "consuming");
    s.post("o1", "consuming without a topic", consume().without("topic"));
    s.next("x1", "consuming without a topic: the member is asked");
    s.reply("x1", "consuming without a topic: it answers", 0, None, result);
    s.answer("o1", "consuming without a topic");
    s.ask(
        "o1",
        "consuming by somebody else",
        consume().field("clientId", "stranger"),
    );
    s.ask(
        "o1",
        "consuming an id that is none",
        consume().field("msgId", "AC"),
    );
    s.ask(
        "o1",
        "consuming what is not stored",
        consume().field("msgId", "7F00000100002A9F00000000FFFFFFFF"),
    );

    s.post("o1", "a silent member", info());
    s.next("x1", "a silent member: it is asked");
    s.silence("o1", "a silent member: nothing yet", 2_000);
    s.answer("o1", "a silent member");
    s.reply("x1", "a silent member: it answers too late", 0, None, state);
    s.silence("o1", "a silent member: nobody waits any more", 200);
}
