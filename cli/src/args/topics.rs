use clap::{Args, Subcommand};

use super::TableOutput;
use crate::topics::Perm;

/// Flags of `topics`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
JSON of the list, an object for each topic: topic, brokers, read_queues, write_queues, perm.

JSON of a topic, an object for each queue: topic, broker, address, queue_id, perm, min_offset, max_offset, messages,
last_stored_at (Unix ms or null).

Exit codes: 0 done, 1 the topic is unknown, 4 cannot connect."
)]
pub(crate) struct TopicsArgs {
    /// What is done to them instead of looking.
    #[command(subcommand)]
    pub(crate) command: Option<TopicsCommand>,
    /// Show the queues of this topic
    pub(crate) topic: Option<String>,
    /// List retry topics, dead letters and topics of brokers, too
    #[arg(short, long, conflicts_with = "topic")]
    pub(crate) all: bool,
    /// How it is written
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: TableOutput,
}

/// What can be done to topics.
#[derive(Debug, Subcommand)]
pub(crate) enum TopicsCommand {
    /// Make a topic
    Create(TopicsCreateArgs),
}

/// Flags of `topics create`.
#[derive(Debug, Args)]
#[command(after_help = "\
JSON, an object for each broker: topic, broker, read_queues, write_queues, perm, status (created, unchanged or
updated). What is shown was read back from the broker.")]
pub(crate) struct TopicsCreateArgs {
    /// Its name
    pub(crate) name: String,
    /// How many queues it gets on each broker
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) queues: u32,
    /// What may be done with it: rw, r or w
    #[arg(long, value_name = "PERM", default_value = "rw")]
    pub(crate) perm: Perm,
    /// Only on this broker; may be given several times [default: on all]
    #[arg(long, value_name = "NAME")]
    pub(crate) broker: Vec<String>,
    /// Replace the settings of a topic that exists. With fewer queues, what lies in the others cannot be read
    #[arg(long)]
    pub(crate) update: bool,
    /// Do not ask before settings are replaced
    #[arg(short, long, requires = "update")]
    pub(crate) yes: bool,
    /// How it is written
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: TableOutput,
}
