use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::DelayLevel;

/// What became of a message, as the application says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// It is finished and will not come again.
    Done,
    /// It is to come again, after a delay that grows with each time. The broker chooses it.
    Retry,
    /// It is to come again after about this time: the nearest of the delays a broker knows, see
    /// [`DelayLevel::nearest`]. That is one second at least and two hours at most, however short or long the
    /// time is. The notice `Retry` tells which level it was.
    RetryAfter(Duration),
    /// It is not to come again but to be kept with the group's dead letters.
    DeadLetter,
}

impl Outcome {
    /// The delay level to ask for: `None` unless the application named a time.
    #[must_use]
    pub fn delay_level(self) -> Option<DelayLevel> {
        match self {
            Self::RetryAfter(delay) => Some(DelayLevel::nearest(delay)),
            Self::Done | Self::Retry | Self::DeadLetter => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_named_time_becomes_a_level() {
        for (after, level) in [(Duration::ZERO, 1), (Duration::MAX, 18)] {
            let level = Some(level);
            let chosen = Outcome::RetryAfter(after).delay_level().map(DelayLevel::number);
            assert_eq!(chosen, level, "{after:?}");
        }
        let after = Outcome::RetryAfter(Duration::from_secs(11));
        assert_eq!(after.delay_level().map(DelayLevel::number), Some(3));
        assert_eq!(Outcome::Retry.delay_level(), None);
    }
}
