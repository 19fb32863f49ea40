use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use atomic_waker::AtomicWaker;
use futures_channel::oneshot;
use rocketmq_consumer_core::action::{CallAnswer, CallError, ShutdownReport};
use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::event::{AppEvent, Call, Report, RunRange, StoreEvent, Verdict};
use rocketmq_consumer_core::ids::ConsumeId;
use rocketmq_consumer_core::status::Status;

use crate::allocate::Allocate;
use crate::answer::Answer;
use crate::desk::Desk;
use crate::driver::change::{Change, ChangeReply};
use crate::driver::subscribing::SubscriptionChange;
use crate::error::{FilterRefusal, StartError};
use crate::notices::NoticeHub;
use crate::registry::{Registration, Ticket};
use crate::store::Store;
use crate::sync::lock;

/// What handles and handlers want of the driver.
pub(crate) enum Command {
    /// A plain event for the machine.
    App(AppEvent),
    /// What a store has answered.
    Store(StoreEvent),
    /// Start a group.
    Start(Box<StartGroup>),
    /// Stop a group; the report is empty when it has ended before.
    Stop {
        who: Ticket,
        drain: Duration,
        reply: Option<oneshot::Sender<ShutdownReport>>,
    },
    /// Change how many handler calls of a group may run at once.
    Concurrency { who: Ticket, permits: u32 },
    /// Change something of a group that runs; the reply tells whether it was refused.
    Change {
        who: Ticket,
        change: Change,
        reply: ChangeReply,
    },
    /// Tell when the group's first assignment is being pulled.
    AwaitReady {
        who: Ticket,
        reply: oneshot::Sender<Result<(), FilterRefusal>>,
    },
    /// Change what a group subscribes to.
    Subscribe { who: Ticket, change: SubscriptionChange },
    /// Ask a peer; the driver chooses the id.
    Call {
        call: Box<Call>,
        reply: oneshot::Sender<Result<CallAnswer, CallError>>,
    },
    /// Take a snapshot.
    Status { reply: oneshot::Sender<Status> },
    /// Stop everything.
    Shutdown {
        drain: Duration,
        reply: Option<oneshot::Sender<()>>,
    },
}

/// A group and everything it lives with.
pub(crate) struct StartGroup {
    /// Its checked settings.
    pub(crate) config: Arc<GroupConfig>,
    /// The application's own allocation strategy, if it has one.
    pub(crate) allocate: Option<Arc<dyn Allocate>>,
    /// Where it keeps its offsets, if it broadcasts.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// Where its messages go.
    pub(crate) desk: Box<dyn Desk>,
    /// Where its notices go.
    pub(crate) notices: Arc<NoticeHub>,
    /// Its name in the process, held while it lives.
    pub(crate) registration: Registration,
    /// Told once, when it runs or cannot.
    pub(crate) reply: oneshot::Sender<Result<(), StartError>>,
}

/// One settled range of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settled {
    pub(crate) id: ConsumeId,
    pub(crate) range: RunRange,
    pub(crate) report: Report,
}

impl Settled {
    /// The same verdict for all of `range`.
    pub(crate) const fn all(id: ConsumeId, range: RunRange, verdict: Verdict) -> Self {
        Self {
            id,
            range,
            report: Report::All(verdict),
        }
    }

    /// One message that is to come again because nobody has answered.
    pub(crate) fn again<A: Answer>(id: ConsumeId, position: u32) -> Self {
        let range = RunRange {
            start: position,
            end: position + 1,
        };
        Self::all(id, range, A::AGAIN.verdict())
    }

    /// Takes `next` in if it continues this range with the same verdict.
    pub(crate) fn merge(&mut self, next: &Self) -> bool {
        let same = matches!((&self.report, &next.report), (Report::All(a), Report::All(b)) if a == b);
        let joins = same && self.id == next.id && self.range.end == next.range.start;
        if joins {
            self.range.end = next.range.end;
        }
        joins
    }
}

/// The way from everywhere into the driver task. Bounded by what the machine hands out (reports) and
/// by how many callers wait (everything else).
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    commands: VecDeque<Command>,
    closed: bool,
}

impl Inbox {
    /// Appends a command. Gives it up when the driver has ended: its reply channel closes with it.
    pub(crate) fn push(&self, command: Command) {
        self.extend(|queue| queue.push_back(command));
    }

    /// Appends reports; neighbours with the same verdict become one.
    pub(crate) fn report(&self, settled: impl IntoIterator<Item = Settled>) {
        self.extend(|queue| {
            for next in settled {
                push_merged(queue, next);
            }
        });
    }

    /// Reports what no handler had begun of a run.
    pub(crate) fn not_started(&self, id: ConsumeId, ranges: Vec<RunRange>) {
        let settled = |range| Settled::all(id, range, Verdict::NotStarted);
        self.report(ranges.into_iter().map(settled));
    }

    fn extend(&self, append: impl FnOnce(&mut VecDeque<Command>)) {
        let wake = {
            let mut queue = lock(&self.queue);
            if queue.closed {
                return;
            }
            let was_empty = queue.commands.is_empty();
            append(&mut queue.commands);
            was_empty && !queue.commands.is_empty()
        };
        // Who found it filled need not wake: the one who filled it did, and nothing was taken since.
        if wake {
            self.waker.wake();
        }
    }

    /// Swaps everything that waits into `empty`.
    pub(crate) fn take(&self, empty: &mut VecDeque<Command>) {
        debug_assert!(
            empty.is_empty(),
            "the driver takes anew when it has done everything"
        );
        std::mem::swap(&mut lock(&self.queue).commands, empty);
    }

    /// Whom to wake. Call before [`Self::take`], or a command may come unseen between the two.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Takes nothing any more and drops what waits.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut queue = lock(&self.queue);
            queue.closed = true;
            std::mem::take(&mut queue.commands)
        };
        // Outside of the lock: dropping a desk or a reply may wake whoever calls us next.
        drop(dropped);
    }
}

fn push_merged(queue: &mut VecDeque<Command>, next: Settled) {
    if let Some(Command::App(AppEvent::Consumed {
        id,
        range,
        report: Report::All(verdict),
    })) = queue.back_mut()
    {
        let mut last = Settled::all(*id, *range, *verdict);
        if last.merge(&next) {
            *range = last.range;
            return;
        }
    }
    let Settled { id, range, report } = next;
    queue.push_back(Command::App(AppEvent::Consumed { id, range, report }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{consume_id, reports, settled};
    use rocketmq_consumer_core::message::Outcome::{Done, Retry};

    #[test]
    fn neighbouring_equal_outcomes_become_one_report() {
        let inbox = Inbox::default();
        inbox.report([
            settled(1, 0..1, Done),
            settled(1, 1..2, Done),
            settled(1, 2..3, Retry),
        ]);
        inbox.report([
            settled(1, 3..4, Retry),
            settled(2, 4..5, Retry),
            settled(2, 6..7, Retry),
        ]);
        let want = [
            settled(1, 0..2, Done),
            settled(1, 2..4, Retry),
            settled(2, 4..5, Retry),
            settled(2, 6..7, Retry),
        ];
        assert_eq!(reports(&inbox), want);
    }

    #[test]
    fn a_closed_inbox_ends_the_wait_of_everyone_who_asked() {
        let inbox = Inbox::default();
        let (reply, before) = oneshot::channel();
        inbox.push(Command::Status { reply });
        inbox.close();
        let (reply, after) = oneshot::channel();
        inbox.push(Command::Status { reply });
        for mut asked in [before, after] {
            assert_eq!(
                asked.try_recv().map(|status| status.is_some()),
                Err(oneshot::Canceled)
            );
        }
        inbox.report([Settled::all(
            consume_id(1),
            RunRange { start: 0, end: 1 },
            Verdict::NotStarted,
        )]);
        assert_eq!(reports(&inbox), []);
    }
}
