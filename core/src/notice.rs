//! What an operator or a log should see. Notices never decide anything.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::config::FilterExpression;
use crate::event::Verdict;
use crate::ids::{
    BrokerName, ClientId, ConsumerGroup, Epoch, MessageQueue, PeerAddr, PhysicalOffset, QueueOffset, Topic,
};
use crate::status::{HoldReason, LinkTrouble};
use crate::time::Instant;

/// One notice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notice {
    /// When.
    pub at: Instant,
    /// Which group it is about, if one.
    pub group: Option<ConsumerGroup>,
    /// How many more of the same were held back since the last one of this kind and subject.
    pub repeated: u64,
    /// What.
    pub kind: NoticeKind,
}

/// Where the next try of a failed message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum RetryPath {
    /// Its broker has taken it back.
    SentBack,
    /// The send back was refused; a copy was produced to the group's retry topic.
    Produced,
    /// Neither was possible, or nobody knows: it is delivered again here.
    Local,
}

/// Why a queue that has messages makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum StallReason {
    /// It holds nothing that could be finished, and does not pull; or a record cannot be passed.
    Held(HoldReason),
    /// Its pulls bring nothing, though there is something.
    Unanswered,
    /// A handler has the message.
    Handlers {
        /// Messages of this queue that handlers have.
        running: u32,
        /// When the oldest of their runs was handed out.
        oldest: Option<Instant>,
    },
    /// The message waits for a permit.
    NoPermit {
        /// Handler calls of the group that run.
        running: u32,
        /// When the oldest run of the group was handed out.
        oldest: Option<Instant>,
    },
    /// The message has failed and is neither taken back nor delivered again yet.
    Retrying {
        /// Messages of this queue for which that is so.
        messages: u32,
    },
}

/// Kinds of notices.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum NoticeKind {
    /// Every queue of the first assignment is being pulled.
    Ready,
    /// This member now owns a queue.
    Assigned {
        /// The queue.
        queue: MessageQueue,
        /// The ownership.
        epoch: Epoch,
        /// Where it starts.
        from: QueueOffset,
    },
    /// A queue left this member.
    Revoked {
        /// The queue.
        queue: MessageQueue,
        /// The ownership that ended.
        epoch: Epoch,
        /// What its broker acknowledged last.
        committed: Option<QueueOffset>,
    },
    /// A broker acknowledged an offset.
    Committed {
        /// The queue.
        queue: MessageQueue,
        /// The next offset to consume.
        offset: QueueOffset,
    },
    /// A queue does not pull for a reason that deserves attention.
    Held {
        /// The queue.
        queue: MessageQueue,
        /// Why.
        reason: HoldReason,
    },
    /// A name server answers neither connects nor requests.
    NameServerUnreachable {
        /// Its address.
        addr: PeerAddr,
        /// What happened.
        cause: LinkTrouble,
    },
    /// No name server knows the topic; it is asked again.
    TopicUnknown {
        /// The topic.
        topic: Topic,
        /// What each name server answered last.
        answers: Vec<(PeerAddr, String)>,
    },
    /// The topic has no readable queue.
    TopicHasNoQueues {
        /// The topic.
        topic: Topic,
    },
    /// A link broke or cannot be made.
    LinkDown {
        /// The peer.
        addr: PeerAddr,
        /// What happened.
        cause: LinkTrouble,
    },
    /// A link stands again.
    LinkUp {
        /// The peer.
        addr: PeerAddr,
    },
    /// A peer sent what no peer may send; its link was closed.
    PeerMisbehaved {
        /// The peer.
        addr: PeerAddr,
        /// What it sent.
        why: String,
    },
    /// A request was refused for a reason that will not pass by itself.
    RequestRefused {
        /// The broker's name or address.
        by: String,
        /// What was asked.
        request: &'static str,
        /// The response code.
        code: i32,
        /// The peer's words.
        remark: String,
    },
    /// Our own id stands in the member list more than once.
    OwnIdRepeated {
        /// How often.
        times: u32,
        /// The broker that gave the list.
        broker: BrokerName,
    },
    /// Our own id is missing from the member list.
    NotInMemberList {
        /// The broker that gave the list.
        broker: BrokerName,
    },
    /// A member of the group subscribes to something else than this one. That is a mistake of whoever set the
    /// members up: a broker knows one subscription for all of a group, and members share the queues of every
    /// topic, so queues lie idle and messages are filtered away until all subscribe alike.
    SubscriptionsDiffer {
        /// Who; `None` when it is one of several and none of them tells.
        member: Option<ClientId>,
        /// Topics and expressions that it has and this member has not; of several members: that the broker heard
        /// last.
        theirs: Vec<(Topic, String)>,
        /// Those that this member has and it has not.
        ours: Vec<(Topic, String)>,
    },
    /// The share of a topic could not be computed: it stays as it is and is computed again soon.
    AllocationFailed {
        /// The topic.
        topic: Topic,
        /// The strategy.
        strategy: String,
        /// Why.
        why: String,
    },
    /// The strategy names queues that the topic does not have; they are not owned.
    QueuesNotInTopic {
        /// The topic.
        topic: Topic,
        /// The strategy's name, as Java reports it.
        strategy: String,
        /// The queues.
        queues: Vec<MessageQueue>,
    },
    /// A later subscription to the same topic replaced an earlier one.
    SubscriptionReplaced {
        /// The topic.
        topic: Topic,
    },
    /// A subscription that was changed while the group runs is in force: every broker that knows the group has
    /// acknowledged it, and nothing that was fetched before is delivered any more.
    SubscriptionChanged {
        /// The topic.
        topic: Topic,
        /// Which of its messages; `None` when it was given back.
        filter: Option<FilterExpression>,
    },
    /// A broker does not take a filter. One that the group began with keeps it from joining, and is asked about
    /// again every 30 s; in place of any other the former one stays.
    FilterRefused {
        /// The topic.
        topic: Topic,
        /// The filter.
        filter: FilterExpression,
        /// The broker.
        by: BrokerName,
        /// The response code: 23 when the expression means nothing, 1 when the broker does not look at properties
        /// (`enablePropertyFilter`).
        code: i32,
        /// The broker's words.
        remark: String,
    },
    /// A message could not be read.
    Undecodable {
        /// The queue.
        queue: MessageQueue,
        /// Its offset, if that could be read.
        offset: Option<QueueOffset>,
        /// Where it stands in the log, if that could be read.
        physical_offset: Option<PhysicalOffset>,
        /// Why.
        reason: String,
        /// Its bytes, when it is a record that cannot be taken apart.
        record: Option<Bytes>,
        /// What was done with it.
        fate: &'static str,
    },
    /// A body's checksum does not match.
    CrcMismatch {
        /// The queue.
        queue: MessageQueue,
        /// The message.
        offset: QueueOffset,
    },
    /// An answer held messages outside of what was asked; they were dropped.
    OutsideOfAsked {
        /// The queue.
        queue: MessageQueue,
        /// The offset that was asked for.
        asked: QueueOffset,
        /// The first offset that came.
        first: QueueOffset,
    },
    /// The queue does not have the offset that was asked for.
    OffsetIllegal {
        /// The queue.
        queue: MessageQueue,
        /// What was asked for.
        requested: QueueOffset,
        /// The queue's lowest offset, if told.
        min: Option<QueueOffset>,
        /// The next offset to be written, if told.
        max: Option<QueueOffset>,
        /// Where it goes on; `requested` while it waits there.
        to: QueueOffset,
        /// What is wrong.
        why: OffsetTrouble,
    },
    /// An operator has reset the group in this queue.
    OffsetReset {
        /// The queue.
        queue: MessageQueue,
        /// What was asked for.
        asked: QueueOffset,
        /// Where it goes on.
        to: QueueOffset,
    },
    /// A broker that cannot say "nothing is stored" (before 5.0) named 0 as the group's progress. It is taken for
    /// that although the queue may just be young.
    StartDecidedByBroker {
        /// The queue.
        queue: MessageQueue,
        /// Where it starts.
        offset: QueueOffset,
    },
    /// What a broker has stored is less than this member had finished when it last owned the queue.
    ProgressFellBack {
        /// The queue.
        queue: MessageQueue,
        /// What is stored.
        stored: QueueOffset,
        /// Everything below was finished by this member.
        finished: QueueOffset,
        /// Where it starts: at `finished` if nobody else can have owned the queue meanwhile.
        from: QueueOffset,
    },
    /// A delivery passed its deadline; its token was cancelled.
    DeliveryDeadline {
        /// The queue.
        queue: MessageQueue,
        /// The message.
        offset: QueueOffset,
        /// How long it has run.
        after: Duration,
    },
    /// A failed message could not be sent back; it is tried again or delivered again here.
    SendBackFailed {
        /// The queue.
        queue: MessageQueue,
        /// The message.
        offset: QueueOffset,
        /// Why.
        why: String,
    },
    /// A failed message has its next try, or its grave. Told for each one.
    Retry {
        /// The queue.
        queue: MessageQueue,
        /// The message.
        offset: QueueOffset,
        /// Its id, unless it could not be read.
        message_id: Option<String>,
        /// How often it had been sent back before.
        reconsume_times: u32,
        /// The delay level as on the wire: −1 for the dead letters, 0 for the broker's own rule (3 plus
        /// `reconsume_times`), else the number. What is delivered again here does not wait for it.
        level: i32,
        /// Where the next try comes from.
        path: RetryPath,
    },
    /// A queue has messages and has finished none for the time of `stalled_after`; told again each time
    /// that has passed once more.
    QueueStalled {
        /// The queue.
        queue: MessageQueue,
        /// What its lowest unfinished message waits for.
        reason: StallReason,
        /// Since when it stands still.
        since: Instant,
        /// The lowest unfinished offset; `None` while its start is not found.
        lowest_unfinished: Option<QueueOffset>,
        /// The next offset to be written there, as the last answer told.
        max_offset: Option<QueueOffset>,
    },
    /// A queue that was told of as stalled goes on, or has nothing left.
    QueueMoves {
        /// The queue.
        queue: MessageQueue,
        /// The lowest unfinished offset.
        lowest_unfinished: Option<QueueOffset>,
        /// How long it had stood still.
        after: Duration,
    },
    /// A report had another number of outcomes than messages. Those that it says nothing about are retried.
    WrongOutcomes {
        /// The queue.
        queue: MessageQueue,
        /// Messages that were reported.
        messages: u32,
        /// Outcomes that were given for them.
        outcomes: u32,
    },
    /// The broker's lock on a queue that is consumed in order is ours no more: its messages are dropped, nothing of
    /// it is committed, and the lock is asked for again.
    LockLost {
        /// The queue.
        queue: MessageQueue,
        /// How we know.
        why: LockLoss,
    },
    /// The broker's lock on a queue of ours is not given to us: another member has it still, or died with it less
    /// than a minute ago. It is asked for again every second.
    LockRefused {
        /// The queue.
        queue: MessageQueue,
        /// Since when.
        since: Instant,
    },
    /// A handler that consumes in order answers as if it did not, or the other way round. It is taken for what comes
    /// closest. Told once.
    OutcomeOfOtherKind {
        /// The queue.
        queue: MessageQueue,
        /// The message.
        offset: QueueOffset,
        /// What the handler said.
        said: Verdict,
    },
    /// A message has failed and is dropped, because the group broadcasts.
    Dropped {
        /// The queue.
        queue: MessageQueue,
        /// The message.
        offset: QueueOffset,
        /// Its id, unless it could not be read.
        message_id: Option<String>,
    },
    /// Stored offsets cannot be read; their backup is used. What was finished since it was made is delivered again.
    BackupUsed {
        /// Where they live.
        place: String,
        /// What is wrong with them.
        why: String,
    },
    /// Neither stored offsets nor their backup can be read; as was configured, every queue begins by the start
    /// policy.
    StartedOver {
        /// Where they live.
        place: String,
        /// What is wrong with them.
        why: String,
    },
    /// Offsets could not be stored; it is tried again.
    SaveFailed {
        /// Where they live.
        place: String,
        /// Why.
        why: String,
    },
    /// A commit was not acknowledged; it is sent again.
    CommitFailed {
        /// The queue.
        queue: MessageQueue,
        /// The offset.
        offset: QueueOffset,
        /// Why.
        why: String,
    },
    /// `now` went backwards and was clamped: a bug of the driver.
    ClockWentBack {
        /// By how much.
        by: Duration,
    },
    /// A broker asked for something this version does not answer.
    UnexpectedRequest {
        /// Who.
        addr: PeerAddr,
        /// The request code.
        code: i32,
    },
    /// A broker, or an operator through it, asked for something that could not be done.
    RequestNotServed {
        /// Who.
        addr: PeerAddr,
        /// The request code.
        code: i32,
        /// Why not, as the peer was told.
        why: String,
    },
    /// An operator has handed in a message to be consumed here (`CONSUME_MESSAGE_DIRECTLY`). No offset moved.
    ConsumedDirectly {
        /// Where it is stored.
        queue: MessageQueue,
        /// Its place there.
        offset: QueueOffset,
        /// Its id.
        message_id: String,
        /// What the operator was told: Java's name of the result, or that there is none.
        result: &'static str,
    },
}

/// How we know that a lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum LockLoss {
    /// The broker left the queue out of its answer: another member has it.
    Refused,
    /// The broker has not renewed it for 30 s; after 60 s it gives it to anybody.
    Expired,
}

/// What is wrong with an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum OffsetTrouble {
    /// The queue begins above it: messages have expired before they were fetched.
    BelowMin,
    /// The queue ends below it: it has lost its end, or was deleted and made again.
    BeyondEnd,
    /// Only a slave says so, or a master that may have just come back; it is asked again.
    Unconfirmed,
}
