use alloc::vec::Vec;
use core::time::Duration;

use crate::broker::bench::*;
use crate::ids::PhysicalOffset;
use crate::time::WallTime;
use crate::wire::request::check::CheckSubscriptionRequest;
use crate::wire::request::find::{QueryMessageRequest, ViewMessageRequest};
use crate::wire::stored::{Record, Scanned, Scanner};

fn offsets(messages: &[u8]) -> Vec<i64> {
    let scanned = Scanner::new(messages).map(|item| {
        let Scanned::Message(entry) = item else {
            panic!("{item:?}");
        };
        Record::new(messages, entry).queue_offset().0
    });
    scanned.collect()
}

#[test]
fn a_message_is_found_by_its_place() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.store(&["A", "B"]);
    let stored: Vec<PhysicalOffset> = bench
        .state
        .stored(&broker(), &"T".into(), queue(0).id)
        .map(|message| message.physical_offset())
        .collect();
    let view = |offset| ViewMessageRequest { offset, topic: None };
    let found = bench.do_it(conn, &view(stored[1]));
    assert_eq!(offsets(&found.message), [1]);
    for at in [stored[0].0 + 1, 1 << 40, -1] {
        assert_eq!(bench.refused(conn, &view(PhysicalOffset(at))), 1, "{at}");
    }
}

#[test]
fn messages_are_found_by_key_and_time() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &send_to("T", "KEYS\u{1}k1 k2\u{2}UNIQ_KEY\u{1}u1\u{2}"));
    bench.pass(Duration::from_secs(1));
    bench.do_it(conn, &send_to("T", "KEYS\u{1}k2\u{2}UNIQ_KEY\u{1}u2\u{2}"));
    let end = WallTime::from_unix_millis(i64::MAX);
    for (topic, key, most, begin, found) in [
        ("T", "k1", 10, WALL, [0].as_slice()),
        ("T", "k2", 10, WALL, &[0, 1]),
        ("T", "k2", 1, WALL, &[1]),
        ("T", "k2", 10, WALL + Duration::from_millis(1), &[1]),
        ("T", "u1", 10, WALL, &[0]),
        ("T", "k", 10, WALL, &[]),
        ("None", "k1", 10, WALL, &[]),
        ("T", "k1", -1, WALL, &[]),
    ] {
        let request = QueryMessageRequest {
            topic: topic.into(),
            key: key.into(),
            max: most,
            begin,
            end,
            unique_key: false,
        };
        let got = bench.do_it(conn, &request);
        assert_eq!(offsets(&got.messages), found, "{topic} {key}");
        let code = if found.is_empty() { 22 } else { 0 };
        assert_eq!(bench.ask_raw(conn, 12, &request), code);
    }
}

#[test]
fn only_tags_are_understood() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let check = |kind: Option<&str>| {
        let mut subscription = subscription("T", "*", 1);
        subscription.expression_type = kind.map(Into::into);
        CheckSubscriptionRequest {
            client_id: "a@1".into(),
            group: "G".into(),
            namespace: None,
            subscription,
        }
    };
    for kind in [None, Some(""), Some("TAG")] {
        assert!(bench.ask(conn, &check(kind)).is_ok(), "{kind:?}");
    }
    assert_eq!(bench.refused(conn, &check(Some("SQL92"))), 1);
    assert_eq!(bench.refused(conn, &check(Some("JS"))), 1);
}
