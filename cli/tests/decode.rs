//! `decode`, against what the Java client made of the same bytes.

mod support;

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use support::{arg, golden, golden_rows, run, run_with};

/// The keys of a record that hold something else than their namesakes in the index, or have none.
const KEYS: [&str; 21] = [
    "topic",
    "stored_topic",
    "broker",
    "queue_id",
    "queue_offset",
    "msg_id",
    "offset_msg_id",
    "keys",
    "tags",
    "born_at",
    "born_host",
    "store_at",
    "store_host",
    "reconsume_times",
    "properties",
    "body",
    "consumer",
    "store_size",
    "physical_offset",
    "sys_flag",
    "body_crc",
];

#[test]
fn records_are_shown_as_java_reads_them() {
    let mut shown = 0;
    for row in golden_rows("messages/index.jsonl") {
        let name = row["name"].as_str().expect("a name");
        let file = golden("messages").join(row["file"].as_str().expect("a file name"));
        let ran = run(["decode", "messages", arg(&file)]);
        let java = javas(&row);
        let mut undecodable = 0;
        for (at, line) in ran.lines().iter().enumerate() {
            if let Some(bad) = line.get("undecodable") {
                let keys: Vec<_> = bad.as_object().expect("an object").keys().collect();
                assert_eq!(keys, ["at", "queue_offset", "reason"], "{name}");
                undecodable += 1;
            } else if let Some((java, inner)) = java.get(at) {
                // Java stops at the first record it cannot read; what we show behind it has no row.
                compare(name, line, java, *inner);
                shown += 1;
            }
        }
        assert_eq!(
            ran.code,
            Some(i32::from(undecodable > 0)),
            "{name}: {}",
            ran.stderr
        );
        assert_eq!(ran.stderr.is_empty(), undecodable == 0, "{name}: {}", ran.stderr);
    }
    assert!(shown > 150, "{shown}");
}

/// What Java made of a file, message by message: an inner batch counts as its messages, which only the view of
/// the client shows. The second part says whether it is one of those; they have no size and checksum.
fn javas(row: &Value) -> Vec<(Value, bool)> {
    let list = |key: &str| row[key].as_array().cloned().unwrap_or_default();
    let mut views = list("clientView").into_iter().peekable();
    let mut javas = Vec::new();
    for message in list("messages") {
        if message["sysFlagOnWire"]
            .as_i64()
            .is_some_and(|flag| flag & 0xC0 == 0xC0)
        {
            let place = message["commitLogOffset"].clone();
            while let Some(mut inner) = views.next_if(|view| view["commitLogOffset"] == place) {
                for key in ["bornTimestamp", "storeTimestamp", "sysFlagOnWire"] {
                    inner[key] = message[key].clone();
                }
                for (key, name) in [("TAGS", "tags"), ("KEYS", "keys")] {
                    inner[name] = inner["properties"][key].clone();
                }
                let properties = inner["properties"].as_object_mut().expect("an object");
                properties.retain(|name, _| name != "MIN_OFFSET" && name != "MAX_OFFSET");
                javas.push((inner, true));
            }
        } else {
            views.next();
            javas.push((message, false));
        }
    }
    javas
}

fn compare(name: &str, line: &Value, java: &Value, inner: bool) {
    let context = format!("{name} at {}", line["queue_offset"]);
    let keys = line.as_object().expect("an object");
    for key in KEYS {
        let key = if key == "body" && !keys.contains_key(key) {
            "body_base64"
        } else {
            key
        };
        assert!(keys.contains_key(key), "{context} has no {key}");
    }
    assert_eq!(keys.len(), KEYS.len(), "{context}");
    for (ours, javas) in [
        ("topic", "topic"),
        ("stored_topic", "topic"),
        ("queue_id", "queueId"),
        ("queue_offset", "queueOffset"),
        ("msg_id", "msgId"),
        ("offset_msg_id", "offsetMsgId"),
        ("keys", "keys"),
        ("tags", "tags"),
        ("born_at", "bornTimestamp"),
        ("store_at", "storeTimestamp"),
        ("reconsume_times", "reconsumeTimes"),
        ("properties", "properties"),
        ("store_size", "storeSize"),
        ("physical_offset", "commitLogOffset"),
        ("sys_flag", "sysFlagOnWire"),
        ("body_crc", "bodyCRC"),
    ] {
        if inner && ["store_size", "body_crc"].contains(&ours) {
            assert_eq!(line[ours], Value::Null, "{context}: {ours}");
            continue;
        }
        assert_eq!(line[ours], java[javas], "{context}: {ours}");
    }
    assert_eq!(
        (&line["broker"], &line["consumer"]),
        (&Value::Null, &Value::Null),
        "{context}"
    );
    let body = match line.get("body") {
        Some(text) => text.as_str().expect("text").as_bytes().to_vec(),
        None => STANDARD
            .decode(line["body_base64"].as_str().expect("text"))
            .expect("base64"),
    };
    assert_eq!(
        line.get("body").is_some(),
        std::str::from_utf8(&body).is_ok(),
        "{context}"
    );
    assert_eq!(body.len(), java["bodyLength"], "{context}");
    if let Some(hex) = java["bodyHex"].as_str() {
        let ours: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ours, hex, "{context}");
    }
}

#[test]
fn a_bad_record_is_a_line_and_its_neighbours_are_shown() {
    let ran = run([
        "decode",
        "messages",
        arg(&golden("messages/hand-bad-magic-middle.bin")),
    ]);
    let lines = ran.lines();
    assert_eq!(lines.len(), 3);
    let want =
        json!({"undecodable": {"reason": "unknown magic number 0x11223344", "at": 149, "queue_offset": 7}});
    assert_eq!(lines[1], want);
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.stderr,
        "rocketcat: error: 1 part of the input cannot be decoded\n"
    );
}

#[test]
fn a_body_no_build_can_open_is_told() {
    let ran = run([
        "decode",
        "messages",
        arg(&golden("messages/hand-compression-type-5.bin")),
    ]);
    assert_eq!(ran.code, Some(1));
    let reason = ran.lines()[1]["undecodable"]["reason"].clone();
    assert_eq!(reason, "compression type 5 is not supported by this build");
}

/// The length of the second body points behind its entry: the first message is shown, and where it ends.
#[test]
fn an_inner_batch_is_shown_as_far_as_it_goes() {
    let mut bytes = fs::read(golden("messages/hand-inner-batch.bin")).expect("a file of this repository");
    let body = bytes
        .windows(4)
        .position(|bytes| bytes == [0, 0, 0, 112])
        .expect("the list has 112 bytes");
    bytes[body + 4 + 56 + 16] = 0x7f;
    let ran = run_with(["decode", "messages"], &bytes);
    let lines = ran.lines();
    assert_eq!((lines.len(), ran.code), (2, Some(1)));
    assert_eq!(lines[0]["queue_offset"], 7);
    let want = json!({
        "reason": "a body length that is out of range in the entry at byte 56", "at": 0, "queue_offset": 8,
    });
    assert_eq!(lines[1]["undecodable"], want);
}

#[test]
fn hex_and_standard_input_give_the_same() {
    let file = golden("messages/mixed-32.bin");
    let want = run(["decode", "messages", arg(&file)]);
    assert_eq!(want.code, Some(0));
    let bytes = fs::read(&file).expect("a file of this repository");
    assert_eq!(run_with(["decode", "messages"], &bytes).stdout, want.stdout);
    let hex: Vec<String> = bytes
        .chunks(16)
        .map(|row| row.iter().map(|byte| format!("{byte:02X} ")).collect())
        .collect();
    let ran = run_with(["decode", "messages", "--hex", "-"], hex.join("\n").as_bytes());
    assert_eq!((ran.stdout, ran.code), (want.stdout, Some(0)));
}

#[test]
fn what_cannot_be_read_says_why() {
    let ran = run_with(["decode", "frame", "--hex"], b"zz");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(
        ran.stderr.contains("byte 0 of the input is not a hex digit"),
        "{}",
        ran.stderr
    );
    let ran = run(["decode", "messages", "/no/such/file"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot read /no/such/file"), "{}", ran.stderr);
}

#[test]
fn nothing_is_decoded_into_nothing() {
    for what in ["frame", "messages"] {
        let ran = run_with(["decode", what], b"");
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), "", "")
        );
    }
}

#[test]
fn recorded_sessions_are_shown_frame_by_frame() {
    let rows = golden_rows("frames/index.jsonl");
    let mut sessions: Vec<&str> = rows.iter().filter_map(|row| row["session"].as_str()).collect();
    sessions.dedup();
    for session in sessions {
        let file = golden("frames").join(format!("{session}.bin"));
        let ran = run(["decode", "frame", arg(&file)]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{session}");
        let rows: Vec<_> = rows.iter().filter(|row| row["session"] == session).collect();
        let lines = ran.lines();
        assert_eq!(lines.len(), rows.len(), "{session}");
        for (line, row) in lines.iter().zip(rows) {
            compare_frame(line, row);
        }
    }
}

fn compare_frame(line: &Value, row: &Value) {
    let (name, header) = (&row["name"], &row["header"]);
    for key in ["code", "flag", "opaque", "language", "version", "remark"] {
        assert_eq!(line[key], header[key], "{name}: {key}");
    }
    assert_eq!(line["serialize_type"], row["serializeType"], "{name}");
    assert_eq!(line["body_len"], row["bodyLength"], "{name}");
    let body = STANDARD
        .decode(line["body_base64"].as_str().expect("text"))
        .expect("base64");
    assert_eq!(body.len(), row["bodyLength"], "{name}");
    assert_eq!(line["ext_fields"], fields(&header["extFields"]), "{name}");
}

#[test]
fn single_frames_are_told_as_java_reads_them_and_never_panic() {
    let mut shown = 0;
    for file in ["encode.jsonl", "malformed.jsonl", "decode_json.jsonl"] {
        for row in golden_rows(&format!("headers/{file}")) {
            let hex = row["frameHex"].as_str().expect("hex");
            let ran = run_with(["decode", "frame", "--hex"], hex.as_bytes());
            let lines = ran.lines();
            let bad = lines
                .iter()
                .filter(|line| line.get("undecodable").is_some())
                .count();
            let code = Some(i32::from(bad > 0));
            assert_eq!(ran.code, code, "{}: {}", row["name"], ran.stderr);
            let decoded = row["pipeline"]["outcome"] == "decoded" && row["decode"]["outcome"] == "ok";
            // Where Java reads on and we do not is in COMPATIBILITY.md, checked by the tests of the codec.
            if let Some(line) = lines
                .first()
                .filter(|line| decoded && line.get("undecodable").is_none())
            {
                compare_header(line, &row);
                shown += 1;
            }
        }
    }
    assert!(shown > 140, "{shown}");
}

fn compare_header(line: &Value, row: &Value) {
    let (name, java) = (&row["name"], &row["decode"]["command"]);
    let ignored = row["ignore"].as_array().map_or(&[][..], Vec::as_slice);
    for key in ["code", "flag", "opaque", "language", "version", "remark"] {
        if !ignored.iter().any(|ignored| ignored == key) {
            assert_eq!(line[key], java[key], "{name}: {key}");
        }
    }
    assert_eq!(line["ext_fields"], fields(&java["extFields"]), "{name}");
    // The decoder class takes all bytes there are for the body, the command the first frame.
    let whole = row["pipeline"]["commands"] == 1 && name != "total-shorter";
    if let Some(hex) = java["bodyHex"].as_str().filter(|_| whole) {
        let body = STANDARD
            .decode(line["body_base64"].as_str().expect("text"))
            .expect("base64");
        let ours: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ours, hex, "{name}");
    }
}

/// Java tells a missing map from an empty one and keeps fields that are null.
fn fields(java: &Value) -> Value {
    let fields = java.as_object().into_iter().flatten();
    let fields = fields.filter(|(_, value)| !value.is_null());
    fields
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    use std::process::Stdio;

    // Enough that it cannot fit into a pipe.
    let bytes = fs::read(golden("messages/mixed-32.bin"))
        .expect("a file of this repository")
        .repeat(200);
    let mut child = support::rocketcat(["decode", "messages"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("it was asked for");
    std::io::Write::write_all(&mut stdin, &bytes).expect("it reads everything first");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}
