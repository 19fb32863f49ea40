use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use rocketmq_consumer_core::event::{Report, RunRange};
use rocketmq_consumer_core::ids::ConsumeId;
use rocketmq_consumer_core::message::Message;

use crate::answer::unanswered;
use crate::context::Token;
use crate::desk::{Desk, keep_one_call};
use crate::driver::{Inbox, Settled};
use crate::handler::{Contexts, Handler, guard};
use crate::opener::Opener;
use crate::runs::{Run, RunQueue};
use crate::runtime::Runtime;
use crate::sync::lock;

/// Runs handlers that may block, each call on a thread of the runtime's blocking pool.
///
/// A thread works until nothing waits, so a busy group does not pay for a thread per message. A
/// thread that runs synchronous code cannot be stopped from outside: an abandoned call ends at its next
/// `.await`, and until then it keeps its permit.
pub(crate) struct Blocking<R, H> {
    runtime: R,
    shared: Arc<Shared<H>>,
    permits: u32,
}

struct Shared<H> {
    handler: H,
    inbox: Arc<Inbox>,
    opener: Opener,
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    runs: RunQueue,
    threads: u32,
    calls: Vec<Arc<Call>>,
    closed: bool,
}

/// One call in progress, seen from outside.
struct Call {
    token: Arc<Token>,
    thread: Thread,
    abandoned: AtomicBool,
    woken: AtomicBool,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl<R: Runtime, H: Handler> Blocking<R, H> {
    pub(crate) fn new(runtime: R, opener: Opener, handler: H, permits: u32) -> Self {
        let shared = Arc::new(Shared {
            handler,
            inbox: Arc::clone(opener.inbox()),
            opener,
            work: Mutex::default(),
        });
        Self {
            runtime,
            shared,
            permits,
        }
    }

    fn call(&self, id: ConsumeId, position: u32) -> Option<Arc<Call>> {
        lock(&self.shared.work)
            .calls
            .iter()
            .find(|call| call.token.covers(id, position))
            .cloned()
    }
}

impl<R: Runtime, H: Handler> Blocking<R, H> {
    /// Starts what is missing of a thread for each call that waits or runs, up to the permits.
    fn start_threads(&self) {
        let wanted = {
            let mut work = lock(&self.shared.work);
            let size = self.shared.handler.size().max(1) as usize;
            let calls = work.runs.messages().div_ceil(size) + work.calls.len();
            let threads = self.permits.min(u32::try_from(calls).unwrap_or(u32::MAX));
            let wanted = threads.saturating_sub(work.threads);
            work.threads += wanted;
            wanted
        };
        for _ in 0..wanted {
            let shared = Arc::clone(&self.shared);
            self.runtime.spawn_blocking(move || shared.work_off());
        }
    }
}

impl<R: Runtime, H: Handler> Desk for Blocking<R, H> {
    fn consume(&mut self, mut run: Run) {
        keep_one_call::<H::Answer>(&mut run, self.shared.handler.size(), &self.shared.inbox);
        lock(&self.shared.work).runs.push(run);
        self.start_threads();
    }

    fn withdraw(&mut self, id: ConsumeId) {
        let ranges = lock(&self.shared.work).runs.withdraw(id);
        self.shared.inbox.not_started(id, ranges);
    }

    fn cancel(&mut self, id: ConsumeId, position: u32) {
        if let Some(call) = self.call(id, position) {
            call.token.cancel();
        }
    }

    fn abandon(&mut self, id: ConsumeId, position: u32) {
        if lock(&self.shared.work).runs.remove(id, position) {
            self.shared
                .inbox
                .report([Settled::again::<H::Answer>(id, position)]);
        } else if let Some(call) = self.call(id, position) {
            call.abandoned.store(true, Ordering::Release);
            call.wake_by_ref();
        }
    }

    fn resize(&mut self, permits: u32) {
        self.permits = permits;
        // What waits already may not be followed by anything that would start a thread for it.
        self.start_threads();
    }
}

impl<R, H> Drop for Blocking<R, H> {
    fn drop(&mut self) {
        let (runs, calls) = {
            let mut work = lock(&self.shared.work);
            work.closed = true;
            (work.runs.clear(), std::mem::take(&mut work.calls))
        };
        drop(runs);
        for call in calls {
            call.abandoned.store(true, Ordering::Release);
            call.wake_by_ref();
        }
    }
}

impl<H: Handler> Shared<H> {
    /// The life of one thread.
    fn work_off(&self) {
        let mut opened = Vec::new();
        while let Some(run) = self.next() {
            let RunRange { start, end } = run.range;
            let call = self
                .opener
                .open_call::<H::Answer>(&run, start, self.handler.size(), &mut opened);
            let part = |start, end| Run {
                range: RunRange { start, end },
                ..run.clone()
            };
            if call.end > start {
                self.run(&part(start, call.end), &mut opened);
            }
            let told = call.told.into_iter().flatten();
            self.inbox
                .report(told.map(|(range, verdict)| Settled::all(run.id, range, verdict)));
            if call.next < end {
                // Rare: what stands behind what was held back is called in its turn.
                lock(&self.work).runs.push(part(call.next, end));
            }
        }
    }

    /// The next call; without one the thread is counted out under the same lock.
    fn next(&self) -> Option<Run> {
        let mut work = lock(&self.work);
        let run = work.runs.take(self.handler.size());
        if run.is_none() {
            work.threads -= 1;
        }
        run
    }

    fn run(&self, run: &Run, opened: &mut Vec<Message>) {
        let call = Arc::new(Call {
            token: Arc::new(Token::new(run, Arc::clone(&self.inbox))),
            thread: std::thread::current(),
            abandoned: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        });
        {
            let mut work = lock(&self.work);
            if work.closed {
                // The desk was dropped since this run was taken. Whatever begins now, nobody could
                // make it end, and it would hold its thread for ever.
                opened.clear();
                return;
            }
            work.calls.push(Arc::clone(&call));
        }
        let report = guard(|| self.block_on(run, opened, &call)).unwrap_or(unanswered::<H::Answer>());
        lock(&self.work).calls.retain(|other| !Arc::ptr_eq(other, &call));
        self.inbox.report([Settled {
            id: run.id,
            range: run.range,
            report,
        }]);
    }

    fn block_on(&self, run: &Run, opened: &mut Vec<Message>, call: &Arc<Call>) -> Report {
        let context = crate::context::Context {
            token: Arc::clone(&call.token),
        };
        let mut future = pin!(self.handler.call(run, opened, &mut Contexts::Made(context)));
        let waker = Waker::from(Arc::clone(call));
        let mut cx = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return H::settle(output, run.range.len());
            }
            while !call.woken.swap(false, Ordering::AcqRel) {
                std::thread::park();
            }
            if call.abandoned.load(Ordering::Acquire) {
                return unanswered::<H::Answer>();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::{PerMessage, WithContext};
    use crate::testing::opener;
    use crate::testing::{TestRuntime, consume_id, eventually, run, verdicts};
    use rocketmq_consumer_core::event::Verdict;
    use rocketmq_consumer_core::message::Outcome::{Done, Retry};
    use rocketmq_consumer_core::message::{Message, OrderlyOutcome, Outcome};
    use std::future::{pending, ready};
    use std::sync::Barrier;

    fn blocking<H: Handler<Answer = Outcome>>(
        handler: H,
        permits: u32,
    ) -> (Blocking<TestRuntime, H>, Arc<Inbox>) {
        blocking_of(handler, permits)
    }

    fn blocking_of<H: Handler>(handler: H, permits: u32) -> (Blocking<TestRuntime, H>, Arc<Inbox>) {
        let inbox = Arc::<Inbox>::default();
        (
            Blocking::new(TestRuntime::default(), opener(&inbox), handler, permits),
            inbox,
        )
    }

    #[tokio::test]
    async fn as_many_calls_block_at_once_as_there_are_permits() {
        let together = Barrier::new(3);
        let handler = PerMessage::new(move |_: Message| {
            together.wait();
            ready(())
        });
        let (mut desk, inbox) = blocking(handler, 3);
        desk.consume(run(1, 0..2));
        desk.consume(run(2, 0..4));
        let known = verdicts(&inbox, 6).await;
        assert!(
            known
                .into_values()
                .all(|verdict| verdict == Verdict::Handled(Done))
        );
    }

    #[tokio::test]
    async fn what_waits_already_starts_when_there_are_more_permits() {
        let together = Barrier::new(3);
        let handler = PerMessage::new(move |_: Message| {
            together.wait();
            ready(())
        });
        let (mut desk, inbox) = blocking(handler, 1);
        desk.consume(run(1, 0..3));
        desk.resize(3);
        verdicts(&inbox, 3).await;
    }

    #[tokio::test]
    async fn what_was_taken_when_the_desk_went_is_not_begun() {
        let handler = PerMessage::new(|_: Message| pending::<()>());
        let (desk, _inbox) = blocking(handler, 1);
        let (shared, taken) = (Arc::clone(&desk.shared), run(1, 0..1));
        drop(desk);
        let mut opened = vec![shared.opener.open(&taken, 0).expect("a plain body")];
        let thread = std::thread::spawn(move || shared.run(&taken, &mut opened));
        eventually(|| thread.is_finished().then_some(())).await;
    }

    #[tokio::test]
    async fn a_synchronous_handler_sees_its_cancellation() {
        let handler = WithContext::new(|_: Message, context: crate::Context| {
            while !context.is_cancelled() {
                std::thread::yield_now();
            }
            ready(Retry)
        });
        let (mut desk, inbox) = blocking(handler, 1);
        desk.consume(run(1, 0..2));
        eventually(|| desk.call(consume_id(1), 0)).await;
        desk.cancel(consume_id(1), 0);
        eventually(|| desk.call(consume_id(1), 1)).await;
        desk.cancel(consume_id(1), 1);
        verdicts(&inbox, 2).await;
    }

    #[tokio::test]
    async fn what_cannot_go_on_is_given_up_and_what_waits_is_given_back() {
        let handler = PerMessage::new(|message: Message| async move {
            assert!(message.position() != 9, "a panic");
            pending::<()>().await;
        });
        let (mut desk, inbox) = blocking(handler, 1);
        desk.consume(run(1, 0..3));
        eventually(|| desk.call(consume_id(1), 0)).await;
        desk.abandon(consume_id(1), 1);
        desk.withdraw(consume_id(1));
        desk.consume(run(2, 9..10));
        desk.abandon(consume_id(1), 0);
        let known = verdicts(&inbox, 4).await;
        let retry = Verdict::Handled(Retry);
        let want = [
            ((1, 0), retry),
            ((1, 1), retry),
            ((1, 2), Verdict::NotStarted),
            ((2, 9), retry),
        ];
        assert_eq!(known.into_iter().collect::<Vec<_>>(), want);
    }

    #[tokio::test]
    async fn in_order_a_thread_takes_one_call_of_a_run_and_a_panic_suspends() {
        let handler = PerMessage::<_, OrderlyOutcome>::new(|message: Message| {
            assert!(message.position() != 5, "a panic");
            ready(())
        });
        let (mut desk, inbox) = blocking_of(handler, 4);
        desk.consume(run(1, 0..3));
        desk.consume(run(2, 5..6));
        let known = verdicts(&inbox, 4).await;
        let want = [
            Verdict::Ordered(OrderlyOutcome::Commit),
            Verdict::NotStarted,
            Verdict::NotStarted,
            Verdict::Ordered(OrderlyOutcome::Suspend),
        ];
        assert_eq!(known.into_values().collect::<Vec<_>>(), want);
    }
}
