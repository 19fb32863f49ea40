//! `topics`: all topics of a cluster, the queues of one, or a new one.
//!
//! ```text
//! flags ─► name server: names, routes ─► brokers: how full ─► rows ─► table or JSON
//! create ─► brokers: what is there ─► make ─► brokers and name server: what is there now
//! ```

mod create;
mod list;
mod perm;
mod queues;

use std::collections::BTreeSet;

use rocketmq_consumer_core::config::check_topic_name;
use rocketmq_consumer_core::ids::Topic;
use rocketmq_consumer_core::wire::request::cluster::ClusterInfoRequest;
use rocketmq_consumer_core::wire::request::stats::TopicStatsRequest;
use rocketmq_consumer_core::wire::request::topics::TopicListRequest;

pub(crate) use self::perm::Perm;
use crate::admin::{fan_out, is_internal_topic, masters_of, route_or_fail, with_cluster};
use crate::args::{TableOutput, TopicsArgs, TopicsCommand};
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::settings::Settings;
use crate::talk::{Level, Talk};

/// Runs the command.
///
/// # Errors
/// What makes no sense, and whoever does not answer.
pub(crate) fn run(args: &TopicsArgs, settings: Settings, talk: Talk) -> Result<Exit, Failure> {
    if let Some(TopicsCommand::Create(args)) = &args.command {
        return create::run(args, settings, talk);
    }
    if let Some(topic) = &args.topic {
        check_topic_name(topic).map_err(|error| Failure::usage(format_args!("TOPIC: {}", error.why)))?;
    }
    with_cluster(settings, async |cluster| {
        match &args.topic {
            Some(topic) => one(args, cluster, &topic.as_str().into(), talk).await?,
            None => all(args, cluster).await?,
        }
        Ok(Exit::Done)
    })
}

async fn all(args: &TopicsArgs, cluster: &Cluster) -> Result<(), Failure> {
    let names = cluster
        .ask_name_servers(&TopicListRequest)
        .await?
        .unwrap_or_default();
    let info = cluster
        .ask_name_servers(&ClusterInfoRequest)
        .await?
        .unwrap_or_default();
    let clusters = info.clusters.keys().cloned();
    let servers: BTreeSet<String> = clusters
        .chain(info.brokers.keys().map(ToString::to_string))
        .collect();
    let topics: Vec<Topic> = names
        .topics
        .into_iter()
        .filter(|topic| args.all || !is_internal_topic(topic, &servers))
        .collect();
    let routes = fan_out(topics.clone(), |topic| {
        let cluster = cluster.clone();
        async move { cluster.route(&topic).await }
    })
    .await;
    let mut rows = Vec::new();
    for (topic, route) in topics.iter().zip(routes) {
        // A topic that was deleted meanwhile is none.
        rows.extend(route?.map(|route| list::Row::new(topic, &route)));
    }
    let mut lines = Lines::stdout();
    match args.output {
        TableOutput::Json => rows.iter().try_for_each(|row| lines.json(row))?,
        TableOutput::Table => lines.text(&list::table(&rows).to_string())?,
    }
    lines.finish()
}

async fn one(args: &TopicsArgs, cluster: &Cluster, topic: &Topic, talk: Talk) -> Result<(), Failure> {
    let route = route_or_fail(cluster, topic).await?;
    let mut rows = Vec::new();
    for master in masters_of(&route) {
        let request = TopicStatsRequest { topic: topic.clone() };
        let stats = cluster.demand(&master.addr, &request).await?;
        rows.extend(queues::rows(&master, &route, &stats));
    }
    let masters: BTreeSet<_> = masters_of(&route).into_iter().map(|master| master.name).collect();
    for data in route.queues.iter().filter(|data| !masters.contains(&data.broker)) {
        talk.say(
            Level::Warn,
            format_args!("{} has no master now: its queues are left out", data.broker),
        );
    }
    let mut lines = Lines::stdout();
    match args.output {
        TableOutput::Json => rows.iter().try_for_each(|row| lines.json(&row.line(topic)))?,
        TableOutput::Table => lines.text(&queues::table(&rows).to_string())?,
    }
    lines.finish()
}
