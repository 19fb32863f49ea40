//! Shares and sort orders, against the answers of the Java client in `golden/allocation`. Bit by
//! bit: members of a mixed group that disagree own a queue twice or not at all.

use std::collections::BTreeMap;
use std::fs;

use rocketmq_consumer_core::allocate::{
    AllocateError, AllocateStrategy, ListedQueue, Otherwise, RoomRule, VIRTUAL_NODES, sort_members,
    sort_queues,
};
use rocketmq_consumer_core::ids::{ClientId, MessageQueue, QueueId};
use rocketmq_consumer_core::wire::subscription::java_hash;
use serde_json::Value;

fn rows(file: &str) -> Vec<Value> {
    let path = format!("{}/golden/allocation/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("a file of this repository");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

/// The items of an array; null is Java's empty list.
fn list<T>(array: &Value, item: impl Fn(&Value) -> T) -> Vec<T> {
    array
        .as_array()
        .map(|items| items.iter().map(item).collect())
        .unwrap_or_default()
}

fn queue(topic: &Value, broker: &Value, id: &Value) -> MessageQueue {
    MessageQueue {
        topic: topic.as_str().expect("a topic").into(),
        broker: broker.as_str().expect("a broker name").into(),
        id: QueueId(id.as_i64().and_then(|id| id.try_into().ok()).expect("a queue id")),
    }
}

fn client(id: &Value) -> ClientId {
    id.as_str().unwrap_or_default().into()
}

/// The strategy a row was answered by. A `CONFIG` that was never given a list has none.
fn strategy(name: &str, params: &Value, topic: &Value) -> Option<AllocateStrategy> {
    let texts = |key: &str| list(&params[key], |item| Box::from(item.as_str().expect("a text")));
    Some(match name {
        "AVG" | "AVG_BY_CIRCLE" => name.parse().expect("a known name"),
        "CONSISTENT_HASH" => AllocateStrategy::ConsistentHash {
            virtual_nodes: params["virtualNodeCnt"]
                .as_u64()
                .map_or(VIRTUAL_NODES, |count| u32::try_from(count).expect("a small one")),
        },
        "MACHINE_ROOM" => AllocateStrategy::MachineRoom {
            rooms: texts("consumeridcs").into_iter().collect(),
        },
        "CONFIG" => AllocateStrategy::Config {
            queues: params["messageQueueList"]
                .as_array()?
                .iter()
                .map(|pair| queue(topic, &pair[0], &pair[1]))
                .map(|MessageQueue { topic, broker, id }| ListedQueue {
                    topic: Some(topic),
                    broker,
                    id,
                })
                .collect(),
        },
        nearby => {
            let inner = params["inner"].as_str().expect("a strategy inside");
            assert_eq!(nearby, format!("MACHINE_ROOM_NEARBY-{inner}"));
            let room = params["room"].as_str().expect("a sentence");
            let otherwise = room
                .strip_prefix("text before the first '-', ")
                .and_then(|rest| rest.strip_suffix(" if there is none"));
            AllocateStrategy::Nearby {
                rooms: RoomRule {
                    named: Vec::new(),
                    before: Some('-'),
                    otherwise: match otherwise {
                        Some("whole text") => Otherwise::Whole,
                        Some("null") => Otherwise::Refuse,
                        Some("one blank") => Otherwise::Room(" ".into()),
                        _ => panic!("{room:?} is new to this test"),
                    },
                },
                inner: Box::new(strategy(inner, params, topic)?),
            }
        }
    })
}

/// In Java's words.
fn message(error: &AllocateError) -> String {
    match error {
        AllocateError::EmptyClientId => "currentCID is empty".into(),
        AllocateError::NoQueues => "mqAll is null or mqAll empty".into(),
        AllocateError::NoMembers => "cidAll is null or cidAll empty".into(),
        AllocateError::NoRoom(message) => message.clone(),
        other @ (AllocateError::RingTooLarge | AllocateError::Own(_) | _) => {
            panic!("{other} is new to this test")
        }
    }
}

#[test]
fn strategies() {
    let rows = rows("strategies.jsonl");
    assert_eq!(rows.len(), 288);
    let mut answered = BTreeMap::<String, usize>::new();
    for row in rows {
        let name = row["strategy"].as_str().expect("a name").to_owned();
        if row["id"].as_str().is_some_and(|id| id.starts_with("alloc-ctor-")) {
            continue;
        }
        let topic = &row["topic"];
        *answered.entry(name.clone()).or_default() += 1;
        let Some(strategy) = strategy(&name, &row["params"], topic) else {
            assert_eq!(row.get("result"), Some(&Value::Null), "{}", row["id"]);
            continue;
        };
        assert_eq!(strategy.name(), name);
        let queues = list(&row["mqAll"], |pair| queue(topic, &pair[0], &pair[1]));
        let members = list(&row["cidAll"], client);
        let own = client(&row["currentCid"]);
        match strategy.allocate(&queues, &members, &own) {
            Ok(share) => {
                let expected = list(&row["result"], |pair| queue(topic, &pair[0], &pair[1]));
                assert!(row["result"].is_array(), "Java refuses {row}");
                assert_eq!(share, expected, "{}", row["id"]);
            }
            Err(error) => assert_eq!(row["message"], message(&error), "{}", row["id"]),
        }
    }
    let answered: Vec<(&str, usize)> = answered
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    let expected = [
        ("AVG", 61),
        ("AVG_BY_CIRCLE", 61),
        ("CONFIG", 13),
        ("CONSISTENT_HASH", 68),
        ("MACHINE_ROOM", 34),
        ("MACHINE_ROOM_NEARBY-AVG", 38),
        ("MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE", 10),
    ];
    assert_eq!(answered, expected);
}

/// Constructors that throw in Java: what they complain of cannot be written here, or the check refuses it.
#[test]
fn constructors() {
    let rows = rows("strategies.jsonl");
    let ids: Vec<_> = rows
        .iter()
        .filter_map(|row| row["id"].as_str()?.strip_prefix("alloc-ctor-"))
        .collect();
    assert_eq!(ids, ["innerNull", "resolverNull", "negative"]);
    for text in ["hash:-1", "near/", "near:"] {
        assert!(text.parse::<AllocateStrategy>().is_err(), "{text}");
    }
}

#[test]
fn sorting() {
    let rows = rows("sorting.jsonl");
    assert_eq!(rows.len(), 32);
    for row in rows {
        match row["kind"].as_str() {
            Some("queues") => {
                let read = |array| list(array, |item| queue(&item[0], &item[1], &item[2]));
                let mut queues = read(&row["input"]);
                sort_queues(&mut queues);
                assert_eq!(queues, read(&row["sorted"]), "{}", row["id"]);
            }
            Some("clientIds") => {
                let mut members = list(&row["input"], client);
                sort_members(&mut members);
                assert_eq!(members, list(&row["sorted"], client), "{}", row["id"]);
            }
            Some("queueText") => {
                let queue = queue(&row["topic"], &row["brokerName"], &row["queueId"]);
                let text = format!(
                    "MessageQueue [topic={}, brokerName={}, queueId={}]",
                    queue.topic, queue.broker, queue.id
                );
                assert_eq!(row["text"], text.as_str());
                let hash = [
                    java_hash(queue.broker.as_str()),
                    queue.id.0,
                    java_hash(queue.topic.as_str()),
                ]
                .into_iter()
                .fold(1_i32, |hash, field| hash.wrapping_mul(31).wrapping_add(field));
                assert_eq!(row["hashCode"], hash, "{}", row["id"]);
            }
            other => panic!("{other:?} is new to this test"),
        }
    }
}
