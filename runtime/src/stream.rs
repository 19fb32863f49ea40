use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use futures_core::Stream;
use rocketmq_consumer_core::action::ShutdownReport;
use rocketmq_consumer_core::event::RunRange;
use rocketmq_consumer_core::ids::ConsumeId;
use rocketmq_consumer_core::message::{Message, OrderlyOutcome, Outcome};

use crate::answer::Answer;
use crate::consumer::Consumer;
use crate::context::{Cancelled, Token};
use crate::desk::{Desk, keep_one_call};
use crate::driver::{Inbox, Settled};
use crate::opener::Opener;
use crate::runs::{Run, RunQueue};
use crate::runtime::Runtime;
use crate::sync::lock;

/// The messages of a group as a stream, for those who would rather ask than be called.
///
/// At most `concurrency` deliveries are out at a time: settle some to get more. Waiting is cancel
/// safe: a message leaves the queue only when [`Self::next`] returns it. The stream ends when the
/// consumer has been shut down; dropping it shuts the consumer down without a drain.
///
/// One whose answer is [`OrderlyOutcome`] has at most one delivery of each queue out: settle it to get the next
/// of that queue.
#[must_use = "a stream that is dropped shuts its consumer down"]
pub struct DeliveryStream<R: Runtime, A: Answer = Outcome> {
    consumer: Consumer<R>,
    shared: Arc<Shared<A>>,
}

impl<R: Runtime, A: Answer> DeliveryStream<R, A> {
    pub(crate) const fn new(consumer: Consumer<R>, shared: Arc<Shared<A>>) -> Self {
        Self { consumer, shared }
    }

    /// The next message; `None` when the consumer has been shut down.
    pub async fn next(&mut self) -> Option<Delivery<A>> {
        std::future::poll_fn(|cx| self.shared.poll(cx)).await
    }

    /// The consumer behind it: readiness, notices, status, concurrency.
    pub const fn consumer(&self) -> &Consumer<R> {
        &self.consumer
    }

    /// Stops new deliveries, waits up to `drain` for those that are out to be settled, commits and
    /// leaves the group; see [`Consumer::shutdown`].
    pub async fn shutdown(&self, drain: Duration) -> ShutdownReport {
        self.consumer.shutdown(drain).await
    }
}

impl<R: Runtime, A: Answer> Stream for DeliveryStream<R, A> {
    type Item = Delivery<A>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery<A>>> {
        self.shared.poll(cx)
    }
}

impl<R: Runtime, A: Answer> std::fmt::Debug for DeliveryStream<R, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeliveryStream")
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}

/// One message and the duty to say what became of it.
///
/// Dropped without a word it counts as [`Outcome::Retry`], in order as [`OrderlyOutcome::Suspend`]: a task that
/// dies with a delivery in its hands loses no message.
#[derive(Debug)]
#[must_use = "a delivery that is dropped comes again"]
pub struct Delivery<A: Answer = Outcome> {
    /// The message.
    pub message: Message,
    claim: Claim<A>,
}

impl Delivery {
    /// The message has been dealt with.
    pub fn done(self) {
        self.settle(Outcome::Done);
    }

    /// Deliver it again later, at the group's usual pace.
    pub fn retry(self) {
        self.settle(Outcome::Retry);
    }

    /// Deliver it again after about this time; brokers offer steps from 1 s to 2 h.
    pub fn retry_after(self, delay: Duration) {
        self.settle(Outcome::RetryAfter(delay));
    }

    /// Put it into the group's dead letter topic.
    pub fn dead_letter(self) {
        self.settle(Outcome::DeadLetter);
    }
}

impl Delivery<OrderlyOutcome> {
    /// The message has been dealt with; the next one of its queue may come.
    pub fn commit(self) {
        self.settle(OrderlyOutcome::Commit);
    }

    /// Deliver it again, before anything else of its queue, after the group's
    /// [`suspend_time`](crate::ConsumerBuilder::suspend_time).
    pub fn suspend(self) {
        self.settle(OrderlyOutcome::Suspend);
    }

    /// Deliver it again, before anything else of its queue, after this time: 10 ms to 30 s.
    pub fn suspend_for(self, pause: Duration) {
        self.settle(OrderlyOutcome::SuspendFor(pause));
    }

    /// Put it into the group's dead letter topic; the next one of its queue comes when it lies there.
    pub fn dead_letter(self) {
        self.settle(OrderlyOutcome::DeadLetter);
    }
}

impl<A: Answer> Delivery<A> {
    /// Says what is to become of the message.
    pub fn settle(mut self, answer: A) {
        self.claim.settle(answer);
    }

    /// How many times the message was delivered here before without coming from the broker anew; 0 on the first
    /// delivery. Redeliveries by the broker are counted in the message.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.claim.token.attempt()
    }

    /// Moves the deadline of this delivery to `by` from now.
    pub fn extend(&self, by: Duration) {
        self.claim.token.extend(by);
    }

    /// Whether the delivery is to end: its deadline has passed. After `cancel_grace` the message is
    /// retried whatever is said about it later.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.claim.token.is_cancelled()
    }

    /// Waits until the delivery is to end; see [`Self::is_cancelled`].
    pub fn cancelled(&self) -> Cancelled {
        Cancelled {
            token: Arc::clone(&self.claim.token),
        }
    }
}

/// The right to settle one delivery. A type of its own, so that `Delivery`'s public field can be moved out
/// while this one still settles when dropped.
struct Claim<A: Answer> {
    token: Arc<Token>,
    shared: Arc<Shared<A>>,
    settled: bool,
}

impl<A: Answer> Claim<A> {
    fn settle(&mut self, answer: A) {
        if !std::mem::replace(&mut self.settled, true) {
            self.shared.settle(&self.token, answer);
        }
    }
}

impl<A: Answer> Drop for Claim<A> {
    fn drop(&mut self) {
        self.settle(A::AGAIN);
    }
}

impl<A: Answer> std::fmt::Debug for Claim<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.token.fmt(f)
    }
}

/// What the driver, the stream and its deliveries share.
pub(crate) struct Shared<A> {
    inbox: Arc<Inbox>,
    opener: Opener,
    state: Mutex<State>,
    waker: AtomicWaker,
    answer: PhantomData<fn() -> A>,
}

#[derive(Default)]
struct State {
    runs: RunQueue,
    /// Deliveries that nobody has settled. Who takes one out reports it, so each is reported once.
    out: BTreeMap<(ConsumeId, u32), Arc<Token>>,
    ended: bool,
}

impl<A: Answer> Shared<A> {
    pub(crate) fn new(opener: Opener) -> Self {
        Self {
            inbox: Arc::clone(opener.inbox()),
            opener,
            state: Mutex::default(),
            waker: AtomicWaker::new(),
            answer: PhantomData,
        }
    }

    fn poll(self: &Arc<Self>, cx: &Context<'_>) -> Poll<Option<Delivery<A>>> {
        self.waker.register(cx.waker());
        loop {
            let mut state = lock(&self.state);
            let Some(run) = state.runs.take(1) else {
                return if state.ended {
                    Poll::Ready(None)
                } else {
                    Poll::Pending
                };
            };
            let position = run.range.start;
            let message = match self.opener.open(&run, position) {
                Ok(message) => message,
                Err(verdict) => {
                    drop(state);
                    self.inbox.report([Settled::all(run.id, run.range, verdict)]);
                    continue;
                }
            };
            let token = Arc::new(Token::new(&run, Arc::clone(&self.inbox)));
            state.out.insert((run.id, position), Arc::clone(&token));
            drop(state);
            let claim = Claim {
                token,
                shared: Arc::clone(self),
                settled: false,
            };
            return Poll::Ready(Some(Delivery { message, claim }));
        }
    }

    fn settle(&self, token: &Token, answer: A) {
        let RunRange { start, .. } = token.range;
        if lock(&self.state).out.remove(&(token.id, start)).is_some() {
            self.inbox
                .report([Settled::all(token.id, token.range, answer.verdict())]);
        }
    }
}

/// The driver's end of a stream.
pub(crate) struct StreamDesk<A: Answer>(pub(crate) Arc<Shared<A>>);

impl<A: Answer> Desk for StreamDesk<A> {
    fn consume(&mut self, mut run: Run) {
        keep_one_call::<A>(&mut run, 1, &self.0.inbox);
        lock(&self.0.state).runs.push(run);
        self.0.waker.wake();
    }

    fn withdraw(&mut self, id: ConsumeId) {
        let ranges = lock(&self.0.state).runs.withdraw(id);
        self.0.inbox.not_started(id, ranges);
    }

    fn cancel(&mut self, id: ConsumeId, position: u32) {
        let token = lock(&self.0.state).out.get(&(id, position)).cloned();
        if let Some(token) = token {
            token.cancel();
        }
    }

    fn abandon(&mut self, id: ConsumeId, position: u32) {
        let known = {
            let mut state = lock(&self.0.state);
            state.out.remove(&(id, position)).is_some() || state.runs.remove(id, position)
        };
        if known {
            self.0.inbox.report([Settled::again::<A>(id, position)]);
        }
    }

    /// The machine hands out no more than it may; nothing to do here.
    fn resize(&mut self, _permits: u32) {}
}

impl<A: Answer> Drop for StreamDesk<A> {
    fn drop(&mut self) {
        let runs = {
            let mut state = lock(&self.0.state);
            state.ended = true;
            state.runs.clear()
        };
        drop(runs);
        self.0.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::opener;
    use crate::testing::{consume_id, now_or_never, reports, run, settled};
    use rocketmq_consumer_core::event::Verdict;
    use std::future::poll_fn;

    fn stream<A: Answer>() -> (StreamDesk<A>, Arc<Shared<A>>) {
        let shared = Arc::new(Shared::new(opener(&Arc::default())));
        (StreamDesk(Arc::clone(&shared)), shared)
    }

    fn next<A: Answer>(shared: &Arc<Shared<A>>) -> Option<Delivery<A>> {
        now_or_never(poll_fn(|cx| shared.poll(cx))).flatten()
    }

    #[test]
    fn every_word_about_a_delivery_is_reported_and_silence_means_retry() {
        let (mut desk, shared) = stream::<Outcome>();
        desk.consume(run(1, 0..5));
        let after = Duration::from_secs(3);
        next(&shared).unwrap().done();
        next(&shared).unwrap().retry();
        next(&shared).unwrap().retry_after(after);
        next(&shared).unwrap().dead_letter();
        let Delivery { message, .. } = next(&shared).unwrap();
        drop(message);
        assert!(next(&shared).is_none());
        use Outcome::{DeadLetter, Done, Retry, RetryAfter};
        let outcomes = [Done, Retry, RetryAfter(after), DeadLetter, Retry];
        let want: Vec<_> = (0u32..)
            .zip(outcomes)
            .map(|(at, outcome)| settled(1, at..at + 1, outcome))
            .collect();
        assert_eq!(reports(&shared.inbox), want);
    }

    #[test]
    fn an_abandoned_delivery_is_retried_and_what_is_said_later_is_ignored() {
        let (mut desk, shared) = stream::<Outcome>();
        desk.consume(run(1, 0..2));
        let delivery = next(&shared).unwrap();
        desk.cancel(consume_id(1), 0);
        assert!(delivery.is_cancelled() && now_or_never(delivery.cancelled()).is_some());
        desk.abandon(consume_id(1), 0);
        desk.abandon(consume_id(1), 0);
        delivery.done();
        desk.abandon(consume_id(1), 1);
        assert_eq!(reports(&shared.inbox), [settled(1, 0..2, Outcome::Retry)]);
        assert!(next(&shared).is_none());
    }

    #[test]
    fn a_withdrawn_run_leaves_what_was_taken_with_its_taker() {
        let (mut desk, shared) = stream::<Outcome>();
        desk.consume(run(1, 4..7));
        let delivery = next(&shared).unwrap();
        desk.withdraw(consume_id(1));
        assert!(next(&shared).is_none());
        let not_started = Settled::all(consume_id(1), RunRange { start: 5, end: 7 }, Verdict::NotStarted);
        assert_eq!(reports(&shared.inbox), [not_started]);
        delivery.done();
        assert_eq!(reports(&shared.inbox), [settled(1, 4..5, Outcome::Done)]);
    }

    #[test]
    fn the_stream_ends_with_its_group() {
        let (mut desk, shared) = stream::<Outcome>();
        desk.consume(run(1, 0..1));
        drop(desk);
        assert!(matches!(now_or_never(poll_fn(|cx| shared.poll(cx))), Some(None)));
    }

    #[test]
    fn in_order_one_delivery_of_a_run_is_out_and_silence_suspends() {
        let (mut desk, shared) = stream::<OrderlyOutcome>();
        let ordered = |id, at, outcome| {
            Settled::all(
                consume_id(id),
                RunRange {
                    start: at,
                    end: at + 1,
                },
                Verdict::Ordered(outcome),
            )
        };
        desk.consume(run(1, 0..3));
        let not_started = Settled::all(consume_id(1), RunRange { start: 1, end: 3 }, Verdict::NotStarted);
        assert_eq!(reports(&shared.inbox), [not_started]);
        let pause = Duration::from_millis(30);
        next(&shared).unwrap().commit();
        assert!(next(&shared).is_none());
        for id in 2..7 {
            desk.consume(run(id, 0..1));
        }
        next(&shared).unwrap().suspend();
        next(&shared).unwrap().suspend_for(pause);
        drop(next(&shared).unwrap());
        desk.abandon(consume_id(5), 0);
        next(&shared).unwrap().dead_letter();
        use OrderlyOutcome::{Commit, DeadLetter, Suspend, SuspendFor};
        let want = [
            ordered(1, 0, Commit),
            ordered(2, 0, Suspend),
            ordered(3, 0, SuspendFor(pause)),
            ordered(4, 0, Suspend),
            ordered(5, 0, Suspend),
            ordered(6, 0, DeadLetter),
        ];
        assert_eq!(reports(&shared.inbox), want);
    }
}
