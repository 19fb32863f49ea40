use rocketmq_consumer_core::ids::{BrokerName, QueueId, QueueOffset};
use rocketmq_consumer_core::wire::request::send::SendStatus;
use serde::Serialize;
use serde::ser::Serializer;

/// A stored message: a line of `-o json`. The keys are stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Receipt {
    /// Its place in the run, from 0.
    pub(crate) number: u64,
    /// The topic it was sent to.
    pub(crate) topic: String,
    /// The broker that stored it.
    #[serde(serialize_with = "as_text")]
    pub(crate) broker: BrokerName,
    /// Its queue.
    #[serde(serialize_with = "id")]
    pub(crate) queue_id: QueueId,
    /// Its offset there; a message that waits for its time has none yet.
    #[serde(serialize_with = "offset")]
    pub(crate) queue_offset: Option<QueueOffset>,
    /// The id the producer gave it.
    pub(crate) msg_id: String,
    /// The id that tells where it lies.
    pub(crate) offset_msg_id: String,
    /// How well it is stored.
    #[serde(serialize_with = "status")]
    pub(crate) status: SendStatus,
    /// How often it was sent; more than once, it may be stored more than once.
    pub(crate) tries: u32,
    /// How long its body is; for the summary.
    #[serde(skip)]
    pub(crate) bytes: u64,
}

fn as_text<S: Serializer>(name: &BrokerName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name.as_str())
}

fn id<S: Serializer>(id: &QueueId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i32(id.0)
}

#[expect(clippy::ref_option, reason = "the form serde asks for")]
fn offset<S: Serializer>(offset: &Option<QueueOffset>, serializer: S) -> Result<S::Ok, S::Error> {
    match offset {
        Some(offset) => serializer.serialize_some(&offset.0),
        None => serializer.serialize_none(),
    }
}

fn status<S: Serializer>(status: &SendStatus, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(word(*status))
}

/// A status in one word.
pub(crate) const fn word(status: SendStatus) -> &'static str {
    match status {
        SendStatus::Stored => "stored",
        SendStatus::FlushDiskTimeout => "flush-disk-timeout",
        SendStatus::SlaveNotAvailable => "slave-not-available",
        SendStatus::FlushSlaveTimeout => "flush-slave-timeout",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// The receipt of message `number`, stored in a queue of `broker-a`.
    pub(crate) fn receipt(number: u64, queue: i32) -> Receipt {
        Receipt {
            number,
            topic: "T".into(),
            broker: "broker-a".into(),
            queue_id: QueueId(queue),
            queue_offset: Some(QueueOffset(4)),
            msg_id: "U".into(),
            offset_msg_id: "O".into(),
            status: SendStatus::Stored,
            tries: 1,
            bytes: 10,
        }
    }

    #[test]
    fn every_key_is_there() {
        let mut receipt = receipt(7, 2);
        let want = json!({
            "number": 7, "topic": "T", "broker": "broker-a", "queue_id": 2, "queue_offset": 4, "msg_id": "U",
            "offset_msg_id": "O", "status": "stored", "tries": 1,
        });
        assert_eq!(serde_json::to_value(&receipt).unwrap(), want);
        (receipt.queue_offset, receipt.status) = (None, SendStatus::SlaveNotAvailable);
        let line = serde_json::to_value(&receipt).unwrap();
        assert_eq!(
            (&line["queue_offset"], &line["status"]),
            (&json!(null), &json!("slave-not-available"))
        );
    }
}
