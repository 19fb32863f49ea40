//! Recorded sessions of Apache RocketMQ 5.5.0: every frame is read as Java reads it, every request
//! and answer this build knows becomes one of our types, and what those write means the same again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use rocketmq_consumer_core::wire::body::{Body, BodyLimits, CrcPolicy};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::{Header, Language};
use rocketmq_consumer_core::wire::fastjson;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::link::Reassembler;
use rocketmq_consumer_core::wire::request::check::CheckSubscriptionRequest;
use rocketmq_consumer_core::wire::request::cluster::ClusterInfoRequest;
use rocketmq_consumer_core::wire::request::groups::UpdateGroupRequest;
use rocketmq_consumer_core::wire::request::heartbeat::{HeartbeatRequest, UnregisterRequest};
use rocketmq_consumer_core::wire::request::locks::{LockRequest, UnlockRequest};
use rocketmq_consumer_core::wire::request::members::{MemberListRequest, MembersChanged};
use rocketmq_consumer_core::wire::request::offsets::{
    CommitOffsetRequest, MaxOffsetRequest, MinOffsetRequest, QueryOffsetRequest, SearchOffsetRequest,
};
use rocketmq_consumer_core::wire::request::operator::{
    ConsumeDirectlyRequest, ConsumerStatusRequest, ResetOffsetRequest, RunningInfoRequest,
};
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_core::wire::request::reset::{GroupStatusRequest, OperatorResetRequest};
use rocketmq_consumer_core::wire::request::route::RouteRequest;
use rocketmq_consumer_core::wire::request::send::SendRequest;
use rocketmq_consumer_core::wire::request::send_back::SendBackRequest;
use rocketmq_consumer_core::wire::request::stats::ConnectionsRequest;
use rocketmq_consumer_core::wire::request::{
    Answer, AnswerError, Request, decode_answer, decode_request, encode_answer, encode_refusal,
    encode_request,
};
use rocketmq_consumer_core::wire::stored::{Record, Scanned, Scanner};
use serde_json::{Value, json};

/// Fields that our types do not keep: of no meaning to the receiver, or stated in another way.
const NOT_KEPT: &[&str] = &[
    // The signature is the last step before sending, not a part of the request.
    "AccessKey",
    "Signature",
    "SecurityToken",
    // Stream mode and name spaces of the second version.
    "ReqT",
    "ns",
    "nsd",
    // Flags of the topic and the group, for information.
    "topicSysFlag",
    "groupSysFlag",
    // Of a stored message.
    "MSG_REGION",
    "TRACE_ON",
    "batchUniqId",
    // Java states the type of the filter even where it sends no filter.
    "expressionType",
    // Of a reset, where the table tells.
    "queueId",
];

/// Fields of a pull that have to be there but mean nothing without their flag; we write 0 then.
const UNFLAGGED: &[&str] = &["commitOffset", "suspendTimeoutMillis"];

/// Codes without a type of ours: POP, transactions, assignment by the broker, and one that does not exist.
const UNTYPED: &[i32] = &[37, 39, 400, 401, 3_442, 3_443, 9_999, 200_050, 200_051, 200_053];

/// Requests that lack what a broker needs; it answers them with an error too.
const INCOMPLETE: &[&str] = &["pull-missing-required", "route-missing-topic-field"];

fn golden(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "golden/frames", file]
        .iter()
        .collect()
}

/// All frames with their lines of the index, in order, put together from pieces of a session.
fn frames() -> Vec<(Value, Frame)> {
    let index = fs::read_to_string(golden("index.jsonl")).expect("the golden files are part of the crate");
    let mut links: BTreeMap<String, Reassembler> = BTreeMap::new();
    let mut frames = Vec::new();
    for line in index.lines() {
        let row: Value = serde_json::from_str(line).expect("one JSON value per line");
        let session = row["session"].as_str().expect("a session");
        let link = links.entry(session.into()).or_insert_with(|| {
            let bytes =
                fs::read(golden(&format!("{session}.bin"))).expect("the golden files are part of the crate");
            let mut link = Reassembler::new(FRAME_LEN_MAX);
            for piece in bytes.chunks(1_000) {
                link.push(Bytes::copy_from_slice(piece));
            }
            link
        });
        let frame = link
            .next_frame()
            .expect("good frames")
            .expect("one frame per line");
        frames.push((row, frame));
    }
    for (session, link) in &mut links {
        assert_eq!((link.next_frame(), link.want()), (Ok(None), 0), "{session}");
    }
    frames
}

#[test]
fn every_frame_says_what_the_index_says() {
    let frames = frames();
    assert!(frames.len() > 900);
    for (row, frame) in frames {
        let name = &row["name"];
        let header = Header::of(&frame).expect("a good header");
        let form = match frame.form {
            HeaderForm::Json => "JSON",
            HeaderForm::Rocketmq => "ROCKETMQ",
        };
        assert_eq!(row["serializeType"], form, "{name}");
        assert_eq!(row["bodyLength"], frame.body.len(), "{name}");
        says(&header, &row["header"], name);
        for form in [HeaderForm::Json, HeaderForm::Rocketmq] {
            let again = header.to_command(&frame.body).encode(form).expect("small enough");
            let again = Frame::parse(again, FRAME_LEN_MAX).expect("our own frame");
            // Codes of more than 16 bits exist in JSON only: POP is written so whatever was set.
            let form = if i16::try_from(header.code).is_ok() {
                form
            } else {
                HeaderForm::Json
            };
            assert_eq!((again.form, &again.body), (form, &frame.body), "{name}");
            let mut java = row["header"].clone();
            // Java may send an empty remark; we do not. In the binary form empty text does not exist.
            if java["remark"] == "" {
                java["remark"] = Value::Null;
            }
            if let Some(fields) = java["extFields"]
                .as_object_mut()
                .filter(|_| form == HeaderForm::Rocketmq)
            {
                fields.retain(|_, value| *value != "");
            }
            says(&Header::of(&again).expect("our own header"), &java, name);
        }
    }
}

fn says(header: &Header<'_>, java: &Value, name: &Value) {
    let ours = json!({
        "code": header.code,
        "language": header.language.map(Language::name),
        "version": header.version,
        "opaque": header.opaque,
        "flag": header.flag,
        "remark": header.remark,
        "extFields": header.ext.iter().collect::<BTreeMap<_, _>>(),
    });
    let mut java = java.clone();
    // Java tells no fields from none, and keeps those that are null.
    let fields = java["extFields"].take();
    let fields = fields.as_object().into_iter().flatten();
    java["extFields"] = fields
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    assert_eq!(ours, java, "{name}");
}

#[test]
fn every_request_and_answer_becomes_one_of_our_types() {
    let mut seen = BTreeSet::new();
    for (row, frame) in frames() {
        let asked = row["requestCode"]
            .as_i64()
            .and_then(|code| i32::try_from(code).ok());
        let asked = RequestCode(asked.expect("a code"));
        let kind = match asked {
            RequestCode::PULL_MESSAGE | RequestCode::LITE_PULL_MESSAGE => typed::<PullRequest>,
            RequestCode::SEND_MESSAGE | RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE => {
                typed::<SendRequest>
            }
            RequestCode::QUERY_CONSUMER_OFFSET => typed::<QueryOffsetRequest>,
            RequestCode::UPDATE_CONSUMER_OFFSET => typed::<CommitOffsetRequest>,
            RequestCode::SEARCH_OFFSET_BY_TIMESTAMP => typed::<SearchOffsetRequest>,
            RequestCode::GET_MAX_OFFSET => typed::<MaxOffsetRequest>,
            RequestCode::GET_MIN_OFFSET => typed::<MinOffsetRequest>,
            RequestCode::HEART_BEAT => typed::<HeartbeatRequest>,
            RequestCode::UNREGISTER_CLIENT => typed::<UnregisterRequest>,
            RequestCode::CONSUMER_SEND_MSG_BACK => typed::<SendBackRequest>,
            RequestCode::GET_CONSUMER_LIST_BY_GROUP => typed::<MemberListRequest>,
            RequestCode::NOTIFY_CONSUMER_IDS_CHANGED => typed::<MembersChanged>,
            RequestCode::GET_ROUTEINFO_BY_TOPIC => typed::<RouteRequest>,
            RequestCode::RESET_CONSUMER_CLIENT_OFFSET => typed::<ResetOffsetRequest>,
            RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT => typed::<ConsumerStatusRequest>,
            RequestCode::GET_CONSUMER_RUNNING_INFO => typed::<RunningInfoRequest>,
            RequestCode::CONSUME_MESSAGE_DIRECTLY => typed::<ConsumeDirectlyRequest>,
            RequestCode::LOCK_BATCH_MQ => typed::<LockRequest>,
            RequestCode::UNLOCK_BATCH_MQ => typed::<UnlockRequest>,
            RequestCode::CHECK_CLIENT_CONFIG => typed::<CheckSubscriptionRequest>,
            RequestCode::GET_CONSUMER_CONNECTION_LIST => typed::<ConnectionsRequest>,
            RequestCode::INVOKE_BROKER_TO_RESET_OFFSET => typed::<OperatorResetRequest>,
            RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => typed::<GroupStatusRequest>,
            RequestCode::GET_BROKER_CLUSTER_INFO => typed::<ClusterInfoRequest>,
            RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => typed::<UpdateGroupRequest>,
            RequestCode(code) => {
                assert!(UNTYPED.contains(&code), "{}", row["name"]);
                continue;
            }
        };
        kind(&row, &frame);
        seen.insert((asked, row["part"] == "response"));
    }
    // 25 codes and their answers, and 2 that nobody answers.
    assert_eq!(seen.len(), 52, "{seen:?}");
}

/// What a consumer is given to deliver, against what the Java client made of it.
#[test]
fn messages_in_answers_are_those_java_read() {
    let mut messages = 0;
    for (row, frame) in frames() {
        let name = &row["name"];
        let mut java = row["messages"].as_array().into_iter().flatten();
        if row["messages"].is_null() {
            continue;
        }
        for scanned in Scanner::new(&frame.body) {
            let Scanned::Message(entry) = scanned else {
                panic!("{name}: {scanned:?}")
            };
            let record = Record::new(&frame.body, entry);
            let body = frame.body.slice(entry.body_range());
            let (flag, crc) = (record.sys_flag(), record.body_crc());
            let body = Body::decode(&body, flag, crc, BodyLimits::default(), CrcPolicy::Reject);
            let body = body.expect("brokers fill the checksum in").bytes;
            let ours = json!({
                "topic": record.topic(),
                "queueId": record.queue_id().0,
                "queueOffset": record.queue_offset().0,
                "msgId": record.msg_id(),
                "offsetMsgId": record.offset_msg_id(),
                "tags": record.tags(),
                "keys": record.keys(),
                "reconsumeTimes": record.reconsume_times(),
                "bodyText": String::from_utf8_lossy(&body),
            });
            assert_eq!(Some(&ours), java.next(), "{name}");
            messages += 1;
        }
        assert_eq!(java.next(), None, "{name}");
    }
    assert!(messages > 200, "{messages}");
}

fn typed<R>(row: &Value, frame: &Frame)
where
    R: Request + Debug + PartialEq,
    R::Answer: Debug + PartialEq,
{
    if row["part"] == "response" {
        answer::<R>(row, frame);
    } else {
        request::<R>(row, frame);
    }
}

fn request<R: Request + Debug + PartialEq>(row: &Value, frame: &Frame) {
    let (name, step) = (&row["name"], row["step"].as_str().unwrap_or_default());
    let header = Header::of(frame).expect("a good header");
    let request = match decode_request::<R>(frame) {
        Ok(request) => request,
        Err(error) => {
            assert!(INCOMPLETE.contains(&step), "{name} ({step}): {error}");
            return;
        }
    };
    assert_eq!(request.code().0, header.code, "{name}");
    for form in [HeaderForm::Json, HeaderForm::Rocketmq] {
        let again = encode_request(form, header.opaque, header.is_oneway(), &request).expect("small enough");
        let again = Frame::parse(again, FRAME_LEN_MAX).expect("our own frame");
        assert_eq!(decode_request::<R>(&again).as_ref(), Ok(&request), "{name}");
        says_the_same(&header, &Header::of(&again).expect("our own header"), name);
        same_body(row, &again.body);
    }
}

fn answer<R: Request>(row: &Value, frame: &Frame)
where
    R::Answer: Debug + PartialEq,
{
    let name = &row["name"];
    let header = Header::of(frame).expect("a good header");
    match decode_answer::<R>(frame) {
        Ok(answer) => {
            assert_eq!(answer.code().0, header.code, "{name}");
            let again = encode_answer(frame.form, header.opaque, &answer).expect("small enough");
            let again = Frame::parse(again, FRAME_LEN_MAX).expect("our own frame");
            assert_eq!(decode_answer::<R>(&again).as_ref(), Ok(&answer), "{name}");
            says_the_same(&header, &Header::of(&again).expect("our own header"), name);
            same_body(row, &again.body);
        }
        Err(AnswerError::Refused { code, remark }) => {
            assert_ne!(code, ResponseCode::SUCCESS);
            assert_eq!(
                (row["code"].as_i64(), row["header"]["remark"].as_str()),
                (Some(code.0.into()), Some(&*remark))
            );
            let again = encode_refusal(frame.form, header.opaque, code, &remark).expect("small enough");
            let again = Frame::parse(again, FRAME_LEN_MAX).expect("our own frame");
            assert_eq!(
                decode_answer::<R>(&again),
                Err(AnswerError::Refused { code, remark }),
                "{name}"
            );
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// What Java wrote is what we write, but for the fields that are not kept.
fn says_the_same(java: &Header<'_>, ours: &Header<'_>, name: &Value) {
    assert_eq!(
        (ours.code, ours.opaque, ours.flag),
        (java.code, java.opaque, java.flag),
        "{name}"
    );
    for (field, value) in java.ext.iter() {
        match ours.ext.get(field) {
            // Empty text does not exist in the binary form.
            None => assert!(
                NOT_KEPT.contains(&field) || value.is_empty(),
                "{name}: {field} is lost"
            ),
            Some("0") if UNFLAGGED.contains(&field) && java.ext.get("sysFlag").is_some() => {}
            Some(again) => assert_eq!(again, value, "{name}: {field}"),
        }
    }
}

/// What we write as a body is what Java read from the original.
fn same_body(row: &Value, ours: &[u8]) {
    let Some(java) = row.get("body").filter(|body| !body.is_null()) else {
        return;
    };
    let mut java = java.clone();
    let mut ours: Value = fastjson::from_slice(ours).expect("our own JSON");
    for side in [&mut java, &mut ours] {
        normalise(side);
    }
    assert_eq!(ours, java, "{}", row["name"]);
}

/// Takes out how the index tells things differently: maps named by objects, sets, and what our types
/// do not keep.
fn normalise(body: &mut Value) {
    if let Some(body) = body.as_object_mut() {
        if let Some(producers) = body.remove("producerDataSet") {
            let groups = producers.as_array().into_iter().flatten();
            let groups = groups.map(|producer| producer["groupName"].clone()).collect();
            body.insert("producerGroups".into(), groups);
        }
        for unkept in ["filterServerTable", "consumerTable", "spentTimeMills"] {
            body.remove(unkept);
        }
    }
    visit(body);
}

fn visit(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(visit);
            // The index shows an empty map named by objects as a list.
            if members.is_empty() {
                *value = json!([]);
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(visit);
            // Our reader makes pairs of the entries of a map named by objects.
            if let [key @ Value::Object(_), entry @ Value::Number(_)] = &items[..] {
                *value = json!({ "key": key, "value": entry });
            } else {
                items.sort_by_key(Value::to_string);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
