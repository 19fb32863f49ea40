//! How a machine steps: named timers, an outbox, a private random generator, and the context that a
//! step may touch. Knows neither consumer nor broker.

mod cx;
mod outbox;
mod rng;
mod slab;
mod timers;

pub(crate) use cx::Cx;
pub(crate) use outbox::Outbox;
pub(crate) use rng::Rng;
pub(crate) use slab::Slab;
pub(crate) use timers::Timers;

pub use machine::Machine;
pub use rng::Seed;

mod machine {
    use crate::time::Instant;

    /// What every pure machine of this crate looks like from outside.
    ///
    /// One way in, one way out, one wake-up. The contract, tested as properties: the same
    /// construction and the same list of `(Instant, Event)` give the same actions; draining late
    /// changes nothing; `now` going backwards is clamped; after a wake-up at `t`, `poll_timeout` lies
    /// after `t`.
    pub trait Machine {
        /// What happens to the machine.
        type Event;
        /// What the machine wants done.
        type Action;
        /// When it wants to be woken.
        type Wakeup;

        /// Takes one event. Total: there is no event it cannot take in any state.
        fn handle(&mut self, now: Instant, event: Self::Event);

        /// Takes the oldest action that was not taken yet.
        fn poll_action(&mut self) -> Option<Self::Action>;

        /// The earliest deadline, if any.
        fn poll_timeout(&self) -> Option<Self::Wakeup>;
    }
}
