use std::collections::BTreeSet;

use rocketmq_consumer_core::ids::Topic;
use rocketmq_consumer_core::wire::request::route::{QueueData, TopicRoute};
use serde::Serialize;

use super::perm::Perm;
use crate::output::Table;

/// A topic in the list of all; for programs, the keys are stable.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    topic: String,
    brokers: Vec<String>,
    read_queues: u64,
    write_queues: u64,
    perm: String,
}

impl Row {
    /// What a route says about a topic. Where brokers differ in what may be done, all of it is named.
    pub(crate) fn new(topic: &Topic, route: &TopicRoute) -> Self {
        let sum = |of: fn(&QueueData) -> u32| route.queues.iter().map(|data| u64::from(of(data))).sum();
        let brokers: BTreeSet<_> = route.queues.iter().map(|data| data.broker.to_string()).collect();
        let perms: BTreeSet<_> = route
            .queues
            .iter()
            .map(|data| Perm::of_bits(data.perm).to_string())
            .collect();
        Self {
            topic: topic.to_string(),
            brokers: brokers.into_iter().collect(),
            read_queues: sum(|data| data.read_queues),
            write_queues: sum(|data| data.write_queues),
            perm: perms.into_iter().collect::<Vec<_>>().join(","),
        }
    }

    fn queues(&self) -> String {
        if self.read_queues == self.write_queues {
            return self.read_queues.to_string();
        }
        format!("{} read, {} written", self.read_queues, self.write_queues)
    }
}

/// The topics for people.
pub(crate) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new()
        .text("TOPIC")
        .text("BROKERS")
        .number("QUEUES")
        .text("PERM");
    for row in rows {
        table.row([
            row.topic.clone(),
            row.brokers.join(","),
            row.queues(),
            row.perm.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(queues: &[(&str, u32, u32, i32)]) -> Row {
        let queues = queues
            .iter()
            .map(|&(broker, read_queues, write_queues, perm)| QueueData {
                broker: broker.into(),
                perm,
                read_queues,
                write_queues,
                topic_sys_flag: 0,
            });
        let route = TopicRoute {
            queues: queues.collect(),
            ..TopicRoute::default()
        };
        Row::new(&"T".into(), &route)
    }

    #[test]
    fn queues_are_counted_over_all_brokers() {
        let rows = [
            row(&[("b", 4, 4, 6), ("a", 4, 4, 7)]),
            row(&[("a", 8, 4, 6), ("b", 0, 0, 4)]),
        ];
        assert_eq!(
            serde_json::to_value(&rows[0]).unwrap(),
            json!({"topic": "T", "brokers": ["a", "b"], "read_queues": 8, "write_queues": 8, "perm": "rw"})
        );
        assert_eq!(
            table(&rows).to_string(),
            "TOPIC  BROKERS             QUEUES  PERM\n\
             T      a,b                      8  rw\n\
             T      a,b      8 read, 4 written  r,rw\n"
        );
    }
}
