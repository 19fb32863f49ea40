use rocketmq_consumer_core::action::Action;
use rocketmq_consumer_core::config::ClientConfig;
use rocketmq_consumer_core::event::Event;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};

/// Listens to everything that goes into and comes out of the machine of one client.
///
/// The machine is deterministic: what [`Recorder::start`] and [`Recorder::event`] were given is
/// enough to repeat a run exactly. Called from the driver task, so an implementation should only
/// copy; every microsecond it takes is taken from the client.
pub trait Recorder: Send {
    /// The machine is about to be created from these.
    fn start(&mut self, config: &ClientConfig, seed: Seed, now: Instant, wall: WallTime);

    /// An event is about to be handled.
    fn event(&mut self, now: Instant, event: &Event);

    /// An action came out.
    fn action(&mut self, action: &Action);
}
