//! What handlers do with messages, and how long it takes in virtual time.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::event::Verdict;
use rocketmq_consumer_core::ids::{MessageQueue, QueueOffset};
use rocketmq_consumer_core::message::{Message, OrderlyOutcome, Outcome};
use rocketmq_consumer_core::time::Instant;

use super::dice::Dice;
use super::habits::Habits;
use super::seen::MemberId;

/// One message in the hands of a handler.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    pub(crate) at: Instant,
    pub(crate) member: MemberId,
    pub(crate) message: &'a Message,
    pub(crate) attempt: u32,
}

impl Delivery<'_> {
    /// When it was handed over.
    #[must_use]
    pub const fn at(&self) -> Instant {
        self.at
    }

    /// Which member handles it.
    #[must_use]
    pub const fn member(&self) -> MemberId {
        self.member
    }

    /// The message itself.
    #[must_use]
    pub const fn message(&self) -> &Message {
        self.message
    }

    /// The body; empty if it cannot be opened.
    #[must_use]
    pub fn body(&self) -> Bytes {
        self.message.body().unwrap_or_default()
    }

    /// The tag.
    #[must_use]
    pub fn tag(&self) -> Option<Cow<'_, str>> {
        self.message.tags()
    }

    /// The queue it lies in: one of the retry topic when it comes again.
    #[must_use]
    pub fn queue(&self) -> &MessageQueue {
        self.message.batch().queue()
    }

    /// Its place there.
    #[must_use]
    pub fn offset(&self) -> QueueOffset {
        self.message.queue_offset()
    }

    /// How often it was sent back before.
    #[must_use]
    pub fn reconsume_times(&self) -> u32 {
        self.message.reconsume_times()
    }

    /// How often this process delivered this copy before.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }
}

/// What a handler does with one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handling {
    /// Until then it has not begun and can be withdrawn.
    pub(crate) waits: Duration,
    pub(crate) takes: Duration,
    pub(crate) end: End,
    /// After how long it asks for more time, and for how much.
    pub(crate) extension: Option<(Duration, Duration)>,
    /// Whether it ends when its token is cancelled.
    pub(crate) listens: bool,
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    With(Verdict),
    Never,
}

impl Handling {
    const fn of(end: End) -> Self {
        Self {
            waits: Duration::ZERO,
            takes: Duration::ZERO,
            end,
            extension: None,
            listens: false,
        }
    }

    /// It ends at once, like this. An error is [`Outcome::Retry`].
    #[must_use]
    pub const fn ends(outcome: Outcome) -> Self {
        Self::of(End::With(Verdict::Handled(outcome)))
    }

    /// Success.
    #[must_use]
    pub const fn done() -> Self {
        Self::ends(Outcome::Done)
    }

    /// It panics. To a machine that is the same as an error; a face catches it.
    #[must_use]
    pub const fn panics() -> Self {
        Self::ends(Outcome::Retry)
    }

    /// The body cannot be opened.
    #[must_use]
    pub const fn undecodable() -> Self {
        Self::of(End::With(Verdict::Undecodable))
    }

    /// It never ends.
    #[must_use]
    pub const fn hangs() -> Self {
        Self::of(End::Never)
    }

    /// It runs this long.
    #[must_use]
    pub const fn taking(mut self, takes: Duration) -> Self {
        self.takes = takes;
        self
    }

    /// It begins only after this time; until then the message can be withdrawn.
    #[must_use]
    pub const fn beginning_after(mut self, waits: Duration) -> Self {
        self.waits = waits;
        self
    }

    /// Once it has run this long it asks for this much more time.
    #[must_use]
    pub const fn extending(mut self, after: Duration, by: Duration) -> Self {
        self.extension = Some((after, by));
        self
    }

    /// It ends with an error as soon as its token is cancelled.
    #[must_use]
    pub const fn listening(mut self) -> Self {
        self.listens = true;
        self
    }
}

/// What the handler of a group that consumes in order says in place of an outcome.
pub(crate) const fn in_order(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Handled(Outcome::Done) => Verdict::Ordered(OrderlyOutcome::Commit),
        Verdict::Handled(Outcome::Retry) => Verdict::Ordered(OrderlyOutcome::Suspend),
        Verdict::Handled(Outcome::RetryAfter(pause)) => Verdict::Ordered(OrderlyOutcome::SuspendFor(pause)),
        Verdict::Handled(Outcome::DeadLetter) => Verdict::Ordered(OrderlyOutcome::DeadLetter),
        Verdict::Handled(_)
        | Verdict::Ordered(_)
        | Verdict::Undecodable
        | Verdict::Unsupported
        | Verdict::NotStarted => verdict,
    }
}

impl From<Outcome> for Handling {
    fn from(outcome: Outcome) -> Self {
        Self::ends(outcome)
    }
}

/// Decides what becomes of messages.
pub struct Handler(Kind);

enum Kind {
    Own(Box<dyn FnMut(&Delivery<'_>) -> Handling + Send>),
    Drawn(Habits, Dice),
}

impl From<OrderlyOutcome> for Handling {
    fn from(outcome: OrderlyOutcome) -> Self {
        Self::of(End::With(Verdict::Ordered(outcome)))
    }
}

impl Handler {
    /// From a closure that returns an [`Outcome`], an [`OrderlyOutcome`] or a [`Handling`].
    pub fn new<R: Into<Handling>>(mut handler: impl FnMut(&Delivery<'_>) -> R + Send + 'static) -> Self {
        Self(Kind::Own(Box::new(move |delivery| handler(delivery).into())))
    }

    pub(crate) const fn drawn(habits: Habits, dice: Dice) -> Self {
        Self(Kind::Drawn(habits, dice))
    }

    /// Changes the habits of a handler that has some.
    pub(crate) const fn set_habits(&mut self, new: Habits) {
        if let Kind::Drawn(habits, _) = &mut self.0 {
            *habits = new;
        }
    }

    pub(crate) fn handle(&mut self, delivery: &Delivery<'_>) -> Handling {
        match &mut self.0 {
            Kind::Own(handler) => handler(delivery),
            Kind::Drawn(habits, dice) => habits.draw(dice),
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Own(_) => f.write_str("Handler"),
            Kind::Drawn(habits, _) => habits.fmt(f),
        }
    }
}
