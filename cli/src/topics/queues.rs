use rocketmq_consumer_core::ids::{QueueId, Topic};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::request::route::TopicRoute;
use rocketmq_consumer_core::wire::request::stats::{QueueStats, TopicStats};
use serde::Serialize;

use super::perm::Perm;
use crate::admin::Master;
use crate::output::{Table, shown_time};

/// A queue of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    master: Master,
    id: QueueId,
    perm: Perm,
    stats: QueueStats,
}

/// The queues of one broker, in their order.
pub(crate) fn rows(master: &Master, route: &TopicRoute, stats: &TopicStats) -> Vec<Row> {
    let data = route.queues.iter().find(|data| data.broker == master.name);
    let perm_of = |id: QueueId| {
        // A topic may have queues that are only read, or only written.
        let within = |count: u32| i64::from(id.0) < i64::from(count);
        Perm::of_bits(data.map_or(0, |data| {
            let read = if within(data.read_queues) { 4 } else { 0 };
            let write = if within(data.write_queues) { 2 } else { 0 };
            data.perm & (read | write)
        }))
    };
    let queues = stats.queues.iter();
    queues
        .map(|(queue, stats)| Row {
            master: master.clone(),
            id: queue.id,
            perm: perm_of(queue.id),
            stats: *stats,
        })
        .collect()
}

/// A queue for programs; the keys are stable.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    topic: &'a str,
    broker: &'a str,
    address: String,
    queue_id: i32,
    perm: String,
    min_offset: i64,
    max_offset: i64,
    messages: i64,
    last_stored_at: Option<i64>,
}

impl Row {
    /// The line of `-o json`.
    pub(crate) fn line<'a>(&'a self, topic: &'a Topic) -> Line<'a> {
        Line {
            topic: topic.as_str(),
            broker: self.master.name.as_str(),
            address: self.master.addr.to_string(),
            queue_id: self.id.0,
            perm: self.perm.to_string(),
            min_offset: self.stats.min_offset.0,
            max_offset: self.stats.max_offset.0,
            messages: self.messages(),
            last_stored_at: self.stats.last_update.map(WallTime::as_unix_millis),
        }
    }

    fn messages(&self) -> i64 {
        self.stats.max_offset.0.saturating_sub(self.stats.min_offset.0)
    }
}

/// The queues for people, and how much is in them.
pub(crate) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new()
        .text("BROKER")
        .number("QUEUE")
        .text("PERM")
        .number("MIN")
        .number("MAX")
        .number("MESSAGES")
        .text("LAST STORED");
    for row in rows {
        table.row([
            row.master.name.to_string(),
            row.id.to_string(),
            row.perm.to_string(),
            row.stats.min_offset.to_string(),
            row.stats.max_offset.to_string(),
            row.messages().to_string(),
            shown_time(row.stats.last_update),
        ]);
    }
    let sum = rows
        .iter()
        .fold(0_i64, |sum, row| sum.saturating_add(row.messages()));
    table.total("MESSAGES", sum);
    table
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::{MessageQueue, PeerAddr, QueueOffset};
    use rocketmq_consumer_core::wire::request::route::QueueData;
    use serde_json::json;

    use super::*;

    fn shown() -> Vec<Row> {
        let stats = |min, max, last| QueueStats {
            last_update: Some(WallTime::from_unix_millis(last)).filter(|_| last > 0),
            max_offset: QueueOffset(max),
            min_offset: QueueOffset(min),
        };
        let queue = |id| MessageQueue {
            topic: "T".into(),
            broker: "a".into(),
            id: QueueId(id),
        };
        let stats = TopicStats {
            queues: [
                (queue(0), stats(2, 10, 0)),
                (queue(1), stats(0, 3, 5)),
                (queue(10), stats(0, 0, 0)),
            ]
            .into(),
            put_tps: 0.0,
        };
        let route = TopicRoute {
            queues: vec![QueueData {
                broker: "a".into(),
                perm: 6,
                read_queues: 2,
                write_queues: 1,
                topic_sys_flag: 0,
            }],
            ..TopicRoute::default()
        };
        let master = Master {
            name: "a".into(),
            addr: PeerAddr::new("h", 1),
        };
        rows(&master, &route, &stats)
    }

    #[test]
    fn every_key_is_there() {
        let want = json!({"topic": "T", "broker": "a", "address": "h:1", "queue_id": 1, "perm": "r",
                          "min_offset": 0, "max_offset": 3, "messages": 3, "last_stored_at": 5});
        assert_eq!(serde_json::to_value(shown()[1].line(&"T".into())).unwrap(), want);
    }

    #[test]
    fn each_queue_says_what_may_be_done_with_it() {
        assert_eq!(
            table(&shown()).to_string(),
            "BROKER  QUEUE  PERM  MIN  MAX  MESSAGES  LAST STORED\n\
             a           0  rw      2   10         8  -\n\
             a           1  r       0    3         3  1970-01-01T00:00:00.005Z\n\
             a          10  -       0    0         0  -\n\
             total                                11\n"
        );
    }
}
