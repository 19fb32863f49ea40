//! What the replicas of one broker have in common: what would be on their disks.
//!
//! A slave has no copy of its own. It sees the messages of some time ago, and the rest as it is now.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;

use alloc::collections::BTreeMap;
use alloc::format;

use super::super::config::{Settings, TopicConfig};
use super::super::consume_offsets::ConsumeOffsets;
use super::super::cx::{Arrival, Cx};
use super::super::observation::{Observation, queue_on};
use super::super::post::Refusal;
use super::super::schedule::Schedule;
use super::super::store::{NewRecord, PutError, Store, Stored, TopicError, View};
use super::names::{SCHEDULE_TOPIC, TEMPLATE_TOPIC};
use crate::ids::{BrokerName, ConsumerGroup, PeerAddr, Topic};
use crate::time::{Instant, WallTime};
use crate::wire::code::ResponseCode;
use crate::wire::request::groups::{DataVersion, SubscriptionGroupConfig};

const PERM_TEMPLATE: i32 = 7;
const TEMPLATE_QUEUES: u32 = 8;
/// Bit of a topic's permissions.
pub(in crate::broker) const PERM_READ: i32 = 4;

/// What is stored of one broker.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Disk {
    /// Its place among the cluster's brokers.
    pub(in crate::broker) index: usize,
    pub(in crate::broker) name: BrokerName,
    /// What records name as their store host: the master's address.
    pub(in crate::broker) host: SocketAddr,
    pub(in crate::broker) store: Store,
    pub(in crate::broker) groups: BTreeMap<ConsumerGroup, SubscriptionGroupConfig>,
    pub(in crate::broker) groups_version: DataVersion,
    pub(in crate::broker) offsets: ConsumeOffsets,
    pub(in crate::broker) schedule: Schedule,
    /// How far slaves are behind.
    pub(in crate::broker) lag: Duration,
    /// Since when no master feeds the slaves.
    pub(in crate::broker) master_down_since: Option<Instant>,
}

impl Disk {
    pub(in crate::broker) fn new(
        index: usize,
        name: BrokerName,
        master: &PeerAddr,
        settings: &Settings,
    ) -> Self {
        Self {
            index,
            name,
            host: socket_addr(master),
            store: Store::new(settings),
            groups: BTreeMap::new(),
            groups_version: DataVersion::default(),
            offsets: ConsumeOffsets::new(settings.offset_flush_interval, settings.offsets_max),
            schedule: Schedule::new(settings.schedule_interval, settings.scheduled_max),
            lag: settings.replication_lag,
            master_down_since: None,
        }
    }

    /// What is stored from now on names this as its host.
    pub(in crate::broker) fn host_at(&mut self, master: &PeerAddr) {
        self.host = socket_addr(master);
    }

    /// How much of the store a replica sees.
    pub(in crate::broker) fn view(&self, now: Instant, is_master: bool) -> View {
        if is_master {
            return View::Newest;
        }
        let fed_until = self.master_down_since.unwrap_or(now);
        if self.lag.is_zero() && self.master_down_since.is_none() {
            View::Newest
        } else {
            View::AsOf(fed_until - self.lag)
        }
    }

    /// Creates a group or replaces its configuration.
    pub(in crate::broker) fn put_group(&mut self, wall: WallTime, config: SubscriptionGroupConfig) {
        self.groups.insert(config.group.clone(), config.complete());
        self.groups_changed(wall);
    }

    /// Forgets a group's configuration.
    pub(in crate::broker) fn remove_group(&mut self, wall: WallTime, group: &ConsumerGroup) {
        if self.groups.remove(group).is_some() {
            self.groups_changed(wall);
        }
    }

    const fn groups_changed(&mut self, wall: WallTime) {
        self.groups_version.counter += 1;
        self.groups_version.timestamp = wall.as_unix_millis();
    }

    /// Creates a topic or changes it, and registers it.
    pub(in crate::broker) fn put_topic(
        &mut self,
        cx: &mut Cx<'_>,
        topic: TopicConfig,
    ) -> Result<(), Refusal> {
        let name = topic.name.clone();
        if name.as_str() == SCHEDULE_TOPIC {
            // It has the queues that the delay levels need, and no name server hears of it.
            let remark = format!("The topic[{name}] is conflict with system topic.");
            return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
        }
        self.store.put_topic(topic).map_err(|error| {
            let what = match error {
                TopicError::TooManyTopics => "topics",
                TopicError::TooManyQueues => "queues",
            };
            Refusal::new(
                ResponseCode::SYSTEM_ERROR,
                format!("this broker has no room for more {what}"),
            )
        })?;
        if let Some(topic) = self.store.topic(&name) {
            cx.names.live.put_topic(&self.name, topic);
        }
        // Name servers go on naming what was deleted, but not without end.
        if cx.names.live.topics_of(&self.name) > cx.settings.topics_max.saturating_mul(2) {
            let is_stored = |topic: &Topic| self.store.topic(topic).is_some();
            cx.names.live.keep_topics(&self.name, is_stored);
        }
        Ok(())
    }

    /// Creates a topic that the broker needs itself, unless it is there.
    pub(in crate::broker) fn need_topic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &Topic,
        queues: u32,
    ) -> Result<(), Refusal> {
        match self.store.topic(name) {
            Some(_) => Ok(()),
            None => self.put_topic(cx, TopicConfig::new(name.clone(), queues)),
        }
    }

    /// Creates the topics a broker has from its first start: those that stand for itself, for its cluster
    /// and for topics to come.
    pub(in crate::broker) fn put_own_topics(&mut self, cx: &mut Cx<'_>) {
        let cluster = Topic::from(cx.names.live.cluster());
        let own = [
            (cluster, 16, true),
            (self.name.as_str().into(), 1, true),
            (
                TEMPLATE_TOPIC.into(),
                TEMPLATE_QUEUES,
                cx.settings.auto_create_topic,
            ),
        ];
        for (name, queues, wanted) in own {
            let topic = TopicConfig {
                perm: PERM_TEMPLATE,
                ..TopicConfig::new(name, queues)
            };
            if wanted {
                // A broker whose limits leave no room even for these does without.
                let _full = self.put_topic(cx, topic);
            }
        }
    }

    /// Tells the name servers all topics.
    pub(in crate::broker) fn register_topics(&self, cx: &mut Cx<'_>) {
        for topic in self.store.topics() {
            cx.names.live.put_topic(&self.name, topic);
        }
    }

    /// Stores a record where consumers can read it, and says so to those who wait for it.
    pub(in crate::broker) fn append(
        &mut self,
        cx: &mut Cx<'_>,
        record: &NewRecord<'_>,
    ) -> Result<Stored, PutError> {
        let stored = self.store.put(cx.now, record)?;
        cx.seen.note(|| Observation::Stored {
            queue: queue_on(&self.name, record.topic, record.queue_id),
            offset: stored.queue_offset,
            physical_offset: stored.physical_offset,
        });
        cx.arrivals.push(Arrival {
            broker: self.index,
            topic: record.topic.clone(),
            queue: record.queue_id,
            offset: stored.queue_offset,
            tag_code: stored.tag_code,
        });
        Ok(stored)
    }
}

/// The address as records carry it. A name that nobody has resolved is written as the local host.
fn socket_addr(addr: &PeerAddr) -> SocketAddr {
    let ip = addr.host().parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    SocketAddr::new(ip, addr.port())
}
