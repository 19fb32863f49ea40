use clap::{Args, Subcommand};

use super::TableOutput;
use crate::admin::QueueArg;
use crate::offset::Target;

/// What can be done to offsets.
#[derive(Debug, Subcommand)]
pub(crate) enum OffsetCommand {
    /// Have a group continue elsewhere
    Reset(OffsetResetArgs),
}

/// Flags of `offset reset`.
#[derive(Debug, Args)]
#[command(after_help = "\
How it is done: each broker is asked to reset the group (request 222). Brokers since 5.2 store the offset and tell it
with the next pull, to members that run (within 20 seconds) and to those that start later: \"server\". Older ones tell
the members, who commit it: \"members\". Where these find no member, the offset is committed directly: \"commit\".
Afterwards every offset is read again; where it is not what was asked for, the exit code is 1.

JSON, an object for each queue: topic, broker, queue_id, min_offset, max_offset, from (null: nothing is stored), to;
unless --dry-run also now, way (server, members or commit) and done.

Exit codes: 0 done, 1 an offset is not what it should be, or the answer was no, 2 usage, 4 cannot connect, 5 not
permitted.")]
pub(crate) struct OffsetResetArgs {
    /// The consumer group
    #[arg(short, long)]
    pub(crate) group: String,
    /// The topic
    #[arg(short, long)]
    pub(crate) topic: String,
    /// Where to continue: earliest, latest, a time (RFC 3339, Unix milliseconds of 13 digits, yyyyMMddHHmmss or a
    /// span before now such as -2h), or an offset (a number of up to 12 digits, or offset:N)
    #[arg(long, value_name = "earliest|latest|TIME|N", allow_hyphen_values = true)]
    pub(crate) to: Target,
    /// Only this queue; may be given several times
    #[arg(long, value_name = "BROKER:ID")]
    pub(crate) queue: Vec<QueueArg>,
    /// Show what would happen and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask; needed where nobody can be asked
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// How the queues are written
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: TableOutput,
}
