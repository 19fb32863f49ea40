//! Frames that are none, and headers in another form. Each on a connection of its own, for most end it.

use super::bodies::query_offset;
use crate::broker_conformance::step::{Ask, Script};

/// Bytes that are no frame, or a frame that is no request.
const ODD: &[(&str, &[u8])] = &[
    ("the largest length and no more", &16_777_212_u32.to_be_bytes()),
    ("a length beyond the largest", &16_777_213_u32.to_be_bytes()),
    ("a negative length", &(-1_i32).to_be_bytes()),
    ("a length without room for a header length", b"\0\0\0\x03\0\0\0"),
    ("a header longer than its frame", b"\0\0\0\x06\0\0\0\x03{}"),
    ("a header of an unknown type", b"\0\0\0\x06\x09\0\0\x02{}"),
    ("a header that is no JSON", b"\0\0\0\x06\0\0\0\x02{{"),
    ("an empty object for a header", b"\0\0\0\x06\0\0\0\x02{}"),
    ("something after the header's object", b"\0\0\0\x07\0\0\0\x03{}x"),
    ("null for a header", b"\0\0\0\x08\0\0\0\x04null"),
    (
        "a binary header that is too short",
        b"\0\0\0\x08\x01\0\0\x04\0\x0e\x0c\x02",
    ),
];

/// Headers that are read more leniently than they are written.
const LENIENT: &[(&str, &str)] = &[
    (
        "an answer that nobody waits for",
        r#"{"code":0,"flag":1,"opaque":77}"#,
    ),
    (
        "members that nobody knows",
        r#"{"code":9999,"opaque":1,"flag":0,"more":[1]}"#,
    ),
    (
        "numbers as text",
        r#"{"code":"9999","opaque":"1","flag":"0","version":"513"}"#,
    ),
    (
        "fields that are no text",
        r#"{"code":14,"opaque":1,"extFields":{"consumerGroup":"keepers","topic":"single","queueId":0}}"#,
    ),
    ("a number that does not fit", r#"{"code":14,"opaque":4294967296}"#),
    (
        "null for the fields",
        r#"{"code":14,"opaque":1,"extFields":null,"remark":null}"#,
    ),
];

pub(super) fn write(s: &mut Script) {
    s.chapter("frames");
    let question = || query_offset("keepers", "single", 0);
    s.ask("f-binary", "a binary header", question().binary());
    let empty = question().field("x", "").binary();
    s.ask("f-binary", "a binary header with an empty value", empty);
    let unknown = Ask::new(9_999, "").binary();
    s.ask("f-binary", "a binary header for an unknown request", unknown);

    // A server looks at the first bytes of a connection for other protocols, and waits until there are enough.
    let first = frame(r#"{"code":9999,"opaque":1,"flag":2}"#);
    for (index, (title, bytes)) in ODD.iter().enumerate() {
        s.raw(&format!("f-odd-{index}"), title, [&first, *bytes].concat());
    }
    for (index, (title, header)) in LENIENT.iter().enumerate() {
        s.raw(&format!("f-lenient-{index}"), title, frame(header));
    }
    s.ask("f-lenient-0", "the connection goes on", question());

    let whole = frame(r#"{"code":9999,"opaque":1}"#);
    let (half, rest) = whole.split_at(9);
    s.raw("f-cut", "half a frame", half);
    s.raw("f-cut", "and the other half", rest);
    s.raw("f-two", "two frames at once", [&*whole, &whole].concat());
    s.silence("f-two", "two frames at once: the second answer", 1_000);
}

fn frame(header: &str) -> Vec<u8> {
    let length = u32::try_from(header.len()).expect("a short header");
    [
        &(length + 4).to_be_bytes(),
        &length.to_be_bytes(),
        header.as_bytes(),
    ]
    .concat()
}
