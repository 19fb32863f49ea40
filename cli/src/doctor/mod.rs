//! `doctor`: looks for what is wrong with a group, and says what to do about it.
//!
//! ```text
//! flags ─► gather: members, groups, routes, addresses, clocks, progress (twice) ─► Evidence
//! Evidence ─► checks, each a function ─► findings ─► lines or JSON, exit code
//! ```

mod brokers;
mod clocks;
mod evidence;
mod finding;
mod gather;
mod members;
mod progress;
mod queues;

use rocketmq_consumer_core::config::check_group_name;

use self::evidence::Evidence;
use self::finding::Finding;
use crate::admin::with_cluster;
use crate::args::{DoctorArgs, TableOutput};
use crate::clock::Clock;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::settings::Settings;
use crate::talk::{Level, Talk};

/// What is looked at, in the order it is told.
const CHECKS: [fn(&Evidence, &mut Vec<Finding>); 14] = [
    brokers::name_servers,
    brokers::routes,
    brokers::addresses,
    brokers::settings,
    members::silent,
    members::client_ids,
    members::versions,
    members::subscriptions,
    members::modes,
    members::connections,
    queues::owners,
    clocks::apart,
    progress::backlog,
    progress::stuck,
];

/// Runs the command.
///
/// # Errors
/// What makes no sense, whoever does not answer, and a group that nobody knows.
pub(crate) fn run(args: &DoctorArgs, settings: Settings, clock: Clock, talk: Talk) -> Result<Exit, Failure> {
    check_group_name(&args.group).map_err(|error| Failure::usage(format_args!("-g: {}", error.why)))?;
    with_cluster(settings, async |cluster| {
        let group = args.group.as_str().into();
        let evidence = gather::gather(cluster, &group, args.watch, clock, talk).await?;
        let findings = examine(&evidence);
        write(args, &findings)?;
        if findings.is_empty() {
            let count = evidence.group.members.len();
            talk.say(
                Level::Info,
                format_args!(
                    "nothing is wrong with group {group} and its {count} members, as far as this can see"
                ),
            );
            return Ok(Exit::Done);
        }
        Ok(Exit::NotMet)
    })
}

fn examine(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in CHECKS {
        check(evidence, &mut findings);
    }
    findings
}

fn write(args: &DoctorArgs, findings: &[Finding]) -> Result<(), Failure> {
    let mut lines = Lines::stdout();
    for finding in findings {
        match args.output {
            TableOutput::Json => lines.json(&finding.line(&args.group))?,
            TableOutput::Table => lines.text(&format!("{finding}\n"))?,
        }
    }
    lines.finish()
}
