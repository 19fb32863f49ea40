//! What must hold whatever happens: one rule, fed with everything that is seen.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup, MessageQueue, PeerAddr, QueueOffset};
use rocketmq_consumer_core::status::Status;
use rocketmq_consumer_core::time::Instant;

use super::seen::{GroupNo, Life, NodeNo, QueueNo, Seen, Sights};
use super::tenures::Tenures;

/// One rule.
///
/// It is shown every [`Seen`] of the kinds it looks at, so an answer takes constant or logarithmic time and no text is
/// made unless the rule is broken. It learns nothing but what is shown and what [`View`] tells.
pub trait Invariant {
    /// Its name, as a report of a violation has it: `commit_never_passes_unfinished`.
    fn name(&self) -> &'static str;

    /// What it has to be shown; asked once, when a world begins.
    fn looks_at(&self) -> Sights {
        Sights::ALL
    }

    /// Takes one thing that was seen.
    ///
    /// # Errors
    /// When it breaks the rule.
    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken>;

    /// The world has had its time to come to rest after everything was mended; every member still runs.
    ///
    /// # Errors
    /// When something has not come about that must have by now.
    fn at_rest(&mut self, _now: Instant, _view: &dyn View) -> Result<(), Broken> {
        Ok(())
    }

    /// All members have left and the world is over.
    ///
    /// # Errors
    /// When something is left that must not be.
    fn at_end(&mut self, _now: Instant, _view: &dyn View) -> Result<(), Broken> {
        Ok(())
    }
}

/// A rule whose account another rule reads.
impl<I: Invariant> Invariant for Rc<RefCell<I>> {
    fn name(&self) -> &'static str {
        self.borrow().name()
    }

    fn looks_at(&self) -> Sights {
        self.borrow().looks_at()
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        self.borrow_mut().see(seen, view)
    }

    fn at_rest(&mut self, now: Instant, view: &dyn View) -> Result<(), Broken> {
        self.borrow_mut().at_rest(now, view)
    }

    fn at_end(&mut self, now: Instant, view: &dyn View) -> Result<(), Broken> {
        self.borrow_mut().at_end(now, view)
    }
}

/// A broken rule, in words that name the member, the queue and the offsets concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What can be looked up about the world. The first few cost nothing; [`View::status`] takes a snapshot of a
/// whole machine and belongs into rare moments.
pub trait View {
    /// The name of a queue.
    fn queue(&self, queue: QueueNo) -> &MessageQueue;

    /// The name of a group.
    fn group(&self, group: GroupNo) -> &ConsumerGroup;

    /// The settings of a member of ours; for a Java-like one, those it was made from.
    fn config(&self, life: Life) -> &GroupConfig;

    /// Who lives and owns what.
    fn tenures(&self) -> &Tenures;

    /// Whether messages of this queue are meant for the group: its topic is subscribed to, or it is its own
    /// retry topic.
    fn is_wanted(&self, group: GroupNo, queue: QueueNo) -> bool;

    /// Which message a stored one goes back to: the number of the first copy, from 0. `None` when nothing is
    /// stored there.
    fn origin(&self, queue: QueueNo, offset: QueueOffset) -> Option<u32>;

    /// Whether a member of the group subscribes to this message: topic and tag.
    fn wants(&self, group: GroupNo, origin: u32) -> bool;

    /// Lives that have begun and neither closed nor been killed, in order.
    fn alive(&self) -> &[Life];

    /// Every queue of every topic that a group can consume now, its retry topic included; in order.
    fn queues_of(&self, group: GroupNo) -> Vec<QueueNo>;

    /// What the master of the queue's broker has stored as progress.
    fn committed(&self, group: GroupNo, queue: QueueNo) -> Option<QueueOffset>;

    /// The next offset to be written.
    fn max_offset(&self, queue: QueueNo) -> QueueOffset;

    /// Which replica of its broker a node is: 0 is the master. `None` for a name server.
    fn replica(&self, node: NodeNo) -> Option<i64>;

    /// The broker that has a replica at an address.
    fn broker_at(&self, addr: &PeerAddr) -> Option<&BrokerName>;

    /// What a machine says of itself and of the group of this life; `None` for Java-like members and for the dead.
    fn status(&self, life: Life) -> Option<Status>;

    /// What in this world makes rules weaker.
    fn allowances(&self) -> Allowances;
}

/// What may be demanded less of a world because of how it is set up or of what was done to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowances {
    /// Two processes used one client id at some time: neither knows which share is its own, so after healing
    /// a queue may be owned twice (never by nobody).
    pub equal_client_ids: bool,
    /// Members of a group subscribe differently: the broker keeps the newest subscription only, so messages
    /// may be skipped and queues of a topic may belong to nobody.
    pub different_subscriptions: bool,
    /// A Java-like member took part: it may commit and send back for an ownership that has ended, and
    /// duplicates are its right.
    pub java_members: bool,
    /// A broker died and forgot commits: progress at the broker may fall.
    pub offsets_lost: bool,
}
