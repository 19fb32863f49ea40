use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueHint};
use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::config::{DamagedStore, IllegalOffsetPolicy, MessageModel};

use super::allocate::{STRATEGY, STRATEGY_HELP};
use super::record_count;
use crate::output::Output;
use crate::time_arg::{self, From};

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
    /// Keep only messages of one key in order, and handle different keys of a queue side by side: the sharding key, or
    /// the first of KEYS. Implies --orderly, and calls of one message
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) orderly_by_key: Option<bool>,
    /// How long a queue, or a key, rests before a message that failed comes again; with --orderly [default: 1000]
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
    /// letter, 75 and every other: retry, for which the queue waits with --orderly. What it prints goes to
    /// standard error
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn the_first_colon_ends_the_topic() {
        let topic = |text: &str| text.parse::<TopicArg>().map(|arg| (arg.topic, arg.expression));
        assert_eq!(topic("orders"), Ok(("orders".into(), None)));
        let tags = Some("a:b || c".to_owned());
        assert_eq!(topic("orders:a:b || c"), Ok(("orders".into(), tags)));
        assert!(topic("orders:").is_err());
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
