//! Retrying: 36, sends to a retry topic, and what is read from `%RETRY%` and `%DLQ%` afterwards.

use super::INDEXED;
use super::bodies::{heartbeat, locks, pull, pull_inline, send};
use crate::broker_conformance::step::{Ask, Script};

/// The longest delay of the cluster, and a tick of its scheduler.
const DELAYED: u64 = 1_500 + INDEXED;
const RETRY: &str = "%RETRY%returners";
const DEAD: &str = "%DLQ%returners";

pub(super) fn write(s: &mut Script) {
    s.chapter("send back");
    let back = |message: &str, level: i32| {
        Ask::new(
            36,
            &format!(
                "group=returners delayLevel={level} originTopic=single unitMode=false maxReconsumeTimes=16"
            ),
        )
        .field("offset", &format!("{{physical:{message}}}"))
        .field("originMsgId", "unique-0")
    };
    let dead = |offset| pull_inline("anybody", DEAD, offset, "*");
    s.ask(
        "r1",
        "the member joins",
        heartbeat("returner", "returners", &[("single", "*", 1), (RETRY, "*", 1)]),
    );
    s.ask("r1", "nothing is retried yet", pull("returners", RETRY, 0, 0));
    s.ask("r1", "the broker chooses the delay", back("zero.0", 0));
    s.ask("r1", "it is not there at once", pull("returners", RETRY, 0, 0));
    s.wait(DELAYED);
    s.ask("r1", "it is there", pull("returners", RETRY, 0, 0))
        .learn("retried");
    s.ask("r1", "a level is given", back("one.0", 1));
    s.wait(DELAYED);
    s.ask(
        "r1",
        "a level is given: it is there",
        pull("returners", RETRY, 0, 1),
    );
    s.ask("r1", "a level beyond the last", back("two.0", 99));
    s.wait(DELAYED);
    s.ask(
        "r1",
        "a level beyond the last: it is there",
        pull("returners", RETRY, 0, 2),
    );
    s.ask(
        "r1",
        "a message that came back",
        back("retried.0", 0).field("originTopic", RETRY),
    );
    s.wait(DELAYED);
    s.ask(
        "r1",
        "a message that came back: it is there",
        pull("returners", RETRY, 0, 3),
    )
    .learn("twice");
    s.ask(
        "r1",
        "one of a batch",
        back("many.7", 2).field("originTopic", "many"),
    );
    s.wait(DELAYED);
    s.ask(
        "r1",
        "one of a batch: it is there",
        pull("returners", RETRY, 0, 4),
    );

    s.ask("r1", "straight to the dead letters", back("zero.0", -1));
    s.wait(INDEXED);
    s.ask("r1", "straight to the dead letters: it is there", dead(0));
    s.ask(
        "r1",
        "retried often enough",
        back("twice.0", 0).field("maxReconsumeTimes", "2"),
    );
    s.wait(INDEXED);
    s.ask("r1", "retried often enough: it is there", dead(1));
    s.ask(
        "r1",
        "one more try is left",
        back("twice.0", 1).field("maxReconsumeTimes", "3"),
    );
    s.ask(
        "r1",
        "the group's own limit",
        back("twice.0", 1).without("maxReconsumeTimes"),
    );
    s.ask(
        "r1",
        "no origin, to the dead letters",
        back("zero.0", -1).without("originTopic"),
    );
    s.ask(
        "r1",
        "the topic of dead letters",
        Ask::new(351, &format!("topic={DEAD}")),
    );
    s.ask(
        "r1",
        "the topic of retries",
        Ask::new(351, &format!("topic={RETRY}")),
    );

    s.ask(
        "r1",
        "a position beyond the log",
        back("zero.0", 0).field("offset", "99999999999"),
    );
    s.ask(
        "r1",
        "a negative position",
        back("zero.0", 0).field("offset", "-1"),
    );
    s.ask("r1", "no position", back("zero.0", 0).without("offset"));
    s.ask("r1", "no level", back("zero.0", 0).without("delayLevel"));
    s.ask("r1", "no group", back("zero.0", 0).without("group"));
    s.ask(
        "r1",
        "a group that nobody created",
        back("zero.0", 1).field("group", "foundlings"),
    );
    s.ask(
        "r1",
        "a group with an illegal name",
        back("zero.0", 1).field("group", "a#b"),
    );
    s.wait(DELAYED);
    s.ask(
        "r1",
        "a group that nobody created: its topic",
        Ask::new(351, "topic=%RETRY%foundlings"),
    );

    sent_to_the_retry_topic(s);
}

fn sent_to_the_retry_topic(s: &mut Script) {
    let max = |topic: &str| Ask::new(30, &format!("topic={topic} queueId=0"));
    let again = |times: &str, most: &str| {
        send(
            RETRY,
            0,
            "again",
            "RETRY_TOPIC=single;ORIGIN_MESSAGE_ID=given;DELAY=1;UNIQ_KEY=unique-9",
        )
        .field("j", times)
        .field("l", most)
    };
    s.ask("r1", "sent again", again("16", "16"));
    s.wait(DELAYED);
    s.ask("r1", "sent again: it is there", pull("returners", RETRY, 0, 7));
    s.ask("r1", "sent again too often", again("17", "16"));
    s.wait(INDEXED);
    s.ask("r1", "sent again too often: it is dead", dead_from(2));
    s.ask(
        "r1",
        "sent again, the group's limit",
        again("17", "16").without("l"),
    );
    s.wait(INDEXED);
    s.ask("r1", "sent again, the group's limit: dead letters", max(DEAD));
    s.ask(
        "r1",
        "sent again under a lock: the lock",
        locks(41, "returner", "returners", &[("single", 0)]),
    );
    s.ask("r1", "sent again under a lock", again("1", "16"));
    s.wait(INDEXED);
    s.ask("r1", "sent again under a lock: dead letters", max(DEAD));
    s.ask(
        "r1",
        "sent again under a lock: unlocked",
        locks(42, "returner", "returners", &[("single", 0)]),
    );
    s.ask("r1", "sent again without the lock", again("1", "16"));
    s.wait(DELAYED);
    s.ask("r1", "sent again without the lock: dead letters", max(DEAD));
    s.ask("r1", "sent again without the lock: retries", max(RETRY));
    s.ask(
        "r1",
        "to the retry topic of nobody",
        send("%RETRY%nobody", 0, "x", "").without("j"),
    );
    s.ask("r1", "to dead letters", send(DEAD, 0, "x", "").field("j", "0"));
}

fn dead_from(offset: i64) -> Ask {
    pull_inline("anybody", DEAD, offset, "*")
}
