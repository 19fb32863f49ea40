//! Strategies as the allocation vectors write them: Java's name, and an object of parameters.
//!
//! ```text
//! CONSISTENT_HASH        {"virtualNodeCnt": 20}
//! MACHINE_ROOM           {"consumeridcs": ["r1", "r2"]}
//! CONFIG                 {"messageQueueList": [["broker-a", 0]]}          null: never given a list
//! MACHINE_ROOM_NEARBY-…  {"inner": "AVG", "room": "text before the first '-', whole text if there is none"}
//!                                                 or null, or one blank, if there is none; or a rule of `near:`
//! ```
//!
//! Any strategy that `--strategy` takes does too. What is given here is not checked against the limits of a
//! configuration: Java has none.

use rocketmq_consumer_core::allocate::{AllocateStrategy, ListedQueue, Otherwise, RoomRule, VIRTUAL_NODES};
use rocketmq_consumer_core::ids::{QueueId, Topic};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The strategy; `None` is a `CONFIG` without a list, which has no answer.
///
/// # Errors
/// What cannot be understood.
pub(super) fn strategy(
    name: &str,
    params: &Value,
    topic: &Topic,
) -> Result<Option<AllocateStrategy>, String> {
    Ok(Some(match name {
        "CONSISTENT_HASH" => AllocateStrategy::ConsistentHash {
            virtual_nodes: read(params, "virtualNodeCnt")?.unwrap_or(VIRTUAL_NODES),
        },
        "MACHINE_ROOM" => AllocateStrategy::MachineRoom {
            rooms: read(params, "consumeridcs")?.ok_or("params: consumeridcs is missing")?,
        },
        "CONFIG" => {
            let Some(list) = read::<Vec<(String, i32)>>(params, "messageQueueList")? else {
                return Ok(None);
            };
            let listed = |(broker, id): (String, i32)| ListedQueue {
                topic: Some(topic.clone()),
                broker: broker.into(),
                id: QueueId(id),
            };
            AllocateStrategy::Config {
                queues: list.into_iter().map(listed).collect(),
            }
        }
        _ => match name.strip_prefix("MACHINE_ROOM_NEARBY") {
            Some(suffix) if params.get("room").is_some() => {
                return nearby(suffix.strip_prefix('-'), params, topic);
            }
            Some(_) | None => name.parse().map_err(|error| format!("{name}: {error}"))?,
        },
    }))
}

fn nearby(name: Option<&str>, params: &Value, topic: &Topic) -> Result<Option<AllocateStrategy>, String> {
    let named: Option<String> = read(params, "inner")?;
    let inner = named.as_deref().or(name).unwrap_or("AVG");
    if inner.starts_with("MACHINE_ROOM_NEARBY") {
        return Err("params: rooms nearby cannot stand inside of each other".into());
    }
    let room: String = read(params, "room")?.ok_or("params: room is missing")?;
    let Some(inner) = strategy(inner, params, topic)? else {
        return Ok(None);
    };
    let rooms = room_rule(&room).ok_or_else(|| format!("params: {room:?} is no rule that is known here"))?;
    Ok(Some(AllocateStrategy::Nearby {
        rooms,
        inner: Box::new(inner),
    }))
}

/// The sentence of the vectors, or the short form of `--strategy`.
fn room_rule(text: &str) -> Option<RoomRule> {
    let Some(rest) = text.strip_prefix("text before the first '") else {
        return match format!("near:{text}").parse() {
            Ok(AllocateStrategy::Nearby { rooms, .. }) => Some(rooms),
            _ => None,
        };
    };
    let mut chars = rest.chars();
    let before = chars.next();
    let otherwise = chars
        .as_str()
        .strip_prefix("', ")?
        .strip_suffix(" if there is none")?;
    Some(RoomRule {
        named: Vec::new(),
        before,
        otherwise: match otherwise {
            "whole text" => Otherwise::Whole,
            "null" => Otherwise::Refuse,
            "one blank" => Otherwise::Room(" ".into()),
            _ => return None,
        },
    })
}

/// A parameter; null is as good as missing.
fn read<T: DeserializeOwned>(params: &Value, key: &str) -> Result<Option<T>, String> {
    match params.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value)
            .map(Some)
            .map_err(|error| format!("params: {key}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(name: &str, params: &str) -> Result<Option<String>, String> {
        let params = serde_json::from_str(params).unwrap();
        let strategy = strategy(name, &params, &"T".into())?;
        Ok(strategy.map(|strategy| strategy.to_string()))
    }

    #[test]
    fn vectors_name_java_and_give_parameters() {
        for (name, params, shown) in [
            ("AVG", "{}", "avg"),
            ("AVG_BY_CIRCLE", "null", "circle"),
            ("CONSISTENT_HASH", "{}", "hash:10"),
            ("CONSISTENT_HASH", r#"{"virtualNodeCnt":0}"#, "hash:0"),
            ("hash:3", "{}", "hash:3"),
            ("MACHINE_ROOM", r#"{"consumeridcs":["b","a"]}"#, "room:a,b"),
            ("CONFIG", r#"{"messageQueueList":[["a",1]]}"#, "config:T/a:1"),
            (
                "MACHINE_ROOM_NEARBY-AVG",
                r#"{"inner":"AVG","room":"text before the first '-', whole text if there is none"}"#,
                "near:before=-,else=*/avg",
            ),
            (
                "MACHINE_ROOM_NEARBY-CONSISTENT_HASH",
                r#"{"virtualNodeCnt":4,"room":"text before the first '@', null if there is none"}"#,
                "near:before=@/hash:4",
            ),
            (
                "MACHINE_ROOM_NEARBY-AVG",
                r#"{"inner":"AVG_BY_CIRCLE","room":"text before the first '-', one blank if there is none"}"#,
                "near:before=-,else= /circle",
            ),
            (
                "MACHINE_ROOM_NEARBY-AVG",
                r#"{"room":"a=r,else=q"}"#,
                "near:a=r,else=q/avg",
            ),
            ("MACHINE_ROOM_NEARBY-AVG", "{}", "near:before=-,else=*/avg"),
        ] {
            assert_eq!(read_as(name, params), Ok(Some(shown.into())), "{name} {params}");
        }
        assert_eq!(read_as("CONFIG", r#"{"messageQueueList":null}"#), Ok(None));
    }

    #[test]
    fn what_cannot_be_understood_says_why() {
        for (name, params, why) in [
            ("MOON", "{}", "MOON: unknown allocation strategy"),
            (
                "CONSISTENT_HASH",
                r#"{"virtualNodeCnt":-1}"#,
                "params: virtualNodeCnt: invalid value",
            ),
            ("MACHINE_ROOM", "{}", "params: consumeridcs is missing"),
            (
                "CONFIG",
                r#"{"messageQueueList":3}"#,
                "params: messageQueueList: invalid type",
            ),
            (
                "MACHINE_ROOM_NEARBY-AVG",
                r#"{"room":"by the moon"}"#,
                "params: \"by the moon\" is no rule",
            ),
            (
                "MACHINE_ROOM_NEARBY-AVG",
                r#"{"inner":"MACHINE_ROOM_NEARBY-AVG","room":"a=b"}"#,
                "params: rooms nearby cannot stand",
            ),
        ] {
            let error = read_as(name, params).unwrap_err();
            assert!(error.starts_with(why), "{name} {params}: {error}");
        }
    }
}
