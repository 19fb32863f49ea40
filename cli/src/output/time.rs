use jiff::Timestamp;
use rocketmq_consumer_core::time::WallTime;

/// A time for people: RFC 3339 in UTC, or a dash for none.
pub(crate) fn shown_time(time: Option<WallTime>) -> String {
    time.map_or_else(
        || "-".into(),
        |time| {
            let millis = time.as_unix_millis();
            Timestamp::from_millisecond(millis)
                .map_or_else(|_| millis.to_string(), |time| format!("{time:.3}"))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc_and_exact_to_the_millisecond() {
        let shown = |millis| shown_time(Some(WallTime::from_unix_millis(millis)));
        assert_eq!(shown(1_700_000_000_000), "2023-11-14T22:13:20.000Z");
        assert_eq!(shown(i64::MAX), i64::MAX.to_string(), "no calendar has it");
        assert_eq!(shown_time(None), "-");
    }
}
