use rocketmq_consumer_core::event::Report;
use rocketmq_consumer_core::message::Outcome;

use crate::answer::Answer;
use crate::error::BoxError;

/// What a handler of single messages may return: the answer of its mode, [`Outcome`] or
/// [`OrderlyOutcome`](crate::OrderlyOutcome), or something that stands for one.
///
/// `()` and `Ok(())` mean [`Outcome::Done`], where messages are handled in order
/// [`OrderlyOutcome::Commit`](crate::OrderlyOutcome::Commit). An error means [`Outcome::Retry`] or
/// [`OrderlyOutcome::Suspend`](crate::OrderlyOutcome::Suspend). Any error works that converts into a boxed one:
/// `std::io::Error`, `String`, `anyhow::Error`, …
pub trait IntoOutcome<A: Answer = Outcome> {
    /// What is to become of the message.
    fn into_outcome(self) -> A;
}

impl<A: Answer> IntoOutcome<A> for A {
    fn into_outcome(self) -> A {
        self
    }
}

impl<A: Answer> IntoOutcome<A> for () {
    fn into_outcome(self) -> A {
        A::FINISHED
    }
}

impl<A: Answer, T: IntoOutcome<A>, E: Into<BoxError>> IntoOutcome<A> for Result<T, E> {
    fn into_outcome(self) -> A {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => {
                log_failure(&error.into());
                A::AGAIN
            }
        }
    }
}

/// The first so many messages of a batch are finished, the others come again: what Java says with an `ackIndex`
/// of one less. More than there are means all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstDone(pub usize);

/// What a handler of batches may return: one answer for all messages, [`FirstDone`], or a `Vec` with one
/// answer for each, in order. Messages that a too short `Vec` says nothing about come again, answers
/// without a message are ignored, and the notice `WrongOutcomes` tells of both. After an error and a panic the
/// whole batch comes again.
///
/// Where messages are handled in order, what follows the first one that is not committed comes again with it,
/// whatever is said about it: nothing overtakes.
pub trait IntoBatchOutcome<A: Answer = Outcome> {
    /// What is to become of `len` messages.
    #[doc(hidden)]
    fn into_report(self, len: u32) -> Report;
}

impl<A: Answer> IntoBatchOutcome<A> for A {
    fn into_report(self, _len: u32) -> Report {
        Report::All(self.verdict())
    }
}

impl<A: Answer> IntoBatchOutcome<A> for () {
    fn into_report(self, len: u32) -> Report {
        A::FINISHED.into_report(len)
    }
}

impl<A: Answer> IntoBatchOutcome<A> for Vec<A> {
    fn into_report(self, len: u32) -> Report {
        match self.split_first() {
            // One report for all costs nothing per message.
            Some((first, rest)) if self.len() == len as usize && rest.iter().all(|next| next == first) => {
                first.into_report(len)
            }
            _ => Report::Each(self.into_iter().map(A::verdict).collect()),
        }
    }
}

impl<A: Answer> IntoBatchOutcome<A> for FirstDone {
    fn into_report(self, len: u32) -> Report {
        let answer = |at| if at < self.0 { A::FINISHED } else { A::AGAIN };
        (0..len as usize).map(answer).collect::<Vec<A>>().into_report(len)
    }
}

impl<A: Answer, T: IntoBatchOutcome<A>, E: Into<BoxError>> IntoBatchOutcome<A> for Result<T, E> {
    fn into_report(self, len: u32) -> Report {
        match self {
            Ok(value) => value.into_report(len),
            Err(error) => {
                log_failure(&error.into());
                A::AGAIN.into_report(len)
            }
        }
    }
}

fn log_failure(error: &BoxError) {
    tracing::warn!(target: "rocketmq", %error, "a handler failed; its message comes again");
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocketmq_consumer_core::event::Verdict;
    use rocketmq_consumer_core::message::OrderlyOutcome;
    use std::time::Duration;

    fn outcome<A: Answer>(given: impl IntoOutcome<A>) -> A {
        given.into_outcome()
    }

    fn report<A: Answer>(given: impl IntoBatchOutcome<A>, len: u32) -> Report {
        given.into_report(len)
    }

    #[test]
    fn everything_a_handler_may_return_has_a_meaning() {
        assert_eq!(outcome::<Outcome>(()), Outcome::Done);
        assert_eq!(outcome::<Outcome>(Ok::<_, String>(())), Outcome::Done);
        let dead: Result<_, std::io::Error> = Ok(Outcome::DeadLetter);
        assert_eq!(outcome::<Outcome>(dead), Outcome::DeadLetter);
        assert_eq!(outcome::<Outcome>(Err::<Outcome, _>("no")), Outcome::Retry);
        let failed: Result<(), _> = Err(std::io::Error::other("no"));
        assert_eq!(
            report::<Outcome>(failed, 3),
            Report::All(Verdict::Handled(Outcome::Retry))
        );
    }

    #[test]
    fn in_order_finished_is_commit_and_a_failure_suspends() {
        use OrderlyOutcome::{Commit, Suspend, SuspendFor};
        let pause = SuspendFor(Duration::from_millis(20));
        assert_eq!(outcome::<OrderlyOutcome>(()), Commit);
        assert_eq!(outcome::<OrderlyOutcome>(Ok::<_, String>(pause)), pause);
        assert_eq!(outcome::<OrderlyOutcome>(Err::<(), _>("no")), Suspend);
        let all = |outcome| Report::All(Verdict::Ordered(outcome));
        assert_eq!(report::<OrderlyOutcome>(Err::<(), _>("no"), 3), all(Suspend));
        assert_eq!(report::<OrderlyOutcome>(vec![Commit; 3], 3), all(Commit));
        assert_eq!(
            report::<OrderlyOutcome>(FirstDone(1), 3),
            Report::Each([Commit, Suspend, Suspend].map(Verdict::Ordered).into())
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
            assert_eq!(report::<Outcome>(FirstDone(first), 4), want, "{first}");
        }
    }
}
