//! Bodies and requests that several chapters send.

use serde_json::{Value, json};

use crate::broker_conformance::step::Ask;

/// Born then, says every message of the script: long before any run.
const BORN: &str = "1700000000000";

/// Asks for a message to be stored (310). Properties are written `NAME=value;NAME=value`.
pub(super) fn send(topic: &str, queue: i32, body: &str, properties: &str) -> Ask {
    let ask = Ask::new(
        310,
        &format!("a=script b={topic} c=TBW102 d=4 e={queue} f=0 g={BORN} h=0 j=0 k=false m=false"),
    )
    .body(body);
    if properties.is_empty() {
        ask
    } else {
        ask.field("i", &stored_properties(properties))
    }
}

/// The same with the long names of code 10.
pub(super) fn send_v1(topic: &str, queue: i32, body: &str, properties: &str) -> Ask {
    let fields = format!(
        "producerGroup=script topic={topic} defaultTopic=TBW102 defaultTopicQueueNums=4 queueId={queue} sysFlag=0 \
         bornTimestamp={BORN} flag=0 reconsumeTimes=0 unitMode=false batch=false"
    );
    Ask::new(10, &fields)
        .field("properties", &stored_properties(properties))
        .body(body)
}

/// Many messages at once (320).
pub(super) fn send_batch(topic: &str, queue: i32, bodies: &[(String, &str)]) -> Ask {
    let entries = bodies
        .iter()
        .flat_map(|(body, properties)| batch_entry(body, properties));
    let ask = send(topic, queue, "", "")
        .body(entries.collect::<Vec<u8>>())
        .field("m", "true");
    Ask { code: 320, ..ask }
}

fn batch_entry(body: &str, properties: &str) -> Vec<u8> {
    const FIXED: usize = 22;
    let properties = stored_properties(properties);
    let word = |length: usize| {
        i32::try_from(length)
            .expect("an entry of the script is small")
            .to_be_bytes()
    };
    let mut out = Vec::new();
    out.extend(word(FIXED + body.len() + properties.len()));
    out.extend([0; 12]);
    out.extend(word(body.len()));
    out.extend(body.as_bytes());
    let length = i16::try_from(properties.len()).expect("properties of the script are small");
    out.extend(length.to_be_bytes());
    out.extend(properties.as_bytes());
    out
}

fn stored_properties(text: &str) -> String {
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| format!("{name}\u{1}{value}\u{2}"))
        .collect()
}

/// A pull (11) that does not wait: offset as given, 32 messages, no bit set.
pub(super) fn pull(group: &str, topic: &str, queue: i32, offset: i64) -> Ask {
    let fields = format!(
        "consumerGroup={group} topic={topic} queueId={queue} queueOffset={offset} maxMsgNums=32 sysFlag=0 \
         commitOffset=0 suspendTimeoutMillis=0 subVersion=1 expressionType=TAG"
    );
    Ask::new(11, &fields)
}

/// A pull that brings its own subscription and so needs no heartbeat.
pub(super) fn pull_inline(group: &str, topic: &str, offset: i64, expression: &str) -> Ask {
    pull(group, topic, 0, offset)
        .field("sysFlag", "4")
        .field("subscription", expression)
}

/// A pull that may be held for so many milliseconds.
pub(super) fn hold(group: &str, topic: &str, queue: i32, offset: i64, suspend: u64) -> Ask {
    pull(group, topic, queue, offset)
        .field("sysFlag", "2")
        .field("suspendTimeoutMillis", &suspend.to_string())
}

/// One topic of a subscription: its name, its tag expression, its version.
pub(super) type Subscribed<'a> = (&'a str, &'a str, i64);

/// A heartbeat (34) of one member of one group.
pub(super) fn heartbeat(client: &str, group: &str, topics: &[Subscribed<'_>]) -> Ask {
    heartbeat_as(client, group, "CLUSTERING", topics)
}

/// The same under another message model.
pub(super) fn heartbeat_as(client: &str, group: &str, model: &str, topics: &[Subscribed<'_>]) -> Ask {
    let subscriptions: Vec<Value> = topics.iter().map(|one| subscription(*one)).collect();
    let body = json!({
        "clientID": client, "heartbeatFingerprint": 0, "withoutSub": false, "producerDataSet": [],
        "consumerDataSet": [{
            "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": model,
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": false,
            "subscriptionDataSet": subscriptions,
        }],
    });
    Ask::new(34, "").body(body.to_string())
}

fn subscription((topic, expression, version): Subscribed<'_>) -> Value {
    let tags: Vec<&str> = expression
        .split("||")
        .map(str::trim)
        .filter(|tag| *tag != "*")
        .collect();
    let codes: Vec<i32> = tags.iter().map(|tag| tag_code(tag)).collect();
    json!({
        "classFilterMode": false, "topic": topic, "subString": expression, "tagsSet": tags, "codeSet": codes,
        "subVersion": version, "expressionType": "TAG",
    })
}

/// Java's `String.hashCode`.
fn tag_code(tag: &str) -> i32 {
    tag.encode_utf16().fold(0, |code: i32, unit| {
        code.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// Locks (41) or unlocks (42) queues of the broker `broker-a`.
pub(super) fn locks(code: i32, client: &str, group: &str, queues: &[(&str, i32)]) -> Ask {
    let queues: Vec<Value> = queues
        .iter()
        .map(|(topic, queue)| json!({ "brokerName": super::BROKER_NAME, "queueId": queue, "topic": topic }))
        .collect();
    let body =
        json!({ "clientId": client, "consumerGroup": group, "mqSet": queues, "onlyThisBroker": false });
    Ask::new(code, "").body(body.to_string())
}

/// Asks for the stored offset (14).
pub(super) fn query_offset(group: &str, topic: &str, queue: i32) -> Ask {
    Ask::new(
        14,
        &format!("consumerGroup={group} topic={topic} queueId={queue}"),
    )
}

/// Commits an offset (15).
pub(super) fn commit(group: &str, topic: &str, queue: i32, offset: i64) -> Ask {
    Ask::new(
        15,
        &format!("consumerGroup={group} topic={topic} queueId={queue} commitOffset={offset}"),
    )
}

/// Creates or changes a topic (17).
pub(super) fn put_topic(topic: &str, queues: u32, perm: u32) -> Ask {
    let fields = format!(
        "topic={topic} defaultTopic=TBW102 readQueueNums={queues} writeQueueNums={queues} perm={perm} \
         topicFilterType=SINGLE_TAG topicSysFlag=0 order=false"
    );
    Ask::new(17, &fields)
}
