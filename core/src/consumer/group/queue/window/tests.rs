//! The window by its behaviour, and against a naive model: a map of offsets.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::ids::{MessageQueue, QueueId};

const SOON: Instant = Instant::from_millis(1_000);

fn batch() -> Arc<Batch> {
    let queue = MessageQueue {
        topic: "T".into(),
        broker: "b".into(),
        id: QueueId(0),
    };
    let none = QueueOffset(0);
    Arc::new(Batch::new(
        queue,
        false,
        Bytes::new(),
        smallvec::smallvec![],
        none,
        none,
    ))
}

/// Puts offsets `from..to` of ten bytes each as one batch.
fn put(window: &mut Window, from: i64, to: i64) -> Arc<Batch> {
    let batch = batch();
    window.put(&batch, 0, (from..to).map(|offset| (QueueOffset(offset), 10)), 100);
    window.advance_to(QueueOffset(to));
    batch
}

fn filled(from: i64, to: i64) -> Window {
    let mut window = Window::new(QueueOffset(from));
    put(&mut window, from, to);
    window
}

/// Takes a run and returns its sequence numbers.
fn take(window: &mut Window, most: u32) -> Vec<u64> {
    window.take_run(most, SOON).map_or(vec![], |run| {
        (run.first_seq..run.first_seq + u64::from(run.range.len())).collect()
    })
}

#[test]
fn what_is_committed_is_the_lowest_unfinished_offset() {
    let mut window = filled(100, 104);
    assert_eq!(take(&mut window, 10), [0, 1, 2, 3]);
    for (finished, lowest, unfinished) in [(2, 100, 3), (0, 101, 2), (1, 103, 1), (3, 104, 0)] {
        let freed = window.finish(finished);
        assert!(freed.settled);
        assert_eq!(
            freed.buffer_bytes,
            if unfinished == 0 { 100 } else { 0 },
            "the buffer goes at once"
        );
        assert_eq!(
            (window.lowest_unfinished(), window.unfinished(), window.bytes()),
            (QueueOffset(lowest), unfinished, u64::from(unfinished) * 10)
        );
    }
    assert_eq!((window.buffer_bytes(), window.span()), (0, 0));
}

#[test]
fn an_empty_window_commits_where_the_next_fetch_begins() {
    let mut window = filled(0, 1);
    window.advance_to(QueueOffset(1_000));
    assert_eq!(window.lowest_unfinished(), QueueOffset(0));
    window.finish(0);
    assert_eq!(window.lowest_unfinished(), QueueOffset(1_000));
}

#[test]
fn the_span_is_measured_over_everything_fetched_and_unfinished() {
    let mut window = filled(0, 2);
    put(&mut window, 500, 501);
    for (finished, span) in [(1, 500), (2, 500), (0, 0)] {
        window.finish(finished);
        assert_eq!(window.span(), span, "after {finished}");
    }
}

#[test]
fn a_run_is_of_neighbours_of_one_batch_and_one_attempt() {
    let mut window = filled(0, 3);
    let second = put(&mut window, 3, 6);
    assert_eq!(take(&mut window, 2), [0, 1]);
    assert_eq!(take(&mut window, 9), [2], "the batch ends");
    let run = window.take_run(9, SOON).expect("the second batch is ready");
    assert!(Arc::ptr_eq(&run.batch, &second));
    assert_eq!(
        (run.range, run.first_seq, run.attempt),
        (RunRange { start: 0, end: 3 }, 3, 0)
    );
    assert_eq!((take(&mut window, 9), window.has_ready()), (vec![], false));
    // Delivered again: earlier ones first, and apart from those of another attempt.
    for (seq, counted) in [(5, true), (4, true), (3, false)] {
        window.ready_again(seq, counted);
    }
    assert_eq!(take(&mut window, 9), [3]);
    let run = window.take_run(9, SOON).expect("two are left");
    assert_eq!(
        (run.first_seq, run.range, run.attempt),
        (4, RunRange { start: 1, end: 3 }, 1)
    );
}

#[test]
fn a_record_that_cannot_be_read_holds_its_place_and_nobody_else() {
    let mut window = filled(0, 1);
    let seq = window.put_unreadable(QueueOffset(1), 7, SlotState::Held);
    put(&mut window, 2, 3);
    assert_eq!((take(&mut window, 9), take(&mut window, 9)), (vec![0], vec![2]));
    assert!(window.message(seq).is_none());
    window.finish(0);
    window.finish(2);
    assert_eq!((window.lowest_unfinished(), window.bytes()), (QueueOffset(1), 7));
    window.finish(seq);
    assert_eq!(window.lowest_unfinished(), QueueOffset(3));
}

#[test]
fn a_settled_message_cannot_be_brought_back() {
    let mut window = filled(0, 2);
    take(&mut window, 9);
    window.finish(1);
    window.ready_again(1, true);
    window.set_state(1, SlotState::Failing);
    assert_eq!(
        (window.state(1), window.has_ready()),
        (Some(SlotState::Done), false)
    );
    assert_eq!(window.finish(1), Freed::default(), "twice changes nothing");
    window.finish(0);
    assert_eq!(
        (window.state(1), window.offset(0), window.finish(0)),
        (None, None, Freed::default())
    );
    assert_eq!(window.finish(77), Freed::default(), "never put");
}

#[test]
fn deliveries_are_due_by_deadline_and_then_by_grace() {
    let mut window = filled(0, 3);
    let at = Instant::from_millis;
    window.take_run(1, at(30));
    window.take_run(1, at(10));
    assert_eq!(
        (window.next_due(), window.overdue(at(9)), window.overdue(at(10))),
        (Some(at(10)), vec![], vec![1])
    );
    window.set_state(1, SlotState::Cancelled { until: at(40) });
    assert_eq!(
        (window.past_deadline(), window.out()),
        (1, 2),
        "its handler still runs"
    );
    assert_eq!(
        (window.next_due(), window.overdue(at(40))),
        (Some(at(30)), vec![0, 1])
    );
    window.set_state(1, SlotState::Failing);
    assert_eq!(
        (window.past_deadline(), window.out(), window.failing()),
        (0, 1, 1)
    );
    window.finish(0);
    assert_eq!(window.next_due(), None);
}

// ---- against a model ----------------------------------------------------------------------------

/// What a window should be, by the book: every message ever put and not settled, by sequence number.
#[derive(Debug, Default)]
struct Model {
    messages: BTreeMap<u64, ModelMessage>,
    put: u64,
    next_offset: i64,
    highest: i64,
}

#[derive(Debug)]
struct ModelMessage {
    offset: i64,
    bytes: u32,
    batch: usize,
    attempt: u32,
    state: ModelState,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ModelState {
    Ready,
    Out,
    Failing,
    Held,
}

impl Model {
    fn lowest(&self) -> i64 {
        self.messages
            .values()
            .map(|m| m.offset)
            .min()
            .unwrap_or(self.next_offset)
    }

    fn count(&self, state: ModelState) -> usize {
        self.messages.values().filter(|m| m.state == state).count()
    }

    /// The `n`th message in that state.
    fn pick(&self, n: usize, state: ModelState) -> Option<u64> {
        let mut all = self.messages.iter().filter(|(_, m)| m.state == state);
        let count = self.count(state);
        all.nth(n % count.max(1)).map(|(seq, _)| *seq)
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// Offsets skipped, then the gaps between the messages of a batch and their sizes.
    Put(i64, Vec<(i64, u32)>),
    Unreadable(i64, bool),
    Take(u32),
    FinishOut(usize),
    FinishFailing(usize),
    FinishAny(u64),
    Fail(usize),
    Again(usize, bool),
    NotStarted(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let sizes = prop::collection::vec((1_i64..4, 0_u32..1_000), 0..8);
    prop_oneof![
        3 => (0_i64..5, sizes).prop_map(|(skip, sizes)| Op::Put(skip, sizes)),
        1 => (1_i64..3, any::<bool>()).prop_map(|(skip, held)| Op::Unreadable(skip, held)),
        4 => (0_u32..6).prop_map(Op::Take),
        6 => any::<usize>().prop_map(Op::FinishOut),
        1 => any::<usize>().prop_map(Op::FinishFailing),
        1 => (0_u64..80).prop_map(Op::FinishAny),
        2 => any::<usize>().prop_map(Op::Fail),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(n, counted)| Op::Again(n, counted)),
        1 => any::<usize>().prop_map(Op::NotStarted),
    ]
}

/// A window, its model, and the batches that were put.
#[derive(Default)]
struct Pair {
    window: Option<Window>,
    model: Model,
    batches: Vec<Arc<Batch>>,
}

impl Pair {
    fn window(&mut self) -> &mut Window {
        self.window.get_or_insert_with(|| Window::new(QueueOffset(0)))
    }

    fn put(&mut self, offsets: &[(i64, u32)]) {
        let batch = batch();
        self.batches.push(Arc::clone(&batch));
        let messages = offsets
            .iter()
            .map(|(offset, bytes)| (QueueOffset(*offset), *bytes));
        self.window().put(&batch, 3, messages, 10);
        for (offset, bytes) in offsets {
            self.record(*offset, *bytes, ModelState::Ready);
        }
    }

    fn record(&mut self, offset: i64, bytes: u32, state: ModelState) {
        let message = ModelMessage {
            offset,
            bytes,
            batch: self.batches.len(),
            attempt: 0,
            state,
        };
        self.model.messages.insert(self.model.put, message);
        self.model.put += 1;
        self.model.highest = offset;
    }

    fn advance(&mut self, next: i64) {
        self.model.next_offset = next;
        self.window().advance_to(QueueOffset(next));
    }

    fn finish(&mut self, seq: u64) -> Result<(), TestCaseError> {
        let was_there = self.model.messages.remove(&seq).is_some();
        prop_assert_eq!(self.window().finish(seq).settled, was_there);
        prop_assert_eq!(
            self.window().finish(seq),
            Freed::default(),
            "settling is idempotent"
        );
        Ok(())
    }

    fn run(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match op {
            Op::Put(skip, sizes) => {
                let mut offset = self.model.next_offset + skip - 1;
                let mut messages = Vec::new();
                for (gap, bytes) in sizes {
                    offset += gap;
                    messages.push((offset, *bytes));
                }
                self.put(&messages);
                self.advance((offset + 1).max(self.model.next_offset));
            }
            Op::Unreadable(skip, held) => {
                let offset = self.model.next_offset + skip;
                let (state, same) = if *held {
                    (SlotState::Held, ModelState::Held)
                } else {
                    (SlotState::Failing, ModelState::Failing)
                };
                let seq = self.window().put_unreadable(QueueOffset(offset), 5, state);
                prop_assert_eq!(seq, self.model.put);
                self.batches.push(batch());
                self.record(offset, 5, same);
                self.advance(offset + 1);
            }
            Op::Take(most) => self.take(*most)?,
            Op::FinishOut(n) => {
                if let Some(seq) = self.model.pick(*n, ModelState::Out) {
                    self.finish(seq)?;
                }
            }
            Op::FinishFailing(n) => {
                if let Some(seq) = self.model.pick(*n, ModelState::Failing) {
                    self.finish(seq)?;
                }
            }
            Op::FinishAny(seq) => {
                // Only what was handed out, has failed or is gone: nobody settles what is ready.
                if self
                    .model
                    .messages
                    .get(seq)
                    .is_none_or(|m| m.state != ModelState::Ready)
                {
                    self.finish(*seq)?;
                }
            }
            Op::Fail(n) => {
                if let Some(seq) = self.model.pick(*n, ModelState::Out) {
                    self.window().set_state(seq, SlotState::Failing);
                    self.mark(seq, ModelState::Failing, false);
                }
            }
            Op::Again(n, counted) => {
                if let Some(seq) = self.model.pick(*n, ModelState::Failing)
                    && self.window().message(seq).is_some()
                {
                    self.window().ready_again(seq, *counted);
                    self.mark(seq, ModelState::Ready, *counted);
                }
            }
            Op::NotStarted(n) => {
                if let Some(seq) = self.model.pick(*n, ModelState::Out) {
                    self.window().ready_again(seq, false);
                    self.mark(seq, ModelState::Ready, false);
                }
            }
        }
        self.agree()
    }

    fn mark(&mut self, seq: u64, state: ModelState, counted: bool) {
        if let Some(message) = self.model.messages.get_mut(&seq) {
            message.state = state;
            message.attempt += u32::from(counted);
        }
    }

    /// A run is of ready neighbours of one batch and one attempt, and there is one if anything is ready.
    fn take(&mut self, most: u32) -> Result<(), TestCaseError> {
        let Some(run) = self.window().take_run(most, SOON) else {
            prop_assert_eq!(self.model.count(ModelState::Ready), 0, "something is ready");
            return Ok(());
        };
        prop_assert!((1..=most.max(1)).contains(&run.range.len()));
        let lowest = self.model.pick(0, ModelState::Ready);
        let again = self
            .model
            .messages
            .values()
            .any(|m| m.attempt > 0 && m.state == ModelState::Ready);
        prop_assert!(again || lowest == Some(run.first_seq), "the lowest first");
        for position in run.range.start..run.range.end {
            let seq = run.first_seq + u64::from(position - run.range.start);
            let message = &self.model.messages[&seq];
            prop_assert_eq!((message.state, message.attempt), (ModelState::Ready, run.attempt));
            prop_assert!(Arc::ptr_eq(&run.batch, &self.batches[message.batch - 1]));
            let found = self.window().message(seq).map(|(_, position)| position);
            prop_assert_eq!(found, Some(position));
            self.mark(seq, ModelState::Out, false);
        }
        Ok(())
    }

    fn agree(&mut self) -> Result<(), TestCaseError> {
        let ready = self.model.count(ModelState::Ready) > 0;
        prop_assert_eq!(self.window().has_ready(), ready);
        let model = &self.model;
        let window = self.window.as_ref().expect("every operation makes one");
        prop_assert_eq!(window.lowest_unfinished().0, model.lowest());
        prop_assert_eq!(window.next_offset().0, model.next_offset);
        prop_assert_eq!(window.unfinished() as usize, model.messages.len());
        prop_assert_eq!(
            window.bytes(),
            model.messages.values().map(|m| u64::from(m.bytes)).sum::<u64>()
        );
        prop_assert_eq!(window.out(), model.count(ModelState::Out));
        prop_assert_eq!(window.failing(), model.count(ModelState::Failing));
        let span = if model.messages.is_empty() {
            0
        } else {
            model.highest - model.lowest()
        };
        prop_assert_eq!(i64::try_from(window.span()).ok(), Some(span));
        for (seq, message) in &model.messages {
            prop_assert_eq!(window.offset(*seq), Some(QueueOffset(message.offset)));
        }
        if model.messages.is_empty() {
            prop_assert_eq!(
                (window.buffer_bytes(), window.slots.len(), window.chunks.len()),
                (0, 0, 0)
            );
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn a_window_is_what_a_map_of_offsets_would_be(ops in prop::collection::vec(op(), 1..120)) {
        let mut pair = Pair::default();
        pair.window();
        for op in &ops {
            pair.run(op)?;
        }
    }

    #[test]
    fn the_order_of_finishing_does_not_matter(order in Just((0..40_u64).collect::<Vec<_>>()).prop_shuffle()) {
        let mut window = filled(0, 20);
        put(&mut window, 20, 40);
        while window.take_run(7, SOON).is_some() {}
        let mut open: BTreeSet<u64> = order.iter().copied().collect();
        let mut freed = 0;
        for seq in order {
            freed += window.finish(seq).buffer_bytes;
            open.remove(&seq);
            let lowest = open.first().map_or(40, |seq| i64::try_from(*seq).expect("small"));
            prop_assert_eq!(window.lowest_unfinished(), QueueOffset(lowest));
        }
        prop_assert_eq!((freed, window.bytes()), (200, 0));
    }
}
