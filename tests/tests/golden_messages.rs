//! Stored messages, against what the decoder of the Java client made of the same bytes, in
//! `golden/messages`.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use rocketmq_consumer_core::wire::body::{Body, BodyError, BodyLimits, CrcPolicy, CrcState};
use rocketmq_consumer_core::wire::stored::{InnerBatch, Record, Scanned, Scanner};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Where ours is not Java's: what the scan gives, record by record. Java stops at the first record
/// it cannot read and drops the rest; it uses the size word for nothing.
const DIFFERENCES: [(&str, &[&str]); 16] = [
    ("hand-negative-numbers", &["Undecodable(NegativeQueueOffset)"]),
    ("hand-bad-port", &["Undecodable(HostPort)"]),
    (
        "hand-compression-type-5",
        &["ok", "Err(Unsupported(Compression(5)))", "ok"],
    ),
    (
        "hand-compression-type-7",
        &["ok", "Err(Unsupported(Compression(7)))", "ok"],
    ),
    ("hand-compressed-garbage", &["ok", "Err(Corrupt)", "ok"]),
    ("hand-compressed-truncated-zlib", &["ok", "Err(Corrupt)"]),
    ("hand-compressed-truncated-lz4", &["ok", "Err(Corrupt)"]),
    (
        "hand-cut-last",
        &["ok", "ok", "Broken(BeyondEnd { size: 149, left: 144 })"],
    ),
    (
        "hand-cut-last-header",
        &["ok", "ok", "Broken(BeyondEnd { size: 149, left: 20 })"],
    ),
    ("hand-trailing-3-bytes", &["ok", "ok", "Broken(CutSize(3))"]),
    (
        "hand-bad-magic-middle",
        &["ok", "Undecodable(UnknownMagic(287454020))", "ok"],
    ),
    (
        "hand-total-too-big",
        &["Broken(BeyondEnd { size: 1100, left: 298 })"],
    ),
    ("hand-total-negative", &["Broken(TooSmall(-1))"]),
    ("hand-body-too-long", &["ok", "Undecodable(BodyLength)"]),
    ("hand-body-huge", &["ok", "Undecodable(BodyLength)"]),
    ("hand-topic-too-long", &["ok", "Undecodable(TopicLength)"]),
];

/// What users are told.
const COMPATIBILITY: &str = include_str!("../../COMPATIBILITY.md");

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/golden/messages/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read(path).expect("a file of this repository")
}

fn rows() -> Vec<Value> {
    let text = String::from_utf8(file("index.jsonl")).expect("UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

fn open(frame: &Bytes, record: &Record<'_>) -> Result<Body, BodyError> {
    let stored = frame.slice_ref(record.stored_body());
    Body::decode(
        &stored,
        record.sys_flag(),
        record.body_crc(),
        BodyLimits::default(),
        CrcPolicy::Report,
    )
}

#[test]
fn records_read_as_java_reads_them() {
    let rows = rows();
    assert_eq!(rows.len(), 75);
    let mut differences = 0;
    for row in &rows {
        let name = row["name"].as_str().expect("a name");
        let frame = Bytes::from(file(row["file"].as_str().expect("a file name")));
        assert_eq!(
            hex(&Sha256::digest(&frame)),
            row["sha256"].as_str().expect("a hash"),
            "{name}"
        );

        let expected = row["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut steps = Vec::new();
        for scanned in Scanner::new(&frame) {
            steps.push(match scanned {
                Scanned::Message(entry) => {
                    let record = Record::new(&frame, entry);
                    match expected.get(steps.len()) {
                        Some(message) => compare(name, &frame, &record, message),
                        None => match open(&frame, &record) {
                            Ok(_) => "ok".into(),
                            Err(error) => format!("Err({error:?})"),
                        },
                    }
                }
                Scanned::Undecodable(undecodable) => format!("Undecodable({:?})", undecodable.reason),
                Scanned::Broken { reason, .. } => format!("Broken({reason:?})"),
            });
        }
        match DIFFERENCES.iter().find(|(differs, _)| *differs == name) {
            Some((_, expected)) => {
                assert_eq!(steps, *expected, "{name}");
                let told = COMPATIBILITY.contains(&format!("`{name}`"));
                assert!(told, "{name} is judged differently, and COMPATIBILITY.md says so");
                differences += 1;
            }
            None => assert_eq!(steps, vec!["ok"; expected.len()], "{name}"),
        }
    }
    assert_eq!(differences, DIFFERENCES.len());
}

/// Compares everything Java says of a message.
fn compare(name: &str, frame: &Bytes, record: &Record<'_>, java: &Value) -> String {
    let context = format!("{name} at {}", record.queue_offset());
    assert_eq!(java["topic"], record.topic(), "{context}");
    assert_eq!(java["queueId"], record.queue_id().0, "{context}");
    assert_eq!(java["flag"], record.flag(), "{context}");
    assert_eq!(java["sysFlagOnWire"], record.sys_flag().0, "{context}");
    assert_eq!(java["queueOffset"], record.queue_offset().0, "{context}");
    assert_eq!(java["commitLogOffset"], record.physical_offset().0, "{context}");
    assert_eq!(java["storeSize"], record.bytes().len(), "{context}");
    assert_eq!(
        java["bornTimestamp"],
        record.born_at().as_unix_millis(),
        "{context}"
    );
    assert_eq!(
        java["storeTimestamp"],
        record.store_at().as_unix_millis(),
        "{context}"
    );
    assert_eq!(host(&java["bornHost"]), record.born_host(), "{context}");
    assert_eq!(host(&java["storeHost"]), record.store_host(), "{context}");
    assert_eq!(java["reconsumeTimes"], record.reconsume_times(), "{context}");
    assert_eq!(
        java["preparedTransactionOffset"],
        record.prepared_transaction_offset(),
        "{context}"
    );
    assert_eq!(java["bodyCRC"], record.body_crc(), "{context}");
    assert_eq!(java["tags"].as_str(), record.tags().as_deref(), "{context}");
    assert_eq!(java["keys"].as_str(), record.keys().as_deref(), "{context}");
    assert_eq!(java["msgId"], &*record.msg_id(), "{context}");
    assert_eq!(java["offsetMsgId"], record.offset_msg_id().as_str(), "{context}");

    let properties: BTreeMap<_, _> = record.properties().iter().collect();
    let expected: BTreeMap<_, _> = java["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.into(), value.as_str().expect("text").into()))
        .collect();
    assert_eq!(properties, expected, "{context}");
    for (name, value) in expected {
        assert_eq!(record.property(&name), Some(value), "{context}");
    }

    let stored_len = java.get("storedBodyLength").unwrap_or(&java["bodyLength"]);
    assert_eq!(*stored_len, record.stored_body().len(), "{context}");
    match open(frame, record) {
        Ok(body) => {
            assert_eq!(java["bodyLength"], body.bytes.len(), "{context}");
            if let Some(hash) = java["bodySha256"].as_str() {
                assert_eq!(hex(&Sha256::digest(&body.bytes)), hash, "{context}");
            }
            if let Some(expected) = java["bodyHex"].as_str() {
                assert_eq!(hex(&body.bytes), expected, "{context}");
            }
            // Brokers fill the checksum in; who built records by hand did not bother.
            let by_hand = name.starts_with("hand-") || name.starts_with("java-encoder-");
            assert!(by_hand || body.crc == CrcState::Match, "{context}");
        }
        Err(error) => panic!("{context}: {error}"),
    }
    "ok".into()
}

/// What the Java client hands on: inner batches opened, two properties added.
#[test]
fn a_client_hands_on_what_java_hands_on() {
    let mut inner = 0;
    for row in rows() {
        let name = row["name"].as_str().expect("a name");
        let frame = Bytes::from(file(row["file"].as_str().expect("a file name")));
        let mut java = row["clientView"].as_array().into_iter().flatten();
        for scanned in Scanner::new(&frame) {
            let Scanned::Message(entry) = scanned else { break };
            let record = Record::new(&frame, entry);
            if record.sys_flag().is_inner_batch() {
                let batch = InnerBatch::open(&frame, entry, BodyLimits::default(), CrcPolicy::Report);
                let batch = batch.expect("they are all whole");
                for message in batch.messages() {
                    let mut out = Vec::new();
                    let message = message.expect("they are all whole");
                    message.append_to(&mut out, 0).expect("it fits");
                    let out = Bytes::from(out);
                    let Some(Scanned::Message(entry)) = Scanner::new(&out).next() else {
                        panic!("{name}: a record of ours")
                    };
                    handed_on(name, &out, &Record::new(&out, entry), java.next(), true);
                    inner += 1;
                }
            } else if let Some(java) = java.next() {
                handed_on(name, &frame, &record, Some(java), false);
            }
        }
    }
    assert!(inner >= 10, "{inner}");
}

/// Compares a message with the view Java's client gives of it.
fn handed_on(name: &str, scanned: &Bytes, record: &Record<'_>, java: Option<&Value>, inner: bool) {
    let context = format!("{name} at {}", record.queue_offset());
    let java = java.unwrap_or_else(|| panic!("{context}: Java has no such message"));
    let body = open(scanned, record).expect("Java has opened it").bytes;
    let ids = if inner {
        (record.unique_key(), None)
    } else {
        (Some(record.msg_id()), Some(record.offset_msg_id()))
    };
    let mut properties: BTreeMap<_, _> = record.properties().iter().collect();
    properties.insert("MIN_OFFSET".into(), "5".into());
    properties.insert("MAX_OFFSET".into(), "1000".into());
    // Java clears the bit when it has decompressed something.
    let compressed = record.sys_flag().compression().is_some() && !record.stored_body().is_empty();
    let ours = json!({
        "topic": record.topic(),
        // That of the queue, not of the record.
        "brokerName": java["brokerName"],
        "queueId": java["queueId"],
        "queueOffset": record.queue_offset().0,
        "msgId": ids.0,
        "offsetMsgId": ids.1,
        // Its unique key, of transactions alone.
        "transactionId": java["transactionId"],
        "flag": record.flag(),
        "sysFlag": record.sys_flag().0 & !i32::from(compressed),
        "reconsumeTimes": record.reconsume_times(),
        "commitLogOffset": record.physical_offset().0,
        "bodyLength": body.len(),
        "bodySha256": hex(&Sha256::digest(&body)),
        "properties": properties,
    });
    let mut java = java.clone();
    if java["bodySha256"].is_null() {
        java["bodySha256"] = hex(&Sha256::digest(b"")).into();
    }
    assert_eq!(ours, java, "{context}");
}

/// Java writes `address:port` for both families.
fn host(text: &Value) -> SocketAddr {
    let (address, port) = text
        .as_str()
        .and_then(|text| text.rsplit_once(':'))
        .expect("address and port");
    SocketAddr::new(
        address.parse::<IpAddr>().expect("an address"),
        port.parse().expect("a port"),
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
