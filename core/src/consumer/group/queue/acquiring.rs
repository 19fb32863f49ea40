//! A queue has become ours: where it begins is found out, and "unknown" is not a position.
//!
//! ```text
//!             asked                none stored
//!  Waiting ──────────► AskingStored ───────────► AskingStart ──┐
//!     ▲ failed: a pause    │   └───────────────────────────────┴─► Owned
//!     └────────────────────┴─ (from both)
//! ```

use core::time::Duration;

use crate::config::GroupConfig;
use crate::consumer::cx::{Cx, QuestionBody, QueueAsk, QueueTimer, Replica};
use crate::consumer::peers::Chosen;
use crate::ids::QueueOffset;
use crate::status::HoldReason;
use crate::time::{Instant, WallTime};
use crate::wire::request::route::MASTER_ID;

use super::moved::Seen;
use super::progress::Progress;
use super::pull::PullLoop;
use super::window::Window;
use super::{Queue, Stage, Tenure};

/// How far the search for the start has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acquire {
    /// A timer is armed, or the broker's readiness is awaited, or the end of an earlier ownership of ours.
    Waiting(HoldReason),
    /// Asked the master, or else a slave: what that one says is checked with the master before anything is
    /// committed, and that it has nothing is not believed.
    AskingStored {
        of_master: bool,
    },
    AskingStart,
}

impl Queue {
    /// Another member may still hold the queue: give it time to let go.
    pub(crate) fn wait_for_former_owner(&mut self, cx: &mut Cx<'_>, delay: Duration) {
        self.enter(
            Stage::Acquiring(Acquire::Waiting(HoldReason::TakeoverDelay)),
            cx.now,
        );
        cx.timers.set(self.timer(QueueTimer::Acquire), cx.now + delay);
    }

    /// An earlier ownership of ours is still being given back: what it commits last is where this one begins.
    pub(crate) fn wait_for_former_self(&mut self, now: Instant) {
        self.enter(Stage::Acquiring(Acquire::Waiting(HoldReason::GivingBack)), now);
    }

    pub(crate) const fn waits_for_former_self(&self) -> bool {
        matches!(
            self.stage,
            Stage::Acquiring(Acquire::Waiting(HoldReason::GivingBack))
        )
    }

    /// Asks for the stored offset, or waits until its broker can be asked.
    pub(crate) fn ask_stored(
        &mut self,
        cx: &mut Cx<'_>,
        config: &GroupConfig,
        replica: Chosen,
        timeout: Duration,
    ) {
        if let Err(reason) = replica.ready {
            return self.wait_for_broker(reason, cx.now);
        }
        let of_master = replica.is_master();
        self.enter(Stage::Acquiring(Acquire::AskingStored { of_master }), cx.now);
        let zero_if_none = config.latest_like_java;
        let body = self.stored_offset_question(&config.group, zero_if_none);
        self.ask(cx, replica.replica(), body, timeout, QueueAsk::StoredOffset);
    }

    /// Its broker cannot be asked yet.
    pub(crate) fn wait_for_broker(&mut self, reason: HoldReason, now: Instant) {
        self.enter(Stage::Acquiring(Acquire::Waiting(reason)), now);
    }

    /// Asks the master for the stored offset, because a slave has none.
    pub(crate) fn ask_master(&mut self, cx: &mut Cx<'_>, config: &GroupConfig, timeout: Duration) {
        let master = Chosen {
            id: Some(MASTER_ID),
            ready: Ok(()),
        };
        self.ask_stored(cx, config, master, timeout);
    }

    /// Whether it is a slave that was asked for the stored offset.
    pub(crate) const fn hears_of_slave(&self) -> bool {
        matches!(
            self.stage,
            Stage::Acquiring(Acquire::AskingStored { of_master: false })
        )
    }

    /// Nothing is stored: asks where to start.
    pub(crate) fn ask_start(&mut self, cx: &mut Cx<'_>, body: QuestionBody, timeout: Duration) {
        self.enter(Stage::Acquiring(Acquire::AskingStart), cx.now);
        self.ask(cx, Replica::Master, body, timeout, QueueAsk::StartOffset);
    }

    /// The question failed; it is asked again after a pause. "Unknown" is not a position.
    pub(crate) fn acquire_later(&mut self, cx: &mut Cx<'_>, pause: Duration) {
        self.enter(Stage::Acquiring(Acquire::Waiting(HoldReason::BackingOff)), cx.now);
        cx.timers.set(self.timer(QueueTimer::Acquire), cx.now + pause);
    }

    /// Whether it waits for its broker to become ready. One whose question failed waits for its pause instead: a
    /// broker that hangs up on the question would be asked again with each new connection.
    pub(crate) const fn waits_for_broker(&self) -> bool {
        matches!(
            self.stage,
            Stage::Acquiring(Acquire::Waiting(
                HoldReason::NoBrokerAddress
                    | HoldReason::LinkDown
                    | HoldReason::HeartbeatPending
                    | HoldReason::AskingOffset
            ))
        )
    }

    /// Somebody else says where it begins: what was asked is nobody's any more.
    pub(crate) fn stop_asking(&mut self, cx: &mut Cx<'_>) {
        cx.timers.cancel(self.timer(QueueTimer::Acquire));
        self.enter(
            Stage::Acquiring(Acquire::Waiting(HoldReason::AskingOffset)),
            cx.now,
        );
    }

    /// The start is known: the queue can be pulled. `stored` is what the broker has; what it has stored after
    /// `new_since` is new to us, as an earlier ownership knew.
    pub(crate) fn own(
        &mut self,
        cx: &mut Cx<'_>,
        start: QueueOffset,
        stored: Option<QueueOffset>,
        new_since: Option<WallTime>,
    ) {
        cx.timers.cancel(self.timer(QueueTimer::Acquire));
        let mut progress = if self.is_kept_here {
            Progress::kept_here(stored, cx.now)
        } else {
            Progress::new(stored, cx.now)
        };
        if self.hears_of_slave() {
            progress.doubt();
        }
        progress.inherit(self.moved.and_then(|moved| moved.carried));
        let window = if self.is_by_key() {
            Window::by_key(start)
        } else {
            Window::new(start)
        };
        let tenure = Tenure {
            window,
            pull: PullLoop::new(self.group, self.key, cx.now),
            progress,
            asked_master: false,
            was_served: false,
            seen: Seen::after(new_since),
            last_run: None,
        };
        self.enter(Stage::Owned(tenure), cx.now);
    }
}

impl Acquire {
    pub(super) const fn reason(self) -> HoldReason {
        match self {
            Self::Waiting(reason) => reason,
            Self::AskingStored { .. } => HoldReason::AskingOffset,
            Self::AskingStart => HoldReason::AskingStart,
        }
    }
}
