//! Who is handed what: permits, fairness over queues, and the account of every run that is out.
//!
//! A permit is one handler call. A run of `k` messages costs as many permits as it needs calls, and
//! gives them back as its messages are reported, whatever became of their queue meanwhile: a handler
//! that hangs keeps its permit until it ends. Queues with something ready take turns.
//= rocketmq: ConsumeMessageConcurrentlyService type=differs
//  reason: permits instead of a thread pool with an unbounded queue; fair over queues; what no handler has
//  begun can be withdrawn.

pub(crate) mod retry_copy;
pub(crate) mod send_back;
pub(crate) mod strays;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::event::RunRange;
use crate::ids::QueueKey;
use crate::time::Instant;

/// A run the application has.
#[derive(Clone, Debug)]
struct RunOut {
    run: u64,
    at: Instant,
    queue: QueueKey,
    first_seq: u64,
    range: RunRange,
    /// One bit a position.
    reported: SmallVec<[u64; 1]>,
    left: u32,
}

/// Messages of a run that are reported for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reported {
    pub(crate) queue: QueueKey,
    pub(crate) seq: u64,
    /// The run it was out with.
    pub(crate) run: u64,
    /// Index into the reported range.
    pub(crate) index: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    permits: u32,
    handler_batch: u32,
    in_use: u32,
    next_run: u64,
    /// In ascending order of their numbers.
    runs: VecDeque<RunOut>,
    /// Queues with something ready, each once.
    round: VecDeque<QueueKey>,
}

impl Dispatch {
    pub(crate) const fn new(permits: u32, handler_batch: u32) -> Self {
        Self {
            permits,
            handler_batch,
            in_use: 0,
            next_run: 0,
            runs: VecDeque::new(),
            round: VecDeque::new(),
        }
    }

    pub(crate) const fn set_permits(&mut self, permits: u32) {
        self.permits = permits;
    }

    /// Permits, and how many are in use.
    pub(crate) const fn permits(&self) -> (u32, u32) {
        (self.permits, self.in_use)
    }

    /// The queue joins the end of the round.
    pub(crate) fn enlist(&mut self, queue: QueueKey) {
        self.round.push_back(queue);
    }

    /// The queue whose turn it is, if a permit is free.
    pub(crate) fn next_turn(&mut self) -> Option<QueueKey> {
        if self.in_use >= self.permits {
            None
        } else {
            self.round.pop_front()
        }
    }

    /// The queue whose turn it was keeps its place.
    pub(crate) fn keep_turn(&mut self, queue: QueueKey) {
        self.round.push_front(queue);
    }

    /// Queues that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.round.len()
    }

    /// How long a run may be now.
    pub(crate) const fn room(&self) -> u32 {
        self.permits
            .saturating_sub(self.in_use)
            .saturating_mul(self.handler_batch)
    }

    /// Books a run and returns its number.
    pub(crate) fn book(&mut self, now: Instant, queue: QueueKey, first_seq: u64, range: RunRange) -> u64 {
        let run = self.next_run;
        self.next_run += 1;
        let words = range.len().div_ceil(64) as usize;
        self.in_use += self.cost(range.len());
        self.runs.push_back(RunOut {
            run,
            at: now,
            queue,
            first_seq,
            range,
            reported: SmallVec::from_elem(0, words),
            left: range.len(),
        });
        run
    }

    /// Books a run of one message that belongs to no queue, if a permit is free; returns its number.
    pub(crate) fn book_single(&mut self) -> Option<u64> {
        if self.in_use >= self.permits {
            return None;
        }
        self.in_use += 1;
        self.next_run += 1;
        Some(self.next_run - 1)
    }

    /// Such a run has ended.
    pub(crate) const fn end_single(&mut self) {
        self.in_use -= 1;
    }

    /// When a run that is out was handed out.
    pub(crate) fn handed_at(&self, run: u64) -> Option<Instant> {
        let index = self.runs.binary_search_by_key(&run, |out| out.run).ok()?;
        Some(self.runs[index].at)
    }

    /// Takes a report. Positions that were never handed out, or are reported again, are left out; the
    /// second value counts them.
    pub(crate) fn reported(&mut self, run: u64, range: RunRange) -> (SmallVec<[Reported; 32]>, u64) {
        let mut fresh = SmallVec::new();
        let Ok(index) = self.runs.binary_search_by_key(&run, |out| out.run) else {
            return (fresh, u64::from(range.len()));
        };
        let out = &mut self.runs[index];
        let before = out.left;
        let start = range.start.max(out.range.start);
        for position in start..range.end.min(out.range.end) {
            let at = position - out.range.start;
            let (word, bit) = (at as usize / 64, 1u64 << (at % 64));
            if out.reported[word] & bit == 0 {
                out.reported[word] |= bit;
                out.left -= 1;
                let seq = out.first_seq + u64::from(at);
                fresh.push(Reported {
                    queue: out.queue,
                    seq,
                    run,
                    index: position - range.start,
                });
            }
        }
        let after = out.left;
        if after == 0 {
            self.runs.remove(index);
        }
        self.in_use -= self.cost(before) - self.cost(after);
        let ignored = u64::from(range.len()) - fresh.len() as u64;
        (fresh, ignored)
    }

    /// The run and position under which a message is out.
    pub(crate) fn locate(&self, queue: QueueKey, seq: u64) -> Option<(u64, u32)> {
        self.runs.iter().rev().find_map(|out| {
            let at = u32::try_from(seq.checked_sub(out.first_seq)?).ok()?;
            (out.queue == queue && at < out.range.len()).then_some((out.run, out.range.start + at))
        })
    }

    /// Whether a message is out with a run that is newer than this one.
    pub(crate) fn is_out_since(&self, run: u64, queue: QueueKey, seq: u64) -> bool {
        let newer = self.locate(queue, seq).filter(|(newest, _)| *newest > run);
        newer.is_some_and(|(newest, position)| self.find(newest, position).is_some())
    }

    /// The message behind a run and position that has not been reported.
    pub(crate) fn find(&self, run: u64, position: u32) -> Option<(QueueKey, u64)> {
        let index = self.runs.binary_search_by_key(&run, |out| out.run).ok()?;
        let out = &self.runs[index];
        let at = position
            .checked_sub(out.range.start)
            .filter(|at| *at < out.range.len())?;
        let open = out.reported[at as usize / 64] & (1 << (at % 64)) == 0;
        open.then_some((out.queue, out.first_seq + u64::from(at)))
    }

    /// Runs of a queue that are out.
    pub(crate) fn runs_of(&self, queue: QueueKey) -> Vec<u64> {
        self.runs
            .iter()
            .filter(|out| out.queue == queue)
            .map(|out| out.run)
            .collect()
    }

    /// Whether a run of a queue is out.
    pub(crate) fn has_runs(&self, queue: QueueKey) -> bool {
        self.runs.iter().any(|out| out.queue == queue)
    }

    /// Messages that are out and belong to ownerships that have ended.
    pub(crate) fn astray(&self, lives: impl Fn(QueueKey) -> bool) -> u64 {
        let ended = self.runs.iter().filter(|out| !lives(out.queue));
        ended.map(|out| u64::from(out.left)).sum()
    }

    /// How many messages one handler call takes, at most.
    pub(crate) const fn handler_batch(&self) -> u32 {
        self.handler_batch
    }

    /// Messages of a queue that are out: run, position, and place in the queue's window.
    pub(crate) fn out_of(&self, queue: QueueKey) -> Vec<(u64, u32, u64)> {
        let runs = self.runs.iter().filter(|out| out.queue == queue);
        let positions = runs.flat_map(|out| (out.range.start..out.range.end).map(move |at| (out.run, at)));
        let open = positions.filter_map(|(run, at)| self.find(run, at).map(|(_, seq)| (run, at, seq)));
        open.collect()
    }

    /// When the oldest run that is out was handed out.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.runs.front().map(|out| out.at)
    }

    /// When the oldest run of a queue that is out was handed out.
    pub(crate) fn oldest_of(&self, queue: QueueKey) -> Option<Instant> {
        let out = self.runs.iter().find(|out| out.queue == queue);
        out.map(|out| out.at)
    }

    /// All runs that are out.
    pub(crate) fn runs(&self) -> Vec<u64> {
        self.runs.iter().map(|out| out.run).collect()
    }

    const fn cost(&self, messages: u32) -> u32 {
        messages.div_ceil(self.handler_batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueKey = QueueKey {
        slot: 0,
        generation: 1,
    };

    const fn range(start: u32, end: u32) -> RunRange {
        RunRange { start, end }
    }

    #[test]
    fn permits_are_taken_by_calls_and_come_back_with_reports() {
        for (batch, len, steps) in [
            (1, 20, [(0, 1, 19), (1, 20, 0)]),
            (32, 40, [(0, 8, 1), (8, 40, 0)]),
        ] {
            let mut dispatch = Dispatch::new(20, batch);
            let run = dispatch.book(Instant::ZERO, QUEUE, 100, range(0, len));
            assert_eq!(dispatch.permits().1, len.div_ceil(batch));
            for (start, end, in_use) in steps {
                let (fresh, ignored) = dispatch.reported(run, range(start, end));
                assert_eq!(
                    (fresh.len() as u32, ignored, dispatch.permits().1),
                    (end - start, 0, in_use)
                );
            }
        }
    }

    #[test]
    fn a_position_counts_once_and_only_if_it_was_handed_out() {
        let mut dispatch = Dispatch::new(200, 1);
        let run = dispatch.book(Instant::ZERO, QUEUE, 500, range(10, 80));
        let (fresh, ignored) = dispatch.reported(run, range(0, 12));
        assert_eq!(
            (fresh.iter().map(|r| r.seq).collect::<Vec<_>>(), ignored),
            (alloc::vec![500, 501], 10)
        );
        let (fresh, ignored) = dispatch.reported(run, range(11, 13));
        assert_eq!(
            (fresh[0].seq, fresh[0].index, fresh.len(), ignored),
            (502, 1, 1, 1)
        );
        assert_eq!(dispatch.find(run, 12), None, "reported");
        assert_eq!(dispatch.find(run, 13), Some((QUEUE, 503)));
        assert_eq!(dispatch.locate(QUEUE, 569), Some((run, 79)));
        assert_eq!(dispatch.reported(run + 1, range(0, 5)).1, 5, "an unknown run");
        dispatch.reported(run, range(10, 80));
        assert_eq!((dispatch.permits().1, dispatch.runs().len()), (0, 0));
    }

    #[test]
    fn a_run_of_no_queue_takes_a_permit_and_a_number_as_every_run() {
        let mut dispatch = Dispatch::new(2, 1);
        let first = dispatch.book(Instant::from_millis(7), QUEUE, 0, range(0, 1));
        let single = dispatch.book_single();
        assert_eq!((single, dispatch.book_single()), (Some(first + 1), None));
        assert_eq!(dispatch.handed_at(first), Some(Instant::from_millis(7)));
        dispatch.enlist(QUEUE);
        assert_eq!(dispatch.next_turn(), None, "no permit is free");
        dispatch.end_single();
        assert_eq!((dispatch.permits(), dispatch.next_turn()), ((2, 1), Some(QUEUE)));
    }

    #[test]
    fn queues_take_turns_while_permits_are_free() {
        let mut dispatch = Dispatch::new(1, 1);
        let other = QueueKey {
            slot: 1,
            generation: 1,
        };
        dispatch.enlist(QUEUE);
        dispatch.enlist(other);
        assert_eq!(dispatch.next_turn(), Some(QUEUE));
        let run = dispatch.book(Instant::ZERO, QUEUE, 0, range(0, 1));
        assert_eq!(dispatch.next_turn(), None, "no permit is free");
        dispatch.reported(run, range(0, 1));
        assert_eq!(dispatch.next_turn(), Some(other));
    }
}
