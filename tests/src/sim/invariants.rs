//! What must hold in every simulated world: one rule a file.
//!
//! Each rule says in its own page what it demands, where that comes from, and what is legal all the same. Its
//! tests feed it with what breaks it, and see it fail, and with what is legal. Rules about Java-like members are
//! few: what they are for is to be unlike us.
//!
//! Rules see what a world shows ([`seen`](super::seen)), read who owns what in the one book that the world keeps
//! ([`tenures`](super::tenures)), and keep accounts of their own. A rule names the kinds of things it looks at, is shown
//! nothing else, and costs a few look-ups for each; a snapshot of a machine is taken only where its page says so.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a rule looks at the few deeds that concern it, and a new kind of deed concerns none of them"
)]

mod at_least_once;
mod bounded_memory;
mod broadcast_gets_all;
mod commit_never_passes_unfinished;
mod commit_never_regresses_within_an_epoch;
mod each_request_ends_once;
mod every_owned_queue_moves;
mod flow_limits;
mod java_timing;
mod no_busy_loop;
mod no_commit_after_stale_epoch;
mod no_commit_reaches_a_slave;
mod no_delivery_after_epoch_ended;
mod no_delivery_without_lock;
mod no_inversion;
mod no_pull_before_heartbeat;
mod one_outcome_per_message_and_attempt;
mod one_pull_per_epoch;
mod paused_means_paused;
mod rate_is_kept;
mod repair_never_fires;
mod reset_is_obeyed;
mod shutdown_ends_in_time;
mod single_owner;
mod unlock_after_commit_and_handlers;

#[cfg(test)]
pub(in crate::sim) mod bench;
pub(in crate::sim) mod leases;
pub(in crate::sim) mod obstacles;
mod orderly;
pub(in crate::sim) mod requests;

use std::cell::RefCell;
use std::rc::Rc;

use super::invariant::Invariant;
use super::model::RefConsumer;

/// Every rule, and the reference model, for one world.
#[must_use]
pub fn all() -> Vec<Box<dyn Invariant>> {
    let model = Rc::<RefCell<RefConsumer>>::default();
    vec![
        Box::new(Rc::clone(&model)),
        Box::new(flow_limits::FlowLimits::new(model)),
        Box::new(commit_never_passes_unfinished::CommitNeverPassesUnfinished::default()),
        Box::new(commit_never_regresses_within_an_epoch::CommitNeverRegresses::default()),
        Box::new(no_commit_after_stale_epoch::NoCommitAfterStaleEpoch::default()),
        Box::new(no_commit_reaches_a_slave::NoCommitReachesASlave),
        Box::new(no_delivery_after_epoch_ended::NoDeliveryAfterEpochEnded),
        Box::new(one_pull_per_epoch::OnePullPerEpoch::default()),
        Box::new(no_pull_before_heartbeat::NoPullBeforeHeartbeat::default()),
        Box::new(one_outcome_per_message_and_attempt::OneOutcomePerMessageAndAttempt::default()),
        Box::new(each_request_ends_once::EachRequestEndsOnce::new()),
        Box::new(no_busy_loop::NoBusyLoop::default()),
        Box::new(bounded_memory::BoundedMemory::default()),
        Box::new(every_owned_queue_moves::EveryOwnedQueueMoves::default()),
        Box::new(repair_never_fires::RepairNeverFires::default()),
        Box::new(shutdown_ends_in_time::ShutdownEndsInTime::default()),
        Box::new(java_timing::JavaTiming::default()),
        Box::new(no_delivery_without_lock::NoDeliveryWithoutLock::default()),
        Box::new(no_inversion::NoInversion::default()),
        Box::new(unlock_after_commit_and_handlers::UnlockAfterCommitAndHandlers::default()),
        Box::new(paused_means_paused::PausedMeansPaused::default()),
        Box::new(rate_is_kept::RateIsKept::default()),
        Box::new(reset_is_obeyed::ResetIsObeyed::default()),
        Box::new(broadcast_gets_all::BroadcastGetsAll::default()),
        Box::new(at_least_once::AtLeastOnce::default()),
        Box::new(single_owner::SingleOwner),
    ]
}
