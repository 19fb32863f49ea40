mod lane;
mod slot;

use std::sync::{Arc, Mutex};

use atomic_waker::AtomicWaker;
use rocketmq_consumer_core::ids::ConsumeId;

use crate::desk::{Desk, keep_one_call};
use crate::driver::{Inbox, Settled};
use crate::handler::Handler;
use crate::lanes::lane::Lane;
use crate::opener::Opener;
use crate::runs::{Run, RunQueue};
use crate::runtime::Runtime;
use crate::sync::lock;

/// Runs asynchronous handlers on a few tasks of their own.
///
/// Runs wait in one queue; a lane takes a part of it whenever it is free. So a handler that blocks its
/// lane keeps from the others only what that lane has begun, and what nobody has begun can be taken
/// back whatever the lanes do.
pub(crate) struct Lanes<R, H: Handler> {
    runtime: R,
    shared: Arc<Shared<H>>,
    cores: usize,
}

/// What the driver and the lanes of a group share.
pub(crate) struct Shared<H> {
    handler: H,
    inbox: Arc<Inbox>,
    opener: Opener,
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    runs: RunQueue,
    lanes: Vec<Seat>,
    closed: bool,
}

/// One lane as the others see it.
struct Seat {
    signal: Arc<Signal>,
    idle: bool,
    /// Handler calls in progress when the lane went idle.
    load: usize,
}

/// Where a lane hears that something happened.
#[derive(Default)]
pub(crate) struct Signal {
    waker: AtomicWaker,
    news: Mutex<News>,
}

#[derive(Default)]
struct News {
    /// Slots whose futures were woken.
    woken: Vec<u32>,
    orders: Vec<Order>,
}

/// What the machine wants of a delivery in progress; every lane hears it, one knows the delivery.
#[derive(Clone, Copy)]
enum Order {
    Cancel(ConsumeId, u32),
    Abandon(ConsumeId, u32),
}

impl<R: Runtime, H: Handler> Lanes<R, H> {
    /// Opens `min(permits, cores)` lanes.
    pub(crate) fn new(runtime: R, opener: Opener, handler: H, permits: u32) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::on_cores(runtime, opener, handler, permits, cores)
    }

    fn on_cores(runtime: R, opener: Opener, handler: H, permits: u32, cores: usize) -> Self {
        let mut lanes = Self {
            runtime,
            shared: Arc::new(Shared {
                handler,
                inbox: Arc::clone(opener.inbox()),
                opener,
                work: Mutex::default(),
            }),
            cores,
        };
        lanes.resize(permits);
        lanes
    }

    fn order(&self, order: Order) {
        let signals: Vec<_> = lock(&self.shared.work)
            .lanes
            .iter()
            .map(|seat| Arc::clone(&seat.signal))
            .collect();
        for signal in signals {
            lock(&signal.news).orders.push(order);
            signal.waker.wake();
        }
    }
}

impl<R: Runtime, H: Handler> Desk for Lanes<R, H> {
    fn consume(&mut self, mut run: Run) {
        keep_one_call::<H::Answer>(&mut run, self.shared.handler.size(), &self.shared.inbox);
        let messages = run.range.len();
        lock(&self.shared.work).runs.push(run);
        for _ in 0..messages {
            let Some(idle) = lock(&self.shared.work).rouse() else {
                break;
            };
            idle.waker.wake();
        }
    }

    fn withdraw(&mut self, id: ConsumeId) {
        let ranges = lock(&self.shared.work).runs.withdraw(id);
        self.shared.inbox.not_started(id, ranges);
    }

    fn cancel(&mut self, id: ConsumeId, position: u32) {
        self.order(Order::Cancel(id, position));
    }

    fn abandon(&mut self, id: ConsumeId, position: u32) {
        if lock(&self.shared.work).runs.remove(id, position) {
            self.shared
                .inbox
                .report([Settled::again::<H::Answer>(id, position)]);
        } else {
            self.order(Order::Abandon(id, position));
        }
    }

    /// Opens more lanes when more may run at once; a lane too many merely rests.
    fn resize(&mut self, permits: u32) {
        let wanted = self.cores.min(permits as usize).max(1);
        let mut work = lock(&self.shared.work);
        while work.lanes.len() < wanted {
            let signal = Arc::<Signal>::default();
            let lane = Lane::new(work.lanes.len(), Arc::clone(&self.shared), Arc::clone(&signal));
            work.lanes.push(Seat {
                signal,
                idle: false,
                load: 0,
            });
            self.runtime.spawn(lane.run());
        }
    }
}

impl<R, H: Handler> Drop for Lanes<R, H> {
    fn drop(&mut self) {
        let (runs, seats) = {
            let mut work = lock(&self.shared.work);
            work.closed = true;
            (work.runs.clear(), std::mem::take(&mut work.lanes))
        };
        drop(runs);
        for seat in seats {
            seat.signal.waker.wake();
        }
    }
}

impl Work {
    /// Calls the idle lane that has the least to do. The driver wakes every lane that can help; lanes
    /// do not wake each other, because a runtime may queue the woken one behind the waker, and that one
    /// may go on to block.
    fn rouse(&mut self) -> Option<Arc<Signal>> {
        if self.runs.messages() == 0 {
            return None;
        }
        let seat = self
            .lanes
            .iter_mut()
            .filter(|seat| seat.idle)
            .min_by_key(|seat| seat.load)?;
        seat.idle = false;
        Some(Arc::clone(&seat.signal))
    }
}

#[cfg(test)]
mod tests;
