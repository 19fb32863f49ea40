//! Whether a queue may pull now: the one judge, whatever woke the queue.

use crate::config::GroupConfig;
use crate::consumer::peers::Chosen;
use crate::status::{HoldReason, PauseScope};
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
    /// What of the group the application has paused that holds this queue.
    pub(crate) paused: Option<PauseScope>,
    pub(crate) limits: QueueLimits,
    pub(crate) sub_version: WallTime,
}

/// How much a queue may hold, and be asked for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    pub(crate) count: u32,
    pub(crate) bytes: u64,
    pub(super) batch: u32,
}

impl QueueLimits {
    /// Limits of a queue whose topic has `owned` queues here: its own, and its share of the topic's. Nobody is
    /// asked for more than the share at once, or what many queues hold would not be bounded by it.
    pub(crate) fn of(config: &GroupConfig, owned: u32) -> Self {
        let owned = owned.max(1);
        let count = config.topic_count_max.map(|most| (most / owned).max(1));
        let bytes = config
            .topic_bytes_max
            .map(|most| (most / u64::from(owned)).max(1));
        Self {
            count: config.queue_count_max.min(count.unwrap_or(u32::MAX)),
            bytes: config.queue_bytes_max.min(bytes.unwrap_or(u64::MAX)),
            batch: config.pull_batch.min(count.unwrap_or(u32::MAX)),
        }
    }
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
        if let Some(scope) = self.paused {
            return Err(HoldReason::Paused(scope));
        }
        self.replica.ready?;
        if window.unfinished() >= self.limits.count {
            return Err(HoldReason::CountFull);
        }
        if window.bytes() >= self.limits.bytes {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_shares_its_limits_among_the_queues_that_are_ours() {
        // The topic's limits, queues that are ours, and what each may hold and be asked for.
        for (count, bytes, owned, limits) in [
            (None, None, 8, (1_000, 100 << 20, 32)),
            (Some(800), None, 8, (100, 100 << 20, 32)),
            (Some(800), None, 0, (800, 100 << 20, 32)),
            (Some(80), Some(8 << 20), 8, (10, 1 << 20, 10)),
            (Some(7), Some(7), 8, (1, 1, 1)),
            (Some(6_553_500), Some(u64::MAX), 1, (1_000, 100 << 20, 32)),
        ] {
            let mut config = GroupConfig::new("g".into());
            config.set_topic_count_max(count).set_topic_bytes_max(bytes);
            let QueueLimits { count, bytes, batch } = QueueLimits::of(&config, owned);
            assert_eq!((count, bytes, batch), limits, "{config:?}");
        }
    }
}
