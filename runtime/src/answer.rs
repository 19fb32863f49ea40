use rocketmq_consumer_core::config::ConsumeMode;
use rocketmq_consumer_core::event::{Report, Verdict};
use rocketmq_consumer_core::message::{OrderlyOutcome, Outcome};

use sealed::Sealed;

/// What handlers and streams answer in one of the modes: [`Outcome`] where messages are handled side by side,
/// [`OrderlyOutcome`] where those of a queue are handled one after another.
///
/// The two are types of their own, so that an answer which the mode cannot follow is not written by mistake.
pub trait Answer: Sealed + Copy + PartialEq + Send + 'static {
    /// The mode it belongs to.
    const MODE: ConsumeMode;
    /// The message is finished.
    const FINISHED: Self;
    /// The message is to come again at the pace of its group: what an error, a panic and a delivery that nobody
    /// settled come to.
    const AGAIN: Self;

    /// As the machine takes it.
    #[doc(hidden)]
    fn verdict(self) -> Verdict;
}

impl Answer for Outcome {
    const MODE: ConsumeMode = ConsumeMode::Concurrently;
    const FINISHED: Self = Self::Done;
    const AGAIN: Self = Self::Retry;

    fn verdict(self) -> Verdict {
        Verdict::Handled(self)
    }
}

impl Answer for OrderlyOutcome {
    const MODE: ConsumeMode = ConsumeMode::Orderly;
    const FINISHED: Self = Self::Commit;
    const AGAIN: Self = Self::Suspend;

    fn verdict(self) -> Verdict {
        Verdict::Ordered(self)
    }
}

/// The report of a call that gave no answer.
pub(crate) fn unanswered<A: Answer>() -> Report {
    Report::All(A::AGAIN.verdict())
}

/// Whether a queue's messages are handled one call after another.
pub(crate) const fn is_orderly<A: Answer>() -> bool {
    matches!(A::MODE, ConsumeMode::Orderly)
}

mod sealed {
    /// Modes are the machine's; a third one cannot be answered.
    #[allow(unnameable_types, reason = "that nobody can name it is what seals `Answer`")]
    pub trait Sealed {}

    impl Sealed for super::Outcome {}
    impl Sealed for super::OrderlyOutcome {}
}
