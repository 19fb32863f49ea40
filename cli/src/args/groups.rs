use clap::Args;

use super::TableOutput;

/// Flags of `groups`.
#[derive(Debug, Args)]
#[command(after_help = "\
JSON without -g, an object for each group: group, members, consume_type, message_model, subscriptions (names of
topics), brokers, enabled.

JSON with -g, one object: group, consume_type, message_model, subscriptions [{topic, expression, expression_type}],
members [{client_id, addresses, brokers, language, version, release, orderly, started_at, subscriptions, queues,
silent}], queues [{topic, broker, queue_id, owners}]. silent says why a member tells nothing about itself; its
orderly, started_at, subscriptions and queues are null then.

Exit codes: 0 done, 1 the group is unknown, 4 cannot connect.")]
pub(crate) struct GroupsArgs {
    /// Show the members of this group, what they subscribe to, and whose each queue is
    #[arg(short, long)]
    pub(crate) group: Option<String>,
    /// List the groups that brokers make for themselves, too
    #[arg(short, long, conflicts_with = "group")]
    pub(crate) all: bool,
    /// How it is written
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: TableOutput,
}
