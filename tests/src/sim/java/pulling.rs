//! The pull of each queue: one goes round, and is always in the timer or at a broker.
//= rocketmq: DefaultMQPushConsumerImpl.pullMessage, PullAPIWrapper.processPullResult

use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::ids::{MessageQueue, QueueOffset};
use rocketmq_consumer_core::message::Batch;
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::frame::Frame;
use rocketmq_consumer_core::wire::request::offsets::{CommitOffsetRequest, QueryOffsetRequest};
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::route::MASTER_ID;
use rocketmq_consumer_core::wire::request::{AnswerError, decode_answer};
use rocketmq_consumer_core::wire::stored::{Entry, Record, Scanned, Scanner};

use super::ground::Timer;
use super::links::Patience;
use super::rebalance::{QUERY_TIMEOUT, reference};
use super::{JavaMember, Purpose};

/// `PULL_TIME_DELAY_MILLS_WHEN_CACHE_FLOW_CONTROL`, `pullTimeDelayMillsWhenException`, `…WHEN_BROKER_FLOW_CONTROL`.
const CACHE_FULL: Duration = Duration::from_millis(50);
const FAILED: Duration = Duration::from_secs(1);
const FLOW_CONTROL: Duration = Duration::from_millis(20);
/// `BROKER_SUSPEND_MAX_TIME_MILLIS`, `CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND`.
const HOLD: Duration = Duration::from_secs(15);
const PULL_TIMEOUT: Duration = Duration::from_secs(30);
const BATCH: i32 = 32;

impl JavaMember {
    /// Pulls, or puts it off.
    pub(super) fn pull(&mut self, epoch: u64) {
        let Some(queue) = self
            .by_epoch
            .get(&epoch)
            .and_then(|name| self.queues.get_mut(name))
        else {
            return;
        };
        queue.timer = None;
        if queue.dropped {
            return;
        }
        queue.last_pull = self.ground.now;
        if queue.is_full() {
            return self.pull_later(epoch, CACHE_FULL);
        }
        if self.config.orderly {
            let lock = queue.lock;
            if !lock.held {
                return self.pull_later(epoch, FAILED);
            }
            if !lock.checked {
                return self.recheck(epoch);
            }
        }
        self.write_pull(epoch);
    }

    fn write_pull(&mut self, epoch: u64) {
        let queue = self.by_epoch.get(&epoch).and_then(|name| self.queues.get(name));
        let Some(queue) = queue else {
            return;
        };
        let Some((id, addr)) = self.directory.replica(&queue.name.broker, queue.suggested) else {
            return self.pull_later(epoch, FAILED);
        };
        let request = PullRequest {
            group: self.config.group.clone(),
            topic: queue.name.topic.clone(),
            queue: queue.name.id,
            offset: queue.next,
            max_messages: BATCH,
            max_bytes: Some(262_144),
            // Java never carries 0, and a slave would not store it.
            commit: queue.entry().filter(|entry| entry.0 > 0 && id == MASTER_ID),
            suspend: Some(HOLD),
            sub_version: self.versions.get(&queue.name.topic).copied().unwrap_or_default(),
            filter: None,
            lite: false,
            broker: Some(queue.name.broker.clone()),
        };
        let patience = Patience::Swept(PULL_TIMEOUT);
        self.links.ask(
            &mut self.ground,
            &addr.clone(),
            &request,
            patience,
            Purpose::Pull(epoch),
        );
    }

    /// Under its lock a queue's position is asked for once more: its last owner may have committed since.
    fn recheck(&mut self, epoch: u64) {
        let Some(name) = self.by_epoch.get(&epoch).cloned() else {
            return;
        };
        let Some((_, broker)) = self.directory.replica(&name.broker, MASTER_ID) else {
            return self.pull_later(epoch, FAILED);
        };
        let request = QueryOffsetRequest {
            group: self.config.group.clone(),
            queue: reference(&name),
            set_zero_if_not_found: None,
        };
        let (patience, purpose) = (Patience::Sync(QUERY_TIMEOUT), Purpose::Recheck(epoch));
        self.links
            .ask(&mut self.ground, &broker.clone(), &request, patience, purpose);
    }

    pub(super) fn on_rechecked(&mut self, epoch: u64, answer: Option<&Frame>) {
        let stored = answer.and_then(|frame| decode_answer::<QueryOffsetRequest>(frame).ok());
        let Some(stored) = stored else {
            return self.pull_later(epoch, FAILED);
        };
        let queue = self
            .by_epoch
            .get(&epoch)
            .and_then(|name| self.queues.get_mut(name));
        if let Some(queue) = queue {
            queue.lock.checked = true;
            queue.next = stored.0.unwrap_or(queue.next);
        }
        self.pull(epoch);
    }

    fn pull_later(&mut self, epoch: u64, after: Duration) {
        let at = self.ground.arm(after, Timer::Pull(epoch));
        let queue = self
            .by_epoch
            .get(&epoch)
            .and_then(|name| self.queues.get_mut(name));
        if let Some(queue) = queue {
            queue.timer = Some(at);
        }
    }

    pub(super) fn on_pulled(&mut self, epoch: u64, answer: Option<&Frame>) {
        let Some(name) = self.by_epoch.get(&epoch).cloned() else {
            return;
        };
        match answer.map(decode_answer::<PullRequest>) {
            Some(Ok(answer)) => self.on_pull_answer(epoch, &name, answer),
            Some(Err(AnswerError::Refused { code, .. })) if code == ResponseCode::FLOW_CONTROL => {
                self.pull_later(epoch, FLOW_CONTROL);
            }
            Some(Err(_)) | None => self.pull_later(epoch, FAILED),
        }
    }

    fn on_pull_answer(&mut self, epoch: u64, name: &MessageQueue, answer: PullAnswer) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        queue.suggested = answer.suggest_broker_id.unwrap_or(queue.suggested);
        let next = answer.next_begin_offset;
        match answer.status {
            PullStatus::Found => {
                queue.next = next;
                self.take_in(epoch, name, answer);
            }
            PullStatus::NotFound | PullStatus::RetryImmediately => {
                queue.next = next;
                if queue.is_empty() {
                    queue.raise(next);
                }
            }
            PullStatus::OffsetMoved => {
                queue.correct(next);
                self.remove(name);
                return self.wake_rebalance();
            }
        }
        self.pull(epoch);
    }

    /// Messages into the cache and to the pool; those whose tag is another one are passed over.
    fn take_in(&mut self, epoch: u64, name: &MessageQueue, answer: PullAnswer) {
        let (Some(queue), Some(wanted)) = (self.queues.get_mut(name), self.subscriptions.get(&name.topic))
        else {
            return;
        };
        let body = answer.messages;
        let entries = Scanner::new(&body).filter_map(|scanned| match scanned {
            Scanned::Message(entry) => Some(entry),
            Scanned::Undecodable(_) | Scanned::Broken { .. } => None,
        });
        let entries: Vec<Entry> = entries
            .filter(|entry| wanted.matches(Record::new(&body, *entry).tags().as_deref()))
            .collect();
        for entry in &entries {
            queue.put(entry.queue_offset(), entry.body_len());
        }
        let is_retry = name.topic == self.retry_topic;
        let [min, max] = [answer.min_offset, answer.max_offset].map(|told| told.unwrap_or(QueueOffset(0)));
        let entries = entries.into_iter().collect();
        let batch = Arc::new(Batch::new(
            name.clone(),
            is_retry,
            body.clone(),
            entries,
            min,
            max,
        ));
        if self.config.orderly {
            self.put_in_order(epoch, &batch);
        } else {
            self.submit(epoch, &batch);
        }
    }

    /// One one-way commit, if the offset table has the queue.
    //= rocketmq: RemoteBrokerOffsetStore.persist
    pub(super) fn persist(&mut self, name: &MessageQueue) {
        let Some(offset) = self
            .queues
            .get(name)
            .and_then(super::process_queue::ProcessQueue::entry)
        else {
            return;
        };
        let Some((_, addr)) = self.directory.replica(&name.broker, MASTER_ID) else {
            return;
        };
        let request = CommitOffsetRequest {
            group: self.config.group.clone(),
            queue: reference(name),
            offset,
        };
        self.links.tell(&mut self.ground, &addr.clone(), &request);
    }

    pub(super) fn persist_all(&mut self) {
        let names: Vec<MessageQueue> = self.queues.keys().cloned().collect();
        for name in names {
            self.persist(&name);
        }
    }
}
