//! `dlq`: what was delivered too often.
//!
//! ```text
//! flags ─► queues of %DLQ%group ─► ls: how much, since when
//!                                ├► peek: Reader ─► records
//!                                └► requeue: Reader ─► Copy ─► topic ─► position, message by message
//! ```

mod copy;
mod line;
mod ls;
mod peek;
mod queues;
mod reader;
mod requeue;
mod sender;
mod stretch;

use rocketmq_consumer_core::config::check_group_name;
use rocketmq_consumer_core::ids::ConsumerGroup;

pub(crate) use self::queues::{dead_queues, requeued};
use crate::args::DlqCommand;
use crate::clock::Clock;
use crate::exit::{Exit, Failure};
use crate::settings::Settings;
use crate::talk::{Level, Talk};

/// Runs the command.
///
/// # Errors
/// What makes no sense, and whoever does not answer.
pub(crate) fn run(
    command: &DlqCommand,
    settings: Settings,
    clock: Clock,
    talk: Talk,
) -> Result<Exit, Failure> {
    match command {
        DlqCommand::Ls(args) => ls::run(args, settings, talk),
        DlqCommand::Peek(args) => peek::run(args, settings, talk),
        DlqCommand::Requeue(args) => requeue::run(args, settings, clock, talk),
    }
}

fn group(name: &str) -> Result<ConsumerGroup, Failure> {
    check_group_name(name).map_err(|error| Failure::usage(format_args!("-g: {}", error.why)))?;
    Ok(name.into())
}

/// Nothing was ever delivered too often: brokers make the topic with the first dead letter.
fn say_none(group: &ConsumerGroup, talk: Talk) {
    talk.say(Level::Info, format_args!("group {group} has no dead letters"));
}
