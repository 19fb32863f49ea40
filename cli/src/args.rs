//! The command line. A verb or flag that does not work yet is not here.
//!
//! Settings that the configuration file knows too have no default here: who asks for them goes
//! through [`Settings`](crate::settings::Settings), which knows the order flag, environment, file,
//! default.

mod allocate;
mod broker;
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
use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::config::{DamagedStore, IllegalOffsetPolicy, MessageModel};
use rocketmq_consumer_core::ids::{PeerAddr, PeerAddrError};

pub(crate) use self::allocate::AllocateArgs;
use self::allocate::{STRATEGY, STRATEGY_HELP};
pub(crate) use self::broker::BrokerArgs;
pub(crate) use self::decode::{DecodeArgs, DecodeInput};
pub(crate) use self::dlq::{DlqCommand, DlqLsArgs, DlqPeekArgs, DlqRequeueArgs, RequeueTo};
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::groups::GroupsArgs;
pub(crate) use self::lag::LagArgs;
pub(crate) use self::offset::{OffsetCommand, OffsetResetArgs};
pub(crate) use self::produce::{PerSecond, ProduceArgs, ProduceOutput};
pub(crate) use self::simulate::SimulateArgs;
pub(crate) use self::topics::{TopicsArgs, TopicsCommand, TopicsCreateArgs};
use crate::output::Output;
use crate::talk::LogFormat;
use crate::time_arg::{self, From};

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

/// Flags of `consume`.
#[derive(Debug, Args)]
pub(crate) struct ConsumeArgs {
    /// Topics, each with the tags to take: orders or 'orders:paid || refund'
    #[arg(required = true, value_name = "TOPIC[:EXPR]")]
    pub(crate) topics: Vec<TopicArg>,
    /// The consumer group to join; needed
    #[arg(short, long)]
    pub(crate) group: Option<String>,
    /// Take the messages whose properties meet an SQL92 condition, such as "amount > 100 AND TAGS = 'paid'";
    /// it holds for all topics, in place of tags. Brokers need enablePropertyFilter=true
    #[arg(long, value_name = "CONDITION")]
    pub(crate) sql: Option<String>,
    /// Where to start when the group has no offset yet: earliest, latest, a time (RFC 3339, Unix
    /// milliseconds, yyyyMMddHHmmss) or a span before now such as -2h [default: latest]
    #[arg(long, value_name = "earliest|latest|TIME|-2h", allow_hyphen_values = true)]
    pub(crate) from: Option<From>,
    /// Stop after exactly N distinct records; what was fetched beyond is neither printed nor committed
    #[arg(short, long, value_name = "N", value_parser = record_count)]
    pub(crate) count: Option<NonZeroU64>,
    /// Stop when nothing came for so long since the first assignment
    #[arg(long, value_name = "SECS", value_parser = time_arg::seconds, allow_negative_numbers = true)]
    pub(crate) idle_exit: Option<Duration>,
    /// Stop at the offsets that were the end when this started
    #[arg(short = 'e')]
    pub(crate) end: bool,
    /// Handler calls that may run at once [default: 256; with --exec 20]
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<u32>,
    /// Messages in one call, written together [default: 32]; with -c, -e and --exec always 1
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u32>,
    /// Messages asked for in one pull [default: 32]
    #[arg(long, value_name = "N")]
    pub(crate) pull_batch: Option<u32>,
    /// Retries of a message before it becomes a dead letter [default: 16; with --orderly without end]
    #[arg(long, value_name = "N")]
    pub(crate) max_reconsume: Option<u32>,
    /// Messages handed out a second, at most; what waits counts as fetched [default: no limit]
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u32>,
    /// Handle the messages of each queue one after another, under its lock at the broker. One that fails is
    /// waited for: it comes again before anything behind it. All members of the group must do so
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) orderly: Option<bool>,
    /// How long a queue rests before a message that failed comes again; with --orderly [default: 1000]
    #[arg(long, value_name = "MILLISECONDS")]
    pub(crate) suspend_time: Option<u64>,
    /// Tell of a queue that has messages and has finished none for so long [default: 60]
    #[arg(long, value_name = "SECS", value_parser = time_arg::seconds, allow_negative_numbers = true)]
    pub(crate) stalled_after: Option<Duration>,
    /// How the group shares its queues; all members must use the same [default: avg]
    #[arg(long, value_name = STRATEGY, long_help = STRATEGY_HELP)]
    pub(crate) strategy: Option<AllocateStrategy>,
    /// Where to go on when a broker no longer has the next offset: resume, follow, earliest, latest or
    /// hold [default: resume]
    #[arg(long, value_name = "POLICY", value_parser = illegal_offset)]
    pub(crate) illegal_offset: Option<IllegalOffsetPolicy>,
    /// This member's id, to be unique in the group [default: made from address, process and chance]
    #[arg(long, value_name = "ID", conflicts_with = "instance")]
    pub(crate) client_id: Option<String>,
    /// A name to stand in the client id in place of the process number. With --model broadcasting it also names
    /// what is stored: the same after a restart, another one for each process [default there: DEFAULT]
    #[arg(long, value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// Who gets a message: clustering, one member of the group; broadcasting, all of them. Offsets are then kept in
    /// files here, and a message that fails is dropped [default: clustering]
    #[arg(long, value_name = "MODEL", value_parser = message_model)]
    pub(crate) model: Option<MessageModel>,
    /// Where --model broadcasting keeps its files [default: ~/.rocketmq_offsets]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) store_dir: Option<PathBuf>,
    /// What to do when neither these files nor their backup can be read: refuse, or start-over [default: refuse]
    #[arg(long, value_name = "POLICY", value_parser = damaged_store)]
    pub(crate) damaged_store: Option<DamagedStore>,
    /// Run a shell command for each message, its body on standard input. Exit status 0: done, 65: dead
    /// letter, 75 and every other: retry; with --orderly every other, 65 too, makes the queue wait. What it
    /// prints goes to standard error
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    pub(crate) exec: Option<String>,
    /// Answer retry for the first N tries of each message, as a rehearsal
    #[arg(long, value_name = "N")]
    pub(crate) fail_first: Option<u32>,
    /// How records are written: text (the body and a newline), json, none, or a format of %t topic,
    /// %b broker, %q queue, %o offset, %k keys, %g tags, %v body, \n, \t, %% [default: text]
    #[arg(short, long, value_name = "text|json|none|FORMAT")]
    pub(crate) output: Option<Output>,
    /// Write assignments, commits and troubles as JSON lines to standard error
    #[arg(long)]
    pub(crate) events: bool,
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

/// A topic and the expression that selects its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicArg {
    /// The topic.
    pub(crate) topic: String,
    /// Tags separated by `||`; absent for every message.
    pub(crate) expression: Option<String>,
}

impl FromStr for TopicArg {
    type Err = String;

    /// A topic contains no colon, so the first one separates.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None => Ok(Self {
                topic: text.into(),
                expression: None,
            }),
            Some((_, "")) => Err(format!(
                "{text:?} has no expression behind its colon; leave the colon out for every message"
            )),
            Some((topic, expression)) => Ok(Self {
                topic: topic.into(),
                expression: Some(expression.into()),
            }),
        }
    }
}

pub(crate) fn illegal_offset(text: &str) -> Result<IllegalOffsetPolicy, String> {
    Ok(match text {
        "resume" => IllegalOffsetPolicy::Resume,
        "follow" => IllegalOffsetPolicy::Follow,
        "earliest" => IllegalOffsetPolicy::Earliest,
        "latest" => IllegalOffsetPolicy::Latest,
        "hold" => IllegalOffsetPolicy::Hold,
        _ => return Err("give resume, follow, earliest, latest or hold".into()),
    })
}

pub(crate) fn message_model(text: &str) -> Result<MessageModel, String> {
    match text {
        "clustering" => Ok(MessageModel::Clustering),
        "broadcasting" => Ok(MessageModel::Broadcasting),
        _ => Err("give clustering or broadcasting".into()),
    }
}

pub(crate) fn damaged_store(text: &str) -> Result<DamagedStore, String> {
    match text {
        "refuse" => Ok(DamagedStore::Refuse),
        "start-over" => Ok(DamagedStore::StartOver),
        _ => Err("give refuse or start-over".into()),
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
    fn the_first_colon_ends_the_topic() {
        let topic = |text: &str| text.parse::<TopicArg>().map(|arg| (arg.topic, arg.expression));
        assert_eq!(topic("orders"), Ok(("orders".into(), None)));
        let tags = Some("a:b || c".to_owned());
        assert_eq!(topic("orders:a:b || c"), Ok(("orders".into(), tags)));
        assert!(topic("orders:").is_err());
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

    #[test]
    fn a_span_before_now_is_a_value_and_no_flag() {
        let cli =
            Cli::try_parse_from(["rocketcat", "consume", "T", "-g", "G", "--from", "-2h", "-e"]).unwrap();
        let Command::Consume(args) = cli.command else {
            panic!("consume");
        };
        assert_eq!(args.from, Some(From::Ago(Duration::from_secs(7_200))));
        assert!(args.end);
    }
}
