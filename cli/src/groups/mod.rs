//! `groups`: all groups of a cluster, or one of them in full.
//!
//! ```text
//! flags ─► brokers: groups, members, what each tells ─► list or view ─► table or JSON
//! ```

mod list;
mod view;

use rocketmq_consumer_core::config::check_group_name;
use rocketmq_consumer_core::ids::ConsumerGroup;
use rocketmq_consumer_core::wire::request::groups::GroupListRequest;

use self::list::{Entry, collect, table};
use self::view::View;
use crate::admin::{Group, Master, connections, fan_out, is_internal_group, masters, with_cluster};
use crate::args::{GroupsArgs, TableOutput};
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::settings::Settings;
use crate::talk::{Level, Talk};

/// Runs the command.
///
/// # Errors
/// What makes no sense, and whoever does not answer.
pub(crate) fn run(args: &GroupsArgs, settings: Settings, talk: Talk) -> Result<Exit, Failure> {
    if let Some(group) = &args.group {
        check_group_name(group).map_err(|error| Failure::usage(format_args!("-g: {}", error.why)))?;
    }
    with_cluster(settings, async |cluster| look(args, cluster, talk).await)
}

async fn look(args: &GroupsArgs, cluster: &Cluster, talk: Talk) -> Result<Exit, Failure> {
    let masters = masters(cluster, talk).await?;
    match &args.group {
        Some(group) => one(args, cluster, &masters, &group.as_str().into(), talk).await?,
        None => all(args, cluster, &masters).await?,
    }
    Ok(Exit::Done)
}

async fn all(args: &GroupsArgs, cluster: &Cluster, masters: &[Master]) -> Result<(), Failure> {
    let mut tables = Vec::new();
    for master in masters {
        let request = GroupListRequest::default();
        tables.push((master, cluster.demand(&master.addr, &request).await?));
    }
    let mut entries: Vec<Entry> = collect(&tables)
        .into_iter()
        .filter(|entry| args.all || !is_internal_group(&entry.group))
        .collect();
    let asked: Vec<_> = entries
        .iter()
        .enumerate()
        .flat_map(|(place, entry)| {
            masters
                .iter()
                .map(move |master| (place, entry.group.clone(), master))
        })
        .collect();
    let places: Vec<_> = asked.iter().map(|(place, ..)| *place).collect();
    let answers = fan_out(asked, |(_, group, master)| {
        let (cluster, addr) = (cluster.clone(), master.addr.clone());
        async move { connections(&cluster, &addr, &group).await }
    })
    .await;
    for (place, answer) in places.into_iter().zip(answers) {
        if let (Some(entry), Some(members)) = (entries.get_mut(place), answer?) {
            entry.add(&members);
        }
    }
    let mut lines = Lines::stdout();
    match args.output {
        TableOutput::Json => entries.iter().try_for_each(|entry| lines.json(&entry.line()))?,
        TableOutput::Table => lines.text(&table(&entries).to_string())?,
    }
    lines.finish()
}

async fn one(
    args: &GroupsArgs,
    cluster: &Cluster,
    masters: &[Master],
    group: &ConsumerGroup,
    talk: Talk,
) -> Result<(), Failure> {
    let look = Group::look(cluster, masters, group, talk).await?;
    if look.members.is_empty() {
        if !is_known(cluster, masters, group).await? {
            return Err(Failure::failed(format_args!(
                "group {group} is unknown; `rocketcat groups` lists those there are"
            )));
        }
        talk.say(
            Level::Warn,
            format_args!(
                "group {group} has no member now; `rocketcat lag -g {group}` shows what waits for it"
            ),
        );
    }
    for (id, member) in &look.members {
        if let Err(why) = &member.info {
            talk.say(
                Level::Warn,
                format_args!("member {id} does not tell what it has: {why}"),
            );
        }
    }
    let view = View::new(group, &look);
    let mut lines = Lines::stdout();
    match args.output {
        TableOutput::Json => lines.json(&view)?,
        TableOutput::Table => lines.text(&view.to_string())?,
    }
    lines.finish()
}

/// Whether some broker keeps the group; asking for it by name would make it.
async fn is_known(cluster: &Cluster, masters: &[Master], group: &ConsumerGroup) -> Result<bool, Failure> {
    for master in masters {
        let table = cluster.demand(&master.addr, &GroupListRequest::default()).await?;
        if table.groups.contains_key(group) {
            return Ok(true);
        }
    }
    Ok(false)
}
