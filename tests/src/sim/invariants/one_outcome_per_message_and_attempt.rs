//! What a handler was given has one outcome: it is done, or it is taken back by the broker, or it is given to a
//! handler again. Never two of them.
//!
//! Source: P35 and P38. Within one ownership a message that is with a handler, that is done, or that the broker
//! has taken back is not delivered again; what is done is not sent back; what the broker has acknowledged as
//! sent back is not sent back again; and as long as nobody knows what became of a send back or a copy, no other
//! one is asked for. A copy that is produced is as good as a send back.
//!
//! Legal all the same: the same message in another ownership, or from the retry topic (that is another copy);
//! a second send back, or a copy, once the first one was refused; and a delivery again here, counted as one more
//! attempt, when sending back has failed or its answer was lost. And a Java-like member that reads again because a
//! slave that is behind has sent it back.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::event::Verdict;
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::message::{OrderlyOutcome, Outcome};
use rocketmq_consumer_core::time::Instant;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Answer, Ask, Deed, Life, Seen, Sight, Sights, What};
use crate::sim::tenures::{Accounts, Tenure};

/// An answer that comes later than this may have found nobody waiting: no send back has a longer deadline.
const PROMPT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    /// Withdrawn before a handler began it.
    Unbegun,
    Failed,
    /// A send back or a copy was written, and nothing is known of it.
    Asked,
    Done,
    TakenBack,
}

#[derive(Debug, Default)]
struct Account {
    messages: BTreeMap<QueueOffset, (State, u32)>,
    by_place: BTreeMap<PhysicalOffset, QueueOffset>,
}

/// A send back that was written.
#[derive(Debug)]
struct Back {
    tenure: Tenure,
    offset: QueueOffset,
    /// When; `None` if it may have waited for its link, so that nobody sees how much of its time was left.
    at: Option<Instant>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct OneOutcomePerMessageAndAttempt {
    accounts: Accounts<Account>,
    backs: Requests<Back>,
}

impl OneOutcomePerMessageAndAttempt {
    fn deliver(&mut self, life: Life, deed: &Deed<'_>, view: &dyn View) -> Result<(), Broken> {
        let Deed::Delivered {
            queue,
            batch,
            range,
            attempt,
            ..
        } = *deed
        else {
            return Ok(());
        };
        let is_ours = view.tenures().is_ours(life);
        let Some(tenure) = view.tenures().newest(life, queue) else {
            return Ok(());
        };
        let account = self.accounts.of_mut(tenure);
        for position in range.start..range.end {
            let Some(record) = batch.record(position) else {
                continue;
            };
            let offset = record.queue_offset();
            let before = account.messages.insert(offset, (State::Out, attempt));
            let is_right = match before {
                None => attempt == 0,
                Some((State::Unbegun, tried)) => attempt == tried,
                Some((State::Failed | State::Asked, tried)) => attempt == tried + 1,
                Some((State::Out | State::Done | State::TakenBack, _)) => !is_ours,
            };
            if !is_right {
                return Err(Broken(format!(
                    "{life:?} delivers {offset} of {} as attempt {attempt}; before: {before:?}",
                    view.queue(queue)
                )));
            }
            account.by_place.insert(record.physical_offset(), offset);
        }
        Ok(())
    }

    fn settle(&mut self, life: Life, deed: &Deed<'_>, view: &dyn View) {
        let Deed::Settled {
            run, offset, verdict, ..
        } = *deed
        else {
            return;
        };
        let tenure = view.tenures().of_run(life, run);
        let message = tenure.and_then(|tenure| self.accounts.of_mut(tenure).messages.get_mut(&offset));
        // A handler that was abandoned comes too late: its message has an outcome already.
        let Some((state @ State::Out, _)) = message else {
            return;
        };
        *state = match verdict {
            Verdict::Handled(Outcome::Done) | Verdict::Ordered(OrderlyOutcome::Commit) => State::Done,
            Verdict::NotStarted => State::Unbegun,
            Verdict::Handled(_) | Verdict::Ordered(_) | Verdict::Undecodable | Verdict::Unsupported => {
                State::Failed
            }
        };
    }

    /// A send back or a copy was written.
    fn put_back(&mut self, at: Instant, life: Life, deed: &Deed<'_>, view: &dyn View) -> Result<(), Broken> {
        let Deed::Asked {
            conn,
            node,
            opaque,
            ask,
            ..
        } = *deed
        else {
            return Ok(());
        };
        if !matches!(ask, Ask::SendBack { .. } | Ask::Copy { .. }) {
            return Ok(());
        }
        let tenures = view.tenures();
        let at = (!tenures.may_have_waited(life, conn)).then_some(at);
        let mut named = Vec::new();
        for tenure in tenures.of_life(life) {
            let is_home = tenures.is_home(node, tenure.queue, view);
            let Account { messages, by_place } = self.accounts.of(tenure);
            let is_meant = |offset: &QueueOffset| match ask {
                Ask::SendBack { physical, .. } => is_home && by_place.get(&physical) == Some(offset),
                Ask::Copy { origin, .. } => view.origin(tenure.queue, *offset) == Some(origin),
                _ => false,
            };
            let meant = messages.iter().filter(|(offset, _)| is_meant(offset));
            named.extend(meant.map(|(offset, (state, _))| (tenure, *offset, *state)));
        }
        // Past its deadline it is sent back although its handler has not ended.
        let may_be = |state| matches!(state, State::Out | State::Failed);
        let candidates: Vec<_> = named.iter().filter(|(.., state)| may_be(*state)).collect();
        match (candidates.as_slice(), named.first()) {
            (&[&(tenure, offset, _)], _) => {
                if let Some((state, _)) = self.accounts.of_mut(tenure).messages.get_mut(&offset) {
                    *state = State::Asked;
                }
                let back = Back {
                    tenure: *tenure,
                    offset,
                    at,
                };
                self.backs.asked(life, conn, opaque, back);
                Ok(())
            }
            ([], Some((tenure, offset, state))) => {
                let queue = view.queue(tenure.queue);
                Err(Broken(format!(
                    "{life:?} puts back {offset} of {queue}, which is {state:?}: {ask:?}"
                )))
            }
            // Several stored messages may be copies of one, and fail together: which one is meant is not to be seen.
            _ => Ok(()),
        }
    }

    /// A send back or a copy was answered.
    fn answered(&mut self, at: Instant, life: Life, deed: &Deed<'_>) {
        let Deed::Answered {
            conn, opaque, answer, ..
        } = *deed
        else {
            return;
        };
        let Some(back) = self.backs.answered(life, conn, opaque) else {
            return;
        };
        let next = match answer {
            Answer::Done if back.at.is_some_and(|asked| at <= asked + PROMPT) => State::TakenBack,
            Answer::Refused(_) => State::Failed,
            _ => return,
        };
        if let Some((state, _)) = self.accounts.of_mut(&back.tenure).messages.get_mut(&back.offset)
            && (next == State::TakenBack || *state == State::Asked)
        {
            *state = next;
        }
    }
}

impl Invariant for OneOutcomePerMessageAndAttempt {
    fn name(&self) -> &'static str {
        "one_outcome_per_message_and_attempt"
    }

    fn looks_at(&self) -> Sights {
        requests::ENDS.and(Sights::of(&[
            Sight::AskedAgain,
            Sight::AnsweredAgain,
            Sight::Delivered,
            Sight::Settled,
        ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        self.settle(life, &deed, view);
        self.backs.see(life, &deed, |_| {});
        self.answered(seen.at, life, &deed);
        self.deliver(life, &deed, view)?;
        self.put_back(seen.at, life, &deed, view)
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::wire::code::ResponseCode;

    use super::super::bench::{Bench, retry};
    use super::*;

    fn bench() -> Bench<OneOutcomePerMessageAndAttempt> {
        let mut bench = Bench::new(OneOutcomePerMessageAndAttempt::default());
        bench.ours().assign(1, 100).deliver(1, 100..102).legal();
        bench
    }

    #[test]
    fn what_is_with_a_handler_or_done_is_not_delivered_again() {
        bench().deliver(2, 100..101).breaks("Out");
        bench().done(1, 100).deliver(2, 100..101).breaks("Done");
        bench().done(1, 100).deliver_again(2, 100..101, 1).breaks("Done");
        bench().revoke(1).assign(2, 100).deliver(2, 100..101).legal();
    }

    #[test]
    fn attempts_are_counted() {
        bench()
            .settle(1, 100, retry())
            .deliver(2, 100..101)
            .breaks("attempt 0");
        bench()
            .settle(1, 100, retry())
            .deliver_again(2, 100..101, 1)
            .legal();
        bench()
            .settle(1, 100, Verdict::NotStarted)
            .deliver(2, 100..101)
            .legal();
        bench()
            .settle(1, 100, Verdict::NotStarted)
            .deliver_again(2, 100..101, 1)
            .breaks("attempt 1");
    }

    #[test]
    fn what_is_done_or_taken_back_is_not_sent_back() {
        bench().done(1, 100).send_back(100).breaks("Done");
        let taken_back = || {
            let mut bench = bench();
            bench
                .settle(1, 100, retry())
                .send_back(100)
                .answer_last(Answer::Done)
                .legal();
            bench
        };
        taken_back().send_back(100).breaks("TakenBack");
        taken_back().deliver_again(2, 100..101, 1).breaks("TakenBack");
        taken_back().deliver(2, 102..103).legal();
    }

    fn asked() -> Bench<OneOutcomePerMessageAndAttempt> {
        let mut bench = bench();
        bench.settle(1, 100, retry()).send_back(100).legal();
        bench
    }

    #[test]
    fn what_may_be_stored_already_is_not_asked_for_again() {
        asked().send_back(100).breaks("Asked");
        asked().disconnected().send_back(100).breaks("Asked");
        asked().copy(100).breaks("Asked");
        let refused = Answer::Refused(ResponseCode::SYSTEM_ERROR);
        asked().answer_last(refused).send_back(100).legal();
        asked()
            .answer_last(refused)
            .copy(100)
            .answer_last(refused)
            .copy(100)
            .legal();
        asked()
            .answer_last(refused)
            .copy(100)
            .answer_last(Answer::Done)
            .copy(100)
            .breaks("TakenBack");
    }

    #[test]
    fn an_answer_that_was_lost_or_late_allows_a_delivery_here_and_then_another_try() {
        let again = |bench: &mut Bench<OneOutcomePerMessageAndAttempt>| {
            bench.deliver_again(2, 100..101, 1).settle(2, 100, retry());
            bench.send_back(100).legal();
        };
        again(asked().disconnected());
        again(asked().at(6_000).answer_last(Answer::Done));
        // It waited for its link, and nobody sees for how long.
        let mut waited = bench();
        waited.settle(1, 100, retry()).connected().send_back(100);
        again(waited.answer_last(Answer::Done));
    }
}
