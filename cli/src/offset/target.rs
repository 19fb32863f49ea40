use std::str::FromStr;

use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::time::WallTime;

use crate::time_arg::{From, before};

/// Where to continue, as it is typed: the value of `--to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A place that a time or an end names.
    From(From),
    /// An offset.
    Offset(QueueOffset),
}

/// Where to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the oldest message.
    Earliest,
    /// Behind the newest message.
    Latest,
    /// At the first message stored at this time or later.
    Time(WallTime),
    /// At this offset, in each queue.
    Offset(QueueOffset),
}

impl Target {
    /// The place, given the Unix time of now in milliseconds.
    pub(crate) fn place(self, now_unix_ms: i64) -> Place {
        match self {
            Self::Offset(offset) => Place::Offset(offset),
            Self::From(From::Earliest) => Place::Earliest,
            Self::From(From::Latest) => Place::Latest,
            Self::From(From::At(ms)) => Place::Time(WallTime::from_unix_millis(ms)),
            Self::From(From::Ago(ago)) => Place::Time(before(now_unix_ms, ago)),
        }
    }
}

impl Place {
    /// What a request for a reset says in place of a time: brokers read 0 as the oldest message and anything
    /// below as behind the newest.
    pub(crate) const fn timestamp(self) -> WallTime {
        match self {
            Self::Earliest => WallTime::from_unix_millis(0),
            Self::Latest | Self::Offset(_) => WallTime::from_unix_millis(-1),
            Self::Time(time) => time,
        }
    }
}

impl FromStr for Target {
    type Err = String;

    /// A number of up to 12 digits is an offset: as milliseconds it would lie before 2001.
    fn from_str(text: &str) -> Result<Self, String> {
        const OFFSET_DIGITS: usize = 12;
        let number = text.strip_prefix("offset:");
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.or_else(|| (is_number && text.len() <= OFFSET_DIGITS).then_some(text));
        if let Some(number) = number {
            let offset = number.parse().ok().filter(|offset| *offset >= 0);
            let offset =
                offset.ok_or_else(|| format!("{text:?} is no offset; write for instance offset:42"))?;
            return Ok(Self::Offset(QueueOffset(offset)));
        }
        text.parse()
            .map(Self::From)
            .map_err(|error| format!("{error}; an offset is a number of up to 12 digits, or offset:N"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_number_is_an_offset_and_a_long_one_a_time() {
        let place = |text: &str| {
            text.parse::<Target>()
                .map(|target| target.place(1_000_000_000_000))
        };
        let time = |millis| Ok(Place::Time(WallTime::from_unix_millis(millis)));
        let offset = |offset| Ok(Place::Offset(QueueOffset(offset)));
        assert_eq!(place("earliest"), Ok(Place::Earliest));
        assert_eq!(place("latest"), Ok(Place::Latest));
        assert_eq!(place("0"), offset(0));
        assert_eq!(place("999999999999"), offset(999_999_999_999));
        assert_eq!(place("1700000000000"), time(1_700_000_000_000));
        assert_eq!(place("offset:1700000000000"), offset(1_700_000_000_000));
        assert_eq!(place("-10s"), time(1_000_000_000_000 - 10_000));
        for text in ["", "offset:", "offset:-1", "offset:x", "soon", "-5"] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains("offset:"), "{text}: {error}");
        }
    }

    #[test]
    fn the_ends_have_times_of_their_own_on_the_wire() {
        let wire = |place: Place| place.timestamp().as_unix_millis();
        assert_eq!(wire(Place::Earliest), 0);
        assert_eq!(wire(Place::Latest), -1);
        assert_eq!(wire(Place::Time(WallTime::from_unix_millis(7))), 7);
    }
}
