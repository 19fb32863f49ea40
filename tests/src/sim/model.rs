//! The reference model: what a consumer has to know of its queues, and nothing of how it comes to know it.
//!
//! For each ownership of a queue: the offset to pull next, and every message that was fetched and is not
//! finished. It is fed with what is seen, and after each step compared with what the machine did:
//!
//! | the machine | has to |
//! |---|---|
//! | owns a queue | start where an answer of this very step says: "unknown" is not a position; never lower than it |
//! | | says, and higher only up to what it had itself finished when it last owned the queue |
//! | is told to go on elsewhere | do what its policy says, and nothing on a slave's word |
//! | pulls | ask for the offset the last answer told |
//! | delivers | what was fetched, each attempt once |
//! | commits, or carries an offset with a pull | name the lowest unfinished offset, exactly |
//! | leaves, all handlers having ended in time | have committed that offset, unless it has lost the queue's lock |
//!
//! Where an observer cannot know which of two things the machine saw first (an answer at its deadline, a report
//! at the end of a grace) the model allows both; where an answer holds a record that cannot be read, it gives up
//! on that ownership. It shares the wire and the tag filter with the machine, and not one decision.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the model looks at the few deeds that concern it, and a new kind of deed concerns none of them"
)]

mod book;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::config::{IllegalOffsetPolicy, MessageModel};
use rocketmq_consumer_core::event::{AppEvent, SeekTo, Verdict};
use rocketmq_consumer_core::ids::{ConsumeId, Epoch, MessageQueue, PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::message::{Batch, OrderlyOutcome, Outcome};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_core::wire::subscription::Subscription;

pub(in crate::sim) use book::{Book, Held};

use book::State;

use super::invariant::{Broken, Invariant, View};
use super::invariants::leases::Leases;
use super::invariants::obstacles::Obstacles;
use super::invariants::requests::{self, Requests};
use super::seen::{Answer, Ask, Deed, Life, NodeNo, QueueNo, Seen, Sight, Sights, What};
use super::tenures::{Accounts, Tenure};

/// An answer that comes later than this may have found nobody waiting.
const PROMPT: Duration = Duration::from_secs(2);

/// A pull that was written.
#[derive(Clone, Copy, Debug)]
struct PullOut {
    tenure: Tenure,
    serial: u64,
    asked: QueueOffset,
    /// When the machine gives it up.
    until: Instant,
}

/// Another request that was written.
#[derive(Clone, Copy, Debug)]
enum Question {
    Pull(PullOut),
    Stored(QueueNo),
    Start,
    Back {
        tenure: Tenure,
        offset: QueueOffset,
        /// When; `None` if it may have waited for its link.
        at: Option<Instant>,
    },
}

/// Why a queue may be owned in the step that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Stored(QueueNo, QueueOffset),
    /// Nothing is stored: where it was left, if it was.
    NoneStored(QueueNo),
    /// Some question where to start was answered.
    Start,
    /// The broker moved it: as far as the policy says, or not so far when it ends before what was asked for, since
    /// that decides nothing about what is unfinished.
    Moved {
        queue: QueueNo,
        least: QueueOffset,
        to: QueueOffset,
    },
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::sim) struct RefConsumer {
    books: Accounts<Book>,
    questions: Requests<Question>,
    wanted: BTreeMap<Life, Vec<Subscription>>,
    /// Lives that keep their offsets themselves, and drop what fails.
    broadcasting: BTreeSet<Life>,
    positions: Vec<Position>,
    /// Where lives left queues: everything below was finished.
    left: BTreeMap<(Life, QueueNo), QueueOffset>,
    /// When a member last met what may keep it from committing.
    obstacles: Obstacles,
    leases: Leases,
}

impl RefConsumer {
    /// What is known of the ownership that counts now.
    pub(in crate::sim) fn book(&self, life: Life, queue: QueueNo, view: &dyn View) -> Option<&Book> {
        let newest = view.tenures().newest(life, queue)?;
        Some(self.books.of(newest))
    }

    /// All ownerships of a life that last.
    pub(in crate::sim) fn books(&self, life: Life, view: &dyn View) -> impl Iterator<Item = &Book> {
        let tenures = view.tenures().of_life(life).iter();
        tenures.map(|tenure| self.books.of(tenure))
    }

    // ---- what came in ---------------------------------------------------------------------------

    fn answered(
        &mut self,
        at: Instant,
        life: Life,
        question: Question,
        answer: &Answer<'_>,
        view: &dyn View,
    ) {
        match (question, answer) {
            (
                Question::Pull(pull),
                Answer::Pulled {
                    status,
                    next,
                    records,
                    bounds,
                    reset,
                    by_slave,
                },
            ) => {
                let to = Word {
                    to: *next,
                    bounds: *bounds,
                    reset: *reset,
                    by_slave: *by_slave,
                };
                self.pulled(life, pull, (*status, to, records), view);
            }
            (Question::Stored(queue), Answer::Offset(Some(offset))) => {
                self.positions.push(Position::Stored(queue, *offset));
            }
            (Question::Stored(queue), Answer::Offset(None)) => {
                self.positions.push(Position::NoneStored(queue))
            }
            (Question::Start, Answer::Done | Answer::Offset(_)) => self.positions.push(Position::Start),
            (
                Question::Back {
                    tenure,
                    offset,
                    at: asked,
                },
                Answer::Done,
            ) => {
                let book = self.books.of_mut(&tenure);
                if asked.is_some_and(|asked| at <= asked + PROMPT) {
                    book.finish(offset);
                } else {
                    book.set(offset, State::Unsure);
                }
            }
            _ => {}
        }
    }

    fn pulled(
        &mut self,
        life: Life,
        pull: PullOut,
        (status, word, records): (PullStatus, Word, &Bytes),
        view: &dyn View,
    ) {
        let next = word.to;
        let policy = *view.config(life).illegal_offset();
        let alive = view.tenures().alive(life);
        // Given up already, or nobody's any more.
        if alive.is_none_or(|alive| alive.woken_at >= pull.until) {
            return;
        }
        if status == PullStatus::OffsetMoved {
            // One that is being given back, or whose member leaves, may still go on there: to commit that.
            let Tenure { queue, epoch, .. } = pull.tenure;
            let asking = view.tenures().of_epoch(life, queue, epoch);
            let position = asking.and_then(|tenure| word.position(pull, self.books.of(tenure), policy));
            return self.positions.extend(position);
        }
        if alive.is_some_and(|alive| alive.leaving.is_some()) {
            return;
        }
        let queue = pull.tenure.queue;
        let Some(tenure) = view.tenures().newest(life, queue) else {
            return;
        };
        let book = self.books.of_mut(tenure);
        if tenure.no != pull.tenure.no || book.serial != pull.serial || next < pull.asked {
            return;
        }
        book.doubt();
        match status {
            PullStatus::Found => {
                let topic = &view.queue(queue).topic;
                let wanted = self.wanted.get(&life).into_iter().flatten();
                let wanted = wanted
                    .into_iter()
                    .find(|subscription| subscription.topic == *topic);
                book.take_in(pull.asked, next, records, wanted);
            }
            PullStatus::NotFound | PullStatus::RetryImmediately | PullStatus::OffsetMoved => book.next = next,
        }
    }

    fn settled(
        &mut self,
        life: Life,
        (run, offset): (ConsumeId, QueueOffset),
        verdict: Verdict,
        view: &dyn View,
    ) {
        let Some(tenure) = view.tenures().of_run(life, run) else {
            return;
        };
        let book = self.books.of_mut(tenure);
        // One that was abandoned has its outcome already.
        if self.broadcasting.contains(&life) && matches!(verdict, Verdict::Handled(_)) {
            return book.finish(offset);
        }
        if book
            .unfinished
            .get(&offset)
            .is_none_or(|slot| slot.state != State::Out)
        {
            return;
        }
        match verdict {
            Verdict::Handled(Outcome::Done) | Verdict::Ordered(OrderlyOutcome::Commit) => book.finish(offset),
            Verdict::NotStarted => book.set(offset, State::Waiting),
            Verdict::Handled(_) | Verdict::Ordered(_) => book.set(offset, State::Failing),
            // What becomes of it is a matter of policy.
            Verdict::Undecodable | Verdict::Unsupported => book.gave_up = true,
        }
    }

    // ---- what the machine did -------------------------------------------------------------------

    fn assigned(
        &mut self,
        life: Life,
        queue: QueueNo,
        from: QueueOffset,
        view: &dyn View,
    ) -> Result<(), Broken> {
        let positions = &self.positions;
        let tenures = view.tenures().of(life, queue).iter();
        // One that is being given back still counts: its last commit may wait for a broker that is down.
        let given_back = tenures.map(|tenure| self.books.of(tenure).lowest().1);
        let left = self.left.get(&(life, queue)).copied().into_iter();
        let left = left.chain(given_back).max().unwrap_or(QueueOffset(0));
        let fits = positions.iter().any(|position| match *position {
            Position::Stored(of, offset) => of == queue && offset <= from && (offset == from || from <= left),
            Position::Moved { queue: of, least, to } => of == queue && (least..=to).contains(&from),
            Position::NoneStored(of) => of == queue,
            Position::Start => true,
        });
        if !fits && !self.broadcasting.contains(&life) {
            return Err(Broken(format!(
                "{life:?} starts {} at {from}, but what it was told is {positions:?}",
                view.queue(queue)
            )));
        }
        if let Some(tenure) = view.tenures().newest(life, queue) {
            self.books.of_mut(tenure).start(from);
        }
        Ok(())
    }

    fn delivered(
        &mut self,
        tenure: &Tenure,
        batch: &Batch,
        positions: std::ops::Range<u32>,
        attempt: u32,
    ) -> Result<(), String> {
        let book = self.books.of_mut(tenure);
        if book.gave_up {
            return Ok(());
        }
        for position in positions {
            let Some(entry) = batch.entry(position) else {
                continue;
            };
            let offset = entry.queue_offset();
            let slot = book.unfinished.get(&offset);
            let is_due = slot.as_ref().is_some_and(|slot| match slot.state {
                State::Waiting => attempt == slot.attempt,
                State::Failing | State::Unsure => attempt == slot.attempt + 1,
                State::Out => false,
            });
            if !is_due {
                return Err(format!(
                    "delivers {offset} of {} as attempt {attempt}; the model has {slot:?}",
                    batch.queue()
                ));
            }
            book.set(offset, State::Out);
            if let Some(slot) = book.unfinished.get_mut(&offset) {
                slot.attempt = attempt;
            }
        }
        Ok(())
    }

    fn asked_pull(
        &mut self,
        at: Instant,
        life: Life,
        ask: Ask,
        view: &dyn View,
    ) -> Result<Option<Question>, Broken> {
        let Ask::Pull {
            queue,
            offset,
            commit,
            ..
        } = ask
        else {
            return Ok(None);
        };
        if let Some(commit) = commit {
            self.compare(at, life, queue, commit, view)?;
        }
        let until = at + *view.config(life).pull_deadline();
        let Some(tenure) = view.tenures().newest(life, queue) else {
            return Ok(None);
        };
        let book = self.books.of_mut(tenure);
        if !book.gave_up && offset != book.next {
            let name = view.queue(queue);
            return Err(Broken(format!(
                "{life:?} pulls {name} from {offset}, next is {}",
                book.next
            )));
        }
        book.pulls_on();
        Ok(Some(Question::Pull(PullOut {
            tenure: *tenure,
            serial: book.serial,
            asked: offset,
            until,
        })))
    }

    fn compare(
        &mut self,
        at: Instant,
        life: Life,
        queue: QueueNo,
        value: QueueOffset,
        view: &dyn View,
    ) -> Result<(), Broken> {
        let is_over = |(_, until)| at >= until;
        let alive = view.tenures().alive(life);
        let may_be_older =
            alive.is_some_and(|alive| alive.connected.is_some() || alive.leaving.is_some_and(is_over));
        let mut wrong = None;
        for tenure in view.tenures().of(life, queue) {
            let book = self.books.of_mut(tenure);
            let (least, most) = book.lowest();
            let is_right = value <= most && (value >= least || may_be_older || tenure.revoked_at.is_some());
            if is_right || book.gave_up {
                book.committed = Some(value);
                return Ok(());
            }
            wrong = Some((tenure.epoch, least, most));
        }
        match wrong {
            Some((epoch, least, most)) => Err(Broken(format!(
                "{life:?} commits {} at {value}; the lowest unfinished offset of {epoch:?} is {least} to {most}",
                view.queue(queue)
            ))),
            None => Ok(()),
        }
    }

    /// A message past its deadline is sent back although its handler has not ended.
    fn asked_back(
        &mut self,
        at: Instant,
        life: Life,
        (node, physical): (NodeNo, PhysicalOffset),
        view: &dyn View,
    ) -> Option<Question> {
        let tenures = view.tenures();
        let of_life = tenures.of_life(life).iter();
        let mut best: Option<((bool, Epoch), &Tenure, QueueOffset)> = None;
        for tenure in of_life.filter(|tenure| tenures.is_home(node, tenure.queue, view)) {
            let mut slots = self.books.of(tenure).unfinished.iter();
            let found = slots.find(|(_, slot)| slot.physical == physical && slot.state != State::Waiting);
            if let Some((offset, slot)) = found {
                // A queue can be ours again while the ownership before still waits for its handlers: then it is
                // that of the handler that has failed, and of two such the later.
                let rank = (slot.state == State::Failing, tenure.epoch);
                if best.as_ref().is_none_or(|(other, ..)| *other < rank) {
                    best = Some((rank, tenure, *offset));
                }
            }
        }
        let (_, tenure, offset) = best?;
        self.books.of_mut(tenure).set(offset, State::Failing);
        Some(Question::Back {
            tenure: *tenure,
            offset,
            at: asked_at(at, life, view),
        })
    }

    /// A copy of a message is to be stored in place of its send back. Several that have failed may be copies of one
    /// themselves; which of them is meant is not to be seen.
    fn asked_copy(&mut self, at: Instant, life: Life, origin: u32, view: &dyn View) -> Option<Question> {
        let mut candidates = Vec::new();
        for tenure in view.tenures().of_life(life) {
            let failing = self.books.of(tenure).unfinished.iter().filter(|(offset, slot)| {
                slot.state == State::Failing && view.origin(tenure.queue, **offset) == Some(origin)
            });
            candidates.extend(failing.map(|(offset, _)| (tenure, *offset)));
        }
        if let [(tenure, offset)] = *candidates {
            return Some(Question::Back {
                tenure: *tenure,
                offset,
                at: asked_at(at, life, view),
            });
        }
        for (tenure, offset) in candidates {
            self.books.of_mut(tenure).set(offset, State::Unsure);
        }
        None
    }

    /// A member that leaves gives a queue up before its handlers must have ended, so they have: everything they
    /// finished should have been committed.
    fn given_up(&mut self, at: Instant, life: Life, tenure: &Tenure, view: &dyn View) -> Result<(), Broken> {
        let queue = tenure.queue;
        let ours = view.tenures().alive(life).filter(|alive| alive.is_ours());
        let Some((asked, until)) = ours.and_then(|alive| alive.leaving) else {
            return Ok(());
        };
        let may_commit = !view.config(life).is_orderly() || !self.leases.is_lost(life, queue);
        if !may_commit || self.broadcasting.contains(&life) || at >= until || self.obstacles.met(asked, life)
        {
            return Ok(());
        }
        let book = self.books.of(tenure);
        if tenure.revoked_at.is_some() || !book.is_known() {
            return Ok(());
        }
        let (least, _) = book.lowest();
        if book.committed < Some(least) {
            return Err(Broken(format!(
                "{life:?} leaves {} with {:?} committed; everything below {least} is finished",
                view.queue(queue),
                book.committed
            )));
        }
        Ok(())
    }

    fn asked(
        &mut self,
        at: Instant,
        life: Life,
        (node, ask): (NodeNo, Ask),
        view: &dyn View,
    ) -> Result<Option<Question>, Broken> {
        const STARTS: [RequestCode; 3] = [
            RequestCode::GET_MAX_OFFSET,
            RequestCode::GET_MIN_OFFSET,
            RequestCode::SEARCH_OFFSET_BY_TIMESTAMP,
        ];
        match ask {
            Ask::Pull { .. } => self.asked_pull(at, life, ask, view),
            Ask::Commit { queue, offset, .. } => self.compare(at, life, queue, offset, view).map(|()| None),
            Ask::QueryOffset { queue, .. } => Ok(Some(Question::Stored(queue))),
            Ask::SendBack { physical, .. } => Ok(self.asked_back(at, life, (node, physical), view)),
            Ask::Copy { origin, .. } => Ok(self.asked_copy(at, life, origin, view)),
            Ask::Other(code) if STARTS.contains(&code) => Ok(Some(Question::Start)),
            Ask::Members { .. }
            | Ask::Lock { .. }
            | Ask::Unlock { .. }
            | Ask::Heartbeat
            | Ask::Unregister { .. }
            | Ask::Other(_) => Ok(None),
        }
    }

    /// The application wants to go on elsewhere in a queue.
    fn sought(&mut self, life: Life, name: &MessageQueue, to: SeekTo, view: &dyn View) {
        let mut owned = view.tenures().of_life(life).iter();
        let tenure = owned.find(|tenure| view.queue(tenure.queue) == name);
        if let (Some(Tenure { queue, .. }), SeekTo::Offset(to)) = (tenure, to) {
            let queue = *queue;
            self.positions.push(Position::Moved { queue, least: to, to });
        }
    }

    fn begun(&mut self, life: Life, view: &dyn View) {
        if *view.config(life).model() == MessageModel::Broadcasting {
            self.broadcasting.insert(life);
        }
        let subscriptions = view.config(life).subscriptions().iter();
        let wanted = subscriptions.filter_map(|(topic, filter)| filter.subscription(topic.clone()).ok());
        self.wanted.insert(life, wanted.collect());
    }
}

impl Invariant for RefConsumer {
    fn name(&self) -> &'static str {
        "reference_model"
    }

    fn looks_at(&self) -> Sights {
        let others = Sights::ASKED.and(Sights::ANSWERED).and(Sights::of(&[
            Sight::Begun,
            Sight::Wished,
            Sight::Delivered,
            Sight::Abandoned,
            Sight::Settled,
            Sight::StepEnd,
        ]));
        requests::ENDS
            .and(Obstacles::SIGHTS)
            .and(Leases::SIGHTS)
            .and(others)
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        if !view.tenures().is_ours(life) {
            return Ok(());
        }
        self.leases.see(seen.at, life, &deed);
        self.questions.see(life, &deed, |_| {});
        self.obstacles.see(seen.at, life, &deed);
        match deed {
            Deed::Begun { .. } => self.begun(life, view),
            Deed::Settled {
                run, offset, verdict, ..
            } => self.settled(life, (run, offset), verdict, view),
            Deed::Revoked { queue, epoch, .. } => {
                if let Some(tenure) = view.tenures().of_epoch(life, queue, epoch) {
                    self.given_up(seen.at, life, tenure, view)?;
                    self.left.insert((life, queue), self.books.of(tenure).lowest().1);
                }
            }
            Deed::Wished(AppEvent::Seek { queue, to, .. }) => self.sought(life, queue, *to, view),
            // Where failures are dropped, this one is.
            Deed::Abandoned { run, offset, .. } if self.broadcasting.contains(&life) => {
                if let Some(tenure) = view.tenures().of_run(life, run) {
                    self.books.of_mut(tenure).finish(offset);
                }
            }
            Deed::StepEnd { .. } => self.positions.clear(),
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                if let Some(question) = self.questions.answered(life, conn, opaque) {
                    self.answered(seen.at, life, question, &answer, view);
                }
            }
            Deed::Asked {
                conn,
                node,
                opaque,
                ask,
                ..
            } => {
                if let Some(question) = self.asked(seen.at, life, (node, ask), view)? {
                    self.questions.asked(life, conn, opaque, question);
                }
            }
            Deed::Assigned { queue, from, .. } => return self.assigned(life, queue, from, view),
            Deed::Delivered {
                queue,
                batch,
                range,
                attempt,
                ..
            } => {
                if let Some(tenure) = view.tenures().newest(life, queue) {
                    let delivered = self.delivered(tenure, batch, range.start..range.end, attempt);
                    return delivered.map_err(|words| Broken(format!("{life:?} {words}")));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// When something is asked for; `None` if it may have waited for its link.
fn asked_at(at: Instant, life: Life, view: &dyn View) -> Option<Instant> {
    let alive = view.tenures().alive(life);
    let waited = alive.is_some_and(|alive| alive.connected.is_some());
    (!waited).then_some(at)
}

/// What a broker says about where to go on.
#[derive(Clone, Copy, Debug)]
struct Word {
    to: QueueOffset,
    bounds: (QueueOffset, QueueOffset),
    reset: bool,
    by_slave: bool,
}

impl Word {
    /// Where the queue may go on for it, without another question.
    fn position(self, pull: PullOut, book: &Book, policy: IllegalOffsetPolicy) -> Option<Position> {
        let (min, max) = self.bounds;
        let is_legal = self.reset || (min..=max).contains(&pull.asked);
        let to = match policy {
            _ if self.by_slave => return None,
            _ if is_legal => self.to,
            IllegalOffsetPolicy::Hold => return None,
            IllegalOffsetPolicy::Earliest => min,
            IllegalOffsetPolicy::Latest => max,
            _ => self.to,
        };
        let ends_below = !is_legal && pull.asked > max;
        let least = if ends_below { book.lowest().0.min(to) } else { to };
        let queue = pull.tenure.queue;
        Some(Position::Moved { queue, least, to })
    }
}

#[cfg(test)]
mod tests;
