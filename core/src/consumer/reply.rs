//! Answers to peers that ask something of us: to whom they go, and what they say when it cannot be done.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use crate::ids::{ConnId, ConsumerGroup};
use crate::wire::code::ResponseCode;
use crate::wire::request::operator::ConsumeDirectlyAnswer;

/// Who waits for an answer: the connection it asked on, and its number there. When the connection is gone,
/// nobody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) conn: ConnId,
    pub(crate) opaque: i32,
    /// Nobody waits at all.
    pub(crate) oneway: bool,
}

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: ResponseCode,
    pub(crate) why: String,
}

impl Refused {
    pub(crate) fn new(code: ResponseCode, why: impl Into<String>) -> Self {
        Self {
            code,
            why: why.into(),
        }
    }

    /// It cannot be done, in the code that Java members use for everything.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::new(ResponseCode::SYSTEM_ERROR, why)
    }

    /// The group is not ours, in Java's words.
    pub(crate) fn no_group(group: &ConsumerGroup) -> Self {
        Self::failed(format!("The Consumer Group <{group}> not exist in this consumer"))
    }

    pub(crate) fn leaving() -> Self {
        Self::failed("the consumer is leaving its group")
    }
}

/// What is answered later than within the event that brought the question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Directly(Box<ConsumeDirectlyAnswer>),
    Refused(Refused),
}
