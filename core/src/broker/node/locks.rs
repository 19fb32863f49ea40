//! Queue locks: 41 and 42.
//= rocketmq: AdminBrokerProcessor.lockBatchMQ

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::super::observation::Observation;
use super::super::post::Refusal;
use super::Serving;
use super::serve::Asked;
use crate::ids::MessageQueue;
use crate::wire::request::Done;
use crate::wire::request::locks::{LockAnswer, LockRequest, UnlockRequest};

impl Serving<'_> {
    pub(super) fn lock(&mut self, _: &Asked<'_, '_>, request: LockRequest) -> Result<LockAnswer, Refusal> {
        let LockRequest(wanted) = request;
        let (now, locks) = (self.cx.now, &mut self.replica.locks);
        let queues: Vec<MessageQueue> = wanted.queues.into_iter().collect();
        let is_new =
            |queue: &&MessageQueue| locks.owner(now, &wanted.group, queue) != Some(&wanted.client_id);
        let new: Vec<MessageQueue> = queues.iter().filter(is_new).cloned().collect();
        let granted = locks.try_lock(now, &wanted.group, &wanted.client_id, &queues);
        let locked: BTreeSet<MessageQueue> = granted.into_iter().collect();
        for queue in new.into_iter().filter(|queue| locked.contains(queue)) {
            self.cx.seen.note(|| Observation::LockGranted {
                group: wanted.group.clone(),
                queue,
                client: wanted.client_id.clone(),
            });
        }
        Ok(LockAnswer { locked })
    }

    pub(super) fn unlock(&mut self, _: &Asked<'_, '_>, request: UnlockRequest) -> Result<Done, Refusal> {
        let UnlockRequest(given) = request;
        let (now, locks) = (self.cx.now, &mut self.replica.locks);
        let queues: Vec<MessageQueue> = given.queues.into_iter().collect();
        for queue in &queues {
            if locks.owner(now, &given.group, queue) == Some(&given.client_id) {
                self.cx.seen.note(|| Observation::LockReleased {
                    group: given.group.clone(),
                    queue: queue.clone(),
                    client: given.client_id.clone(),
                });
            }
        }
        locks.unlock(&given.group, &given.client_id, &queues);
        Ok(Done)
    }
}

#[cfg(test)]
mod tests;
