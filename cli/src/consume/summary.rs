use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::ids::{MessageQueue, QueueOffset};
use serde::Serialize;

use super::tally::Counts;

/// What a run came to: the last line of standard error.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    summary: Totals,
}

#[derive(Debug, Serialize)]
struct Totals {
    consumed: u64,
    distinct: u64,
    redelivered: u64,
    failed: u64,
    seconds: f64,
    first_message_ms: Option<u64>,
    last_message_ms: Option<u64>,
    queues: Vec<QueueTotal>,
}

#[derive(Debug, Serialize)]
struct QueueTotal {
    topic: String,
    broker: String,
    queue_id: i32,
    committed: Option<i64>,
}

/// What each queue's broker acknowledged last.
pub(crate) type Committed = BTreeMap<MessageQueue, Option<QueueOffset>>;

impl Summary {
    /// The summary of a run that took so long since the start of the process.
    pub(crate) fn new(counts: Counts, elapsed: Duration, committed: &Committed) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let queues = committed.iter().map(|(queue, offset)| QueueTotal {
            topic: queue.topic.to_string(),
            broker: queue.broker.to_string(),
            queue_id: queue.id.0,
            committed: offset.map(|offset| offset.0),
        });
        Self {
            summary: Totals {
                consumed: counts.consumed,
                distinct: counts.distinct,
                redelivered: counts.redelivered,
                failed: counts.failed,
                // Milliseconds are what the other times have; more digits would be noise.
                seconds: (elapsed.as_secs_f64() * 1e3).round() / 1e3,
                first_message_ms: counts.first.map(millis),
                last_message_ms: counts.last.map(millis),
                queues: queues.collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::queue;

    #[test]
    fn every_key_is_there() {
        let counts = Counts {
            consumed: 4,
            distinct: 3,
            redelivered: 1,
            failed: 2,
            first: Some(Duration::from_micros(12_999)),
            last: None,
        };
        let committed = [(queue(), Some(QueueOffset(9)))].into();
        let summary = Summary::new(counts, Duration::from_micros(1_234_567), &committed);
        let want = json!({"summary": {
            "consumed": 4, "distinct": 3, "redelivered": 1, "failed": 2, "seconds": 1.235,
            "first_message_ms": 12, "last_message_ms": null,
            "queues": [{"topic": "orders", "broker": "broker-a", "queue_id": 3, "committed": 9}],
        }});
        assert_eq!(serde_json::to_value(summary).unwrap(), want);
    }
}
