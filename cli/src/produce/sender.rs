//! Sends one message until it is stored or not worth another try.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rocketmq_consumer_core::ids::{BrokerName, Topic};
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::request::send::{DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUES, SendRequest};
use rocketmq_consumer_tokio::CallError;

use super::plan::Choice;
use super::receipt::Receipt;
use super::recipe::Outgoing;
use super::request::request;
use super::ring::{Ring, WriteQueue};
use crate::clock::Clock;
use crate::cluster::{Cluster, is_refused_with};
use crate::exit::Failure;

/// Tries of one message (`retryTimesWhenSendFailed` and the first).
const TRIES_MAX: u32 = 3;

/// The pause before the second try; twice that before the third.
const PAUSE: Duration = Duration::from_millis(50);

/// Knows the queues of one topic and how to fill them.
#[derive(Debug)]
pub(crate) struct Sender {
    cluster: Cluster,
    topic: Topic,
    choice: Choice,
    /// A message that waits for its time does not lie where the answer says.
    is_delayed: bool,
    clock: Clock,
    ring: Mutex<Ring>,
}

impl Sender {
    /// Looks the topic up.
    ///
    /// # Errors
    /// There is no queue that can be written to, or nobody who could tell.
    pub(crate) async fn new(
        cluster: Cluster,
        topic: Topic,
        choice: Choice,
        is_delayed: bool,
        clock: Clock,
    ) -> Result<Self, Failure> {
        let sender = Self {
            ring: Mutex::default(),
            cluster,
            topic,
            choice,
            is_delayed,
            clock,
        };
        sender.refresh().await?;
        Ok(sender)
    }

    /// Asks for the route again. A topic that nobody knows is sent to where the default topic lives, whose
    /// brokers make it when the first message comes.
    async fn refresh(&self) -> Result<(), Failure> {
        let ring = match self.cluster.route(&self.topic).await? {
            Some(route) => Ring::new(&route, None),
            None => {
                let default = self.cluster.route(&DEFAULT_TOPIC.into()).await?;
                let default = default.ok_or_else(|| {
                    Failure::failed(format_args!(
                        "topic {} does not exist, and no broker makes topics by itself",
                        self.topic
                    ))
                })?;
                Ring::new(&default, Some(DEFAULT_TOPIC_QUEUES.unsigned_abs()))
            }
        };
        let ring = match self.choice {
            Choice::Queue(id) => ring.only(id),
            Choice::InTurn | Choice::ByKey => ring,
        };
        if ring.is_empty() {
            let which = match self.choice {
                Choice::Queue(id) => format!("queue {id}"),
                Choice::InTurn | Choice::ByKey => "queue".into(),
            };
            return Err(Failure::failed(format_args!(
                "topic {} has no {which} that can be written to",
                self.topic
            )));
        }
        *self.ring.lock().unwrap_or_else(PoisonError::into_inner) = ring;
        Ok(())
    }

    /// Sends a message, on failure up to twice more and to another broker if there is one. A message whose
    /// answer was lost may be stored twice.
    ///
    /// # Errors
    /// It is not stored, or nobody can tell.
    pub(crate) async fn send(&self, message: Outgoing) -> Result<Receipt, Failure> {
        let mut tries = 0;
        let mut avoid: Option<BrokerName> = None;
        loop {
            let queue = self.queue(&message, avoid.as_ref())?;
            let error = match self.try_once(&message, &queue, tries + 1).await {
                Ok(receipt) => return Ok(receipt),
                Err(error) => error,
            };
            tries += 1;
            if tries >= TRIES_MAX || !is_worth_another_try(&error) {
                let Failure { exit, message: why } = self.cluster.failure(&queue.addr, &error).await;
                let why = why.unwrap_or_default();
                let times = if tries == 1 { "" } else { " after three tries" };
                return Err(Failure::new(
                    exit,
                    format_args!("message {} is not stored{times}: {why}", message.number),
                ));
            }
            if is_refused_with(&error, ResponseCode::TOPIC_NOT_EXIST) {
                self.refresh().await?;
            }
            avoid = Some(queue.broker);
            tokio::time::sleep(PAUSE * tries).await;
        }
    }

    fn queue(&self, message: &Outgoing, avoid: Option<&BrokerName>) -> Result<WriteQueue, Failure> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = match (self.choice, &message.key) {
            (Choice::ByKey, Some(key)) => ring.of_key(key),
            (Choice::ByKey, None) | (Choice::InTurn | Choice::Queue(_), _) => ring.next(avoid),
        };
        queue
            .cloned()
            .ok_or_else(|| Failure::failed(format_args!("topic {} has no queue left", self.topic)))
    }

    async fn try_once(
        &self,
        message: &Outgoing,
        queue: &WriteQueue,
        tries: u32,
    ) -> Result<Receipt, CallError> {
        let request = SendRequest {
            queue: Some(queue.id),
            properties: Some(message.properties.clone()),
            body: message.body.clone(),
            ..request(&self.topic, &queue.broker, self.clock)
        };
        let answer = self.cluster.ask(&queue.addr, &request).await?;
        Ok(Receipt {
            number: message.number,
            topic: self.topic.as_str().into(),
            broker: queue.broker.clone(),
            queue_id: answer.queue,
            queue_offset: answer.offset.filter(|_| !self.is_delayed),
            msg_id: message.unique_key.clone(),
            offset_msg_id: answer.message_id,
            status: answer.status,
            tries,
            bytes: u64::try_from(message.body.len()).unwrap_or(u64::MAX),
        })
    }

    /// Closes all connections.
    pub(crate) async fn close(&self) {
        self.cluster.close().await;
    }
}

/// Whether the next broker, or the same a little later, may store the message.
//= rocketmq: DefaultMQProducer.retryResponseCodes
fn is_worth_another_try(error: &CallError) -> bool {
    /// Besides what is worth another try anywhere: the next broker may have the topic and the permission.
    /// 204 and 205, `NO_BUYER_ID` and `NOT_IN_CURRENT_UNIT`, come from no broker of today.
    const ELSEWHERE: [ResponseCode; 4] = [
        ResponseCode::NO_PERMISSION,
        ResponseCode::TOPIC_NOT_EXIST,
        ResponseCode(204),
        ResponseCode(205),
    ];
    error.is_retryable() || ELSEWHERE.into_iter().any(|code| is_refused_with(error, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_the_message_is_wrong_at_every_broker() {
        let refused = |code| CallError::Broker {
            code,
            remark: String::new(),
        };
        for code in [1, 2, 14, 16, 17, 204, 205, 215, 1500] {
            assert!(is_worth_another_try(&refused(code)), "{code}");
        }
        for code in [3, 13, 29, 604] {
            assert!(!is_worth_another_try(&refused(code)), "{code}");
        }
        assert!(is_worth_another_try(&CallError::Timeout));
        assert!(!is_worth_another_try(&CallError::Malformed(String::new())));
    }
}
