use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use rocketmq_consumer_core::event::{Report, RunRange};
use rocketmq_consumer_core::ids::ConsumeId;
use rocketmq_consumer_core::message::Message;

use crate::answer::unanswered;
use crate::driver::Settled;
use crate::handler::{Contexts, Handler, guard};
use crate::lanes::slot::Slot;
use crate::lanes::{Order, Shared, Signal};
use crate::runs::Run;
use crate::sync::lock;

/// Messages a lane begins before it lets other tasks of the runtime have the thread.
const BUDGET: u32 = 64;

/// Messages a lane takes at once, however long the queue is: what it has taken, no other lane can help
/// with.
const PART: u32 = 32;

/// One task that runs handlers. A turn: orders, woken calls, new calls, one report.
pub(crate) struct Lane<H: Handler> {
    index: usize,
    shared: Arc<Shared<H>>,
    signal: Arc<Signal>,
    slots: Vec<Slot<H::Future>>,
    free: Vec<u32>,
    settled: Vec<Settled>,
    /// Messages of the call that begins; empty between calls.
    opened: Vec<Message>,
    /// Kept for its capacity; empty between turns.
    woken: Vec<u32>,
}

/// What a lane found when it looked for work.
enum Found {
    Part(Run),
    Nothing,
    Closed,
}

impl<H: Handler> Lane<H> {
    pub(crate) fn new(index: usize, shared: Arc<Shared<H>>, signal: Arc<Signal>) -> Self {
        Self {
            index,
            shared,
            signal,
            slots: Vec::new(),
            free: Vec::new(),
            settled: Vec::new(),
            opened: Vec::new(),
            woken: Vec::new(),
        }
    }

    /// Works until the group has ended.
    pub(crate) async fn run(mut self) {
        poll_fn(|cx| self.turn(cx)).await;
    }

    fn turn(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.signal.waker.register(cx.waker());
        self.hear_news();
        let mut budget = BUDGET;
        let found = loop {
            if budget == 0 {
                break None;
            }
            match self.look_for_work(budget) {
                Found::Part(part) => {
                    budget = budget.saturating_sub(part.range.len());
                    self.begin_all(part);
                }
                end @ (Found::Nothing | Found::Closed) => break Some(end),
            }
        };
        self.report();
        match found {
            Some(Found::Closed) => Poll::Ready(()),
            Some(_) => Poll::Pending,
            None => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn hear_news(&mut self) {
        let orders = {
            let mut news = lock(&self.signal.news);
            mem::swap(&mut news.woken, &mut self.woken);
            mem::take(&mut news.orders)
        };
        for order in orders {
            self.obey(order);
        }
        let mut woken = mem::take(&mut self.woken);
        for index in woken.drain(..) {
            self.slots[index as usize].unlist();
            self.advance(index);
        }
        self.woken = woken;
    }

    fn obey(&mut self, order: Order) {
        let (Order::Cancel(id, position) | Order::Abandon(id, position)) = order;
        let Some(index) = self.slots.iter().position(|slot| slot.covers(id, position)) else {
            return;
        };
        match order {
            Order::Cancel(..) => self.slots[index].cell.cancel(id, position),
            Order::Abandon(..) => self.give_up(index),
        }
    }

    /// Takes a fair part of the queue. Goes idle under the same lock that found the queue empty, so
    /// that no run can slip in between.
    fn look_for_work(&self, budget: u32) -> Found {
        let load = self.slots.len() - self.free.len();
        let mut work = lock(&self.shared.work);
        if work.closed {
            return Found::Closed;
        }
        let size = self.shared.handler.size();
        let share = work.runs.messages().div_ceil(work.lanes.len().max(1));
        let most = u32::try_from(share)
            .unwrap_or(u32::MAX)
            .min(PART)
            .min(budget)
            .next_multiple_of(size);
        let part = work.runs.take(most);
        let idle = part.is_none();
        if let Some(seat) = work.lanes.get_mut(self.index) {
            (seat.idle, seat.load) = (idle, load);
        }
        part.map_or(Found::Nothing, Found::Part)
    }

    /// Opens the messages of a part and begins their calls; a call takes neighbours up to the first one
    /// that must not reach a handler.
    fn begin_all(&mut self, part: Run) {
        let size = self.shared.handler.size();
        let RunRange { mut start, end } = part.range;
        let mut call = part;
        while start < end {
            call.range = RunRange { start, end };
            let opener = &self.shared.opener;
            let opened = opener.open_call::<H::Answer>(&call, start, size, &mut self.opened);
            if opened.end > start {
                call.range.end = opened.end;
                self.begin(&call);
            }
            for (range, verdict) in opened.told.into_iter().flatten() {
                self.settle(call.id, range, Report::All(verdict));
            }
            start = opened.next;
        }
    }

    fn begin(&mut self, call: &Run) {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.slots.len()).expect("permits are counted in u32");
            self.slots.push(Slot::new(Arc::clone(&self.signal), index));
            index
        });
        let slot = &mut self.slots[index as usize];
        let Shared { handler, inbox, .. } = &*self.shared;
        let mut contexts = Contexts::Slot {
            cell: &mut slot.cell,
            inbox,
        };
        let opened = &mut self.opened;
        match guard(|| handler.call(call, opened, &mut contexts)) {
            Some(future) => {
                slot.begin(call.id, call.range, future);
                self.advance(index);
            }
            None => {
                self.opened.clear();
                self.free.push(index);
                self.settle(call.id, call.range, unanswered::<H::Answer>());
            }
        }
    }

    /// Polls a call; a wake-up that came too late finds none.
    fn advance(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some((_, range)) = slot.call() else { return };
        let polled = guard(|| slot.poll().map(|output| H::settle(output, range.len())));
        match polled {
            Some(Poll::Pending) => {}
            Some(Poll::Ready(report)) => self.finish(index, report),
            None => self.finish(index, unanswered::<H::Answer>()),
        }
    }

    fn give_up(&mut self, index: usize) {
        let index = u32::try_from(index).expect("slots are counted in u32");
        self.finish(index, unanswered::<H::Answer>());
    }

    fn finish(&mut self, index: u32, report: Report) {
        let slot = &mut self.slots[index as usize];
        if let Some((id, range)) = slot.call() {
            slot.clear();
            self.free.push(index);
            self.settle(id, range, report);
        }
    }

    fn settle(&mut self, id: ConsumeId, range: RunRange, report: Report) {
        let next = Settled { id, range, report };
        if !self.settled.last_mut().is_some_and(|last| last.merge(&next)) {
            self.settled.push(next);
        }
    }

    /// Calls end in any order; sorted, most of them are neighbours again.
    fn report(&mut self) {
        if self.settled.len() > 1 {
            self.settled
                .sort_unstable_by_key(|settled| (settled.id, settled.range.start));
        }
        if !self.settled.is_empty() {
            self.shared.inbox.report(self.settled.drain(..));
        }
    }
}

/// A lane that ends early, by a panic outside of user code or with its runtime, still owes reports for
/// what it has begun.
impl<H: Handler> Drop for Lane<H> {
    fn drop(&mut self) {
        for index in 0..self.slots.len() {
            self.give_up(index);
        }
        self.report();
    }
}
