//! What runs in a process: our machine, or the model of a Java client behind the same vocabulary.

use std::sync::Arc;

use rocketmq_consumer_core::action::{Action, AppAction, NetAction, StoreAction};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, Event, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{ConsumeId, ConsumerGroup, Epoch, GroupKey, MessageQueue, QueueOffset};
use rocketmq_consumer_core::message::{Batch, OrderlyOutcome, Outcome};
use rocketmq_consumer_core::status::{GroupPhase, QueueState, Status};
use rocketmq_consumer_core::time::Instant;

use super::java::{JavaInput, JavaMember, JavaOutput};

/// Java has no runs: each message goes by a token of its own, which takes the place of the run's number.
const JAVA: GroupKey = GroupKey {
    slot: 0,
    generation: 0,
};

/// What runs in a process.
#[derive(Debug)]
pub(crate) enum Machine {
    Ours(Box<ConsumerState>),
    Java(Box<JavaMember>),
}

/// What a machine wants done or tells, whichever it is.
#[derive(Debug)]
pub(crate) enum Wish {
    Net(NetAction),
    Deliver {
        id: ConsumeId,
        batch: Arc<Batch>,
        range: RunRange,
        attempt: u32,
    },
    /// Something only our machine says.
    App(AppAction),
    Store(StoreAction),
    Assigned {
        queue: MessageQueue,
        epoch: Epoch,
        from: QueueOffset,
    },
    Revoked {
        queue: MessageQueue,
        epoch: Epoch,
        committed: Option<QueueOffset>,
    },
    Closed,
    Unknown(Box<Action>),
}

impl Machine {
    /// Ours, if it is.
    pub(crate) const fn ours(&self) -> Option<&ConsumerState> {
        match self {
            Self::Ours(machine) => Some(machine),
            Self::Java(_) => None,
        }
    }

    pub(crate) fn handle(&mut self, now: Instant, event: Event) {
        match self {
            Self::Ours(machine) => machine.handle(now, event),
            Self::Java(member) => {
                if let Some(input) = for_java(event) {
                    member.handle(now, input);
                }
            }
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Wish> {
        match self {
            Self::Ours(machine) => machine.poll_action().map(|action| match action {
                Action::Net(action) => Wish::Net(action),
                Action::App(AppAction::Consume {
                    id,
                    batch,
                    range,
                    attempt,
                }) => Wish::Deliver {
                    id,
                    batch,
                    range,
                    attempt,
                },
                Action::App(AppAction::Closed) => Wish::Closed,
                Action::App(action) => Wish::App(action),
                Action::Store(action) => Wish::Store(action),
                other => Wish::Unknown(Box::new(other)),
            }),
            Self::Java(member) => member.poll().map(|output| match output {
                JavaOutput::Net(action) => Wish::Net(action),
                JavaOutput::Deliver {
                    token,
                    message,
                    attempt,
                } => Wish::Deliver {
                    id: ConsumeId {
                        group: JAVA,
                        run: token,
                    },
                    batch: Arc::clone(message.batch()),
                    range: RunRange {
                        start: message.position(),
                        end: message.position() + 1,
                    },
                    attempt,
                },
                JavaOutput::Assigned { queue, epoch, from } => Wish::Assigned {
                    queue,
                    epoch: Epoch(epoch),
                    from,
                },
                JavaOutput::Revoked {
                    queue,
                    epoch,
                    committed,
                } => Wish::Revoked {
                    queue,
                    epoch: Epoch(epoch),
                    committed,
                },
                JavaOutput::Closed => Wish::Closed,
            }),
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Instant> {
        match self {
            Self::Ours(machine) => machine.poll_timeout().map(|wakeup| wakeup.at),
            Self::Java(member) => member.poll_timeout(),
        }
    }

    pub(crate) fn status(&self) -> Option<Status> {
        match self {
            Self::Ours(machine) => Some(machine.status()),
            Self::Java(_) => None,
        }
    }

    /// The queues a group of it owns and pulls, or would if nothing held them.
    pub(crate) fn owned(&self, group: &ConsumerGroup) -> Vec<MessageQueue> {
        match self {
            Self::Ours(machine) => {
                let groups = machine.status().groups;
                let running = groups
                    .into_iter()
                    .filter(|of| of.group == *group && of.phase == GroupPhase::Running);
                let queues = running.flat_map(|group| group.queues);
                let owned =
                    queues.filter(|queue| matches!(queue.state, QueueState::Pulling | QueueState::Held));
                owned.map(|queue| queue.queue).collect()
            }
            Self::Java(member) => member.owned().cloned().collect(),
        }
    }
}

/// What Java's client would learn of an event; `None` for what it has no ear for.
fn for_java(event: Event) -> Option<JavaInput> {
    match event {
        Event::Wakeup => Some(JavaInput::Wakeup),
        Event::Net(event) => Some(JavaInput::Net(event)),
        Event::App(AppEvent::Shutdown { .. }) => Some(JavaInput::Shutdown),
        Event::App(AppEvent::Clock(wall)) => Some(JavaInput::Clock(wall)),
        Event::App(AppEvent::Consumed { id, report, .. }) => Some(JavaInput::Handled {
            token: id.run,
            ok: [
                Verdict::Handled(Outcome::Done),
                Verdict::Ordered(OrderlyOutcome::Commit),
            ]
            .map(Report::All)
            .contains(&report),
        }),
        Event::App(_) | Event::Store(_) | _ => None,
    }
}
