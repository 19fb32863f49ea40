use std::collections::VecDeque;
use std::sync::Arc;

use rocketmq_consumer_core::event::RunRange;
use rocketmq_consumer_core::ids::ConsumeId;
use rocketmq_consumer_core::message::Batch;

/// Neighbouring messages of one pull answer that wait for a handler.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// To be named in the report.
    pub(crate) id: ConsumeId,
    /// The pull answer they came with.
    pub(crate) batch: Arc<Batch>,
    /// Which positions of it.
    pub(crate) range: RunRange,
    /// Local redeliveries before this one.
    pub(crate) attempt: u32,
}

/// Runs that nobody has begun, oldest first. Whoever is free takes from the front, so a handler that
/// blocks its lane keeps nothing from the others.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    runs: VecDeque<Run>,
    messages: usize,
}

impl RunQueue {
    /// How many messages wait.
    pub(crate) const fn messages(&self) -> usize {
        self.messages
    }

    /// Appends a run; an empty one leaves no trace.
    pub(crate) fn push(&mut self, run: Run) {
        if !run.range.is_empty() {
            self.messages += run.range.len() as usize;
            self.runs.push_back(run);
        }
    }

    /// Takes at most `most` messages of the oldest run.
    pub(crate) fn take(&mut self, most: u32) -> Option<Run> {
        let front = self.runs.front_mut()?;
        let taken = front.range.len().min(most.max(1));
        self.messages -= taken as usize;
        if taken == front.range.len() {
            return self.runs.pop_front();
        }
        let range = RunRange {
            start: front.range.start,
            end: front.range.start + taken,
        };
        front.range.start = range.end;
        Some(Run {
            range,
            ..front.clone()
        })
    }

    /// Takes out what is left of a run.
    pub(crate) fn withdraw(&mut self, id: ConsumeId) -> Vec<RunRange> {
        let mut ranges = Vec::new();
        self.runs.retain(|run| {
            if run.id == id {
                ranges.push(run.range);
            }
            run.id != id
        });
        self.messages -= ranges.iter().map(|range| range.len() as usize).sum::<usize>();
        ranges
    }

    /// Takes out one message; false when it is not here.
    pub(crate) fn remove(&mut self, id: ConsumeId, position: u32) -> bool {
        let holds = |run: &Run| run.id == id && (run.range.start..run.range.end).contains(&position);
        let Some(index) = self.runs.iter().position(holds) else {
            return false;
        };
        let Some(run) = self.runs.remove(index) else {
            return false;
        };
        self.messages -= 1;
        let before = RunRange {
            start: run.range.start,
            end: position,
        };
        let behind = RunRange {
            start: position + 1,
            end: run.range.end,
        };
        for range in [behind, before] {
            if !range.is_empty() {
                self.runs.insert(index, Run { range, ..run.clone() });
            }
        }
        true
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) -> VecDeque<Run> {
        self.messages = 0;
        std::mem::take(&mut self.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{consume_id, run};

    fn drain(queue: &mut RunQueue) -> Vec<(u64, u32, u32)> {
        std::iter::from_fn(|| queue.take(u32::MAX))
            .map(|run| (run.id.run, run.range.start, run.range.end))
            .collect()
    }

    #[test]
    fn runs_are_taken_in_order_and_in_parts() {
        let mut queue = RunQueue::default();
        for run in [run(1, 0..5), run(2, 3..3), run(3, 7..8)] {
            queue.push(run);
        }
        assert_eq!(queue.messages(), 6);
        let part = queue.take(2).unwrap();
        assert_eq!((part.range, queue.messages()), (RunRange { start: 0, end: 2 }, 4));
        assert_eq!(drain(&mut queue), [(1, 2, 5), (3, 7, 8)]);
        assert_eq!(queue.messages(), 0);
    }

    #[test]
    fn one_message_can_be_taken_out_anywhere() {
        for (position, left) in [
            (2, vec![(1, 3, 5), (2, 2, 4)]),
            (3, vec![(1, 2, 3), (1, 4, 5), (2, 2, 4)]),
            (4, vec![(1, 2, 4), (2, 2, 4)]),
        ] {
            let mut queue = RunQueue::default();
            queue.push(run(1, 2..5));
            queue.push(run(2, 2..4));
            assert!(queue.remove(consume_id(1), position));
            assert!(!queue.remove(consume_id(1), position) && !queue.remove(consume_id(1), 9));
            assert_eq!(queue.messages(), 4);
            assert_eq!(drain(&mut queue), left);
        }
    }

    #[test]
    fn a_withdrawn_run_leaves_the_others_alone() {
        let mut queue = RunQueue::default();
        for run in [run(1, 0..2), run(2, 0..4), run(1, 5..6)] {
            queue.push(run);
        }
        let ranges = [RunRange { start: 0, end: 2 }, RunRange { start: 5, end: 6 }];
        assert_eq!(queue.withdraw(consume_id(1)), ranges);
        assert_eq!(queue.messages(), 4);
        assert_eq!(drain(&mut queue), [(2, 0, 4)]);
    }
}
