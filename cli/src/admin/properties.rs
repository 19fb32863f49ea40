//! What a broker tells about itself: its settings as text, and facts of its run. Only Java brokers answer.
//= rocketmq: AdminBrokerProcessor.getBrokerConfig, AdminBrokerProcessor.getBrokerRuntimeInfo

use std::collections::BTreeMap;

use bytes::Bytes;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::{ExtFields, ExtWriter, Header, WriteExt};
use rocketmq_consumer_core::wire::fastjson;
use rocketmq_consumer_core::wire::request::{Answer, AnswerError, Malformed, Request};
use serde::Deserialize;

/// `GET_BROKER_CONFIG`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrokerConfigRequest;

impl WriteExt for BrokerConfigRequest {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Request for BrokerConfigRequest {
    const CODE: RequestCode = RequestCode::GET_BROKER_CONFIG;
    type Answer = BrokerConfig;

    fn decode(_: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self)
    }
}

/// A broker's settings, in the form of Java's properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokerConfig {
    text: String,
}

impl BrokerConfig {
    /// Whether it stores a reset itself and tells it with the next pull: for one queue, if one was named. Others
    /// send all queues elsewhere, whichever was named.
    pub(crate) fn resets_by_itself(&self) -> bool {
        self.get("useServerSideResetOffset") == Some("true")
    }

    fn get(&self, name: &str) -> Option<&str> {
        let pairs = self.text.lines().filter_map(|line| line.split_once('='));
        let mut values = pairs.filter(|(key, _)| key.trim() == name);
        values.next_back().map(|(_, value)| value.trim())
    }
}

impl WriteExt for BrokerConfig {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for BrokerConfig {
    fn body(&self) -> Bytes {
        self.text.clone().into()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(Self {
            text: String::from_utf8_lossy(body).into_owned(),
        })
    }
}

/// `GET_BROKER_RUNTIME_INFO`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrokerRuntimeRequest;

impl WriteExt for BrokerRuntimeRequest {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Request for BrokerRuntimeRequest {
    const CODE: RequestCode = RequestCode::GET_BROKER_RUNTIME_INFO;
    type Answer = BrokerRuntime;

    fn decode(_: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self)
    }
}

/// Facts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct BrokerRuntime {
    #[serde(default)]
    table: BTreeMap<String, String>,
}

impl BrokerRuntime {
    /// The broker's clock in Unix milliseconds: when it was started and for how long it runs by that clock, so
    /// exact to a second.
    pub(crate) fn clock(&self) -> Option<i64> {
        let started: i64 = self.table.get("bootTimestamp")?.trim().parse().ok()?;
        let runs = seconds(self.table.get("runtime")?)?;
        started.checked_add(runs.checked_mul(1_000)?)
    }
}

/// Reads `[ 0 days, 1 hours, 2 minutes, 3 seconds ]`.
fn seconds(text: &str) -> Option<i64> {
    let text = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    text.split(',').try_fold(0_i64, |sum, part| {
        let (number, unit) = part.trim().split_once(' ')?;
        let unit = match unit.trim() {
            "days" => 86_400,
            "hours" => 3_600,
            "minutes" => 60,
            "seconds" => 1,
            _ => return None,
        };
        sum.checked_add(number.parse::<i64>().ok()?.checked_mul(unit)?)
    })
}

impl WriteExt for BrokerRuntime {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for BrokerRuntime {
    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(fastjson::from_slice(body).map_err(Malformed::from)?)
    }
}

fn expect_success(header: &Header<'_>) -> Result<(), AnswerError> {
    if header.code == ResponseCode::SUCCESS.0 {
        return Ok(());
    }
    Err(AnswerError::Refused {
        code: ResponseCode(header.code),
        remark: header.remark.as_deref().unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_word_counts() {
        let config = |text: &str| BrokerConfig { text: text.into() };
        assert!(config("a=1\nuseServerSideResetOffset=true\n").resets_by_itself());
        for text in [
            "",
            "useServerSideResetOffset=false",
            "useServerSideResetOffset",
            "xuseServerSideResetOffset=true",
            "useServerSideResetOffset=true\nuseServerSideResetOffset=false",
        ] {
            assert!(!config(text).resets_by_itself(), "{text}");
        }
    }

    #[test]
    fn a_brokers_clock_is_its_start_and_how_long_it_runs() {
        let runtime = |boot: &str, runs: &str| BrokerRuntime {
            table: [("bootTimestamp", boot), ("runtime", runs)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        };
        let known = runtime("1000000", "[ 1 days, 2 hours, 3 minutes, 4 seconds ]");
        assert_eq!(known.clock(), Some(1_000_000 + (86_400 + 7_200 + 184) * 1_000));
        for (boot, runs) in [
            ("x", "[ 1 days ]"),
            ("1", "1 days"),
            ("1", "[ 1 weeks ]"),
            ("1", "[ 9223372036854775807 days ]"),
            ("9223372036854775807", "[ 1 seconds ]"),
        ] {
            assert_eq!(runtime(boot, runs).clock(), None, "{runs}");
        }
        assert_eq!(BrokerRuntime::default().clock(), None);
    }
}
