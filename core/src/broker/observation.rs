//! What a cluster did, for whoever watches it: a test, a simulator, a demonstration.

use alloc::collections::VecDeque;

use crate::ids::{
    BrokerName, ClientId, ConnId, ConsumerGroup, MessageQueue, PhysicalOffset, QueueId, QueueOffset, Topic,
};

/// One thing a cluster did. A connection is absent where no client had asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// A message was stored where consumers can read it: sent, brought back after its delay, or buried.
    Stored {
        /// Where.
        queue: MessageQueue,
        /// Its offset.
        offset: QueueOffset,
        /// Its place in the broker's commit log.
        physical_offset: PhysicalOffset,
    },
    /// A send back was accepted: a copy of the message waits for its delay, or was buried at once.
    SentBack {
        /// For whom.
        group: ConsumerGroup,
        /// Where it lay.
        queue: MessageQueue,
        /// Its offset there.
        offset: QueueOffset,
        /// Whether it is among the dead letters now.
        dead: bool,
    },
    /// Progress was stored.
    Committed {
        /// Whose.
        group: ConsumerGroup,
        /// Of which queue.
        queue: MessageQueue,
        /// Where to continue.
        offset: QueueOffset,
        /// Who asked for it.
        conn: Option<ConnId>,
    },
    /// A client has become a member of a group.
    MemberJoined {
        /// Where.
        broker: BrokerName,
        /// Which group.
        group: ConsumerGroup,
        /// Who.
        client: ClientId,
        /// On which connection.
        conn: ConnId,
    },
    /// A client is no longer a member of a group.
    MemberLeft {
        /// Where.
        broker: BrokerName,
        /// Which group.
        group: ConsumerGroup,
        /// Who.
        client: ClientId,
        /// On which connection it was.
        conn: ConnId,
    },
    /// A queue is locked for a member that did not hold it before.
    LockGranted {
        /// Its group.
        group: ConsumerGroup,
        /// Which queue.
        queue: MessageQueue,
        /// Who.
        client: ClientId,
    },
    /// A member gave its lock back.
    LockReleased {
        /// Its group.
        group: ConsumerGroup,
        /// Which queue.
        queue: MessageQueue,
        /// Who.
        client: ClientId,
    },
    /// An operator has set where a group continues.
    Reset {
        /// Whose.
        group: ConsumerGroup,
        /// Of which queue.
        queue: MessageQueue,
        /// Where to continue.
        offset: QueueOffset,
    },
}

/// Observations that nobody has taken yet; none are made unless they are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Observations {
    most: usize,
    seen: VecDeque<Observation>,
    missed: u64,
}

impl Observations {
    /// From now on up to so many wait to be taken; 0 for none at all.
    pub(super) fn keep(&mut self, most: usize) {
        self.most = most;
        self.seen.truncate(most);
    }

    /// Notes what `make` says, if anybody wants it.
    pub(super) fn note(&mut self, make: impl FnOnce() -> Observation) {
        if self.seen.len() < self.most {
            self.seen.push_back(make());
        } else if self.most > 0 {
            self.missed = self.missed.saturating_add(1);
        }
    }

    pub(super) fn poll(&mut self) -> Option<Observation> {
        self.seen.pop_front()
    }

    pub(super) const fn missed(&self) -> u64 {
        self.missed
    }
}

/// A queue of a broker.
pub(super) fn queue_on(broker: &BrokerName, topic: &Topic, id: QueueId) -> MessageQueue {
    MessageQueue {
        topic: topic.clone(),
        broker: broker.clone(),
        id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(name: &str) -> Observation {
        Observation::MemberJoined {
            broker: "a".into(),
            group: "G".into(),
            client: name.into(),
            conn: ConnId {
                slot: 0,
                generation: 0,
            },
        }
    }

    #[test]
    fn nothing_is_kept_unless_wanted_and_no_more_than_wanted() {
        let mut seen = Observations::default();
        seen.note(|| joined("1"));
        seen.keep(2);
        for name in ["2", "3", "4"] {
            seen.note(|| joined(name));
        }
        assert_eq!((seen.poll(), seen.missed()), (Some(joined("2")), 1));
        seen.note(|| joined("5"));
        assert_eq!((seen.poll(), seen.poll()), (Some(joined("3")), Some(joined("5"))));
        assert_eq!(seen.poll(), None);
    }
}
