use std::path::PathBuf;

use clap::{Args, ValueHint};
use rocketmq_consumer_core::allocate::AllocateStrategy;

use crate::allocate::BrokerQueues;

/// What stands for a strategy.
pub(super) const STRATEGY: &str = "avg|circle|hash|…";

/// What `--help` says of strategies.
pub(super) const STRATEGY_HELP: &str = "\
How the group shares its queues; all members must use the same, Java members too

  avg                       neighbouring queues, shares differ by one at most (the default of consumers)
  circle                    queues in turn
  hash, hash:20             consistent hashing with 10 or so many virtual nodes
  room:r1,r2                only queues of brokers named room@broker, of these rooms
  config:broker-a:0,T/broker-b:3
                            exactly these queues of every topic, or of topic T; the retry topic is shared as by avg
  near:RULE/STRATEGY        queues of the own room first, those of deserted rooms by all; STRATEGY (avg) is one of
                            the above. RULE tells rooms of brokers and client ids: entries NAME=ROOM or START*=ROOM,
                            before=C (the text before the first C), else=ROOM, or else=* (the whole text), separated
                            by commas; near alone is near:before=-,else=*

The names of Java are taken as well, such as AVG_BY_CIRCLE or AllocateMessageQueueConsistentHash";

/// Flags of `allocate`.
#[derive(Debug, Args)]
pub(crate) struct AllocateArgs {
    /// How queues are shared
    #[arg(long, value_name = STRATEGY, long_help = STRATEGY_HELP, required_unless_present = "input")]
    pub(crate) strategy: Option<AllocateStrategy>,
    /// The member whose share is asked for
    #[arg(long, value_name = "ID", required_unless_present = "input")]
    pub(crate) client: Option<String>,
    /// All members of the group, in any order
    #[arg(
        long,
        value_name = "ID,ID…",
        value_delimiter = ',',
        required_unless_present = "input"
    )]
    pub(crate) members: Vec<String>,
    /// The brokers of the topic, each with its number of queues
    #[arg(
        long,
        value_name = "BROKER:N,…",
        value_delimiter = ',',
        required_unless_present = "input"
    )]
    pub(crate) queues: Vec<BrokerQueues>,
    /// The topic
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// The group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Tell for each queue why it is this member's, who else is there, and what belongs to nobody
    #[arg(long)]
    pub(crate) explain: bool,
    /// Answer each line of a JSONL file, with its lists as they stand there; - is standard input
    #[arg(
        id = "input",
        long = "in",
        value_name = "FILE.jsonl",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["strategy", "client", "members", "queues", "topic", "group", "explain"]
    )]
    pub(crate) input: Option<PathBuf>,
}
