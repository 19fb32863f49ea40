use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use rocketmq_consumer_testing::sim::trouble::Troubles;

use super::TableOutput;

/// Flags of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// The seed of the world; its trace hash is printed: 16 hex digits, the same each time. With -v its
    /// whole story is told
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Run N seeds from S on, on all cores, and print how their worlds are distributed
    #[arg(long, value_name = "N", value_parser = seed_count, allow_negative_numbers = true)]
    pub(crate) seeds: Option<NonZeroU64>,
    /// The kinds of faults that may be drawn: disconnect, cut, weather (network); stall, crash, leave
    /// (members); broker-crash, name-server, slaves (broker); lost-answers, late-answers, refusals
    /// (answers); notifications, queues, permissions, joining, routes, clock, handlers, java, twins, subscriptions; all; none
    #[arg(long, value_name = "NAME,NAME…", default_value = "all")]
    pub(crate) faults: Troubles,
    /// How the distribution is written [default: table]
    #[arg(short, long, value_name = "FORMAT", requires = "seeds")]
    pub(crate) output: Option<TableOutput>,
    /// Draw the world's course into a page that needs nothing else: lives, owners, faults, lag
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath, conflicts_with = "seeds")]
    pub(crate) report: Option<PathBuf>,
}

/// The reports of so many worlds are kept in memory.
fn seed_count(text: &str) -> Result<NonZeroU64, String> {
    const MOST: u64 = 1_000_000;
    text.parse()
        .ok()
        .filter(|seeds: &NonZeroU64| seeds.get() <= MOST)
        .ok_or_else(|| format!("give a number of seeds from 1 to {MOST}"))
}
