//! The pool of listener threads: first in, first out over all queues. A failed message is sent back; when that
//! fails too it is given to the listener again 5 s later, and meanwhile holds the queue's offset.
//= rocketmq: ConsumeMessageConcurrentlyService

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::message::{Batch, Message};
use rocketmq_consumer_core::wire::frame::Frame;
use rocketmq_consumer_core::wire::request::decode_answer;
use rocketmq_consumer_core::wire::request::send_back::{Delay, SendBackRequest};

use super::ground::Timer;
use super::links::Patience;
use super::{JavaMember, JavaOutput, Purpose};

const SEND_BACK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCAL_RETRY: Duration = Duration::from_secs(5);
const MAX_RECONSUME: i32 = 16;

/// Messages that wait for a thread or have one.
#[derive(Debug)]
pub(super) struct Pool {
    threads: usize,
    busy: usize,
    waiting: VecDeque<u64>,
    tasks: BTreeMap<u64, Task>,
    next_token: u64,
}

#[derive(Clone, Debug)]
struct Task {
    epoch: u64,
    message: Message,
    attempt: u32,
}

impl Pool {
    pub(super) const fn new(threads: usize) -> Self {
        Self {
            threads,
            busy: 0,
            waiting: VecDeque::new(),
            tasks: BTreeMap::new(),
            next_token: 0,
        }
    }

    /// Listeners are interrupted; their results are nobody's.
    pub(super) fn stop(&mut self) {
        self.waiting.clear();
        self.tasks.clear();
    }
}

impl JavaMember {
    pub(super) fn submit(&mut self, epoch: u64, batch: &Arc<Batch>) {
        for message in batch.messages() {
            let token = self.pool.next_token;
            self.pool.next_token += 1;
            let task = Task {
                epoch,
                message,
                attempt: 0,
            };
            self.pool.tasks.insert(token, task);
            self.pool.waiting.push_back(token);
        }
        self.run_pool();
    }

    fn run_pool(&mut self) {
        while self.pool.busy < self.pool.threads {
            let Some(token) = self.pool.waiting.pop_front() else {
                return;
            };
            let Some(task) = self.pool.tasks.get(&token) else {
                continue;
            };
            if !self.by_epoch.contains_key(&task.epoch) {
                self.pool.tasks.remove(&token);
                continue;
            }
            self.pool.busy += 1;
            self.ground.out.push_back(JavaOutput::Deliver {
                token,
                message: task.message.clone(),
                attempt: task.attempt,
            });
        }
    }

    /// A listener has returned. What it says about a queue that was given back counts for nothing.
    pub(super) fn on_handled(&mut self, token: u64, ok: bool) {
        let Some(task) = self.pool.tasks.get(&token) else {
            return;
        };
        if !self.by_epoch.contains_key(&task.epoch) {
            self.pool.tasks.remove(&token);
        } else if ok {
            self.finish(token);
        } else if self.send_back(token) {
            // The thread waits for the answer.
            return;
        } else {
            self.again_later(token);
        }
        self.free_thread();
    }

    fn free_thread(&mut self) {
        self.pool.busy = self.pool.busy.saturating_sub(1);
        self.run_pool();
    }

    fn finish(&mut self, token: u64) {
        let Some(task) = self.pool.tasks.remove(&token) else {
            return;
        };
        let queue = self
            .by_epoch
            .get(&task.epoch)
            .and_then(|name| self.queues.get_mut(name));
        if let Some(queue) = queue {
            queue.finish(task.message.queue_offset());
        }
    }

    fn send_back(&mut self, token: u64) -> bool {
        let Some(task) = self.pool.tasks.get(&token) else {
            return false;
        };
        let message = &task.message;
        let Some(master) = self.directory.master(message.broker()).cloned() else {
            return false;
        };
        let request = SendBackRequest {
            group: self.config.group.clone(),
            offset: message.physical_offset(),
            delay: Delay::Broker,
            message_id: Some(message.msg_id().into_owned()),
            topic: Some((&*message.topic()).into()),
            unit_mode: Some(false),
            max_reconsume_times: Some(MAX_RECONSUME),
            broker: Some(message.broker().clone()),
        };
        let patience = Patience::Sync(SEND_BACK_TIMEOUT);
        self.links.ask(
            &mut self.ground,
            &master,
            &request,
            patience,
            Purpose::SendBack(token),
        );
        true
    }

    pub(super) fn on_sent_back(&mut self, token: u64, answer: Option<&Frame>) {
        let accepted = answer.is_some_and(|frame| decode_answer::<SendBackRequest>(frame).is_ok());
        if accepted {
            self.finish(token);
        } else {
            self.again_later(token);
        }
        self.free_thread();
    }

    fn again_later(&mut self, token: u64) {
        if self.pool.tasks.contains_key(&token) {
            self.ground.arm(LOCAL_RETRY, Timer::Again(token));
        }
    }

    pub(super) fn on_again(&mut self, token: u64) {
        if let Some(task) = self.pool.tasks.get_mut(&token) {
            task.attempt += 1;
            self.pool.waiting.push_back(token);
            self.run_pool();
        }
    }
}
