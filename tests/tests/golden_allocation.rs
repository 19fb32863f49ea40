//! Shares and sort orders, against the answers of the Java client in `golden/allocation`. Bit by
//! bit: members of a mixed group that disagree own a queue twice or not at all.

use std::fs;

use rocketmq_consumer_core::allocate::{AllocateError, AllocateStrategy, sort_members, sort_queues};
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

#[test]
fn averagely() {
    let rows = rows("averagely.jsonl");
    assert_eq!(rows.len(), 61);
    for row in rows {
        let topic = &row["topic"];
        let queues = list(&row["mqAll"], |pair| queue(topic, &pair[0], &pair[1]));
        let members = list(&row["cidAll"], client);
        let own = client(&row["currentCid"]);
        let share = AllocateStrategy::Averagely.allocate(&queues, &members, &own);
        match share {
            Ok(share) => {
                let expected = list(&row["result"], |pair| queue(topic, &pair[0], &pair[1]));
                assert!(row["result"].is_array(), "Java refuses {row}");
                assert_eq!(share, expected, "{}", row["id"]);
            }
            Err(error) => {
                let message = match error {
                    AllocateError::EmptyClientId => "currentCID is empty",
                    AllocateError::NoQueues => "mqAll is null or mqAll empty",
                    AllocateError::NoMembers => "cidAll is null or cidAll empty",
                    other => panic!("{other} is new to this test"),
                };
                assert_eq!(row["message"], message, "{}", row["id"]);
            }
        }
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
