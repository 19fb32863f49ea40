//! `lag`: how far a group is behind.
//!
//! ```text
//! flags ─► survey: brokers, members, progress of each queue, owners ─► rows ─► table or JSON, exit code
//! ```

mod owners;
mod row;
mod survey;

use std::io::{self, IsTerminal as _};

use rocketmq_consumer_core::config::{check_group_name, check_topic_name};
use rocketmq_consumer_core::ids::{ConsumerGroup, Topic};

pub(crate) use self::row::Row;
use self::row::table;
pub(crate) use self::survey::Survey;
use crate::args::{LagArgs, TableOutput};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::settings::Settings;
use crate::signals;
use crate::talk::{Level, Talk};

/// Puts the cursor of a terminal into the first place of an empty screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Runs the command.
///
/// # Errors
/// What makes no sense, and whoever does not answer.
pub(crate) fn run(args: &LagArgs, settings: Settings, clock: Clock, talk: Talk) -> Result<Exit, Failure> {
    check_group_name(&args.group).map_err(|error| Failure::usage(format_args!("-g: {}", error.why)))?;
    for topic in &args.topic {
        check_topic_name(topic).map_err(|error| Failure::usage(format_args!("-t: {}", error.why)))?;
    }
    signals::run(async |mut signals| {
        let cluster = Cluster::new(settings).await?;
        let exit = tokio::select! {
            exit = look(args, &cluster, clock, talk) => exit,
            signal = signals.next() => Ok(signal.into()),
        };
        cluster.close().await;
        exit
    })
}

/// Looks once, or again and again until there is more than may be.
async fn look(args: &LagArgs, cluster: &Cluster, clock: Clock, talk: Talk) -> Result<Exit, Failure> {
    let group = ConsumerGroup::from(args.group.as_str());
    let topics: Vec<Topic> = args.topic.iter().map(|topic| topic.as_str().into()).collect();
    let survey = Survey::new(cluster, &group, &topics, talk);
    let mut is_first = true;
    loop {
        match survey.take().await {
            Ok(rows) => {
                if is_first && rows.iter().all(|row| row.committed.is_none()) {
                    talk.say(
                        Level::Warn,
                        format_args!("group {group} has not committed anything yet"),
                    );
                }
                write(args, &rows, clock.unix_ms(), is_first)?;
                let waiting: u64 = rows.iter().map(Row::lag).sum();
                if let Some(most) = args.fail_above.filter(|most| waiting > *most) {
                    talk.error(format_args!(
                        "{waiting} messages are waiting for group {group}, more than {most}"
                    ));
                    return Ok(Exit::NotMet);
                }
            }
            // Somebody who watches wants to see what comes after the trouble.
            Err(Failure {
                message: Some(why), ..
            }) if !is_first => talk.say(Level::Warn, why),
            Err(failure) => return Err(failure),
        }
        let Some(pause) = args.watch else {
            return Ok(Exit::Done);
        };
        is_first = false;
        tokio::time::sleep(pause).await;
    }
}

fn write(args: &LagArgs, rows: &[Row], now: i64, is_first: bool) -> Result<(), Failure> {
    let mut lines = Lines::stdout();
    match args.output {
        TableOutput::Json => rows
            .iter()
            .try_for_each(|row| lines.json(&row.line(&args.group, now)))?,
        TableOutput::Table => {
            if args.watch.is_some() && io::stdout().is_terminal() {
                lines.text(CLEAR)?;
            } else if !is_first {
                lines.text("\n")?;
            }
            lines.text(&table(rows).to_string())?;
        }
    }
    lines.finish()
}
