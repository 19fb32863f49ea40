use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::ids::{BrokerName, ClientId, ConsumerGroup, Topic};
use rocketmq_consumer_core::wire::request::groups::GroupTable;
use rocketmq_consumer_core::wire::request::heartbeat::{ConsumeType, MessageModel};
use rocketmq_consumer_core::wire::request::stats::ConsumerConnections;
use serde::Serialize;

use crate::admin::{Master, retry_topic};
use crate::output::Table;

/// A group in the list of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) group: ConsumerGroup,
    /// The brokers that keep it.
    brokers: BTreeSet<BrokerName>,
    /// Whether all of them let it consume.
    is_enabled: bool,
    members: BTreeSet<ClientId>,
    consume_type: Option<ConsumeType>,
    message_model: Option<MessageModel>,
    subscriptions: BTreeSet<Topic>,
}

/// The groups all brokers keep, by name.
pub(crate) fn collect(tables: &[(&Master, GroupTable)]) -> Vec<Entry> {
    let mut entries: BTreeMap<&ConsumerGroup, Entry> = BTreeMap::new();
    for (master, table) in tables {
        for (group, config) in &table.groups {
            let entry = entries.entry(group).or_insert_with(|| Entry {
                group: group.clone(),
                brokers: BTreeSet::new(),
                is_enabled: true,
                members: BTreeSet::new(),
                consume_type: None,
                message_model: None,
                subscriptions: BTreeSet::new(),
            });
            entry.brokers.insert(master.name.clone());
            entry.is_enabled &= config.consume_enable;
        }
    }
    entries.into_values().collect()
}

impl Entry {
    /// Adds what one broker says about the members.
    pub(crate) fn add(&mut self, said: &ConsumerConnections) {
        let ids = said.connections.iter().map(|connection| &connection.client_id);
        self.members.extend(ids.cloned());
        self.consume_type = self.consume_type.or(said.consume_type);
        self.message_model = self.message_model.or(said.message_model);
        let retry = retry_topic(&self.group);
        let topics = said.subscriptions.keys().filter(|topic| **topic != retry);
        self.subscriptions.extend(topics.cloned());
    }

    /// The line of `-o json`. The keys are stable.
    pub(crate) fn line(&self) -> Line<'_> {
        Line {
            group: self.group.as_str(),
            members: self.members.len(),
            consume_type: self.consume_type.map(word),
            message_model: self.message_model.map(model),
            subscriptions: self.subscriptions.iter().map(Topic::as_str).collect(),
            brokers: self.brokers.iter().map(BrokerName::as_str).collect(),
            enabled: self.is_enabled,
        }
    }
}

/// A group for programs.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    group: &'a str,
    members: usize,
    consume_type: Option<&'static str>,
    message_model: Option<&'static str>,
    subscriptions: Vec<&'a str>,
    brokers: Vec<&'a str>,
    enabled: bool,
}

/// How a group gets its messages, in a word.
pub(crate) const fn word(consume_type: ConsumeType) -> &'static str {
    match consume_type {
        ConsumeType::Actively => "pull",
        ConsumeType::Passively => "push",
        ConsumeType::Pop => "pop",
    }
}

/// Who gets a message, in a word.
pub(crate) const fn model(message_model: MessageModel) -> &'static str {
    match message_model {
        MessageModel::Broadcasting => "broadcasting",
        MessageModel::Clustering => "clustering",
    }
}

/// The groups for people.
pub(crate) fn table(entries: &[Entry]) -> Table {
    let mut table = Table::new()
        .text("GROUP")
        .number("MEMBERS")
        .text("TYPE")
        .text("MODEL")
        .text("TOPICS")
        .text("BROKERS");
    for entry in entries {
        let line = entry.line();
        let dash = |word: Option<&'static str>| word.unwrap_or("-").to_owned();
        let topics = line.subscriptions.join(",");
        let off = if entry.is_enabled { "" } else { " (switched off)" };
        table.row([
            format!("{}{off}", line.group),
            line.members.to_string(),
            dash(line.consume_type),
            dash(line.message_model),
            if topics.is_empty() { "-".into() } else { topics },
            line.brokers.join(","),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::PeerAddr;
    use rocketmq_consumer_core::wire::request::groups::SubscriptionGroupConfig;
    use rocketmq_consumer_core::wire::request::stats::Connection;
    use serde_json::json;

    use super::*;

    fn entries() -> Vec<Entry> {
        let master = |name: &str| Master {
            name: name.into(),
            addr: PeerAddr::new(name, 1),
        };
        let table = |groups: &[(&str, bool)]| GroupTable {
            groups: groups
                .iter()
                .map(|&(name, enabled)| {
                    let mut config = SubscriptionGroupConfig::new(name.into());
                    config.consume_enable = enabled;
                    (name.into(), config)
                })
                .collect(),
            ..GroupTable::default()
        };
        let (a, b) = (master("broker-a"), master("broker-b"));
        let mut entries = collect(&[
            (&a, table(&[("billing", true), ("audit", true)])),
            (&b, table(&[("audit", false)])),
        ]);
        let said = ConsumerConnections {
            connections: ["x", "x", "y"]
                .iter()
                .map(|&id| Connection {
                    client_addr: "h:1".into(),
                    client_id: id.into(),
                    language: "JAVA".into(),
                    version: 513,
                })
                .collect(),
            consume_type: Some(ConsumeType::Passively),
            message_model: Some(MessageModel::Clustering),
            subscriptions: ["orders", "%RETRY%billing"]
                .iter()
                .map(|&topic| {
                    let data = rocketmq_consumer_core::wire::request::heartbeat::SubscriptionData {
                        topic: topic.into(),
                        expression: "*".into(),
                        expression_type: None,
                        tags: BTreeSet::new(),
                        codes: BTreeSet::new(),
                        sub_version: rocketmq_consumer_core::time::WallTime::default(),
                        class_filter_mode: false,
                    };
                    (Topic::from(topic), data)
                })
                .collect(),
            ..ConsumerConnections::default()
        };
        entries[1].add(&said);
        entries
    }

    #[test]
    fn a_group_is_one_over_all_brokers_and_a_member_one_over_all_connections() {
        let entries = entries();
        let lines: Vec<_> = entries
            .iter()
            .map(|entry| serde_json::to_value(entry.line()).unwrap())
            .collect();
        let want = [
            json!({"group": "audit", "members": 0, "consume_type": null, "message_model": null,
                   "subscriptions": [], "brokers": ["broker-a", "broker-b"], "enabled": false}),
            json!({"group": "billing", "members": 2, "consume_type": "push", "message_model": "clustering",
                   "subscriptions": ["orders"], "brokers": ["broker-a"], "enabled": true}),
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn a_group_that_may_not_consume_is_marked() {
        assert_eq!(
            table(&entries()).to_string(),
            "GROUP                 MEMBERS  TYPE  MODEL       TOPICS  BROKERS\n\
             audit (switched off)        0  -     -           -       broker-a,broker-b\n\
             billing                     2  push  clustering  orders  broker-a\n"
        );
    }
}
