//! Times and durations as people type them.

use std::str::FromStr;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};
use rocketmq_consumer_core::config::StartAt;
use rocketmq_consumer_core::time::WallTime;

/// Where to start when nothing is stored: the value of `--from`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum From {
    /// At the oldest message.
    Earliest,
    /// Behind the newest message.
    #[default]
    Latest,
    /// At the first message stored at or after this time, in Unix milliseconds.
    At(i64),
    /// So long before the start of this process.
    Ago(Duration),
}

impl From {
    /// The start position, given the Unix time of now in milliseconds.
    pub(crate) fn start_at(self, now_unix_ms: i64) -> StartAt {
        match self {
            Self::Earliest => StartAt::Earliest,
            Self::Latest => StartAt::Latest,
            Self::At(ms) => StartAt::Time(WallTime::from_unix_millis(ms)),
            Self::Ago(ago) => StartAt::Time(before(now_unix_ms, ago)),
        }
    }
}

/// A time so long before now. A broker knows none before 1970.
pub(crate) fn before(now_unix_ms: i64, ago: Duration) -> WallTime {
    let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
    WallTime::from_unix_millis(now_unix_ms.saturating_sub(ago).max(0))
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => return Ok(Self::Earliest),
            "latest" => return Ok(Self::Latest),
            _ => {}
        }
        if let Some(ago) = text.strip_prefix('-') {
            return ago_of(ago)
                .map(Self::Ago)
                .ok_or_else(|| format!("{text:?} is no time span; write for instance -2h, -30m or -1d12h"));
        }
        unix_ms(text).map(Self::At).ok_or_else(|| {
            format!(
                "{text:?} is no time; use earliest, latest, a span such as -2h, RFC 3339 \
                 (2026-03-01T12:00:00Z), Unix milliseconds or yyyyMMddHHmmss in local time"
            )
        })
    }
}

fn ago_of(text: &str) -> Option<Duration> {
    let span: Span = text.parse().ok()?;
    let span = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(span).ok()
}

fn unix_ms(text: &str) -> Option<i64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Fourteen digits are the form RocketMQ uses for consume timestamps. As milliseconds they
        // would lie more than a thousand years ahead.
        if text.len() == 14 {
            let civil = DateTime::strptime("%Y%m%d%H%M%S", text).ok()?;
            let time = TimeZone::system().to_timestamp(civil).ok()?;
            return Some(time.as_millisecond());
        }
        return text.parse().ok();
    }
    let time: Timestamp = text.parse().ok()?;
    Some(time.as_millisecond()).filter(|&ms| ms >= 0)
}

/// Reads a number of seconds, with or without a fraction.
///
/// # Errors
/// What to write instead.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("{text:?} is no number of seconds; write for instance 30 or 0.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_documented_form() {
        let hour = 3_600;
        let table = [
            ("earliest", From::Earliest),
            ("latest", From::Latest),
            ("1700000000000", From::At(1_700_000_000_000)),
            ("2023-11-14T22:13:20Z", From::At(1_700_000_000_000)),
            ("2023-11-14T23:13:20.5+01:00", From::At(1_700_000_000_500)),
            ("-2h", From::Ago(Duration::from_secs(2 * hour))),
            ("-90s", From::Ago(Duration::from_secs(90))),
            ("-1d12h", From::Ago(Duration::from_secs(36 * hour))),
        ];
        for (text, want) in table {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
    }

    #[test]
    fn fourteen_digits_are_a_local_date() {
        let From::At(ms) = "20231114221320".parse().unwrap() else {
            panic!("a time");
        };
        // No zone is further away from UTC than 14 hours.
        assert!((ms - 1_700_000_000_000).abs() <= 14 * 3_600_000, "{ms}");
        assert_eq!(ms % 1_000, 0);
    }

    #[test]
    fn what_is_no_time_is_refused_with_advice() {
        for text in [
            "",
            "-",
            "-2",
            "-h",
            "yesterday",
            "2023-11-14",
            "20231399000000",
            "1960-01-01T00:00:00Z",
        ] {
            let error = text.parse::<From>().unwrap_err();
            assert!(error.contains("-2h"), "{text}: {error}");
        }
    }

    #[test]
    fn spans_count_back_from_now_and_stop_at_the_epoch() {
        let at = |from: From| from.start_at(10_000);
        assert_eq!(
            at(From::Ago(Duration::from_secs(4))),
            StartAt::Time(WallTime::from_unix_millis(6_000))
        );
        assert_eq!(
            at(From::Ago(Duration::from_secs(40))),
            StartAt::Time(WallTime::from_unix_millis(0))
        );
        assert_eq!(at(From::Latest), StartAt::Latest);
    }

    #[test]
    fn seconds_may_have_a_fraction_but_no_sign() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("30"), Ok(Duration::from_secs(30)));
        for text in ["-1", "x", "", "inf", "NaN", "1e300"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
