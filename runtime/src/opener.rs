use std::sync::Arc;

use rocketmq_consumer_core::config::{GroupConfig, UndecodablePolicy};
use rocketmq_consumer_core::event::{AppEvent, RunRange, Verdict};
use rocketmq_consumer_core::message::Message;
use rocketmq_consumer_core::wire::body::{BodyError, BodyLimits, CrcPolicy, CrcState};

use crate::answer::{Answer, is_orderly};
use crate::driver::{Command, Inbox};
use crate::runs::Run;

/// Opens bodies before a handler sees them: the machine never does.
#[derive(Clone)]
pub(crate) struct Opener {
    inbox: Arc<Inbox>,
    limits: BodyLimits,
    crc: CrcPolicy,
    deliver_damaged: bool,
}

impl Opener {
    /// After the settings of a group; what it finds it tells to `inbox`.
    pub(crate) fn new(config: &GroupConfig, inbox: Arc<Inbox>) -> Self {
        Self {
            inbox,
            limits: BodyLimits {
                decompressed_max: usize::try_from(*config.body_bytes_max()).unwrap_or(usize::MAX),
            },
            crc: if *config.crc_reject() {
                CrcPolicy::Reject
            } else {
                CrcPolicy::Report
            },
            deliver_damaged: *config.undecodable() == UndecodablePolicy::Deliver,
        }
    }

    /// Where everything that is found out is reported.
    pub(crate) const fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// The message at a position of a run, its body open, or the verdict that keeps it from handlers.
    pub(crate) fn open(&self, run: &Run, position: u32) -> Result<Message, Verdict> {
        let mut message = Message::new(Arc::clone(&run.batch), position)
            .expect("the machine hands out positions that lie within their batch");
        match message.open(self.limits, self.crc) {
            Ok(CrcState::Mismatch) => {
                let event = AppEvent::CrcMismatch { id: run.id, position };
                self.inbox.push(Command::App(event));
                Ok(message)
            }
            Ok(CrcState::Match | CrcState::Unchecked) => Ok(message),
            Err(BodyError::Unsupported(_)) => Err(Verdict::Unsupported),
            // Asking for the body gives the error again.
            Err(_) if self.deliver_damaged => Ok(message),
            Err(_) => Err(Verdict::Undecodable),
        }
    }

    /// Opens the messages of one call: neighbours of a run from `start` on, `most` of them at most, up to the
    /// first that must not reach a handler.
    pub(crate) fn open_call<A: Answer>(
        &self,
        run: &Run,
        start: u32,
        most: u32,
        opened: &mut Vec<Message>,
    ) -> Opened {
        let last = run.range.end.min(start.saturating_add(most.max(1)));
        let mut end = start;
        let mut held_back = None;
        while end < last && held_back.is_none() {
            match self.open(run, end) {
                Ok(message) => {
                    opened.push(message);
                    end += 1;
                }
                Err(verdict) => held_back = Some(verdict),
            }
        }
        if is_orderly::<A>() {
            Opened::in_order(start, end, held_back, run.range.end)
        } else {
            Opened::side_by_side(end, held_back)
        }
    }
}

/// How far the opening of a call came, and what that means for what is behind it.
#[derive(Debug, PartialEq)]
pub(crate) struct Opened {
    /// One behind the last message of the call, which may have none.
    pub(crate) end: u32,
    /// What is to be reported already.
    pub(crate) told: [Option<(RunRange, Verdict)>; 2],
    /// Where the next call begins; the end of the run if there is none.
    pub(crate) next: u32,
}

impl Opened {
    /// The call ends where a message is held back, and the next one begins behind that.
    fn side_by_side(end: u32, held_back: Option<Verdict>) -> Self {
        Self {
            end,
            told: [held_back.map(|verdict| (span(end, end + 1), verdict)), None],
            next: end + u32::from(held_back.is_some()),
        }
    }

    /// Nothing behind the call begins before the call has been answered, so it goes back; a message that is held
    /// back too, unless it comes first.
    fn in_order(start: u32, end: u32, held_back: Option<Verdict>, run_end: u32) -> Self {
        let first = held_back.filter(|_| end == start);
        let rest = span(end + u32::from(first.is_some()), run_end);
        Self {
            end,
            told: [
                first.map(|verdict| (span(end, end + 1), verdict)),
                (!rest.is_empty()).then_some((rest, Verdict::NotStarted)),
            ],
            next: run_end,
        }
    }
}

const fn span(start: u32, end: u32) -> RunRange {
    RunRange { start, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(start, end of the call, held back there, end of the run)`, and what follows.
    type Row = (
        (u32, u32, Option<Verdict>, u32),
        [Option<(RunRange, Verdict)>; 2],
        u32,
    );

    #[test]
    fn in_order_nothing_behind_a_call_begins_before_its_answer() {
        let (damaged, back) = (Verdict::Undecodable, Verdict::NotStarted);
        let table: [Row; 5] = [
            ((2, 5, None, 5), [None, None], 5),
            ((2, 4, None, 7), [None, Some((span(4, 7), back))], 7),
            // What is held back behind others waits for them.
            ((2, 3, Some(damaged), 5), [None, Some((span(3, 5), back))], 5),
            (
                (2, 2, Some(damaged), 5),
                [Some((span(2, 3), damaged)), Some((span(3, 5), back))],
                5,
            ),
            ((2, 2, Some(damaged), 3), [Some((span(2, 3), damaged)), None], 3),
        ];
        for ((start, end, held_back, run_end), told, next) in table {
            let want = Opened { end, told, next };
            assert_eq!(Opened::in_order(start, end, held_back, run_end), want);
        }
    }

    #[test]
    fn side_by_side_a_message_that_is_held_back_keeps_nobody() {
        let damaged = Verdict::Undecodable;
        assert_eq!(
            Opened::side_by_side(4, Some(damaged)),
            Opened {
                end: 4,
                told: [Some((span(4, 5), damaged)), None],
                next: 5
            }
        );
        let nothing = Opened {
            end: 4,
            told: [None, None],
            next: 4,
        };
        assert_eq!(Opened::side_by_side(4, None), nothing);
    }
}
