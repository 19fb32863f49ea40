use std::collections::BTreeSet;
use std::fmt;

use rocketmq_consumer_core::ids::{BrokerName, ClientId, ConsumerGroup, MessageQueue};
use rocketmq_consumer_core::wire::request::heartbeat::SubscriptionData;
use rocketmq_consumer_core::wire::request::running_info::{ConsumerRunningInfo, property};
use serde::Serialize;

use super::list::{model, word};
use crate::admin::{Group, Member, release, retry_topic};
use crate::output::Table;

/// A group in full: for programs by its keys, which are stable; for people as tables.
#[derive(Debug, Serialize)]
pub(crate) struct View<'a> {
    group: &'a str,
    consume_type: Option<&'static str>,
    message_model: Option<&'static str>,
    subscriptions: Vec<Subscription<'a>>,
    members: Vec<MemberView<'a>>,
    queues: Vec<QueueView<'a>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Subscription<'a> {
    topic: &'a str,
    expression: &'a str,
    expression_type: &'a str,
}

#[derive(Debug, Serialize)]
struct MemberView<'a> {
    client_id: &'a str,
    addresses: BTreeSet<&'a str>,
    brokers: BTreeSet<&'a str>,
    language: &'a str,
    version: i32,
    release: String,
    orderly: Option<bool>,
    started_at: Option<i64>,
    subscriptions: Option<BTreeSet<Subscription<'a>>>,
    queues: Option<usize>,
    silent: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct QueueView<'a> {
    topic: &'a str,
    broker: &'a str,
    queue_id: i32,
    owners: Vec<&'a str>,
}

impl<'a> View<'a> {
    /// What there is to see of a group.
    pub(crate) fn new(group: &'a ConsumerGroup, look: &'a Group) -> Self {
        let retry = retry_topic(group);
        let asked_for = |data: &&SubscriptionData| data.topic != retry;
        Self {
            group: group.as_str(),
            consume_type: look.consume_type.map(word),
            message_model: look.message_model.map(model),
            subscriptions: look
                .subscriptions
                .values()
                .filter(asked_for)
                .map(Subscription::of)
                .collect(),
            members: look
                .members
                .iter()
                .map(|(id, member)| MemberView::of(id, member, &asked_for))
                .collect(),
            queues: look
                .queues
                .iter()
                .map(|(queue, owners)| QueueView::of(queue, owners))
                .collect(),
        }
    }

    fn members_table(&self) -> Table {
        let mut table = Table::new()
            .text("MEMBER")
            .text("ADDRESS")
            .text("LANGUAGE")
            .text("RELEASE")
            .text("ORDERLY")
            .number("QUEUES")
            .text("BROKERS");
        for member in &self.members {
            let orderly = member.orderly.map_or("?", |yes| if yes { "yes" } else { "no" });
            table.row([
                member.client_id.to_owned(),
                joined(member.addresses.iter().map(|address| host(address))),
                member.language.to_owned(),
                member.release.clone(),
                orderly.to_owned(),
                member
                    .queues
                    .map_or_else(|| "?".into(), |count| count.to_string()),
                joined(member.brokers.iter().copied()),
            ]);
        }
        table
    }

    fn subscriptions_table(&self) -> Table {
        let mut table = Table::new()
            .text("TOPIC")
            .text("EXPRESSION")
            .text("TYPE")
            .text("MEMBERS");
        let mut all: BTreeSet<&Subscription<'_>> = self.subscriptions.iter().collect();
        all.extend(
            self.members
                .iter()
                .flat_map(|member| &member.subscriptions)
                .flatten(),
        );
        for one in all {
            let has = |member: &&MemberView<'_>| {
                member
                    .subscriptions
                    .as_ref()
                    .is_some_and(|mine| mine.contains(one))
            };
            let count = self.members.iter().filter(has).count();
            table.row([
                one.topic.to_owned(),
                one.expression.to_owned(),
                one.expression_type.to_owned(),
                format!("{count} of {}", self.members.len()),
            ]);
        }
        table
    }

    fn queues_table(&self) -> Table {
        let is_sure = self.members.iter().all(|member| member.silent.is_none());
        let nobody = if is_sure { "-" } else { "?" };
        let mut table = Table::new()
            .text("TOPIC")
            .text("BROKER")
            .number("QUEUE")
            .text("OWNER");
        for queue in &self.queues {
            let owners = queue.owners.join(",");
            table.row([
                queue.topic.to_owned(),
                queue.broker.to_owned(),
                queue.queue_id.to_string(),
                if owners.is_empty() { nobody.into() } else { owners },
            ]);
        }
        table
    }
}

impl fmt::Display for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n{}\n{}",
            self.members_table(),
            self.subscriptions_table(),
            self.queues_table()
        )
    }
}

impl<'a> Subscription<'a> {
    fn of(data: &'a SubscriptionData) -> Self {
        Self {
            topic: data.topic.as_str(),
            expression: &data.expression,
            expression_type: data.expression_type.as_deref().unwrap_or("TAG"),
        }
    }
}

impl<'a> MemberView<'a> {
    fn of(id: &'a ClientId, member: &'a Member, asked_for: &impl Fn(&&SubscriptionData) -> bool) -> Self {
        let info = member.info.as_ref().ok();
        Self {
            client_id: id.as_str(),
            addresses: member.links.iter().map(|link| link.from.as_str()).collect(),
            brokers: member
                .links
                .iter()
                .map(|link| BrokerName::as_str(&link.broker))
                .collect(),
            language: &member.language,
            version: member.version,
            release: release(member.version),
            orderly: info.and_then(|info| said(info, property::ORDERLY)),
            started_at: info.and_then(|info| said(info, property::STARTED_AT)),
            subscriptions: info.map(|info| {
                let mine = info.subscriptions.iter().filter(asked_for);
                mine.map(Subscription::of).collect()
            }),
            queues: info.map(|_| member.owned().len()),
            silent: member.info.as_ref().err().map(String::as_str),
        }
    }
}

impl<'a> QueueView<'a> {
    fn of(queue: &'a MessageQueue, owners: &'a BTreeSet<ClientId>) -> Self {
        Self {
            topic: queue.topic.as_str(),
            broker: queue.broker.as_str(),
            queue_id: queue.id.0,
            owners: owners.iter().map(ClientId::as_str).collect(),
        }
    }
}

/// What a member says under a name, if it makes sense.
fn said<T: std::str::FromStr>(info: &ConsumerRunningInfo, name: &str) -> Option<T> {
    info.properties.get(name)?.parse().ok()
}

/// The host of an address: the port differs from connection to connection.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// Texts in their order, each once, with commas between them.
fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let texts: BTreeSet<_> = texts.collect();
    texts.into_iter().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admin::group_tests::{member, queue, route, subscription};

    fn look() -> Group {
        let mut told = member("10.0.0.1:5", &[queue("T", 0)]);
        if let Ok(info) = &mut told.info {
            info.subscriptions = vec![subscription("T", "a || b", 1), subscription("%RETRY%G", "*", 1)];
            info.properties = [(property::ORDERLY, "true"), (property::STARTED_AT, "7")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        }
        let mut silent = member("10.0.0.2:6", &[]);
        silent.info = Err("no answer in time".into());
        silent.version = 399;
        let queues = [
            (queue("T", 0), ["x".into()].into()),
            (queue("T", 1), BTreeSet::new()),
        ];
        Group {
            members: [("x".into(), told), ("y".into(), silent)].into(),
            subscriptions: [
                ("T".into(), subscription("T", "a", 2)),
                ("%RETRY%G".into(), subscription("%RETRY%G", "*", 2)),
            ]
            .into(),
            queues: queues.into(),
            routes: [("T".into(), route(2))].into(),
            ..Group::default()
        }
    }

    #[test]
    fn every_key_is_there_and_who_is_silent_says_nothing() {
        let (group, look) = ("G".into(), look());
        let want = json!({
            "group": "G", "consume_type": null, "message_model": null,
            "subscriptions": [{"topic": "T", "expression": "a", "expression_type": "TAG"}],
            "members": [
                {"client_id": "x", "addresses": ["10.0.0.1:5"], "brokers": ["broker-a"], "language": "JAVA",
                 "version": 513, "release": "5.5.0", "orderly": true, "started_at": 7,
                 "subscriptions": [{"topic": "T", "expression": "a || b", "expression_type": "TAG"}], "queues": 1,
                 "silent": null},
                {"client_id": "y", "addresses": ["10.0.0.2:6"], "brokers": ["broker-a"], "language": "JAVA",
                 "version": 399, "release": "4.9.3", "orderly": null, "started_at": null, "subscriptions": null,
                 "queues": null, "silent": "no answer in time"},
            ],
            "queues": [
                {"topic": "T", "broker": "broker-a", "queue_id": 0, "owners": ["x"]},
                {"topic": "T", "broker": "broker-a", "queue_id": 1, "owners": []},
            ],
        });
        assert_eq!(serde_json::to_value(View::new(&group, &look)).unwrap(), want);
    }

    #[test]
    fn people_see_who_differs_and_what_nobody_knows() {
        let (group, look) = ("G".into(), look());
        assert_eq!(
            View::new(&group, &look).to_string(),
            "MEMBER  ADDRESS   LANGUAGE  RELEASE  ORDERLY  QUEUES  BROKERS\n\
             x       10.0.0.1  JAVA      5.5.0    yes           1  broker-a\n\
             y       10.0.0.2  JAVA      4.9.3    ?             ?  broker-a\n\
             \n\
             TOPIC  EXPRESSION  TYPE  MEMBERS\n\
             T      a           TAG   0 of 2\n\
             T      a || b      TAG   1 of 2\n\
             \n\
             TOPIC  BROKER    QUEUE  OWNER\n\
             T      broker-a      0  x\n\
             T      broker-a      1  ?\n"
        );
    }
}
