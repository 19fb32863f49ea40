//! Asks everybody who may know something about a group.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup, PeerAddr, Topic};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::request::cluster::ClusterInfoRequest;
use rocketmq_consumer_core::wire::request::groups::{GroupListRequest, SubscriptionGroupConfig};
use rocketmq_consumer_core::wire::request::route::{RouteRequest, TopicRoute};
use rocketmq_consumer_tokio::CallError;

use super::evidence::{Address, Evidence, Progress, Reading};
use crate::admin::{BrokerRuntimeRequest, Group, Master, fan_out, masters, retry_topic};
use crate::clock::Clock;
use crate::cluster::{Cluster, is_refused_with};
use crate::dlq::{dead_queues, requeued};
use crate::exit::Failure;
use crate::lag::{Row, Survey};
use crate::talk::{Level, Talk};

/// A broker tells its clock as a start and whole seconds since.
const CLOCK_STEP_MS: i64 = 1_000;

/// Looks at a group for so long.
///
/// # Errors
/// No name server answers, or nobody knows the group. Everything else that fails is evidence.
pub(crate) async fn gather(
    cluster: &Cluster,
    name: &ConsumerGroup,
    watch: Duration,
    clock: Clock,
    talk: Talk,
) -> Result<Evidence, Failure> {
    let masters = masters(cluster, talk).await?;
    let settings = settings(cluster, &masters, name, talk).await;
    let first = Group::look(cluster, &masters, name, talk).await?;
    if settings.is_empty() && first.members.is_empty() {
        return Err(Failure::failed(format_args!(
            "group {name} is unknown; `rocketcat groups` lists those there are"
        )));
    }
    let mut evidence = Evidence {
        name: Some(name.clone()),
        settings,
        ..Evidence::default()
    };
    let began = (rows(cluster, name, talk).await, clock.elapsed());
    let (group, before) = if watch.is_zero() {
        (first, None)
    } else {
        talk.say(
            Level::Info,
            format_args!(
                "watching group {name} for {} s; --watch 0 does not",
                watch.as_secs_f64()
            ),
        );
        tokio::time::sleep(watch).await;
        (Group::look(cluster, &masters, name, talk).await?, Some(first))
    };
    evidence.progress = progress(cluster, name, began, before.is_some(), clock, talk).await;
    evidence.clocks = broker_clocks(cluster, &masters, clock, talk).await;
    evidence.clocks.extend(member_clocks(&group, clock.unix_ms()));
    let topics: Vec<Topic> = group.subscriptions.keys().cloned().collect();
    evidence.name_servers = name_servers(cluster, &topics).await;
    evidence.addresses = addresses(cluster, &group).await?;
    evidence.dead = dead(cluster, name, talk).await;
    (evidence.group, evidence.before, evidence.masters) = (group, before, masters);
    Ok(evidence)
}

/// How brokers keep the group.
async fn settings(
    cluster: &Cluster,
    masters: &[Master],
    group: &ConsumerGroup,
    talk: Talk,
) -> BTreeMap<BrokerName, SubscriptionGroupConfig> {
    let mut settings = BTreeMap::new();
    for master in masters {
        match cluster.demand(&master.addr, &GroupListRequest::default()).await {
            Ok(mut table) => settings.extend(
                table
                    .groups
                    .remove(group)
                    .map(|config| (master.name.clone(), config)),
            ),
            Err(failure) => say_unseen(&format!("settings at {}", master.name), failure, talk),
        }
    }
    settings
}

/// How far the group is; nothing where no broker knows.
async fn rows(cluster: &Cluster, group: &ConsumerGroup, talk: Talk) -> Option<Vec<Row>> {
    match Survey::new(cluster, group, &[], talk).take_without_owners().await {
        Ok(rows) => Some(rows),
        Err(failure) => {
            say_unseen("progress", failure, talk);
            None
        }
    }
}

async fn progress(
    cluster: &Cluster,
    group: &ConsumerGroup,
    (before, began): (Option<Vec<Row>>, Duration),
    has_watched: bool,
    clock: Clock,
    talk: Talk,
) -> Option<Progress> {
    if !has_watched {
        return before.map(|after| Progress { after, before: None });
    }
    let after = rows(cluster, group, talk).await?;
    let time = clock.elapsed().saturating_sub(began);
    Some(Progress {
        after,
        before: before.map(|before| (before, time)),
    })
}

async fn broker_clocks(cluster: &Cluster, masters: &[Master], clock: Clock, talk: Talk) -> Vec<Reading> {
    let mut readings = Vec::new();
    for master in masters {
        let asked = clock.unix_ms();
        match cluster.demand(&master.addr, &BrokerRuntimeRequest).await {
            Ok(runtime) => readings.extend(runtime.clock().map(|theirs| Reading {
                of: master.name.to_string(),
                ahead_ms: theirs.saturating_sub(clock.unix_ms()),
                ahead_most_ms: Some(theirs.saturating_add(CLOCK_STEP_MS).saturating_sub(asked)),
            })),
            Err(failure) => say_unseen(&format!("clock of {}", master.name), failure, talk),
        }
    }
    readings
}

/// What members tell of their last pulls: their clocks are that late at least.
fn member_clocks(group: &Group, now: i64) -> Vec<Reading> {
    let told = group.members.iter().filter_map(|(id, member)| {
        let info = member.info.as_ref().ok()?;
        let pulls = info.queues.values().filter_map(|queue| queue.last_pull);
        Some((id, pulls.max()?))
    });
    told.map(|(id, last): (_, WallTime)| Reading {
        of: id.to_string(),
        ahead_ms: last.as_unix_millis().saturating_sub(now),
        ahead_most_ms: None,
    })
    .collect()
}

async fn name_servers(
    cluster: &Cluster,
    topics: &[Topic],
) -> BTreeMap<PeerAddr, Result<BTreeMap<Topic, Option<TopicRoute>>, String>> {
    let mut said = BTreeMap::new();
    for server in cluster.name_servers() {
        said.insert(server.clone(), routes_of(cluster, server, topics).await);
    }
    said
}

async fn routes_of(
    cluster: &Cluster,
    server: &PeerAddr,
    topics: &[Topic],
) -> Result<BTreeMap<Topic, Option<TopicRoute>>, String> {
    let mut routes = BTreeMap::new();
    for topic in topics {
        let request = RouteRequest {
            topic: topic.clone(),
            standard_json: true,
        };
        let route = match cluster.ask(server, &request).await {
            Ok(route) => Some(route),
            Err(error) if is_refused_with(&error, ResponseCode::TOPIC_NOT_EXIST) => None,
            Err(error) => return Err(why(cluster, server, &error).await),
        };
        routes.insert(topic.clone(), route);
    }
    Ok(routes)
}

/// The addresses of the brokers that have the group's topics, or of all where it has none. Whoever refuses is
/// there: brokers do not know the question, which changes nothing.
async fn addresses(cluster: &Cluster, group: &Group) -> Result<Vec<Address>, Failure> {
    let routes = group.routes.values();
    let mut brokers: BTreeMap<_, _> = routes
        .flat_map(|route| &route.brokers)
        .map(|broker| (broker.name.clone(), broker.clone()))
        .collect();
    if brokers.is_empty() {
        let info = cluster.ask_name_servers(&ClusterInfoRequest).await?;
        brokers = info.unwrap_or_default().brokers;
    }
    let registered = brokers.into_values().flat_map(|broker| {
        let name = broker.name;
        broker
            .addresses
            .into_iter()
            .map(move |(id, text)| (name.clone(), id, text))
    });
    let addresses = fan_out(registered, |(broker, id, text)| {
        let cluster = cluster.clone();
        async move {
            let trouble = match text.parse() {
                Ok(addr) => trouble(&cluster, &addr).await,
                Err(_) => Some("that is no address".into()),
            };
            Address {
                broker,
                id,
                text,
                trouble,
            }
        }
    });
    Ok(addresses.await)
}

async fn trouble(cluster: &Cluster, addr: &PeerAddr) -> Option<String> {
    let request = RouteRequest {
        topic: retry_topic(&"rocketcat".into()),
        standard_json: true,
    };
    match cluster.ask(addr, &request).await {
        Ok(_) | Err(CallError::Broker { .. }) => None,
        Err(error) => Some(why(cluster, addr, &error).await),
    }
}

async fn why(cluster: &Cluster, addr: &PeerAddr, error: &CallError) -> String {
    if let CallError::Connect(_) = error {
        return cluster.trouble(addr).await;
    }
    error.to_string()
}

/// Dead letters that were not sent again.
async fn dead(cluster: &Cluster, group: &ConsumerGroup, talk: Talk) -> BTreeMap<BrokerName, u64> {
    let mut dead: BTreeMap<BrokerName, u64> = BTreeMap::new();
    let queues = match dead_queues(cluster, group, None).await {
        Ok(queues) => queues,
        Err(failure) => {
            say_unseen("dead letters", failure, talk);
            return dead;
        }
    };
    for queue in queues {
        let from = match requeued(cluster, &queue).await {
            Ok(position) => queue.within(position.unwrap_or(queue.min)),
            Err(failure) => {
                say_unseen("dead letters", failure, talk);
                queue.min
            }
        };
        let left = u64::try_from(queue.max.0.saturating_sub(from.0)).unwrap_or(0);
        *dead.entry(queue.queue.broker).or_default() += left;
    }
    dead
}

/// What cannot be looked at is no finding, but somebody may want to know.
fn say_unseen(what: &str, failure: Failure, talk: Talk) {
    let why = failure.message.unwrap_or_default();
    talk.say(Level::Info, format_args!("{what}: not looked at, {why}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::group_tests::{member, queue};

    #[test]
    fn the_last_pull_of_a_member_tells_how_late_its_clock_is_at_least() {
        let mut one = member("h:1", &[queue("T", 0), queue("T", 1)]);
        for (place, info) in one
            .info
            .iter_mut()
            .flat_map(|info| info.queues.values_mut())
            .enumerate()
        {
            info.last_pull = Some(WallTime::from_unix_millis(if place == 0 { 900 } else { 1_500 }));
        }
        let group = Group {
            members: [("x".into(), one), ("idle".into(), member("h:2", &[]))].into(),
            ..Group::default()
        };
        let readings = member_clocks(&group, 1_000);
        let want = Reading {
            of: "x".into(),
            ahead_ms: 500,
            ahead_most_ms: None,
        };
        assert_eq!(readings, [want]);
    }
}
