//! The account of an outsider: what the brokers told a machine of each queue, what became of it, and
//! whether what the machine does is consistent with that.
#![allow(dead_code, reason = "each suite uses another part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rocketmq_consumer_core::action::AppAction;
use rocketmq_consumer_core::event::{AppEvent, Verdict};
use rocketmq_consumer_core::ids::{MessageQueue, PhysicalOffset, QueueId, QueueOffset, Topic};
use rocketmq_consumer_core::message::{Message, Outcome};
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::Frame;
use rocketmq_consumer_core::wire::request::offsets::{
    CommitOffsetRequest, MinOffsetRequest, OffsetAnswer, QueryOffsetRequest, StoredOffset,
};
use rocketmq_consumer_core::wire::request::operator::ResetOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::send_back::SendBackRequest;
use rocketmq_consumer_core::wire::request::{Request as _, decode_answer, decode_request};
use rocketmq_consumer_core::wire::stored::{Record, Scanned, Scanner};
use rocketmq_consumer_core::wire::subscription::Subscription;
use rocketmq_consumer_testing::generate::{Driver, OpenRun, Seen, Shelf};
use rocketmq_consumer_testing::world::Asked;

/// What is known of one queue.
#[derive(Debug, Default)]
struct Account {
    /// Below it a broker has said that there is nothing to do.
    floor: i64,
    /// Messages that were served and not finished.
    unfinished: BTreeSet<i64>,
    /// Messages that were finished, or of which a broker said that they are not there.
    over: BTreeSet<i64>,
    /// A broker said of a long stretch that nothing is there, which `over` does not list.
    has_long_gaps: bool,
}

/// What a machine does wrong, in words.
pub(crate) type Fault = String;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<MessageQueue, Account>,
    handed_out: BTreeSet<(u64, u32)>,
    /// The messages that were served with a physical offset: a lie may give it to several.
    places: BTreeMap<PhysicalOffset, Vec<(MessageQueue, i64)>>,
    /// Queues with a record of a format that only a newer build may read: nothing passes it.
    pub(crate) held: BTreeSet<MessageQueue>,
    /// The application wants others of the messages, or none: what that means for those that were served is not booked.
    pub(crate) has_other_wishes: bool,
    /// How many messages were handed out.
    pub(crate) delivered: usize,
    /// How many commits were looked at.
    pub(crate) commits: usize,
}

impl Ledger {
    /// Books what a step has shown.
    pub(crate) fn book(&mut self, driver: &Driver, seen: &[Seen]) -> Result<(), Fault> {
        let shelf = driver.shelf();
        for seen in seen {
            self.has_other_wishes |= is_about(seen, &shelf.subscription.topic);
            if self.has_other_wishes {
                return Ok(());
            }
            match seen {
                Seen::Requested(frame) => self.requested(shelf, frame),
                Seen::Wished(_) => {}
                Seen::Answered { asked, frame } => self.answered(shelf, asked, frame),
                Seen::Reported { message, verdict } => {
                    if *verdict == Verdict::Handled(Outcome::Done) {
                        self.account(message.batch().queue())
                            .finish(message.queue_offset().0);
                    }
                }
                Seen::Asked(asked) => self.asked(shelf, asked)?,
                Seen::Delivered(run) => self.handed_out(&shelf.subscription, run)?,
                Seen::Told(AppAction::Notice(notice)) => {
                    if let NoticeKind::Undecodable {
                        queue, fate: "held", ..
                    } = &notice.kind
                    {
                        self.held.insert(queue.clone());
                    }
                }
                Seen::Told(_) => {}
            }
        }
        Ok(())
    }

    /// A peer has answered, perhaps with what is no answer to the request.
    fn answered(&mut self, shelf: &Shelf, asked: &Asked, frame: &Frame) {
        match asked.code {
            RequestCode::PULL_MESSAGE => {
                if let Ok(answer) = decode_answer::<PullRequest>(frame) {
                    self.pulled(shelf, asked, &answer);
                }
            }
            RequestCode::QUERY_CONSUMER_OFFSET => {
                let queue = asked.request::<QueryOffsetRequest>().queue;
                if let Ok(StoredOffset(at)) = decode_answer::<QueryOffsetRequest>(frame) {
                    self.start(shelf, asked, &queue.topic, queue.queue, at);
                }
            }
            RequestCode::GET_MIN_OFFSET => {
                let queue = asked.request::<MinOffsetRequest>().queue;
                if let Ok(OffsetAnswer { offset }) = decode_answer::<MinOffsetRequest>(frame) {
                    self.start(shelf, asked, &queue.topic, queue.queue, Some(offset));
                }
            }
            RequestCode::CONSUMER_SEND_MSG_BACK => {
                self.sent_back(asked, decode_answer::<SendBackRequest>(frame).is_ok())
            }
            _ => {}
        }
    }

    /// An operator has moved the group: nothing is to be done below the place where it goes on.
    fn requested(&mut self, shelf: &Shelf, frame: &Frame) {
        if !Header::of(frame).is_ok_and(|header| header.code == ResetOffsetRequest::CODE.0) {
            return;
        }
        let Ok(reset) = decode_request::<ResetOffsetRequest>(frame) else {
            return;
        };
        let moved = reset
            .offsets
            .iter()
            .filter(|(queue, _)| queue.topic == reset.topic);
        for (queue, to) in moved.filter(|(queue, _)| shelf.logs.contains_key(*queue)) {
            self.account(queue).rise(to.0);
        }
    }

    /// A message that a broker took back is over.
    fn sent_back(&mut self, asked: &Asked, taken: bool) {
        let physical = asked.request::<SendBackRequest>().offset;
        let places = self.places.get(&physical).filter(|_| taken).cloned();
        for (queue, offset) in places.unwrap_or_default() {
            self.account(&queue).finish(offset);
        }
    }

    fn account(&mut self, queue: &MessageQueue) -> &mut Account {
        self.accounts.entry(queue.clone()).or_default()
    }

    /// A broker has said where a queue begins for this group.
    fn start(&mut self, shelf: &Shelf, asked: &Asked, topic: &Topic, id: QueueId, at: Option<QueueOffset>) {
        if let (Some(queue), Some(at)) = (shelf.queue(topic, asked, id), at) {
            self.account(queue).rise(at.0);
        }
    }

    /// A broker has said what there is from one offset to the next.
    fn pulled(&mut self, shelf: &Shelf, asked: &Asked, answer: &PullAnswer) {
        let request: PullRequest = asked.request();
        let Some(queue) = shelf.queue(&request.topic, asked, request.queue) else {
            return;
        };
        let (from, next) = (request.offset.0, answer.next_begin_offset.0);
        if answer.status == PullStatus::OffsetMoved {
            // What expired is not there, wherever else it wants us to go on; bounds that contradict each other say nothing.
            let min = answer
                .min_offset
                .filter(|min| answer.max_offset.is_none_or(|max| *min <= max));
            return self.account(queue).rise(next.max(min.map_or(0, |min| min.0)));
        }
        let mut served = BTreeSet::new();
        if answer.status == PullStatus::Found {
            for scanned in Scanner::new(&answer.messages) {
                let Scanned::Message(entry) = scanned else {
                    continue;
                };
                let record = Record::new(&answer.messages, entry);
                if shelf.subscription.matches(record.tags().as_deref()) {
                    let offset = entry.queue_offset().0;
                    served.insert(offset);
                    let places = self.places.entry(record.physical_offset()).or_default();
                    places.push((queue.clone(), offset));
                }
            }
        }
        let account = self.account(queue);
        for offset in served.range(from..next.max(from)) {
            if !account.over.contains(offset) {
                account.unfinished.insert(*offset);
            }
        }
        // A broker may claim any stretch; a long one is not worth a line for each offset.
        if next.saturating_sub(from) > 10_000 {
            account.has_long_gaps = true;
            return;
        }
        for offset in (from..next).filter(|offset| !served.contains(offset)) {
            account.finish(offset);
        }
    }

    /// A commit, alone or carried by a pull, passes nothing that is not over.
    fn asked(&mut self, shelf: &Shelf, asked: &Asked) -> Result<(), Fault> {
        let (topic, id, offset) = match asked.code {
            RequestCode::UPDATE_CONSUMER_OFFSET => {
                let request: CommitOffsetRequest = asked.request();
                (request.queue.topic, request.queue.queue, request.offset)
            }
            RequestCode::PULL_MESSAGE => {
                let request: PullRequest = asked.request();
                let Some(commit) = request.commit else {
                    return Ok(());
                };
                if commit > request.offset {
                    return Err(format!("{asked:?} commits {commit} beyond what it asks for"));
                }
                (request.topic, request.queue, commit)
            }
            _ => return Ok(()),
        };
        // A route that was a lie can name any queue; nothing is known of those.
        let Some(queue) = shelf.queue(&topic, asked, id) else {
            return Ok(());
        };
        self.commits += 1;
        let account = self.account(queue);
        let passed = account.unfinished.range(account.floor..).next().copied();
        let mut all = account.floor..offset.0;
        let gap = if account.has_long_gaps {
            None
        } else {
            all.find(|offset| !account.over.contains(offset))
        };
        match passed.filter(|passed| *passed < offset.0).or(gap) {
            None => Ok(()),
            Some(passed) => Err(format!("{queue}: {offset} was committed, {passed} is not over")),
        }
    }

    /// Whatever is handed out was served, is wanted, and is handed out once under one name.
    fn handed_out(&mut self, wanted: &Subscription, run: &OpenRun) -> Result<(), Fault> {
        let queue = run.batch.queue().clone();
        if run.range.is_empty() {
            return Err(format!("{queue}: an empty run"));
        }
        let mut last = None;
        for position in run.range.start..run.range.end {
            let message = Message::new(Arc::clone(&run.batch), position).ok_or("behind the batch")?;
            let offset = message.queue_offset().0;
            let account = self.account(&queue);
            if !account.unfinished.contains(&offset) && !account.over.contains(&offset) {
                return Err(format!("{queue}: {offset} was never served"));
            }
            if !wanted.matches(message.tags().as_deref()) {
                return Err(format!("{queue}: {offset} is not subscribed to"));
            }
            if last.is_some_and(|last| last >= offset) {
                return Err(format!("{queue}: {offset} comes after {last:?}"));
            }
            if !self.handed_out.insert((run.id.run, position)) {
                return Err(format!("{queue}: run {} hands out {position} twice", run.id.run));
            }
            last = Some(offset);
            self.delivered += 1;
        }
        Ok(())
    }

    /// Messages on the shelf that were served and are not over.
    pub(crate) fn unfinished(&self, shelf: &Shelf) -> Vec<(&MessageQueue, i64)> {
        let there = |queue: &MessageQueue, offset| {
            (self.accounts[queue].floor..shelf.logs[queue].max).contains(&offset)
        };
        let each = self.accounts.iter();
        each.flat_map(|(queue, account)| account.unfinished.iter().map(move |offset| (queue, *offset)))
            .filter(|(queue, offset)| there(queue, *offset) && !self.held.contains(*queue))
            .collect()
    }
}

/// Whether the application wishes for something else of a topic.
fn is_about(seen: &Seen, of: &Topic) -> bool {
    matches!(
        seen,
        Seen::Wished(AppEvent::Subscribe { topic, .. } | AppEvent::Unsubscribe { topic, .. }) if topic == of
    )
}

impl Account {
    fn finish(&mut self, offset: i64) {
        self.unfinished.remove(&offset);
        self.over.insert(offset);
    }

    fn rise(&mut self, floor: i64) {
        self.floor = self.floor.max(floor);
    }
}
