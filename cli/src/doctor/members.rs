//! Whether the members get along.

use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::ids::{BrokerName, ClientId, Topic};
use rocketmq_consumer_core::wire::request::heartbeat::SubscriptionData;
use rocketmq_consumer_core::wire::request::running_info::{ConsumerRunningInfo, property};

use super::evidence::Evidence;
use super::finding::{Finding, some};
use crate::admin::{Link, Member, release, retry_topic};

/// The first release whose clients read what name servers write today: 4.9.4.
const VERSION_MIN: i32 = 401;

/// Where Java's clients, and ours, name their strategy.
const STRATEGY: &str = "allocateMessageQueueStrategy";

/// Members that do not tell what they do.
pub(crate) fn silent(evidence: &Evidence, findings: &mut Vec<Finding>) {
    for (id, member) in &evidence.group.members {
        if let Err(why) = &member.info {
            findings.push(Finding::new(
                "silent-member",
                id.as_str(),
                format!("does not tell what it does ({why})"),
                "see whether that process hangs; its queues and subscriptions are not looked at",
            ));
        }
    }
}

/// Two processes under one id take half of the queues from the group: each believes to have its share alone.
pub(crate) fn client_ids(evidence: &Evidence, findings: &mut Vec<Finding>) {
    for (id, member) in &evidence.group.members {
        let mut by_broker: BTreeMap<&BrokerName, Vec<&Link>> = BTreeMap::new();
        for link in &member.links {
            by_broker.entry(&link.broker).or_default().push(link);
        }
        let twice = by_broker.values().find(|links| links.len() > 1);
        let hosts: BTreeSet<&str> = member.links.iter().map(|link| host(&link.from)).collect();
        let froms = match twice {
            Some(links) => some(links.iter().map(|link| &link.from)),
            None if hosts.len() > 1 => some(&hosts),
            None => continue,
        };
        findings.push(Finding::new(
            "client-id",
            id.as_str(),
            format!("is connected from several places at once: {froms}"),
            "if it still is in two minutes, two processes have one id: give each an instance name of its own",
        ));
    }
}

/// Clients of a release that today's name servers take no care of.
pub(crate) fn versions(evidence: &Evidence, findings: &mut Vec<Finding>) {
    for (id, member) in &evidence.group.members {
        if member.version < VERSION_MIN {
            findings.push(Finding::new(
                "client-version",
                id.as_str(),
                format!("is of release {}", release(member.version)),
                format!("update it to {} or later", release(VERSION_MIN)),
            ));
        }
    }
}

/// Brokers keep one subscription for all members: with different ones, each member loses messages.
pub(crate) fn subscriptions(evidence: &Evidence, findings: &mut Vec<Finding>) {
    let retry = retry_topic(&evidence.group_name().into());
    let mut topics: BTreeMap<Topic, BTreeMap<String, Vec<&ClientId>>> = BTreeMap::new();
    let told: Vec<_> = told(evidence).collect();
    let all: BTreeSet<&Topic> = told
        .iter()
        .flat_map(|(_, info)| info.subscriptions.iter().map(|data| &data.topic))
        .filter(|topic| **topic != retry)
        .collect();
    for topic in all {
        for (id, info) in &told {
            let mine = info.subscriptions.iter().find(|data| data.topic == *topic);
            let words = mine.map_or_else(|| "nothing".into(), normal);
            topics
                .entry(topic.clone())
                .or_default()
                .entry(words)
                .or_default()
                .push(id);
        }
    }
    for (topic, wishes) in topics.into_iter().filter(|(_, wishes)| wishes.len() > 1) {
        let wishes = wishes
            .iter()
            .map(|(words, ids)| format!("{words} by {}", some(ids)));
        findings.push(Finding::new(
            "subscriptions",
            topic.as_str(),
            format!("is subscribed to in different ways: {}", some(wishes)),
            "give all members of a group the same subscriptions; those that differ lose messages",
        ));
    }
}

/// Members that share by different rules, or of which only some keep the order.
pub(crate) fn modes(evidence: &Evidence, findings: &mut Vec<Finding>) {
    let ways = [
        Way {
            check: "mode",
            finding: "consume in different ways",
            of: |info| {
                let orderly = info.properties.get(property::ORDERLY)?;
                Some(
                    if orderly == "true" {
                        "in order"
                    } else {
                        "concurrently"
                    }
                    .into(),
                )
            },
            advice: "have all members consume in order, or none: the others do not wait for the locks",
        },
        Way {
            check: "mode",
            finding: "get messages in different ways",
            of: |info| info.properties.get(property::CONSUME_TYPE).cloned(),
            advice: "have all members push, or all pull",
        },
        Way {
            check: "strategy",
            finding: "share the queues by different strategies",
            of: strategy,
            advice: "give all members the same strategy: otherwise queues belong to two of them, or to nobody",
        },
    ];
    findings.extend(ways.iter().filter_map(|way| way.compare(evidence)));
}

/// Something in which all members should be alike.
struct Way {
    check: &'static str,
    finding: &'static str,
    /// What a member tells of it.
    of: fn(&ConsumerRunningInfo) -> Option<String>,
    advice: &'static str,
}

impl Way {
    /// What is to be said when members differ.
    fn compare(&self, evidence: &Evidence) -> Option<Finding> {
        let mut ways: BTreeMap<String, Vec<&ClientId>> = BTreeMap::new();
        for (id, info) in told(evidence) {
            if let Some(way) = (self.of)(info) {
                ways.entry(way).or_default().push(id);
            }
        }
        if ways.len() < 2 {
            return None;
        }
        let ways: Vec<_> = ways
            .iter()
            .map(|(way, ids)| format!("{way}: {}", some(ids)))
            .collect();
        let finding = format!("{} ({})", self.finding, ways.join("; "));
        Some(Finding::new(self.check, "members", finding, self.advice))
    }
}

/// Members that miss a broker do not get what lies there.
pub(crate) fn connections(evidence: &Evidence, findings: &mut Vec<Finding>) {
    let retry = retry_topic(&evidence.group_name().into());
    let with_queues: BTreeSet<&BrokerName> = evidence
        .group
        .queues
        .keys()
        .filter(|queue| queue.topic != retry)
        .map(|queue| &queue.broker)
        .filter(|broker| evidence.masters.iter().any(|master| master.name == **broker))
        .collect();
    for (id, member) in &evidence.group.members {
        let connected: BTreeSet<&BrokerName> = member.links.iter().map(|link| &link.broker).collect();
        let missing: Vec<_> = with_queues.difference(&connected).collect();
        if !missing.is_empty() {
            findings.push(Finding::new(
                "connection",
                id.as_str(),
                format!(
                    "is not connected to {}, which has queues of its topics",
                    some(missing)
                ),
                "see whether it can reach that broker's address from where it runs",
            ));
        }
    }
}

fn told(evidence: &Evidence) -> impl Iterator<Item = (&ClientId, &ConsumerRunningInfo)> {
    let members = evidence.group.members.iter();
    members.filter_map(|(id, member): (_, &Member)| Some((id, member.info.as_ref().ok()?)))
}

/// A subscription, written in the same way whoever wrote it.
fn normal(data: &SubscriptionData) -> String {
    let expression_type = data.expression_type.as_deref().unwrap_or("TAG");
    if expression_type != "TAG" {
        return format!("{expression_type} {}", data.expression.trim());
    }
    if data.tags.is_empty() {
        return "*".into();
    }
    data.tags
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("||")
}

/// The strategy by its short name: Java writes the class and the place of the object.
fn strategy(info: &ConsumerRunningInfo) -> Option<String> {
    let text = info.properties.get(STRATEGY)?;
    let class = text.split('@').next().unwrap_or(text);
    Some(class.rsplit('.').next().unwrap_or(class).to_owned())
}

fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::super::finding::found;
    use super::*;
    use crate::admin::group_tests::{member, queue, subscription};
    use crate::admin::{Group, Master};

    fn evidence(members: Vec<(&str, Member)>) -> Evidence {
        let members = members.into_iter().map(|(id, member)| (id.into(), member));
        Evidence {
            name: Some("G".into()),
            group: Group {
                members: members.collect(),
                ..Group::default()
            },
            ..Evidence::default()
        }
    }

    fn told_by(change: impl FnOnce(&mut ConsumerRunningInfo)) -> Member {
        let mut member = member("10.0.0.1:5", &[]);
        if let Ok(info) = &mut member.info {
            change(info);
        }
        member
    }

    fn subscriber(topic: &str, expression: &str) -> Member {
        told_by(|info| {
            info.subscriptions = vec![
                subscription(topic, expression, 1),
                subscription("%RETRY%G", "*", 1),
            ];
        })
    }

    #[test]
    fn one_id_from_two_places_is_told() {
        let link = |broker: &str, from: &str| Link {
            broker: broker.into(),
            from: from.into(),
        };
        let with = |links: Vec<Link>| Member {
            links,
            ..member("", &[])
        };
        let fine = with(vec![link("a", "10.0.0.1:1"), link("b", "10.0.0.1:2")]);
        let twice = with(vec![
            link("a", "10.0.0.1:1"),
            link("a", "10.0.0.1:9"),
            link("b", "10.0.0.1:2"),
        ]);
        let apart = with(vec![link("a", "10.0.0.1:1"), link("b", "10.0.0.2:1")]);
        let evidence = evidence(vec![("fine", fine), ("twice", twice), ("apart", apart)]);
        assert_eq!(
            found(client_ids, &evidence),
            [
                "client-id: apart is connected from several places at once: 10.0.0.1, 10.0.0.2",
                "client-id: twice is connected from several places at once: 10.0.0.1:1, 10.0.0.1:9",
            ]
        );
    }

    #[test]
    fn subscriptions_are_compared_by_what_they_mean() {
        let same = vec![("x", subscriber("T", "a || b")), ("y", subscriber("T", "b||a"))];
        assert_eq!(found(subscriptions, &evidence(same)), Vec::<String>::new());
        let differ = vec![
            ("x", subscriber("T", "a")),
            ("y", subscriber("T", "*")),
            ("z", subscriber("U", "*")),
        ];
        assert_eq!(
            found(subscriptions, &evidence(differ)),
            [
                "subscriptions: T is subscribed to in different ways: * by y, a by x, nothing by z",
                "subscriptions: U is subscribed to in different ways: * by z, nothing by x, y",
            ]
        );
        let mut sql = subscription("T", "a > 1 ", 1);
        sql.expression_type = Some("SQL92".into());
        assert_eq!(normal(&sql), "SQL92 a > 1");
    }

    #[test]
    fn modes_and_strategies_are_compared_by_what_members_tell() {
        let with = |name: &str, value: &str| {
            told_by(|info| {
                info.properties.insert(name.into(), value.into());
            })
        };
        let same = vec![
            (
                "x",
                with(STRATEGY, "org.apache.A.AllocateMessageQueueAveragely@1b"),
            ),
            (
                "y",
                with(STRATEGY, "org.apache.A.AllocateMessageQueueAveragely@77"),
            ),
            ("z", member("h:1", &[])),
        ];
        assert_eq!(found(modes, &evidence(same)), Vec::<String>::new());
        let differ = vec![
            (
                "x",
                with(STRATEGY, "org.apache.A.AllocateMessageQueueAveragely@1b"),
            ),
            ("y", with(STRATEGY, "AllocateMessageQueueAveragelyByCircle")),
        ];
        assert_eq!(
            found(modes, &evidence(differ)),
            [
                "strategy: members share the queues by different strategies (AllocateMessageQueueAveragely: x; \
              AllocateMessageQueueAveragelyByCircle: y)"
            ]
        );
        let differ = vec![
            ("x", with(property::ORDERLY, "true")),
            ("y", with(property::ORDERLY, "false")),
        ];
        assert_eq!(
            found(modes, &evidence(differ)),
            ["mode: members consume in different ways (concurrently: y; in order: x)"]
        );
    }

    #[test]
    fn old_and_silent_members_are_told() {
        let mut old = member("h:1", &[]);
        (old.version, old.info) = (399, Err("no answer in time".into()));
        let evidence = evidence(vec![("old", old), ("new", member("h:2", &[]))]);
        assert_eq!(
            found(versions, &evidence),
            ["client-version: old is of release 4.9.3"]
        );
        let want = "silent-member: old does not tell what it does (no answer in time)";
        assert_eq!(found(silent, &evidence), [want]);
    }

    #[test]
    fn a_member_that_misses_a_broker_with_queues_is_told() {
        let mut evidence = evidence(vec![("x", member("h:1", &[]))]);
        let mut there = queue("T", 0);
        there.broker = "broker-b".into();
        evidence.group.queues = [(queue("T", 0), BTreeSet::new()), (there, BTreeSet::new())].into();
        assert_eq!(
            found(connections, &evidence),
            Vec::<String>::new(),
            "it has no master"
        );
        evidence.masters = vec![Master {
            name: "broker-b".into(),
            addr: rocketmq_consumer_core::ids::PeerAddr::new("h", 1),
        }];
        let want = "connection: x is not connected to broker-b, which has queues of its topics";
        assert_eq!(found(connections, &evidence), [want]);
    }
}
