//! What can be seen of a cluster without asking it over the wire. Nothing is copied that is large, and
//! nothing is changed.

use bytes::Bytes;

use super::BrokerState;
use super::config::TopicConfig;
use super::node::{NodeKey, Replica, Role};
use super::store::{self, View};
use crate::ids::{
    BrokerName, ClientId, ConnId, ConsumerGroup, MessageQueue, PeerAddr, PhysicalOffset, QueueId,
    QueueOffset, Topic,
};
use crate::time::{Instant, WallTime};
use crate::wire::request::route::TopicRoute;
use crate::wire::stored::Record;

/// A message as a broker has stored it.
#[derive(Clone, Copy, Debug)]
pub struct StoredRef<'a> {
    /// All of it. The body is what was sent, perhaps compressed.
    pub record: Record<'a>,
}

impl<'a> StoredRef<'a> {
    fn new(bytes: &'a Bytes) -> Self {
        Self {
            record: store::open(bytes),
        }
    }

    /// Its offset in the queue.
    #[must_use]
    pub const fn offset(&self) -> QueueOffset {
        self.record.queue_offset()
    }

    /// Its place in the broker's commit log.
    #[must_use]
    pub fn physical_offset(&self) -> PhysicalOffset {
        self.record.physical_offset()
    }

    /// The body as it is stored.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.record.stored_body()
    }
}

impl BrokerState {
    /// The messages of a queue, oldest first; none if there is no such queue.
    pub fn stored<'a>(
        &'a self,
        broker: &BrokerName,
        topic: &Topic,
        queue: QueueId,
    ) -> impl Iterator<Item = StoredRef<'a>> + use<'a> {
        let broker = self.broker(broker).map(|broker| &self.disks[broker]);
        let records = broker.map(|disk| disk.store.records(topic, queue));
        records.into_iter().flatten().map(StoredRef::new)
    }

    /// The message at an offset, if it is there.
    #[must_use]
    pub fn stored_at(&self, queue: &MessageQueue, offset: QueueOffset) -> Option<StoredRef<'_>> {
        let disk = &self.disks[self.broker(&queue.broker)?];
        let bytes = disk.store.at(View::Newest, (&queue.topic, queue.id), offset)?;
        Some(StoredRef::new(bytes))
    }

    /// The offset the next message of a queue gets; 0 if there is no such queue.
    #[must_use]
    pub fn max_offset(&self, queue: &MessageQueue) -> QueueOffset {
        self.broker(&queue.broker).map_or(QueueOffset(0), |broker| {
            let store = &self.disks[broker].store;
            store.max_offset(View::Newest, &queue.topic, queue.id)
        })
    }

    /// The oldest offset of a queue; 0 if there is no such queue.
    #[must_use]
    pub fn min_offset(&self, queue: &MessageQueue) -> QueueOffset {
        self.broker(&queue.broker).map_or(QueueOffset(0), |broker| {
            self.disks[broker].store.min_offset(&queue.topic, queue.id)
        })
    }

    /// What a group has stored of its progress, a pending reset aside.
    #[must_use]
    pub fn committed(&self, group: &ConsumerGroup, queue: &MessageQueue) -> Option<QueueOffset> {
        let disk = &self.disks[self.broker(&queue.broker)?];
        disk.offsets.stored(group, (&queue.topic, queue.id))
    }

    /// All that a group has stored of its progress at a broker: topic, queue, and where to continue.
    pub fn progress<'a>(
        &'a self,
        broker: &BrokerName,
        group: &ConsumerGroup,
    ) -> impl Iterator<Item = (&'a Topic, QueueId, QueueOffset)> + use<'a> {
        let broker = self.broker(broker).map(|broker| &self.disks[broker]);
        let stored = broker.map(|disk| disk.offsets.of_group(group));
        stored
            .into_iter()
            .flatten()
            .map(|((topic, queue), offset)| (topic, queue, offset))
    }

    /// The topics of a broker, its own and those of retries and dead letters too.
    pub fn topics<'a>(&'a self, broker: &BrokerName) -> impl Iterator<Item = &'a TopicConfig> + use<'a> {
        let broker = self.broker(broker).map(|broker| &self.disks[broker]);
        broker.into_iter().flat_map(|disk| disk.store.topics())
    }

    /// The members of a group at the master of a broker, one for each connection.
    pub fn members(
        &self,
        broker: &BrokerName,
        group: &ConsumerGroup,
    ) -> impl Iterator<Item = (ConnId, &ClientId)> {
        let of = self
            .master_of(broker)
            .and_then(|master| master.members.group(group));
        let members = of.into_iter().flat_map(|of| &of.by_conn);
        members.map(|(conn, member)| (*conn, &member.client))
    }

    /// Who holds the lock on a queue, at the master of its broker.
    #[must_use]
    pub fn lock_owner(&self, group: &ConsumerGroup, queue: &MessageQueue) -> Option<&ClientId> {
        let master = self.master_of(&queue.broker)?;
        master.locks.owner(self.now, group, queue)
    }

    /// How many pulls all replicas hold.
    #[must_use]
    pub fn held(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| match &node.role {
                Role::Replica(replica) => replica.holds.len(),
                Role::NameServer => 0,
            })
            .sum()
    }

    /// How many messages wait for their delay, on all brokers.
    #[must_use]
    pub fn scheduled(&self) -> usize {
        self.disks.iter().map(|disk| disk.schedule.len()).sum()
    }

    /// Bytes of all stored messages, on all brokers.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.disks.iter().map(|disk| disk.store.bytes()).sum()
    }

    /// How many connections stand.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.links.len()
    }

    /// What name servers that are not frozen tell of a topic.
    #[must_use]
    pub fn route(&self, topic: &Topic) -> Option<TopicRoute> {
        self.names.live.route(topic)
    }

    /// How many bytes the frame in progress on a connection still needs; a hint for the next read.
    #[must_use]
    pub fn want(&self, conn: ConnId) -> usize {
        self.links.want(conn)
    }

    /// Whether something listens at an address.
    #[must_use]
    pub fn is_up(&self, addr: &PeerAddr) -> bool {
        self.by_addr.get(addr).is_some_and(|key| self.nodes[key.0].up)
    }

    /// The brokers' wall clock.
    #[must_use]
    pub fn wall(&self) -> WallTime {
        self.epoch + self.now.saturating_since(Instant::ZERO)
    }

    fn master_of(&self, broker: &BrokerName) -> Option<&Replica> {
        let NodeKey(master) = self.master(self.broker(broker)?)?;
        match &self.nodes[master].role {
            Role::Replica(replica) => Some(replica),
            Role::NameServer => None,
        }
    }
}
