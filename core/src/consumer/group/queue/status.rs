//! What operators see of a queue: its state, why it does not move, and since when.

use crate::status::{HoldReason, LastError, QueueState, QueueStatus};
use crate::time::Instant;
use crate::wire::code::ResponseCode;

use super::pull::PullState;
use super::window::SlotState;
use super::{PULL, Queue, Stage, Tenure};

impl Queue {
    /// What the queue itself knows; `reads_from` and `stalled_since` are the group's to add.
    pub(crate) fn status(&self) -> QueueStatus {
        let tenure = self.tenure();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (state, hold, since) = self.state_and_hold();
        QueueStatus {
            queue: self.name.clone(),
            epoch: self.epoch,
            state,
            hold,
            since,
            next_offset: tenure.map(|t| t.window.next_offset()),
            lowest_unfinished: tenure.map(|t| t.window.lowest_unfinished()),
            committed: tenure.and_then(|t| t.progress.acknowledged()),
            max_offset: tenure.and_then(|t| t.pull.max_offset()),
            unfinished: tenure.map_or(0, |t| t.window.unfinished()),
            bytes: tenure.map_or(0, |t| t.window.bytes()),
            delivered: tenure.map_or(0, |t| count(t.window.out())),
            retrying: tenure.map_or(0, |t| count(t.window.failing())),
            attempt: tenure.map_or(0, |t| t.window.front_attempt()),
            suspended_until: self.suspended_until(),
            lock: None,
            held_record: tenure.and_then(|t| t.window.held()),
            reads_from: None,
            stalled_since: None,
            last_error: self.last_error.clone(),
        }
    }

    fn state_and_hold(&self) -> (QueueState, Option<HoldReason>, Instant) {
        let tenure = match &self.stage {
            Stage::Acquiring(acquire) => return (QueueState::Acquiring, Some(acquire.reason()), self.since),
            Stage::Revoking(..) => return (QueueState::Revoking, None, self.since),
            Stage::Owned(tenure) => tenure,
        };
        let since = tenure.pull.since();
        match tenure.pull.state() {
            PullState::InFlight { .. } | PullState::Ready => (QueueState::Pulling, None, since),
            PullState::Held(reason) | PullState::Paused(reason) => {
                (QueueState::Held, Some(self.true_reason(tenure, reason)), since)
            }
            PullState::Stopped => (QueueState::Held, Some(HoldReason::Draining), self.since),
        }
    }

    /// The cause behind a reason: a window that is full behind a record that cannot be passed, and a pause
    /// after a refusal that will come again.
    fn true_reason(&self, tenure: &Tenure, reason: HoldReason) -> HoldReason {
        let is_full = matches!(
            reason,
            HoldReason::CountFull | HoldReason::BytesFull | HoldReason::SpanFull | HoldReason::BufferFull
        );
        if is_full && tenure.window.front() == Some(SlotState::Held) {
            return HoldReason::Undecodable;
        }
        if is_full && self.suspended_until().is_some() {
            return HoldReason::Suspended;
        }
        let is_refused = |error: &LastError| {
            let code = error.code.filter(|_| error.request == PULL);
            code.is_some_and(|code| code != ResponseCode::SYSTEM_BUSY.0) && error.at >= tenure.pull.since()
        };
        if reason == HoldReason::BackingOff && self.last_error.as_ref().is_some_and(is_refused) {
            return HoldReason::Refused;
        }
        reason
    }
}
