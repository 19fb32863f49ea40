use alloc::collections::VecDeque;

/// Actions on their way out, first in, first out.
#[derive(Clone, Debug)]
pub(crate) struct Outbox<A>(VecDeque<A>);

impl<A> Outbox<A> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(crate) fn push(&mut self, action: impl Into<A>) {
        self.0.push_back(action.into());
    }

    pub(crate) fn pop(&mut self) -> Option<A> {
        self.0.pop_front()
    }
}
