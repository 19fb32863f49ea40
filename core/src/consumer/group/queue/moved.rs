//! What to make of a broker that calls an offset illegal (code 21).
//!
//! Who says it, and whether the offset can be illegal there, decides what it is worth:
//!
//! | the answer | what follows |
//! |---|---|
//! | comes from a slave | never believed: the master is asked, and until it can be the queue waits |
//! | an operator's reset | followed at once, whatever the policy |
//! | the queue begins above what was asked | the policy: messages have expired |
//! | the queue begins behind its end | its bounds are passed over |
//! | the queue ends below what was asked | asked again twice (a broker that has just come back), then the policy |
//!
//! A queue that ends below our position has lost its end in a crash, or was deleted and made again. Its bounds do
//! not tell which. The store times do: whatever was stored after the newest message we have seen is new to us, in
//! both cases, so [`IllegalOffsetPolicy::Resume`] asks for the first of those. It neither skips what was written
//! before we noticed nor reads again what is retained. Under no policy does it begin beyond the lowest unfinished
//! message: an end decides nothing about what we have not finished.
//!
//! ```text
//!  code 21 ──► course ──► AskAgain: the same pull after a pause
//!                     ├─► Hold: the same pull after a long pause, until it is legal or reset
//!                     ├─► GoTo: this ownership ends, another begins there; if messages have expired
//!                     │         and others are unfinished, this one goes on there
//!                     └─► Find: this ownership ends, another asks where
//! ```

use core::time::Duration;

use crate::config::IllegalOffsetPolicy;
use crate::ids::{MessageQueue, QueueOffset};
use crate::notice::{NoticeKind, OffsetTrouble};
use crate::time::WallTime;
use crate::wire::request::pull::PullAnswer;

use super::progress::Carried;

/// How often an end below what was asked for is told before it is believed.
const DOUBTS: u32 = 3;

/// What a broker says of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) asked: QueueOffset,
    /// Where it wants us to go on.
    pub(crate) to: QueueOffset,
    pub(crate) min: Option<QueueOffset>,
    pub(crate) max: Option<QueueOffset>,
    /// Whether it says itself that an operator wants it.
    pub(crate) reset: bool,
}

/// What we know ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) from_master: bool,
    /// How often in a row it was told the same and not believed.
    pub(crate) doubts: u32,
    pub(crate) unfinished: QueueOffset,
    /// What is stored from then on is new to us.
    pub(crate) new_since: Option<WallTime>,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    AskAgain,
    Hold(OffsetTrouble),
    /// `None` for a reset.
    GoTo(QueueOffset, Option<OffsetTrouble>),
    Find(Find, OffsetTrouble),
}

/// What a broker is asked when its claim does not tell where to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Find {
    Min,
    Max,
    Since(WallTime),
}

impl Claim {
    /// How it is told, if it is about an offset that the queue does not have.
    pub(crate) const fn illegal(
        &self,
        queue: MessageQueue,
        to: QueueOffset,
        why: OffsetTrouble,
    ) -> NoticeKind {
        NoticeKind::OffsetIllegal {
            queue,
            requested: self.asked,
            min: self.min,
            max: self.max,
            to,
            why,
        }
    }

    /// An operator has told us in person.
    pub(crate) const fn reset(asked: QueueOffset, to: QueueOffset) -> Self {
        Self {
            asked,
            to,
            min: None,
            max: None,
            reset: true,
        }
    }

    /// A queue that begins behind its end is none: such bounds are passed over, or a slip of the broker would skip
    /// everything that is there.
    pub(crate) fn of(asked: QueueOffset, answer: &PullAnswer) -> Self {
        let (min, max) = match (answer.min_offset, answer.max_offset) {
            (Some(min), Some(max)) if min > max => (None, None),
            bounds => bounds,
        };
        Self {
            asked,
            to: answer.next_begin_offset,
            min,
            max,
            reset: answer.reset,
        }
    }

    /// Whether somebody has decided it, for nothing is wrong with the offset.
    pub(crate) fn is_reset(&self) -> bool {
        self.trouble().is_none()
    }

    /// What is wrong with the offset, if it is wrong. One that the queue has is moved by somebody's decision.
    fn trouble(&self) -> Option<OffsetTrouble> {
        if self.reset {
            return None;
        }
        let (min, max) = (self.min, self.max);
        if min.is_some_and(|min| self.asked < min) {
            Some(OffsetTrouble::BelowMin)
        } else if max.is_some_and(|max| self.asked > max) {
            Some(OffsetTrouble::BeyondEnd)
        } else if min.is_none() && self.to > self.asked {
            Some(OffsetTrouble::BelowMin)
        } else if max.is_none() && self.to < self.asked {
            Some(OffsetTrouble::BeyondEnd)
        } else {
            None
        }
    }

    pub(crate) fn course(&self, policy: IllegalOffsetPolicy, evidence: &Evidence) -> Course {
        if !evidence.from_master {
            return Course::AskAgain;
        }
        match self.trouble() {
            None => Course::GoTo(self.to, None),
            Some(OffsetTrouble::BeyondEnd) if evidence.doubts.saturating_add(1) < DOUBTS => Course::AskAgain,
            Some(trouble) if policy == IllegalOffsetPolicy::Hold => Course::Hold(trouble),
            Some(OffsetTrouble::BeyondEnd) => self.beyond_end(policy, evidence),
            Some(trouble) => self.below_min(policy, trouble),
        }
    }

    fn below_min(&self, policy: IllegalOffsetPolicy, trouble: OffsetTrouble) -> Course {
        let known = |offset: Option<QueueOffset>, find| {
            offset.map_or(Course::Find(find, trouble), |to| Course::GoTo(to, Some(trouble)))
        };
        match policy {
            IllegalOffsetPolicy::Resume => Course::GoTo(self.min.unwrap_or(self.to), Some(trouble)),
            IllegalOffsetPolicy::Follow | IllegalOffsetPolicy::Hold => Course::GoTo(self.to, Some(trouble)),
            IllegalOffsetPolicy::Earliest => known(self.min, Find::Min),
            IllegalOffsetPolicy::Latest => known(self.max, Find::Max),
        }
    }

    fn beyond_end(&self, policy: IllegalOffsetPolicy, evidence: &Evidence) -> Course {
        let trouble = OffsetTrouble::BeyondEnd;
        let min = self.min.unwrap_or(QueueOffset(0));
        let go = |to: QueueOffset| Course::GoTo(to.min(evidence.unfinished).max(min), Some(trouble));
        let is_empty = self.max.unwrap_or(self.to) == QueueOffset(0);
        match (policy, evidence.new_since) {
            (IllegalOffsetPolicy::Resume, Some(since)) if !is_empty => {
                Course::Find(Find::Since(since), trouble)
            }
            (IllegalOffsetPolicy::Earliest, _) => match self.min {
                Some(min) => Course::GoTo(min, Some(trouble)),
                None => Course::Find(Find::Min, trouble),
            },
            (IllegalOffsetPolicy::Latest, _) => go(self.max.unwrap_or(self.to)),
            (IllegalOffsetPolicy::Resume | IllegalOffsetPolicy::Follow | IllegalOffsetPolicy::Hold, _) => {
                go(self.to)
            }
        }
    }
}

/// Why an ownership begins somewhere else than the one before it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) claim: Claim,
    /// `None` for a reset.
    pub(crate) trouble: Option<OffsetTrouble>,
    /// What the ownership before had not finished.
    pub(crate) unfinished: QueueOffset,
    /// Whether the ownership before was moved too, and never had a good answer.
    pub(crate) again: bool,
    /// What a pull of the ownership before carries, which may not be stored yet.
    pub(crate) carried: Option<Carried>,
}

impl Moved {
    /// Where to begin when the broker has been asked, and said so.
    pub(crate) fn at_most(&self, found: QueueOffset) -> QueueOffset {
        match self.trouble {
            Some(OffsetTrouble::BeyondEnd) => found.min(self.unfinished),
            Some(OffsetTrouble::BelowMin | OffsetTrouble::Unconfirmed) | None => found,
        }
    }

    pub(crate) fn notice(&self, queue: MessageQueue, to: QueueOffset) -> NoticeKind {
        match self.trouble {
            None => NoticeKind::OffsetReset {
                queue,
                asked: self.claim.asked,
                to,
            },
            Some(why) => self.claim.illegal(queue, to, why),
        }
    }
}

/// Brokers before 5.0 search to the nearest message and not to the first of its time.
const SEARCH_MARGIN: Duration = Duration::from_secs(1);

/// How far the clocks of a broker and of this process may lie apart before the time of an answer says nothing of
/// what was stored after it.
const CLOCKS_APART: Duration = Duration::from_secs(10 * 60);

/// From when on what is stored is new to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The newest message we were given, by the broker's clock.
    newest: Option<WallTime>,
    /// When an answer last said that we have everything, by our clock: only good where no message has come.
    caught_up: Option<WallTime>,
    /// What an earlier ownership knew.
    before: Option<WallTime>,
}

impl Seen {
    pub(crate) fn after(before: Option<WallTime>) -> Self {
        Self {
            before,
            ..Self::default()
        }
    }

    pub(crate) fn message(&mut self, stored_at: WallTime) {
        self.newest = self.newest.max(Some(stored_at));
    }

    pub(crate) const fn everything(&mut self, now: WallTime) {
        self.caught_up = Some(now);
    }

    pub(crate) fn new_since(&self) -> Option<WallTime> {
        let newest = self.newest.map(|newest| newest.minus(SEARCH_MARGIN));
        let caught_up = self.caught_up.map(|then| then.minus(CLOCKS_APART));
        newest.max(self.before).or(caught_up)
    }
}

#[cfg(test)]
mod tests;
