use rocketmq_consumer_core::event::{Report, Verdict};
use rocketmq_consumer_core::message::Outcome;

use crate::error::BoxError;

/// What a handler of single messages may return.
///
/// `()` and `Ok(())` mean [`Outcome::Done`], an error means [`Outcome::Retry`]. Any error works that
/// converts into a boxed one: `std::io::Error`, `String`, `anyhow::Error`, …
pub trait IntoOutcome {
    /// What is to become of the message.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done
    }
}

impl<T: IntoOutcome, E: Into<BoxError>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => {
                log_failure(&error.into());
                Outcome::Retry
            }
        }
    }
}

/// What a handler of batches may return: one outcome for all messages, or a `Vec` with one for each,
/// in order. Messages that a too short `Vec` says nothing about are retried.
pub trait IntoBatchOutcome {
    /// What is to become of `len` messages.
    #[doc(hidden)]
    fn into_report(self, len: u32) -> Report;
}

impl IntoBatchOutcome for Outcome {
    fn into_report(self, _len: u32) -> Report {
        Report::All(Verdict::Handled(self))
    }
}

impl IntoBatchOutcome for () {
    fn into_report(self, len: u32) -> Report {
        Outcome::Done.into_report(len)
    }
}

impl IntoBatchOutcome for Vec<Outcome> {
    fn into_report(self, len: u32) -> Report {
        let len = len as usize;
        if self.len() != len {
            tracing::warn!(target: "rocketmq", outcomes = self.len(), messages = len, "a batch handler returned the wrong number of outcomes; missing ones mean retry");
        }
        let given = self.into_iter().chain(std::iter::repeat(Outcome::Retry));
        Report::Each(given.take(len).map(Verdict::Handled).collect())
    }
}

impl<T: IntoBatchOutcome, E: Into<BoxError>> IntoBatchOutcome for Result<T, E> {
    fn into_report(self, len: u32) -> Report {
        match self {
            Ok(value) => value.into_report(len),
            Err(error) => {
                log_failure(&error.into());
                Outcome::Retry.into_report(len)
            }
        }
    }
}

fn log_failure(error: &BoxError) {
    tracing::warn!(target: "rocketmq", %error, "a handler failed; its message is retried");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_a_handler_may_return_has_a_meaning() {
        assert_eq!(().into_outcome(), Outcome::Done);
        assert_eq!(Ok::<_, String>(()).into_outcome(), Outcome::Done);
        assert_eq!(
            Ok::<_, std::io::Error>(Outcome::DeadLetter).into_outcome(),
            Outcome::DeadLetter
        );
        assert_eq!(Err::<Outcome, _>("no").into_outcome(), Outcome::Retry);
        assert_eq!(
            Err::<(), _>(std::io::Error::other("no")).into_report(3),
            Report::All(Verdict::Handled(Outcome::Retry))
        );
    }

    #[test]
    fn a_batch_that_is_answered_with_the_wrong_length_loses_nothing() {
        let (done, retry) = (Verdict::Handled(Outcome::Done), Verdict::Handled(Outcome::Retry));
        for (given, want) in [
            (vec![], vec![retry, retry]),
            (vec![Outcome::Done; 1], vec![done, retry]),
            (vec![Outcome::Done; 3], vec![done, done]),
        ] {
            assert_eq!(given.into_report(2), Report::Each(want.into()));
        }
    }
}
