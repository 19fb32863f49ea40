//! The command line. A verb or flag that does not work yet is not here.
//!
//! Settings that the configuration file knows too have no default here: who asks for them goes
//! through [`Settings`](crate::settings::Settings), which knows the order flag, environment, file,
//! default.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::config::{DamagedStore, IllegalOffsetPolicy, MessageModel};
use rocketmq_consumer_core::ids::{PeerAddr, PeerAddrError};
use rocketmq_consumer_testing::sim::trouble::Troubles;

use crate::allocate::BrokerQueues;
use crate::broker::{ListenAddr, TopicQueues};
use crate::output::Output;
use crate::produce::KeyFormat;
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
    /// Retries of a message before it becomes a dead letter [default: 16]
    #[arg(long, value_name = "N")]
    pub(crate) max_reconsume: Option<u32>,
    /// Messages handed out a second, at most; what waits counts as fetched [default: no limit]
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u32>,
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
    /// letter, 75 and every other: retry. What it prints goes to standard error
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

/// Flags of `produce`.
#[derive(Debug, Args)]
pub(crate) struct ProduceArgs {
    /// The topic. One that nobody knows is made by the first message, where brokers allow it
    pub(crate) topic: String,
    /// Read from a file; - is standard input, the default
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "count")]
    pub(crate) file: Option<PathBuf>,
    /// Send N messages of our own instead; their bodies begin with their number from 0 and a colon
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) count: Option<u64>,
    /// Pad the bodies of --count to so many bytes
    #[arg(long, value_name = "BYTES", requires = "count", value_parser = body_size)]
    pub(crate) size: Option<usize>,
    /// The tag of every message
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,
    /// The key of every message; %n in it stands for the message's number, %% for a percent sign
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<KeyFormat>,
    /// A property of every message; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) property: Vec<Property>,
    /// Send to the queue of this number only, one message after the other
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..), conflicts_with = "by_key", allow_negative_numbers = true)]
    pub(crate) queue: Option<i32>,
    /// Send messages with the same key to the same queue, one after the other
    #[arg(long, requires = "key")]
    pub(crate) by_key: bool,
    /// Have messages delivered later: 1 is the broker's shortest delay
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) delay_level: Option<u8>,
    /// Send at most so many messages a second
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) rate: Option<PerSecond>,
    /// What is written: json is a line for each stored message and a summary, none the summary, text
    /// neither
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: ProduceOutput,
}

/// What `produce` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProduceOutput {
    /// Talk for people.
    Text,
    /// A line for each message, and the summary.
    Json,
    /// The summary.
    None,
}

impl ProduceOutput {
    /// Whether the summary is printed for programs.
    pub(crate) const fn has_summary(self) -> bool {
        match self {
            Self::Json | Self::None => true,
            Self::Text => false,
        }
    }
}

/// Flags of `lag`.
#[derive(Debug, Args)]
pub(crate) struct LagArgs {
    /// The consumer group
    #[arg(short, long)]
    pub(crate) group: String,
    /// Only this topic; may be given several times [default: all the group subscribes to or has consumed]
    #[arg(short, long, value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
    /// How the queues are written
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: TableOutput,
    /// Look again every two seconds
    #[arg(long)]
    pub(crate) watch: bool,
    /// End with exit code 3 when more than N messages are waiting in all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) fail_above: Option<u64>,
}

/// How answers with several columns are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableOutput {
    /// Columns.
    Table,
    /// One JSON object a line.
    Json,
}

/// What `decode` can read.
#[derive(Debug, Subcommand)]
pub(crate) enum DecodeArgs {
    /// Frames of the remoting protocol, as on a connection
    Frame(DecodeInput),
    /// Stored messages, the body of a pull answer
    Messages(DecodeInput),
}

/// Where `decode` reads.
#[derive(Debug, Args)]
pub(crate) struct DecodeInput {
    /// The file to read; standard input if absent or -
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// The input is hex text; white space does not count
    #[arg(long)]
    pub(crate) hex: bool,
}

/// What stands for a strategy.
const STRATEGY: &str = "avg|circle|hash|…";

/// What `--help` says of strategies.
const STRATEGY_HELP: &str = "\
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

/// Flags of `broker`.
#[derive(Debug, Args)]
pub(crate) struct BrokerArgs {
    /// Where a broker listens; given several times, there are several
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:10911")]
    pub(crate) listen: Vec<ListenAddr>,
    /// Where the name server listens
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9876")]
    pub(crate) name_server_listen: ListenAddr,
    /// A topic that exists from the start, with 4 queues on each broker or so many; others are made by
    /// their first message. May be given several times
    #[arg(long, value_name = "TOPIC[:QUEUES]")]
    pub(crate) topic: Vec<TopicQueues>,
}

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

/// A property of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    /// Its name.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: String,
}

impl FromStr for Property {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok(Self {
                name: name.into(),
                value: value.into(),
            }),
            Some(_) | None => Err("write NAME=VALUE, neither of them empty".into()),
        }
    }
}

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PerSecond(pub(crate) f64);

impl FromStr for PerSecond {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let rate = text.parse().ok();
        rate.filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
            .map(Self)
            .ok_or("give a number of messages above 0")
    }
}

/// A body that fits into a frame.
fn body_size(text: &str) -> Result<usize, String> {
    const MOST: usize = 16 << 20;
    text.parse()
        .ok()
        .filter(|size| *size <= MOST)
        .ok_or_else(|| format!("give a number of bytes up to {MOST}"))
}

/// The reports of so many worlds are kept in memory.
fn seed_count(text: &str) -> Result<NonZeroU64, String> {
    const MOST: u64 = 1_000_000;
    text.parse()
        .ok()
        .filter(|seeds: &NonZeroU64| seeds.get() <= MOST)
        .ok_or_else(|| format!("give a number of seeds from 1 to {MOST}"))
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
