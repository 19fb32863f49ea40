//! Resets what the rows say, broker by broker, and looks at what is true afterwards.

use std::time::Duration;

use rocketmq_consumer_core::ids::{ConsumerGroup, MessageQueue, PeerAddr, QueueId, QueueOffset, Topic};
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::reset::{OperatorResetRequest, ResetOffsets};
use rocketmq_consumer_tokio::CallError;

use super::row::{Outcome, Row, Way};
use super::survey::{queue_ref, stored};
use super::target::Place;
use crate::admin::BrokerConfigRequest;
use crate::cluster::{Cluster, is_refused_with};
use crate::exit::Failure;
use crate::talk::{Level, Talk};

/// How long members that were told may take to commit. Java's wait ten seconds for their handlers.
const MEMBERS_LIMIT: Duration = Duration::from_secs(30);
/// The pause before the offset is read again.
const PAUSE: Duration = Duration::from_millis(500);

/// A reset that somebody has agreed to.
pub(crate) struct Reset<'a> {
    /// Where the brokers are.
    pub(crate) cluster: &'a Cluster,
    /// The group.
    pub(crate) group: &'a ConsumerGroup,
    /// The topic.
    pub(crate) topic: &'a Topic,
    /// Where to continue.
    pub(crate) place: Place,
    /// All queues are meant.
    pub(crate) is_whole: bool,
    /// The group has members.
    pub(crate) is_online: bool,
    /// Who tells about it.
    pub(crate) talk: Talk,
}

/// What a broker was asked, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// All its queues at once, by a time.
    Whole,
    /// Each queue by its offset.
    Each,
    /// Nobody is there to be told: what members would commit is committed.
    Commit,
}

impl Reset<'_> {
    /// Resets the queues of one broker.
    ///
    /// # Errors
    /// The broker does not answer, refuses, or would reset other queues than those that were named. Rows
    /// without a result are as they were.
    pub(crate) async fn at(&self, mut rows: Vec<&mut Row>) -> Result<(), Failure> {
        let Some(addr) = rows.first().map(|row| row.addr.clone()) else {
            return Ok(());
        };
        let by_itself = self.resets_by_itself(&addr).await;
        match order(self.place, self.is_whole, self.is_online, by_itself) {
            Some(Order::Whole) => match self.ask(&addr, None).await {
                Ok(answer) => {
                    for row in &mut rows {
                        self.take(row, &answer, by_itself).await?;
                    }
                    Ok(())
                }
                Err(error) if !self.is_online && wants_members(&error) => self.commit(&mut rows).await,
                Err(error) => Err(self.refused(&addr, &error).await),
            },
            Some(Order::Each) => {
                for row in &mut rows {
                    match self.ask(&addr, Some((row.queue.id, row.to))).await {
                        Ok(answer) => self.take(row, &answer, by_itself).await?,
                        Err(error) => return Err(self.refused(&addr, &error).await),
                    }
                }
                Ok(())
            }
            Some(Order::Commit) => self.commit(&mut rows).await,
            None => Err(Failure::failed(format_args!(
                "{addr} does not say that it can reset single queues (useServerSideResetOffset), and would reset all; \
                 stop the members first, or reset the whole topic to earliest, latest or a time"
            ))),
        }
    }

    /// Whether the broker stores resets by itself, if it tells.
    async fn resets_by_itself(&self, addr: &PeerAddr) -> Option<bool> {
        match self.cluster.ask(addr, &BrokerConfigRequest).await {
            Ok(config) => Some(config.resets_by_itself()),
            Err(error) => {
                self.talk.say(
                    Level::Debug,
                    format_args!("{addr} does not tell its settings: {error}"),
                );
                None
            }
        }
    }

    async fn ask(
        &self,
        addr: &PeerAddr,
        one: Option<(QueueId, QueueOffset)>,
    ) -> Result<ResetOffsets, CallError> {
        let request = OperatorResetRequest {
            group: self.group.clone(),
            topic: self.topic.clone(),
            timestamp: self.place.timestamp(),
            force: true,
            queue: one.map(|(queue, _)| queue),
            offset: one.map(|(_, offset)| offset),
        };
        self.cluster.ask(addr, &request).await
    }

    /// Takes the broker's word for one queue and reads what is stored.
    async fn take(
        &self,
        row: &mut Row,
        answer: &ResetOffsets,
        by_itself: Option<bool>,
    ) -> Result<(), Failure> {
        let Some(told) = told(answer, &row.queue) else {
            return Err(Failure::failed(format_args!(
                "{} has answered and says nothing of queue {}",
                row.queue.broker, row.queue.id
            )));
        };
        row.to = told;
        let now = self.read(row).await?;
        let is_done = row.is_reached(now, self.is_online);
        if is_done || by_itself == Some(true) {
            let way = if by_itself == Some(false) {
                Way::Members
            } else {
                Way::Server
            };
            row.result = Some(Outcome { way, now, is_done });
            return Ok(());
        }
        self.await_members(row).await
    }

    /// Waits until the members have committed what they were told.
    async fn await_members(&self, row: &mut Row) -> Result<(), Failure> {
        let waiting = async {
            loop {
                let now = self.read(row).await?;
                if row.is_reached(now, self.is_online) {
                    return Ok::<_, Failure>(now);
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let (now, is_done) = match tokio::time::timeout(MEMBERS_LIMIT, waiting).await {
            Ok(now) => (now?, true),
            Err(_) => (self.read(row).await?, false),
        };
        let way = Way::Members;
        row.result = Some(Outcome { way, now, is_done });
        Ok(())
    }

    /// Commits in the group's place.
    async fn commit(&self, rows: &mut [&mut Row]) -> Result<(), Failure> {
        for row in rows {
            let request = CommitOffsetRequest {
                group: self.group.clone(),
                queue: queue_ref(&row.queue),
                offset: row.to,
            };
            self.cluster.demand(&row.addr, &request).await?;
            let now = self.read(row).await?;
            row.result = Some(Outcome {
                way: Way::Commit,
                now,
                is_done: now == Some(row.to),
            });
        }
        Ok(())
    }

    async fn read(&self, row: &Row) -> Result<Option<QueueOffset>, Failure> {
        stored(self.cluster, self.group, &row.queue, &row.addr).await
    }

    async fn refused(&self, addr: &PeerAddr, error: &CallError) -> Failure {
        if is_refused_with(error, ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST) {
            return Failure::failed(format_args!(
                "{addr} does not know group {}; a member that starts makes it known",
                self.group
            ));
        }
        self.cluster.failure_of::<OperatorResetRequest>(addr, error).await
    }
}

/// How a broker is asked; nothing if it would do something else.
fn order(place: Place, is_whole: bool, is_online: bool, by_itself: Option<bool>) -> Option<Order> {
    let is_by_time = match place {
        Place::Earliest | Place::Latest | Place::Time(_) => true,
        Place::Offset(_) => false,
    };
    match (is_whole && is_by_time, by_itself, is_online) {
        (true, ..) => Some(Order::Whole),
        (false, Some(true), _) => Some(Order::Each),
        // Brokers that tell the members ignore which queue is meant.
        (false, Some(false) | None, false) => Some(Order::Commit),
        (false, Some(false) | None, true) => None,
    }
}

/// Whether a broker that tells the members has found none, or no progress to compare with.
fn wants_members(error: &CallError) -> bool {
    let is_without_progress = if let CallError::Broker { code, remark } = error {
        ResponseCode(*code) == ResponseCode::SYSTEM_ERROR && remark.contains("not exist")
    } else {
        false
    };
    is_without_progress || is_refused_with(error, ResponseCode::CONSUMER_NOT_ONLINE)
}

/// What the broker says of a queue.
fn told(answer: &ResetOffsets, queue: &MessageQueue) -> Option<QueueOffset> {
    answer.offsets.get(queue).copied()
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::time::WallTime;

    use super::*;

    #[test]
    fn a_broker_is_never_asked_for_one_queue_if_it_would_reset_all() {
        let time = Place::Time(WallTime::from_unix_millis(5));
        let offset = Place::Offset(QueueOffset(5));
        // (place, whole, online, by itself)
        let table = [
            (time, true, true, Some(true), Some(Order::Whole)),
            (time, true, true, Some(false), Some(Order::Whole)),
            (Place::Latest, true, false, None, Some(Order::Whole)),
            (offset, true, true, Some(true), Some(Order::Each)),
            (offset, true, true, Some(false), None),
            (offset, true, true, None, None),
            (offset, true, false, None, Some(Order::Commit)),
            (time, false, true, Some(true), Some(Order::Each)),
            (time, false, true, None, None),
            (time, false, false, Some(false), Some(Order::Commit)),
            (Place::Earliest, false, false, Some(true), Some(Order::Each)),
        ];
        for (place, whole, online, by_itself, want) in table {
            assert_eq!(
                order(place, whole, online, by_itself),
                want,
                "{place:?} {whole} {online} {by_itself:?}"
            );
        }
    }

    #[test]
    fn only_for_want_of_members_is_something_committed_in_their_place() {
        let refused = |code, remark: &str| CallError::Broker {
            code,
            remark: remark.into(),
        };
        assert!(wants_members(&refused(206, "")));
        assert!(wants_members(&refused(1, "THe consumer group <G> not exist")));
        assert!(!wants_members(&refused(
            1,
            "Can not reset offset in slave broker"
        )));
        assert!(!wants_members(&refused(
            26,
            "subscription group [G] does not exist"
        )));
        assert!(!wants_members(&CallError::Timeout));
    }
}
