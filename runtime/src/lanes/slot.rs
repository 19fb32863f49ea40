use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use rocketmq_consumer_core::event::RunRange;
use rocketmq_consumer_core::ids::ConsumeId;

use crate::context::TokenCell;
use crate::handler::guard;
use crate::lanes::Signal;
use crate::sync::lock;

/// A pinned place for one handler call, used again and again: after the first call in it neither the
/// future nor its waker nor its context costs an allocation.
pub(crate) struct Slot<F> {
    future: Pin<Box<Option<F>>>,
    flag: Arc<SlotWaker>,
    waker: Waker,
    call: Option<(ConsumeId, RunRange)>,
    /// The context of the call, if its handler wanted one.
    pub(crate) cell: TokenCell,
}

/// Puts its slot on the lane's list, once until the lane looks.
struct SlotWaker {
    signal: Arc<Signal>,
    index: u32,
    listed: AtomicBool,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.listed.swap(true, Ordering::AcqRel) {
            lock(&self.signal.news).woken.push(self.index);
            self.signal.waker.wake();
        }
    }
}

impl<F: Future> Slot<F> {
    pub(crate) fn new(signal: Arc<Signal>, index: u32) -> Self {
        let flag = Arc::new(SlotWaker {
            signal,
            index,
            listed: AtomicBool::new(false),
        });
        let waker = Waker::from(Arc::clone(&flag));
        Self {
            future: Box::pin(None),
            flag,
            waker,
            call: None,
            cell: TokenCell::default(),
        }
    }

    /// The call in progress.
    pub(crate) const fn call(&self) -> Option<(ConsumeId, RunRange)> {
        self.call
    }

    /// Whether the call in progress is the delivery of that position.
    pub(crate) fn covers(&self, id: ConsumeId, position: u32) -> bool {
        self.call
            .is_some_and(|(held, range)| held == id && (range.start..range.end).contains(&position))
    }

    /// Moves a call in.
    pub(crate) fn begin(&mut self, id: ConsumeId, range: RunRange, future: F) {
        debug_assert!(self.call.is_none(), "a slot holds one call at a time");
        self.call = Some((id, range));
        self.future.as_mut().set(Some(future));
    }

    /// The lane has seen that this slot was woken; a wake-up from now on lists it again.
    pub(crate) fn unlist(&self) {
        self.flag.listed.store(false, Ordering::Release);
    }

    /// Goes on with the call. Panics of the handler come through; a slot without a call never ends.
    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let mut cx = Context::from_waker(&self.waker);
        self.future
            .as_mut()
            .as_pin_mut()
            .map_or(Poll::Pending, |future| future.poll(&mut cx))
    }

    /// Drops the call. Its waker may still be around; waking an empty slot does nothing.
    pub(crate) fn clear(&mut self) {
        self.call = None;
        // A destructor is user code too.
        let _panicked = guard(|| self.future.as_mut().set(None));
    }
}
