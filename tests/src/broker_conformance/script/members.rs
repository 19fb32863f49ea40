//! Who is in a group: 34, 35, 38, 40, 203. Connections `m1` to `m4`.

use super::bodies::{heartbeat, heartbeat_as, pull};
use super::{INDEXED, REGISTERED};
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("members");
    let list = || Ask::new(38, "consumerGroup=team");
    let who = || Ask::new(203, "consumerGroup=team");
    let both = [("orders", "A || B", 10), ("%RETRY%team", "*", 10)];
    s.ask("b1", "nobody is in it", list());
    s.ask("b1", "nobody is connected", who());
    s.ask("m1", "the first joins", heartbeat("client-1", "team", &both));
    s.silence("m1", "and is told once", INDEXED);
    s.wait(REGISTERED);
    s.ask(
        "n1",
        "its retry topic is there",
        Ask::new(105, "topic=%RETRY%team acceptStandardJsonOnly=true"),
    );
    s.ask("b1", "so is the group", Ask::new(352, "group=team"));
    s.ask("m1", "the first again", heartbeat("client-1", "team", &both));
    s.ask("m2", "the second joins", heartbeat("client-2", "team", &both));
    s.next("m1", "the first is told");
    s.ask("b1", "both are listed", list());
    s.ask("b1", "both are connected", who());

    let three = [
        ("orders", "A || B", 10),
        ("single", "*", 10),
        ("%RETRY%team", "*", 10),
    ];
    s.ask("m2", "a topic more", heartbeat("client-2", "team", &three));
    s.next("m1", "a topic more: the first is told");
    s.ask(
        "m1",
        "the topic is dropped by the other",
        heartbeat("client-1", "team", &both),
    );
    s.next("m2", "the topic is dropped: the second is told");
    s.ask(
        "m1",
        "which ends pulls of the topic",
        pull("team", "single", 0, 0),
    );

    s.ask(
        "m1",
        "an expression changes",
        heartbeat(
            "client-1",
            "team",
            &[("orders", "A", 11), ("%RETRY%team", "*", 10)],
        ),
    );
    s.silence("m2", "an expression changes: the second is not told", INDEXED);
    s.ask("b1", "the newer expression counts", who());
    s.ask("m2", "an older expression", heartbeat("client-2", "team", &both));
    s.ask("b1", "does not count", who());

    s.ask(
        "m2",
        "the second leaves",
        Ask::new(35, "clientID=client-2 consumerGroup=team"),
    );
    s.next("m1", "the second leaves: the first is told");
    s.silence("m2", "the second leaves: it is not told", INDEXED);
    s.ask("b1", "the first is left", list());
    s.ask(
        "m2",
        "it leaves again",
        Ask::new(35, "clientID=client-2 consumerGroup=team"),
    );
    s.next("m1", "it leaves again: the first is told again");
    s.ask("m2", "it leaves nothing", Ask::new(35, ""));

    s.ask(
        "m3",
        "the first once more, on another connection",
        heartbeat("client-1", "team", &both),
    );
    s.next("m1", "another connection: the first is told");
    s.ask("b1", "one id is listed twice", list());
    s.close("m3");
    s.next("m1", "a connection is lost: the first is told");
    s.ask("b1", "it is listed once", list());

    let wide = [("orders", "*", 1)];
    s.ask(
        "m2",
        "broadcasting",
        heartbeat_as("client-2", "wide", "BROADCASTING", &wide),
    );
    s.ask(
        "m4",
        "broadcasting, the second",
        heartbeat_as("client-4", "wide", "BROADCASTING", &wide),
    );
    s.silence("m2", "broadcasting: nobody is told", INDEXED);
    s.ask(
        "b1",
        "broadcasting: both are connected",
        Ask::new(203, "consumerGroup=wide"),
    );

    s.ask(
        "m4",
        "a group with an illegal name",
        heartbeat("client-4", "a#b", &wide),
    );
    s.ask("b1", "is not there", Ask::new(38, "consumerGroup=a#b"));
    s.ask(
        "m4",
        "null for consumers",
        Ask::new(34, "").body(r#"{"clientID":"client-4","consumerDataSet":null}"#),
    );
    s.ask(
        "m4",
        "no consumers",
        Ask::new(34, "").body(r#"{"clientID":"client-4"}"#),
    );
    s.ask(
        "m4",
        "a body that is no JSON",
        Ask::new(34, "").body(r#"{"clientID":"#),
    );
    s.ask("m4", "no body", Ask::new(34, ""));
    let producer = r#"{"clientID":"client-4","producerDataSet":[{"groupName":"senders"}]}"#;
    s.ask("m4", "a producer", Ask::new(34, "").body(producer));
    let second = |without: bool, subscriptions: &str| {
        let body = format!(
            r#"{{"clientID":"client-4","heartbeatFingerprint":5,"withoutSub":{without},"consumerDataSet":[
            {{"groupName":"second","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","unitMode":false,
            "consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{subscriptions}]}}]}}"#
        );
        Ask::new(34, "").body(body)
    };
    let orders = r#"{"topic":"orders","subString":"*","subVersion":1,"expressionType":"TAG"}"#;
    s.ask("m4", "of the second version", second(false, orders));
    s.ask("m4", "of the second version, again", second(false, orders));
    s.ask(
        "m4",
        "of the second version, without subscriptions",
        second(true, ""),
    );
    s.ask(
        "m4",
        "of the second version: a pull",
        pull("second", "orders", 0, 0),
    );
    s.ask("b1", "members of no group", Ask::new(38, ""));
    s.ask(
        "m4",
        "broadcasting: one leaves",
        Ask::new(35, "clientID=client-4 consumerGroup=wide"),
    );
    s.silence(
        "m2",
        "broadcasting: one leaves, and the other is told or not",
        INDEXED,
    );
    s.ask(
        "m4",
        "broadcasting: it comes back",
        heartbeat_as("client-4", "wide", "BROADCASTING", &wide),
    );
    s.close("m4");
    s.silence(
        "m2",
        "broadcasting: one is lost, and the other is told or not",
        INDEXED,
    );
    s.close("m2");
    s.wait(INDEXED);
}
