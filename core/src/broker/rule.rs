//! Faults as data: what becomes of requests, by code and count.

use alloc::string::String;
use core::time::Duration;

use bytes::Bytes;

use crate::ids::PeerAddr;
use crate::wire::code::{RequestCode, ResponseCode};

/// What becomes of requests of one kind. Applies to what clients ask and to what brokers ask of clients
/// (`NOTIFY_CONSUMER_IDS_CHANGED` and the like).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The node concerned, by the address it listens at; `None` for all.
    pub node: Option<PeerAddr>,
    /// The kind of request; `None` for all.
    pub code: Option<RequestCode>,
    /// Which of them, counted from when the rule was made.
    pub nth: Nth,
    /// What happens.
    pub effect: Effect,
}

impl Rule {
    /// All requests of a kind, everywhere.
    #[must_use]
    pub const fn on(code: RequestCode, effect: Effect) -> Self {
        Self {
            node: None,
            code: Some(code),
            nth: Nth::Always,
            effect,
        }
    }

    /// At this node only.
    #[must_use]
    pub fn at(mut self, node: PeerAddr) -> Self {
        self.node = Some(node);
        self
    }

    /// These of them only.
    #[must_use]
    pub const fn nth(mut self, nth: Nth) -> Self {
        self.nth = nth;
        self
    }
}

/// Which of the requests that a rule is about; the first is number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nth {
    /// Each.
    Always,
    /// Only this one.
    Only(u32),
    /// The first so many.
    First(u32),
    /// All but the first so many.
    After(u32),
    /// Every so-many-th.
    Every(u32),
}

impl Nth {
    /// Whether request number `count`, from 1, is meant.
    #[must_use]
    pub const fn matches(self, count: u32) -> bool {
        match self {
            Self::Always => true,
            Self::Only(nth) => count == nth,
            Self::First(most) => count <= most,
            Self::After(skip) => count > skip,
            Self::Every(step) => step > 0 && count.is_multiple_of(step),
        }
    }
}

/// What happens to a request that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Nothing out of the ordinary; keeps later rules away.
    Pass,
    /// It is refused and not carried out.
    Fail {
        /// The code of the refusal.
        code: ResponseCode,
        /// Its remark.
        remark: String,
    },
    /// It is carried out, and answered, this much later.
    Delay(Duration),
    /// It is carried out at once and answered this much later.
    DelayAnswer(Duration),
    /// It is neither carried out nor answered.
    Drop,
    /// It is carried out and never answered.
    LoseAnswer,
    /// It is carried out twice; a one-way request is sent twice.
    Twice,
    /// The connection is closed instead.
    Close,
    /// This answer is given instead, under the request's own opaque.
    Reply {
        /// The code.
        code: ResponseCode,
        /// The body.
        body: Bytes,
    },
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn requests_are_counted_from_one() {
        for (nth, want) in [
            (Nth::Always, [1, 2, 3, 4].as_slice()),
            (Nth::Only(2), &[2]),
            (Nth::First(2), &[1, 2]),
            (Nth::After(2), &[3, 4]),
            (Nth::Every(2), &[2, 4]),
            (Nth::Every(0), &[]),
        ] {
            let matching: Vec<u32> = (1..=4).filter(|count| nth.matches(*count)).collect();
            assert_eq!(matching, want, "{nth:?}");
        }
    }
}
