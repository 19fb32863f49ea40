//! `offset reset`: has a group continue elsewhere.
//!
//! ```text
//! flags ─► survey: bounds, what is stored, where to ─► rows ─► dry run: table or JSON
//!                                                      └► yes? ─► reset, a broker after the other ─► read again
//! ```

mod reset;
mod row;
mod survey;
mod target;

use std::collections::BTreeMap;

use rocketmq_consumer_core::config::{check_group_name, check_topic_name};
use rocketmq_consumer_core::ids::{ConsumerGroup, Topic};
use rocketmq_consumer_core::wire::request::heartbeat::MessageModel;

use self::reset::Reset;
use self::row::{Row, plan_table, result_table};
use self::survey::Survey;
pub(crate) use self::survey::{queue_ref, stored};
pub(crate) use self::target::Target;
use crate::admin::{Consent, with_cluster};
use crate::args::{OffsetCommand, OffsetResetArgs, TableOutput};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::settings::Settings;
use crate::talk::{Level, Talk};

/// Runs the command.
///
/// # Errors
/// What makes no sense, whoever does not answer, and what would not be what was meant.
pub(crate) fn run(
    command: &OffsetCommand,
    settings: Settings,
    clock: Clock,
    talk: Talk,
) -> Result<Exit, Failure> {
    let OffsetCommand::Reset(args) = command;
    check_group_name(&args.group).map_err(|error| Failure::usage(format_args!("-g: {}", error.why)))?;
    check_topic_name(&args.topic).map_err(|error| Failure::usage(format_args!("-t: {}", error.why)))?;
    let consent = if args.dry_run {
        Consent::Given
    } else {
        Consent::of(
            args.yes,
            "reset offsets",
            ", or --dry-run to see what would happen",
        )?
    };
    with_cluster(settings, async |cluster| {
        reset(args, cluster, consent, clock, talk).await
    })
}

async fn reset(
    args: &OffsetResetArgs,
    cluster: &Cluster,
    consent: Consent,
    clock: Clock,
    talk: Talk,
) -> Result<Exit, Failure> {
    let (group, topic) = (
        ConsumerGroup::from(args.group.as_str()),
        Topic::from(args.topic.as_str()),
    );
    let place = args.to.place(clock.unix_ms());
    let survey = Survey::new(cluster, &group, &topic, talk);
    let mut rows = survey.rows(place, &args.queue).await?;
    let standing = survey.standing(&rows).await?;
    if standing.model == Some(MessageModel::Broadcasting) {
        return Err(Failure::failed(format_args!(
            "group {group} is broadcasting: each member keeps offsets of its own, which no broker can reset"
        )));
    }
    if args.dry_run {
        write(args, &rows, false)?;
        return Ok(Exit::Done);
    }
    let question = format!(
        "Have group {group} continue there in {} queues of {topic}?",
        rows.len()
    );
    consent.get(plan_table(&rows).to_string(), question).await?;
    let reset = Reset {
        cluster,
        group: &group,
        topic: &topic,
        place,
        is_whole: args.queue.is_empty(),
        is_online: standing.is_online,
        talk,
    };
    let mut troubles = Vec::new();
    for rows in by_broker(&mut rows).into_values() {
        if let Err(failure) = reset.at(rows).await {
            troubles.push(failure);
        }
    }
    write(args, &rows, true)?;
    conclude(&rows, troubles, standing.is_online, talk)
}

/// The rows of each broker, in the order of the brokers' names.
fn by_broker(rows: &mut [Row]) -> BTreeMap<String, Vec<&mut Row>> {
    let mut brokers: BTreeMap<String, Vec<&mut Row>> = BTreeMap::new();
    for row in rows {
        brokers.entry(row.queue.broker.to_string()).or_default().push(row);
    }
    brokers
}

fn conclude(rows: &[Row], troubles: Vec<Failure>, is_online: bool, talk: Talk) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for trouble in troubles {
        exit = trouble.exit;
        talk.error(trouble.message.unwrap_or_default());
    }
    let missed = rows.iter().filter(|row| !row.is_done()).count();
    if missed > 0 {
        talk.error(format_args!(
            "{missed} of {} queues are not where they should be; look with `rocketcat lag`, then reset again",
            rows.len()
        ));
        return Ok(if exit == Exit::Done { Exit::Failed } else { exit });
    }
    if is_online {
        talk.say(Level::Info, "members that run continue there within 20 seconds");
    }
    Ok(exit)
}

fn write(args: &OffsetResetArgs, rows: &[Row], has_result: bool) -> Result<(), Failure> {
    let mut lines = Lines::stdout();
    match args.output {
        TableOutput::Json => rows.iter().try_for_each(|row| lines.json(&row.line()))?,
        TableOutput::Table if has_result => lines.text(&result_table(rows).to_string())?,
        TableOutput::Table => lines.text(&plan_table(rows).to_string())?,
    }
    lines.finish()
}
