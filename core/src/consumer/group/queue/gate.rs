//! Whether a queue may pull now: the one judge, whatever woke the queue.

use crate::config::GroupConfig;
use crate::consumer::peers::Chosen;
use crate::status::HoldReason;
use crate::time::WallTime;

use super::window::Window;

/// What a queue needs to know of the world to pull.
pub(crate) struct Gate<'a> {
    pub(crate) config: &'a GroupConfig,
    /// Which replica is read from, and whether it can be now.
    pub(crate) replica: Chosen,
    /// Whether the group's buffer has room for another answer.
    pub(crate) buffer_room: bool,
    pub(crate) draining: bool,
    /// Whether the broker's lock is ours, if one is needed.
    pub(crate) locked: bool,
    pub(crate) sub_version: WallTime,
}

impl Gate<'_> {
    /// Every reason not to pull, in the order an operator would want to hear them.
    pub(super) fn check(&self, window: &Window) -> Result<(), HoldReason> {
        if self.draining {
            return Err(HoldReason::Draining);
        }
        if !self.locked {
            return Err(HoldReason::WaitsForLock);
        }
        self.replica.ready?;
        if window.unfinished() >= self.config.queue_count_max {
            return Err(HoldReason::CountFull);
        }
        if window.bytes() >= self.config.queue_bytes_max {
            return Err(HoldReason::BytesFull);
        }
        if window.span() > u64::from(self.config.queue_span_max) {
            return Err(HoldReason::SpanFull);
        }
        // An empty window may always take one answer, or a queue could starve behind its neighbours.
        if !self.buffer_room && window.unfinished() > 0 {
            return Err(HoldReason::BufferFull);
        }
        Ok(())
    }
}
