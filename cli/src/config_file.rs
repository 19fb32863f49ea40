//! The configuration file: TOML, with the names of the long flags.
//!
//! ```toml
//! name-server = "10.0.0.1:9876;10.0.0.2:9876"
//! connect-timeout = 10
//!
//! [consume]
//! group = "billing"
//! concurrency = 64
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::config::{DamagedStore, IllegalOffsetPolicy, MessageModel};
use serde::de::{Deserialize, Deserializer, Error as _};

use crate::args::{self, AddressPair, NameServers};
use crate::exit::Failure;
use crate::output::Output;
use crate::talk::LogFormat;
use crate::time_arg::From;

/// What a file may set. Anything else in it is an error, a typing error most likely.
#[derive(Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct ConfigFile {
    /// `--name-server`
    #[serde(deserialize_with = "text")]
    pub(crate) name_server: Option<NameServers>,
    /// `--address-map`, a list
    #[serde(deserialize_with = "texts")]
    pub(crate) address_map: Vec<AddressPair>,
    /// `--connect-timeout`
    #[serde(deserialize_with = "seconds")]
    pub(crate) connect_timeout: Option<Duration>,
    /// `--log-format`
    pub(crate) log_format: Option<LogFormat>,
    /// Flags of `consume`
    pub(crate) consume: ConsumeSection,
}

/// What a file may set for `consume`.
#[derive(Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct ConsumeSection {
    /// `--group`
    pub(crate) group: Option<String>,
    /// `--from`
    #[serde(deserialize_with = "text")]
    pub(crate) from: Option<From>,
    /// `--concurrency`
    pub(crate) concurrency: Option<u32>,
    /// `--batch`
    pub(crate) batch: Option<u32>,
    /// `--pull-batch`
    pub(crate) pull_batch: Option<u32>,
    /// `--max-reconsume`
    pub(crate) max_reconsume: Option<u32>,
    /// `--rate`
    pub(crate) rate: Option<u32>,
    /// Unfinished messages of one topic; there is no flag
    pub(crate) topic_count_max: Option<u32>,
    /// Body bytes of unfinished messages of one topic; there is no flag
    pub(crate) topic_bytes_max: Option<u64>,
    /// `--orderly`
    pub(crate) orderly: Option<bool>,
    /// `--orderly-by-key`
    pub(crate) orderly_by_key: Option<bool>,
    /// `--suspend-time`, in milliseconds
    pub(crate) suspend_time: Option<u64>,
    /// `--stalled-after`
    #[serde(deserialize_with = "seconds")]
    pub(crate) stalled_after: Option<Duration>,
    /// `--illegal-offset`
    #[serde(deserialize_with = "illegal_offset")]
    pub(crate) illegal_offset: Option<IllegalOffsetPolicy>,
    /// `--strategy`
    #[serde(deserialize_with = "text")]
    pub(crate) strategy: Option<AllocateStrategy>,
    /// `--instance`
    pub(crate) instance: Option<String>,
    /// `--model`
    #[serde(deserialize_with = "message_model")]
    pub(crate) model: Option<MessageModel>,
    /// `--store-dir`
    pub(crate) store_dir: Option<PathBuf>,
    /// `--damaged-store`
    #[serde(deserialize_with = "damaged_store")]
    pub(crate) damaged_store: Option<DamagedStore>,
    /// `--output`
    #[serde(deserialize_with = "text")]
    pub(crate) output: Option<Output>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or says something no flag says.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::usage(format_args!("cannot read {}: {error}", path.display())))?;
        Self::parse(&text).map_err(|why| Failure::usage(format_args!("{}: {why}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let before = error
                .span()
                .and_then(|span| text.get(..span.start))
                .unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {}", error.message())
        })
    }
}

/// A setting in the form it has on the command line.
fn text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: std::fmt::Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

fn texts<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: std::fmt::Display>,
{
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom))
        .collect()
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds)
        .map(Some)
        .map_err(D::Error::custom)
}

fn illegal_offset<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IllegalOffsetPolicy>, D::Error> {
    let text = String::deserialize(deserializer)?;
    args::illegal_offset(&text).map(Some).map_err(D::Error::custom)
}

fn message_model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<MessageModel>, D::Error> {
    let text = String::deserialize(deserializer)?;
    args::message_model(&text).map(Some).map_err(D::Error::custom)
}

fn damaged_store<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DamagedStore>, D::Error> {
    let text = String::deserialize(deserializer)?;
    args::damaged_store(&text).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_the_name_of_its_flag() {
        let text = r#"
            name-server = "a:1;b:2"
            address-map = ["c:3=d:4"]
            connect-timeout = 1
            log-format = "json"
            [consume]
            group = "G"
            from = "-2h"
            concurrency = 1
            batch = 2
            pull-batch = 3
            max-reconsume = 4
            rate = 6
            topic-count-max = 7
            topic-bytes-max = 8
            orderly = true
            orderly-by-key = false
            suspend-time = 500
            stalled-after = 5
            illegal-offset = "hold"
            strategy = "AVG"
            instance = "i"
            model = "broadcasting"
            store-dir = "d"
            damaged-store = "start-over"
            output = "none"
        "#;
        let want = ConfigFile {
            name_server: Some("a:1;b:2".parse().unwrap()),
            address_map: vec!["c:3=d:4".parse().unwrap()],
            connect_timeout: Some(Duration::from_secs(1)),
            log_format: Some(LogFormat::Json),
            consume: ConsumeSection {
                group: Some("G".into()),
                from: Some(From::Ago(Duration::from_secs(7_200))),
                concurrency: Some(1),
                batch: Some(2),
                pull_batch: Some(3),
                max_reconsume: Some(4),
                rate: Some(6),
                topic_count_max: Some(7),
                topic_bytes_max: Some(8),
                orderly: Some(true),
                orderly_by_key: Some(false),
                suspend_time: Some(500),
                stalled_after: Some(Duration::from_secs(5)),
                illegal_offset: Some(IllegalOffsetPolicy::Hold),
                strategy: Some(AllocateStrategy::Averagely),
                instance: Some("i".into()),
                model: Some(MessageModel::Broadcasting),
                store_dir: Some("d".into()),
                damaged_store: Some(DamagedStore::StartOver),
                output: Some(Output::None),
            },
        };
        assert_eq!(ConfigFile::parse(text), Ok(want));
        assert_eq!(ConfigFile::parse(""), Ok(ConfigFile::default()));
    }

    #[test]
    fn mistakes_name_their_line() {
        let table = [
            ("\nname-servers = \"a:1\"", "line 2: unknown field `name-servers`"),
            (
                "name-server = \"a\"",
                "line 1: \"a\": an address is written host:port",
            ),
            ("[consume]\nfrom = \"soon\"", "line 2: \"soon\" is no time"),
            (
                "[consume]\nillegal-offset = \"guess\"",
                "line 2: give resume, follow",
            ),
            (
                "[consume]\nmodel = \"all\"",
                "line 2: give clustering or broadcasting",
            ),
            (
                "[consume]\ndamaged-store = \"\"",
                "line 2: give refuse or start-over",
            ),
            ("connect-timeout = -1", "line 1: "),
            ("= 1", "line 1: "),
        ];
        for (text, start) in table {
            let error = ConfigFile::parse(text).unwrap_err();
            assert!(error.starts_with(start), "{text}: {error}");
        }
    }
}
