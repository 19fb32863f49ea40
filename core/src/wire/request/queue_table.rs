//! Queues in bodies: lists of them, and tables named by them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::{self, DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{BrokerName, MessageQueue, QueueId, QueueOffset, Topic};
use crate::wire::fastjson::ObjectWriter;

/// Offsets by queue, as bodies carry them.
pub type OffsetTable = BTreeMap<MessageQueue, QueueOffset>;

/// A queue as bodies name it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireQueue {
    broker_name: BrokerName,
    queue_id: i32,
    topic: Topic,
}

impl From<WireQueue> for MessageQueue {
    fn from(queue: WireQueue) -> Self {
        Self {
            topic: queue.topic,
            broker: queue.broker_name,
            id: QueueId(queue.queue_id),
        }
    }
}

/// The same on the way out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QueueName<'a> {
    broker_name: &'a BrokerName,
    queue_id: i32,
    topic: &'a Topic,
}

impl<'a> From<&'a MessageQueue> for QueueName<'a> {
    fn from(queue: &'a MessageQueue) -> Self {
        Self {
            broker_name: &queue.broker,
            queue_id: queue.id.0,
            topic: &queue.topic,
        }
    }
}

/// A set of queues, as a list.
pub(super) mod queue_set {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        queues: &BTreeSet<MessageQueue>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(queues.iter().map(QueueName::from))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeSet<MessageQueue>, D::Error> {
        let queues = Vec::<WireQueue>::deserialize(from)?;
        Ok(queues.into_iter().map(MessageQueue::from).collect())
    }
}

/// One entry of an offset table in each of its forms: a map named by queues (which has become a list
/// of pairs), a list for clients in other languages, and a list of named pairs.
#[derive(Deserialize)]
#[serde(untagged)]
enum WireOffset {
    Pair(WireQueue, i64),
    Flat {
        #[serde(flatten)]
        queue: WireQueue,
        offset: i64,
    },
    Named {
        key: WireQueue,
        value: i64,
    },
}

/// A table whose names are no text: its entries as a list, or nothing.
#[derive(Deserialize)]
#[serde(untagged)]
enum Table<E> {
    Entries(Vec<E>),
    // Nothing tells what names a map without entries.
    Map(BTreeMap<String, IgnoredAny>),
}

impl<E> Table<E> {
    fn entries<X: de::Error>(self) -> Result<Vec<E>, X> {
        match self {
            Self::Entries(entries) => Ok(entries),
            Self::Map(map) if map.is_empty() => Ok(Vec::new()),
            Self::Map(_) => Err(X::custom("a table named by text")),
        }
    }
}

/// Reads a table named by queues.
pub(super) fn queue_table<'de, D, V>(from: D) -> Result<BTreeMap<MessageQueue, V>, D::Error>
where
    D: Deserializer<'de>,
    V: DeserializeOwned,
{
    let entries = Table::<(WireQueue, V)>::deserialize(from)?.entries()?;
    Ok(entries
        .into_iter()
        .map(|(queue, value)| (queue.into(), value))
        .collect())
}

/// Reads an offset table in any of its forms.
pub(super) fn offset_table<'de, D: Deserializer<'de>>(from: D) -> Result<OffsetTable, D::Error> {
    let mut table = OffsetTable::new();
    for entry in Table::deserialize(from)?.entries()? {
        let (WireOffset::Pair(queue, offset)
        | WireOffset::Flat { queue, offset }
        | WireOffset::Named {
            key: queue,
            value: offset,
        }) = entry;
        match offset {
            0.. => table.insert(queue.into(), QueueOffset(offset)),
            // No offset is known.
            -1 => None,
            _ => return Err(de::Error::custom("a negative offset")),
        };
    }
    Ok(table)
}

/// Writes a table named by queues as a member. Java refuses to read it if the names are in quotes.
pub(super) fn write_table<'a, V: Serialize + 'a>(
    object: &mut ObjectWriter<'_>,
    member: &str,
    table: impl IntoIterator<Item = (&'a MessageQueue, V)>,
) {
    object.object(member, |entries| {
        for (queue, value) in table {
            entries.entry(&QueueName::from(queue), &value);
        }
    });
}

/// Writes an offset table as a member.
pub(super) fn write_offsets(object: &mut ObjectWriter<'_>, member: &str, table: &OffsetTable) {
    write_table(
        object,
        member,
        table.iter().map(|(queue, offset)| (queue, offset.0)),
    );
}
