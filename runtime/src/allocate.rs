use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use rocketmq_consumer_core::action::AllocateQuestion;
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::{ClientId, MessageQueue, Topic};

use crate::driver::{Command, Inbox};
use crate::runtime::Runtime;
use crate::sync::lock;

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

/// The function of a group, and what it has been asked and has not answered.
///
/// A question holds a thread until it is answered, and after its deadline the machine asks again. So there is one
/// for each topic at most: a function that hangs would take every thread that may block, those of handlers and
/// of name look-ups too.
#[derive(Clone)]
pub(crate) struct Strategy {
    function: Arc<dyn Allocate>,
    busy: Arc<Mutex<BTreeSet<Topic>>>,
}

impl Strategy {
    pub(crate) fn new(function: Arc<dyn Allocate>) -> Self {
        Self {
            function,
            busy: Arc::default(),
        }
    }
}

/// Asks the application on a thread that may block: the driver waits for nobody, and the machine has a
/// deadline. A panic is an answer too.
pub(crate) fn ask<R: Runtime>(
    runtime: &R,
    inbox: &Arc<Inbox>,
    strategy: Option<&Strategy>,
    question: Box<AllocateQuestion>,
) {
    let Some(Strategy { function, busy }) = strategy.cloned() else {
        let why = format!("no function is known for the strategy {:?}", question.strategy);
        return answer(inbox, &question, Err(why.into()));
    };
    if !lock(&busy).insert(question.topic.clone()) {
        let why = "the function is still busy with an earlier question";
        return answer(inbox, &question, Err(why.into()));
    }
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
            function.allocate(topic, queues, members, own)
        }));
        lock(&busy).remove(topic);
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

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::action::{Action, AppAction};
    use rocketmq_consumer_core::event::Event;
    use rocketmq_consumer_core::ids::{AllocateId, QueueId};

    use super::*;
    use crate::testing::{Script, TestRuntime, consume_id};
    use crate::{AllocateStrategy, Client, Consumer, ConsumerBuilder, StartError};

    fn queue(id: i32) -> MessageQueue {
        MessageQueue {
            topic: "orders".into(),
            broker: "a".into(),
            id: QueueId(id),
        }
    }

    fn question(serial: u64) -> Action {
        let group = consume_id(1).group;
        let question = AllocateQuestion {
            id: AllocateId { group, serial },
            strategy: "last".into(),
            topic: "orders".into(),
            queues: [queue(0), queue(1)].into(),
            members: ["a".into(), "b".into()].into(),
            own: "b".into(),
        };
        AppAction::Allocate(Box::new(question)).into()
    }

    /// A client whose machine asks for a share as soon as a group has started, and when it has a new concurrency.
    fn client(id: &str) -> (Client<TestRuntime>, Script) {
        let script = Script::default();
        script.on_event(|event| match event {
            Event::App(AppEvent::StartGroup(config)) => {
                let group = config.group().clone();
                let key = consume_id(1).group;
                let started = AppAction::GroupStarted { group, key };
                vec![started.into(), question(7)]
            }
            Event::App(AppEvent::Concurrency { permits, .. }) => vec![question(u64::from(*permits))],
            Event::App(AppEvent::Shutdown { .. }) => vec![AppAction::Closed.into()],
            _ => Vec::<Action>::new(),
        });
        let client = Client::carry(TestRuntime::default(), id.into(), script.clone(), None, 1 << 20);
        (client, script)
    }

    fn builder(client: &Client<TestRuntime>) -> ConsumerBuilder<TestRuntime> {
        Consumer::builder("billing")
            .client(client)
            .subscribe("orders", "*")
    }

    /// What the machine is told.
    async fn answer(script: &Script) -> (u64, Result<Box<[MessageQueue]>, Box<str>>) {
        loop {
            if let Event::App(AppEvent::Allocated { id, share }) = script.event().await {
                return (id.serial, share);
            }
        }
    }

    #[tokio::test]
    async fn a_function_is_asked_beside_the_driver_and_its_answer_reaches_the_machine() {
        let (client, script) = client("own");
        let driver = std::thread::current().id();
        let consumer = builder(&client)
            .allocate_with(
                "last",
                move |topic: &Topic, queues: &[MessageQueue], members: &[ClientId], own: &ClientId| {
                    assert_ne!(std::thread::current().id(), driver, "it may block");
                    assert_eq!((topic.as_str(), members.len(), own.as_str()), ("orders", 2, "b"));
                    queues.iter().rev().take(1).cloned().collect()
                },
            )
            .start(|_| async {})
            .await
            .unwrap();
        assert_eq!(answer(&script).await, (7, Ok([queue(1)].into())));
        drop(consumer);
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let (client, script) = client("panics");
        let consumer = builder(&client)
            .allocate_with(
                "last",
                |_: &Topic, _: &[MessageQueue], _: &[ClientId], _: &ClientId| panic!("on purpose"),
            )
            .start(|_| async {})
            .await
            .unwrap();
        assert_eq!(answer(&script).await, (7, Err("the function panicked".into())));
        drop(consumer);
    }

    #[tokio::test]
    async fn a_function_that_hangs_holds_one_thread() {
        let (client, script) = client("hangs");
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let consumer = builder(&client)
            .allocate_with(
                "last",
                move |_: &Topic, queues: &[MessageQueue], _: &[ClientId], _: &ClientId| {
                    lock(&wait).recv().expect("the test lets it go");
                    queues.to_vec()
                },
            )
            .start(|_| async {})
            .await
            .unwrap();
        for serial in [8, 9] {
            consumer.set_concurrency(serial);
            let busy = Err("the function is still busy with an earlier question".into());
            assert_eq!(answer(&script).await, (u64::from(serial), busy));
        }
        for serial in [7, 10] {
            release.send(()).unwrap();
            assert_eq!(answer(&script).await, (serial, Ok([queue(0), queue(1)].into())));
            consumer.set_concurrency(10);
        }
        release.send(()).unwrap();
        drop(consumer);
    }

    #[tokio::test]
    async fn a_question_that_nobody_can_answer_is_answered() {
        let (client, script) = client("nobody");
        let consumer = builder(&client).start(|_| async {}).await.unwrap();
        let (_, share) = answer(&script).await;
        assert_eq!(
            share,
            Err("no function is known for the strategy \"last\"".into())
        );
        drop(consumer);
    }

    #[tokio::test]
    async fn an_own_strategy_without_its_function_does_not_start() {
        let (client, _script) = client("missing");
        let none = |_: &Topic, _: &[MessageQueue], _: &[ClientId], _: &ClientId| Vec::new();
        let own = |name: &str| AllocateStrategy::Own(name.into());
        for builder in [
            builder(&client).strategy(own("last")),
            builder(&client)
                .allocate_with("first", none)
                .strategy(own("last")),
            builder(&client).strategy(AllocateStrategy::ConsistentHash { virtual_nodes: 0 }),
        ] {
            let refused = builder.start(|_| async {}).await;
            let key = match refused {
                Err(StartError::Config(error)) => error.key,
                other => panic!("{other:?}"),
            };
            assert_eq!(key, "strategy");
        }
        // The last word counts.
        let replaced = builder(&client)
            .allocate_with("first", none)
            .strategy(AllocateStrategy::Circle);
        assert!(replaced.start(|_| async {}).await.is_ok());
    }
}
