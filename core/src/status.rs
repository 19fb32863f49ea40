//! A snapshot for operators: for every queue its state, the reason it does not move, and since when.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::Serialize;

use crate::action::CallError;
use crate::config::FilterExpression;
use crate::event::NetCause;
use crate::ids::{BrokerName, ClientId, ConsumerGroup, Epoch, MessageQueue, PeerAddr, QueueOffset, Topic};
use crate::rate::Rate;
use crate::time::Instant;

/// Everything one client instance knows about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// When the snapshot was taken.
    pub at: Instant,
    /// This member.
    pub client_id: ClientId,
    /// Links to name servers and brokers.
    pub links: Vec<LinkStatus>,
    /// Topics whose route is asked for.
    pub topics: Vec<TopicStatus>,
    /// Consumer groups.
    pub groups: Vec<GroupStatus>,
    /// Counters of things that were ignored on purpose.
    pub counters: Counters,
    /// Timers that are armed: some for each queue, link, topic and request, whatever has happened before.
    pub timers: usize,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkStatus {
    /// The peer.
    pub addr: PeerAddr,
    /// Whether it stands.
    pub state: LinkState,
    /// Since when.
    pub since: Instant,
    /// Requests written or waiting to be.
    pub requests: usize,
    /// Failed attempts to connect in a row.
    pub failed_dials: u32,
    /// What went wrong last, until it works again.
    pub trouble: Option<LinkTrouble>,
    /// Whether the peer acknowledged a heartbeat on this connection.
    pub heartbeat_acknowledged: bool,
}

/// Whether a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum LinkState {
    /// Nothing wants it.
    Idle,
    /// Its name is being looked up or it is being connected.
    Connecting,
    /// It stands.
    Up,
    /// It waits for the next attempt.
    BackingOff,
}

/// Why a link does not stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum LinkTrouble {
    /// The driver's reason.
    Net(NetCause),
    /// A request passed its deadline and no byte came since it was sent.
    Silent,
    /// Requests to it are not answered in time.
    NoAnswer,
    /// It sent what no peer may send.
    Misbehaved,
    /// It goes away and wants to be asked on another connection.
    GoneAway,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopicStatus {
    /// Its name.
    pub topic: Topic,
    /// Readable queues, if a route is known.
    pub queues: Option<usize>,
    /// What each name server said that did not know it.
    pub refusals: Vec<(PeerAddr, String)>,
    /// Brokers that an earlier route named and the current one does not: they are down, or the topic
    /// was taken from them. Their queues belong to nobody until they are named again.
    pub lost_brokers: Vec<BrokerName>,
}

/// One consumer group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupStatus {
    /// Its name.
    pub group: ConsumerGroup,
    /// Where it is in its life.
    pub phase: GroupPhase,
    /// The members, as the last list named them.
    pub members: Vec<ClientId>,
    /// What it subscribes to, the retry topic included.
    pub subscriptions: Vec<SubscriptionStatus>,
    /// The queues that are owned, being acquired or being given back.
    pub queues: Vec<QueueStatus>,
    /// Handler calls that may run at once, and how many do.
    pub permits: (u32, u32),
    /// Handlers past their deadline that have not ended.
    pub past_deadline: u32,
    /// Bytes of pull answers held.
    pub buffer_bytes: u64,
    /// Messages settled since the start.
    pub finished: u64,
    /// Failed messages among them: taken back by a broker, or stored as a copy.
    pub retried: u64,
    /// Failed messages that were dropped, because the group broadcasts.
    pub dropped: u64,
    /// Where the group keeps its offsets if it does so itself, because it broadcasts.
    pub store: Option<StoreStatus>,
    /// Failed messages that are being sent back or wait for that.
    pub retrying: u32,
    /// When the oldest run that is not reported was handed out.
    pub oldest_delivery: Option<Instant>,
    /// Messages that are not finished, over all queues, as far as their brokers have told: those that are
    /// here and those that are still there.
    pub lag: u64,
    /// What is paused, and how fast messages may be handed out.
    pub flow: FlowStatus,
}

/// What of a group is paused, and how fast its messages may be handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowStatus {
    /// Whether the group as a whole is paused.
    pub paused: bool,
    /// Topics that are paused, whether they are consumed or not.
    pub paused_topics: Vec<Topic>,
    /// Queues that are paused, whether they are ours or not.
    pub paused_queues: Vec<MessageQueue>,
    /// How fast messages of the group may be handed out.
    pub rate_limit: Option<Rate>,
    /// How fast those of single topics may be.
    pub topic_rate_limits: Vec<(Topic, Rate)>,
    /// Until when messages wait that would be handed out but for these rates.
    pub waits_until: Option<Instant>,
}

/// What was paused that holds a queue; of several the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum PauseScope {
    /// The whole group.
    Group,
    /// Its topic.
    Topic,
    /// The queue itself.
    Queue,
}

/// What a group that broadcasts keeps of its offsets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreStatus {
    /// Where they live, in words for people.
    pub place: String,
    /// Whether something has changed that is not stored yet.
    pub behind: bool,
    /// Failed attempts to store them in a row.
    pub failures: u32,
    /// Why the last attempt failed, until one works.
    pub trouble: Option<String>,
}

/// What a group wants of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubscriptionStatus {
    /// The topic.
    pub topic: Topic,
    /// Which of its messages.
    pub filter: FilterExpression,
    /// How far it is. A topic whose filter is being changed is here twice while a broker is asked about the new one.
    pub state: SubscriptionState,
}

/// How far a subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum SubscriptionState {
    /// A broker is being asked whether it takes the filter; nothing is consumed by it before.
    Checking,
    /// A broker does not take the filter, so the group does not join; it is asked again every 30 s.
    Refused,
    /// Brokers are being told, and what was fetched by the former filter is being finished.
    Changing,
    /// Nothing is in its way.
    InForce,
    /// It is being given back.
    Leaving,
}

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum GroupPhase {
    /// Consuming, or trying to.
    Running,
    /// No new deliveries; running handlers may finish.
    Draining,
    /// Offsets are being committed for the last time.
    Committing,
    /// The brokers are being told.
    Leaving,
    /// Gone.
    Stopped,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueStatus {
    /// Its name.
    pub queue: MessageQueue,
    /// The ownership.
    pub epoch: Epoch,
    /// What it does.
    pub state: QueueState,
    /// Why it does not move, if it does not.
    pub hold: Option<HoldReason>,
    /// Since when it is in this state or held for this reason.
    pub since: Instant,
    /// The next offset to fetch, once known.
    pub next_offset: Option<QueueOffset>,
    /// The lowest unfinished offset, once known.
    pub lowest_unfinished: Option<QueueOffset>,
    /// What the broker acknowledged last.
    pub committed: Option<QueueOffset>,
    /// The next offset to be written there, as the last answer told.
    pub max_offset: Option<QueueOffset>,
    /// Unfinished messages.
    pub unfinished: u32,
    /// Their body bytes as stored.
    pub bytes: u64,
    /// Those of them that handlers have.
    pub delivered: u32,
    /// Those of them that have failed and are being sent back or wait for that.
    pub retrying: u32,
    /// How often its lowest unfinished message was delivered again here.
    pub attempt: u32,
    /// Until when it rests because its lowest unfinished message has failed; only where messages are consumed in
    /// order.
    pub suspended_until: Option<Instant>,
    /// The broker's lock on it; only where messages are consumed in order.
    pub lock: Option<LockStatus>,
    /// The lowest record that is held because it cannot be read. Progress does not pass it.
    pub held_record: Option<QueueOffset>,
    /// The replica that was asked for messages last; `None` before the first pull.
    pub reads_from: Option<ReplicaStatus>,
    /// Since when it stands still, once `QueueStalled` has told so.
    pub stalled_since: Option<Instant>,
    /// What went wrong last. Stays when all is well again; `at` tells how old it is.
    pub last_error: Option<LastError>,
}

impl QueueStatus {
    /// Messages that are not finished, here or at the broker; `None` before the broker has told its end.
    #[must_use]
    pub fn lag(&self) -> Option<u64> {
        let (max, lowest) = (self.max_offset?, self.lowest_unfinished?);
        u64::try_from(max.0.saturating_sub(lowest.0)).ok().or(Some(0))
    }
}

/// A broker's lock on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LockStatus {
    /// Whether it is ours now.
    pub held: bool,
    /// When it ends, or ended, unless it is renewed: 30 s after the request that was granted last.
    pub expires: Option<Instant>,
    /// Since when it is refused.
    pub refused_since: Option<Instant>,
}

/// A replica of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplicaStatus {
    /// Its id; 0 is the master.
    pub id: i64,
    /// Its address.
    pub addr: PeerAddr,
}

/// What went wrong last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// When.
    pub at: Instant,
    /// What was asked.
    pub request: &'static str,
    /// The response code, if the broker refused.
    pub code: Option<i32>,
    /// What was wrong; the broker's words if it refused.
    pub why: String,
}

impl LastError {
    pub(crate) fn new(at: Instant, request: &'static str, error: &CallError) -> Self {
        let (code, why) = match error {
            CallError::Broker { code, remark } => (Some(*code), remark.clone()),
            CallError::NoRoute
            | CallError::Connect(_)
            | CallError::Timeout
            | CallError::Closed
            | CallError::Overloaded
            | CallError::Malformed(_) => (None, error.to_string()),
        };
        Self {
            at,
            request,
            code,
            why,
        }
    }
}

/// What a queue does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum QueueState {
    /// Finding out where to start.
    Acquiring,
    /// A pull is at the broker.
    Pulling,
    /// Nothing is asked for; `hold` tells why.
    Held,
    /// Being given back.
    Revoking,
}

/// Why a queue does not pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum HoldReason {
    /// Another member may still hold the queue.
    TakeoverDelay,
    /// The broker's lock is being asked for; another member may have it.
    WaitsForLock,
    /// This member itself still gives its former ownership of the queue back.
    GivingBack,
    /// The stored offset is being asked for.
    AskingOffset,
    /// The start position is being asked for or made durable.
    AskingStart,
    /// No route names an address of the broker.
    NoBrokerAddress,
    /// The link to the broker does not stand.
    LinkDown,
    /// The broker has not acknowledged the current subscription.
    HeartbeatPending,
    /// As many unfinished messages as the limit allows.
    CountFull,
    /// As many unfinished body bytes as the limit allows.
    BytesFull,
    /// The lowest unfinished message lies too far behind.
    SpanFull,
    /// The group holds as many bytes as its budget allows.
    BufferFull,
    /// The broker asked for less.
    FlowControlled,
    /// The last pull failed; the next one is timed.
    BackingOff,
    /// The broker refused the last pull for a reason that does not pass by itself: no permission, no such
    /// topic, … `last_error` has its code and words. The next pull is timed.
    Refused,
    /// The lowest unfinished message has failed and rests; nothing behind it is delivered.
    Suspended,
    /// A record cannot be passed.
    Undecodable,
    /// The queue is said not to have the offset, by one whose word is not enough; it is asked again.
    OffsetDoubted,
    /// The queue does not have the offset, and the policy says to wait for somebody's decision.
    OffsetIllegal,
    /// The group is shutting down.
    Draining,
    /// The application has paused it. It may still have a pull at the broker, whose answer is kept.
    Paused(PauseScope),
}

/// Things that were ignored on purpose, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Network events about an earlier life of a connection.
    pub stale_net_events: u64,
    /// Answers to requests that had ended already.
    pub late_answers: u64,
    /// Answers about an ownership that had ended.
    pub stale_answers: u64,
    /// Reports about an ownership that had ended, or given twice.
    pub late_reports: u64,
    /// Times `now` went backwards.
    pub clock_went_back: u64,
    /// Events that left work for the next one because it did not come to an end. More than none is a defect of
    /// this crate, which is then slow instead of hanging.
    pub unsettled_events: u64,
    /// Requests of brokers and operators that could not be served: malformed, too many, or about a group that is not
    /// ours.
    pub refused_requests: u64,
}
