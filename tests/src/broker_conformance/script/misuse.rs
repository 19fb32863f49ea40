//! What nobody should send.

use super::bodies::query_offset;
use crate::broker_conformance::step::{Ask, Script};

pub(super) fn write(s: &mut Script) {
    s.chapter("misuse");
    s.ask("u1", "an unknown request", Ask::new(9_999, ""));
    s.ask("u1", "a negative code", Ask::new(-7, ""));
    s.post("u1", "an unknown request, one-way", Ask::new(9_999, "").one_way());
    s.silence("u1", "an unknown request, one-way: silence", 200);
    s.post(
        "u1",
        "a question, one-way",
        query_offset("keepers", "single", 0).one_way(),
    );
    s.silence("u1", "a question, one-way: silence", 200);
    s.ask(
        "u1",
        "fields that nobody knows",
        query_offset("keepers", "single", 0).field("more", "x"),
    );
    s.ask(
        "u1",
        "a body that nobody reads",
        query_offset("keepers", "single", 0).body("x"),
    );
    let check = |subscription: &str| {
        let body = format!(r#"{{"clientId":"c","group":"g","subscriptionData":{subscription}}}"#);
        Ask::new(46, "").body(body)
    };
    s.ask(
        "u1",
        "an expression of tags is checked",
        check(r#"{"topic":"single","subString":"A","expressionType":"TAG"}"#),
    );
    s.ask(
        "u1",
        "an expression of SQL is checked",
        check(r#"{"topic":"single","subString":"a = 1","expressionType":"SQL92"}"#),
    );
    s.ask(
        "u1",
        "an expression of an unknown type is checked",
        check(r#"{"topic":"single","subString":"a","expressionType":"X"}"#),
    );
    s.ask("u1", "nothing is checked", Ask::new(46, ""));
    s.ask("u1", "no fields at all", Ask::new(14, ""));
    s.ask(
        "u1",
        "a number too large",
        query_offset("keepers", "single", 0).field("queueId", "99999999999"),
    );
}
