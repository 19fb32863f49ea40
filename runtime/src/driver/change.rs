use futures_channel::oneshot;
use rocketmq_consumer_core::action::RefusalReason;
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::ConsumerGroup;
use rocketmq_consumer_core::time::Instant;

use super::Driver;
use crate::machine::Machine;
use crate::registry::Ticket;
use crate::runtime::Runtime;

/// An event about a group, by the name it has.
pub(crate) type Change = Box<dyn FnOnce(ConsumerGroup) -> AppEvent + Send>;

/// Who wants to know what became of a change.
pub(crate) type ChangeReply = oneshot::Sender<Result<(), RefusalReason>>;

impl<R: Runtime, M: Machine> Driver<R, M> {
    /// Brings the machine a change of a group. It refuses within the event or not at all. Without such a group the
    /// reply is dropped, which tells as much.
    pub(super) fn change(&mut self, now: Instant, who: Ticket, change: Change, reply: ChangeReply) {
        let Some(group) = self.groups.by_ticket(who).map(|group| group.name().clone()) else {
            return;
        };
        // A refusal that waits already is another's.
        self.act();
        self.changing = Some(reply);
        self.brain.handle(now, change(group));
        self.act();
        if let Some(reply) = self.changing.take() {
            let _gone = reply.send(Ok(()));
        }
    }
}
