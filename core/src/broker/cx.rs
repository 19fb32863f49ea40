use alloc::vec::Vec;

use super::Timer;
use super::config::Settings;
use super::name_server::NameServers;
use super::observation::Observations;
use super::post::Post;
use super::store::TagCode;
use crate::ids::{QueueId, QueueOffset, Topic};
use crate::step::{Rng, Timers};
use crate::time::{Instant, WallTime};

/// Everything a step of a broker may touch besides its own state.
pub(super) struct Cx<'a> {
    pub(super) now: Instant,
    /// The brokers' wall clock.
    pub(super) wall: WallTime,
    pub(super) settings: &'a Settings,
    pub(super) timers: &'a mut Timers<Timer>,
    pub(super) rng: &'a mut Rng,
    pub(super) post: &'a mut Post,
    pub(super) names: &'a mut NameServers,
    pub(super) seen: &'a mut Observations,
    /// What was stored in this step; pulls that wait for it are looked at when the step ends.
    pub(super) arrivals: &'a mut Vec<Arrival>,
}

/// A message that was stored.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) broker: usize,
    pub(super) topic: Topic,
    pub(super) queue: QueueId,
    pub(super) offset: QueueOffset,
    pub(super) tag_code: TagCode,
}
