use rocketmq_consumer_core::action::Action;
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::Event;
use rocketmq_consumer_core::status::Status;
use rocketmq_consumer_core::time::Instant;

/// What the driver needs of a machine; scripted ones in tests have it too.
pub(crate) trait Machine: Send + 'static {
    /// Takes one event.
    fn handle(&mut self, now: Instant, event: Event);

    /// Gives the oldest action that was not taken yet.
    fn poll_action(&mut self) -> Option<Action>;

    /// When it wants `Event::Wakeup`.
    fn wakeup_at(&self) -> Option<Instant>;

    /// What it knows about itself.
    fn status(&self) -> Status;
}

impl Machine for ConsumerState {
    fn handle(&mut self, now: Instant, event: Event) {
        Self::handle(self, now, event);
    }

    fn poll_action(&mut self) -> Option<Action> {
        Self::poll_action(self)
    }

    fn wakeup_at(&self) -> Option<Instant> {
        self.poll_timeout().map(|wakeup| wakeup.at)
    }

    fn status(&self) -> Status {
        Self::status(self)
    }
}
