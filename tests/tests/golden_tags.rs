//! Hash codes, subscription expressions and the client's own filter, against the answers of the Java
//! client in `golden/tags`.

use std::collections::BTreeSet;
use std::fs;

use rocketmq_consumer_core::wire::subscription::{
    ExpressionType, Subscription, SubscriptionError, java_hash,
};
use serde_json::Value;

fn rows(file: &str) -> Vec<Value> {
    let path = format!("{}/golden/tags/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("a file of this repository");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

fn set<T: Ord>(array: &Value, item: impl Fn(&Value) -> Option<T>) -> BTreeSet<T> {
    let items = array.as_array().expect("an array");
    items.iter().map(|value| item(value).expect("an item")).collect()
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(Into::into)
}

fn code(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

#[test]
fn hash_codes() {
    let rows = rows("hashcode.jsonl");
    assert_eq!(rows.len(), 84);
    for row in rows {
        let text = row["string"].as_str().expect("a string");
        assert_eq!(Some(java_hash(text)), code(&row["hashCode"]), "{row}");
        assert_eq!(Some(java_hash(text)), code(&row["tagsCode"]), "{row}");
    }
}

#[test]
fn expressions() {
    let rows = rows("subscription.jsonl");
    assert_eq!(rows.len(), 88);
    for row in rows {
        // Null is Java's empty: no expression, and tags for want of a type.
        let expression = row["expression"].as_str().unwrap_or_default();
        let kind = row.get("type").and_then(Value::as_str).unwrap_or("TAG");
        let Some(kind) = ExpressionType::parse(kind) else {
            // Java sends any type and no broker understands these: here they have no value.
            assert!(["tag", "", "REGEX"].contains(&kind), "{row}");
            continue;
        };
        let topic = row["topic"].as_str().expect("a topic");
        let subscription = match Subscription::new(topic.into(), kind, expression) {
            Ok(subscription) => subscription,
            Err(error) => {
                let message = match error {
                    SubscriptionError::NoTag => "subString split error",
                    SubscriptionError::EmptySql => "Expression can't be null! SQL92",
                    other => panic!("{other} is new to this test"),
                };
                assert_eq!(row["message"], message, "{row}");
                continue;
            }
        };
        let result = row.get("result").unwrap_or_else(|| panic!("Java refuses {row}"));
        assert_eq!(result["topic"], subscription.topic.as_str(), "{row}");
        assert_eq!(result["subString"], subscription.expression.as_str(), "{row}");
        assert_eq!(result["expressionType"], subscription.kind.as_str(), "{row}");
        assert_eq!(set(&result["tagsSet"], string), subscription.tags, "{row}");
        assert_eq!(set(&result["codeSet"], code), subscription.codes, "{row}");
    }
}

#[test]
fn client_filter() {
    let rows = rows("client_filter.jsonl");
    assert_eq!(rows.len(), 7);
    for row in rows {
        let expression = row["expression"].as_str().expect("an expression");
        let subscription = Subscription::tagged("TopicX".into(), expression).expect("a legal expression");
        let passed: Vec<usize> = row["messageTags"]
            .as_array()
            .expect("an array")
            .iter()
            .enumerate()
            // An empty tag is lost when a message is written: it arrives as none.
            .filter(|(_, tag)| subscription.matches(tag.as_str().filter(|tag| !tag.is_empty())))
            .map(|(index, _)| index)
            .collect();
        assert_eq!(row["passedIndexes"], Value::from(passed), "{row}");
    }
}
