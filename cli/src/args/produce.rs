use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum, ValueHint};

use crate::produce::KeyFormat;

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
