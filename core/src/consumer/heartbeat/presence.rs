//! Whether a replica can be done without: it has been out of reach for a while, or is not back for long enough.
//!
//! ```text
//!  Here ──out of reach for `patience`──► Away
//!    ▲                                    │
//!    └──within reach for `patience`, or its slave sends us back──┘
//! ```
//!
//! The way back takes as long as the way out: a master that comes and goes is read neither a little nor from two
//! replicas in turns.
//= rocketmq: MQClientInstance.findBrokerAddressInSubscribe type=differs
//  reason: a master that cannot be reached is done without before its name servers miss it.

use core::time::Duration;

use crate::consumer::cx::{Cx, TimerKey};
use crate::ids::PeerAddr;

/// How a replica stands with those who want to read from its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is read from if it is the one to read from; who cannot reach it waits.
    Here,
    /// Another replica is read from if there is one.
    Away,
}

impl Presence {
    /// It was reached, or lost: whether that lasts will be seen.
    pub(super) fn changed(self, cx: &mut Cx<'_>, addr: &PeerAddr, is_reached: bool, patience: Duration) {
        let timer = TimerKey::Presence(addr.clone());
        if is_reached == (self == Self::Here) {
            cx.timers.cancel(timer);
        } else {
            cx.timers.set(timer, cx.now + patience);
        }
    }

    /// It has lasted.
    pub(super) const fn after(is_reached: bool) -> Self {
        if is_reached { Self::Here } else { Self::Away }
    }
}
