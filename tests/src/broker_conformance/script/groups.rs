//! Consumer groups on a broker: 200, 352, 207, 201.

use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("groups");
    let put = |body: &str| Ask::new(200, "").body(body);
    s.ask(
        "b1",
        "a group is created",
        put(r#"{"groupName":"strict","retryMaxTimes":2,"retryQueueNums":1}"#),
    );
    s.ask("b1", "and read back", Ask::new(352, "group=strict"));
    s.ask(
        "b1",
        "what is absent is the default again",
        put(r#"{"groupName":"strict"}"#),
    );
    s.ask("b1", "and read back again", Ask::new(352, "group=strict"));
    s.ask(
        "b1",
        "an unknown group is created by asking",
        Ask::new(352, "group=asked"),
    );
    s.ask(
        "b1",
        "a group that may not consume",
        put(r#"{"groupName":"barred","consumeEnable":false}"#),
    );
    s.ask(
        "b1",
        "its pull is forbidden",
        super::bodies::pull_inline("barred", "single", 0, "*"),
    );
    s.ask("b1", "an illegal name", put(r#"{"groupName":"a b"}"#));
    s.ask("b1", "no name", put(r#"{"retryMaxTimes":2}"#));
    s.ask("b1", "no body", Ask::new(200, ""));
    s.ask("b1", "a body that is no JSON", put(r#"{"groupName":"#));
    s.ask(
        "b1",
        "a group is deleted",
        Ask::new(207, "groupName=asked cleanOffset=true"),
    );
    s.ask(
        "b1",
        "a group is deleted that never was",
        Ask::new(207, "groupName=never cleanOffset=true"),
    );
    s.ask("b1", "no name to delete", Ask::new(207, "cleanOffset=true"));
    s.ask("b1", "all groups", Ask::new(201, ""));
}
