use rocketmq_consumer_core::action::Action;
use rocketmq_consumer_core::event::Event;
use rocketmq_consumer_core::time::Instant;

use crate::machine::Machine;
use crate::record::Recorder;

/// The machine and who writes down what goes through it.
pub(super) struct Brain<M> {
    pub(super) machine: M,
    pub(super) recorder: Option<Box<dyn Recorder>>,
}

impl<M: Machine> Brain<M> {
    pub(super) fn handle(&mut self, now: Instant, event: impl Into<Event>) {
        let event = event.into();
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, &event);
        }
        self.machine.handle(now, event);
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        let action = self.machine.poll_action()?;
        if let Some(recorder) = &mut self.recorder {
            recorder.action(&action);
        }
        Some(action)
    }
}
