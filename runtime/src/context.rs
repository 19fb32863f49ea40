use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use rocketmq_consumer_core::event::{AppEvent, RunRange};
use rocketmq_consumer_core::ids::{ConsumeId, GroupKey};

use crate::driver::{Command, Inbox};
use crate::runs::Run;
use crate::sync::lock;

/// What a handler can ask about its call, and say before it ends.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) token: Arc<Token>,
}

impl Context {
    /// How many times these messages were delivered here before without coming from the broker anew;
    /// 0 on the first delivery. Redeliveries by the broker are counted in the message.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.token.attempt()
    }

    /// Whether the call is to end: its deadline (`delivery_deadline`) has passed. Whoever goes on loses
    /// the future after `cancel_grace`, and the message is retried.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until the call is to end; see [`Self::is_cancelled`].
    pub fn cancelled(&self) -> Cancelled {
        Cancelled {
            token: Arc::clone(&self.token),
        }
    }

    /// Moves the deadline of this call to `by` from now. Without effect once it has ended.
    pub fn extend(&self, by: Duration) {
        self.token.extend(by);
    }
}

/// Ends when a delivery is to end; made by [`Context::cancelled`] and
/// [`Delivery::cancelled`](crate::Delivery::cancelled).
#[derive(Clone, Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Cancelled {
    pub(crate) token: Arc<Token>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        self.token.poll_cancelled(cx.waker())
    }
}

/// What one delivery shares between its handler and the desk that runs it.
pub(crate) struct Token {
    pub(crate) id: ConsumeId,
    pub(crate) range: RunRange,
    attempt: u32,
    pub(crate) inbox: Arc<Inbox>,
    cancelled: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Token {
    pub(crate) fn new(run: &Run, inbox: Arc<Inbox>) -> Self {
        Self {
            id: run.id,
            range: run.range,
            attempt: run.attempt,
            inbox,
            cancelled: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Of a call that nobody has ordered; what it says goes nowhere.
    pub(crate) fn of_rehearsal(attempt: u32) -> Self {
        let group = GroupKey {
            slot: 0,
            generation: 0,
        };
        let inbox = Inbox::default();
        inbox.close();
        Self {
            id: ConsumeId { group, run: 0 },
            range: RunRange { start: 0, end: 1 },
            attempt,
            inbox: Arc::new(inbox),
            cancelled: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Whether this is the delivery of that position.
    pub(crate) fn covers(&self, id: ConsumeId, position: u32) -> bool {
        self.id == id && (self.range.start..self.range.end).contains(&position)
    }

    /// Local deliveries before this one.
    pub(crate) const fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Fires, once and for all.
    pub(crate) fn cancel(&self) {
        let waiting = {
            let mut waiting = lock(&self.waiting);
            self.cancelled.store(true, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn poll_cancelled(&self, waker: &Waker) -> Poll<()> {
        if self.is_cancelled() {
            return Poll::Ready(());
        }
        let mut waiting = lock(&self.waiting);
        // `cancel` holds the lock while it decides, so that nobody is added behind its back.
        if self.is_cancelled() {
            return Poll::Ready(());
        }
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        Poll::Pending
    }

    pub(crate) fn extend(&self, by: Duration) {
        for position in self.range.start..self.range.end {
            self.inbox.push(Command::App(AppEvent::Extend {
                id: self.id,
                position,
                by,
            }));
        }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            id, range, attempt, ..
        } = self;
        write!(
            f,
            "Token({id:?} {}..{} attempt {attempt})",
            range.start, range.end
        )
    }
}

/// Room for the token of one handler slot, used again when nobody kept a clone, so that contexts cost
/// no allocation per message.
#[derive(Debug, Default)]
pub(crate) struct TokenCell(Option<Arc<Token>>);

impl TokenCell {
    /// The token of a new delivery.
    pub(crate) fn issue(&mut self, run: &Run, inbox: &Arc<Inbox>) -> Context {
        if let Some(token) = self.0.as_mut().and_then(Arc::get_mut) {
            token.id = run.id;
            token.range = run.range;
            token.attempt = run.attempt;
            *token.cancelled.get_mut() = false;
            token
                .waiting
                .get_mut()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .clear();
        } else {
            self.0 = Some(Arc::new(Token::new(run, Arc::clone(inbox))));
        }
        Context {
            token: Arc::clone(self.0.as_ref().expect("it was put there just now")),
        }
    }

    /// Fires the token, if it belongs to that delivery.
    pub(crate) fn cancel(&self, id: ConsumeId, position: u32) {
        if let Some(token) = self.0.as_ref().filter(|token| token.covers(id, position)) {
            token.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{commands, consume_id, run};

    #[test]
    fn a_token_is_used_again_only_when_nobody_kept_it() {
        let (mut cell, inbox) = (TokenCell::default(), Arc::default());
        let first = cell.issue(&run(1, 0..1), &inbox);
        let address = Arc::as_ptr(&first.token);
        cell.cancel(consume_id(1), 0);
        assert!(first.is_cancelled());
        let second = cell.issue(&run(2, 0..1), &inbox);
        assert!(Arc::as_ptr(&second.token) != address && !second.is_cancelled());
        let kept = Arc::as_ptr(&second.token);
        drop(second);
        cell.cancel(consume_id(2), 0);
        let third = cell.issue(&run(3, 0..1), &inbox);
        assert!(Arc::as_ptr(&third.token) == kept && !third.is_cancelled());
        cell.cancel(consume_id(2), 0);
        assert!(!third.is_cancelled(), "a late cancel hits nobody else");
    }

    #[test]
    fn an_extension_names_every_position_of_the_call() {
        let inbox = Arc::default();
        TokenCell::default()
            .issue(&run(4, 2..4), &inbox)
            .extend(Duration::from_secs(9));
        let named: Vec<_> = commands(&inbox)
            .into_iter()
            .filter_map(|command| match command {
                Command::App(AppEvent::Extend { id, position, by }) => Some((id.run, position, by.as_secs())),
                _ => None,
            })
            .collect();
        assert_eq!(named, [(4, 2, 9), (4, 3, 9)]);
    }
}
