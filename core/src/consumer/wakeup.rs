//! When the machine wants to be woken, and why.

use serde::{Deserialize, Serialize};

use super::cx::{GroupTimer, QueueTimer, TimerKey};
use crate::rpc::RpcTimer;
use crate::time::Instant;

/// The earliest deadline, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wakeup {
    /// When the machine wants to be woken.
    pub at: Instant,
    /// What for.
    pub reason: WakeReason,
}

/// What a wake-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WakeReason {
    /// A request may be past its deadline.
    RequestDeadline,
    /// A link is to be dialled again, given up or checked for silence.
    Link,
    /// A route is to be asked again.
    Route,
    /// A broker is to be told that we live.
    Heartbeat,
    /// A replica may have been out of reach, or within, for long enough.
    Presence,
    /// A group is to rebalance.
    Rebalance,
    /// The application has had its time to compute a share.
    Allocate,
    /// Offsets are to be committed.
    Commit,
    /// A send back is to be tried again.
    SendBack,
    /// A group's way out goes on.
    Shutdown,
    /// A queue's offset is to be asked.
    Acquire,
    /// A queue's pause ends.
    Pull,
    /// A delivery may be past its deadline.
    DeliveryDeadline,
    /// The grace of a revoked queue ends.
    RevokeGrace,
    /// Queues may stand still.
    Stalls,
    /// A lock is to be asked for, renewed or given back, or its lease ends.
    Locks,
    /// A queue has rested after a failure.
    Suspended,
    /// Messages that wait for their rate may be handed out.
    RateLimit,
    /// A broker is to be asked again about a filter.
    Filters,
}

impl TimerKey {
    pub(super) const fn reason(&self) -> WakeReason {
        match self {
            Self::Rpc(RpcTimer::Deadline(_)) => WakeReason::RequestDeadline,
            Self::Rpc(RpcTimer::Redial(_) | RpcTimer::DialTimeout(_) | RpcTimer::Silence(_)) => {
                WakeReason::Link
            }
            Self::Route(_) => WakeReason::Route,
            Self::Heartbeat(_) => WakeReason::Heartbeat,
            Self::Presence(_) => WakeReason::Presence,
            Self::Group(_, GroupTimer::Rebalance) => WakeReason::Rebalance,
            Self::Group(_, GroupTimer::Allocate) => WakeReason::Allocate,
            Self::Group(_, GroupTimer::Commit | GroupTimer::Save) => WakeReason::Commit,
            Self::Group(_, GroupTimer::SendBack(_)) => WakeReason::SendBack,
            Self::Group(_, GroupTimer::Stalls) => WakeReason::Stalls,
            Self::Group(_, GroupTimer::Flow) => WakeReason::RateLimit,
            Self::Group(_, GroupTimer::Filters) => WakeReason::Filters,
            Self::Group(_, GroupTimer::Phase) => WakeReason::Shutdown,
            Self::Queue(_, _, QueueTimer::Acquire) => WakeReason::Acquire,
            Self::Queue(_, _, QueueTimer::Pull) => WakeReason::Pull,
            Self::Group(_, GroupTimer::Strays | GroupTimer::Directs)
            | Self::Queue(_, _, QueueTimer::Delivery) => WakeReason::DeliveryDeadline,
            Self::Queue(_, _, QueueTimer::Grace) => WakeReason::RevokeGrace,
            Self::Group(_, GroupTimer::Locks) => WakeReason::Locks,
            Self::Queue(_, _, QueueTimer::Suspend) => WakeReason::Suspended,
        }
    }
}
