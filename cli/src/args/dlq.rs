use std::num::NonZeroU64;

use clap::{Args, Subcommand, ValueEnum};

use super::{TableOutput, record_count};
use crate::admin::QueueArg;
use crate::output::Output;

/// What can be done with dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// Show how many there are
    Ls(DlqLsArgs),
    /// Show them, without consuming them
    Peek(DlqPeekArgs),
    /// Send them again
    Requeue(DlqRequeueArgs),
}

/// Flags of `dlq ls`.
#[derive(Debug, Args)]
#[command(after_help = "\
JSON, an object for each queue: group, topic, broker, queue_id, min_offset, max_offset, messages, first_stored_at,
last_stored_at (Unix ms or null), requeued_to (null: no requeue has begun).")]
pub(crate) struct DlqLsArgs {
    /// The consumer group
    #[arg(short, long)]
    pub(crate) group: String,
    /// How the queues are written
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: TableOutput,
}

/// Flags of `dlq peek`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is committed and no member is needed: the next peek shows the same. JSON is the record of `consume -o json`;
its topic is the one the message was sent to.")]
pub(crate) struct DlqPeekArgs {
    /// The consumer group
    #[arg(short, long)]
    pub(crate) group: String,
    /// Show at most N records
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = record_count)]
    pub(crate) count: NonZeroU64,
    /// Only this queue
    #[arg(long, value_name = "BROKER:ID")]
    pub(crate) queue: Option<QueueArg>,
    /// Begin at this offset instead of at the oldest
    #[arg(long, value_name = "OFFSET", requires = "queue", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) from: Option<i64>,
    /// How records are written: text (the body and a newline), json, or a format as in `consume`
    #[arg(short, long, value_name = "text|json|FORMAT", default_value = "text", value_parser = shown)]
    pub(crate) output: Output,
}

/// Flags of `dlq requeue`.
#[derive(Debug, Args)]
#[command(after_help = "\
Dead letters stay where they are: nothing takes a message out of a queue. Where the last requeue ended is remembered
at the broker itself (as the progress of TOOLS_CONSUMER in the %DLQ% topic), after each message that is stored; so it
goes on where it stopped, from whichever machine. A send whose answer never came ends the run at that message, for
nobody can tell whether it is stored: look for its id, then go on with --queue and --from.

JSON, an object for each message: group, from_broker, from_queue_id, from_offset, msg_id, keys, topic, and unless
--dry-run broker, queue_id, queue_offset.

Exit codes: 0 done, 1 failed, 2 usage, 4 cannot connect, 5 not permitted.")]
pub(crate) struct DlqRequeueArgs {
    /// The consumer group
    #[arg(short, long)]
    pub(crate) group: String,
    /// Where they go: topic is the one they were first sent to, where every group that subscribes to it gets them
    /// again; group is the retry topic of this group, which alone gets them
    #[arg(long, value_name = "topic|group", default_value = "topic")]
    pub(crate) to: RequeueTo,
    /// Send at most N messages
    #[arg(short, long, value_name = "N", value_parser = record_count)]
    pub(crate) count: Option<NonZeroU64>,
    /// Only this queue
    #[arg(long, value_name = "BROKER:ID")]
    pub(crate) queue: Option<QueueArg>,
    /// Begin at this offset instead of where the last requeue ended
    #[arg(long, value_name = "OFFSET", requires = "queue", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) from: Option<i64>,
    /// Show what would be sent and send nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask; needed where nobody can be asked
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// How messages are written
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: TableOutput,
}

/// Where dead letters go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequeueTo {
    /// The topic they were first sent to.
    Topic,
    /// The retry topic of the group.
    Group,
}

/// Whoever peeks wants to see something.
fn shown(text: &str) -> Result<Output, String> {
    match text.parse()? {
        Output::None => Err("use text, json or a format".into()),
        output @ (Output::Text | Output::Json | Output::Format(_)) => Ok(output),
    }
}
