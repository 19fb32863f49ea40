use std::collections::BTreeSet;

use rocketmq_consumer_core::ids::{ClientId, MessageQueue, QueueOffset};
use rocketmq_consumer_core::time::WallTime;
use serde::Serialize;

use crate::output::Table;

/// A queue and how far the group is behind there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The queue.
    pub(crate) queue: MessageQueue,
    /// The offset of its oldest message; only asked for where nothing is committed.
    pub(crate) min: QueueOffset,
    /// The offset the next message will get.
    pub(crate) max: QueueOffset,
    /// What the group has committed, if anything.
    pub(crate) committed: Option<QueueOffset>,
    /// When the last consumed message was stored.
    pub(crate) consumed_until: Option<WallTime>,
    /// The members that say it is theirs. More than one is a conflict; none may also mean that they do
    /// not tell.
    pub(crate) owners: BTreeSet<ClientId>,
}

impl Row {
    /// Messages that wait. Where nothing is committed, all of them; where more is committed than there is,
    /// none.
    pub(crate) fn lag(&self) -> u64 {
        let from = self.committed.unwrap_or(self.min);
        u64::try_from(self.max.0.saturating_sub(from.0)).unwrap_or(0)
    }

    fn owner(&self) -> Option<String> {
        let owners: Vec<_> = self.owners.iter().map(ClientId::as_str).collect();
        (!owners.is_empty()).then(|| owners.join(","))
    }

    /// The line of `-o json`. The keys are stable.
    pub(crate) fn line<'a>(&'a self, group: &'a str, now: i64) -> Line<'a> {
        Line {
            at: now,
            group,
            topic: self.queue.topic.as_str(),
            broker: self.queue.broker.as_str(),
            queue_id: self.queue.id.0,
            max_offset: self.max.0,
            committed: self.committed.map(|offset| offset.0),
            lag: self.lag(),
            consumed_until: self.consumed_until.map(WallTime::as_unix_millis),
            owner: self.owner(),
        }
    }
}

/// A row for programs; times are Unix milliseconds.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    at: i64,
    group: &'a str,
    topic: &'a str,
    broker: &'a str,
    queue_id: i32,
    max_offset: i64,
    committed: Option<i64>,
    lag: u64,
    consumed_until: Option<i64>,
    owner: Option<String>,
}

/// The rows for people, and their sum.
pub(crate) fn table(rows: &[Row]) -> Table {
    let absent = || "-".to_owned();
    let mut table = Table::new()
        .text("TOPIC")
        .text("BROKER")
        .number("QUEUE")
        .number("MAX")
        .number("COMMITTED")
        .number("LAG")
        .text("OWNER");
    for row in rows {
        table.row([
            row.queue.topic.to_string(),
            row.queue.broker.to_string(),
            row.queue.id.to_string(),
            row.max.to_string(),
            row.committed.map_or_else(absent, |offset| offset.to_string()),
            row.lag().to_string(),
            row.owner().unwrap_or_else(absent),
        ]);
    }
    table.total("LAG", rows.iter().map(Row::lag).sum::<u64>());
    table
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::QueueId;
    use serde_json::json;

    use super::*;

    fn row(id: i32, min: i64, max: i64, committed: Option<i64>, owners: &[&str]) -> Row {
        Row {
            queue: MessageQueue {
                topic: "T".into(),
                broker: "b".into(),
                id: QueueId(id),
            },
            min: QueueOffset(min),
            max: QueueOffset(max),
            committed: committed.map(QueueOffset),
            consumed_until: None,
            owners: owners.iter().map(|&id| id.into()).collect(),
        }
    }

    #[test]
    fn what_was_never_committed_waits_as_a_whole_and_nothing_waits_less_than_none() {
        assert_eq!(row(0, 0, 10, Some(4), &[]).lag(), 6);
        assert_eq!(row(0, 3, 10, None, &[]).lag(), 7);
        assert_eq!(row(0, 0, 10, Some(12), &[]).lag(), 0);
        assert_eq!(
            row(0, 0, i64::MAX, Some(i64::MIN), &[]).lag(),
            i64::MAX.unsigned_abs()
        );
    }

    #[test]
    fn every_key_is_there() {
        let mut row = row(2, 0, 10, Some(4), &["me@1"]);
        row.consumed_until = Some(WallTime::from_unix_millis(5));
        let want = json!({
            "at": 7, "group": "G", "topic": "T", "broker": "b", "queue_id": 2, "max_offset": 10, "committed": 4,
            "lag": 6, "consumed_until": 5, "owner": "me@1",
        });
        assert_eq!(serde_json::to_value(row.line("G", 7)).unwrap(), want);
    }

    #[test]
    fn the_table_has_a_sum_and_a_dash_for_what_nobody_knows() {
        let rows = [row(0, 0, 10, Some(4), &["a", "b"]), row(1, 0, 2, None, &[])];
        assert_eq!(
            table(&rows).to_string(),
            "TOPIC  BROKER  QUEUE  MAX  COMMITTED  LAG  OWNER\n\
             T      b           0   10          4    6  a,b\n\
             T      b           1    2          -    2  -\n\
             total                                   8\n"
        );
    }
}
