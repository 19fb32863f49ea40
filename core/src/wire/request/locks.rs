//! Locks on queues, for ordered consumption. A broker keeps one for 60 s after it was last asked for.
//!
//! A lock belongs to a client id and is known by group, topic, broker name and queue id. Brokers check
//! none of these: a queue that does not exist can be locked.
//= rocketmq: LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody

use alloc::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::queue_table::queue_set;
use super::{Done, Malformed, Request, json_answer, json_body};
use crate::ids::{ClientId, ConsumerGroup, MessageQueue};
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, WriteExt};
use crate::wire::fastjson;

/// Which queues to lock or unlock, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueLocks {
    /// The client that holds them or wants to.
    pub client_id: ClientId,
    /// Its group.
    #[serde(rename = "consumerGroup")]
    pub group: ConsumerGroup,
    /// The queues.
    #[serde(rename = "mqSet", with = "queue_set", default)]
    pub queues: BTreeSet<MessageQueue>,
    /// Set by a master that asks its slaves, so that they ask nobody.
    #[serde(default)]
    pub only_this_broker: bool,
}

/// `LOCK_BATCH_MQ`: locks queues, or keeps the locks on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest(pub QueueLocks);

impl WriteExt for LockRequest {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Request for LockRequest {
    const CODE: RequestCode = RequestCode::LOCK_BATCH_MQ;
    type Answer = LockAnswer;

    fn body(&self) -> Bytes {
        json_body(&self.0)
    }

    fn decode(_: &ExtFields<'_>, body: &Bytes) -> Result<Self, Malformed> {
        Ok(Self(fastjson::from_slice(body)?))
    }
}

/// The answer to a [`LockRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockAnswer {
    /// Those of the queues that the client holds now, whether it did before or not.
    #[serde(rename = "lockOKMQSet", with = "queue_set", default)]
    pub locked: BTreeSet<MessageQueue>,
}

json_answer!(LockAnswer);

/// `UNLOCK_BATCH_MQ`, two-way or one-way: gives locks back. Those of others stay, without a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlockRequest(pub QueueLocks);

impl WriteExt for UnlockRequest {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Request for UnlockRequest {
    const CODE: RequestCode = RequestCode::UNLOCK_BATCH_MQ;
    type Answer = Done;

    fn body(&self) -> Bytes {
        json_body(&self.0)
    }

    fn decode(_: &ExtFields<'_>, body: &Bytes) -> Result<Self, Malformed> {
        Ok(Self(fastjson::from_slice(body)?))
    }
}
