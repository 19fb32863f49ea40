use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rocketmq_consumer_core::event::Report;
use rocketmq_consumer_core::message::{Message, Outcome};

use crate::answer::Answer;
use crate::context::{Context, TokenCell};
use crate::driver::Inbox;
use crate::outcome::{IntoBatchOutcome, IntoOutcome};
use crate::runs::Run;

/// A user's handler in the form that lanes and threads can run.
pub(crate) trait Handler: Send + Sync + 'static {
    /// What it answers, and with that the mode it belongs to.
    type Answer: Answer;
    /// One call.
    type Future: Future + Send + 'static;

    /// Most messages in one call.
    fn size(&self) -> u32 {
        1
    }

    /// Begins a call for all messages of `run`, at most [`Self::size`]. Takes them out of `messages`.
    fn call(&self, run: &Run, messages: &mut Vec<Message>, contexts: &mut Contexts<'_>) -> Self::Future;

    /// What a call of `len` messages came to.
    fn settle(output: <Self::Future as Future>::Output, len: u32) -> Report;
}

/// Where a handler gets its context from, if it wants one.
pub(crate) enum Contexts<'a> {
    /// Made before, because somebody else needs it too.
    Made(Context),
    /// Made when asked for.
    Slot {
        cell: &'a mut TokenCell,
        inbox: &'a Arc<Inbox>,
    },
}

impl Contexts<'_> {
    fn issue(&mut self, run: &Run) -> Context {
        match self {
            Self::Made(context) => context.clone(),
            Self::Slot { cell, inbox } => cell.issue(run, inbox),
        }
    }
}

/// `|message| async { … }`
pub(crate) struct PerMessage<F, A = Outcome>(F, PhantomData<fn() -> A>);

impl<F, A> PerMessage<F, A> {
    pub(crate) const fn new(handler: F) -> Self {
        Self(handler, PhantomData)
    }
}

impl<F, Fut, A> Handler for PerMessage<F, A>
where
    F: Fn(Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome<A>> + Send + 'static,
    A: Answer,
{
    type Answer = A;
    type Future = Fut;

    fn call(&self, _run: &Run, messages: &mut Vec<Message>, _contexts: &mut Contexts<'_>) -> Fut {
        (self.0)(only(messages))
    }

    fn settle(output: Fut::Output, _len: u32) -> Report {
        Report::All(output.into_outcome().verdict())
    }
}

/// `|message, context| async { … }`
pub(crate) struct WithContext<F, A = Outcome>(F, PhantomData<fn() -> A>);

impl<F, A> WithContext<F, A> {
    pub(crate) const fn new(handler: F) -> Self {
        Self(handler, PhantomData)
    }
}

impl<F, Fut, A> Handler for WithContext<F, A>
where
    F: Fn(Message, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome<A>> + Send + 'static,
    A: Answer,
{
    type Answer = A;
    type Future = Fut;

    fn call(&self, run: &Run, messages: &mut Vec<Message>, contexts: &mut Contexts<'_>) -> Fut {
        (self.0)(only(messages), contexts.issue(run))
    }

    fn settle(output: Fut::Output, _len: u32) -> Report {
        Report::All(output.into_outcome().verdict())
    }
}

/// `|messages, context| async { … }`
pub(crate) struct PerBatch<F, A = Outcome> {
    handler: F,
    size: u32,
    answer: PhantomData<fn() -> A>,
}

impl<F, A> PerBatch<F, A> {
    /// With at most `size` messages in a call.
    pub(crate) const fn new(handler: F, size: u32) -> Self {
        Self {
            handler,
            size,
            answer: PhantomData,
        }
    }
}

impl<F, Fut, A> Handler for PerBatch<F, A>
where
    F: Fn(Vec<Message>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoBatchOutcome<A>> + Send + 'static,
    A: Answer,
{
    type Answer = A;
    type Future = Fut;

    fn size(&self) -> u32 {
        self.size
    }

    fn call(&self, run: &Run, messages: &mut Vec<Message>, contexts: &mut Contexts<'_>) -> Fut {
        let next = Vec::with_capacity(messages.len());
        (self.handler)(std::mem::replace(messages, next), contexts.issue(run))
    }

    fn settle(output: Fut::Output, len: u32) -> Report {
        output.into_report(len)
    }
}

fn only(messages: &mut Vec<Message>) -> Message {
    messages.pop().expect("a call has at least one message")
}

/// Runs user code; a panic becomes `None` and a line in the log instead of the end of the lane.
pub(crate) fn guard<T>(user_code: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(user_code)) {
        Ok(value) => Some(value),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("(no text)");
            tracing::error!(target: "rocketmq", panic = text, "a handler panicked; its message comes again");
            None
        }
    }
}
