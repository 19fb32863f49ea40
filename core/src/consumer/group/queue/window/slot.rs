//! One place in the window, and what happens to the message in it.

use crate::ids::QueueOffset;
use crate::time::Instant;

/// What a message is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Waits for a permit.
    Ready,
    /// With a handler, until then at most.
    Out { deadline: Instant },
    /// With a handler whose token was cancelled; dropped then at the latest.
    Cancelled { until: Instant },
    /// With a handler that is being dropped, and that nothing may overtake: its report is awaited.
    Abandoned,
    /// Its handler failed: being sent back, or waiting for its next local delivery.
    Failing,
    /// Cannot be read and is not to be passed.
    Held,
    /// Settled.
    Done,
}

/// A message, or a record that cannot be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) offset: QueueOffset,
    pub(super) bytes: u32,
    pub(super) attempt: u32,
    pub(super) state: SlotState,
}

impl Slot {
    /// When its handler is to be cancelled or dropped.
    pub(super) const fn due_at(&self) -> Option<Instant> {
        match self.state {
            SlotState::Out { deadline } => Some(deadline),
            SlotState::Cancelled { until } => Some(until),
            SlotState::Ready
            | SlotState::Abandoned
            | SlotState::Failing
            | SlotState::Held
            | SlotState::Done => None,
        }
    }

    /// Whether a handler has it.
    pub(super) fn is_out(&self) -> bool {
        self.due_at().is_some() || self.state == SlotState::Abandoned
    }
}
