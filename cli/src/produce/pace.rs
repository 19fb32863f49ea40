use std::time::Duration;

/// When each message is due: so many a second, evenly spaced from the first one on.
///
/// A send that was late does not move those behind it, so the rate holds on average.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    per_second: f64,
}

impl Pace {
    /// At most so many messages a second; the plan has checked that it is a positive number.
    pub(crate) const fn new(per_second: f64) -> Self {
        Self { per_second }
    }

    /// How long after the first message number `number` is due.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 messages")]
    pub(crate) fn due(self, number: u64) -> Duration {
        Duration::try_from_secs_f64(number as f64 / self.per_second).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_evenly_spaced() {
        let pace = Pace::new(4.0);
        let due = [0, 1, 8].map(|number| pace.due(number));
        assert_eq!(due, [0, 250, 2_000].map(Duration::from_millis));
        assert_eq!(Pace::new(f64::MIN_POSITIVE).due(1), Duration::MAX);
    }
}
