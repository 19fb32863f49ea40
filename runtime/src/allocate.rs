use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rocketmq_consumer_core::action::AllocateQuestion;
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::{ClientId, MessageQueue, Topic};

use crate::driver::{Command, Inbox};
use crate::runtime::Runtime;

/// An allocation strategy of the application; closures of this form are such. See
/// [`ConsumerBuilder::allocate_with`](crate::ConsumerBuilder::allocate_with).
pub trait Allocate: Send + Sync + 'static {
    /// The queues of `topic` that the member `own` takes.
    ///
    /// `queues` and `members` are sorted and the same for every member; `own` is among the members, several
    /// times if the broker lists it so. Members must come to shares that do not overlap and leave nothing out,
    /// each alone. The retry topic of the group (`%RETRY%…`) is shared in the same way.
    fn allocate(
        &self,
        topic: &Topic,
        queues: &[MessageQueue],
        members: &[ClientId],
        own: &ClientId,
    ) -> Vec<MessageQueue>;
}

impl<F> Allocate for F
where
    F: Fn(&Topic, &[MessageQueue], &[ClientId], &ClientId) -> Vec<MessageQueue> + Send + Sync + 'static,
{
    fn allocate(
        &self,
        topic: &Topic,
        queues: &[MessageQueue],
        members: &[ClientId],
        own: &ClientId,
    ) -> Vec<MessageQueue> {
        self(topic, queues, members, own)
    }
}

/// Asks the application on a thread that may block: the driver waits for nobody, and the machine has a
/// deadline. A panic is an answer too.
pub(crate) fn ask<R: Runtime>(
    runtime: &R,
    inbox: &Arc<Inbox>,
    strategy: Option<&Arc<dyn Allocate>>,
    question: Box<AllocateQuestion>,
) {
    let Some(strategy) = strategy.map(Arc::clone) else {
        let why = format!("no function is known for the strategy {:?}", question.strategy);
        return answer(inbox, &question, Err(why.into()));
    };
    let inbox = Arc::clone(inbox);
    runtime.spawn_blocking(move || {
        let AllocateQuestion {
            topic,
            queues,
            members,
            own,
            ..
        } = &*question;
        // What a panic leaves behind in the function is the function's; nothing of ours is touched.
        let share = catch_unwind(AssertUnwindSafe(|| {
            strategy.allocate(topic, queues, members, own)
        }));
        let share = share
            .map(Vec::into_boxed_slice)
            .map_err(|_| "the function panicked".into());
        answer(&inbox, &question, share);
    });
}

fn answer(inbox: &Inbox, question: &AllocateQuestion, share: Result<Box<[MessageQueue]>, Box<str>>) {
    inbox.push(Command::App(AppEvent::Allocated {
        id: question.id,
        share,
    }));
}
