//! Whether name servers and brokers can be found, and what they hold of the group.

use std::collections::BTreeMap;

use rocketmq_consumer_core::ids::Topic;
use rocketmq_consumer_core::wire::request::route::{MASTER_ID, TopicRoute};

use super::evidence::Evidence;
use super::finding::{Finding, some};

/// Name servers that do not answer, or say what others do not.
pub(crate) fn name_servers(evidence: &Evidence, findings: &mut Vec<Finding>) {
    for (server, said) in &evidence.name_servers {
        if let Err(why) = said {
            findings.push(Finding::new(
                "route",
                format!("name server {server}"),
                format!("does not answer: {why}"),
                "start it, or take it out of the list of name servers",
            ));
        }
    }
    let mut said: BTreeMap<&Topic, Vec<(String, String)>> = BTreeMap::new();
    for (server, routes) in &evidence.name_servers {
        for (topic, route) in routes.iter().flatten() {
            let words = route.as_ref().map_or_else(|| "nothing".into(), words);
            said.entry(topic).or_default().push((server.to_string(), words));
        }
    }
    for (topic, said) in said {
        let mut others = said.iter().map(|(_, words)| words);
        let first = others.next();
        if others.any(|other| Some(other) != first) {
            let said = said
                .iter()
                .map(|(server, words)| format!("{server} says {words}"));
            findings.push(Finding::new(
                "route",
                topic.as_str(),
                format!("has different routes: {}", some(said)),
                "look again in a minute; if it stays, a broker does not register with every name server",
            ));
        }
    }
}

/// Topics nobody can read.
pub(crate) fn routes(evidence: &Evidence, findings: &mut Vec<Finding>) {
    for topic in evidence.group.subscriptions.keys() {
        let (finding, advice) = match evidence.group.routes.get(topic) {
            None => (
                "is subscribed to and unknown",
                format!("make it: rocketcat topics create {topic} --queues 8"),
            ),
            Some(route) if !has_queue(route) => (
                "has no queue that may be read",
                format!("look with `rocketcat topics {topic}`; its permission or its broker's is without r"),
            ),
            Some(_) => continue,
        };
        findings.push(Finding::new("route", topic.as_str(), finding, advice));
    }
}

fn has_queue(route: &TopicRoute) -> bool {
    route
        .queues
        .iter()
        .any(|data| data.is_readable() && data.read_queues > 0)
}

/// Addresses that cannot be reached from here, and brokers without a master.
pub(crate) fn addresses(evidence: &Evidence, findings: &mut Vec<Finding>) {
    let mut has_master: BTreeMap<&str, bool> = BTreeMap::new();
    for address in &evidence.addresses {
        *has_master.entry(address.broker.as_str()).or_default() |= address.id == MASTER_ID;
        if let Some(why) = &address.trouble {
            let role = if address.id == MASTER_ID {
                "master"
            } else {
                "slave"
            };
            findings.push(Finding::new(
                "address",
                format!("{} ({role})", address.broker),
                format!("cannot be reached at {}: {why}", address.text),
                "start it; or have it register an address that clients reach (brokerIP1), or give --address-map",
            ));
        }
    }
    for (broker, _) in has_master.into_iter().filter(|(_, has_master)| !has_master) {
        findings.push(Finding::new(
            "address",
            broker,
            "has no master now",
            "start it: offsets, locks and retries wait until then",
        ));
    }
}

/// Settings of the group that keep it from consuming.
pub(crate) fn settings(evidence: &Evidence, findings: &mut Vec<Finding>) {
    for (broker, config) in &evidence.settings {
        let table = [
            (
                !config.consume_enable,
                "may not consume there (consumeEnable)",
                "switch it on with `mqadmin updateSubGroup -s true`",
            ),
            (
                config.retry_queue_nums < 1,
                "has no retry queue there (retryQueueNums): messages that fail are lost",
                "give it one with `mqadmin updateSubGroup -q 1`",
            ),
            (
                !evidence.is_clustering() && !config.consume_broadcast_enable,
                "is broadcasting and may not there (consumeBroadcastEnable)",
                "allow it with `mqadmin updateSubGroup -d true`",
            ),
        ];
        for (_, finding, advice) in table.into_iter().filter(|(is_so, ..)| *is_so) {
            findings.push(Finding::new("group", broker.as_str(), finding, advice));
        }
    }
}

/// A route in words that are the same for the same route.
fn words(route: &TopicRoute) -> String {
    let mut queues: Vec<_> = route
        .queues
        .iter()
        .map(|data| {
            let broker = route.brokers.iter().find(|broker| broker.name == data.broker);
            let addrs = broker.map(|broker| some(broker.addresses.values()));
            format!(
                "{} with {} queues at {}",
                data.broker,
                data.read_queues,
                addrs.unwrap_or_default()
            )
        })
        .collect();
    queues.sort();
    queues.join(", ")
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::PeerAddr;
    use rocketmq_consumer_core::wire::request::groups::SubscriptionGroupConfig;
    use rocketmq_consumer_core::wire::request::heartbeat::MessageModel;

    use super::super::evidence::Address;
    use super::super::finding::found;
    use super::*;
    use crate::admin::group_tests::{route, subscription};

    #[test]
    fn name_servers_that_are_silent_or_disagree_are_told() {
        let said = |queues| Ok([(Topic::from("T"), Some(route(queues)))].into());
        let evidence = |second: Result<_, String>| Evidence {
            name_servers: [(PeerAddr::new("a", 1), said(4)), (PeerAddr::new("b", 1), second)].into(),
            ..Evidence::default()
        };
        assert_eq!(found(name_servers, &evidence(said(4))), Vec::<String>::new());
        assert_eq!(
            found(name_servers, &evidence(said(8))),
            [
                "route: T has different routes: a:1 says broker-a with 4 queues at , b:1 says broker-a with 8 queues at "
            ]
        );
        assert_eq!(
            found(name_servers, &evidence(Err("no answer".into()))),
            ["route: name server b:1 does not answer: no answer"]
        );
        let unknown = Ok([(Topic::from("T"), None)].into());
        assert!(found(name_servers, &evidence(unknown))[0].ends_with("b:1 says nothing"));
    }

    #[test]
    fn a_topic_needs_a_queue_to_read() {
        let mut evidence = Evidence::default();
        let topics = ["T", "U", "V"];
        evidence.group.subscriptions = topics
            .map(|topic| (topic.into(), subscription(topic, "*", 1)))
            .into();
        let mut written = route(4);
        written.queues[0].perm = 2;
        evidence.group.routes = [("T".into(), route(4)), ("U".into(), written)].into();
        assert_eq!(
            found(routes, &evidence),
            [
                "route: U has no queue that may be read",
                "route: V is subscribed to and unknown"
            ]
        );
    }

    #[test]
    fn addresses_that_do_not_answer_and_masters_that_are_away_are_told() {
        let address = |broker: &str, id, trouble: Option<&str>| Address {
            broker: broker.into(),
            id,
            text: "10.0.0.1:10911".into(),
            trouble: trouble.map(str::to_owned),
        };
        let evidence = Evidence {
            addresses: vec![
                address("a", 0, None),
                address("a", 1, Some("connection refused")),
                address("b", 1, None),
            ],
            ..Evidence::default()
        };
        assert_eq!(
            found(addresses, &evidence),
            [
                "address: a (slave) cannot be reached at 10.0.0.1:10911: connection refused",
                "address: b has no master now",
            ]
        );
    }

    #[test]
    fn settings_that_keep_a_group_from_consuming_are_told() {
        let mut config = SubscriptionGroupConfig::new("G".into());
        let mut evidence = Evidence {
            settings: [("a".into(), config.clone())].into(),
            ..Evidence::default()
        };
        assert_eq!(found(settings, &evidence), Vec::<String>::new());
        (
            config.consume_enable,
            config.retry_queue_nums,
            config.consume_broadcast_enable,
        ) = (false, 0, false);
        evidence.settings = [("a".into(), config)].into();
        assert_eq!(found(settings, &evidence).len(), 2, "it does not broadcast");
        evidence.group.message_model = Some(MessageModel::Broadcasting);
        assert_eq!(found(settings, &evidence).len(), 3);
    }
}
