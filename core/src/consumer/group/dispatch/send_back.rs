//! Failed messages on their way back to the broker.
//!
//! ```text
//!  Asked ──acknowledged──► settled                                      any ── in doubt ──► Waiting
//!    │ refused: asked again after a pause, a few times
//!    ▼ refused for good
//!  Copying ──acknowledged──► settled
//!    │ refused by every broker there is, three at most
//!    ▼
//!  Waiting ──local_retry──► delivered again here
//! ```
//!
//! The order follows from two rules. Nothing is lost: until it is acknowledged that a copy is stored, the
//! message holds the queue's offset. And nothing is doubled that need not be: after an answer that never
//! came the broker may have stored the copy, so no second one is asked for; the handler gets the message once
//! more, and only if it fails again there can be two.
//= rocketmq: ConsumeMessageConcurrentlyService.sendMessageBack type=differs
//  reason: asynchronous, with retries of its own; produces a copy only where the send back was refused, with
//  the delay that was asked for, before the message is delivered again locally.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::action::CallError;
use crate::ids::{PhysicalOffset, QueueKey, Topic};
use crate::wire::code::ResponseCode;
use crate::wire::request::send_back::Delay;

/// Brokers that are asked to store a copy, at most.
const COPY_TRIES: u32 = 3;

/// Longest pause before a refused send back is asked again: 2^5 s.
const PAUSE_DOUBLINGS: u32 = 5;

/// What a message to be sent back needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendBack {
    pub(crate) queue: QueueKey,
    pub(crate) seq: u64,
    pub(crate) physical_offset: PhysicalOffset,
    /// What of the message the request tells for information, unless it could not be read.
    pub(crate) about: Option<(String, Topic)>,
    pub(crate) delay: Delay,
    /// How often it was refused.
    refusals: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// At its broker, or about to be asked again.
    Asked,
    /// At a broker as a copy; how many were asked before.
    Copying(u32),
    /// For the next delivery here.
    Waiting,
    /// Until what lies below it is settled, on the way out.
    PutOff,
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    AskAgainIn(Duration),
    /// Ask the broker that stands at this place of the list to store a copy.
    CopyTo(u32),
    DeliverAgainIn(Duration),
}

/// What a timer of a send back means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    AskAgain,
    DeliverAgain(SendBack),
}

/// How a request ended that was to store a message somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It is stored, though perhaps not on disk or not on a slave yet: so it is for producers, too.
    Yes,
    /// It is not.
    No,
    /// It may be.
    Perhaps,
}

impl Stored {
    /// What a failure says about it.
    pub(crate) fn despite(error: &CallError) -> Self {
        match error {
            // The request was never written.
            CallError::NoRoute | CallError::Connect(_) | CallError::Overloaded => Self::No,
            CallError::Timeout | CallError::Closed | CallError::Malformed(_) => Self::Perhaps,
            // A send back is answered with one code for everything that did not go well, and the name of it.
            CallError::Broker { code, remark } if *code == ResponseCode::SYSTEM_ERROR.0 => match &**remark {
                "FLUSH_DISK_TIMEOUT" | "FLUSH_SLAVE_TIMEOUT" | "SLAVE_NOT_AVAILABLE" => Self::Yes,
                "UNKNOWN_ERROR" => Self::Perhaps,
                _ => Self::No,
            },
            CallError::Broker { .. } => Self::No,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SendBacks {
    table: BTreeMap<u64, SendBack>,
    next: u64,
    retries: u32,
    local_retry: Duration,
}

impl SendBacks {
    pub(crate) const fn new(retries: u32, local_retry: Duration) -> Self {
        Self {
            table: BTreeMap::new(),
            next: 0,
            retries,
            local_retry,
        }
    }

    pub(crate) fn start(
        &mut self,
        queue: QueueKey,
        seq: u64,
        physical_offset: PhysicalOffset,
        about: Option<(String, Topic)>,
        delay: Delay,
    ) -> u64 {
        let id = self.next;
        self.next += 1;
        let back = SendBack {
            queue,
            seq,
            physical_offset,
            about,
            delay,
            refusals: 0,
            stage: Stage::Asked,
        };
        self.table.insert(id, back);
        id
    }

    /// Begins with the copy: the message's own broker is not asked to take it back.
    pub(crate) fn start_copy(
        &mut self,
        queue: QueueKey,
        seq: u64,
        physical_offset: PhysicalOffset,
        about: (String, Topic),
    ) -> u64 {
        let id = self.start(queue, seq, physical_offset, Some(about), Delay::DeadLetter);
        if let Some(back) = self.table.get_mut(&id) {
            back.stage = Stage::Copying(0);
        }
        id
    }

    pub(crate) fn get(&self, id: u64) -> Option<&SendBack> {
        self.table.get(&id)
    }

    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// A broker has it: this one is over.
    pub(crate) fn acknowledged(&mut self, id: u64) -> Option<SendBack> {
        self.table.remove(&id)
    }

    /// It has failed; `copies` is how many brokers could be asked to store a copy.
    pub(crate) fn failed(&mut self, id: u64, stored: Stored, copies: u32) -> Option<AfterFailure> {
        let back = self.table.get_mut(&id)?;
        back.refusals += 1;
        // What cannot be read cannot be copied or delivered either: it is asked for again and again.
        let is_in_doubt = stored != Stored::No && back.about.is_some();
        let next = match back.stage {
            Stage::Asked if is_in_doubt => None,
            Stage::Asked if back.refusals <= self.retries => {
                let doublings = (back.refusals - 1).min(PAUSE_DOUBLINGS);
                return Some(AfterFailure::AskAgainIn(Duration::from_secs(1 << doublings)));
            }
            Stage::Asked if back.about.is_some() => Some(0),
            Stage::Copying(tried) if !is_in_doubt => Some(tried + 1),
            Stage::Asked | Stage::Copying(_) | Stage::Waiting | Stage::PutOff => None,
        };
        Some(match next.filter(|next| *next < copies.min(COPY_TRIES)) {
            Some(next) => {
                back.stage = Stage::Copying(next);
                AfterFailure::CopyTo(next)
            }
            None => {
                back.stage = Stage::Waiting;
                AfterFailure::DeliverAgainIn(self.local_retry)
            }
        })
    }

    /// A pause has ended.
    pub(crate) fn due(&mut self, id: u64) -> Option<Due> {
        match self.table.get(&id)?.stage {
            Stage::Waiting => self.table.remove(&id).map(Due::DeliverAgain),
            Stage::Asked => Some(Due::AskAgain),
            Stage::Copying(_) | Stage::PutOff => None,
        }
    }

    /// It is not asked yet.
    pub(crate) fn put_off(&mut self, id: u64) {
        if let Some(back) = self.table.get_mut(&id) {
            back.stage = Stage::PutOff;
        }
    }

    /// It is asked now.
    pub(crate) fn resume(&mut self, id: u64) {
        if let Some(back) = self.table.get_mut(&id) {
            back.stage = Stage::Asked;
        }
    }

    /// Those of a queue that are put off.
    pub(crate) fn put_off_of(&self, queue: QueueKey) -> Vec<u64> {
        let is_put_off = |back: &SendBack| back.queue == queue && back.stage == Stage::PutOff;
        let ids = self.table.iter().filter(|(_, back)| is_put_off(back));
        ids.map(|(id, _)| *id).collect()
    }

    /// Takes those that wait for their next delivery here.
    pub(crate) fn take_waiting(&mut self) -> Vec<(u64, SendBack)> {
        let is_waiting = |back: &SendBack| back.stage == Stage::Waiting && back.about.is_some();
        let ids = self.table.iter().filter(|(_, back)| is_waiting(back));
        let ids: Vec<u64> = ids.map(|(id, _)| *id).collect();
        ids.into_iter()
            .filter_map(|id| Some((id, self.table.remove(&id)?)))
            .collect()
    }

    /// The same for one queue, those that cannot be read among them.
    pub(crate) fn take_waiting_of(&mut self, queue: QueueKey) -> Vec<(u64, SendBack)> {
        let is_waiting = |back: &SendBack| back.stage == Stage::Waiting && back.queue == queue;
        let ids = self.table.iter().filter(|(_, back)| is_waiting(back));
        let ids: Vec<u64> = ids.map(|(id, _)| *id).collect();
        ids.into_iter()
            .filter_map(|id| Some((id, self.table.remove(&id)?)))
            .collect()
    }

    /// Forgets those of a queue that has left; returns their numbers.
    pub(crate) fn forget(&mut self, queue: QueueKey) -> Vec<u64> {
        let gone: Vec<u64> = self
            .table
            .iter()
            .filter(|(_, back)| back.queue == queue)
            .map(|(id, _)| *id)
            .collect();
        for id in &gone {
            self.table.remove(id);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::ids::PeerAddr;
    use AfterFailure as After;

    const LOCAL: AfterFailure = After::DeliverAgainIn(Duration::from_secs(5));

    const fn queue(generation: u32) -> QueueKey {
        QueueKey { slot: 0, generation }
    }

    fn backs() -> SendBacks {
        SendBacks::new(2, Duration::from_secs(5))
    }

    fn start(backs: &mut SendBacks, readable: bool) -> u64 {
        let about = readable.then(|| (String::from("id"), Topic::from("T")));
        backs.start(queue(1), 7, PhysicalOffset(99), about, Delay::Broker)
    }

    const fn again(secs: u64) -> AfterFailure {
        After::AskAgainIn(Duration::from_secs(secs))
    }

    #[test]
    fn it_is_asked_a_few_times_then_copied_then_delivered_again_here() {
        for (copies, then) in [
            (0, vec![LOCAL]),
            (2, vec![After::CopyTo(0), After::CopyTo(1), LOCAL]),
            (
                9,
                vec![After::CopyTo(0), After::CopyTo(1), After::CopyTo(2), LOCAL],
            ),
        ] {
            let mut backs = backs();
            let id = start(&mut backs, true);
            for want in [again(1), again(2)].into_iter().chain(then) {
                assert_eq!(backs.failed(id, Stored::No, copies), Some(want));
                let due = match want {
                    After::AskAgainIn(_) => Some(Due::AskAgain),
                    After::CopyTo(_) => None,
                    After::DeliverAgainIn(_) => continue,
                };
                assert_eq!(backs.due(id), due, "{want:?}");
            }
            assert!(matches!(backs.due(id), Some(Due::DeliverAgain(back)) if back.seq == 7));
            assert_eq!(
                (
                    backs.due(id),
                    backs.failed(id, Stored::No, copies),
                    backs.acknowledged(id)
                ),
                (None, None, None)
            );
        }
    }

    #[test]
    fn whatever_may_be_stored_is_not_asked_for_a_second_time() {
        for refusals in 0..5 {
            let mut backs = backs();
            let id = start(&mut backs, true);
            for _ in 0..refusals {
                backs.failed(id, Stored::No, 3);
            }
            assert_eq!(
                backs.failed(id, Stored::Perhaps, 3),
                Some(LOCAL),
                "after {refusals} refusals"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_asked_again_whatever_happened() {
        let mut backs = backs();
        let id = start(&mut backs, false);
        for want in [again(1), again(2), LOCAL] {
            assert_eq!(backs.failed(id, Stored::Perhaps, 3), Some(want));
        }
        assert!(backs.take_waiting().is_empty(), "there is nothing to deliver");
    }

    #[test]
    fn a_failure_tells_whether_something_was_stored() {
        let refused = |code, remark: &str| CallError::Broker {
            code,
            remark: remark.into(),
        };
        for (error, want) in [
            (CallError::NoRoute, Stored::No),
            (CallError::Connect(PeerAddr::new("b", 1)), Stored::No),
            (CallError::Overloaded, Stored::No),
            (CallError::Timeout, Stored::Perhaps),
            (CallError::Closed, Stored::Perhaps),
            (CallError::Malformed(String::new()), Stored::Perhaps),
            (refused(1, "look message by offset failed, 7"), Stored::No),
            (refused(1, "OS_PAGE_CACHE_BUSY"), Stored::No),
            (refused(1, "UNKNOWN_ERROR"), Stored::Perhaps),
            (refused(1, "FLUSH_DISK_TIMEOUT"), Stored::Yes),
            (refused(1, "FLUSH_SLAVE_TIMEOUT"), Stored::Yes),
            (refused(1, "SLAVE_NOT_AVAILABLE"), Stored::Yes),
            (refused(2, "FLUSH_DISK_TIMEOUT"), Stored::No),
            (refused(16, "the broker cannot be written to"), Stored::No),
        ] {
            assert_eq!(Stored::despite(&error), want, "{error:?}");
        }
    }

    #[test]
    fn those_that_wait_for_a_delivery_here_can_be_called_off() {
        let mut backs = backs();
        let (waits, asked) = (start(&mut backs, true), start(&mut backs, true));
        backs.failed(waits, Stored::Perhaps, 0);
        let taken: Vec<u64> = backs.take_waiting().into_iter().map(|(id, _)| id).collect();
        assert_eq!((taken, backs.len()), (vec![waits], 1));
        assert!(backs.get(asked).is_some());
    }

    #[test]
    fn those_of_a_queue_that_left_are_forgotten() {
        let mut backs = backs();
        let first = backs.start(queue(1), 1, PhysicalOffset(1), None, Delay::Broker);
        let second = backs.start(queue(2), 1, PhysicalOffset(2), None, Delay::Level(3));
        assert_eq!(backs.forget(queue(1)), [first]);
        assert_eq!(
            (
                backs.acknowledged(first),
                backs.acknowledged(second).map(|b| b.delay)
            ),
            (None, Some(Delay::Level(3)))
        );
    }
}
