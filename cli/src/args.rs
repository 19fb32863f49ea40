//! The command line. A verb or flag that does not work yet is not here.
//!
//! Settings that the configuration file knows too have no default here: who asks for them goes
//! through [`Settings`](crate::settings::Settings), which knows the order flag, environment, file,
//! default.

mod allocate;
mod broker;
mod consume;
mod decode;
mod dlq;
mod doctor;
mod groups;
mod lag;
mod offset;
mod produce;
mod simulate;
mod topics;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use rocketmq_consumer_core::ids::{PeerAddr, PeerAddrError};

pub(crate) use self::allocate::AllocateArgs;
pub(crate) use self::broker::BrokerArgs;
pub(crate) use self::consume::{ConsumeArgs, TopicArg, damaged_store, illegal_offset, message_model};
pub(crate) use self::decode::{DecodeArgs, DecodeInput};
pub(crate) use self::dlq::{DlqCommand, DlqLsArgs, DlqPeekArgs, DlqRequeueArgs, RequeueTo};
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::groups::GroupsArgs;
pub(crate) use self::lag::LagArgs;
pub(crate) use self::offset::{OffsetCommand, OffsetResetArgs};
pub(crate) use self::produce::{PerSecond, ProduceArgs, ProduceOutput};
pub(crate) use self::simulate::SimulateArgs;
pub(crate) use self::topics::{TopicsArgs, TopicsCommand, TopicsCreateArgs};
use crate::talk::LogFormat;
use crate::time_arg;

/// Consume, decode and explain Apache RocketMQ messages.
///
/// Records go to standard output and nothing else does; talk goes to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "rocketcat",
    version,
    arg_required_else_help = true,
    infer_subcommands = false,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 condition not met, 4 cannot connect, 5 not permitted,\n\
                  130 interrupted. Precedence of settings: flag, environment, file, default."
)]
pub(crate) struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Name servers, separated by semicolons
    #[arg(
        short,
        long,
        global = true,
        env = "NAMESRV_ADDR",
        value_name = "HOST:PORT[;HOST:PORT…]"
    )]
    pub(crate) name_server: Option<String>,
    /// Reach a broker that registered address FROM at TO; may be given several times
    #[arg(long, global = true, value_name = "FROM=TO")]
    pub(crate) address_map: Vec<AddressPair>,
    /// Give up when nobody has answered for so long; 0 waits for ever [default: 30]
    #[arg(long, global = true, value_name = "SECS", value_parser = time_arg::seconds, allow_negative_numbers = true)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Read settings from a TOML file
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say what happens; twice: in every detail
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// How talk on standard error is written [default: text]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Consume topics as a member of a group
    Consume(Box<ConsumeArgs>),
    /// Send messages, one a line from standard input
    Produce(Box<ProduceArgs>),
    /// Show how far a group is behind, queue by queue
    Lag(LagArgs),
    /// Show the consumer groups, or the members of one
    Groups(GroupsArgs),
    /// Show the topics, or the queues of one; make one
    Topics(TopicsArgs),
    /// Change where a group continues
    #[command(subcommand)]
    Offset(OffsetCommand),
    /// Look at dead letters and send them again
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Look for what is wrong with a group, and say what to do about it
    Doctor(DoctorArgs),
    /// Show what raw bytes say, one JSON object a line
    #[command(subcommand)]
    Decode(DecodeArgs),
    /// Show which queues a member of a group would own
    Allocate(AllocateArgs),
    /// Run a broker and a name server in this process, for development and tests; nothing is kept
    Broker(BrokerArgs),
    /// Watch a consumer group for ten seconds: members come, one fails an order, one is killed
    Demo,
    /// Run whole clusters with their faults in virtual time, and check that no rule is broken
    Simulate(SimulateArgs),
    /// Write a completion script to standard output
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Write the manual pages to standard output
    Man,
}

/// How answers with several columns are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableOutput {
    /// Columns.
    Table,
    /// One JSON object a line.
    Json,
}

/// A list of name servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameServers(pub(crate) Vec<PeerAddr>);

impl FromStr for NameServers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let servers = text
            .split(';')
            .filter(|part| !part.trim().is_empty())
            .map(|part| {
                part.parse()
                    .map_err(|error: PeerAddrError| format!("{part:?}: {error}"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if servers.is_empty() {
            return Err("give at least one as HOST:PORT".into());
        }
        Ok(Self(servers))
    }
}

/// The address a broker registered, and the one it can be reached at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressPair(pub(crate) PeerAddr, pub(crate) PeerAddr);

impl FromStr for AddressPair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text
            .split_once('=')
            .ok_or("write FROM=TO, for instance 10.0.0.1:10911=127.0.0.1:10911")?;
        let parse = |part: &str| {
            part.parse()
                .map_err(|error: PeerAddrError| format!("{part:?}: {error}"))
        };
        Ok(Self(parse(from)?, parse(to)?))
    }
}

fn record_count(text: &str) -> Result<NonZeroU64, String> {
    text.parse()
        .map_err(|_| "give a number of records, at least 1".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn name_servers_are_separated_by_semicolons() {
        let servers: NameServers = "a:1; b:2;".parse().unwrap();
        assert_eq!(servers.0, [PeerAddr::new("a", 1), PeerAddr::new("b", 2)]);
        for text in ["", ";", "a", "a:1;b"] {
            assert!(text.parse::<NameServers>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_map_has_two_addresses() {
        let pair: AddressPair = "10.0.0.1:10911=[::1]:1".parse().unwrap();
        assert_eq!(
            pair,
            AddressPair(PeerAddr::new("10.0.0.1", 10911), PeerAddr::new("::1", 1))
        );
        for text in ["", "a:1", "a:1=b", "a=b:1"] {
            assert!(text.parse::<AddressPair>().is_err(), "{text}");
        }
    }
}
