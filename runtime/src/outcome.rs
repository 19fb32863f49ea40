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

/// The first so many messages of a batch are done, the others are retried: what Java says with an `ackIndex`
/// of one less. More than there are means all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstDone(pub usize);

/// What a handler of batches may return: one outcome for all messages, [`FirstDone`], or a `Vec` with one
/// outcome for each, in order. Messages that a too short `Vec` says nothing about are retried, outcomes
/// without a message are ignored, and the notice `WrongOutcomes` tells of both. An error and a panic retry
/// the whole batch.
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
        match self.split_first() {
            // One report for all costs nothing per message.
            Some((first, rest)) if self.len() == len as usize && rest.iter().all(|next| next == first) => {
                first.into_report(len)
            }
            _ => Report::Each(self.into_iter().map(Verdict::Handled).collect()),
        }
    }
}

impl IntoBatchOutcome for FirstDone {
    fn into_report(self, len: u32) -> Report {
        let outcome = |at| {
            if at < self.0 {
                Outcome::Done
            } else {
                Outcome::Retry
            }
        };
        (0..len as usize)
            .map(outcome)
            .collect::<Vec<_>>()
            .into_report(len)
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
        // The machine retries what is missing, and tells.
        for given in [vec![], vec![Outcome::Done; 1], vec![Outcome::Done; 3]] {
            let each = given.iter().copied().map(Verdict::Handled).collect();
            assert_eq!(given.into_report(2), Report::Each(each));
        }
    }

    #[test]
    fn rt_12_a_batch_is_answered_for_all_for_each_or_up_to_one() {
        let (done, retry) = (Outcome::Done, Outcome::Retry);
        let each =
            |outcomes: &[Outcome]| Report::Each(outcomes.iter().copied().map(Verdict::Handled).collect());
        let all = |outcome| Report::All(Verdict::Handled(outcome));
        assert_eq!(
            vec![done, retry, Outcome::DeadLetter].into_report(3),
            each(&[done, retry, Outcome::DeadLetter])
        );
        assert_eq!(vec![retry; 3].into_report(3), all(retry));
        for (first, want) in [
            (0, all(retry)),
            (2, each(&[done, done, retry, retry])),
            (4, all(done)),
            (usize::MAX, all(done)),
        ] {
            assert_eq!(FirstDone(first).into_report(4), want, "{first}");
        }
    }
}
