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

/// What became of a message that is consumed in order, as the application says.
///
/// It is another type than [`Outcome`], so that an answer which an ordered queue cannot follow cannot be written:
/// there is no "send back" here, because what is sent back comes after its successors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OrderlyOutcome {
    /// It is finished; its successor is next.
    Commit,
    /// It is to come again, before anything behind it, after the group's
    /// [`suspend_time`](crate::config::GroupConfig::set_suspend_time).
    Suspend,
    /// It is to come again, before anything behind it, after this time, but after 10 ms at the earliest and 30 s
    /// at the latest, as in Java.
    SuspendFor(Duration),
    /// It is not to come again but to be kept with the group's dead letters, however often it was tried. Its
    /// successor is next when it lies there: what was missing in the order is found there, and nowhere else.
    DeadLetter,
}

impl OrderlyOutcome {
    /// What comes closest to it where messages are not consumed in order.
    #[must_use]
    pub const fn unordered(self) -> Outcome {
        match self {
            Self::Commit => Outcome::Done,
            Self::Suspend => Outcome::Retry,
            Self::SuspendFor(pause) => Outcome::RetryAfter(pause),
            Self::DeadLetter => Outcome::DeadLetter,
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
