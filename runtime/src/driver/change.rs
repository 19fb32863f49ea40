use futures_channel::oneshot;
use rocketmq_consumer_core::action::RefusalReason;
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::ConsumerGroup;
use rocketmq_consumer_core::time::Instant;

use super::{Driver, SubscriptionChange};
use crate::machine::Machine;
use crate::registry::Ticket;
use crate::runtime::Runtime;

/// An event about a group, by the name it has.
pub(crate) type Change = Box<dyn FnOnce(ConsumerGroup) -> AppEvent + Send>;

/// Who wants to know what became of a change.
pub(crate) type ChangeReply = oneshot::Sender<Result<(), RefusalReason>>;

impl<R: Runtime, M: Machine> Driver<R, M> {
    /// Brings the machine a change of a group. Without such a group the reply is dropped, which tells as much.
    pub(super) fn change(&mut self, now: Instant, who: Ticket, change: Change, reply: ChangeReply) {
        let Some(group) = self.groups.by_ticket(who).map(|group| group.name().clone()) else {
            return;
        };
        let _gone = reply.send(self.put(now, change(group)));
    }

    /// The same for its subscriptions: what is taken is in force later, and told by a notice.
    pub(super) fn subscribe(&mut self, now: Instant, who: Ticket, change: SubscriptionChange) {
        let Some(changing) = self.groups.by_ticket(who) else {
            return;
        };
        let (group, topic) = (changing.name().clone(), change.topic.clone());
        let event = match change.filter.clone() {
            Some(filter) => AppEvent::Subscribe { group, topic, filter },
            None => AppEvent::Unsubscribe { group, topic },
        };
        changing.changes.ask(change);
        let taken = self.put(now, event);
        let Some(changing) = self.groups.by_ticket(who) else {
            return;
        };
        match taken {
            Ok(()) => changing.changes.taken(),
            Err(why) => changing.changes.refused(why),
        }
    }

    /// The machine refuses a change within its event or not at all, and a refusal names no topic and no asker: what is
    /// refused meanwhile is this one.
    fn put(&mut self, now: Instant, event: AppEvent) -> Result<(), RefusalReason> {
        // A refusal that waits already is another's.
        self.act();
        self.putting = Some(Ok(()));
        self.brain.handle(now, event);
        self.act();
        self.putting.take().unwrap_or(Ok(()))
    }
}
