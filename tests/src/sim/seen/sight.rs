//! Kinds of what can be seen, so that a rule need not be shown what it never looks at.

use super::{Ask, BrokerDeed, Deed, What};

/// A kind of thing that can be seen. Requests and their answers are told apart by what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sight {
    /// [`Deed::Begun`].
    Begun,
    /// [`Deed::AskedToLeave`].
    AskedToLeave,
    /// [`Deed::Wished`].
    Wished,
    /// [`Deed::Left`].
    Left,
    /// [`Deed::Closed`] and [`Deed::Killed`]: a life is over.
    Over,
    /// [`Deed::Woken`].
    Woken,
    /// [`Deed::Connected`].
    Connected,
    /// [`Deed::Disconnected`].
    Disconnected,
    /// [`Deed::Dialled`].
    Dialled,
    /// [`Deed::DialFailed`].
    DialFailed,
    /// [`Deed::Asked`] for messages.
    AskedPull,
    /// [`Deed::Asked`] to store progress.
    AskedCommit,
    /// [`Deed::Asked`] what progress is stored.
    AskedOffset,
    /// [`Deed::Asked`] to bring a message again, by a send back or a copy.
    AskedAgain,
    /// [`Deed::Asked`] anything else.
    AskedElse,
    /// [`Deed::Answered`], to a pull.
    AnsweredPull,
    /// [`Deed::Answered`], to a commit.
    AnsweredCommit,
    /// [`Deed::Answered`], to a question for progress.
    AnsweredOffset,
    /// [`Deed::Answered`], to a send back or a copy.
    AnsweredAgain,
    /// [`Deed::Answered`], to anything else.
    AnsweredElse,
    /// [`Deed::Requested`].
    Requested,
    /// [`Deed::Locking`].
    Locking,
    /// [`Deed::Unlocking`].
    Unlocking,
    /// [`Deed::Locked`].
    Locked,
    /// [`Deed::StoreAsked`] and [`Deed::StoreAnswered`].
    Store,
    /// [`Deed::Found`], [`Deed::Keeping`] and [`Deed::Kept`].
    Shelf,
    /// [`Deed::Assigned`].
    Assigned,
    /// [`Deed::Revoked`].
    Revoked,
    /// [`Deed::Delivered`].
    Delivered,
    /// [`Deed::Withdrawn`].
    Withdrawn,
    /// [`Deed::Abandoned`].
    Abandoned,
    /// [`Deed::Settled`].
    Settled,
    /// [`Deed::Told`].
    Told,
    /// [`Deed::StepEnd`].
    StepEnd,
    /// [`BrokerDeed::Stored`].
    BrokerStored,
    /// [`BrokerDeed::SentBack`].
    BrokerSentBack,
    /// [`BrokerDeed::Committed`].
    BrokerCommitted,
    /// [`BrokerDeed::Reset`].
    BrokerReset,
    /// [`BrokerDeed::Locked`] and [`BrokerDeed::Unlocked`].
    BrokerLock,
    /// [`What::Fault`].
    Fault,
}

impl Sight {
    /// How many there are.
    pub(in crate::sim) const COUNT: usize = Self::Fault as usize + 1;

    /// What kind of thing this is.
    #[must_use]
    pub const fn of(what: &What<'_>) -> Self {
        match what {
            What::Member { deed, .. } => Self::of_deed(deed),
            What::Broker(deed) => Self::of_broker(*deed),
            What::Fault(_) => Self::Fault,
        }
    }

    const fn of_deed(deed: &Deed<'_>) -> Self {
        match deed {
            Deed::Begun { .. } => Self::Begun,
            Deed::AskedToLeave { .. } => Self::AskedToLeave,
            Deed::Wished(_) => Self::Wished,
            Deed::Left(_) => Self::Left,
            Deed::Closed | Deed::Killed => Self::Over,
            Deed::Woken => Self::Woken,
            Deed::Connected { .. } => Self::Connected,
            Deed::Disconnected { .. } => Self::Disconnected,
            Deed::Dialled { .. } => Self::Dialled,
            Deed::DialFailed { .. } => Self::DialFailed,
            Deed::Asked { ask, .. } => Self::of_ask(ask),
            Deed::Answered { asked, .. } => Self::of_answer_to(asked),
            Deed::Requested { .. } => Self::Requested,
            Deed::Locking { .. } => Self::Locking,
            Deed::Unlocking { .. } => Self::Unlocking,
            Deed::Locked { .. } => Self::Locked,
            Deed::StoreAsked | Deed::StoreAnswered => Self::Store,
            Deed::Found { .. } | Deed::Keeping { .. } | Deed::Kept { .. } => Self::Shelf,
            Deed::Assigned { .. } => Self::Assigned,
            Deed::Revoked { .. } => Self::Revoked,
            Deed::Delivered { .. } => Self::Delivered,
            Deed::Withdrawn { .. } => Self::Withdrawn,
            Deed::Abandoned { .. } => Self::Abandoned,
            Deed::Settled { .. } => Self::Settled,
            Deed::Told(_) => Self::Told,
            Deed::StepEnd { .. } => Self::StepEnd,
        }
    }

    const fn of_ask(ask: &Ask) -> Self {
        match ask {
            Ask::Pull { .. } => Self::AskedPull,
            Ask::Commit { .. } => Self::AskedCommit,
            Ask::QueryOffset { .. } => Self::AskedOffset,
            Ask::SendBack { .. } | Ask::Copy { .. } => Self::AskedAgain,
            Ask::Members { .. }
            | Ask::Lock { .. }
            | Ask::Unlock { .. }
            | Ask::Heartbeat
            | Ask::Unregister { .. }
            | Ask::Other(_) => Self::AskedElse,
        }
    }

    const fn of_answer_to(ask: &Ask) -> Self {
        match ask {
            Ask::Pull { .. } => Self::AnsweredPull,
            Ask::Commit { .. } => Self::AnsweredCommit,
            Ask::QueryOffset { .. } => Self::AnsweredOffset,
            Ask::SendBack { .. } | Ask::Copy { .. } => Self::AnsweredAgain,
            Ask::Members { .. }
            | Ask::Lock { .. }
            | Ask::Unlock { .. }
            | Ask::Heartbeat
            | Ask::Unregister { .. }
            | Ask::Other(_) => Self::AnsweredElse,
        }
    }

    const fn of_broker(deed: BrokerDeed) -> Self {
        match deed {
            BrokerDeed::Stored { .. } => Self::BrokerStored,
            BrokerDeed::SentBack { .. } => Self::BrokerSentBack,
            BrokerDeed::Committed { .. } => Self::BrokerCommitted,
            BrokerDeed::Reset { .. } => Self::BrokerReset,
            BrokerDeed::Locked { .. } | BrokerDeed::Unlocked { .. } => Self::BrokerLock,
        }
    }
}

/// A set of kinds: what a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sights(u64);

impl Sights {
    /// Nothing: a rule that only looks around at rest.
    pub const NONE: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(u64::MAX >> (u64::BITS as usize - Sight::COUNT));
    /// Every request that is written.
    pub const ASKED: Self = Self::of(&[
        Sight::AskedPull,
        Sight::AskedCommit,
        Sight::AskedOffset,
        Sight::AskedAgain,
        Sight::AskedElse,
    ]);
    /// Every answer that comes.
    pub const ANSWERED: Self = Self::of(&[
        Sight::AnsweredPull,
        Sight::AnsweredCommit,
        Sight::AnsweredOffset,
        Sight::AnsweredAgain,
        Sight::AnsweredElse,
    ]);

    /// These.
    #[must_use]
    pub const fn of(sights: &[Sight]) -> Self {
        let mut all = 0;
        let mut index = 0;
        while index < sights.len() {
            all |= 1 << sights[index] as u64;
            index += 1;
        }
        Self(all)
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The numbers of these kinds.
    pub(in crate::sim) fn numbers(self) -> impl Iterator<Item = usize> {
        (0..Sight::COUNT).filter(move |number| self.0 & 1 << number != 0)
    }

    /// Whether this kind is one of them.
    #[must_use]
    pub const fn has(self, sight: Sight) -> bool {
        self.0 & 1 << sight as u64 != 0
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::wire::code::RequestCode;

    use super::super::{Answer, Life, Upheaval};
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let few = Sights::of(&[Sight::Begun, Sight::Fault]);
        assert!(few.has(Sight::Begun) && few.has(Sight::Fault) && !few.has(Sight::Over));
        assert!(Sights::ALL.has(Sight::Begun) && Sights::ALL.has(Sight::Fault));
        assert!(!Sights::NONE.has(Sight::Begun));
        let more = few.and(Sights::of(&[Sight::Over]));
        assert_eq!(more, Sights::of(&[Sight::Begun, Sight::Over, Sight::Fault]));
        assert_eq!(Sights::ALL.and(more), Sights::ALL);
    }

    #[test]
    fn requests_and_answers_are_told_apart_by_what_is_asked() {
        use rocketmq_consumer_core::ids::ConnId;
        let conn = ConnId {
            slot: 0,
            generation: 0,
        };
        let other = Ask::Other(RequestCode::GET_MAX_OFFSET);
        for (ask, asked, answered) in [
            (Ask::Heartbeat, Sight::AskedElse, Sight::AnsweredElse),
            (other, Sight::AskedElse, Sight::AnsweredElse),
            (
                Ask::QueryOffset {
                    group: super::super::GroupNo(0),
                    queue: super::super::QueueNo(0),
                },
                Sight::AskedOffset,
                Sight::AnsweredOffset,
            ),
        ] {
            let life = Life(0);
            let deed = Deed::Asked {
                conn,
                node: super::super::NodeNo(0),
                opaque: 1,
                oneway: false,
                ask,
            };
            assert_eq!(Sight::of(&What::Member { life, deed }), asked);
            let deed = Deed::Answered {
                conn,
                opaque: 1,
                asked: &ask,
                answer: Answer::Done,
            };
            assert_eq!(Sight::of(&What::Member { life, deed }), answered);
        }
        assert_eq!(Sight::of(&What::Fault(Upheaval::Healed)), Sight::Fault);
    }
}
