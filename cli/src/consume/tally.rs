use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::ids::MessageQueue;
use rocketmq_consumer_core::message::{Batch, Message};

use super::distinct::OffsetSet;

/// Counts deliveries and decides which of them still belong to the run.
///
/// Distinct is a record of its own queue: a message that was sent back comes again from another
/// queue, the retry topic's, and is another record.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    queues: Vec<(MessageQueue, OffsetSet)>,
    /// Where the last delivery came from. Neighbours mostly come from the same batch, so this saves
    /// looking up names and reading the clock for each.
    current: Option<Origin>,
    limit: Option<u64>,
    closed: bool,
    running: u64,
    /// Admitted, and to come again to this run: these do not count as done until then.
    awaited: u64,
    counts: Counts,
}

/// A batch, the index of its queue, and whether the time of its first admission was noted.
#[derive(Debug)]
struct Origin {
    batch: Arc<Batch>,
    queue: usize,
    is_timed: bool,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Deliveries.
    pub(crate) consumed: u64,
    /// Different records among them.
    pub(crate) distinct: u64,
    /// Deliveries that were not the first of their message: the same record again, or one that was
    /// sent back.
    pub(crate) redelivered: u64,
    /// Deliveries that were answered with anything but done.
    pub(crate) failed: u64,
    /// When the first delivery came, since the start of the process.
    pub(crate) first: Option<Duration>,
    /// When the last one came; exact to the batch.
    pub(crate) last: Option<Duration>,
}

/// Whether a delivery belongs to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It does, and has to be finished.
    Admitted,
    /// It was fetched beyond the limit, or too late. It is neither printed nor answered.
    Surplus,
}

/// How an admitted delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was answered with done.
    Done,
    /// It was answered with anything else, and the broker has it now.
    Failed,
    /// It was answered with anything else, and its queue waits for it: it comes again.
    Suspended,
    /// It was not answered and comes again.
    GivenUp,
}

/// What is left to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More may come.
    Open,
    /// Everything that was admitted is finished, and nothing more will be.
    Complete,
}

impl Tally {
    /// A tally that admits at most so many distinct records.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Decides about a delivery. A record that was admitted before is admitted again: it was not
    /// settled then.
    pub(crate) fn admit(&mut self, message: &Message, now: impl FnOnce() -> Duration) -> Admission {
        if self.closed {
            return Admission::Surplus;
        }
        let is_full = self.is_full();
        let queue = self.enter(message.batch());
        let offset = message.queue_offset().0;
        let seen = self.queues[queue].1.contains(offset);
        if is_full && !seen {
            return Admission::Surplus;
        }
        if seen {
            self.awaited = self.awaited.saturating_sub(1);
        } else {
            self.queues[queue].1.insert(offset);
            self.counts.distinct += 1;
        }
        self.counts.consumed += 1;
        self.counts.redelivered += u64::from(seen || message.record().reconsume_times() > 0);
        self.running += 1;
        self.note_time(now);
        Admission::Admitted
    }

    /// Notes how an admitted delivery ended.
    pub(crate) fn finish(&mut self, ending: Ending) -> Progress {
        debug_assert!(self.running > 0, "finished more than was admitted");
        self.running -= 1;
        self.counts.failed += u64::from(matches!(ending, Ending::Failed | Ending::Suspended));
        self.awaited += u64::from(matches!(ending, Ending::Suspended | Ending::GivenUp));
        self.progress()
    }

    /// Admits nothing more.
    pub(crate) fn close(&mut self) -> Progress {
        self.closed = true;
        self.progress()
    }

    /// How many admitted deliveries are not finished.
    pub(crate) const fn running(&self) -> u64 {
        self.running
    }

    /// The numbers so far.
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.counts.distinct >= limit)
    }

    fn progress(&self) -> Progress {
        let is_done = self.is_full() && self.awaited == 0;
        if self.running == 0 && (self.closed || is_done) {
            Progress::Complete
        } else {
            Progress::Open
        }
    }

    /// The index of the queue of a batch.
    fn enter(&mut self, batch: &Arc<Batch>) -> usize {
        if let Some(origin) = &self.current
            && Arc::ptr_eq(&origin.batch, batch)
        {
            return origin.queue;
        }
        let known = self.queues.iter().position(|(queue, _)| queue == batch.queue());
        let queue = known.unwrap_or_else(|| {
            self.queues.push((batch.queue().clone(), OffsetSet::default()));
            self.queues.len() - 1
        });
        self.current = Some(Origin {
            batch: Arc::clone(batch),
            queue,
            is_timed: false,
        });
        queue
    }

    fn note_time(&mut self, now: impl FnOnce() -> Duration) {
        if let Some(origin) = self.current.as_mut().filter(|origin| !origin.is_timed) {
            origin.is_timed = true;
            let now = now();
            self.counts.first.get_or_insert(now);
            self.counts.last = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{message, message_of};

    fn admit(tally: &mut Tally, offset: i64) -> Admission {
        tally.admit(&message(offset), || {
            Duration::from_millis(u64::try_from(offset).unwrap())
        })
    }

    #[test]
    fn exactly_the_limit_is_admitted_and_then_it_is_complete() {
        let mut tally = Tally::new(Some(2));
        assert_eq!(admit(&mut tally, 5), Admission::Admitted);
        assert_eq!(admit(&mut tally, 6), Admission::Admitted);
        assert_eq!(admit(&mut tally, 7), Admission::Surplus);
        assert_eq!(admit(&mut tally, 5), Admission::Admitted, "the same record again");
        assert_eq!(tally.finish(Ending::Done), Progress::Open);
        assert_eq!(tally.finish(Ending::Failed), Progress::Open);
        assert_eq!(
            tally.finish(Ending::GivenUp),
            Progress::Open,
            "it was given up and comes again"
        );
        assert_eq!(admit(&mut tally, 6), Admission::Admitted);
        assert_eq!(tally.finish(Ending::Done), Progress::Complete);
        let times = (tally.counts().first, tally.counts().last);
        let millis = |ms| Some(Duration::from_millis(ms));
        assert_eq!(times, (millis(5), millis(6)), "what came beyond does not count");
        let Counts {
            consumed,
            distinct,
            redelivered,
            failed,
            ..
        } = tally.counts();
        assert_eq!((consumed, distinct, redelivered, failed), (4, 2, 2, 1));
    }

    #[test]
    fn a_closed_tally_waits_for_what_runs() {
        let mut tally = Tally::new(None);
        assert_eq!(admit(&mut tally, 1), Admission::Admitted);
        assert_eq!(tally.close(), Progress::Open);
        assert_eq!(admit(&mut tally, 2), Admission::Surplus);
        assert_eq!(admit(&mut tally, 1), Admission::Surplus);
        assert_eq!(tally.finish(Ending::Done), Progress::Complete);
        assert_eq!(Tally::new(None).close(), Progress::Complete);
    }

    #[test]
    fn a_run_is_not_complete_while_a_queue_waits_for_its_message() {
        let mut tally = Tally::new(Some(1));
        for ending in [Ending::Suspended, Ending::Suspended] {
            assert_eq!(admit(&mut tally, 1), Admission::Admitted);
            assert_eq!(tally.finish(ending), Progress::Open);
        }
        assert_eq!(admit(&mut tally, 1), Admission::Admitted);
        assert_eq!(tally.finish(Ending::Done), Progress::Complete);
        assert_eq!((tally.counts().consumed, tally.counts().failed), (3, 2));
    }

    #[test]
    fn a_message_that_was_sent_back_is_a_redelivery() {
        let mut tally = Tally::new(None);
        tally.admit(&message_of(1, 2), || Duration::ZERO);
        assert_eq!((tally.counts().distinct, tally.counts().redelivered), (1, 1));
    }

    #[test]
    fn the_clock_is_read_once_for_each_batch() {
        let (mut tally, message) = (Tally::new(None), message(1));
        tally.admit(&message, || Duration::from_secs(1));
        tally.admit(&message, || panic!("the batch is known"));
        assert_eq!(tally.counts().last, Some(Duration::from_secs(1)));
    }
}
