//! Notices as JSON lines: `--events`.

use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::notice::Notice;
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The line of a notice.
///
/// Eight kinds have an event name of their own; of the others `event` is `notice` and `kind` tells
/// which. Times are Unix milliseconds, lengths of time end in `_ms`.
#[derive(Debug)]
pub(crate) struct EventLine {
    members: Vec<(String, Value)>,
}

impl EventLine {
    /// `event`, `at` in Unix milliseconds, the queue as `topic`, `broker` and `queue_id`, then whatever
    /// else the notice says.
    pub(crate) fn new(notice: &Notice, unix_ms: i64) -> Self {
        let (name, fields) = parts(notice);
        let clock = |at: u64| {
            let before = notice.at.as_micros().saturating_sub(at) / 1000;
            unix_ms.saturating_sub(i64::try_from(before).unwrap_or(i64::MAX))
        };
        let mut line = Self { members: Vec::new() };
        match name.as_str() {
            "Ready" | "Assigned" | "Revoked" | "Held" | "Retry" => line.push("event", snake(&name)),
            "Committed" => line.push("event", "commit"),
            "QueueStalled" => line.push("event", "stalled"),
            "QueueMoves" => line.push("event", "moves"),
            _ => line.push("event", "notice"),
        }
        line.push("at", unix_ms);
        if line.is_plain_notice() {
            line.push("kind", snake(&name));
        }
        if let Some(group) = &notice.group {
            line.push("group", group.as_str());
        }
        for (key, value) in fields {
            // Of a message that cannot be read the reason is a sentence.
            let is_name = matches!(name.as_str(), "Held" | "QueueStalled" | "Retry");
            line.push_field(&key, value, is_name, &clock);
        }
        if notice.repeated > 0 {
            line.push("repeated", notice.repeated);
        }
        line
    }

    fn is_plain_notice(&self) -> bool {
        self.members.first().is_some_and(|(_, event)| event == "notice")
    }

    fn push(&mut self, key: &str, value: impl Into<Value>) {
        self.members.push((key.into(), value.into()));
    }

    fn push_field(&mut self, key: &str, value: Value, is_name: bool, clock: &impl Fn(u64) -> i64) {
        match (key, value) {
            ("queue", Value::Object(mut queue)) => {
                for (from, to) in [("topic", "topic"), ("broker", "broker"), ("id", "queue_id")] {
                    self.push(to, queue.remove(from).unwrap_or_default());
                }
            }
            ("reason" | "path", Value::String(word)) if is_name => self.push(key, snake(&word)),
            ("reason", Value::Object(reason)) if is_name => self.push_reason(reason, clock),
            ("since" | "oldest", Value::Number(at)) => self.push(key, at.as_u64().map(clock)),
            (_, Value::Object(time)) if time.contains_key("nanos") => {
                self.push(&format!("{key}_ms"), millis(&time));
            }
            ("cause", cause) => self.push("cause", cause_name(&cause)),
            ("filter", Value::Object(filter)) => {
                for (kind, text) in filter {
                    self.push("filter_type", if kind == "Tags" { "TAG" } else { "SQL92" });
                    self.push(key, text);
                }
            }
            // Addresses are text everywhere else.
            ("addr", Value::Object(addr)) => self.push("addr", address(&addr)),
            (_, value) => self.push(key, value),
        }
    }
}

impl EventLine {
    /// `{"Handlers": {…}}` as `"reason": "handlers"` and what stands in it; `{"Held": "LinkDown"}` as the
    /// reason of that hold.
    fn push_reason(&mut self, reason: Map<String, Value>, clock: &impl Fn(u64) -> i64) {
        for (name, value) in reason {
            match value {
                Value::String(hold) => self.push("reason", snake(&hold)),
                Value::Object(fields) => {
                    self.push("reason", snake(&name));
                    for (key, value) in fields {
                        self.push_field(&key, value, false, clock);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                    self.push("reason", snake(&name));
                }
            }
        }
    }

    /// The line that says how many notices came too fast to be passed on.
    pub(crate) fn missed(count: u64, unix_ms: i64) -> Self {
        let mut line = Self { members: Vec::new() };
        line.push("event", "missed");
        line.push("at", unix_ms);
        line.push("count", count);
        line
    }
}

impl Serialize for EventLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.members.iter().map(|(key, value)| (key, value)))
    }
}

/// A length of time as serde writes it, in milliseconds.
fn millis(time: &Map<String, Value>) -> u64 {
    let part = |name| time.get(name).and_then(Value::as_u64).unwrap_or(0);
    part("secs")
        .saturating_mul(1000)
        .saturating_add(part("nanos") / 1_000_000)
}

/// `{"host": …, "port": …}` as `host:port`.
fn address(addr: &Map<String, Value>) -> String {
    let host = addr.get("host").and_then(Value::as_str).unwrap_or_default();
    let port = addr
        .get("port")
        .and_then(Value::as_u64)
        .and_then(|port| u16::try_from(port).ok());
    PeerAddr::new(host, port.unwrap_or(0)).to_string()
}

/// The name of the kind, and its fields: `{"Assigned": {…}}`, or `"Ready"` for one without fields.
fn parts(notice: &Notice) -> (String, Map<String, Value>) {
    match serde_json::to_value(&notice.kind) {
        Ok(Value::String(name)) => (name, Map::new()),
        Ok(Value::Object(object)) => {
            let first = object.into_iter().next();
            let (name, fields) = first.expect("an enum with fields is an object with one member");
            match fields {
                Value::Object(fields) => (name, fields),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    (name, Map::new())
                }
            }
        }
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | Err(_) => {
            ("Unknown".into(), Map::new())
        }
    }
}

/// `"Silent"` or `{"Net": "Refused"}` as one word.
fn cause_name(cause: &Value) -> String {
    let inner = cause.as_object().and_then(|object| object.values().next());
    snake(inner.unwrap_or(cause).as_str().unwrap_or("other"))
}

/// `NameServerUnreachable` as `name_server_unreachable`.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (at, char) in name.chars().enumerate() {
        if char.is_ascii_uppercase() && at > 0 {
            out.push('_');
        }
        out.push(char.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rocketmq_consumer_core::config::FilterExpression;
    use rocketmq_consumer_core::event::NetCause;
    use rocketmq_consumer_core::ids::{Epoch, QueueOffset};
    use rocketmq_consumer_core::notice::{NoticeKind, RetryPath, StallReason};
    use rocketmq_consumer_core::status::{HoldReason, LinkTrouble};
    use rocketmq_consumer_core::time::Instant;
    use serde_json::json;

    use super::*;
    use crate::testing::queue;

    fn shown(kind: NoticeKind) -> Value {
        let notice = Notice {
            at: Instant::ZERO,
            group: Some("G".into()),
            repeated: 0,
            kind,
        };
        serde_json::to_value(EventLine::new(&notice, 5)).unwrap()
    }

    #[test]
    fn events_have_names_and_flat_queues() {
        let base = json!({"at": 5, "group": "G", "topic": "orders", "broker": "broker-a", "queue_id": 3});
        let (queue, epoch) = (queue(), Epoch(1));
        let table = [
            (
                NoticeKind::Assigned {
                    queue: queue.clone(),
                    epoch,
                    from: QueueOffset(7),
                },
                json!({"event": "assigned", "epoch": 1, "from": 7}),
            ),
            (
                NoticeKind::Revoked {
                    queue: queue.clone(),
                    epoch,
                    committed: None,
                },
                json!({"event": "revoked", "epoch": 1, "committed": null}),
            ),
            (
                NoticeKind::Committed {
                    queue: queue.clone(),
                    offset: QueueOffset(9),
                },
                json!({"event": "commit", "offset": 9}),
            ),
            (
                NoticeKind::Held {
                    queue,
                    reason: HoldReason::CountFull,
                },
                json!({"event": "held", "reason": "count_full"}),
            ),
        ];
        for (kind, own) in table {
            let mut want = base.clone();
            want.as_object_mut()
                .unwrap()
                .extend(own.as_object().unwrap().clone());
            assert_eq!(shown(kind), want);
        }
        assert_eq!(
            shown(NoticeKind::Ready),
            json!({"event": "ready", "at": 5, "group": "G"})
        );
    }

    #[test]
    fn retries_and_stalls_are_flat_and_in_unix_time() {
        let (queue, second) = (queue(), |secs: u64| Instant::from_millis(secs * 1000));
        let place = json!({"topic": "orders", "broker": "broker-a", "queue_id": 3});
        let stalled = |reason| NoticeKind::QueueStalled {
            queue: queue.clone(),
            reason,
            since: second(1),
            lowest_unfinished: Some(QueueOffset(5)),
            max_offset: None,
        };
        let still = json!({"event": "stalled", "since": 41_000, "lowest_unfinished": 5, "max_offset": null});
        let with = |base: &Value, more: Value| {
            let mut all = base.clone();
            let members = all.as_object_mut().unwrap();
            members.extend(more.as_object().unwrap().clone());
            all
        };
        let handlers = StallReason::Handlers {
            running: 2,
            oldest: Some(second(2)),
        };
        let table = [
            (
                stalled(StallReason::Held(HoldReason::LinkDown)),
                with(&still, json!({"reason": "link_down"})),
            ),
            (
                stalled(StallReason::Unanswered),
                with(&still, json!({"reason": "unanswered"})),
            ),
            (
                stalled(handlers),
                with(
                    &still,
                    json!({"reason": "handlers", "running": 2, "oldest": 42_000}),
                ),
            ),
            (
                NoticeKind::QueueMoves {
                    queue: queue.clone(),
                    lowest_unfinished: Some(QueueOffset(6)),
                    after: Duration::from_millis(1_500),
                },
                json!({"event": "moves", "lowest_unfinished": 6, "after_ms": 1_500}),
            ),
            (
                NoticeKind::Retry {
                    queue: queue.clone(),
                    offset: QueueOffset(7),
                    message_id: Some("id".into()),
                    reconsume_times: 1,
                    level: 5,
                    path: RetryPath::SentBack,
                },
                json!({"event": "retry", "offset": 7, "message_id": "id", "reconsume_times": 1,
                    "level": 5, "path": "sent_back"}),
            ),
        ];
        for (kind, own) in table {
            let notice = Notice {
                at: second(10),
                group: None,
                repeated: 0,
                kind,
            };
            let shown = serde_json::to_value(EventLine::new(&notice, 50_000)).unwrap();
            assert_eq!(shown, with(&with(&place, json!({"at": 50_000})), own));
        }
        let missed = serde_json::to_value(EventLine::missed(3, 5)).unwrap();
        assert_eq!(missed, json!({"event": "missed", "at": 5, "count": 3}));
    }

    #[test]
    fn everything_else_is_a_notice_of_a_kind() {
        let addr = PeerAddr::new("ns", 9876);
        for (cause, name) in [
            (LinkTrouble::Net(NetCause::Refused), "refused"),
            (LinkTrouble::NoAnswer, "no_answer"),
        ] {
            let line = shown(NoticeKind::NameServerUnreachable {
                addr: addr.clone(),
                cause,
            });
            assert_eq!(line["event"], "notice");
            assert_eq!(line["kind"], "name_server_unreachable");
            assert_eq!((&line["cause"], &line["addr"]), (&json!(name), &json!("ns:9876")));
        }
    }

    #[test]
    fn a_filter_is_flat() {
        let changed = |filter| {
            shown(NoticeKind::SubscriptionChanged {
                topic: "T".into(),
                filter,
            })
        };
        let base =
            json!({"event": "notice", "at": 5, "kind": "subscription_changed", "group": "G", "topic": "T"});
        for (filter, own) in [
            (Some("a".into()), json!({"filter": "a", "filter_type": "TAG"})),
            (
                Some(FilterExpression::sql92("a > 3")),
                json!({"filter": "a > 3", "filter_type": "SQL92"}),
            ),
            (None, json!({"filter": null})),
        ] {
            let mut want = base.clone();
            let members = want.as_object_mut().unwrap();
            members.extend(own.as_object().unwrap().clone());
            assert_eq!(changed(filter), want);
        }
    }

    #[test]
    fn the_event_and_its_time_come_first() {
        let notice = Notice {
            at: Instant::ZERO,
            group: None,
            repeated: 2,
            kind: NoticeKind::Ready,
        };
        let text = serde_json::to_string(&EventLine::new(&notice, 5)).unwrap();
        assert_eq!(text, r#"{"event":"ready","at":5,"repeated":2}"#);
    }
}
