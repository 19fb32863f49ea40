use alloc::sync::Arc;
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
    /// [`DelayLevel::nearest`].
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

/// The outcomes of a run of messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcomes {
    /// The same for all.
    All(Outcome),
    /// One each, in the order of the messages.
    Each(Arc<[Outcome]>),
}

impl Outcomes {
    /// The outcome of the message at an index of the run; `None` if there are fewer.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Outcome> {
        match self {
            Self::All(outcome) => Some(*outcome),
            Self::Each(outcomes) => outcomes.get(index).copied(),
        }
    }

    /// Whether this speaks of exactly `count` messages. [`Outcomes::All`] does of any number.
    #[must_use]
    pub fn covers(&self, count: usize) -> bool {
        match self {
            Self::All(_) => true,
            Self::Each(outcomes) => outcomes.len() == count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_each_speaks_of_that_many() {
        let each = Outcomes::Each([Outcome::Done, Outcome::Retry].into());
        assert_eq!(each.get(1), Some(Outcome::Retry));
        assert_eq!(each.get(2), None);
        assert!(each.covers(2) && !each.covers(3));
        let all = Outcomes::All(Outcome::DeadLetter);
        assert_eq!(all.get(1_000), Some(Outcome::DeadLetter));
        assert!(all.covers(3));
    }

    #[test]
    fn only_a_named_time_becomes_a_level() {
        let after = Outcome::RetryAfter(Duration::from_secs(11));
        assert_eq!(after.delay_level().map(DelayLevel::number), Some(3));
        assert_eq!(Outcome::Retry.delay_level(), None);
    }
}
