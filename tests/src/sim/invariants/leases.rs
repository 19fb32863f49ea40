use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::time::Instant;

use crate::sim::seen::{Deed, Life, QueueNo, Sight, Sights};

/// How long a lock is used after it was asked for.
pub(super) const LASTS: Duration = Duration::from_secs(30);
/// How long a member waits for the answer to a lock request.
pub(super) const PROMPT: Duration = Duration::from_secs(1);

/// What a member can know of the lock of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    /// When the lock was asked for that was granted last.
    asked_at: Option<Instant>,
    is_lost: bool,
}

/// Which ownerships have lost their lock before it was given back: what they had finished may be uncommitted.
#[derive(Debug, Default)]
pub(in crate::sim) struct Leases(BTreeMap<(Life, QueueNo), Lease>);

impl Leases {
    /// What [`see`](Self::see) has to be shown.
    pub(in crate::sim) const SIGHTS: Sights =
        Sights::of(&[Sight::Assigned, Sight::Locked, Sight::Revoked, Sight::Over]);

    /// Takes what was seen.
    pub(in crate::sim) fn see(&mut self, at: Instant, life: Life, deed: &Deed<'_>) {
        match *deed {
            Deed::Assigned { queue, .. } => self.lease(life, queue).is_lost = false,
            Deed::Locked {
                queue,
                granted,
                asked_at,
                ..
            } => {
                let lease = self.lease(life, queue);
                lease.is_lost |= !granted;
                // Nobody may have waited for one that comes late; and the request may have waited for its link before.
                if granted && at < asked_at + PROMPT / 2 {
                    lease.asked_at = lease.asked_at.max(Some(asked_at));
                }
            }
            Deed::Revoked { queue, .. } => {
                let lease = self.lease(life, queue);
                // A request may have waited for its link, and a lock counts from when it was wanted.
                lease.is_lost |= lease.asked_at.is_none_or(|asked| at + PROMPT >= asked + LASTS);
            }
            Deed::Killed | Deed::Closed => self.0.retain(|(of, _), _| *of != life),
            _ => {}
        }
    }

    fn lease(&mut self, life: Life, queue: QueueNo) -> &mut Lease {
        self.0.entry((life, queue)).or_default()
    }

    /// Whether an answer has said that the queue is not locked, or its ownership ended when the lock was too old.
    pub(in crate::sim) fn is_lost(&self, life: Life, queue: QueueNo) -> bool {
        self.0.get(&(life, queue)).is_some_and(|lease| lease.is_lost)
    }
}
