use std::time::Duration;

use clap::Args;

use super::TableOutput;
use crate::time_arg;

/// Flags of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
What is looked for: client-id (two members with one id), subscriptions, mode and strategy (members that differ),
client-version (older than 4.9.4), silent-member, owner (queues of nobody or of two members), address (brokers that
cannot be reached), route (name servers that disagree, topics without a queue to read), clock (apart by more than 5
seconds), group (switched off, without a retry queue), offset (beyond the end), backlog (retries and dead letters) and
stuck (a lag that does not move while this looks). What cannot be looked at is said with -v.

JSON, an object for each finding: group, check, about, finding, advice.

Exit codes: 0 nothing found, 1 failed, 3 there is a finding, 4 no name server answers.")]
pub(crate) struct DoctorArgs {
    /// The consumer group
    #[arg(short, long)]
    pub(crate) group: String,
    /// How long to watch whether offsets move; 0 does not
    #[arg(long, value_name = "SECS", default_value = "12", value_parser = time_arg::seconds, allow_negative_numbers = true)]
    pub(crate) watch: Duration,
    /// How findings are written: table is a line each
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: TableOutput,
}
