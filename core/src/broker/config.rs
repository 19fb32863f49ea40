//! What a cluster consists of and how its brokers are set.
//!
//! Defaults are those of Apache RocketMQ 5.5.0; each setting names the broker property it stands for.
//! Everything that grows has a limit here.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ids::{BrokerName, PeerAddr, Topic};
use crate::wire::request::route::MASTER_ID;

/// Name servers, brokers and topics of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The cluster's name; brokers register under it.
    pub name: String,
    /// Where name servers listen. All of them know the same, unless a control says otherwise.
    pub name_servers: Vec<PeerAddr>,
    /// The brokers, each with its replicas.
    pub brokers: Vec<BrokerConfig>,
    /// Topics that exist from the start, on every broker.
    pub topics: Vec<TopicConfig>,
    /// How brokers behave.
    pub settings: Settings,
}

impl ClusterConfig {
    /// One name server and `brokers` brokers without slaves, named `broker-a`, `broker-b` and so on, from the
    /// 27th on by number, at made-up addresses. A driver with real sockets replaces the addresses by its own.
    #[must_use]
    pub fn with_brokers(brokers: usize) -> Self {
        let broker = |index: usize| BrokerConfig {
            name: match ('a'..='z').nth(index) {
                Some(letter) => alloc::format!("broker-{letter}"),
                None => alloc::format!("broker-{}", index + 1),
            }
            .into(),
            replicas: [(MASTER_ID, made_up_address("10.0.0.", index + 1, 10911))].into(),
        };
        Self {
            name: "DefaultCluster".into(),
            name_servers: [made_up_address("10.0.1.", 1, 9876)].into(),
            brokers: (0..brokers).map(broker).collect(),
            topics: Vec::new(),
            settings: Settings::default(),
        }
    }

    /// Adds a topic with this many queues on each broker.
    #[must_use]
    pub fn topic(mut self, name: &str, queues: u32) -> Self {
        self.topics.push(TopicConfig::new(name.into(), queues));
        self
    }
}

fn made_up_address(net: &str, number: usize, port: u16) -> PeerAddr {
    PeerAddr::new(alloc::format!("{net}{number}"), port)
}

/// One broker: a name, and where each of its replicas listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerConfig {
    /// Its name.
    pub name: BrokerName,
    /// Addresses by broker id: 0 is the master, all others are slaves.
    pub replicas: BTreeMap<i64, PeerAddr>,
}

/// A topic on one broker (`TopicConfig`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// Its name.
    pub name: Topic,
    /// Consumers read the queues 0 to this, exclusive.
    pub read_queues: u32,
    /// Producers write to the queues 0 to this, exclusive.
    pub write_queues: u32,
    /// Permission bits: 4 read, 2 write, 1 inherit.
    pub perm: i32,
    /// Whether it is an order topic.
    pub order: bool,
}

impl TopicConfig {
    /// A topic that is read and written, with as many queues for both.
    #[must_use]
    pub const fn new(name: Topic, queues: u32) -> Self {
        Self {
            name,
            read_queues: queues,
            write_queues: queues,
            perm: 6,
            order: false,
        }
    }
}

/// How brokers behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `autoCreateTopicEnable`: a send to an unknown topic creates it.
    pub auto_create_topic: bool,
    /// `autoCreateSubscriptionGroup`: an unknown group is created.
    pub auto_create_group: bool,
    /// `longPollingEnable`: pulls without messages are held for as long as they ask; otherwise for
    /// [`Settings::short_polling`].
    pub long_polling: bool,
    /// `shortPollingTimeMills`, which is also how often holds are looked at without long polling.
    pub short_polling: Duration,
    /// How often holds are looked at with long polling (`PullRequestHoldService`, 5 s, not configurable in Java).
    pub hold_check_interval: Duration,
    /// `useServerSideResetOffset`: a reset is carried out by the broker; otherwise it is pushed to members.
    pub server_side_reset: bool,
    /// `slaveReadEnable`: a slow consumer is told to read from a slave.
    pub slave_read: bool,
    /// `offsetCheckInSlave`: a slave answers `PULL_OFFSET_MOVED` by its own bounds.
    pub offset_check_in_slave: bool,
    /// `messageDelayLevel`, from level 1.
    pub delay_levels: Vec<Duration>,
    /// How often the scheduler looks for messages whose delay is over (100 ms).
    pub schedule_interval: Duration,
    /// A client that is silent for this long is forgotten (`CHANNEL_EXPIRED_TIMEOUT`, 120 s).
    pub client_expiry: Duration,
    /// How often silent clients are looked for (10 s).
    pub client_scan_interval: Duration,
    /// A queue lock that was not renewed for this long is free (`REBALANCE_LOCK_MAX_LIVE_TIME`, 60 s).
    pub lock_expiry: Duration,
    /// `flushConsumerOffsetInterval`: offsets that are younger are lost in a crash.
    pub offset_flush_interval: Duration,
    /// How long a member may take to answer what an operator asked through a broker (10 s).
    pub relay_timeout: Duration,
    /// How far slaves are behind their master.
    pub replication_lag: Duration,
    /// How long after the master went down name servers still name it (they notice a closed connection at
    /// once, a silent one after 120 s).
    pub route_expiry: Duration,
    /// How much of the end of the log is held to be in memory (`accessMessageInMemoryMaxRatio`, 40 % of the
    /// machine's memory), in bytes. A consumer that is further behind is a slow one, and a queue whose first
    /// message is within is a young one.
    pub in_memory_bytes: u64,
    /// `maxMessageSize`, in bytes of body.
    pub message_bytes_max: u32,
    /// Stored messages per broker, in bytes; the oldest are dropped first, as if they had expired.
    pub store_bytes_max: u64,
    /// Pulls one broker holds at once; a further one is answered without being held.
    pub held_max: usize,
    /// Connections to the whole cluster; a further one is closed.
    pub connections_max: usize,
    /// Topics one broker has, retry and dead letter topics included; a further one is refused.
    pub topics_max: usize,
    /// Groups one broker knows; a further one is refused.
    pub groups_max: usize,
    /// Queues of one topic on one broker.
    pub queues_max: u32,
    /// Queue locks one broker keeps; a further one is refused.
    pub locks_max: usize,
    /// Offsets one broker stores, counted by group and queue; a further commit is refused.
    pub offsets_max: usize,
    /// Messages that wait for their delay on one broker; a further one is refused.
    pub scheduled_max: usize,
    /// Questions to members that are open on one broker at a time; a further one is refused.
    pub relays_max: usize,
    /// Rules at a time; a further one takes the place of the oldest.
    pub rules_max: usize,
    /// Requests and answers that rules hold back at a time; a further one is not held back.
    pub delayed_max: usize,
    /// Bytes of frames that one event may give rise to. Whoever would be sent a further one has asked for too
    /// much at once, and is disconnected.
    pub event_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let secs = Duration::from_secs;
        Self {
            auto_create_topic: true,
            auto_create_group: true,
            long_polling: true,
            short_polling: secs(1),
            hold_check_interval: secs(5),
            server_side_reset: true,
            slave_read: false,
            offset_check_in_slave: false,
            delay_levels: [
                1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200,
            ]
            .map(secs)
            .into(),
            schedule_interval: Duration::from_millis(100),
            client_expiry: secs(120),
            client_scan_interval: secs(10),
            lock_expiry: secs(60),
            offset_flush_interval: secs(5),
            relay_timeout: secs(10),
            replication_lag: Duration::ZERO,
            route_expiry: Duration::ZERO,
            in_memory_bytes: 4 * 1024 * 1024 * 1024,
            message_bytes_max: 4 * 1024 * 1024,
            store_bytes_max: 1024 * 1024 * 1024,
            held_max: 100_000,
            connections_max: 10_000,
            topics_max: 10_000,
            groups_max: 10_000,
            queues_max: 1_024,
            locks_max: 1_000_000,
            offsets_max: 1_000_000,
            scheduled_max: 1_000_000,
            relays_max: 10_000,
            rules_max: 10_000,
            delayed_max: 100_000,
            event_bytes_max: 256 * 1024 * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_as_many_brokers_as_were_wanted() {
        let config = ClusterConfig::with_brokers(28);
        let names: BTreeSet<&str> = config.brokers.iter().map(|broker| broker.name.as_str()).collect();
        assert_eq!(names.len(), 28);
        assert!(
            ["broker-a", "broker-z", "broker-27"]
                .iter()
                .all(|name| names.contains(name))
        );
    }
}
