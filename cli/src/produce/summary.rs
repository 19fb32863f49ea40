use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::ids::{BrokerName, QueueId};
use serde::Serialize;

use super::receipt::Receipt;

/// What a run has done: counted while it goes, printed at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Messages that are stored.
    pub(crate) sent: u64,
    /// Messages that were given up.
    pub(crate) failed: u64,
    /// Sends beyond the first of each message.
    pub(crate) retries: u64,
    /// Lines that were left out because they are empty.
    pub(crate) empty: u64,
    /// Bytes of the bodies that are stored.
    bytes: u64,
    queues: BTreeMap<(BrokerName, QueueId), u64>,
}

impl Tally {
    /// One more is stored.
    pub(crate) fn count(&mut self, receipt: &Receipt) {
        self.sent += 1;
        self.retries += u64::from(receipt.tries.saturating_sub(1));
        self.bytes += receipt.bytes;
        let queue = (receipt.broker.clone(), receipt.queue_id);
        *self.queues.entry(queue).or_default() += 1;
    }

    /// The summary for programs.
    pub(crate) fn summary<'a>(&'a self, topic: &'a str, elapsed: Duration) -> Summary<'a> {
        Summary {
            summary: Parts {
                sent: self.sent,
                failed: self.failed,
                retries: self.retries,
                empty_lines: self.empty,
                bytes: self.bytes,
                seconds: (elapsed.as_secs_f64() * 1e3).round() / 1e3,
                queues: self
                    .queues
                    .iter()
                    .map(|((broker, id), sent)| Queue {
                        topic,
                        broker: broker.as_str(),
                        queue_id: id.0,
                        sent: *sent,
                    })
                    .collect(),
            },
        }
    }
}

/// The last line on standard error.
#[derive(Serialize)]
pub(crate) struct Summary<'a> {
    summary: Parts<'a>,
}

#[derive(Serialize)]
struct Parts<'a> {
    sent: u64,
    failed: u64,
    retries: u64,
    empty_lines: u64,
    bytes: u64,
    seconds: f64,
    queues: Vec<Queue<'a>>,
}

#[derive(Serialize)]
struct Queue<'a> {
    topic: &'a str,
    broker: &'a str,
    queue_id: i32,
    sent: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::receipt::tests::receipt;
    use super::*;

    #[test]
    fn every_key_is_there() {
        let mut tally = Tally::default();
        let mut late = receipt(2, 1);
        late.tries = 3;
        for receipt in [receipt(0, 0), receipt(1, 0), late] {
            tally.count(&receipt);
        }
        let want = json!({"summary": {
            "sent": 3, "failed": 0, "retries": 2, "empty_lines": 0, "bytes": 30, "seconds": 1.235,
            "queues": [
                {"topic": "T", "broker": "broker-a", "queue_id": 0, "sent": 2},
                {"topic": "T", "broker": "broker-a", "queue_id": 1, "sent": 1},
            ],
        }});
        let summary = tally.summary("T", Duration::from_micros(1_234_567));
        assert_eq!(serde_json::to_value(summary).unwrap(), want);
    }
}
