use crate::step::{Outbox, Rng, Timers};
use crate::time::Instant;

/// Everything a step may touch, and nothing else. Generic over the names of the timers and over the
/// actions, so that consumer and broker share the floor below them.
pub(crate) struct Cx<'a, K, A> {
    /// When the event happened.
    pub(crate) now: Instant,
    pub(crate) timers: &'a mut Timers<K>,
    pub(crate) out: &'a mut Outbox<A>,
    pub(crate) rng: &'a mut Rng,
}
