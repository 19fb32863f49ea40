use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::action::{Refusal, ShutdownReport};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::event::Verdict;
use rocketmq_consumer_core::ids::{ClientId, ConnId, ConsumeId, Epoch, MessageQueue, PeerAddr, QueueOffset};
use rocketmq_consumer_core::message::{Message, OrderlyOutcome, Outcome};
use rocketmq_consumer_core::notice::Notice;
use rocketmq_consumer_core::time::Instant;

use super::asked::Link;
use super::recorder::Recorder;

/// One message in the hands of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it was handed over.
    pub at: Instant,
    /// The queue it lies in.
    pub queue: MessageQueue,
    /// Its place there.
    pub offset: QueueOffset,
    /// How often this client delivered it before.
    pub attempt: u32,
    /// How often it was sent back.
    pub reconsume_times: u32,
    /// The topic it was sent to.
    pub topic: String,
    /// The body, as text.
    pub body: String,
    /// The tag, if it has one.
    pub tag: Option<String>,
}

impl Delivery {
    pub(super) fn of(at: Instant, message: &Message, attempt: u32) -> Self {
        let body = message.body().unwrap_or_default();
        Self {
            at,
            queue: message.batch().queue().clone(),
            offset: message.queue_offset(),
            attempt,
            reconsume_times: message.reconsume_times(),
            topic: message.topic().into_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
            tag: message.tags().map(Into::into),
        }
    }
}

/// What a handler does with a message, and how long it takes in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handling {
    pub(super) verdict: Option<Verdict>,
    pub(super) waits: Duration,
    pub(super) takes: Duration,
}

impl Handling {
    /// It ends at once, like this.
    #[must_use]
    pub const fn ends(verdict: Verdict) -> Self {
        Self {
            verdict: Some(verdict),
            waits: Duration::ZERO,
            takes: Duration::ZERO,
        }
    }

    /// Success.
    #[must_use]
    pub const fn done() -> Self {
        Self::ends(Verdict::Handled(Outcome::Done))
    }

    /// Failure.
    #[must_use]
    pub const fn retry() -> Self {
        Self::ends(Verdict::Handled(Outcome::Retry))
    }

    /// Failure for good.
    #[must_use]
    pub const fn dead_letter() -> Self {
        Self::ends(Verdict::Handled(Outcome::DeadLetter))
    }

    /// Success where messages are consumed in order.
    #[must_use]
    pub const fn commit() -> Self {
        Self::ends(Verdict::Ordered(OrderlyOutcome::Commit))
    }

    /// Failure where messages are consumed in order.
    #[must_use]
    pub const fn suspend() -> Self {
        Self::ends(Verdict::Ordered(OrderlyOutcome::Suspend))
    }

    /// It never ends.
    #[must_use]
    pub const fn never() -> Self {
        Self {
            verdict: None,
            waits: Duration::ZERO,
            takes: Duration::ZERO,
        }
    }

    /// The handler runs this long.
    #[must_use]
    pub const fn taking(mut self, takes: Duration) -> Self {
        self.takes = takes;
        self
    }

    /// The handler begins only after this time; until then the message can be withdrawn.
    #[must_use]
    pub const fn beginning_after(mut self, waits: Duration) -> Self {
        self.waits = waits;
        self
    }
}

/// Decides what becomes of messages.
pub type Handler = Box<dyn FnMut(&Delivery) -> Handling>;

/// How a member is set up.
pub struct Setup {
    pub(super) client: ClientConfig,
    pub(super) group: GroupConfig,
    pub(super) handler: Handler,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("client", &self.client)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

impl Setup {
    /// A member of the group `G` that starts at the earliest message and succeeds at once.
    pub(super) fn new(id: &str, name_servers: &[PeerAddr]) -> Self {
        let mut group = GroupConfig::new("G".into());
        group.set_start_at(StartAt::Earliest);
        Self {
            client: ClientConfig::new(id.into(), name_servers.to_vec()),
            group,
            handler: Box::new(|_| Handling::done()),
        }
    }

    /// The group, in place of `G`. Subscriptions made before are forgotten.
    pub fn group(&mut self, name: &str) -> &mut Self {
        let mut group = GroupConfig::new(name.into());
        group.set_start_at(*self.group.start_at());
        self.group = group;
        self
    }

    /// Subscribes to a topic.
    pub fn subscribe(&mut self, topic: &str, expression: &str) -> &mut Self {
        self.group.subscribe(topic.into(), expression);
        self
    }

    /// What becomes of messages.
    pub fn handler(&mut self, handler: impl FnMut(&Delivery) -> Handling + 'static) -> &mut Self {
        self.handler = Box::new(handler);
        self
    }

    /// The group's settings.
    pub const fn config(&mut self) -> &mut GroupConfig {
        &mut self.group
    }

    /// The client's settings.
    pub const fn client(&mut self) -> &mut ClientConfig {
        &mut self.client
    }
}

/// A message that is with a handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) begins_at: Instant,
    /// Tells the report that was planned from one that a withdrawal overtook.
    pub(super) token: u64,
    /// Its index among the deliveries.
    pub(super) delivery: usize,
}

/// A pull that was sent and not answered.
#[derive(Clone, Debug)]
pub(super) struct PullInFlight {
    pub(super) queue: MessageQueue,
    pub(super) epoch: Epoch,
    pub(super) at: Instant,
}

/// One process with one machine in it.
pub(super) struct Member {
    pub(super) id: ClientId,
    pub(super) life: u32,
    pub(super) alive: bool,
    pub(super) machine: Recorder,
    pub(super) group: Arc<GroupConfig>,
    pub(super) handler: Handler,
    /// Connections that are wanted, and whether they stand.
    pub(super) links: BTreeMap<ConnId, PeerAddr>,
    pub(super) open: BTreeMap<(ConsumeId, u32), Open>,
    pub(super) pulls: BTreeMap<(ConnId, i32), PullInFlight>,
    pub(super) deliveries: Vec<Delivery>,
    /// Deliveries that ended with success, and when.
    pub(super) done: Vec<(Delivery, Instant)>,
    pub(super) notices: Vec<Notice>,
    pub(super) refusals: Vec<Refusal>,
    pub(super) report: Option<ShutdownReport>,
    pub(super) closed: bool,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("id", &self.id)
            .field("life", &self.life)
            .field("alive", &self.alive)
            .finish_non_exhaustive()
    }
}

impl Member {
    pub(super) fn link(&self, conn: ConnId) -> Link {
        Link {
            member: self.id.clone(),
            life: self.life,
            conn,
        }
    }
}
