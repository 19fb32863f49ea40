//! Headers against what Apache RocketMQ 5.5.0 makes of the same bytes. Each vector agrees, or it is
//! named here with the reason why this build is stricter.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{QueueId, QueueOffset};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::command::{Header, Language};
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::link::Reassembler;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest};
use rocketmq_consumer_core::wire::request::{Answer, encode_request};
use serde_json::Value;

/// Vectors of which Java gets something out and this build nothing, with the reason.
const STRICTER: &[(&str, &str)] = &[
    (
        "total-zero-more",
        "Java reads on after an impossible length, then closes",
    ),
    (
        "bin-ext-zero-but-bytes",
        "bytes after the ext fields become Java's body",
    ),
    ("bin-padding", "bytes after the ext fields become Java's body"),
];

fn vectors(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden/headers")
        .join(file);
    let text = fs::read_to_string(path).expect("the golden files are part of the crate");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("one JSON value per line"))
        .collect()
}

fn hex(text: &str) -> Bytes {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    text.as_bytes()
        .chunks(2)
        .map(|pair| {
            digit(pair[0])
                .zip(digit(pair[1]))
                .map(|(high, low)| high << 4 | low)
        })
        .collect::<Option<Vec<u8>>>()
        .expect("hexadecimal digits")
        .into()
}

/// How many frames with a good header come out, and whether the connection is still open then.
fn receive(bytes: Bytes) -> (u64, bool) {
    let mut link = Reassembler::new(FRAME_LEN_MAX);
    link.push(bytes);
    let mut commands = 0;
    loop {
        match link.next_frame() {
            Ok(None) => return (commands, true),
            Ok(Some(frame)) if Header::of(&frame).is_ok() => commands += 1,
            Ok(Some(_)) | Err(_) => return (commands, false),
        }
    }
}

fn agrees(name: &str, header: &Header<'_>, java: &Value, ignored: &[Value]) {
    let is = |member: &str, ours: Value| {
        if !ignored.iter().any(|name| name == member) {
            assert_eq!(ours, java[member], "{name}: {member}");
        }
    };
    is("code", header.code.into());
    is("language", header.language.map(Language::name).into());
    is("version", header.version.into());
    is("opaque", header.opaque.into());
    is("flag", header.flag.into());
    is("isResponse", header.is_response().into());
    is("isOneway", header.is_oneway().into());
    is("remark", header.remark.as_deref().into());
    // Java's null values are absent here, and no fields are the same as an empty map.
    let fields = java["extFields"].as_object().into_iter().flatten();
    let mut want: Vec<_> = fields
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    let mut ours: Vec<_> = header.ext.iter().collect();
    want.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours, want, "{name}: extFields");
}

fn check(file: &str, vectors_min: usize) {
    let mut stricter = Vec::new();
    let vectors = vectors(file);
    assert!(vectors.len() >= vectors_min);
    for vector in &vectors {
        let name = vector["name"].as_str().expect("a name");
        let bytes = hex(vector["frameHex"].as_str().expect("a frame"));
        let pipeline = &vector["pipeline"];
        let java = (
            pipeline["commands"].as_u64().expect("a count"),
            pipeline["open"].as_bool().expect("a truth value"),
        );
        if let Some((listed, _)) = STRICTER.iter().find(|(listed, _)| *listed == name) {
            assert_eq!((receive(bytes), java.0), ((0, false), 1), "{name}");
            let told = include_str!("../../COMPATIBILITY.md").contains(&format!("`{name}`"));
            assert!(told, "{name} is judged differently, and COMPATIBILITY.md says so");
            stricter.push(*listed);
            continue;
        }
        assert_eq!(receive(bytes.clone()), java, "{name}: {}", vector["note"]);
        if pipeline["outcome"] == "decoded" && vector["decode"]["outcome"] == "ok" {
            let mut link = Reassembler::new(FRAME_LEN_MAX);
            link.push(bytes);
            let frame = link.next_frame().expect("as above").expect("as above");
            let header = Header::of(&frame).expect("as above");
            let command = &vector["decode"]["command"];
            let ignored = vector["ignore"].as_array().map_or(&[][..], Vec::as_slice);
            agrees(name, &header, command, ignored);
            if let Some(body) = command["bodyHex"].as_str()
                // The decoder class alone takes all bytes there are; the network decoder cuts frames.
                && pipeline["commands"] == 1
                && name != "total-shorter"
            {
                assert_eq!(frame.body, hex(body), "{name}: body");
            }
        }
    }
    let listed = STRICTER
        .iter()
        .filter(|(name, _)| vectors.iter().any(|vector| vector["name"] == *name));
    assert_eq!(stricter.len(), listed.count());
}

#[test]
fn unusual_json_is_read_as_java_reads_it() {
    check("decode_json.jsonl", 40);
}

#[test]
fn damaged_frames_are_refused_wherever_java_refuses_them() {
    check("malformed.jsonl", 64);
}

#[test]
fn what_java_writes_is_read_as_it_was_meant() {
    check("encode.jsonl", 105);
}

#[test]
fn what_is_written_again_means_the_same() {
    for vector in vectors("encode.jsonl") {
        let name = vector["name"].as_str().expect("a name");
        let bytes = hex(vector["frameHex"].as_str().expect("a frame"));
        let frame = Frame::parse(bytes, FRAME_LEN_MAX).expect("a good frame");
        let header = Header::of(&frame).expect("a good header");
        for form in [HeaderForm::Json, HeaderForm::Rocketmq] {
            let again = header.to_command(&frame.body).encode(form).expect("small enough");
            let again = Frame::parse(again, FRAME_LEN_MAX).expect("our own frame");
            let mut command = vector["decode"]["command"].clone();
            if again.form == HeaderForm::Rocketmq
                && let Some(fields) = command["extFields"].as_object_mut()
            {
                // The binary form has no empty text.
                fields.retain(|name, value| !name.is_empty() && *value != "");
            }
            agrees(
                name,
                &Header::of(&again).expect("our own header"),
                &command,
                &["remark".into()],
            );
            assert_eq!(again.body, frame.body, "{name}");
        }
    }
}

const PULL_ANSWER: &[u8] = br#"{"code":0,"extFields":{"suggestWhichBrokerId":"0","groupSysFlag":"0","nextBeginOffset":"2","maxOffset":"2","minOffset":"0","topicSysFlag":"0"},"flag":1,"language":"JAVA","opaque":24,"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":513}"#;

#[test]
fn a_pull_costs_one_allocation_out_and_none_back() {
    let pull = PullRequest {
        group: "billing".into(),
        topic: "orders".into(),
        queue: QueueId(3),
        offset: QueueOffset(123_456),
        max_messages: 32,
        max_bytes: Some(262_144),
        commit: Some(QueueOffset(123_400)),
        suspend: Some(Duration::from_secs(15)),
        sub_version: WallTime::from_unix_millis(1_795_961_260_970),
        filter: None,
        lite: false,
        broker: Some("broker-a".into()),
    };
    for form in [HeaderForm::Json, HeaderForm::Rocketmq] {
        let out = allocation_counter::measure(|| {
            let frame = encode_request(form, 24, false, &pull);
            assert!(frame.is_ok_and(|frame| !frame.is_empty()));
        });
        assert_eq!(out.count_total, 1, "{form:?}");

        let answer = Header::decode(HeaderForm::Json, PULL_ANSWER).expect("a good header");
        let answer = answer.to_command(b"messages").encode(form).expect("small enough");
        let frame = Frame::parse(answer, FRAME_LEN_MAX).expect("our own frame");
        let back = allocation_counter::measure(|| {
            let header = Header::of(&frame).expect("a good header");
            let answer = PullAnswer::decode(&header, &frame.body).expect("a good answer");
            assert_eq!(answer.next_begin_offset, QueueOffset(2));
        });
        assert_eq!(back.count_total, 0, "{form:?}");
    }
}
