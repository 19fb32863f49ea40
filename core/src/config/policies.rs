//! What a group does where more than one thing would be right.

use serde::{Deserialize, Serialize};

use crate::time::WallTime;

/// Where a group starts in a queue for which no offset is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StartAt {
    /// Behind the newest message (`CONSUME_FROM_LAST_OFFSET`). Unlike Java this holds on young topics
    /// too, see [`GroupConfig::set_latest_like_java`](super::GroupConfig::set_latest_like_java).
    #[default]
    Latest,
    /// At the oldest message (`CONSUME_FROM_FIRST_OFFSET`).
    Earliest,
    /// At the first message stored at or after this time (`CONSUME_FROM_TIMESTAMP`).
    Time(WallTime),
}

/// What happens to a message that this client cannot read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum UndecodablePolicy {
    /// It is sent to the dead letter topic by its physical offset, then counts as settled.
    #[default]
    DeadLetter,
    /// It is delivered; asking for its body gives the error.
    Deliver,
    /// It stays; progress does not pass it until somebody decides.
    Hold,
    /// It is dropped, with a notice.
    Skip,
}

/// Where a queue goes on when its broker says that it does not have the offset that was asked for
/// (`PULL_OFFSET_MOVED`), because what is below has expired, a crash cost the queue its end, or the topic was deleted
/// and made again.
///
/// It is never asked for what a slave says, which may be behind, and never for an operator's reset, which is always
/// followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum IllegalOffsetPolicy {
    /// Nothing that the queue has and this member has not seen is skipped, and nothing else is read again: the oldest
    /// message if ours have expired; where the queue ends below our position, the first message that was stored after
    /// the newest one we have seen. A member that has seen nothing of the queue yet goes where the broker says.
    #[default]
    Resume,
    /// Where the broker says, as the Java client does: the oldest message if ours have expired, else the end of the
    /// queue. What was written to it before the member noticed is skipped.
    Follow,
    /// At the oldest message.
    Earliest,
    /// Behind the newest message.
    Latest,
    /// Nowhere: the queue is held, visible in the status, until an operator resets the group, the offset is legal
    /// again, or the member starts anew with another policy.
    Hold,
}

/// What happens to a failed message whose send back is refused for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SendBackFallback {
    /// A copy is produced to the group's retry topic, on another broker first, with the delay that was asked
    /// for; a dead letter is produced so that the broker buries it at once. If that is refused too, the
    /// message is delivered again here.
    ///
    /// A broker that holds an unexpired queue lock of the group buries every produced copy: a group that is
    /// also consumed in order should choose [`Self::Local`].
    #[default]
    Produce,
    /// The message is delivered again here, without a copy. A group that consumes in order buries by a copy all the
    /// same: what cannot be buried would hold its queue for ever.
    Local,
}

/// Who gets a message: one member of the group, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MessageModel {
    /// The members share the queues; offsets live on the brokers.
    #[default]
    Clustering,
    /// Every member gets every queue. Offsets live with the member, in a store; the broker is told none. A message
    /// that fails is reported and dropped: to send it back would bring it to every member again.
    Broadcasting,
}

/// How deliveries of one queue relate to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ConsumeMode {
    /// Messages of a queue are handled side by side.
    #[default]
    Concurrently,
    /// One after another: a queue is consumed under a lock of its broker, which no other member can have at the
    /// same time, and what fails comes again before anything behind it. While all is well each message is delivered
    /// once and in the order of the queue; after a member died its successor begins where it had committed.
    Orderly,
}

/// Which messages of a queue keep their order, where they are consumed in order. The lock is the queue's either way, so
/// members that differ in this can share a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OrderBy {
    /// All of them: one handler call of a queue at a time.
    #[default]
    Queue,
    /// Messages of one key: one of them is with a handler at a time, and a successor comes when it is settled.
    /// Different keys of a queue are handled side by side, and one that fails makes its own key wait and no other.
    ///
    /// The key is the sharding key of the producer (`__SHARDINGKEY`); without one the first of the business keys
    /// (`KEYS`). Messages that have neither keep their order among themselves. A handler call is of one message,
    /// whatever `handler_batch` says; nothing passes a record that cannot be read before it is settled.
    ///
    /// One offset is committed for a queue, the lowest that is not finished. So whoever has the queue next is given
    /// again what was finished above it, each key in order; `queue_span_max` bounds how much that is.
    Key,
}

/// What follows when the offsets that are stored with a member can be read neither where they are nor from their
/// backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DamagedStore {
    /// The group does not start, and the error names the place: somebody decides what is read twice or skipped.
    #[default]
    Refuse,
    /// Every queue begins by the start policy; what cannot be read is kept aside.
    StartOver,
}
