//! Reads a queue of dead letters as it is: nothing is committed, and no member is needed.

use std::collections::VecDeque;
use std::sync::Arc;

use rocketmq_consumer_core::ids::{ConsumerGroup, QueueOffset};
use rocketmq_consumer_core::message::{Batch, Message};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullFilter, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::stored::{Scanned, Scanner};

use super::ls::unreadable;
use super::queues::{DeadQueue, TOOLS_GROUP};
use crate::cluster::{Cluster, is_refused_with};
use crate::exit::{Exit, Failure};

/// Messages asked for at once; brokers send no more.
const BATCH: i32 = 32;

/// Reads one queue up to where it ended when it was looked at.
pub(crate) struct Reader<'a> {
    cluster: &'a Cluster,
    group: &'a ConsumerGroup,
    dead: &'a DeadQueue,
    next: QueueOffset,
    read: VecDeque<Letter>,
}

/// What lies at a place of the queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Letter {
    /// A message.
    Message(Message),
    /// Something that cannot be read.
    Unreadable {
        /// Where it lies, if it tells.
        offset: Option<QueueOffset>,
        /// What is wrong with it.
        reason: String,
    },
}

impl<'a> Reader<'a> {
    /// Reads from this offset on.
    pub(crate) const fn new(
        cluster: &'a Cluster,
        group: &'a ConsumerGroup,
        dead: &'a DeadQueue,
        from: QueueOffset,
    ) -> Self {
        Self {
            cluster,
            group,
            dead,
            next: from,
            read: VecDeque::new(),
        }
    }

    /// The next one; nothing at the end.
    ///
    /// # Errors
    /// The broker does not answer, or lets nobody read.
    pub(crate) async fn next(&mut self) -> Result<Option<Letter>, Failure> {
        while self.read.is_empty() && self.next < self.dead.max {
            let answer = self.pull().await?;
            self.take(&answer);
        }
        Ok(self.read.pop_front())
    }

    async fn pull(&self) -> Result<PullAnswer, Failure> {
        let request = PullRequest {
            group: TOOLS_GROUP.into(),
            topic: self.dead.queue.topic.clone(),
            queue: self.dead.queue.id,
            offset: self.next,
            max_messages: BATCH,
            max_bytes: None,
            commit: None,
            suspend: None,
            sub_version: WallTime::default(),
            filter: Some(PullFilter {
                expression: "*".into(),
                expression_type: None,
            }),
            lite: false,
            broker: Some(self.dead.queue.broker.clone()),
        };
        match self.cluster.ask(&self.dead.addr, &request).await {
            Ok(answer) => Ok(answer),
            Err(error) if is_refused_with(&error, ResponseCode::NO_PERMISSION) && !self.dead.is_readable => {
                Err(Failure::new(
                    Exit::NotPermitted,
                    unreadable(self.group, self.dead),
                ))
            }
            Err(error) => Err(self
                .cluster
                .failure_of::<PullRequest>(&self.dead.addr, &error)
                .await),
        }
    }

    /// Takes what an answer brought and goes on behind it. An answer that leads nowhere ends the queue.
    fn take(&mut self, answer: &PullAnswer) {
        let (from, dead) = (self.next, self.dead);
        self.next = if answer.next_begin_offset > from {
            answer.next_begin_offset
        } else {
            dead.max
        };
        if answer.status == PullStatus::Found {
            let is_wanted = |offset: QueueOffset| from <= offset && offset < dead.max;
            self.read
                .extend(letters(dead, answer).filter(|letter| letter.offset().is_none_or(is_wanted)));
        }
    }
}

impl Letter {
    /// Where it lies, if that is known.
    pub(crate) fn offset(&self) -> Option<QueueOffset> {
        match self {
            Self::Message(message) => Some(message.queue_offset()),
            Self::Unreadable { offset, .. } => *offset,
        }
    }
}

/// The letters of an answer, in their order.
fn letters(dead: &DeadQueue, answer: &PullAnswer) -> impl Iterator<Item = Letter> + use<> {
    let scanned: Vec<Scanned> = Scanner::new(&answer.messages).collect();
    let entries = scanned.iter().filter_map(|scanned| match scanned {
        Scanned::Message(entry) => Some(*entry),
        Scanned::Undecodable(_) | Scanned::Broken { .. } => None,
    });
    // The topic they were sent to is what they show.
    let is_redelivered = true;
    let batch = Arc::new(Batch::new(
        dead.queue.clone(),
        is_redelivered,
        answer.messages.clone(),
        entries.collect(),
        dead.min,
        dead.max,
    ));
    let mut place = 0;
    scanned.into_iter().filter_map(move |scanned| match scanned {
        Scanned::Message(entry) => {
            let message = Message::new(Arc::clone(&batch), place);
            place += 1;
            if entry.is_inner_batch() {
                let offset = Some(entry.queue_offset());
                let reason = "it is a batch of messages, which no broker makes a dead letter of".into();
                return Some(Letter::Unreadable { offset, reason });
            }
            message.map(Letter::Message)
        }
        Scanned::Undecodable(bad) => Some(Letter::Unreadable {
            offset: bad.queue_offset,
            reason: bad.reason.to_string(),
        }),
        Scanned::Broken { reason, .. } => Some(Letter::Unreadable {
            offset: None,
            reason: reason.to_string(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::queues::tests::dead;
    use super::*;
    use crate::testing::record;

    fn answer(next: i64, messages: Vec<u8>) -> PullAnswer {
        PullAnswer {
            status: PullStatus::Found,
            next_begin_offset: QueueOffset(next),
            min_offset: None,
            max_offset: None,
            suggest_broker_id: None,
            offset_delta: None,
            reset: false,
            messages: Bytes::from(messages),
        }
    }

    #[test]
    fn what_cannot_be_read_keeps_its_place_among_its_neighbours() {
        let mut bad = record(8, 0);
        bad[4] ^= 0xff;
        let answer = answer(10, [record(7, 0), bad, record(9, 0), vec![0, 0]].concat());
        let shown: Vec<_> = letters(&dead(0, 100), &answer)
            .map(|letter| {
                (
                    matches!(letter, Letter::Message(_)),
                    letter.offset().map(|offset| offset.0),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [(true, Some(7)), (false, Some(8)), (true, Some(9)), (false, None)]
        );
    }
}
